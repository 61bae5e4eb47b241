// SPDX-License-Identifier: GPL-2.0

//! Table of a driver's methods (`struct ib_device_ops`).

use rdma::edge::In;

use super::edge::merge;
use super::edge::DriverOps;
use super::Device;
use crate::edge::device::Unregistered;

/// Returns whether a driver has all methods that kernel consumers rely on.
fn complete(device: &Device) -> bool {
    let ops = device.ops();
    ops.query_device.is_some()
        && ops.query_port.is_some()
        && ops.alloc_pd.is_some()
        && ops.dealloc_pd.is_some()
        && ops.create_qp.is_some()
        && ops.modify_qp.is_some()
        && ops.destroy_qp.is_some()
        && ops.post_send.is_some()
        && ops.post_recv.is_some()
        && ops.create_cq.is_some()
        && ops.destroy_cq.is_some()
        && ops.poll_cq.is_some()
        && ops.req_notify_cq.is_some()
        && ops.get_dma_mr.is_some()
        && ops.reg_user_mr.is_some()
        && ops.dereg_mr.is_some()
        && ops.get_port_immutable.is_some()
}

impl Unregistered<'_> {
    /// Determines at registration whether kernel consumers are notified of the device.
    pub(crate) fn judge_ops(&mut self) {
        let complete = complete(self.device());
        self.set_kverbs_provider(complete);
    }
}

impl Device {
    /// Returns whether kernel consumers are notified of the device.
    pub(crate) fn is_kverbs_provider(&self) -> bool {
        self.kverbs_provider()
    }
}

fn set_ops(mut device: Unregistered<'_>, ops: In<'_, DriverOps>) {
    merge(&mut device, &ops);
}

rdma::export! { in rdma::bindings;
    /// Sets methods of a device's driver. May be called several times before registration.
    fn ib_set_device_ops(device: Unregistered<'_>, ops: In<'_, DriverOps>) = set_ops;
}
