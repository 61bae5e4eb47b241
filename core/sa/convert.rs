// SPDX-License-Identifier: GPL-2.0

//! Conversion of records between C's structures and the protocol types. C's structures hold
//! multi-byte numbers in network byte order.

use core::mem::ManuallyDrop;
use rdma::bindings;

use super::edge::read_as;
use crate::gid::edge::raw;
use crate::gid::edge::read;
use crate::proto::gid::Gid;
use crate::proto::sa::member::JoinState;
use crate::proto::sa::member::Member;
use crate::proto::sa::path::IbLink;
use crate::proto::sa::path::Link;
use crate::proto::sa::path::OpaLink;
use crate::proto::sa::path::Path;
use crate::proto::sa::record::GuidInfo;
use crate::proto::sa::record::Service;

/// Format of a path record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// InfiniBand format.
    Ib,
    /// Omni-Path format.
    Opa,
}

/// Converts a path from C. The link fields are read in the format `form`, whatever `rec_type` says.
pub(super) fn path_from_c(rec: bindings::sa_path_rec, form: Form) -> Path {
    let link = match form {
        Form::Ib => {
            let ib: bindings::sa_path_rec_ib = read_as(&rec.__bindgen_anon_1);
            Link::Ib(IbLink {
                dlid: u16::from_be(ib.dlid),
                slid: u16::from_be(ib.slid),
                raw_traffic: ib.raw_traffic,
            })
        }
        Form::Opa => {
            let opa: bindings::sa_path_rec_opa = read_as(&rec.__bindgen_anon_1);
            Link::Opa(OpaLink {
                dlid: u32::from_be(opa.dlid),
                slid: u32::from_be(opa.slid),
                raw_traffic: opa.raw_traffic,
                forms: [opa.l2_8B, opa.l2_10B, opa.l2_9B, opa.l2_16B],
                qos_type: opa.qos_type,
                qos_priority: opa.qos_priority,
            })
        }
    };
    Path {
        service_id: u64::from_be(rec.service_id),
        dgid: read(rec.dgid),
        sgid: read(rec.sgid),
        link,
        flow_label: u32::from_be(rec.flow_label),
        hop_limit: rec.hop_limit,
        traffic_class: rec.traffic_class,
        reversible: rec.reversible,
        numb_path: rec.numb_path,
        pkey: u16::from_be(rec.pkey),
        qos_class: u16::from_be(rec.qos_class),
        sl: rec.sl,
        mtu_selector: rec.mtu_selector,
        mtu: rec.mtu,
        rate_selector: rec.rate_selector,
        rate: rec.rate,
        life_time_selector: rec.packet_life_time_selector,
        life_time: rec.packet_life_time,
        preference: rec.preference,
    }
}

/// Converts a path to C. Type and flags, which are not part of the path, are taken from `rec`.
pub(super) fn path_to_c(path: &Path, mut rec: bindings::sa_path_rec) -> bindings::sa_path_rec {
    match path.link {
        Link::Ib(IbLink {
            dlid,
            slid,
            raw_traffic,
        }) => {
            rec.__bindgen_anon_1.ib = ManuallyDrop::new(bindings::sa_path_rec_ib {
                dlid: dlid.to_be(),
                slid: slid.to_be(),
                raw_traffic,
            });
        }
        Link::Opa(link) => {
            let [bytes8, bytes10, bytes9, bytes16] = link.forms;
            rec.__bindgen_anon_1.opa = ManuallyDrop::new(bindings::sa_path_rec_opa {
                dlid: link.dlid.to_be(),
                slid: link.slid.to_be(),
                raw_traffic: link.raw_traffic,
                l2_8B: bytes8,
                l2_10B: bytes10,
                l2_9B: bytes9,
                l2_16B: bytes16,
                qos_type: link.qos_type,
                qos_priority: link.qos_priority,
            });
        }
    }
    rec.service_id = path.service_id.to_be();
    rec.dgid = raw(path.dgid);
    rec.sgid = raw(path.sgid);
    rec.flow_label = path.flow_label.to_be();
    rec.hop_limit = path.hop_limit;
    rec.traffic_class = path.traffic_class;
    rec.reversible = path.reversible;
    rec.numb_path = path.numb_path;
    rec.pkey = path.pkey.to_be();
    rec.qos_class = path.qos_class.to_be();
    rec.sl = path.sl;
    rec.mtu_selector = path.mtu_selector;
    rec.mtu = path.mtu;
    rec.rate_selector = path.rate_selector;
    rec.rate = path.rate;
    rec.packet_life_time_selector = path.life_time_selector;
    rec.packet_life_time = path.life_time;
    rec.preference = path.preference;
    rec
}

/// Converts a group membership from C.
pub(super) fn member_from_c(rec: bindings::ib_sa_mcmember_rec) -> Member {
    Member {
        mgid: read(rec.mgid),
        port_gid: read(rec.port_gid),
        qkey: u32::from_be(rec.qkey),
        mlid: u16::from_be(rec.mlid),
        mtu_selector: rec.mtu_selector,
        mtu: rec.mtu,
        traffic_class: rec.traffic_class,
        pkey: u16::from_be(rec.pkey),
        rate_selector: rec.rate_selector,
        rate: rec.rate,
        life_time_selector: rec.packet_life_time_selector,
        life_time: rec.packet_life_time,
        sl: rec.sl,
        flow_label: u32::from_be(rec.flow_label),
        hop_limit: rec.hop_limit,
        scope: rec.scope,
        join_state: JoinState(rec.join_state),
        proxy_join: rec.proxy_join,
    }
}

/// Converts a group membership to C.
pub(super) fn member_to_c(member: &Member) -> bindings::ib_sa_mcmember_rec {
    bindings::ib_sa_mcmember_rec {
        mgid: raw(member.mgid),
        port_gid: raw(member.port_gid),
        qkey: member.qkey.to_be(),
        mlid: member.mlid.to_be(),
        mtu_selector: member.mtu_selector,
        mtu: member.mtu,
        traffic_class: member.traffic_class,
        pkey: member.pkey.to_be(),
        rate_selector: member.rate_selector,
        rate: member.rate,
        packet_life_time_selector: member.life_time_selector,
        packet_life_time: member.life_time,
        sl: member.sl,
        flow_label: member.flow_label.to_be(),
        hop_limit: member.hop_limit,
        scope: member.scope,
        join_state: member.join_state.0,
        proxy_join: member.proxy_join,
    }
}

/// Converts a service from C.
pub(super) fn service_from_c(rec: bindings::sa_service_rec) -> Service {
    // The data fields stay in wire order.
    let bytes = rec
        .data_8
        .into_iter()
        .chain(rec.data_16.into_iter().flat_map(u16::to_ne_bytes))
        .chain(rec.data_32.into_iter().flat_map(u32::to_ne_bytes))
        .chain(rec.data_64.into_iter().flat_map(u64::to_ne_bytes));
    let mut data = [0; 64];
    data.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    Service {
        id: u64::from_be(rec.id),
        gid: Gid(rec.gid),
        pkey: u16::from_be(rec.pkey),
        lease: u32::from_be(rec.lease),
        key: rec.key,
        name: rec.name,
        data,
    }
}

/// Splits `bytes` into numbers of `BYTES` bytes each, in wire order.
fn numbers<const BYTES: usize, const N: usize, T: Copy + Default>(
    bytes: &[u8],
    make: impl Fn([u8; BYTES]) -> T,
) -> [T; N] {
    let mut all = [T::default(); N];
    for (to, from) in all.iter_mut().zip(bytes.chunks_exact(BYTES)) {
        *to = from.try_into().map_or_else(|_| T::default(), &make);
    }
    all
}

/// Converts a service to C; fields that are not part of the service are taken from `rec`.
pub(super) fn service_to_c(
    service: &Service,
    mut rec: bindings::sa_service_rec,
) -> bindings::sa_service_rec {
    rec.id = service.id.to_be();
    rec.gid = service.gid.0;
    rec.pkey = service.pkey.to_be();
    rec.lease = service.lease.to_be();
    rec.key = service.key;
    rec.name = service.name;
    let (data_8, rest) = service.data.split_at(16);
    let (data_16, rest) = rest.split_at(16);
    let (data_32, data_64) = rest.split_at(16);
    rec.data_8 = numbers(data_8, |[byte]| byte);
    rec.data_16 = numbers(data_16, u16::from_ne_bytes);
    rec.data_32 = numbers(data_32, u32::from_ne_bytes);
    rec.data_64 = numbers(data_64, u64::from_ne_bytes);
    rec
}

/// Converts GUIDs from C.
pub(super) fn guids_from_c(rec: bindings::ib_sa_guidinfo_rec) -> GuidInfo {
    GuidInfo {
        lid: u16::from_be(rec.lid),
        block: rec.block_num,
        reserved1: rec.res1,
        reserved2: u32::from_be(rec.res2),
        guids: rec.guid_info_list,
    }
}

/// Converts GUIDs to C.
pub(super) fn guids_to_c(guids: &GuidInfo) -> bindings::ib_sa_guidinfo_rec {
    bindings::ib_sa_guidinfo_rec {
        lid: guids.lid.to_be(),
        block_num: guids.block,
        res1: guids.reserved1,
        res2: guids.reserved2.to_be(),
        guid_info_list: guids.guids,
    }
}
