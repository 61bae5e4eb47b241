// SPDX-License-Identifier: GPL-2.0

//! The address handle of a port's SA, and port attributes that are read with it.

use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs::AhAttr;

use super::agent::Agent;
use super::edge::datagram::AgentAh;
use super::path::set_lid;
use crate::device::Caps;
use crate::device::Device;
use crate::proto::sa::MULTICAST_LIDS;
use crate::proto::sa::PERMISSIVE_LID;
use crate::proto::sa::WELL_KNOWN_GUID;

/// First Omni-Path LID beyond the unicast range.
const OPA_MULTICAST_LIDS: u32 = 0xf000_0000;

/// The default P_Key, as a full member.
const DEFAULT_PKEY: u16 = 0xffff;

/// Address handle of the SA of a port's subnet, and attributes of the port. Replaced when the port
/// changes.
pub(super) struct Manager {
    ah: AgentAh,
    /// Whether the LID of the subnet manager is valid.
    pub(super) is_there: bool,
    /// P_Key index used for SA MADs.
    pub(super) pkey_index: u16,
    /// The low bits of the port's LID that a path may choose (LMC).
    pub(super) path_mask: u8,
}

impl Manager {
    /// Queries the agent's port, and creates the address handle. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(super) fn find(device: &Device, port: u32, agent: &Agent) -> Result<Self> {
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
        // On Omni-Path, LID 0xffff is an ordinary LID unless a GRH is sent.
        let make_grd = is_opa && (caps.needs_grh() || lid == PERMISSIVE_LID);
        set_lid(&attr, lid, 0, make_grd);
        if !is_opa && caps.needs_grh() {
            // CAST: The flag fits in 8 bits.
            attr.set_ah_flags(bindings::ib_ah_flags_IB_AH_GRH as u8);
            let gid = u128::from(said.subnet_prefix) << 64 | u128::from(WELL_KNOWN_GUID);
            attr.set_destination(gid.to_be_bytes());
        }
        let ah = agent
            .address_handle(&attr)
            .inspect_err(|_| pr_warn!("Couldn't create new SM AH\n"))?;
        let end = if is_opa {
            OPA_MULTICAST_LIDS
        } else {
            MULTICAST_LIDS
        };
        Ok(Self {
            ah,
            is_there: lid != 0 && lid < end,
            pkey_index,
            path_mask: 1_u8
                .checked_shl(said.lmc.into())
                .unwrap_or(0)
                .wrapping_sub(1),
        })
    }

    /// The address handle.
    pub(super) fn ah(&self) -> &AgentAh {
        &self.ah
    }
}
