// SPDX-License-Identifier: GPL-2.0

//! Domains of extended reliable connections: the target queue pairs in them may be used by
//! several processes ([`super::shared_qp`]).

use super::object::outcome;
use super::object::From;
use super::object::Given;
use super::object::New;
use super::object::Object;
use super::object::Owned;
use super::object::Qp;
use super::object::Xrcd;
use super::tables::UserCall;
use super::tables::XrcdInit;
use crate::device::Device;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::Passed;
use rdma::edge::View;

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
        unsafe { bindings::down_read(&raw mut (*xrcd.raw()).tgt_qps_rwsem) };
        Self {
            xrcd,
            writes: false,
        }
    }

    /// To take a queue pair out. May sleep.
    pub(super) fn write(xrcd: &'a Xrcd) -> Self {
        // SAFETY: As above.
        unsafe { bindings::down_write(&raw mut (*xrcd.raw()).tgt_qps_rwsem) };
        Self { xrcd, writes: true }
    }

    /// The queue pair of this number, which is not taken out while this is locked.
    pub(super) fn find(&self, number: u32) -> Option<&Qp> {
        // SAFETY: The domain lives, and with it the array, in which are queue pairs that live.
        unsafe {
            let entry = bindings::xa_load(&raw mut (*self.xrcd.raw()).tgt_qps, number as c_ulong);
            Option::from_c(entry.cast())
        }
    }

    /// Takes a queue pair out.
    pub(super) fn remove(&mut self, number: u32) {
        // SAFETY: As above.
        unsafe { bindings::xa_erase(&raw mut (*self.xrcd.raw()).tgt_qps, number as c_ulong) };
    }
}

impl Drop for Targets<'_> {
    fn drop(&mut self) {
        // SAFETY: The semaphore was taken for this, in the way that `writes` says.
        unsafe {
            let sem = &raw mut (*self.xrcd.raw()).tgt_qps_rwsem;
            if self.writes {
                bindings::up_write(sem);
            } else {
                bindings::up_read(sem);
            }
        }
    }
}

impl Xrcd {
    /// Puts a new target queue pair in, which its last handle takes out. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn insert(&self, qp: &Qp) -> Result {
        // SAFETY: The domain lives, and with it the array, which has a lock of its own.
        outcome(unsafe {
            bindings::xa_err(bindings::xa_store(
                &raw mut (*self.raw()).tgt_qps,
                qp.qp_num() as c_ulong,
                qp.raw().cast(),
                bindings::GFP_KERNEL,
            ))
        })
    }

    fn has_targets(&self) -> bool {
        // SAFETY: A word; nobody changes the array any more.
        unsafe { !(*self.raw()).tgt_qps.xa_head.is_null() }
    }
}

impl New<Xrcd> {
    /// Initialises semaphore and array.
    fn set_up(&mut self) {
        // SAFETY: Both are in memory that is ours.
        unsafe {
            bindings::rdma_helper_xrcd_init_rwsem(&raw mut (*self.raw()).tgt_qps_rwsem);
            bindings::xa_init_flags(&raw mut (*self.raw()).tgt_qps, 0);
        }
    }
}

/// Makes a domain. May sleep.
fn alloc(
    device: &Device,
    inode: Passed<bindings::inode>,
    call: Option<&UserCall>,
) -> Result<Owned<Xrcd>> {
    device.needs(|ops| ops.alloc_xrcd)?;
    let mut xrcd = New::<Xrcd>::alloc(device, From::Anywhere, XrcdInit { device, inode })?;
    xrcd.set_up();
    xrcd.driver().alloc_xrcd(call)?;
    Ok(xrcd.finish())
}

/// Destroys a domain that nobody begins to use: `EBUSY` while objects use it. May sleep.
fn dealloc(xrcd: Given<Xrcd>, call: Option<&UserCall>) -> Result {
    let xrcd = xrcd.owned()?;
    if xrcd.usecnt().is_used() {
        return Err(EBUSY);
    }
    xrcd.device().needs(|ops| ops.dealloc_xrcd)?;
    // Every target queue pair counts as a user, so none is in there.
    kernel::warn_on!(xrcd.has_targets());
    xrcd.destroy(|xrcd| xrcd.dealloc_xrcd(call))
}

rdma::export! {
    in rdma::bindings;

    /// See [`alloc`].
    fn ib_alloc_xrcd_user(
        device: &Device, inode: Passed<bindings::inode>, call: Option<&UserCall>,
    ) -> Result<Owned<Xrcd>> = alloc;
    /// See [`dealloc`].
    fn ib_dealloc_xrcd_user(xrcd: Given<Xrcd>, call: Option<&UserCall>)
        -> Result = dealloc;
}
