// SPDX-License-Identifier: GPL-2.0

//! Path records (`struct sa_path_rec`): of consumers, and those made of messages.
//!
//! C header: `include/rdma/ib_sa.h`, `include/rdma/opa_addr.h`.

use crate::proto::ids::Gid;
use crate::proto::ids::ServiceId;
use crate::proto::path::PathRecord;
use core::mem::ManuallyDrop;
use kernel::prelude::*;
use rdma::bindings;
use rdma::client::DeviceRef;
use rdma::mad::Path;

/// `IB_SA_EQ`: the value is exact.
// CAST: 2.
const EXACT: u8 = bindings::ib_sa_selector_IB_SA_EQ as u8;

fn bytes(gid: &bindings::ib_gid) -> Gid {
    // SAFETY: All members of the union are 16 bytes.
    Gid(unsafe { *gid.raw })
}

fn gid(gid: Gid) -> bindings::ib_gid {
    bindings::ib_gid {
        raw: ManuallyDrop::new(gid.0),
    }
}

/// What a path over RoCE has besides.
#[derive(Clone, Copy)]
pub(crate) struct Roce {
    /// Type of the local GID (`enum ib_gid_type`).
    pub(crate) gid_type: u32,
    /// The destination's MAC address; zero if it is not known.
    pub(crate) dmac: [u8; 6],
    /// The destination is known to be reached over the device of the local GID.
    pub(crate) resolved: bool,
}

/// Makes a path record of C.
pub(crate) fn to_c(path: &PathRecord, roce: Option<Roce>) -> Path {
    let mut rec = bindings::sa_path_rec {
        dgid: gid(path.dgid),
        sgid: gid(path.sgid),
        service_id: path.service_id.0.to_be(),
        flow_label: path.flow_label.to_be(),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        reversible: 1,
        pkey: path.pkey.to_be(),
        sl: path.sl,
        mtu_selector: EXACT,
        mtu: path.mtu,
        rate_selector: EXACT,
        rate: path.rate,
        packet_life_time_selector: EXACT,
        packet_life_time: path.life_time,
        ..Default::default()
    };
    if let Some(Roce {
        gid_type,
        dmac,
        resolved,
    }) = roce
    {
        rec.rec_type = if gid_type == bindings::ib_gid_type_IB_GID_TYPE_ROCE {
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V1
        } else {
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2
        };
        rec.__bindgen_anon_1 = bindings::sa_path_rec__bindgen_ty_1 {
            roce: ManuallyDrop::new(bindings::sa_path_rec_roce {
                route_resolved: resolved,
                dmac,
            }),
        };
    } else if path.is_opa {
        rec.rec_type = bindings::sa_path_rec_type_SA_PATH_REC_TYPE_OPA;
        rec.__bindgen_anon_1 = bindings::sa_path_rec__bindgen_ty_1 {
            opa: ManuallyDrop::new(bindings::sa_path_rec_opa {
                dlid: path.dlid.to_be(),
                slid: path.slid.to_be(),
                ..Default::default()
            }),
        };
    } else {
        rec.rec_type = bindings::sa_path_rec_type_SA_PATH_REC_TYPE_IB;
        rec.__bindgen_anon_1 = bindings::sa_path_rec__bindgen_ty_1 {
            ib: ManuallyDrop::new(bindings::sa_path_rec_ib {
                // CAST: LIDs of InfiniBand have 16 bits.
                dlid: (path.dlid as u16).to_be(),
                // CAST: As above.
                slid: (path.slid as u16).to_be(),
                ..Default::default()
            }),
        };
    }
    Path(rec)
}

/// LIDs of a path, remote and local, and whether they are those of Omni-Path; 0 for RoCE.
fn lids(path: &Path) -> (u32, u32, bool) {
    // SAFETY: The type says which member of the union is valid; all bytes of each are numbers.
    unsafe {
        match path.0.rec_type {
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_IB => {
                let ib = &*path.0.__bindgen_anon_1.ib;
                (
                    u16::from_be(ib.dlid).into(),
                    u16::from_be(ib.slid).into(),
                    false,
                )
            }
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_OPA => {
                let opa = &*path.0.__bindgen_anon_1.opa;
                (u32::from_be(opa.dlid), u32::from_be(opa.slid), true)
            }
            _ => (0, 0, false),
        }
    }
}

/// Reads a path record of C.
pub(crate) fn from_c(path: &Path) -> PathRecord {
    let rec = &path.0;
    let (dlid, slid, is_opa) = lids(path);
    PathRecord {
        sgid: bytes(&rec.sgid),
        dgid: bytes(&rec.dgid),
        slid,
        dlid,
        is_opa,
        flow_label: u32::from_be(rec.flow_label),
        hop_limit: rec.hop_limit,
        traffic_class: rec.traffic_class,
        pkey: u16::from_be(rec.pkey),
        sl: rec.sl,
        mtu: rec.mtu,
        rate: rec.rate,
        life_time: rec.packet_life_time,
        service_id: ServiceId(u64::from_be(rec.service_id)),
    }
}

/// The remote LID, read as that of an InfiniBand path whatever the type is.
pub(crate) fn ib_dlid(path: &Path) -> u16 {
    // SAFETY: All bytes of the union are valid as those of this member.
    u16::from_be(unsafe { path.0.__bindgen_anon_1.ib.dlid })
}

/// Returns the GID of the local port.
pub(crate) fn sgid(path: &Path) -> Gid {
    bytes(&path.0.sgid)
}

/// Returns the GID of the remote port.
pub(crate) fn dgid(path: &Path) -> Gid {
    bytes(&path.0.dgid)
}

/// Replaces the GID of the local port.
pub(crate) fn set_sgid(path: &mut Path, to: Gid) {
    path.0.sgid = gid(to);
}

/// Returns an entry of a port's GID table. May sleep.
///
/// # Errors
///
/// Those of the core.
pub(crate) fn query_gid(device: &DeviceRef, port: u32, index: i32) -> Result<Gid> {
    let mut found = bindings::ib_gid::default();
    // SAFETY: The device exists (`DeviceRef`); the function checks port and index.
    kernel::error::to_result(unsafe {
        bindings::rdma_query_gid(device.raw(), port, index, &mut found)
    })?;
    Ok(bytes(&found))
}

/// Returns an entry of a port's P_Key table.
///
/// # Errors
///
/// `EINVAL` if there is none.
pub(crate) fn query_pkey(device: &DeviceRef, port: u32, index: u16) -> Result<u16> {
    let mut found = 0;
    // SAFETY: The device exists (`DeviceRef`); the function checks port and index.
    kernel::error::to_result(unsafe {
        bindings::ib_get_cached_pkey(device.raw(), port, index.into(), &mut found)
    })?;
    Ok(found)
}

/// Returns whether the port uses Omni-Path address handles.
pub(crate) fn is_opa(device: &DeviceRef, port: u32) -> bool {
    // SAFETY: The device exists (`DeviceRef`); the helper checks the port.
    unsafe { bindings::rdma_helper_cap_opa_ah(device.raw(), port) }
}
