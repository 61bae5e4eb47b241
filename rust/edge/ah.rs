// SPDX-License-Identifier: GPL-2.0

//! Address vectors (`struct rdma_ah_attr`) and entries of GID tables (`struct ib_gid_attr`), field
//! by field.
//!
//! The words at the fields are explained in [`crate::edge`]. To be held against
//! `include/rdma/ib_verbs.h`.

use super::device::Device;
use super::object::GidSlot;
use super::View;
use crate::bindings;
use crate::net::NetDevice;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use kernel::types::Opaque;

crate::c_struct! {
    /// An address vector. The reference to a GID in it is held by whoever has put it there.
    pub struct AhAttr: bindings::rdma_ah_attr;
    fields {
        /// The local GID.
        embed sgid_attr at grh.sgid_attr: GidSlot;
        /// `enum rdma_ah_attr_type`.
        cell kind at type_: u32, set_kind;
        /// Service level.
        cell sl: u8, set_sl;
        /// The port that it is for.
        cell port_num: u32, set_port_num;
        /// `enum ib_rate`.
        cell static_rate: u8, set_static_rate;
        /// `enum ib_ah_flags`.
        cell ah_flags: u8, set_ah_flags;
        /// Where the local GID is in its table.
        cell sgid_index at grh.sgid_index: u8, set_sgid_index;
        /// The label that tells flows apart.
        cell flow_label at grh.flow_label: u32, set_flow_label;
        /// The traffic class of packets.
        cell traffic_class at grh.traffic_class: u8, set_traffic_class;
        /// How many hops packets may go.
        cell hop_limit at grh.hop_limit: u8, set_hop_limit;
    }
}

/// What the driver gets for a new address handle.
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
    /// `flags` are `enum rdma_create_ah_flags`.
    pub fn new(attr: &'a AhAttr, flags: u32, slave: Option<&'a NetDevice>) -> Self {
        Self {
            c: Opaque::new(bindings::rdma_ah_init_attr {
                ah_attr: attr.raw(),
                flags,
                xmit_slave: slave.map_or(core::ptr::null_mut(), NetDevice::as_raw),
            }),
            parts: PhantomData,
        }
    }
}

impl AhAttr {
    /// The GID that it leads to.
    pub fn destination(&self) -> [u8; 16] {
        // SAFETY: `OfCall`: nobody else writes the vector; all members of the union are bytes.
        unsafe { *(*self.raw()).grh.dgid.raw }
    }

    /// The destination's MAC address, of a vector for RoCE.
    pub fn mac(&self) -> [u8; 6] {
        // SAFETY: As in `destination`.
        unsafe { (*self.raw()).__bindgen_anon_1.roce.dmac }
    }

    /// Sets [`Self::destination`].
    pub fn set_destination(&self, gid: [u8; 16]) {
        let gid = bindings::ib_gid {
            raw: ManuallyDrop::new(gid),
        };
        // SAFETY: As in `destination`.
        unsafe { (*self.raw()).grh.dgid = gid };
    }

    /// Sets what the link layer wants to know.
    fn set_link(&self, link: bindings::rdma_ah_attr__bindgen_ty_1) {
        // SAFETY: As in `destination`.
        unsafe { (*self.raw()).__bindgen_anon_1 = link };
    }

    /// Sets [`Self::mac`].
    pub fn set_mac(&self, mac: [u8; 6]) {
        self.set_link(bindings::rdma_ah_attr__bindgen_ty_1 {
            roce: ManuallyDrop::new(bindings::roce_ah_attr { dmac: mac }),
        });
    }

    /// Sets the destination's LID, of a vector for InfiniBand.
    pub fn set_ib(&self, dlid: u16, src_path_bits: u8) {
        let ib = bindings::ib_ah_attr {
            dlid,
            src_path_bits,
        };
        self.set_link(bindings::rdma_ah_attr__bindgen_ty_1 {
            ib: ManuallyDrop::new(ib),
        });
    }

    /// Sets the destination's LID, of a vector for Omni-Path.
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

    /// Copies all but the local GID of another vector.
    pub fn assign(&self, from: &Self) {
        let to = self.raw();
        // SAFETY: `OfCall`: nobody else uses either vector; they may be one. What is left is plain
        // numbers.
        unsafe {
            let gid = (*to).grh.sgid_attr;
            core::ptr::copy(from.raw(), to, 1);
            (*to).grh.sgid_attr = gid;
        }
    }
}

crate::c_struct! {
    /// What C knows of an entry of a GID table, which is counted. Its fields do not change but for
    /// the network device. There is none but those that the core's tables have ([`GidAttr::new`]).
    pub struct GidAttr: bindings::ib_gid_attr;
    fields {
        /// Its place in the table.
        const index: u16;
        /// The port of the table.
        const port_num: u32;
        /// `enum ib_gid_type`.
        const gid_type: u32;
        /// Its network device, or null. Turns to null when the entry has been deleted, and the
        /// entry's reference is dropped a grace period after that.
        racy ndev: *mut bindings::net_device, set_ndev;
    }
}

impl GidAttr {
    /// Whether the entry is of a table of this device.
    pub fn belongs_to(&self, device: &Device) -> bool {
        // SAFETY: Constant since `new`; it is compared only.
        core::ptr::eq(unsafe { (*self.raw()).device }, device.as_raw())
    }

    /// # Safety
    ///
    /// It becomes the field of an entry of the core's GID tables, which keeps the network device,
    /// before there is a reference to it.
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
