// SPDX-License-Identifier: GPL-2.0

//! Unions of path records, read as the member that their type selects. All members consist of
//! integers, so each of them may be read, whichever was written.

use core::mem::ManuallyDrop;
use rdma::bindings;

/// The bytes of a GID.
pub(crate) fn gid(gid: &bindings::ib_gid) -> [u8; 16] {
    // SAFETY: All members of the union are integers, for which any bytes are valid.
    unsafe { *gid.raw }
}

/// LIDs of a path, by its type, in host byte order.
pub(crate) struct Path {
    /// Destination LID.
    pub(crate) dlid: u32,
    /// Source LID.
    pub(crate) slid: u32,
    /// Whether packets are raw.
    pub(crate) raw_traffic: u8,
    /// The LIDs are those of Omni-Path.
    pub(crate) is_opa: bool,
}

/// The LIDs of a path; 0 if the type has none.
pub(crate) fn path(record: &bindings::sa_path_rec) -> Path {
    // SAFETY: All members of the union are integers, for which any bytes are valid.
    unsafe {
        match record.rec_type {
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_IB => {
                let ib: &ManuallyDrop<bindings::sa_path_rec_ib> = &record.__bindgen_anon_1.ib;
                Path {
                    dlid: u16::from_be(ib.dlid).into(),
                    slid: u16::from_be(ib.slid).into(),
                    raw_traffic: ib.raw_traffic,
                    is_opa: false,
                }
            }
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_OPA => {
                let opa: &ManuallyDrop<bindings::sa_path_rec_opa> = &record.__bindgen_anon_1.opa;
                Path {
                    dlid: u32::from_be(opa.dlid),
                    slid: u32::from_be(opa.slid),
                    raw_traffic: opa.raw_traffic,
                    is_opa: true,
                }
            }
            _ => Path {
                dlid: 0,
                slid: 0,
                raw_traffic: 0,
                is_opa: false,
            },
        }
    }
}
