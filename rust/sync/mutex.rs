// SPDX-License-Identifier: GPL-2.0

//! Mutexes that are fields of C structures (`struct mutex`).
//!
//! The type is `Mutex<()>` of the `kernel` crate, which becomes a [`View`], so that a table of
//! [`c_struct!`](crate::c_struct) can name the field: `embed lock: Mutex<()>`. A reference to the
//! view guarantees that the mutex is initialised; [`init_mutex`] initialises it.
//!
//! C header: `include/linux/mutex.h`.

use crate::bindings;
use crate::edge::View;
use core::pin::Pin;
use kernel::prelude::*;
use kernel::sync::LockClassKey;
use kernel::sync::Mutex;

// SAFETY: `Lock<(), MutexBackend>` is `#[repr(C)]` and begins with `Opaque<mutex>`, its only field
// with a size; `Lock::from_raw` of the `kernel` crate relies on the same.
unsafe impl View for Mutex<()> {
    type C = bindings::mutex;
}

/// Initialises the mutex of a C structure. `name` and `key` are for lockdep.
///
/// # Safety
///
/// `mutex` points to memory that only the caller uses, and that does not move while the mutex is
/// used.
pub unsafe fn init_mutex(
    mutex: *mut bindings::mutex,
    name: &'static CStr,
    key: Pin<&'static LockClassKey>,
) {
    // SAFETY: Only the caller uses the memory (contract of this function); name and key are static.
    unsafe { bindings::__mutex_init(mutex, name.as_char_ptr(), key.as_ptr()) };
}
