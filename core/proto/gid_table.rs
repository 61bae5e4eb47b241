// SPDX-License-Identifier: GPL-2.0

//! The GID table of one RoCE port.
//!
//! A table is a row of slots. The first ones, one for each GID type of the port,
//! are for default GIDs and for nothing else; IP GIDs take the first free one of
//! the others. An entry never changes its slot: user space and address handles
//! name it by index.
//!
//! # Life of an entry
//!
//! ```text
//!           add                       del
//!   free ----------> valid ---------------------> free       nobody holds it
//!                      |  del                       ^
//!                      '------> pending --last put--'        somebody does
//! ```
//!
//! A [`Hold`] outlives the entry: its GID stays readable and its slot is not given
//! to another until the last one is put. A pending entry is found by nobody, has
//! lost its network device, and the same GID may be added again, to another slot.
//!
//! # Who calls
//!
//! The host serialises changes with a mutex that may sleep (a driver's `add_gid`
//! runs under it), and readers with a lock that does not. Lookups, [`GidTable::hold`]
//! and [`GidTable::put`] never sleep.
//! Each [`Change`] answered here means one GID change event to clients.
//!
//! A host that keeps its entries in objects of its own, as `ib_core` does, has only the
//! lookups from here: [`View`], over whatever is a [`Cell`].
//!
//! Rules and errno are the C core's (`drivers/infiniband/core/cache.c`); that only
//! [`Gid::ZERO`] is refused follows IBTA volume 1, 4.1.1.

use super::errno::Errno;
use super::gid::Gid;
use super::gid::GidType;
use super::gid::GidTypes;

/// A network device, by a name that the host gives and never gives again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ndev(pub u64);

/// Where an entry comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The MAC address of the network device.
    Default,
    /// One of its IP addresses.
    Ip,
}

/// What is in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Where it comes from.
    pub origin: Origin,
    /// The identifier.
    pub gid: Gid,
    /// The packets it is for.
    pub gid_type: GidType,
    /// The network device that has the address.
    pub ndev: Ndev,
    /// Its MAC address when the entry came: drivers send from it, so that with another
    /// one it is another entry.
    pub mac: [u8; 6],
}

/// One place of the table. The host makes `gid_tbl_len` of them.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    state: State,
}

#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Free,
    Valid {
        entry: Entry,
        holds: u32,
    },
    /// Deleted, and held by so many; never zero.
    Pending {
        gid: Gid,
        gid_type: GidType,
        holds: u32,
    },
}

/// The right to read an entry after it has gone. It must be given back with
/// [`GidTable::put`], else the slot is lost.
#[must_use = "the slot is lost if it is not put"]
#[derive(Debug, PartialEq, Eq)]
pub struct Hold {
    index: usize,
}

impl Hold {
    /// The slot of the entry.
    pub fn index(&self) -> usize {
        self.index
    }
}

/// Whether a call changed the table.
#[must_use = "clients are told of changes"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It did, in the slot of this index.
    Made(usize),
    /// All was as wanted, in the slot of this index.
    Nothing(usize),
}

/// Where an entry is, or would go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is in this slot.
    There(usize),
    /// It is not there, and this slot is free for it.
    Free(usize),
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The zero GID is in no table.
    ZeroGid,
    /// No slot of the kind is free; pending entries take theirs until they are put.
    Full,
    /// No such entry to delete.
    NotThere,
    /// The index is outside the table.
    NoSuchIndex,
    /// The slot has no valid entry.
    Empty,
    /// Nothing has what is looked for.
    NotFound,
    /// The entry is pending and has lost its network device.
    NoNdev,
}

impl Refusal {
    /// The number for it, as the callers of `rdma_get_gid_attr`, `rdma_find_gid`,
    /// `rdma_read_gid_l2_fields` and the others know it.
    pub const fn errno(self) -> Errno {
        match self {
            Self::ZeroGid | Self::NotThere | Self::NoSuchIndex => Errno::Einval,
            Self::Full => Errno::Enospc,
            Self::Empty => Errno::Enodata,
            Self::NotFound => Errno::Enoent,
            Self::NoNdev => Errno::Enodev,
        }
    }
}

/// What lookups ask of a slot, whatever the host keeps there.
pub trait Cell {
    /// The valid entry in it.
    fn valid(&self) -> Option<&Entry>;

    /// Whether nothing is in it, no pending entry either.
    fn is_free(&self) -> bool;
}

/// How far a table is used: the slots from here on are free, and nobody looks at them. Tables
/// have a thousand, and ports a few GIDs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used(usize);

impl Used {
    /// A slot is not free any more.
    pub fn took(&mut self, index: usize) {
        self.0 = self.0.max(index.saturating_add(1));
    }

    /// A slot became free, or several did.
    pub fn freed<C: Cell>(&mut self, cells: &[C]) {
        let last = self.of(cells).iter().rposition(|cell| !cell.is_free());
        self.0 = last.map_or(0, |index| index.saturating_add(1));
    }

    /// The slots that are not free, and those between.
    pub fn of<C>(self, cells: &[C]) -> &[C] {
        cells.get(..self.0).unwrap_or(cells)
    }
}

/// A table to look into.
#[derive(Clone, Copy, Debug)]
pub struct View<'s, C> {
    cells: &'s [C],
    /// Those of them that may be in use.
    front: &'s [C],
    defaults: usize,
}

impl<'s, C: Cell> View<'s, C> {
    /// The table in these slots, of a port that knows these types.
    pub fn new(cells: &'s [C], types: GidTypes, used: Used) -> Self {
        Self {
            cells,
            front: used.of(cells),
            defaults: types.count().min(cells.len()),
        }
    }

    /// The slots that may be in use, by index, from this index on.
    fn cells_from(&self, from: usize) -> impl Iterator<Item = (usize, &'s C)> + 's {
        let cells = self.front.get(from..).unwrap_or_default();
        (from..self.front.len()).zip(cells)
    }

    /// The valid entries, by index, from this index on.
    fn entries_from(&self, from: usize) -> impl Iterator<Item = (usize, &'s Entry)> + 's {
        self.cells_from(from)
            .filter_map(|(index, cell)| Some((index, cell.valid()?)))
    }

    /// The valid entries, by index.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &'s Entry)> + 's {
        self.entries_from(0)
    }

    /// The first valid entry from this index on.
    pub fn next(&self, from: usize) -> Option<(usize, &'s Entry)> {
        self.entries_from(from).next()
    }

    /// The first valid entry from this index on that is looked for.
    pub fn find_from(
        &self,
        from: usize,
        mut is_it: impl FnMut(&Entry) -> bool,
    ) -> Option<(usize, Entry)> {
        self.entries_from(from)
            .find(|(_, entry)| is_it(entry))
            .map(|(index, entry)| (index, *entry))
    }

    /// Where an entry is, or would go.
    ///
    /// An IP GID is there also as a default GID: the link-local address that a
    /// network device makes from its MAC is not listed twice. A default GID is
    /// there if its device has one of the type, whatever its bytes: when the MAC
    /// changes, the old one has to be deleted first.
    pub fn place(&self, entry: &Entry) -> Result<Place, Refusal> {
        if entry.gid.is_zero() {
            return Err(Refusal::ZeroGid);
        }
        let range = match entry.origin {
            Origin::Default => 0..self.defaults,
            Origin::Ip => self.defaults..self.cells.len(),
        };
        // One look at each slot.
        let mut free = None;
        for (index, cell) in self.cells_from(0) {
            let Some(there) = cell.valid() else {
                if free.is_none() && range.contains(&index) && cell.is_free() {
                    free = Some(index);
                }
                continue;
            };
            let same = match entry.origin {
                Origin::Default => there.origin == Origin::Default,
                Origin::Ip => there.gid == entry.gid,
            };
            if same && there.gid_type == entry.gid_type && there.ndev == entry.ndev {
                return Ok(Place::There(index));
            }
        }
        let behind = range.start.max(self.front.len());
        let free = free.or_else(|| range.contains(&behind).then_some(behind));
        free.map(Place::Free).ok_or(Refusal::Full)
    }

    /// The valid entry of an index.
    pub fn get(&self, index: usize) -> Result<&'s Entry, Refusal> {
        let cell = self.cells.get(index).ok_or(Refusal::NoSuchIndex)?;
        cell.valid().ok_or(Refusal::Empty)
    }

    /// The first entry with this GID and type, of this device if one is named.
    pub fn find(&self, gid: &Gid, gid_type: GidType, ndev: Option<Ndev>) -> Result<usize, Refusal> {
        self.find_by(gid, |e| {
            e.gid_type == gid_type && ndev.is_none_or(|ndev| ndev == e.ndev)
        })
    }

    /// The first entry with this GID that the filter likes. The filter runs where
    /// nothing may sleep.
    pub fn find_by(
        &self,
        gid: &Gid,
        mut filter: impl FnMut(&Entry) -> bool,
    ) -> Result<usize, Refusal> {
        self.entries()
            .find(|&(_, entry)| entry.gid == *gid && filter(entry))
            .map(|(index, _)| index)
            .ok_or(Refusal::NotFound)
    }
}

/// The table, in slots that the host lends.
#[derive(Debug)]
pub struct GidTable<'s> {
    slots: &'s mut [Slot],
    types: GidTypes,
}

impl<'s> GidTable<'s> {
    /// A table in these slots, for a port that knows these types. The slots keep
    /// what they hold, so that a host may make the value anew for each call.
    pub fn new(slots: &'s mut [Slot], types: GidTypes) -> Self {
        Self { slots, types }
    }

    /// The types of the port.
    pub fn types(&self) -> GidTypes {
        self.types
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether the port has no table at all.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The valid entries, by index.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((index, slot.valid()?)))
    }

    /// The table to look into.
    pub fn view(&self) -> View<'_, Slot> {
        View::new(self.slots, self.types, Used(self.slots.len()))
    }

    /// Where an entry is, or would go: [`View::place`].
    pub fn place(&self, entry: &Entry) -> Result<Place, Refusal> {
        self.view().place(entry)
    }

    /// Puts an entry into the free slot that [`GidTable::place`] found for it. False
    /// if it is not free: somebody changed the table between.
    pub fn insert(&mut self, index: usize, entry: Entry) -> bool {
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.is_free()) else {
            return false;
        };
        slot.state = State::Valid { entry, holds: 0 };
        true
    }

    /// Deletes the valid entry of a slot, and answers it.
    pub fn delete(&mut self, index: usize) -> Option<Entry> {
        let slot = self.slots.get_mut(index)?;
        let entry = *slot.valid()?;
        slot.delete();
        Some(entry)
    }

    /// Adds an entry, unless it is there: [`GidTable::place`] and
    /// [`GidTable::insert`], for a host without a driver to ask between.
    pub fn add(&mut self, entry: Entry) -> Result<Change, Refusal> {
        match self.place(&entry)? {
            Place::There(index) => Ok(Change::Nothing(index)),
            Place::Free(index) if self.insert(index, entry) => Ok(Change::Made(index)),
            Place::Free(_) => Err(Refusal::Full),
        }
    }

    /// Deletes an IP GID. The default GIDs that have the same bytes stay.
    pub fn del_ip(&mut self, gid: &Gid, gid_type: GidType, ndev: Ndev) -> Result<Change, Refusal> {
        let index = self
            .entries()
            .find(|(_, e)| {
                e.origin == Origin::Ip && e.gid == *gid && e.gid_type == gid_type && e.ndev == ndev
            })
            .map(|(index, _)| index);
        self.del_found(index)
    }

    /// Deletes the default GID of this type of a device.
    pub fn del_default(&mut self, gid_type: GidType, ndev: Ndev) -> Result<Change, Refusal> {
        let index = self.find_default(gid_type, ndev);
        self.del_found(index)
    }

    /// Deletes everything of a device, default GIDs too; answers how many went.
    pub fn del_ndev(&mut self, ndev: Ndev) -> usize {
        let mut gone = 0_usize;
        for slot in self.slots.iter_mut() {
            if slot.valid().is_some_and(|entry| entry.ndev == ndev) {
                slot.delete();
                gone = gone.wrapping_add(1);
            }
        }
        gone
    }

    fn find_default(&self, gid_type: GidType, ndev: Ndev) -> Option<usize> {
        self.entries()
            .find(|(_, e)| e.origin == Origin::Default && e.gid_type == gid_type && e.ndev == ndev)
            .map(|(index, _)| index)
    }

    fn del_found(&mut self, index: Option<usize>) -> Result<Change, Refusal> {
        let index = index.ok_or(Refusal::NotThere)?;
        self.slots.get_mut(index).ok_or(Refusal::NotThere)?.delete();
        Ok(Change::Made(index))
    }

    /// The valid entry of an index.
    pub fn get(&self, index: usize) -> Result<&Entry, Refusal> {
        let slot = self.slots.get(index).ok_or(Refusal::NoSuchIndex)?;
        slot.valid().ok_or(Refusal::Empty)
    }

    /// See [`View::find`].
    pub fn find(&self, gid: &Gid, gid_type: GidType, ndev: Option<Ndev>) -> Result<usize, Refusal> {
        self.view().find(gid, gid_type, ndev)
    }

    /// See [`View::find_by`].
    pub fn find_by(&self, gid: &Gid, filter: impl FnMut(&Entry) -> bool) -> Result<usize, Refusal> {
        self.view().find_by(gid, filter)
    }

    /// Holds the valid entry of an index.
    pub fn hold(&mut self, index: usize) -> Result<Hold, Refusal> {
        let slot = self.slots.get_mut(index).ok_or(Refusal::NoSuchIndex)?;
        let State::Valid { holds, .. } = &mut slot.state else {
            return Err(Refusal::Empty);
        };
        // A count that could wrap would free a slot in use: refuse long before.
        *holds = holds.checked_add(1).ok_or(Refusal::Full)?;
        Ok(Hold { index })
    }

    /// Holds once more what is held already, valid or pending.
    pub fn hold_again(&mut self, hold: &Hold) -> Result<Hold, Refusal> {
        let slot = self.held(hold).ok_or(Refusal::NotFound)?;
        let (State::Valid { holds, .. } | State::Pending { holds, .. }) = &mut slot.state else {
            return Err(Refusal::NotFound);
        };
        *holds = holds.checked_add(1).ok_or(Refusal::Full)?;
        Ok(Hold { index: hold.index })
    }

    /// Gives a hold back. True if that made the slot free.
    pub fn put(&mut self, hold: Hold) -> bool {
        let Some(slot) = self.held(&hold) else {
            return false;
        };
        match &mut slot.state {
            State::Free => false,
            State::Valid { holds, .. } => {
                *holds = holds.saturating_sub(1);
                false
            }
            State::Pending { holds, .. } => {
                *holds = holds.saturating_sub(1);
                let last = *holds == 0;
                if last {
                    slot.state = State::Free;
                }
                last
            }
        }
    }

    /// The identifier and type of what is held; they stay when the entry goes.
    pub fn held_gid(&mut self, hold: &Hold) -> Option<(Gid, GidType)> {
        match self.held(hold)?.state {
            State::Free => None,
            State::Valid { entry, .. } => Some((entry.gid, entry.gid_type)),
            State::Pending { gid, gid_type, .. } => Some((gid, gid_type)),
        }
    }

    /// The network device of what is held, which goes with the entry.
    pub fn held_ndev(&mut self, hold: &Hold) -> Result<Ndev, Refusal> {
        match self.held(hold).map(|slot| &slot.state) {
            Some(State::Valid { entry, .. }) => Ok(entry.ndev),
            Some(State::Pending { .. } | State::Free) | None => Err(Refusal::NoNdev),
        }
    }

    /// The slot of a hold. It has had the same entry all the time: it is not given
    /// to another while the hold is there.
    fn held(&mut self, hold: &Hold) -> Option<&mut Slot> {
        self.slots.get_mut(hold.index)
    }
}

impl Cell for Slot {
    fn valid(&self) -> Option<&Entry> {
        self.valid()
    }

    fn is_free(&self) -> bool {
        self.is_free()
    }
}

impl Slot {
    fn valid(&self) -> Option<&Entry> {
        match &self.state {
            State::Valid { entry, .. } => Some(entry),
            State::Free | State::Pending { .. } => None,
        }
    }

    /// Whether nothing is in it, so that the host may let go of it.
    pub fn is_free(&self) -> bool {
        matches!(self.state, State::Free)
    }

    fn delete(&mut self) {
        if let State::Valid { entry, holds } = self.state {
            self.state = match holds {
                0 => State::Free,
                holds => State::Pending {
                    gid: entry.gid,
                    gid_type: entry.gid_type,
                    holds,
                },
            };
        }
    }
}
