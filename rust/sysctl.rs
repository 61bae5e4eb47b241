// SPDX-License-Identifier: GPL-2.0

//! Numbers that an administrator reads and writes below `/proc/sys/net`, in the initial network
//! namespace.
//!
//! C header: `include/linux/sysctl.h`.

use crate::bindings;
use crate::module::Resident;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

/// A number, in a static: the administrator sets it to any value that is not negative.
pub struct Number(Atomic<i32>);

impl Number {
    /// Creates a number with its initial value.
    pub const fn new(value: i32) -> Self {
        Self(Atomic::new(value))
    }

    /// Returns the value.
    pub fn get(&self) -> i32 {
        self.0.load(Relaxed)
    }
}

/// Registration of a [`Number`], mode 0644. Drop removes the file, and waits for its users.
///
/// # Invariants
///
/// `header` was returned by `rdma_helper_sysctl_register` and is not unregistered.
pub struct Sysctl {
    header: NonNull<bindings::ctl_table_header>,
    _resident: Resident,
}

// SAFETY: A registration may be removed from any task.
unsafe impl Send for Sysctl {}
// SAFETY: Nothing is done through a shared reference.
unsafe impl Sync for Sysctl {}

impl Sysctl {
    /// Registers `number` as the file `name` in the folder `path`, such as `net/iw_cm`. May sleep.
    /// `resident` is [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn register(
        path: &'static CStr,
        name: &'static CStr,
        number: &'static Number,
        resident: Resident,
    ) -> Result<Self> {
        let place = core::ptr::from_ref(number).cast_mut().cast();
        // SAFETY: The strings and the number are in the module, which is not unloaded while there
        // is a resident. C reads and writes the number by whole words, as `Atomic` does.
        let header = unsafe {
            bindings::rdma_helper_sysctl_register(path.as_char_ptr(), name.as_char_ptr(), place)
        };
        // INVARIANT: Just registered.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _resident: resident,
        })
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        // SAFETY: Registered (type invariant).
        unsafe { bindings::rdma_helper_sysctl_unregister(self.header.as_ptr()) };
    }
}
