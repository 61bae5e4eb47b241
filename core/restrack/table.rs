// SPDX-License-Identifier: GPL-2.0

//! A table of the objects of one kind on one device, by id.

use super::Entry;
use super::Held;
use super::OwnerRef;
use kernel::prelude::*;
use rdma::anchor::Anchor;
use rdma::anchor::Freed;
use rdma::xarray::IdArray;
use rdma::xarray::IdLocked;
use rdma::xarray::Mark;

/// Mark of objects that only the driver knows (`RESTRACK_DD`, `XA_MARK_1`).
const DRIVERS_OWN: Mark = 1;

/// A table of entries.
///
/// The lock also guards the [`Anchor`]: it keeps one freed id reserved, so that the array does not
/// free and reallocate its node for each object. No object is behind that id.
#[pin_data(PinnedDrop)]
pub(crate) struct Table {
    #[pin]
    ids: IdArray<Entry, Anchor>,
}

/// Counts `entries`.
fn count(entries: impl Iterator) -> u32 {
    entries.fold(0, |n: u32, _| n.saturating_add(1))
}

/// A table with its lock held.
pub(crate) type Locked<'a> = IdLocked<'a, Entry, Anchor>;

impl Table {
    pub(super) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            ids <- IdArray::new(Anchor::new()),
        })
    }

    /// Takes the table's lock, a spinlock: the caller must not sleep until it drops the guard.
    pub(crate) fn lock(&self) -> Locked<'_> {
        self.ids.lock()
    }

    /// Inserts an entry under a free id. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the id is taken, even by a hidden object; `ENOMEM`.
    pub(super) fn insert(&self, id: u32, entry: &OwnerRef<'_>, drivers_own: bool) -> Result {
        let mut locked = self.lock();
        while let Err(error) = locked.insert(id, entry) {
            if error != EBUSY {
                return Err(error);
            }
            let kept = locked.data().give_up_if(id).ok_or(error)?;
            let _nothing = locked.erase(kept);
        }
        locked.data().given(id);
        if drivers_own {
            locked.set_mark(id, DRIVERS_OWN);
        }
        Ok(())
    }

    /// Inserts an entry under the next free id, and writes the id to the entry before others see
    /// it. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if no id is free, not counting the one that the [`Anchor`] reserves; `ENOMEM`.
    pub(super) fn insert_next(&self, entry: &mut OwnerRef<'_>) -> Result {
        let mut locked = self.lock();
        let id = locked.insert_next(entry)?;
        // Readers find the entry only under this lock.
        entry.set_id(id);
        locked.data().given(id);
        Ok(())
    }

    /// Hides an entry but keeps its id reserved. Returns whether the entry was there.
    pub(super) fn hide(&self, entry: &Entry) -> bool {
        self.lock().hide(entry.id(), entry)
    }

    /// Reverses [`hide`](Self::hide).
    pub(super) fn show(&self, entry: &OwnerRef<'_>) -> bool {
        self.lock().show(entry.id(), entry)
    }

    /// Frees an entry's id. Returns whether the entry was there.
    pub(super) fn remove(&self, entry: &Entry) -> bool {
        let id = entry.id();
        let mut locked = self.lock();
        match locked.data().freed(id) {
            Freed::Erase => {
                let was = locked.erase(id);
                was.is_some_and(|was| core::ptr::eq(was.as_ptr(), entry))
            }
            Freed::KeepFor(other) => {
                if let Some(other) = other {
                    let _nothing = locked.erase(other);
                }
                locked.hide(id, entry)
            }
        }
    }

    /// Looks up an entry by its id, unless it is being destroyed. Any context.
    pub(crate) fn get(&self, id: u32) -> Option<Held> {
        self.lock().get(id)?.hold()
    }

    /// Returns the first entry whose id is `id` or greater and that is not being destroyed, with
    /// its id. Entries that only the driver knows are skipped unless `details` is set.
    pub(crate) fn next_from(&self, id: u32, details: bool) -> Option<(u32, Held)> {
        let locked = self.lock();
        let mut from = id;
        loop {
            let (id, entry) = locked.find(from, u32::MAX)?;
            if details || !locked.has_mark(id, DRIVERS_OWN) {
                if let Some(held) = entry.hold() {
                    return Some((id, held));
                }
            }
            from = id.checked_add(1)?;
        }
    }

    /// Returns the number of entries; `details` as in [`next_from`](Self::next_from).
    pub(crate) fn count(&self, details: bool) -> u32 {
        let locked = self.lock();
        let skipped = match details {
            true => 0,
            false => count(locked.iter(Some(DRIVERS_OWN))),
        };
        count(locked.iter(None)).saturating_sub(skipped)
    }

    /// Returns whether only the driver knows the object with this id.
    pub(super) fn is_drivers_own(&self, id: u32) -> bool {
        self.lock().has_mark(id, DRIVERS_OWN)
    }
}

#[pinned_drop]
impl PinnedDrop for Table {
    fn drop(self: Pin<&mut Self>) {
        let mut locked = self.lock();
        if let Some(kept) = locked.data().give_up() {
            let _nothing = locked.erase(kept);
        }
        kernel::warn_on!(!locked.is_empty());
    }
}
