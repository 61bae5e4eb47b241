// SPDX-License-Identifier: GPL-2.0

//! Address handles: the destination of datagrams. Created in any context, if the caller's flags say
//! so.

use crate::addr;
use crate::object::ah_attr::Replace;
use crate::object::tables::Ah;
use crate::object::tables::AhAttr;
use crate::object::tables::AhInit;
use crate::object::tables::AhMake;
use crate::object::tables::UserCall;
use crate::object::AllocFrom;
use crate::object::Filled;
use crate::object::Given;
use crate::object::Held;
use crate::object::New;
use crate::object::Object;
use crate::object::Out;
use crate::object::Owned;
use crate::object::Owning;
use crate::object::Pd;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::net::NetDevice;

/// Calling context and additional driver parameters.
struct Request<'a> {
    /// `rdma_create_ah_flags`.
    flags: u32,
    /// The call of a user.
    call: Option<&'a UserCall>,
    /// The slave of a bond that sends the packets.
    slave: Option<ARef<NetDevice>>,
}

const fn may_sleep(flags: u32) -> bool {
    flags & bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE != 0
}

fn make(pd: &Pd, attr: &Filled<'_>, request: &Request<'_>) -> Result<Owned<Ah>> {
    let device = pd.device();
    if request.call.is_none() {
        device.needs(|ops| ops.create_ah)?;
    } else {
        device.needs(|ops| ops.create_user_ah)?;
    }
    let from = if may_sleep(request.flags) {
        AllocFrom::Anywhere
    } else {
        AllocFrom::Atomic
    };
    let kind = attr.kind();
    let ah = New::<Ah>::alloc(
        device,
        from,
        AhInit {
            dev: device,
            pd,
            kind,
        },
    )?;
    ah.sgid_attr().replace(attr.gid());
    let wanted = AhMake::new(attr.attr(), request.flags, request.slave.as_deref());
    match request.call {
        None => ah.driver().create_ah(&wanted, None),
        call => ah.driver().create_user_ah(&wanted, call),
    }
    .inspect_err(|_| ah.sgid_attr().replace(None))?;
    Held::count(&*ah).keep();
    Ok(ah.finish())
}

/// Creates a handle for a kernel consumer, from a vector that contains the link-layer address. May
/// sleep if `flags` permit.
pub(crate) fn create(pd: &Pd, attr: &AhAttr, flags: u32) -> Result<Owned<Ah>> {
    let attr = Filled::new(pd.device(), attr)?;
    let slave = addr::lag::slave_of(pd.device(), &attr, may_sleep(flags))?;
    let request = Request {
        flags,
        call: None,
        slave,
    };
    make(pd, &attr, &request)
}

/// Creates a handle for a user. For RoCE, this resolves the link-layer address, which may take a
/// second. May sleep.
fn create_for_user(pd: &Pd, attr: &AhAttr, call: Option<&UserCall>) -> Result<Owned<Ah>> {
    let mut attr = Filled::new(pd.device(), attr)?;
    if attr.is_roce() {
        addr::resolve(&mut attr)?;
    }
    let request = Request {
        flags: bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE,
        call,
        slave: None,
    };
    make(pd, &attr, &request)
}

/// Changes the destination of a handle. Any context that the driver allows.
fn modify(ah: &Ah, attr: &AhAttr) -> Result {
    if ah.kind() != attr.kind() {
        return Err(EINVAL);
    }
    let attr = Filled::new(ah.device(), attr)?;
    ah.driver().modify_ah(attr.attr())?;
    ah.sgid_attr().replace(attr.gid());
    Ok(())
}

/// Reads the destination of a handle, without a reference to the local GID. Any context that the
/// driver allows.
pub(crate) fn query_attr(ah: &Ah, attr: &AhAttr) -> Result {
    ah.driver().query_ah(attr)
}

/// Like [`query_attr`], for C.
fn query(ah: &Ah, attr: Out<'_, AhAttr>) -> Result {
    query_attr(ah, &attr)
}

/// Destroys a handle that is no longer in use. May sleep if `flags` permit.
pub(crate) fn destroy(ah: Given<Ah>, flags: u32, _call: Option<&UserCall>) -> Result {
    ah.owned()?.destroy(|ah| ah.destroy_ah(flags))
}

rdma::export! {
    in rdma::bindings;

    /// See [`create`].
    fn rdma_create_ah(pd: &Pd, attr: &AhAttr, flags: u32) -> Result<Owned<Ah>> = create;
    /// See [`create_for_user`].
    fn rdma_create_user_ah(pd: &Pd, attr: &AhAttr, call: Option<&UserCall>)
        -> Result<Owned<Ah>> = create_for_user;
    /// See [`modify`].
    fn rdma_modify_ah(ah: &Ah, attr: &AhAttr) -> Result = modify;
    /// See [`query`].
    fn rdma_query_ah(ah: &Ah, attr: Out<'_, AhAttr>) -> Result = query;
    /// See [`destroy`].
    fn rdma_destroy_ah_user(ah: Given<Ah>, flags: u32, call: Option<&UserCall>)
        -> Result = destroy;
}
