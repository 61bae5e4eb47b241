// SPDX-License-Identifier: GPL-2.0

//! Sysctls: numbers in `/proc/sys` that an administrator sets.
//!
//! C header: `include/linux/sysctl.h`.

use crate::bindings;
use core::ptr;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::types::Opaque;

/// The number in a sysctl, from 0 to the maximum.
pub struct Number(Atomic<i32>);

impl Number {
    /// Returns the number. Any context.
    pub fn get(&self) -> u32 {
        u32::try_from(self.0.load(Relaxed)).unwrap_or(0)
    }
}

/// Bounds of numbers, which C does not write.
static ZERO: c_int = 0;
static MAX: c_int = c_int::MAX;

/// A registered sysctl. It is unregistered on drop, which may sleep.
///
/// # Invariants
///
/// `header` is that of `_table`, which refers to `number`.
pub struct Sysctl {
    header: NonNull<bindings::ctl_table_header>,
    _table: Pin<KBox<Opaque<bindings::ctl_table>>>,
    number: Arc<Number>,
}

// SAFETY: The sysctl code has its own locks; the number is read and written as a word.
unsafe impl Send for Sysctl {}
// SAFETY: As for `Send`: the number is read and written as a word.
unsafe impl Sync for Sysctl {}

impl Sysctl {
    /// Registers a number for the initial network namespace: `PATH/NAME`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn register(path: &'static CStr, name: &'static CStr, value: u32) -> Result<Self> {
        let number = Number(Atomic::new(i32::try_from(value)?));
        let number = Arc::new(number, GFP_KERNEL)?;
        let table = bindings::ctl_table {
            procname: name.as_char_ptr(),
            data: Arc::as_ptr(&number).cast_mut().cast(),
            // CAST: A small number.
            maxlen: size_of::<c_int>() as c_int,
            mode: 0o644,
            proc_handler: Some(bindings::proc_dointvec_minmax),
            extra1: ptr::from_ref(&ZERO).cast_mut().cast(),
            extra2: ptr::from_ref(&MAX).cast_mut().cast(),
            ..Default::default()
        };
        let table = KBox::pin(Opaque::new(table), GFP_KERNEL)?;
        // SAFETY: The path is static. Table and number stay until the sysctl is unregistered
        // (`drop`).
        let header =
            unsafe { bindings::rdma_helper_register_sysctl(path.as_char_ptr(), table.get()) };
        Ok(Self {
            // INVARIANT: Just registered.
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
            number,
        })
    }

    /// Returns the number.
    pub fn number(&self) -> &Arc<Number> {
        &self.number
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        // SAFETY: The header is that of a registered table (type invariant). The function waits for
        // readers and writers.
        unsafe { bindings::rdma_helper_unregister_sysctl(self.header.as_ptr()) };
    }
}
