// SPDX-License-Identifier: GPL-2.0

//! Address vectors from path and group records of the SA, or from their RoCE equivalents.

use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs::AhAttr;
use rdma::edge::verbs::GidAttr;
use rdma::edge::Lent;
use rdma::edge::Passed;

use super::convert::member_from_c;
use super::edge::read_as;
use super::edge::LentRecord;
use super::edge::Roce;
use crate::addr::path::reach;
use crate::addr::path::Reach;
use crate::device::Caps;
use crate::device::Device;
use crate::gid;
use crate::gid::GidRef;
use crate::object::ah_attr::set_route;
use crate::proto::gid::Gid;
use crate::proto::sa::PERMISSIVE_LID;

/// Fabric of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fabric {
    Ib,
    Opa,
    RoceV1,
    RoceV2,
}

impl Fabric {
    /// Returns the fabric of a path record type; `None` for an unknown type.
    pub(super) const fn of(rec_type: bindings::sa_path_rec_type) -> Option<Self> {
        Some(match rec_type {
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_IB => Self::Ib,
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_OPA => Self::Opa,
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V1 => Self::RoceV1,
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2 => Self::RoceV2,
            _ => return None,
        })
    }

    const fn gid_type(this: Option<Self>) -> bindings::ib_gid_type {
        match this {
            Some(Self::RoceV1) => bindings::ib_gid_type_IB_GID_TYPE_ROCE,
            Some(Self::RoceV2) => bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP,
            Some(Self::Ib | Self::Opa) | None => bindings::ib_gid_type_IB_GID_TYPE_IB,
        }
    }
}

/// Sets the destination LID and path bits of a vector that is not RoCE's.
pub(super) fn set_lid(attr: &AhAttr, dlid: u32, path_bits: u8, make_grd: bool) {
    match attr.kind() {
        bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB => {
            // CAST: InfiniBand's LIDs have 16 bits.
            attr.set_ib(dlid as u16, path_bits);
        }
        bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA => {
            attr.set_opa(dlid, path_bits, make_grd);
        }
        _ => {}
    }
}

/// Checks that the destination of a RoCE path is reachable.
fn check_route(fabric: Fabric, entry: Option<&GidAttr>, from: Gid, to: Gid) -> Result {
    let reach = reach(entry.ok_or(EINVAL)?, from, to)?;
    if reach == Reach::Routed && fabric != Fabric::RoceV2 {
        return Err(EINVAL);
    }
    Ok(())
}

/// Initialises the address vector of a path. `entry` is the local GID; if `None`, it is looked up.
/// On success, the vector may hold a GID reference. May sleep for RoCE paths; any context
/// otherwise.
///
/// # Errors
///
/// For RoCE those of [`reach`], and `EINVAL` if a RoCE v1 path needs routing; those of the GID
/// lookup.
pub(super) fn init_from_path(
    device: &Device,
    port: u32,
    Lent(rec): Lent<'_, bindings::sa_path_rec>,
    attr: &AhAttr,
    entry: Option<&GidAttr>,
) -> Result {
    let fabric = Fabric::of(rec.rec_type);
    attr.assign(&AhAttr::default());
    attr.set_kind(Caps::of(device, port).ah_type(device));
    attr.set_sl(rec.sl);
    attr.set_port_num(port);
    attr.set_static_rate(rec.rate);
    let is_roce = matches!(fabric, Some(Fabric::RoceV1 | Fabric::RoceV2));
    let (from, to) = (Gid(read_as(&rec.sgid)), Gid(read_as(&rec.dgid)));
    match fabric {
        Some(fabric @ (Fabric::RoceV1 | Fabric::RoceV2)) => {
            let roce: Roce = read_as(&rec.__bindgen_anon_1);
            // The route is resolved once per record.
            if !roce.is_resolved() {
                check_route(fabric, entry, from, to)?;
                rec.__bindgen_anon_1.roce = roce.resolved();
            }
            attr.set_mac(roce.dmac());
        }
        Some(Fabric::Ib) => {
            let ib: bindings::sa_path_rec_ib = read_as(&rec.__bindgen_anon_1);
            let (dlid, slid) = (u16::from_be(ib.dlid), u16::from_be(ib.slid));
            // CAST: The mask has 8 bits.
            let path_bits = slid as u8 & super::path_mask(device, port);
            set_lid(attr, dlid.into(), path_bits, false);
        }
        Some(Fabric::Opa) => {
            let opa: bindings::sa_path_rec_opa = read_as(&rec.__bindgen_anon_1);
            let (dlid, slid) = (u32::from_be(opa.dlid), u32::from_be(opa.slid));
            // CAST: The mask has 8 bits.
            let path_bits = slid as u8 & super::path_mask(device, port);
            set_lid(attr, dlid, path_bits, dlid == PERMISSIVE_LID);
        }
        None => {}
    }
    if rec.hop_limit == 0 && !is_roce {
        return Ok(());
    }
    let entry = match entry {
        Some(entry) => GidRef::hold(entry),
        None => {
            let gid_type = Fabric::gid_type(fabric);
            gid::find_by_port(device, from, gid_type, port, Passed::NULL)?
        }
    };
    let label = u32::from_be(rec.flow_label);
    let (hops, class) = (rec.hop_limit, rec.traffic_class);
    set_route(attr, Some(to), label, hops, class, entry);
    Ok(())
}

/// Initialises the address vector of a multicast group, with a reference to the local GID. Any
/// context.
///
/// # Errors
///
/// `EINVAL` for a port that is neither InfiniBand nor RoCE; those of the GID lookup.
pub(super) fn init_from_member(
    device: &Device,
    port: u32,
    rec: LentRecord<'_, bindings::ib_sa_mcmember_rec>,
    ndev: Passed<bindings::net_device>,
    gid_type: bindings::ib_gid_type,
    attr: &AhAttr,
) -> Result {
    let caps = Caps::of(device, port);
    // InfiniBand GIDs are not associated with a network device.
    let ndev = if caps.is_ib() {
        Passed::NULL
    } else if caps.is_roce() {
        ndev
    } else {
        return Err(EINVAL);
    };
    let rec = member_from_c(rec.read());
    let entry = gid::find_by_port(device, rec.port_gid, gid_type, port, ndev)?;
    attr.assign(&AhAttr::default());
    attr.set_kind(caps.ah_type(device));
    attr.set_sl(rec.sl);
    attr.set_port_num(port);
    attr.set_static_rate(rec.rate);
    set_lid(attr, rec.mlid.into(), 0, false);
    let (hops, class) = (rec.hop_limit, rec.traffic_class);
    set_route(attr, Some(rec.mgid), rec.flow_label, hops, class, entry);
    Ok(())
}
