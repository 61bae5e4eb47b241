// SPDX-License-Identifier: GPL-2.0

//! Address handles: where a datagram goes. Made in any context, if the caller says so.

use super::ah_attr::Filled;
use super::ah_attr::GidRef;
use super::ah_attr::GidSlot;
use super::object::code;
use super::object::keep;
use super::object::method;
use super::object::outcome;
use super::object::pointer;
use super::object::usecnt;
use super::object::Ah;
use super::object::From;
use super::object::New;
use super::object::Object;
use super::object::Pd;
use super::object::Use;
use crate::addr;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::net::NetDevice;

/// The calling context and what is handed to the driver.
struct Request {
    /// `rdma_create_ah_flags`.
    flags: u32,
    /// A user's call, or null.
    udata: *mut bindings::ib_udata,
    /// The device of a bond that packets leave by.
    slave: Option<ARef<NetDevice>>,
}

const fn may_sleep(flags: u32) -> bool {
    flags & bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE != 0
}

/// # Safety
///
/// `request.udata` is null or a user's call.
unsafe fn make(pd: &Pd, attr: &Filled<'_>, request: &Request) -> Result<NonNull<bindings::ib_ah>> {
    let device = pd.device();
    let ops = device.ops();
    let create = method(if request.udata.is_null() {
        ops.create_ah
    } else {
        ops.create_user_ah
    })?;
    let mut ah = New::<Ah>::alloc(
        device,
        if may_sleep(request.flags) {
            From::Anywhere
        } else {
            From::Atomic
        },
    )?;
    let gid = attr.hold_for();
    ah.c().device = device.as_raw();
    ah.c().pd = pd.as_raw();
    ah.c().type_ = attr.ah_type();
    // The handle's own from the end of this function on.
    ah.c().sgid_attr = attr.gid().map_or(core::ptr::null(), core::ptr::from_ref);
    let mut init = bindings::rdma_ah_init_attr {
        ah_attr: attr.as_raw(),
        flags: request.flags,
        xmit_slave: request
            .slave
            .as_ref()
            .map_or(core::ptr::null_mut(), |slave| slave.as_raw()),
    };
    // SAFETY: The object is filled in; the rest by this function's duty; the method is the
    // driver's own.
    outcome(unsafe { create(ah.as_raw(), &mut init, request.udata) })?;
    // SAFETY: The domain lives, and is not destroyed while it is counted.
    keep([unsafe { Use::of(pd.usecnt()) }]);
    if let Some(gid) = gid {
        let _: *const bindings::ib_gid_attr = gid.into_raw();
    }
    Ok(ah.finish())
}

/// Makes a handle for a part of the kernel, from a vector that has its link layer's address.
/// May sleep if `flags` say so.
pub(super) fn create(
    pd: &Pd,
    attr: &mut bindings::rdma_ah_attr,
    flags: u32,
) -> Result<NonNull<bindings::ib_ah>> {
    let attr = Filled::new(pd.device(), attr)?;
    let slave = addr::lag::slave_of(pd.device(), &attr, may_sleep(flags))?;
    let request = Request {
        flags,
        udata: core::ptr::null_mut(),
        slave,
    };
    // SAFETY: There is no user's call.
    unsafe { make(pd, &attr, &request) }
}

rdma::exported!(
    rdma_create_ah,
    rdma_create_user_ah,
    rdma_modify_ah,
    rdma_query_ah,
    rdma_destroy_ah_user,
);

/// See [`create`].
///
/// # Safety
///
/// `pd` lives and `attr` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_create_ah(
    pd: *mut bindings::ib_pd,
    attr: *mut bindings::rdma_ah_attr,
    flags: u32,
) -> *mut bindings::ib_ah {
    // SAFETY: By this function's duty.
    pointer(unsafe { create(Pd::from_raw(pd), &mut *attr, flags) })
}

/// Makes a handle for a user, who does not know the address of the link layer: that is looked
/// up for RoCE, which may take a second. May sleep.
///
/// # Safety
///
/// `pd` lives and `attr` is valid; `udata` is a user's call.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_create_user_ah(
    pd: *mut bindings::ib_pd,
    attr: *mut bindings::rdma_ah_attr,
    udata: *mut bindings::ib_udata,
) -> *mut bindings::ib_ah {
    let create = || {
        // SAFETY: By this function's duty.
        let (pd, attr) = unsafe { (Pd::from_raw(pd), &mut *attr) };
        let mut attr = Filled::new(pd.device(), attr)?;
        if attr.is_roce() {
            addr::resolve(&mut attr)?;
        }
        let request = Request {
            flags: bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE,
            udata,
            slave: None,
        };
        // SAFETY: By this function's duty.
        unsafe { make(pd, &attr, &request) }
    };
    pointer(create())
}

/// Changes where a handle leads. Any context that the driver allows.
///
/// # Safety
///
/// `ah` lives and `attr` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_modify_ah(
    ah: *mut bindings::ib_ah,
    attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    let modify = || {
        // SAFETY: By this function's duty.
        let (this, attr) = unsafe { (Ah::from_raw(ah), &mut *attr) };
        // SAFETY: As above; written before the handle was handed out.
        if unsafe { (*ah).type_ } != attr.type_ {
            return Err(EINVAL);
        }
        let attr = Filled::new(this.device(), attr)?;
        let modify = method(this.device().ops().modify_ah)?;
        // SAFETY: By this function's duty; the method is the driver's own.
        outcome(unsafe { modify(ah, attr.as_raw()) })?;
        // SAFETY: The handle lives, and its reference is changed only here.
        unsafe { GidSlot::new(&raw mut (*ah).sgid_attr) }.replace(attr.hold_for());
        Ok(())
    };
    code(modify())
}

/// Reads where a handle leads, without a reference to the local GID. Any context that the
/// driver allows.
///
/// # Safety
///
/// `ah` lives and `attr` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_query_ah(
    ah: *mut bindings::ib_ah,
    attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By this function's duty.
    let ops = unsafe {
        (*attr).grh.sgid_attr = core::ptr::null();
        Ah::from_raw(ah).device().ops()
    };
    code(method(ops.query_ah).and_then(|query| {
        // SAFETY: By this function's duty; the method is the driver's own.
        outcome(unsafe { query(ah, attr) })
    }))
}

/// Destroys a handle. May sleep if `flags` say so.
///
/// # Safety
///
/// `ah` lives and nobody uses it any more.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_destroy_ah_user(
    ah: *mut bindings::ib_ah,
    flags: u32,
    _udata: *mut bindings::ib_udata,
) -> c_int {
    let destroy = || {
        let ptr = NonNull::new(ah).ok_or(EINVAL)?;
        // SAFETY: By this function's duty.
        let destroy = method(unsafe { Ah::from_raw(ah) }.device().ops().destroy_ah)?;
        // SAFETY: As above. The driver must not find them changed, so they are given up after.
        let (pd, gid) = unsafe { (usecnt!((*ah).pd), (*ah).sgid_attr) };
        // SAFETY: By this function's duty; the method is the driver's own; count and reference
        // were kept when the handle was made.
        unsafe {
            super::object::destroy::<Ah>(
                ptr,
                || outcome(destroy(ah, flags)),
                || {
                    drop(Use::kept(pd));
                    drop(GidRef::take(gid));
                },
            )
        }
    };
    code(destroy())
}
