// SPDX-License-Identifier: GPL-2.0

//! The GID table of one port: slots and lookups.
//!
//! Writers hold the device's `writer` mutex ([`super::Gids`]). Readers take only the lock of the
//! slots, in any context.

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

/// Maximum size of a table: indices are `u16`.
const MOST: usize = 1 << 16;

/// Source of a port's GIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Network devices. `driver`: the driver is notified of each GID.
    Roce { types: GidTypes, driver: bool },
    /// The driver. Each GID belongs to the port's network device.
    Iwarp,
    /// The driver.
    Ib,
}

impl Kind {
    /// Returns the kind of a port, by its immutable attributes.
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

    /// The RoCE GID types that the port supports.
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

/// The GID table of a port.
#[pin_data]
pub(super) struct Port {
    number: u32,
    kind: Kind,
    #[pin]
    slots: SpinLockIrq<Slots>,
}

impl Port {
    /// Allocates an empty table for a port. May sleep.
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

    /// Port number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Source of the port's GIDs.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Number of slots.
    pub(super) fn len(&self) -> usize {
        self.slots.lock().all.len()
    }

    /// Number of slots that are not free.
    pub(super) fn held(&self) -> usize {
        let slots = self.slots.lock();
        let used = slots.all.iter().filter(|slot| !slot.is_free());
        used.fold(0, |count: usize, _| count.saturating_add(1))
    }

    /// Calls `look` with a view of the table. `look` must not sleep, and must not access the table
    /// in another way.
    pub(super) fn read<R>(&self, look: impl FnOnce(&View<'_, Slot>) -> R) -> R {
        look(&self.slots.lock().view(self.kind.types()))
    }

    /// Calls `ask` for each valid entry, in index order, until it returns `Some`. The rules of
    /// [`Self::read`] apply to `ask`.
    pub(super) fn find_entry<R>(&self, mut ask: impl FnMut(&Entry) -> Option<R>) -> Option<R> {
        let slots = self.slots.lock();
        slots
            .used
            .of(&slots.all)
            .iter()
            .filter_map(Slot::valid_entry)
            .find_map(&mut ask)
    }

    /// Returns a reference to the entry of an index.
    pub(super) fn get(&self, index: usize) -> Result<GidRef, Refusal> {
        let slots = self.slots.lock();
        let slot = slots.all.get(index).ok_or(Refusal::NoSuchIndex)?;
        slot.valid_entry().map(GidRef::new).ok_or(Refusal::Empty)
    }

    /// Returns a reference to the first entry with this GID and type, and with this network device
    /// if `ndev` is given.
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

    /// Inserts an entry into its slot. Returns the entry if the slot is not free. Writers only.
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
    /// reference must not be dropped under a lock of the table.
    pub(super) fn retire(&self, index: usize) -> Option<GidRef> {
        let mut slots = self.slots.lock();
        let entry = slots.all.get_mut(index)?.retire()?;
        // Only on RoCE ports does the slot stay in use until the last reference is dropped. On
        // other ports the driver decides what is at an index.
        if !matches!(self.kind, Kind::Roce { .. }) {
            slots.free(index);
        }
        Some(entry)
    }

    /// Frees the slot of an entry whose last reference was dropped, if the slot still refers to it.
    pub(super) fn vacate(&self, entry: &Entry) {
        let mut slots = self.slots.lock();
        let index = usize::from(entry.index());
        if slots.all.get(index).is_some_and(|slot| slot.names(entry)) {
            slots.free(index);
        }
    }
}
