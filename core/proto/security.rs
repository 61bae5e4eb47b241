// SPDX-License-Identifier: GPL-2.0

//! Which partitions a queue pair is in, and who must be asked whether it may be.
//!
//! A security module decides by the subnet's prefix and the P_Key. A queue pair names
//! its partitions by places: a port and an index of that port's P_Key table. So it is
//! judged twice: when it is given other places ([`admit`]), and when what is in these
//! places, or the policy, has changed ([`lost`]).
//!
//! Both happen under the queue pair's lock, and a change is visible before the walk over
//! the queue pairs ([`Walk`]) that it causes begins. So whoever was judged by the old
//! state of things is met by the walk afterwards, and nobody is forgotten.

use super::qp::Attrs;

/// A place in a P_Key table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the port.
    pub port: u32,
    /// Index in its table.
    pub index: u16,
}

/// What a security module is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Upper half of the GIDs of the port.
    pub subnet_prefix: u64,
    /// The key.
    pub pkey: u16,
}

/// What a change of a queue pair says of its places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Another port.
    pub port: Option<u32>,
    /// Another index.
    pub index: Option<u16>,
    /// Another alternate path.
    pub alternate: Option<Place>,
}

impl Change {
    /// What the attributes in `mask` say; none, if they say nothing of places.
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

/// The places of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    main: Option<Place>,
    alternate: Option<Place>,
}

impl Places {
    /// The places after a change. The first time, port and index come together; half of it
    /// is no place.
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

    /// The places that there are.
    pub fn iter(&self) -> impl Iterator<Item = Place> {
        [self.main, self.alternate].into_iter().flatten()
    }
}

/// Whether a queue pair may have these places. `look` finds what is in one, `ask` asks the
/// security module for all users of the queue pair.
///
/// # Errors
///
/// The first of `look` or `ask`.
pub fn admit<E>(
    places: &Places,
    look: impl Fn(Place) -> Result<Partition, E>,
    mut ask: impl FnMut(Partition) -> Result<(), E>,
) -> Result<(), E> {
    places.iter().try_for_each(|place| ask(look(place)?))
}

/// Whether a queue pair with these places has lost its right to one on `port`. A place that
/// holds nothing any more takes no right: nothing can be sent by it.
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

/// The judged state of one queue pair: its places, and whether it is being destroyed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Standing {
    places: Places,
    leaving: bool,
}

impl Standing {
    /// Its places.
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// The driver has taken a change over.
    pub fn moved(&mut self, to: Places) {
        self.places = to;
    }

    /// The driver is about to be asked to destroy it: from now on it is not touched.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// The driver has refused. What changed meanwhile was not looked at: the caller has to
    /// [`admit`] it again.
    pub fn stay(&mut self) {
        self.leaving = false;
    }

    /// Whether it is being destroyed.
    pub const fn is_leaving(&self) -> bool {
        self.leaving
    }
}

/// Numbers of queue pairs, in the order in which they came. They are never given again.
#[derive(Debug, Default)]
pub struct Numbers(u64);

impl Numbers {
    /// The next.
    pub fn take(&mut self) -> u64 {
        let number = self.0;
        // Not even at one a nanosecond does it wrap in 500 years.
        self.0 = number.wrapping_add(1);
        number
    }

    /// A walk over all that have been given.
    pub const fn walk(&self) -> Walk {
        Walk {
            next: 0,
            end: self.0,
        }
    }
}

/// A walk over queue pairs by their numbers. The list may change between two steps. Who
/// comes after the walk has begun has been judged by the new state of things, and is left
/// out: so the walk ends.
#[derive(Debug)]
pub struct Walk {
    next: u64,
    end: u64,
}

impl Walk {
    /// The least number to look for.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// The least number that was found, if it belongs to the walk.
    #[must_use]
    pub fn step(&mut self, found: u64) -> bool {
        if found < self.next || found >= self.end {
            return false;
        }
        self.next = found.wrapping_add(1);
        true
    }
}
