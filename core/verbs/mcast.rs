// SPDX-License-Identifier: GPL-2.0

//! Multicast groups that a queue pair is a member of. Each membership counts as a use.

use super::object::code;
use super::object::method;
use super::object::outcome;
use super::object::Object;
use super::object::Qp;
use super::port::link_layer;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::net::addr::gid_to_ip;

/// The LIDs of multicast groups, the permissive one beside them left out (IBTA 4.1.3).
const GROUP_LIDS: core::ops::Range<u16> = 0xc000..0xffff;

/// Whether a GID is that of a group: one of its own, or of an IPv4 group.
fn is_group(gid: &bindings::ib_gid) -> bool {
    // SAFETY: All members of the union are plain bytes.
    let raw = unsafe { gid.raw };
    gid_to_ip(&raw).is_multicast()
}

/// Whether the queue pair is on Ethernet, where LIDs mean nothing (IBTA annex A16): its port,
/// if it has one yet, or else any of the device's.
fn is_on_ethernet(qp: &Qp) -> bool {
    let device = qp.device();
    let is_ethernet =
        |port| link_layer(device, port) != bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND;
    match super::qp::state_and_port(qp) {
        Ok((state, port)) if state >= bindings::ib_qp_state_IB_QPS_INIT => is_ethernet(port),
        _ => device.ports().any(is_ethernet),
    }
}

/// # Errors
///
/// `EINVAL` for what is no group, or a queue pair that has none.
fn check(qp: &Qp, gid: &bindings::ib_gid, lid: u16) -> Result {
    // SAFETY: The object lives; written before it was handed out.
    let is_ud = unsafe { (*qp.as_raw()).qp_type } == bindings::ib_qp_type_IB_QPT_UD;
    if is_group(gid) && is_ud && (GROUP_LIDS.contains(&lid) || is_on_ethernet(qp)) {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

rdma::exported!(ib_attach_mcast, ib_detach_mcast);

/// Makes a queue pair a member of a group. May sleep.
///
/// # Safety
///
/// `qp` lives and `gid` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_attach_mcast(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    lid: u16,
) -> c_int {
    let attach = || {
        // SAFETY: By this function's duty.
        let this = unsafe { Qp::from_raw(qp) };
        let attach = method(this.device().ops().attach_mcast)?;
        // SAFETY: By this function's duty.
        check(this, unsafe { &*gid }, lid)?;
        // SAFETY: By this function's duty; the method is the driver's own.
        unsafe {
            outcome(attach(qp, gid, lid))?;
            bindings::atomic_inc(&raw mut (*qp).usecnt);
        }
        Ok(())
    };
    code(attach())
}

/// Ends a membership. May sleep.
///
/// # Safety
///
/// `qp` lives and `gid` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_detach_mcast(
    qp: *mut bindings::ib_qp,
    gid: *mut bindings::ib_gid,
    lid: u16,
) -> c_int {
    let detach = || {
        // SAFETY: By this function's duty.
        let this = unsafe { Qp::from_raw(qp) };
        let detach = method(this.device().ops().detach_mcast)?;
        // SAFETY: By this function's duty.
        check(this, unsafe { &*gid }, lid)?;
        // SAFETY: By this function's duty; the method is the driver's own.
        unsafe {
            outcome(detach(qp, gid, lid))?;
            bindings::atomic_dec(&raw mut (*qp).usecnt);
        }
        Ok(())
    };
    code(detach())
}
