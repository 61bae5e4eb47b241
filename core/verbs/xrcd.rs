// SPDX-License-Identifier: GPL-2.0

//! Domains of extended reliable connections: the target queue pairs in them may be used by
//! several processes ([`super::shared_qp`]).

use super::object::code;
use super::object::destroy;
use super::object::is_used;
use super::object::method;
use super::object::outcome;
use super::object::pointer;
use super::object::From;
use super::object::New;
use super::object::Object;
use super::object::Xrcd;
use crate::device::Device;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;

/// The target queue pairs of a domain, locked against others that open or close them.
/// Writers may sleep while they hold it.
pub(super) struct Targets<'a> {
    xrcd: &'a Xrcd,
    writes: bool,
}

impl<'a> Targets<'a> {
    /// To look a queue pair up. May sleep.
    pub(super) fn read(xrcd: &'a Xrcd) -> Self {
        // SAFETY: The domain lives; its semaphore was initialised when it was made.
        unsafe { bindings::down_read(&raw mut (*xrcd.as_raw()).tgt_qps_rwsem) };
        Self {
            xrcd,
            writes: false,
        }
    }

    /// To take a queue pair out. May sleep.
    pub(super) fn write(xrcd: &'a Xrcd) -> Self {
        // SAFETY: As above.
        unsafe { bindings::down_write(&raw mut (*xrcd.as_raw()).tgt_qps_rwsem) };
        Self { xrcd, writes: true }
    }

    /// The queue pair of this number.
    pub(super) fn find(&self, number: u32) -> Option<NonNull<bindings::ib_qp>> {
        // SAFETY: The domain lives, and with it the array.
        let entry =
            unsafe { bindings::xa_load(&raw mut (*self.xrcd.as_raw()).tgt_qps, number as c_ulong) };
        NonNull::new(entry.cast())
    }

    /// Takes a queue pair out.
    pub(super) fn remove(&mut self, number: u32) {
        // SAFETY: As above.
        unsafe { bindings::xa_erase(&raw mut (*self.xrcd.as_raw()).tgt_qps, number as c_ulong) };
    }
}

impl Drop for Targets<'_> {
    fn drop(&mut self) {
        // SAFETY: The semaphore was taken for this, in the way that `writes` says.
        unsafe {
            let sem = &raw mut (*self.xrcd.as_raw()).tgt_qps_rwsem;
            if self.writes {
                bindings::up_write(sem);
            } else {
                bindings::up_read(sem);
            }
        }
    }
}

impl Xrcd {
    /// Puts a new target queue pair in. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn insert(&self, number: u32, qp: NonNull<bindings::ib_qp>) -> Result {
        // SAFETY: The domain lives, and with it the array, which has a lock of its own.
        outcome(unsafe {
            bindings::xa_err(bindings::xa_store(
                &raw mut (*self.as_raw()).tgt_qps,
                number as c_ulong,
                qp.as_ptr().cast::<c_void>(),
                bindings::GFP_KERNEL,
            ))
        })
    }
}

rdma::exported!(ib_alloc_xrcd_user, ib_dealloc_xrcd_user);

/// Makes a domain. May sleep.
///
/// # Safety
///
/// `device` is registered; `inode` is null, or the file that the domain belongs to; `udata` is
/// null or a user's call.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_alloc_xrcd_user(
    device: *mut bindings::ib_device,
    inode: *mut bindings::inode,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_xrcd {
    let make = || {
        // SAFETY: By this function's duty.
        let device = unsafe { Device::from_raw(device) };
        let alloc = method(device.ops().alloc_xrcd)?;
        let mut xrcd = New::<Xrcd>::alloc(device, From::Anywhere)?;
        xrcd.c().device = device.as_raw();
        xrcd.c().inode = inode;
        // SAFETY: Both are in memory that is ours.
        unsafe {
            bindings::rdma_helper_xrcd_init_rwsem(&raw mut xrcd.c().tgt_qps_rwsem);
            bindings::xa_init_flags(&raw mut xrcd.c().tgt_qps, 0);
        }
        // SAFETY: The object is filled in; the method is the driver's own.
        outcome(unsafe { alloc(xrcd.as_raw(), udata) })?;
        Ok(xrcd.finish())
    };
    pointer(make())
}

/// Destroys a domain: `EBUSY` while objects use it. May sleep.
///
/// # Safety
///
/// `xrcd` lives, and nobody begins to use it; `udata` is null or a user's call.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_dealloc_xrcd_user(
    xrcd: *mut bindings::ib_xrcd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    let destroy = || {
        let ptr = NonNull::new(xrcd).ok_or(EINVAL)?;
        // SAFETY: By this function's duty.
        let this = unsafe { Xrcd::from_raw(xrcd) };
        // SAFETY: As above.
        if unsafe { is_used(&raw const (*xrcd).usecnt) } {
            return Err(EBUSY);
        }
        let method = method(this.device().ops().dealloc_xrcd)?;
        // SAFETY: As above. Every target queue pair counts as a user, so none is in there.
        kernel::warn_on!(unsafe { !(*xrcd).tgt_qps.xa_head.is_null() });
        // SAFETY: By this function's duty, and nothing uses it; the method is the driver's own.
        unsafe { destroy::<Xrcd>(ptr, || outcome(method(xrcd, udata)), || ()) }
    };
    code(destroy())
}
