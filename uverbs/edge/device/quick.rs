// SPDX-License-Identifier: GPL-2.0

//! Sections of quick calls.

use super::CharDevice;
use super::UFile;
use kernel::ffi::c_void;
use kernel::types::NotThreadSafe;
use rdma::bindings;
use rdma::edge::View;

/// A section of an open file in which its RDMA device does not go, and neither do the objects of the
/// file, for a call that needs neither `ib_core` nor `ib_uverbs_support`. Unlike
/// [`Associated`](super::Associated), it costs no locked operation.
///
/// # Invariants
///
/// The domain `quick` of the file's device is held, with this key, and the device was there.
pub(crate) struct Quick<'a> {
    file: &'a UFile,
    key: *mut c_void,
    _not_send: NotThreadSafe,
}

impl<'a> Quick<'a> {
    /// Enters a section; `None` if the device is gone. May sleep.
    #[inline]
    pub(crate) fn enter(file: &'a UFile) -> Option<Self> {
        let device = CharDevice::of(file);
        let quick = device.quick.get();
        // SAFETY: The domain is initialised with the device. Its address is only compared here.
        let (key, gone) = unsafe {
            (
                bindings::rdma_helper_srcu_read_lock_fast(quick),
                bindings::rdma_helper_uverbs_ibdev_quick(device.raw().cast(), quick).is_null(),
            )
        };
        // INVARIANT: Just entered; a device that is gone is refused below.
        let this = Self {
            file,
            key,
            _not_send: NotThreadSafe,
        };
        (!gone).then_some(this)
    }

    /// The open file.
    #[inline]
    pub(crate) fn file(&self) -> &'a UFile {
        self.file
    }
}

impl Drop for Quick<'_> {
    #[inline]
    fn drop(&mut self) {
        let quick = CharDevice::of(self.file).quick.get();
        // SAFETY: Held with this key: type invariant.
        unsafe { bindings::rdma_helper_srcu_read_unlock_fast(quick, self.key) };
    }
}
