// SPDX-License-Identifier: GPL-2.0

//! What of the network devices has to be looked at again: marks, made by notifiers and taken by
//! a worker ([`super::gid_plan`]).

use super::gid_plan::Address;
use super::gid_plan::Synced;
use super::gid_table::Ndev;

/// What is known of an address when it is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Its device has it, until something else is told of it.
    Has,
    /// Its device has to be asked.
    Ask,
}

/// What happened, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A device came, went, changed its MAC, or came up.
    Device(Ndev),
    /// A device got or lost this address.
    Address(Ndev, Address, Word),
    /// A device was put under another or taken from there, another slave of a bond
    /// became active, or the port's own device was changed: who is above the port
    /// may have changed for any device.
    Topology,
    /// A slot became free because the last hold of a pending entry was put.
    Room,
}

/// The most marks that are kept one by one.
pub const MARKS: usize = 8;

/// Something to look at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Of this device.
    pub ndev: Ndev,
    /// This address alone, or all that it gives the port.
    pub address: Option<Address>,
    /// Of that address.
    pub word: Word,
}

impl Mark {
    /// Whether who looks at `self` looks at `other`, too.
    fn covers(&self, other: &Mark) -> bool {
        self.ndev == other.ndev && (self.address.is_none() || self.address == other.address)
    }
}

/// What is to be looked at again.
#[allow(
    clippy::large_enum_variant,
    reason = "notifiers have no memory to ask for"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// Nothing.
    #[default]
    None,
    /// These; the places after the last are empty.
    Some([Option<Mark>; MARKS]),
    /// All devices.
    All,
}

impl Marks {
    /// Adds one. When there are too many, a device is marked in place of its addresses, then
    /// all devices. Of an address that is marked already the last word counts.
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

    /// Marks devices in place of their addresses.
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

    /// Forgets what was known of addresses.
    fn doubt(&mut self) {
        if let Marks::Some(marks) = self {
            let marks = marks.iter_mut().flatten();
            marks.for_each(|mark| mark.word = Word::Ask);
        }
    }

    fn merge(&mut self, other: Marks) {
        match other {
            Marks::None => {}
            Marks::All => *self = Marks::All,
            Marks::Some(marks) => marks.into_iter().flatten().for_each(|m| self.add(m)),
        }
    }

    /// Whether a device is marked, itself or an address.
    pub fn has(&self, ndev: Ndev) -> bool {
        match self {
            Marks::None => false,
            Marks::Some(marks) => marks.iter().flatten().any(|mark| mark.ndev == ndev),
            Marks::All => true,
        }
    }

    /// The addresses of a device that are marked, or `None`: all that it has.
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

/// Empties the places of what a mark covers, and closes the gaps.
fn drop_covered(marks: &mut [Option<Mark>; MARKS], mark: &Mark) {
    let mut kept = [None; MARKS];
    let stay = marks.iter().flatten().filter(|there| !mark.covers(there));
    for (place, there) in kept.iter_mut().zip(stay) {
        *place = Some(*there);
    }
    *marks = kept;
}

/// What to look at again. It has a fixed size: no event is ever lost, and
/// none needs memory. Notifiers and the worker share it under a spinlock.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    marks: Marks,
    /// Some entry found no room.
    starved: bool,
    /// A slot became free since the marks were taken last: a sync may have been past it already.
    room: bool,
    /// A driver refused some entry, which is tried again whenever its device is looked at, for
    /// whatever reason: so devices are marked in place of addresses.
    refused: bool,
}

impl Dirty {
    /// Takes note of an event.
    pub fn note(&mut self, event: Event) {
        match event {
            Event::Device(ndev) => self.marks.add(Mark {
                ndev,
                address: None,
                word: Word::Ask,
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

    /// Takes the marks, for a sync. The host does this before it takes its
    /// snapshot: what happens later marks anew.
    pub fn take(&mut self) -> Marks {
        let taken = match &self.marks {
            Marks::None => Marks::None,
            Marks::All => Marks::All,
            // One by one: mostly there is one, and all places are some 300 bytes.
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

    /// Puts marks back whose sync could not be done. Others may have come and been taken since.
    pub fn put_back(&mut self, mut marks: Marks) {
        marks.doubt();
        self.marks.merge(marks);
    }

    /// Takes note of what a sync of these marks did.
    pub fn done(&mut self, marks: &Marks, synced: &Synced) {
        let all = *marks == Marks::All;
        if all {
            self.starved = false;
            self.refused = false;
        }
        self.starved |= synced.left_out > 0;
        self.note_refused(synced);
        // What was left out, now or before, fits into a slot that became free after its turn. A
        // sync of all has used what it deleted itself.
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

    /// Whether nothing is marked.
    pub fn is_clean(&self) -> bool {
        self.marks == Marks::None
    }
}
