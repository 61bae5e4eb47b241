// SPDX-License-Identifier: GPL-2.0

//! The address handle of a port's subnet administrator, and what was read from the port with it.

use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs::AhAttr;
use rdma::edge::View;

use super::path::set_lid;
use crate::device::Device;
use crate::proto::sa::MULTICAST_LIDS;
use crate::proto::sa::PERMISSIVE_LID;
use crate::proto::sa::WELL_KNOWN_GUID;
use crate::verbs::Caps;

/// The first LID of Omni-Path that is not one port's.
const OPA_MULTICAST_LIDS: u32 = 0xf000_0000;

/// The partition of which everybody is a full member.
const DEFAULT_PKEY: u16 = 0xffff;

/// The way to the administrator of a port's subnet, as it was at some time.
///
/// # Invariants
///
/// `ah` is an address handle of ours.
pub(super) struct Manager {
    ah: NonNull<bindings::ib_ah>,
    /// Whether somebody is there: a subnet manager has said who.
    pub(super) is_there: bool,
    /// P_Key index used for SA MADs.
    pub(super) pkey_index: u16,
    /// Which bits of the port's LID a path may choose.
    pub(super) path_mask: u8,
}

// SAFETY: Address handles are used from any thread.
unsafe impl Send for Manager {}
// SAFETY: As above.
unsafe impl Sync for Manager {}

impl Manager {
    /// Asks the port. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    ///
    /// # Safety
    ///
    /// `pd` is one of the device, and outlives this.
    pub(super) unsafe fn find(
        device: &Device,
        port: u32,
        pd: *mut bindings::ib_pd,
    ) -> Result<Self> {
        let said = device
            .query_port(port)
            .inspect_err(|_| pr_warn!("Couldn't query port\n"))?;
        let pkey_index = device.find_pkey(port, DEFAULT_PKEY).unwrap_or_else(|_| {
            pr_err!("Couldn't find index for default PKey\n");
            0
        });
        let caps = Caps::of(device, port);
        let attr = AhAttr::default();
        attr.set_kind(caps.ah_type(device));
        attr.set_sl(said.sm_sl);
        attr.set_port_num(port);
        let lid = said.sm_lid;
        let is_opa = attr.kind() == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA;
        // The LID 0xffff of Omni-Path is one like others, unless its GID is sent, too.
        let make_grd = is_opa && (caps.needs_grh() || lid == PERMISSIVE_LID);
        set_lid(&attr, lid, 0, make_grd);
        if !is_opa && caps.needs_grh() {
            // CAST: A flag of 8 bits.
            attr.set_ah_flags(bindings::ib_ah_flags_IB_AH_GRH as u8);
            let gid = u128::from(said.subnet_prefix) << 64 | u128::from(WELL_KNOWN_GUID);
            attr.set_destination(gid.to_be_bytes());
        }
        let sleepable = bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE;
        // SAFETY: By this function's duty.
        let ah = from_err_ptr(unsafe { bindings::rdma_create_ah(pd, attr.raw(), sleepable) })
            .inspect_err(|_| pr_warn!("Couldn't create new SM AH\n"))?;
        let end = if is_opa {
            OPA_MULTICAST_LIDS
        } else {
            MULTICAST_LIDS
        };
        // INVARIANT: Just made.
        Ok(Self {
            ah: NonNull::new(ah).ok_or(EINVAL)?,
            is_there: lid != 0 && lid < end,
            pkey_index,
            path_mask: 1_u8
                .checked_shl(said.lmc.into())
                .unwrap_or(0)
                .wrapping_sub(1),
        })
    }

    /// The address handle.
    pub(super) fn ah(&self) -> *mut bindings::ib_ah {
        self.ah.as_ptr()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Whoever drops may not be allowed to sleep.
        unsafe { bindings::rdma_destroy_ah_user(self.ah.as_ptr(), 0, core::ptr::null_mut()) };
    }
}
