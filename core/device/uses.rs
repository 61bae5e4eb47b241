// SPDX-License-Identifier: GPL-2.0

//! A count of users, and a completion for when there are none: how devices and clients
//! are kept by others. Both are fields of C structures, since inline functions of
//! consumers count, too.

use core::marker::PhantomData;
use kernel::ffi::c_int;
use rdma::bindings;

/// A count and its completion.
///
/// # Invariants
///
/// Both pointers are valid and initialised for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Uses<'a> {
    count: *mut bindings::refcount_t,
    gone: *mut bindings::completion,
    _of: PhantomData<&'a ()>,
}

impl Uses<'_> {
    /// # Safety
    ///
    /// Both are initialised, and stay for the lifetime.
    pub(crate) unsafe fn new(
        count: *mut bindings::refcount_t,
        gone: *mut bindings::completion,
    ) -> Self {
        // INVARIANT: By this function's duty.
        Self {
            count,
            gone,
            _of: PhantomData,
        }
    }

    /// Begins with so many users. There are none before.
    pub(crate) fn open(self, users: c_int) {
        // SAFETY: By the type invariant.
        unsafe { bindings::refcount_set(self.count, users) };
    }

    /// One user more, unless there is none. Any context.
    #[must_use = "the count has to be given back"]
    pub(crate) fn try_get(self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_helper_refcount_inc_not_zero(self.count) }
    }

    /// One user more: the caller knows that there is one. Any context.
    pub(crate) fn get(self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::refcount_inc(self.count) };
    }

    /// One user less; the last wakes who waits. What is counted may be gone after. Any
    /// context.
    pub(crate) fn put(self) {
        // SAFETY: By the type invariant; until it is completed, what is counted waits.
        unsafe {
            if bindings::refcount_dec_and_test(self.count) {
                bindings::complete(self.gone);
            }
        }
    }

    /// Whether there is no user.
    pub(crate) fn none(self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_helper_refcount_read(self.count) == 0 }
    }

    /// Waits for the last [`put`](Self::put); one thread does, once for each
    /// [`open`](Self::open). May sleep.
    pub(crate) fn wait(self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::wait_for_completion(self.gone) };
    }
}

/// Gives up one use of a registered device: `ib_device_put`. Any context.
///
/// # Safety
///
/// The caller has a count of the device to give away.
#[no_mangle]
pub unsafe extern "C" fn ib_device_put(device: *mut bindings::ib_device) {
    // SAFETY: By this function's duty the device is there until the count is given back.
    unsafe { super::Device::from_raw(device) }.uses().put();
}

rdma::exported!(ib_device_put);
