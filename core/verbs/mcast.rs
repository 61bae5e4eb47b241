// SPDX-License-Identifier: GPL-2.0

//! Multicast group memberships of a queue pair. Each membership counts as a use of the queue pair.

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

/// Multicast LIDs, without the permissive LID (IBTA 4.1.3).
const GROUP_LIDS: core::ops::Range<u16> = 0xc000..0xffff;

/// Returns whether a GID is a multicast GID, native or mapped from an IPv4 group.
fn is_group(gid: &Gid) -> bool {
    gid_to_ip(&gid.0).is_multicast()
}

/// Returns whether the queue pair is on Ethernet, where LIDs have no meaning (IBTA annex A16).
/// Checks its port, if that is set, otherwise all ports of the device.
fn is_on_ethernet(qp: &Qp) -> bool {
    let device = qp.device();
    let is_ethernet =
        |port| link_layer(device, port) != bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND;
    match super::qp::state_and_port(qp) {
        Ok((state, port)) if state >= bindings::ib_qp_state_IB_QPS_INIT => is_ethernet(port),
        _ => device.ports().any(is_ethernet),
    }
}

/// Checks whether a queue pair may join a group.
///
/// # Errors
///
/// `EINVAL` for an address that is not a group's, or a queue pair that does not support multicast.
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
    /// Adds a queue pair to a multicast group. May sleep.
    fn ib_attach_mcast(qp: &Qp, gid: MutGid, lid: u16) -> Result = attach;
    /// Removes a queue pair from a multicast group. May sleep.
    fn ib_detach_mcast(qp: &Qp, gid: MutGid, lid: u16) -> Result = detach;
}
