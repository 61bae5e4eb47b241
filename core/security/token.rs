// SPDX-License-Identifier: GPL-2.0

//! A user of the subsystem, as security modules know it. C header: `include/linux/security.h`.

use crate::device::DeviceName;
use crate::private;
use crate::proto::security::Partition;
use core::ptr;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;

/// Whoever made it; asked on behalf of, whoever asks later.
///
/// # Invariants
///
/// The pointer was given by `security_ib_alloc_security` and is not freed yet.
pub(super) struct Token(*mut c_void);

// SAFETY: Security modules ask in any thread; the token is not changed after it was made.
unsafe impl Send for Token {}
// SAFETY: As above.
unsafe impl Sync for Token {}

impl Token {
    /// One for the present process. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the security module.
    pub(super) fn new() -> Result<Self> {
        let mut token = ptr::null_mut();
        // SAFETY: The place is ours.
        to_result(unsafe { private::security_ib_alloc_security(&mut token) })?;
        // INVARIANT: Just given.
        Ok(Self(token))
    }

    /// Whether it may use a partition. Any context.
    ///
    /// # Errors
    ///
    /// `EACCES`, and others of the security module.
    pub(super) fn may_use(&self, partition: Partition) -> Result {
        // SAFETY: By the type invariant.
        to_result(unsafe {
            private::security_ib_pkey_access(self.0, partition.subnet_prefix, partition.pkey)
        })
    }

    /// Whether it may send and receive packets of subnet management on a port. Any context.
    ///
    /// # Errors
    ///
    /// As for [`may_use`](Self::may_use).
    pub(super) fn may_manage(&self, device: &DeviceName, port: u8) -> Result {
        let name = CStr::from_bytes_until_nul(device.with_end()).map_err(|_| EINVAL)?;
        // SAFETY: By the type invariant; the name ends.
        to_result(unsafe {
            private::security_ib_endport_manage_subnet(self.0, name.as_char_ptr(), port)
        })
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; nobody uses it any more.
        unsafe { private::security_ib_free_security(self.0) };
    }
}
