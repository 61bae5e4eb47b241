// SPDX-License-Identifier: GPL-2.0

//! The GID table of one RoCE port.
//!
//! A table is an array of slots. The first ones, one per GID type of the port, are reserved for
//! default GIDs; an IP GID takes the first free slot of the others. An entry never changes its
//! slot: user space and address handles refer to it by index.
//!
//! # Life of an entry
//!
//! ```text
//!           add                       del
//!   free ----------> valid ---------------------> free       not held
//!                      |  del                       ^
//!                      '------> pending --last put--'        held
//! ```
//!
//! A [`Hold`] outlives the entry: its GID stays readable, and its slot is not reused until the last
//! hold is put. Lookups do not find a pending entry. It has lost its network device, and the same
//! GID may be added again, to another slot.
//!
//! # Context
//!
//! The host serialises changes with a mutex (a driver's `add_gid` runs under it and may sleep), and
//! readers with a lock that does not sleep. Lookups, [`GidTable::hold`] and [`GidTable::put`] never
//! sleep. Each [`Change::Made`] means one GID change event to clients.
//!
//! A host with its own entry objects, such as `ib_core`, uses only the lookups: a [`View`] over any
//! type that is a [`Cell`].
//!
//! Rules and errno are the C core's (`drivers/infiniband/core/cache.c`). Only [`Gid::ZERO`] is
//! refused, as IBTA volume 1, 4.1.1 says.

use super::errno::Errno;
use super::gid::Gid;
use super::gid::GidType;
use super::gid::GidTypes;

/// Identity of a network device: a number that the host assigns and never reuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ndev(pub u64);

/// Origin of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The MAC address of the network device.
    Default,
    /// One of its IP addresses.
    Ip,
}

/// Content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Origin of the GID.
    pub origin: Origin,
    /// The GID.
    pub gid: Gid,
    /// The packet format it is for.
    pub gid_type: GidType,
    /// The network device that has the address.
    pub ndev: Ndev,
    /// MAC address of the device when the entry was added. Drivers send from it, so an entry with
    /// another MAC address is another entry.
    pub mac: [u8; 6],
}

/// A slot of the table. The host allocates `gid_tbl_len` of them.
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
    /// Deleted, with this many holds left; never zero.
    Pending {
        gid: Gid,
        gid_type: GidType,
        holds: u32,
    },
}

/// The right to read an entry after its deletion. It must be given back with [`GidTable::put`], or
/// the slot is lost.
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
    /// The table changed, in this slot.
    Made(usize),
    /// The table was as wanted already, in this slot.
    Nothing(usize),
}

/// Where an entry is, or would be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is in this slot.
    There(usize),
    /// It is in no slot; this slot is free for it.
    Free(usize),
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The zero GID is never in a table.
    ZeroGid,
    /// No slot for this origin is free; pending entries occupy theirs until they are put.
    Full,
    /// There is no such entry to delete.
    NotThere,
    /// The index is outside the table.
    NoSuchIndex,
    /// The slot has no valid entry.
    Empty,
    /// No entry matches.
    NotFound,
    /// The entry is pending and has lost its network device.
    NoNdev,
}

impl Refusal {
    /// The errno that callers of `rdma_get_gid_attr`, `rdma_find_gid`, `rdma_read_gid_l2_fields`
    /// and the others see.
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

/// What lookups need to know about a slot, however the host stores it.
pub trait Cell {
    /// The valid entry in the slot.
    fn valid(&self) -> Option<&Entry>;

    /// Returns whether the slot is free: holds neither a valid nor a pending entry.
    fn is_free(&self) -> bool;
}

/// Number of slots up to the last one in use: all later ones are free and are skipped by lookups.
/// Tables have a thousand slots, of which ports use a few.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used(usize);

impl Used {
    /// Records that a slot is in use.
    pub fn took(&mut self, index: usize) {
        self.0 = self.0.max(index.saturating_add(1));
    }

    /// Records that one or more slots became free.
    pub fn freed<C: Cell>(&mut self, cells: &[C]) {
        let last = self.of(cells).iter().rposition(|cell| !cell.is_free());
        self.0 = last.map_or(0, |index| index.saturating_add(1));
    }

    /// The slots up to the last one in use.
    pub fn of<C>(self, cells: &[C]) -> &[C] {
        cells.get(..self.0).unwrap_or(cells)
    }
}

/// Read-only view of a table.
#[derive(Clone, Copy, Debug)]
pub struct View<'s, C> {
    cells: &'s [C],
    /// The slots that may be in use.
    front: &'s [C],
    defaults: usize,
}

impl<'s, C: Cell> View<'s, C> {
    /// The table in these slots, of a port that supports `types`.
    pub fn new(cells: &'s [C], types: GidTypes, used: Used) -> Self {
        Self {
            cells,
            front: used.of(cells),
            defaults: types.count().min(cells.len()),
        }
    }

    /// The slots that may be in use, with their indices, starting at `from`.
    fn cells_from(&self, from: usize) -> impl Iterator<Item = (usize, &'s C)> + 's {
        let cells = self.front.get(from..).unwrap_or_default();
        (from..self.front.len()).zip(cells)
    }

    /// The valid entries, with their indices, starting at `from`.
    fn entries_from(&self, from: usize) -> impl Iterator<Item = (usize, &'s Entry)> + 's {
        self.cells_from(from)
            .filter_map(|(index, cell)| Some((index, cell.valid()?)))
    }

    /// The valid entries, with their indices.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &'s Entry)> + 's {
        self.entries_from(0)
    }

    /// The first valid entry at or after index `from`.
    pub fn next(&self, from: usize) -> Option<(usize, &'s Entry)> {
        self.entries_from(from).next()
    }

    /// The first valid entry at or after index `from` for which `is_it` returns true.
    pub fn find_from(
        &self,
        from: usize,
        mut is_it: impl FnMut(&Entry) -> bool,
    ) -> Option<(usize, Entry)> {
        self.entries_from(from)
            .find(|(_, entry)| is_it(entry))
            .map(|(index, entry)| (index, *entry))
    }

    /// Returns where an entry is, or would be added.
    ///
    /// An IP GID also counts as present if it is a default GID: the link-local address that a
    /// network device derives from its MAC is not listed twice. A default GID counts as present if
    /// its device has one of the type, whatever its bytes: when the MAC changes, the old one has to
    /// be deleted first.
    pub fn place(&self, entry: &Entry) -> Result<Place, Refusal> {
        if entry.gid.is_zero() {
            return Err(Refusal::ZeroGid);
        }
        let range = match entry.origin {
            Origin::Default => 0..self.defaults,
            Origin::Ip => self.defaults..self.cells.len(),
        };
        // One pass over the slots.
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

    /// The valid entry at an index.
    pub fn get(&self, index: usize) -> Result<&'s Entry, Refusal> {
        let cell = self.cells.get(index).ok_or(Refusal::NoSuchIndex)?;
        cell.valid().ok_or(Refusal::Empty)
    }

    /// The first entry with this GID and type, and of `ndev` if given.
    pub fn find(&self, gid: &Gid, gid_type: GidType, ndev: Option<Ndev>) -> Result<usize, Refusal> {
        self.find_by(gid, |e| {
            e.gid_type == gid_type && ndev.is_none_or(|ndev| ndev == e.ndev)
        })
    }

    /// The first entry with this GID that `filter` accepts. The filter must not sleep.
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

/// The table, in slots that the host owns.
#[derive(Debug)]
pub struct GidTable<'s> {
    slots: &'s mut [Slot],
    types: GidTypes,
}

impl<'s> GidTable<'s> {
    /// A table in these slots, for a port that supports `types`. The slots keep their content, so a
    /// host may create this value for each call.
    pub fn new(slots: &'s mut [Slot], types: GidTypes) -> Self {
        Self { slots, types }
    }

    /// GID types of the port.
    pub fn types(&self) -> GidTypes {
        self.types
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether the port has no slots.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The valid entries, with their indices.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((index, slot.valid()?)))
    }

    /// A read-only view of the table.
    pub fn view(&self) -> View<'_, Slot> {
        View::new(self.slots, self.types, Used(self.slots.len()))
    }

    /// Returns where an entry is, or would be added: [`View::place`].
    pub fn place(&self, entry: &Entry) -> Result<Place, Refusal> {
        self.view().place(entry)
    }

    /// Puts an entry into the free slot that [`GidTable::place`] returned. Returns false if the
    /// slot is not free: the table changed in between.
    pub fn insert(&mut self, index: usize, entry: Entry) -> bool {
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.is_free()) else {
            return false;
        };
        slot.state = State::Valid { entry, holds: 0 };
        true
    }

    /// Deletes the valid entry of a slot, and returns it.
    pub fn delete(&mut self, index: usize) -> Option<Entry> {
        let slot = self.slots.get_mut(index)?;
        let entry = *slot.valid()?;
        slot.delete();
        Some(entry)
    }

    /// Adds an entry unless it is there: [`GidTable::place`] and [`GidTable::insert`], for a host
    /// that has no driver to call in between.
    pub fn add(&mut self, entry: Entry) -> Result<Change, Refusal> {
        match self.place(&entry)? {
            Place::There(index) => Ok(Change::Nothing(index)),
            Place::Free(index) if self.insert(index, entry) => Ok(Change::Made(index)),
            Place::Free(_) => Err(Refusal::Full),
        }
    }

    /// Deletes an IP GID. Default GIDs with the same bytes stay.
    pub fn del_ip(&mut self, gid: &Gid, gid_type: GidType, ndev: Ndev) -> Result<Change, Refusal> {
        let index = self
            .entries()
            .find(|(_, e)| {
                e.origin == Origin::Ip && e.gid == *gid && e.gid_type == gid_type && e.ndev == ndev
            })
            .map(|(index, _)| index);
        self.del_found(index)
    }

    /// Deletes the default GID of this type and device.
    pub fn del_default(&mut self, gid_type: GidType, ndev: Ndev) -> Result<Change, Refusal> {
        let index = self.find_default(gid_type, ndev);
        self.del_found(index)
    }

    /// Deletes all entries of a device, default GIDs included. Returns the number deleted.
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

    /// The valid entry at an index.
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

    /// Holds the valid entry at an index.
    pub fn hold(&mut self, index: usize) -> Result<Hold, Refusal> {
        let slot = self.slots.get_mut(index).ok_or(Refusal::NoSuchIndex)?;
        let State::Valid { holds, .. } = &mut slot.state else {
            return Err(Refusal::Empty);
        };
        // A wrapped count would free a slot in use.
        *holds = holds.checked_add(1).ok_or(Refusal::Full)?;
        Ok(Hold { index })
    }

    /// Takes another hold of an entry that is already held, valid or pending.
    pub fn hold_again(&mut self, hold: &Hold) -> Result<Hold, Refusal> {
        let slot = self.held(hold).ok_or(Refusal::NotFound)?;
        let (State::Valid { holds, .. } | State::Pending { holds, .. }) = &mut slot.state else {
            return Err(Refusal::NotFound);
        };
        *holds = holds.checked_add(1).ok_or(Refusal::Full)?;
        Ok(Hold { index: hold.index })
    }

    /// Puts a hold. Returns whether that made the slot free.
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

    /// GID and type of a held entry; they remain after its deletion.
    pub fn held_gid(&mut self, hold: &Hold) -> Option<(Gid, GidType)> {
        match self.held(hold)?.state {
            State::Free => None,
            State::Valid { entry, .. } => Some((entry.gid, entry.gid_type)),
            State::Pending { gid, gid_type, .. } => Some((gid, gid_type)),
        }
    }

    /// Network device of a held entry; an error once the entry is deleted.
    pub fn held_ndev(&mut self, hold: &Hold) -> Result<Ndev, Refusal> {
        match self.held(hold).map(|slot| &slot.state) {
            Some(State::Valid { entry, .. }) => Ok(entry.ndev),
            Some(State::Pending { .. } | State::Free) | None => Err(Refusal::NoNdev),
        }
    }

    /// The slot of a hold. It still has the entry that was held: a slot is not reused while held.
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

    /// Returns whether the slot is empty, so that the host may free it.
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
