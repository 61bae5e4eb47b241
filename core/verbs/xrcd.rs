// SPDX-License-Identifier: GPL-2.0

//! XRC domains: several processes may use the target queue pairs in a domain
//! ([`super::shared_qp`]).

use crate::device::Device;
use crate::object::tables::UserCall;
use crate::object::tables::XrcdInit;
use crate::object::AllocFrom;
use crate::object::Given;
use crate::object::New;
use crate::object::Object;
use crate::object::Owned;
use crate::object::Owning;
use crate::object::Xrcd;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::Passed;

/// Allocates a domain. May sleep.
fn alloc(
    device: &Device,
    inode: Passed<bindings::inode>,
    call: Option<&UserCall>,
) -> Result<Owned<Xrcd>> {
    device.needs(|ops| ops.alloc_xrcd)?;
    let mut xrcd =
        New::<Xrcd>::alloc(device, AllocFrom::Anywhere, XrcdInit { dev: device, inode })?;
    Xrcd::set_up(&mut xrcd);
    xrcd.driver().alloc_xrcd(call)?;
    Ok(xrcd.finish())
}

/// Destroys a domain, which must not get new users meanwhile. Returns `EBUSY` while objects use it.
/// May sleep.
fn dealloc(xrcd: Given<Xrcd>, call: Option<&UserCall>) -> Result {
    let xrcd = xrcd.owned()?;
    if xrcd.usecnt().is_used() {
        return Err(EBUSY);
    }
    xrcd.device().needs(|ops| ops.dealloc_xrcd)?;
    // Each target queue pair counts as a user, so there are none left.
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
