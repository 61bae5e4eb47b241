// SPDX-License-Identifier: GPL-2.0

//! Address vectors from what the administrator said of a path or a group, or from what stands
//! for that on Ethernet.

use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs::GidAttr;
use rdma::edge::View;

use crate::addr::path::reach;
use crate::addr::path::Reach;
use crate::device::Caps;
use crate::device::Device;
use crate::gid::GidRef;
use crate::proto::gid::Gid;
use crate::proto::sa::PERMISSIVE_LID;

/// What kind of fabric a path is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fabric {
    Ib,
    Opa,
    RoceV1,
    RoceV2,
}

impl Fabric {
    /// That of a path of C's, if it has one.
    pub(super) const fn of(rec: &bindings::sa_path_rec) -> Option<Self> {
        Some(match rec.rec_type {
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

/// Sets the ends on the link of a vector that is not for Ethernet.
pub(super) fn set_lid(attr: &mut bindings::rdma_ah_attr, dlid: u32, path_bits: u8, make_grd: bool) {
    match attr.type_ {
        bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB => {
            attr.__bindgen_anon_1.ib = ManuallyDrop::new(bindings::ib_ah_attr {
                // CAST: InfiniBand's LIDs have 16 bits.
                dlid: dlid as u16,
                src_path_bits: path_bits,
            });
        }
        bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA => {
            attr.__bindgen_anon_1.opa = ManuallyDrop::new(bindings::opa_ah_attr {
                dlid,
                src_path_bits: path_bits,
                make_grd,
            });
        }
        _ => {}
    }
}

/// The entry of a local GID on a port.
fn find_gid(
    device: &Device,
    port: u32,
    gid: &bindings::ib_gid,
    gid_type: bindings::ib_gid_type,
    ndev: *mut bindings::net_device,
) -> Result<GidRef> {
    // SAFETY: The device lives; what is returned is ours.
    unsafe {
        GidRef::from_result(bindings::rdma_find_gid_by_port(
            device.as_raw(),
            gid,
            gid_type,
            port,
            ndev,
        ))
    }
}

/// Sees to it that a path of RoCE leads somewhere, once for each record.
fn resolve_route(
    rec: &mut bindings::sa_path_rec,
    fabric: Fabric,
    entry: Option<&GidAttr>,
) -> Result {
    let roce: *mut bindings::sa_path_rec_roce = (&raw mut rec.__bindgen_anon_1).cast();
    // SAFETY: It is a member of the union; the byte is read as what it is.
    if unsafe { (&raw const (*roce).route_resolved).cast::<u8>().read() } != 0 {
        return Ok(());
    }
    // SAFETY: All members of the union are sixteen plain bytes.
    let (from, to) = unsafe { (Gid(*rec.sgid.raw), Gid(*rec.dgid.raw)) };
    let reach = reach(entry.ok_or(EINVAL)?, from, to)?;
    if reach == Reach::Routed && fabric != Fabric::RoceV2 {
        return Err(EINVAL);
    }
    // SAFETY: As above.
    unsafe { (&raw mut (*roce).route_resolved).write(true) };
    Ok(())
}

/// Makes the vector of a path; `entry` is the local GID, or it is looked up. If it succeeds,
/// the vector may hold a GID. Sleeps for paths of RoCE; any context otherwise.
///
/// # Errors
///
/// For RoCE those of [`reach`], and `EINVAL` if only version 2 would get there; those of
/// finding the GID.
pub(super) fn init_from_path(
    device: &Device,
    port: u32,
    rec: &mut bindings::sa_path_rec,
    attr: &mut bindings::rdma_ah_attr,
    entry: Option<NonNull<bindings::ib_gid_attr>>,
) -> Result {
    let fabric = Fabric::of(rec);
    *attr = bindings::rdma_ah_attr::default();
    attr.type_ = Caps::of(device, port).ah_type(device);
    attr.sl = rec.sl;
    attr.port_num = port;
    attr.static_rate = rec.rate;
    let is_roce = matches!(fabric, Some(Fabric::RoceV1 | Fabric::RoceV2));
    match fabric {
        Some(fabric @ (Fabric::RoceV1 | Fabric::RoceV2)) => {
            // SAFETY: The caller's entry is held for the call.
            let entry = entry.map(|entry| unsafe { GidAttr::view(entry.as_ptr()) });
            resolve_route(rec, fabric, entry)?;
            // SAFETY: The record is of RoCE.
            let dmac = unsafe { rec.__bindgen_anon_1.roce.dmac };
            attr.__bindgen_anon_1.roce = ManuallyDrop::new(bindings::roce_ah_attr { dmac });
        }
        Some(Fabric::Ib) => {
            // SAFETY: The record is of InfiniBand.
            let (dlid, slid) = unsafe {
                let ib = &rec.__bindgen_anon_1.ib;
                (u16::from_be(ib.dlid), u16::from_be(ib.slid))
            };
            // CAST: The mask has 8 bits.
            let path_bits = slid as u8 & super::path_mask(device, port);
            set_lid(attr, dlid.into(), path_bits, false);
        }
        Some(Fabric::Opa) => {
            // SAFETY: The record is of Omni-Path.
            let (dlid, slid) = unsafe {
                let opa = &rec.__bindgen_anon_1.opa;
                (u32::from_be(opa.dlid), u32::from_be(opa.slid))
            };
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
        // SAFETY: The caller's entry is held for the call.
        Some(entry) => GidRef::hold(unsafe { rdma::edge::View::view(entry.as_ptr()) }),
        None => {
            let gid_type = Fabric::gid_type(fabric);
            find_gid(device, port, &rec.sgid, gid_type, ptr::null_mut())?
        }
    };
    let label = u32::from_be(rec.flow_label);
    let (hops, class) = (rec.hop_limit, rec.traffic_class);
    // SAFETY: Both are valid; the vector takes the entry over.
    unsafe {
        bindings::rdma_move_grh_sgid_attr(
            attr,
            &mut rec.dgid,
            label,
            hops,
            class,
            entry.into_owned().into_raw().as_ptr(),
        );
    }
    Ok(())
}

/// Makes the vector of a multicast group, which holds the local GID. Any context.
///
/// # Errors
///
/// `EINVAL` for a port that is neither of InfiniBand nor of RoCE; those of finding the GID.
pub(super) fn init_from_member(
    device: &Device,
    port: u32,
    rec: &mut bindings::ib_sa_mcmember_rec,
    ndev: *mut bindings::net_device,
    gid_type: bindings::ib_gid_type,
    attr: &mut bindings::rdma_ah_attr,
) -> Result {
    let caps = Caps::of(device, port);
    // GIDs of InfiniBand are not those of a network device.
    let ndev = if caps.is_ib() {
        ptr::null_mut()
    } else if caps.is_roce() {
        ndev
    } else {
        return Err(EINVAL);
    };
    let entry = find_gid(device, port, &rec.port_gid, gid_type, ndev)?;
    *attr = bindings::rdma_ah_attr::default();
    attr.type_ = caps.ah_type(device);
    attr.sl = rec.sl;
    attr.port_num = port;
    attr.static_rate = rec.rate;
    set_lid(attr, u16::from_be(rec.mlid).into(), 0, false);
    let label = u32::from_be(rec.flow_label);
    let (hops, class) = (rec.hop_limit, rec.traffic_class);
    // SAFETY: Both are valid; the vector takes the entry over.
    unsafe {
        bindings::rdma_move_grh_sgid_attr(
            attr,
            &mut rec.mgid,
            label,
            hops,
            class,
            entry.into_owned().into_raw().as_ptr(),
        );
    }
    Ok(())
}
