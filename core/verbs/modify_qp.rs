// SPDX-License-Identifier: GPL-2.0

//! Changes of a queue pair.
//!
//! Which attributes a change of state takes is [`crate::proto::modify_qp`]'s, and drivers ask
//! for it (`ib_modify_qp_is_ok`). Here is prepared what the driver needs: the local GIDs of
//! the paths are held, for RoCE the address of the link layer is found for users, and the
//! port's counter is bound. What a change took over is noted when the driver agreed.

use super::ah_attr::Filled;
use super::ah_attr::GidSlot;
use super::object::code;
use super::object::method;
use super::object::outcome;
use super::object::Object;
use super::object::Qp;
use super::port::Caps;
use crate::addr;
use crate::counter;
use crate::proto::modify_qp as rules;
use crate::proto::qp::Attrs;
use crate::security;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::net::NetDevice;

/// Packet numbers have 24 bits.
const PSN_MASK: u32 = 0x00ff_ffff;

/// Whether queue pairs of this type have one peer.
const fn is_connected(qp_type: bindings::ib_qp_type) -> bool {
    matches!(
        qp_type,
        bindings::ib_qp_type_IB_QPT_UC
            | bindings::ib_qp_type_IB_QPT_RC
            | bindings::ib_qp_type_IB_QPT_XRC_INI
            | bindings::ib_qp_type_IB_QPT_XRC_TGT
    )
}

/// Whether the port of a change has InfiniBand's transport.
fn is_ib_or_roce(qp: &Qp, port: u32) -> bool {
    let caps = Caps::of(qp.device(), port);
    caps.is_ib() || caps.is_roce()
}

/// Cuts a packet number to 24 bits; consumers that count on are many.
fn cut_psn(qp: &Qp, psn: &mut u32, what: &str) {
    if *psn & !PSN_MASK != 0 {
        // SAFETY: The device lives.
        let device = unsafe { (*qp.device().as_raw()).name };
        let name = CStr::from_bytes_until_nul(device.as_slice()).unwrap_or(c"");
        kernel::pr_warn_once!("{name:?}: {what} overflow, masking to 24 bits\n");
        *psn &= PSN_MASK;
    }
}

/// Prepares the path of a change. `for_user`: who asks knows no address of the link layer.
/// Returns the device of a bond that packets leave by.
fn prepare_path(qp: &Qp, path: &mut Filled<'_>, for_user: bool) -> Result<Option<ARef<NetDevice>>> {
    // SAFETY: The object lives; written before it was handed out.
    let qp_type = unsafe { (*qp.as_raw()).qp_type };
    if !path.is_roce() || !is_connected(qp_type) {
        return Ok(None);
    }
    if for_user {
        addr::resolve(path)?;
    }
    addr::lag::slave_of(qp.device(), path, true)
}

/// Changes a queue pair. May sleep; for a user's RoCE path it may take a second.
///
/// # Errors
///
/// `EINVAL` and others for a path that does not fit; `ENODATA`, `ETIMEDOUT`, those of routing
/// for one that leads nowhere; the driver's.
///
/// # Safety
///
/// `udata` is null or a user's call; references in `attr` are held.
unsafe fn modify(
    qp: &Qp,
    attr: &mut bindings::ib_qp_attr,
    mask: c_int,
    udata: *mut bindings::ib_udata,
) -> Result {
    let raw = qp.as_raw();
    // The mask is a set of bits, whatever its type.
    let attrs = Attrs(mask as u32);
    let device = qp.device();
    let modify = method(device.ops().modify_qp)?;
    let has_port = attrs.has_any(Attrs::PORT);
    let port = if has_port {
        attr.port_num
    } else {
        // SAFETY: The object lives.
        unsafe { Atomic::from_ptr(&raw mut (*raw).port).load(Relaxed) }
    };
    let attr_ptr: *mut bindings::ib_qp_attr = attr;
    attr.xmit_slave = core::ptr::null_mut();

    // SAFETY: Valid by this function's borrow; the two are different fields.
    let (path, alternate) = unsafe { (&mut (*attr_ptr).ah_attr, &mut (*attr_ptr).alt_ah_attr) };
    let mut slave = None;
    let path = if attrs.has_any(Attrs::AV) {
        let mut path = Filled::new(device, path)?;
        slave = prepare_path(qp, &mut path, !udata.is_null())?;
        Some(path)
    } else {
        None
    };
    let alternate = if attrs.has_any(Attrs::ALT_PATH) {
        let alternate = Filled::new(device, alternate)?;
        // Nobody can migrate a path of RoCE.
        let both = [alternate.port(), port];
        if !both.iter().all(|port| Caps::of(device, *port).is_ib()) {
            return Err(EINVAL);
        }
        Some(alternate)
    } else {
        None
    };

    // SAFETY: Valid by this function's borrow; no reference to the fields exists elsewhere.
    unsafe {
        (*attr_ptr).xmit_slave = slave
            .as_ref()
            .map_or(core::ptr::null_mut(), |slave| slave.as_raw());
        if is_ib_or_roce(qp, port) {
            if attrs.has_any(Attrs::RQ_PSN) {
                cut_psn(qp, &mut (*attr_ptr).rq_psn, "rq_psn");
            }
            if attrs.has_any(Attrs::SQ_PSN) {
                cut_psn(qp, &mut (*attr_ptr).sq_psn, "sq_psn");
            }
        }
    }
    // SAFETY: The object lives.
    let to_init = unsafe { (*attr_ptr).qp_state } == bindings::ib_qp_state_IB_QPS_INIT;
    // SAFETY: As above. Whoever binds looks again under its lock.
    let is_counted = unsafe {
        !Atomic::from_ptr(&raw mut (*raw).counter)
            .load(Relaxed)
            .is_null()
    };
    if !is_counted && has_port && attrs.has_any(Attrs::STATE) && to_init {
        if let Some(qp) = NonNull::new(raw) {
            // SAFETY: As above.
            unsafe { counter::bind_qp_auto(qp, port) };
        }
    }
    // SAFETY: The queue pair lives; the rest by this function's duty; the method is the
    // driver's own.
    let done = unsafe {
        security::modify(raw, attr_ptr, attrs, || {
            outcome(modify((*raw).real_qp, attr_ptr, mask, udata))
        })
    };
    if done.is_ok() {
        // SAFETY: The object lives; its references are changed only through slots, and given
        // up when it is destroyed.
        unsafe {
            if has_port {
                // Others that change it at the same time read it.
                Atomic::from_ptr(&raw mut (*raw).port).store(port, Relaxed);
            }
            if let Some(path) = &path {
                GidSlot::new(&raw mut (*raw).av_sgid_attr).replace(path.hold_for());
            }
            if let Some(alternate) = &alternate {
                GidSlot::new(&raw mut (*raw).alt_path_sgid_attr).replace(alternate.hold_for());
            }
        }
    }
    done
}

rdma::exported!(ib_modify_qp_is_ok, ib_modify_qp, ib_modify_qp_with_udata);

/// Whether a change with these attributes is in order. Any context.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_modify_qp_is_ok(
    from: bindings::ib_qp_state,
    to: bindings::ib_qp_state,
    qp_type: bindings::ib_qp_type,
    mask: bindings::ib_qp_attr_mask,
) -> bool {
    let (Some(from), Some(to), Some(qp_type)) = (
        rules::QpState::from_raw(from),
        rules::QpState::from_raw(to),
        rules::QpType::from_raw(qp_type),
    ) else {
        return false;
    };
    rules::check(from, to, qp_type, Attrs(mask))
}

/// Changes a queue pair for a part of the kernel. See [`modify`].
///
/// # Safety
///
/// `qp` lives and `attr` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_modify_qp(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe { ib_modify_qp_with_udata(qp, attr, mask, core::ptr::null_mut()) }
}

/// Changes a queue pair for a user. See [`modify`].
///
/// # Safety
///
/// `qp` lives and `attr` is valid; `udata` is null or a user's call.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_modify_qp_with_udata(
    qp: *mut bindings::ib_qp,
    attr: *mut bindings::ib_qp_attr,
    mask: c_int,
    udata: *mut bindings::ib_udata,
) -> c_int {
    // SAFETY: By this function's duty; a handle's queue pair lives as long as it.
    code(unsafe { modify(Qp::from_raw((*qp).real_qp), &mut *attr, mask, udata) })
}
