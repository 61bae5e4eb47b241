// SPDX-License-Identifier: GPL-2.0

//! Address vectors (`struct rdma_ah_attr`) and entries of GID tables (`struct ib_gid_attr`), field
//! by field.
//!
//! The keywords of the tables are explained in [`crate::edge`]. Must match
//! `include/rdma/ib_verbs.h`.

use super::device::Device;
use super::object::GidSlot;
use super::View;
use crate::bindings;
use crate::net::NetDevice;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::types::Opaque;

crate::c_struct! {
    /// An address vector. The code that stores a GID reference in it holds that reference.
    pub struct AhAttr: bindings::rdma_ah_attr;
    fields {
        /// The local GID.
        embed sgid_attr at grh.sgid_attr: GidSlot;
        /// `enum rdma_ah_attr_type`.
        cell kind at type_: u32, set_kind;
        /// Service level.
        cell sl: u8, set_sl;
        /// Port number.
        cell port_num: u32, set_port_num;
        /// `enum ib_rate`.
        cell static_rate: u8, set_static_rate;
        /// `enum ib_ah_flags`.
        cell ah_flags: u8, set_ah_flags;
        /// Index of the local GID in the port's table.
        cell sgid_index at grh.sgid_index: u8, set_sgid_index;
        /// Flow label.
        cell flow_label at grh.flow_label: u32, set_flow_label;
        /// Traffic class.
        cell traffic_class at grh.traffic_class: u8, set_traffic_class;
        /// Hop limit.
        cell hop_limit at grh.hop_limit: u8, set_hop_limit;
    }
}

/// Argument of a driver's `create_ah`.
#[repr(transparent)]
pub struct AhMake<'a> {
    c: Opaque<bindings::rdma_ah_init_attr>,
    parts: PhantomData<(&'a AhAttr, &'a NetDevice)>,
}

// SAFETY: Transparent over the structure.
unsafe impl View for AhMake<'_> {
    type C = bindings::rdma_ah_init_attr;
}

impl<'a> AhMake<'a> {
    /// Creates the argument. `flags` are `enum rdma_create_ah_flags`; `slave` is the transmitting
    /// slave of a bond.
    pub fn new(attr: &'a AhAttr, flags: u32, slave: Option<&'a NetDevice>) -> Self {
        Self {
            c: Opaque::new(bindings::rdma_ah_init_attr {
                ah_attr: attr.raw(),
                flags,
                xmit_slave: slave.map_or(ptr::null_mut(), NetDevice::as_raw),
            }),
            parts: PhantomData,
        }
    }
}

impl AhAttr {
    /// Returns the destination GID.
    pub fn destination(&self) -> [u8; 16] {
        // SAFETY: Nobody else writes the vector (`OfCall`); all members of the union are bytes.
        unsafe { *(*self.raw()).grh.dgid.raw }
    }

    /// Returns the destination MAC address. For RoCE vectors.
    pub fn mac(&self) -> [u8; 6] {
        // SAFETY: As in `destination`: nobody else writes the vector, and all bytes are valid.
        unsafe { (*self.raw()).__bindgen_anon_1.roce.dmac }
    }

    /// Sets the destination GID.
    pub fn set_destination(&self, gid: [u8; 16]) {
        let gid = bindings::ib_gid {
            raw: ManuallyDrop::new(gid),
        };
        // SAFETY: Nobody else uses the vector (`OfCall`).
        unsafe { (*self.raw()).grh.dgid = gid };
    }

    /// Sets the part that depends on the link layer.
    fn set_link(&self, link: bindings::rdma_ah_attr__bindgen_ty_1) {
        // SAFETY: Nobody else uses the vector (`OfCall`).
        unsafe { (*self.raw()).__bindgen_anon_1 = link };
    }

    /// Sets the destination MAC address. For RoCE vectors.
    pub fn set_mac(&self, mac: [u8; 6]) {
        self.set_link(bindings::rdma_ah_attr__bindgen_ty_1 {
            roce: ManuallyDrop::new(bindings::roce_ah_attr { dmac: mac }),
        });
    }

    /// Returns the destination LID and the path bits of the source, of InfiniBand and Omni-Path
    /// vectors; 0 of others.
    pub fn lids(&self) -> (u32, u8) {
        // SAFETY: Nobody else writes the vector (`OfCall`); its kind determines the member of the
        // union, and all bytes of both are valid.
        unsafe {
            let link = &raw const (*self.raw()).__bindgen_anon_1;
            match self.kind() {
                bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB => {
                    let ib = link.cast::<bindings::ib_ah_attr>();
                    ((*ib).dlid.into(), (*ib).src_path_bits)
                }
                bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA => {
                    let opa = link.cast::<bindings::opa_ah_attr>();
                    ((*opa).dlid, (*opa).src_path_bits)
                }
                _ => (0, 0),
            }
        }
    }

    /// Sets the destination LID. For InfiniBand vectors.
    pub fn set_ib(&self, dlid: u16, src_path_bits: u8) {
        let ib = bindings::ib_ah_attr {
            dlid,
            src_path_bits,
        };
        self.set_link(bindings::rdma_ah_attr__bindgen_ty_1 {
            ib: ManuallyDrop::new(ib),
        });
    }

    /// Sets the destination LID. For Omni-Path vectors.
    pub fn set_opa(&self, dlid: u32, src_path_bits: u8, make_grd: bool) {
        let opa = bindings::opa_ah_attr {
            dlid,
            src_path_bits,
            make_grd,
        };
        self.set_link(bindings::rdma_ah_attr__bindgen_ty_1 {
            opa: ManuallyDrop::new(opa),
        });
    }

    /// Copies another vector, except its reference to the local GID.
    pub fn assign(&self, from: &Self) {
        let to = self.raw();
        // SAFETY: Nobody else uses either vector (`OfCall`); they may be the same. The other fields
        // are plain numbers.
        unsafe {
            let gid = (*to).grh.sgid_attr;
            ptr::copy(from.raw(), to, 1);
            (*to).grh.sgid_attr = gid;
        }
    }
}

crate::c_struct! {
    /// The C part of a GID table entry, which is reference-counted. Its fields are constant, except
    /// the network device. Only the core's tables contain such entries ([`GidAttr::new`]).
    pub struct GidAttr: bindings::ib_gid_attr;
    fields {
        /// Index in the table.
        const index: u16;
        /// Port of the table.
        const port_num: u32;
        /// `enum ib_gid_type`.
        const gid_type: u32;
        /// Network device, or null. Set to null when the entry has been deleted; the entry's
        /// reference to the device is dropped a grace period later.
        racy ndev: *mut bindings::net_device;
    }
}

impl GidAttr {
    /// Returns the GID.
    #[inline]
    pub fn gid(&self) -> [u8; 16] {
        // SAFETY: Constant since `new`; all members of the union are 16 plain bytes.
        unsafe { *(*self.raw()).gid.raw }
    }

    /// Sets the network device to null.
    ///
    /// # Safety
    ///
    /// The caller is the table of the entry, which has deleted it, and drops the entry's reference to
    /// the network device after a grace period.
    pub unsafe fn clear_ndev(&self) {
        // SAFETY: The entry exists; the field is accessed by whole words only (declaration in the
        // table).
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).ndev) }.store(ptr::null_mut(), Relaxed);
    }

    /// Returns whether the entry belongs to a table of this device.
    pub fn belongs_to(&self, device: &Device) -> bool {
        // SAFETY: Constant since `new`; it is compared only.
        ptr::eq(unsafe { (*self.raw()).device }, device.raw())
    }

    /// # Safety
    ///
    /// The result must become a field of an entry of the core's GID tables before a reference to it
    /// exists. The entry must hold the network device.
    pub unsafe fn new(
        ndev: *mut bindings::net_device,
        device: &Device,
        gid: [u8; 16],
        gid_type: u32,
        index: u16,
        port_num: u32,
    ) -> Self {
        let gid = bindings::ib_gid {
            raw: ManuallyDrop::new(gid),
        };
        Self(Opaque::new(bindings::ib_gid_attr {
            ndev,
            device: device.raw(),
            gid,
            gid_type,
            index,
            port_num,
        }))
    }
}
