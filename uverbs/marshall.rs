// SPDX-License-Identifier: GPL-2.0

//! Structures that `rdma_ucm` passes to programs: address vectors, attributes of queue pairs, path
//! records.
//!
//! Programs know only 16-bit LIDs. A longer LID of Omni-Path is passed in a GID.
//!
//! C headers: `include/rdma/ib_marshall.h`, `include/rdma/opa_addr.h`,
//! `include/uapi/rdma/ib_user_sa.h`.

use crate::edge::marshall;
use crate::edge::object::device;
use rdma::bindings::ib_user_path_rec;
use rdma::bindings::ib_uverbs_ah_attr;
use rdma::bindings::ib_uverbs_global_route;
use rdma::bindings::ib_uverbs_qp_attr;
use rdma::bindings::sa_path_rec;
use rdma::edge::device::Device;
use rdma::edge::verbs::AhAttr;
use rdma::edge::verbs::QpAttr;
use rdma::edge::Lent;

/// Upper 24 bits of an interface id that has an Omni-Path LID (`OPA_SPECIAL_OUI`).
const OPA_OUI: u64 = 0x00_066a;
/// The LID that all ports accept.
const PERMISSIVE_LID: u32 = 0xffff;
/// The first LID of multicast groups.
const MULTICAST_LIDS: u32 = 0xc000;

/// The lower half of a GID that has an Omni-Path LID.
fn interface_id(lid: u32) -> [u8; 8] {
    (OPA_OUI << 40 | u64::from(lid)).to_be_bytes()
}

/// Replaces the lower half of a GID.
fn set_interface_id(gid: &mut [u8; 16], id: [u8; 8]) {
    if let Some(half) = gid.last_chunk_mut() {
        *half = id;
    }
}

/// The low 16 bits of a LID.
fn low(lid: u32) -> u16 {
    // CAST: Programs get the low bits.
    lid as u16
}

/// The route to an Omni-Path LID that has more than 16 bits; `None` if the port cannot be queried.
/// May sleep.
fn opa_route(device: &Device, port: u32, lid: u32) -> Option<ib_uverbs_global_route> {
    let port = device::query_port(device, port).ok()?;
    let mut route = ib_uverbs_global_route {
        hop_limit: 1,
        ..Default::default()
    };
    if let Some(half) = route.dgid.first_chunk_mut() {
        *half = port.subnet_prefix.to_be_bytes();
    }
    set_interface_id(&mut route.dgid, interface_id(lid));
    Some(route)
}

/// The global route of a vector, if it has one.
fn route(attr: &AhAttr) -> Option<ib_uverbs_global_route> {
    let flag = rdma::bindings::ib_ah_flags_IB_AH_GRH;
    (u32::from(attr.ah_flags()) & flag != 0).then(|| ib_uverbs_global_route {
        dgid: attr.destination(),
        flow_label: attr.flow_label(),
        sgid_index: attr.sgid_index(),
        hop_limit: attr.hop_limit(),
        traffic_class: attr.traffic_class(),
        reserved: 0,
    })
}

/// Copies an address vector. May sleep.
fn vector(device: &Device, attr: &AhAttr) -> ib_uverbs_ah_attr {
    let (lid, path_bits) = attr.lids();
    // Only Omni-Path has such LIDs.
    let long = match lid > PERMISSIVE_LID {
        true => opa_route(device, attr.port_num(), lid),
        false => None,
    };
    let route = long.or_else(|| route(attr));
    ib_uverbs_ah_attr {
        is_global: route.is_some().into(),
        grh: route.unwrap_or_default(),
        dlid: low(lid),
        sl: attr.sl(),
        src_path_bits: path_bits,
        static_rate: attr.static_rate(),
        // CAST: Programs know 8 bits.
        port_num: attr.port_num() as u8,
        reserved: 0,
    }
}

fn vector_to_user(device: &Device, to: Lent<'_, ib_uverbs_ah_attr>, from: &AhAttr) {
    *to.0 = vector(device, from);
}

/// Copies attributes of a queue pair. The mask is the caller's. May sleep.
fn qp_to_user(device: &Device, to: Lent<'_, ib_uverbs_qp_attr>, from: &QpAttr) {
    *to.0 = ib_uverbs_qp_attr {
        qp_attr_mask: to.0.qp_attr_mask,
        qp_state: from.qp_state(),
        cur_qp_state: from.cur_qp_state(),
        path_mtu: from.path_mtu(),
        path_mig_state: from.path_mig_state(),
        qkey: from.qkey(),
        rq_psn: from.rq_psn(),
        sq_psn: from.sq_psn(),
        dest_qp_num: from.dest_qp_num(),
        // CAST: Flags.
        qp_access_flags: from.qp_access_flags() as u32,
        ah_attr: vector(device, from.ah_attr()),
        alt_ah_attr: vector(device, from.alt_ah_attr()),
        max_send_wr: from.max_send_wr(),
        max_recv_wr: from.max_recv_wr(),
        max_send_sge: from.max_send_sge(),
        max_recv_sge: from.max_recv_sge(),
        max_inline_data: from.max_inline_data(),
        pkey_index: from.pkey_index(),
        alt_pkey_index: from.alt_pkey_index(),
        en_sqd_async_notify: from.en_sqd_async_notify(),
        sq_draining: from.sq_draining(),
        max_rd_atomic: from.max_rd_atomic(),
        max_dest_rd_atomic: from.max_dest_rd_atomic(),
        min_rnr_timer: from.min_rnr_timer(),
        // CAST: Programs know 8 bits.
        port_num: from.port_num() as u8,
        timeout: from.timeout(),
        retry_cnt: from.retry_cnt(),
        rnr_retry: from.rnr_retry(),
        // CAST: Programs know 8 bits.
        alt_port_num: from.alt_port_num() as u8,
        alt_timeout: from.alt_timeout(),
        reserved: [0; 5],
    };
}

/// Copies a path. Any context.
fn path_to_user(to: Lent<'_, ib_user_path_rec>, from: Lent<'_, sa_path_rec>) {
    let (to, from) = (to.0, from.0);
    let link = marshall::path(from);
    let (mut dgid, mut sgid) = (marshall::gid(&from.dgid), marshall::gid(&from.sgid));
    let (mut dlid, mut slid) = (low(link.dlid), low(link.slid));
    if link.is_opa && (link.dlid >= MULTICAST_LIDS || link.slid >= MULTICAST_LIDS) {
        set_interface_id(&mut dgid, interface_id(link.dlid));
        set_interface_id(&mut sgid, interface_id(link.slid));
        (dlid, slid) = (0, 0);
    }
    // Field by field: the caller's padding stays.
    to.dgid = dgid;
    to.sgid = sgid;
    to.dlid = dlid.to_be();
    to.slid = slid.to_be();
    to.raw_traffic = link.raw_traffic.into();
    to.flow_label = from.flow_label;
    to.hop_limit = from.hop_limit;
    to.traffic_class = from.traffic_class;
    to.reversible = from.reversible.into();
    to.numb_path = from.numb_path;
    to.pkey = from.pkey;
    to.sl = from.sl;
    to.mtu_selector = from.mtu_selector;
    to.mtu = from.mtu.into();
    to.rate_selector = from.rate_selector;
    to.rate = from.rate;
    to.packet_life_time = from.packet_life_time;
    to.preference = from.preference;
    to.packet_life_time_selector = from.packet_life_time_selector;
}

rdma::export! { in rdma::bindings;
    /// See [`vector`].
    fn ib_copy_ah_attr_to_user(
        device: &Device, dst: Lent<'_, ib_uverbs_ah_attr>, src: &AhAttr,
    ) = vector_to_user;
    /// See [`qp_to_user`].
    fn ib_copy_qp_attr_to_user(
        device: &Device, dst: Lent<'_, ib_uverbs_qp_attr>, src: &QpAttr,
    ) = qp_to_user;
    /// See [`path_to_user`].
    fn ib_copy_path_rec_to_user(
        dst: Lent<'_, ib_user_path_rec>, src: Lent<'_, sa_path_rec>,
    ) = path_to_user;
}
