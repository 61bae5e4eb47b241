// SPDX-License-Identifier: GPL-2.0

//! Which network devices and addresses have to be synced into a GID table: marks, set by notifiers
//! and taken by a worker ([`super::gid_plan`]).

use super::gid_plan::Address;
use super::gid_plan::Synced;
use super::gid_table::Ndev;

/// What a notifier knows about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The device has it, until another event about it.
    Has,
    /// Look it up in the device.
    Unknown,
}

/// A notifier event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A device was added or removed, changed its MAC address, or came up.
    Device(Ndev),
    /// The device gained or lost this address.
    Address(Ndev, Address, Word),
    /// The topology changed: a device gained or lost an upper device, another slave of a bond
    /// became active, or the port's network device was replaced. Any device may have
    /// come to be above the port, or ceased to be.
    Topology,
    /// A slot became free: the last hold of a pending entry was put.
    Room,
}

/// Maximum number of individual marks.
pub const MARKS: usize = 8;

/// One device, or one address of it, to be synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The device.
    pub ndev: Ndev,
    /// The address; `None` for all addresses of the device.
    pub address: Option<Address>,
    /// What is known about the address.
    pub word: Word,
}

impl Mark {
    /// Returns whether a sync of `self` includes `other`.
    fn covers(&self, other: &Mark) -> bool {
        self.ndev == other.ndev && (self.address.is_none() || self.address == other.address)
    }
}

/// The set of devices and addresses to be synced.
#[allow(
    clippy::large_enum_variant,
    reason = "notifiers have no memory to ask for"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// Nothing.
    #[default]
    None,
    /// These marks, at the front of the array.
    Some([Option<Mark>; MARKS]),
    /// All devices.
    All,
}

impl Marks {
    /// Adds a mark. If there is no room, the device is marked instead of its addresses; if there
    /// still is none, all devices are. For an address that is already marked, the latest word
    /// applies.
    fn add(&mut self, mark: Mark) {
        let marks = match self {
            Marks::All => return,
            Marks::None => {
                let mut marks = [None; MARKS];
                if let Some(first) = marks.first_mut() {
                    *first = Some(mark);
                }
                *self = Marks::Some(marks);
                return;
            }
            Marks::Some(marks) => marks,
        };
        if let Some(there) = marks.iter_mut().flatten().find(|m| m.covers(&mark)) {
            there.word = mark.word;
            return;
        }
        if mark.address.is_none() {
            drop_covered(marks, &mark);
        }
        if let Some(free) = marks.iter_mut().find(|there| there.is_none()) {
            *free = Some(mark);
            return;
        }
        let whole = Mark {
            address: None,
            ..mark
        };
        drop_covered(marks, &whole);
        match marks.iter_mut().find(|there| there.is_none()) {
            Some(free) => *free = Some(whole),
            None => *self = Marks::All,
        }
    }

    /// Replaces marks of addresses by marks of their devices.
    fn widen(&mut self) {
        let marks = core::mem::take(self);
        let wide = |mark: Mark| Mark {
            address: None,
            ..mark
        };
        self.merge(match marks {
            Marks::Some(marks) => Marks::Some(marks.map(|mark| mark.map(wide))),
            Marks::None | Marks::All => marks,
        });
    }

    /// Discards what is known about the marked addresses.
    fn doubt(&mut self) {
        if let Marks::Some(marks) = self {
            let marks = marks.iter_mut().flatten();
            marks.for_each(|mark| mark.word = Word::Unknown);
        }
    }

    fn merge(&mut self, other: Marks) {
        match other {
            Marks::None => {}
            Marks::All => *self = Marks::All,
            Marks::Some(marks) => marks.into_iter().flatten().for_each(|m| self.add(m)),
        }
    }

    /// Returns whether the device or one of its addresses is marked.
    pub fn has(&self, ndev: Ndev) -> bool {
        match self {
            Marks::None => false,
            Marks::Some(marks) => marks.iter().flatten().any(|mark| mark.ndev == ndev),
            Marks::All => true,
        }
    }

    /// Returns the marked addresses of a device; `None` if the device itself or all devices are
    /// marked.
    pub fn addresses_of(
        &self,
        ndev: Ndev,
    ) -> Option<impl Iterator<Item = (Address, Word)> + Clone + '_> {
        let Marks::Some(marks) = self else {
            return None;
        };
        let ours = marks.iter().flatten().filter(move |mark| mark.ndev == ndev);
        let addresses = ours
            .clone()
            .filter_map(|mark| Some((mark.address?, mark.word)));
        ours.clone()
            .all(|mark| mark.address.is_some())
            .then_some(addresses)
    }
}

/// Removes the marks that `mark` covers, and closes the gaps.
// Not inline: one function has it twice, for events that are about a whole device.
#[inline(never)]
fn drop_covered(marks: &mut [Option<Mark>; MARKS], mark: &Mark) {
    let mut kept = [None; MARKS];
    let stay = marks.iter().flatten().filter(|there| !mark.covers(there));
    for (place, there) in kept.iter_mut().zip(stay) {
        *place = Some(*there);
    }
    *marks = kept;
}

/// State shared by notifiers and the worker, under a spinlock. Its size is fixed, so that no event
/// needs memory and none is lost.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    marks: Marks,
    /// An entry found no free slot.
    starved: bool,
    /// A slot became free since the marks were last taken; a running sync may already have passed
    /// it.
    room: bool,
    /// A driver refused an entry. It is retried whenever its device is synced for any reason, so
    /// devices are marked instead of addresses.
    refused: bool,
}

impl Dirty {
    /// Records an event.
    pub fn note(&mut self, event: Event) {
        match event {
            Event::Device(ndev) => self.marks.add(Mark {
                ndev,
                address: None,
                word: Word::Unknown,
            }),
            Event::Address(ndev, address, word) => self.marks.add(Mark {
                ndev,
                address: (!self.refused).then_some(address),
                word,
            }),
            Event::Topology => self.marks = Marks::All,
            Event::Room => {
                self.room = true;
                if self.starved {
                    self.marks = Marks::All;
                }
            }
        }
    }

    /// Takes the marks for a sync. The host calls this before it takes its snapshot, so that later
    /// events set marks again.
    pub fn take(&mut self) -> Marks {
        let taken = match &self.marks {
            Marks::None => Marks::None,
            Marks::All => Marks::All,
            // One by one: usually there is one mark, and the whole array is some 300 bytes.
            Marks::Some(marks) => {
                let mut places = [None; MARKS];
                for (place, mark) in places.iter_mut().zip(marks.iter().flatten()) {
                    *place = Some(*mark);
                }
                Marks::Some(places)
            }
        };
        self.marks = Marks::None;
        self.room = false;
        taken
    }

    /// Puts back marks that could not be synced. Newer marks may have been set and taken since.
    pub fn put_back(&mut self, mut marks: Marks) {
        marks.doubt();
        self.marks.merge(marks);
    }

    /// Records the result of a sync of `marks`.
    pub fn done(&mut self, marks: &Marks, synced: &Synced) {
        let all = *marks == Marks::All;
        if all {
            self.starved = false;
            self.refused = false;
        }
        self.starved |= synced.left_out > 0;
        self.note_refused(synced);
        // Entries left out, now or before, fit into a slot that was freed after their turn. A sync
        // of all devices has already used the slots that it freed itself.
        if self.starved && (self.room || (!all && synced.deleted > 0)) {
            self.marks = Marks::All;
        }
    }

    fn note_refused(&mut self, synced: &Synced) {
        if synced.refused > 0 {
            self.refused = true;
            self.marks.widen();
        }
    }

    /// Returns whether nothing is marked.
    pub fn is_clean(&self) -> bool {
        self.marks == Marks::None
    }
}
