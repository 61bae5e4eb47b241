// SPDX-License-Identifier: GPL-2.0

//! Objects of one kind on one device, by id.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;
use kernel::types::Opaque;
use rdma::anchor::Anchor;
use rdma::anchor::Freed;
use rdma::bindings;

use super::Entry;
use super::Held;

/// What keeps an id while its object is out of sight (`XA_ZERO_ENTRY`): an internal entry
/// that lookups do not show (`include/linux/xarray.h`).
const RESERVED: *mut c_void = ptr::without_provenance_mut((257 << 2) | 2);
/// Where a walk begins (`XAS_RESTART`).
const FROM_THE_TOP: *mut bindings::xa_node = ptr::without_provenance_mut(3);
/// On entries that only the driver knows (`RESTRACK_DD`, `XA_MARK_1`).
const DRIVERS_OWN: bindings::xa_mark_t = 1;

/// A table of entries.
///
/// # Invariants
///
/// Each pointer in the array is to an entry that stays valid until it is taken out by
/// [`hide`](Table::hide) or [`remove`](Table::remove), and, while somebody has a count of
/// it, longer. What `anchor` keeps is [`RESERVED`], or not there.
#[pin_data(PinnedDrop)]
pub(crate) struct Table {
    #[pin]
    ids: Opaque<bindings::xarray>,
    /// Where the next id is looked for; under the array's lock.
    next: Opaque<u32>,
    /// Which id stays taken after its object has gone, so that the next finds the array's
    /// memory in place; under the array's lock.
    anchor: UnsafeCell<Anchor>,
}

// SAFETY: The array has a lock; entries are used from any thread.
unsafe impl Send for Table {}
// SAFETY: As above.
unsafe impl Sync for Table {}

impl Table {
    pub(super) fn new() -> impl PinInit<Self, Error> {
        // INVARIANT: It is empty.
        try_pin_init!(Self {
            // SAFETY: The place is ours to initialise.
            ids <- Opaque::ffi_init(|ids| unsafe {
                bindings::xa_init_flags(ids, bindings::XA_FLAGS_ALLOC);
            }),
            next: Opaque::new(0),
            anchor: UnsafeCell::new(Anchor::new()),
        })
    }

    /// Takes the array's lock: a spinlock, so nothing sleeps until it is dropped.
    pub(crate) fn lock(&self) -> Locked<'_> {
        // SAFETY: The array is initialised.
        unsafe { bindings::xa_lock(self.ids.get()) };
        Locked {
            table: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Puts an entry in under an id that is free. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the id is taken, also by an object out of sight; `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The entry stays until it is taken out, as the type invariant says.
    pub(super) unsafe fn insert(&self, id: u32, entry: &Entry, drivers_own: bool) -> Result {
        let mut locked = self.lock();
        let ids = self.ids.get();
        loop {
            // SAFETY: The lock is held; the function may drop it to get memory, and takes it
            // again. INVARIANT: By this function's duty.
            let ret = unsafe {
                bindings::__xa_insert(ids, index(id), entry.as_ptr(), bindings::GFP_KERNEL)
            };
            match to_result(ret) {
                Ok(()) => break,
                Err(e) if e == EBUSY => {
                    let kept = locked.anchor().give_up_if(id);
                    locked.erase(kept.ok_or(e)?);
                }
                Err(e) => return Err(e),
            }
        }
        locked.anchor().given(id);
        if drivers_own {
            // SAFETY: The lock is held.
            unsafe { bindings::__xa_set_mark(ids, index(id), DRIVERS_OWN) };
        }
        drop(locked);
        Ok(())
    }

    /// Puts an entry in under the next free id in turn, and writes the id to it before
    /// others see it. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is no free id (one may be kept although it is); `ENOMEM`.
    ///
    /// # Safety
    ///
    /// As of [`insert`](Self::insert).
    pub(super) unsafe fn insert_next(&self, entry: &Entry) -> Result {
        let mut locked = self.lock();
        let any = bindings::xa_limit {
            max: u32::MAX,
            min: 0,
        };
        // SAFETY: The lock is held, also for `next`; else as in `insert`. The id is the
        // entry's own, whom nobody else sees yet. INVARIANT: By this function's duty.
        let ret = unsafe {
            bindings::__xa_alloc_cyclic(
                self.ids.get(),
                ptr::addr_of_mut!((*entry.raw()).id),
                entry.as_ptr(),
                any,
                self.next.get(),
                bindings::GFP_KERNEL,
            )
        };
        // It is 1 if the ids began anew.
        to_result(ret)?;
        locked.anchor().given(entry.id());
        Ok(())
    }

    /// Puts `new` where `old` is. Answers whether it was there. Does not need memory.
    fn replace(&self, id: u32, old: *mut c_void, new: *mut c_void) -> bool {
        // What a lookup answers for `old`.
        let seen = if old == RESERVED {
            ptr::null_mut()
        } else {
            old
        };
        self.lock().exchange(id, old, new) == seen
    }

    /// Takes an entry out of sight and keeps its id. Answers whether it was there.
    pub(super) fn hide(&self, entry: &Entry) -> bool {
        self.replace(entry.id(), entry.as_ptr(), RESERVED)
    }

    /// Undoes [`hide`](Self::hide).
    ///
    /// # Safety
    ///
    /// As of [`insert`](Self::insert).
    pub(super) unsafe fn show(&self, entry: &Entry) -> bool {
        // INVARIANT: By this function's duty.
        self.replace(entry.id(), RESERVED, entry.as_ptr())
    }

    /// Frees an id. Answers whether `entry` was there.
    pub(super) fn remove(&self, entry: &Entry) -> bool {
        let id = entry.id();
        let mut locked = self.lock();
        let was = match locked.anchor().freed(id) {
            // INVARIANT: The entry is gone.
            Freed::Erase => locked.erase(id),
            Freed::KeepFor(other) => {
                if let Some(other) = other {
                    locked.erase(other);
                }
                // INVARIANT: Nothing, or what keeps the id.
                locked.exchange(id, entry.as_ptr(), RESERVED)
            }
        };
        was == entry.as_ptr()
    }

    /// The entry of an id, if nobody is destroying it. Any context.
    pub(crate) fn get(&self, id: u32) -> Option<Held<'_>> {
        let locked = self.lock();
        let (found, entry) = locked.find(id)?;
        if found != id {
            return None;
        }
        entry.hold()
    }

    /// The first entry with this id or a greater one that nobody is destroying, and its
    /// id. Those that only the driver knows are passed over unless `details` are wanted.
    pub(crate) fn next_from(&self, id: u32, details: bool) -> Option<(u32, Held<'_>)> {
        let locked = self.lock();
        let mut from = id;
        loop {
            let (id, entry) = locked.find(from)?;
            if details || !locked.is_drivers_own(id) {
                if let Some(held) = entry.hold() {
                    return Some((id, held));
                }
            }
            from = id.checked_add(1)?;
        }
    }

    /// How many there are; `details` as in [`next_from`](Self::next_from).
    pub(crate) fn count(&self, details: bool) -> u32 {
        let locked = self.lock();
        let passed_over = match details {
            true => 0,
            false => locked.iter(Some(DRIVERS_OWN)).count(),
        };
        let all = locked.iter(None).count();
        u32::try_from(all.saturating_sub(passed_over)).unwrap_or(u32::MAX)
    }

    /// Whether only the driver knows the object of an id.
    pub(super) fn is_drivers_own(&self, id: u32) -> bool {
        self.lock().is_drivers_own(id)
    }
}

#[pinned_drop]
impl PinnedDrop for Table {
    fn drop(self: Pin<&mut Self>) {
        let kept = self.lock().anchor().give_up();
        if let Some(kept) = kept {
            self.lock().erase(kept);
        }
        let ids = self.ids.get();
        // SAFETY: The table is dropped with the device; nobody else has it.
        let left = unsafe { !(*ids).xa_head.is_null() };
        kernel::warn_on!(left);
        // SAFETY: As above.
        unsafe { bindings::xa_destroy(ids) };
    }
}

fn index(id: u32) -> c_ulong {
    // CAST: `unsigned long` has 32 bits or more.
    id as c_ulong
}

/// A table whose lock is held.
pub(crate) struct Locked<'a> {
    table: &'a Table,
    _not_send: NotThreadSafe,
}

impl<'a> Locked<'a> {
    fn anchor(&mut self) -> &mut Anchor {
        // SAFETY: The lock is held, and who borrows this value exclusively has no other
        // reference.
        unsafe { &mut *self.table.anchor.get() }
    }

    /// Frees an id. Answers what a lookup would have found.
    fn erase(&mut self, id: u32) -> *mut c_void {
        // SAFETY: The lock is held.
        unsafe { bindings::__xa_erase(self.table.ids.get(), index(id)) }
    }

    /// Puts `new` where `old` is, if it is there, which needs no memory. Answers what a lookup
    /// would have found.
    fn exchange(&mut self, id: u32, old: *mut c_void, new: *mut c_void) -> *mut c_void {
        let ids = self.table.ids.get();
        // SAFETY: The lock is held. The slot is there, so nothing is allocated.
        unsafe { bindings::__xa_cmpxchg(ids, index(id), old, new, bindings::GFP_ATOMIC) }
    }

    /// The first entry with this id or a greater one.
    fn find(&self, from: u32) -> Option<(u32, &'a Entry)> {
        let mut at = index(from);
        // SAFETY: The array is initialised, and its lock held, so that what is found
        // stays until the lock is dropped.
        let found = unsafe {
            bindings::xa_find(
                self.table.ids.get(),
                &mut at,
                index(u32::MAX),
                bindings::XA_PRESENT,
            )
        };
        let found = NonNull::new(found)?;
        // SAFETY: By the type invariant of `Table`. The lifetime is longer than the lock's;
        // callers hold the entry before they drop it.
        let entry = unsafe { Entry::from_raw(found.cast().as_ptr()) };
        Some((u32::try_from(at).ok()?, entry))
    }

    /// All entries that are in sight, or those of them that have a mark. Some may be about to
    /// be destroyed, but are not gone.
    pub(crate) fn iter(&self, mark: Option<bindings::xa_mark_t>) -> Iter<'_> {
        Iter {
            at: bindings::xa_state {
                xa: self.table.ids.get(),
                xa_node: FROM_THE_TOP,
                ..Default::default()
            },
            mark,
            _locked: PhantomData,
        }
    }

    fn is_drivers_own(&self, id: u32) -> bool {
        // SAFETY: The array is initialised.
        unsafe { bindings::xa_get_mark(self.table.ids.get(), index(id), DRIVERS_OWN) }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: This thread has the lock.
        unsafe { bindings::xa_unlock(self.table.ids.get()) };
    }
}

/// Entries of a table whose lock is held, by rising ids.
///
/// # Invariants
///
/// `at` is a walk through that table's array, which does not change meanwhile.
#[derive(Clone)]
pub(crate) struct Iter<'a> {
    at: bindings::xa_state,
    mark: Option<bindings::xa_mark_t>,
    _locked: PhantomData<&'a Locked<'a>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Entry;

    fn next(&mut self) -> Option<Self::Item> {
        let last = index(u32::MAX);
        loop {
            // SAFETY: By the type invariant; the lock is held.
            let found = unsafe {
                match self.mark {
                    Some(mark) => bindings::xas_find_marked(&mut self.at, last, mark),
                    None => bindings::xas_find(&mut self.at, last),
                }
            };
            if found.is_null() {
                return None;
            }
            if found != RESERVED {
                // SAFETY: By the type invariant of `Table`, while its lock is held.
                return Some(unsafe { Entry::from_raw(found.cast()) });
            }
        }
    }
}
