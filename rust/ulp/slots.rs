// SPDX-License-Identifier: GPL-2.0

//! Requests that are outstanding, and what belongs to them meanwhile.

use super::qp::Refused;
use super::Buffer;
use crate::bindings;
use crate::new_spinlock_irq;
use crate::sync::SpinLockIrq;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use kernel::prelude::*;
use kernel::types::Opaque;

/// What belongs to a request while it is outstanding.
pub(super) trait Load: Send {
    /// Passes its memory to the device.
    fn give(&self);

    /// Takes its memory back from the device.
    fn take(&self);
}

impl Load for Buffer {
    fn give(&self) {
        self.sync_for_device();
    }

    fn take(&self) {
        self.sync_for_cpu();
    }
}

/// A request that may be outstanding.
///
/// # Invariants
///
/// `load` belongs to who has taken the index of the slot from `Slots::free`; after the request was
/// posted, to its completion.
#[repr(C)]
struct Slot<T> {
    cqe: Opaque<bindings::ib_cqe>,
    load: UnsafeCell<Option<T>>,
}

// SAFETY: The load may be used from any thread; its owner is the type invariant's.
unsafe impl<T: Load> Send for Slot<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: Load> Sync for Slot<T> {}

#[pin_data]
pub(super) struct Slots<T: Load> {
    all: KVec<Slot<T>>,
    /// Indices of the slots without a request. Its capacity is their number.
    #[pin]
    free: SpinLockIrq<KVec<u16>>,
}

type Done = unsafe extern "C" fn(*mut bindings::ib_cq, *mut bindings::ib_wc);

impl<T: Load> Slots<T> {
    /// Creates slots for `count` requests, whose completion handler is `done`.
    pub(super) fn new(count: u16, done: Done) -> Result<impl PinInit<Self, Error>> {
        let mut all = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        let mut free = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        for index in 0..count {
            let cqe = bindings::ib_cqe { done: Some(done) };
            let slot = Slot {
                cqe: Opaque::new(cqe),
                load: UnsafeCell::new(None),
            };
            all.push(slot, GFP_KERNEL)?;
            free.push(index, GFP_KERNEL)?;
        }
        Ok(try_pin_init!(Self {
            all,
            free <- new_spinlock_irq!(free, "Slots::free"),
        }))
    }

    /// Posts a request with its load by `post`, which gets the completion entry of a slot.
    pub(super) fn post(
        &self,
        load: T,
        post: impl FnOnce(*mut bindings::ib_cqe) -> Result,
    ) -> Result<(), Refused<T>> {
        let index = self.free.lock().pop();
        let Some(index) = index else {
            return Err(Refused::new(load, EBUSY));
        };
        let Some(slot) = self.all.get(usize::from(index)) else {
            // Indices are those of slots.
            return Err(Refused::new(load, EINVAL));
        };
        load.give();
        // SAFETY: The index was taken above, so the load is ours (invariant of `Slot`).
        unsafe { *slot.load.get() = Some(load) };
        let Err(error) = post(slot.cqe.get()) else {
            return Ok(());
        };
        // SAFETY: The request was not posted, so the load is still ours.
        let load = unsafe { (*slot.load.get()).take() };
        self.put(index);
        match load {
            Some(load) => {
                load.take();
                Err(Refused::new(load, error))
            }
            // Stored above.
            None => Ok(()),
        }
    }

    /// Ends the request of a slot, whose index is not free. Returns the load.
    ///
    /// # Safety
    ///
    /// `cqe` is the completion entry of a slot of this, whose request was completed.
    pub(super) unsafe fn complete(&self, cqe: *const bindings::ib_cqe) -> Option<T> {
        let offset = cqe.addr().checked_sub(self.all.as_ptr().addr())?;
        let index = offset.checked_div(size_of::<Slot<T>>())?;
        let slot = self.all.get(index)?;
        // SAFETY: The request was completed, so its load belongs to the completion (invariant of
        // `Slot`), which this is (contract of this function).
        let load = unsafe { (*slot.load.get()).take() };
        self.put(u16::try_from(index).ok()?);
        if let Some(load) = &load {
            load.take();
        }
        load
    }

    fn put(&self, index: u16) {
        // There is room for all indices, and each is here once.
        let _ = self.free.lock().push_within_capacity(index);
    }
}

const _: () = assert!(offset_of!(Slot<Buffer>, cqe) == 0);
