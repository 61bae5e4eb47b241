// SPDX-License-Identifier: GPL-2.0

//! The GID table of one port: its slots, and lookups in them.
//!
//! Who changes the table holds the device's writer mutex ([`super::Gids`]); readers have the
//! slots' lock only, in any context.

use kernel::prelude::*;

use super::edge::entry::Entry;
use super::edge::entry::GidRef;
pub(super) use super::edge::entry::Slot;
use crate::device::Device;
use crate::proto::gid::Gid;
use crate::proto::gid::GidType;
use crate::proto::gid::GidTypes;
use crate::proto::gid_table;
use crate::proto::gid_table::Cell;
use crate::proto::gid_table::Ndev;
use crate::proto::gid_table::Refusal;
use crate::proto::gid_table::Used;
use crate::proto::gid_table::View;
use rdma::bindings;
use rdma::sync::SpinLockIrq;

/// The most GIDs that a port has: an index is a `u16`.
const MOST: usize = 1 << 16;

/// Where a port's GIDs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// From network devices; the driver is told of each if it wants to.
    Roce { types: GidTypes, driver: bool },
    /// From the driver, of which each belongs to the port's network device.
    Iwarp,
    /// From the driver.
    Ib,
}

impl Kind {
    /// That of a port of a device that has told its properties.
    pub(super) fn of(device: &Device, port: u32) -> Self {
        let caps = device.immutable(port).map_or(0, |port| port.core_cap_flags);
        let has = |cap| caps & cap != 0;
        let v1 = has(bindings::RDMA_CORE_CAP_PROT_ROCE);
        let v2 = has(bindings::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP);
        if v1 || v2 {
            let ops = device.ops();
            Self::Roce {
                types: GidTypes::roce(v1, v2),
                driver: ops.add_gid.is_some() && ops.del_gid.is_some(),
            }
        } else if has(bindings::RDMA_CORE_CAP_PROT_IWARP) {
            Self::Iwarp
        } else {
            Self::Ib
        }
    }

    /// The types of RoCE that it knows.
    pub(super) fn types(self) -> GidTypes {
        match self {
            Self::Roce { types, .. } => types,
            Self::Iwarp | Self::Ib => GidTypes::roce(false, false),
        }
    }
}

impl Cell for Slot {
    fn valid(&self) -> Option<&gid_table::Entry> {
        self.valid_entry().map(Entry::engine)
    }

    fn is_free(&self) -> bool {
        self.is_empty()
    }
}

/// The slots of a table.
struct Slots {
    all: KVec<Slot>,
    used: Used,
}

impl Slots {
    fn view(&self, types: GidTypes) -> View<'_, Slot> {
        View::new(&self.all, types, self.used)
    }

    fn free(&mut self, index: usize) {
        if let Some(slot) = self.all.get_mut(index) {
            slot.clear();
            self.used.freed(&self.all);
        }
    }
}

/// A port's table.
#[pin_data]
pub(super) struct Port {
    number: u32,
    kind: Kind,
    #[pin]
    slots: SpinLockIrq<Slots>,
}

impl Port {
    /// An empty table for a port. May sleep.
    pub(super) fn new(device: &Device, number: u32, len: usize) -> Result<Pin<KBox<Self>>> {
        if len > MOST {
            return Err(EINVAL);
        }
        let mut all = KVec::with_capacity(len, GFP_KERNEL)?;
        while all.len() < len {
            all.push(Slot::default(), GFP_KERNEL)?;
        }
        let used = Used::default();
        let kind = Kind::of(device, number);
        KBox::try_pin_init(
            try_pin_init!(Self {
                number,
                kind,
                slots <- rdma::new_spinlock_irq!(Slots { all, used }, "GidTable::slots"),
            }),
            GFP_KERNEL,
        )
    }

    /// Which port it is.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Where its GIDs come from.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.slots.lock().all.len()
    }

    /// How many slots are not free.
    pub(super) fn held(&self) -> usize {
        let slots = self.slots.lock();
        let used = slots.all.iter().filter(|slot| !slot.is_free());
        used.fold(0, |count: usize, _| count.saturating_add(1))
    }

    /// Looks at the table. The callback may not sleep, nor look at the table by itself.
    pub(super) fn read<R>(&self, look: impl FnOnce(&View<'_, Slot>) -> R) -> R {
        look(&self.slots.lock().view(self.kind.types()))
    }

    /// Calls for each valid entry, by index, until something is answered. As [`Self::read`].
    pub(super) fn find_entry<R>(&self, mut ask: impl FnMut(&Entry) -> Option<R>) -> Option<R> {
        let slots = self.slots.lock();
        slots
            .used
            .of(&slots.all)
            .iter()
            .filter_map(Slot::valid_entry)
            .find_map(&mut ask)
    }

    /// Holds the entry of an index.
    pub(super) fn get(&self, index: usize) -> Result<GidRef, Refusal> {
        let slots = self.slots.lock();
        let slot = slots.all.get(index).ok_or(Refusal::NoSuchIndex)?;
        slot.valid_entry().map(GidRef::new).ok_or(Refusal::Empty)
    }

    /// Holds the first entry with this GID and type, of this network device if one is named.
    pub(super) fn find(
        &self,
        gid: &Gid,
        gid_type: GidType,
        ndev: Option<Ndev>,
    ) -> Result<GidRef, Refusal> {
        let slots = self.slots.lock();
        let index = slots.view(self.kind.types()).find(gid, gid_type, ndev)?;
        let entry = slots.all.get(index).and_then(Slot::valid_entry);
        entry.map(GidRef::new).ok_or(Refusal::NotFound)
    }

    /// Puts an entry into its slot, which must be free. Writers only.
    pub(super) fn insert(&self, entry: KBox<Entry>) -> Result<(), KBox<Entry>> {
        let mut slots = self.slots.lock();
        let index = usize::from(entry.index());
        match slots.all.get_mut(index) {
            Some(slot) if slot.is_free() => {
                slot.fill(entry);
                slots.used.took(index);
                Ok(())
            }
            Some(_) | None => Err(entry),
        }
    }

    /// Hides the entry of an index, and returns the table's reference to it. Writers only. The
    /// reference is not dropped under a lock of the table.
    pub(super) fn retire(&self, index: usize) -> Option<GidRef> {
        let mut slots = self.slots.lock();
        let entry = slots.all.get_mut(index)?.retire()?;
        // Only network devices' GIDs wait for their holders: elsewhere it is the driver
        // who says what is at an index.
        if !matches!(self.kind, Kind::Roce { .. }) {
            slots.free(index);
        }
        Some(entry)
    }

    /// Frees the slot of an entry whose last reference has gone, if it is still there.
    pub(super) fn vacate(&self, entry: &Entry) {
        let mut slots = self.slots.lock();
        let index = usize::from(entry.index());
        if slots.all.get(index).is_some_and(|slot| slot.names(entry)) {
            slots.free(index);
        }
    }
}
