// SPDX-License-Identifier: GPL-2.0

//! Capabilities of a port.

use super::Device;
use rdma::bindings;

/// Capabilities of a port: `core_cap_flags` of its immutable data.
#[derive(Clone, Copy)]
pub(crate) struct Caps(u32);

impl Caps {
    /// Capabilities of a port; empty if there is no such port. Any context.
    pub(crate) fn of(device: &Device, port: u32) -> Self {
        let port = device.port(port);
        Self(port.map_or(0, |port| port.immutable().core_cap_flags()))
    }

    const fn has(self, any_of: u32) -> bool {
        self.0 & any_of != 0
    }

    /// Returns whether the protocol is InfiniBand.
    pub(crate) const fn is_ib(self) -> bool {
        self.has(bindings::RDMA_CORE_CAP_PROT_IB)
    }

    /// Returns whether the port uses Omni-Path address vectors.
    pub(crate) const fn is_opa(self) -> bool {
        self.has(bindings::RDMA_CORE_CAP_OPA_AH)
    }

    /// Returns whether the port uses a subnet administrator (SA).
    pub(crate) const fn has_sa(self) -> bool {
        self.has(bindings::RDMA_CORE_CAP_IB_SA)
    }

    /// Returns whether the protocol is RoCE of any version.
    pub(crate) const fn is_roce(self) -> bool {
        self.has(bindings::RDMA_CORE_CAP_PROT_ROCE | bindings::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP)
    }

    /// Returns whether address vectors have Ethernet addresses.
    pub(crate) const fn has_eth_ah(self) -> bool {
        self.has(bindings::RDMA_CORE_CAP_ETH_AH)
    }

    /// Returns whether every address vector needs a global route header (GRH).
    pub(crate) const fn needs_grh(self) -> bool {
        self.is_roce() || self.has(bindings::RDMA_CORE_CAP_IB_GRH_REQUIRED)
    }

    /// Address vector type of a port of this device.
    pub(crate) fn ah_type(self, device: &Device) -> bindings::rdma_ah_attr_type {
        if self.is_roce() {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE
        } else if self.is_ib() && self.has(bindings::RDMA_CORE_CAP_OPA_AH) {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA
        } else if self.is_ib()
            || device.dev_type() == bindings::rdma_nl_dev_type_RDMA_DEVICE_TYPE_SMI
        {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB
        } else {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_UNDEFINED
        }
    }
}
