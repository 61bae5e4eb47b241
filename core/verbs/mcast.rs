// SPDX-License-Identifier: GPL-2.0

//! Multicast groups that a queue pair is a member of. Each membership counts as a use.

use super::edge;
use super::port::link_layer;
use crate::gid::edge::raw;
use crate::gid::edge::MutGid;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::gid::Gid;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::Lent;
use rdma::net::addr::gid_to_ip;

/// The LIDs of multicast groups, the permissive one beside them left out (IBTA 4.1.3).
const GROUP_LIDS: core::ops::Range<u16> = 0xc000..0xffff;

/// Whether a GID is that of a group: one of its own, or of an IPv4 group.
fn is_group(gid: &Gid) -> bool {
    gid_to_ip(&gid.0).is_multicast()
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
fn check(qp: &Qp, gid: &Gid, lid: u16) -> Result {
    let is_ud = qp.qp_type() == bindings::ib_qp_type_IB_QPT_UD;
    if is_group(gid) && is_ud && (GROUP_LIDS.contains(&lid) || is_on_ethernet(qp)) {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

fn attach(qp: &Qp, MutGid(gid): MutGid, lid: u16) -> Result {
    qp.device().needs(|ops| ops.attach_mcast)?;
    check(qp, &gid, lid)?;
    qp.driver().attach_mcast(Lent(&mut raw(gid)), lid)?;
    qp.usecnt().count().keep();
    Ok(())
}

fn detach(qp: &Qp, MutGid(gid): MutGid, lid: u16) -> Result {
    qp.device().needs(|ops| ops.detach_mcast)?;
    check(qp, &gid, lid)?;
    edge::detach_mcast(qp, gid, lid)
}

rdma::export! { in rdma::bindings;
    /// Makes a queue pair a member of a group. May sleep.
    fn ib_attach_mcast(qp: &Qp, gid: MutGid, lid: u16) -> Result = attach;
    /// Ends a membership. May sleep.
    fn ib_detach_mcast(qp: &Qp, gid: MutGid, lid: u16) -> Result = detach;
}
