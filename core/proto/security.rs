// SPDX-License-Identifier: GPL-2.0

//! Which partitions a queue pair uses, and when the security module must be asked about them.
//!
//! A security module decides by subnet prefix and P_Key. A queue pair refers to its partitions by
//! position: a port and an index into that port's P_Key table. So it is checked twice: when its
//! positions change ([`admit`]), and when the content of these positions, or the policy, has
//! changed ([`lost`]).
//!
//! Both checks run under the queue pair's lock. A change is visible before the walk over the queue
//! pairs ([`Walk`]) that it triggers begins. So the walk visits every queue pair that was checked
//! against the old state, and none is missed.

use super::qp::Attrs;

/// A position in a P_Key table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Port number.
    pub port: u32,
    /// Index in the port's P_Key table.
    pub index: u16,
}

/// A partition, as the security module is asked about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Subnet prefix: upper half of the port's GIDs.
    pub subnet_prefix: u64,
    /// The P_Key.
    pub pkey: u16,
}

/// Change of the positions of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// New port.
    pub port: Option<u32>,
    /// New P_Key index.
    pub index: Option<u16>,
    /// New alternate path.
    pub alternate: Option<Place>,
}

impl Change {
    /// The change that the attributes in `mask` describe; `None` if they do not concern positions.
    pub fn new(mask: Attrs, port: u32, index: u16, alternate: Place) -> Option<Self> {
        mask.has_any(Attrs(
            Attrs::PORT.0 | Attrs::PKEY_INDEX.0 | Attrs::ALT_PATH.0,
        ))
        .then_some(Self {
            port: mask.has_any(Attrs::PORT).then_some(port),
            index: mask.has_any(Attrs::PKEY_INDEX).then_some(index),
            alternate: mask.has_any(Attrs::ALT_PATH).then_some(alternate),
        })
    }
}

/// The positions of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    main: Option<Place>,
    alternate: Option<Place>,
}

impl Places {
    /// Returns the positions after a change. The first change must set both port and index; one
    /// alone is not a position.
    pub fn after(self, change: Change) -> Self {
        let main = match (self.main, change.port, change.index) {
            (_, Some(port), Some(index)) => Some(Place { port, index }),
            (Some(old), port, index) => Some(Place {
                port: port.unwrap_or(old.port),
                index: index.unwrap_or(old.index),
            }),
            (None, _, _) => None,
        };
        Self {
            main,
            alternate: change.alternate.or(self.alternate),
        }
    }

    /// The positions that are set.
    pub fn iter(&self) -> impl Iterator<Item = Place> {
        [self.main, self.alternate].into_iter().flatten()
    }
}

/// Checks whether a queue pair may use these positions. `look` reads the content of a position,
/// `ask` asks the security module for all users of the queue pair.
///
/// # Errors
///
/// The first error of `look` or `ask`.
pub fn admit<E>(
    places: &Places,
    look: impl Fn(Place) -> Result<Partition, E>,
    mut ask: impl FnMut(Partition) -> Result<(), E>,
) -> Result<(), E> {
    places.iter().try_for_each(|place| ask(look(place)?))
}

/// Returns whether a queue pair has lost the right to one of its positions on `port`. A position
/// without content is skipped: nothing can be sent with it.
pub fn lost<E>(
    places: &Places,
    port: u32,
    look: impl Fn(Place) -> Result<Partition, E>,
    mut ask: impl FnMut(Partition) -> Result<(), E>,
) -> bool {
    places
        .iter()
        .filter(|place| place.port == port)
        .filter_map(|place| look(place).ok())
        .any(|partition| ask(partition).is_err())
}

/// Security state of a queue pair: its positions, and whether it is being destroyed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Standing {
    places: Places,
    leaving: bool,
}

impl Standing {
    /// The positions of the queue pair.
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// Records a change that the driver has accepted.
    pub fn moved(&mut self, to: Places) {
        self.places = to;
    }

    /// Records that the driver is about to destroy the queue pair: it is skipped from now on.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// Records that the driver refused. Changes in the meantime were not checked: the caller has to
    /// [`admit`] the queue pair again.
    pub fn stay(&mut self) {
        self.leaving = false;
    }

    /// Returns whether the queue pair is being destroyed.
    pub const fn is_leaving(&self) -> bool {
        self.leaving
    }
}

/// Numbers of queue pairs, in order of creation, never reused.
#[derive(Debug, Default)]
pub struct Numbers(u64);

impl Numbers {
    /// Returns the next number.
    pub fn take(&mut self) -> u64 {
        let number = self.0;
        // Does not wrap within 500 years, even at one per nanosecond.
        self.0 = number.wrapping_add(1);
        number
    }

    /// A walk over all numbers assigned so far.
    pub const fn walk(&self) -> Walk {
        Walk {
            next: 0,
            end: self.0,
        }
    }
}

/// A walk over queue pairs by number. The list may change between two steps. Queue pairs created
/// after the start of the walk were checked against the new state and are skipped, so the walk
/// ends.
#[derive(Debug)]
pub struct Walk {
    next: u64,
    end: u64,
}

impl Walk {
    /// The smallest number to look for.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Advances past `found`, the smallest number that was found. Returns whether it belongs to the
    /// walk.
    #[must_use]
    pub fn step(&mut self, found: u64) -> bool {
        if found < self.next || found >= self.end {
            return false;
        }
        self.next = found.wrapping_add(1);
        true
    }
}
