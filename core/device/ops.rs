// SPDX-License-Identifier: GPL-2.0

//! The table of a driver's methods (`struct ib_device_ops`).

use core::mem::offset_of;
use core::mem::size_of;
use kernel::warn_on;
use rdma::bindings;
use rdma::bindings::ib_device_ops as Ops;

use super::Device;
use crate::edge::device::Unregistered;

/// Behind the head of the table come groups of attributes, methods and sizes of objects,
/// each one word that is zero where there is none.
const FIRST: usize = offset_of!(Ops, device_group) / size_of::<usize>();
const WORDS: usize = size_of::<Ops>() / size_of::<usize>();

// So many in the kernel that this was written for. With another number: see that the new
// ones are words, too.
const _: () = assert!(WORDS - FIRST == 141 && size_of::<Ops>() % size_of::<usize>() == 0);

/// Adds what `from` has and `into` has not; what `into` has stays. A driver that comes in
/// parts calls this several times.
fn merge(into: &mut Ops, from: &Ops) {
    if from.driver_id != bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN {
        warn_on!(
            into.driver_id != bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN
                && into.driver_id != from.driver_id
        );
        into.driver_id = from.driver_id;
    }
    if !from.owner.is_null() {
        warn_on!(!into.owner.is_null() && into.owner != from.owner);
        into.owner = from.owner;
    }
    if from.uverbs_abi_ver != 0 {
        into.uverbs_abi_ver = from.uverbs_abi_ver;
    }
    into.set_uverbs_no_driver_id_binding(
        into.uverbs_no_driver_id_binding() | from.uverbs_no_driver_id_binding(),
    );
    into.set_uverbs_robust_udata(into.uverbs_robust_udata() | from.uverbs_robust_udata());

    // SAFETY: The tables are this many words long, aligned to words; each from `FIRST` on
    // is a pointer, a method or a size, for which a copy of the other's word is valid.
    let (into, from) = unsafe {
        (
            core::slice::from_raw_parts_mut((&raw mut *into).cast::<*const ()>(), WORDS),
            core::slice::from_raw_parts((&raw const *from).cast::<*const ()>(), WORDS),
        )
    };
    for (into, from) in into.iter_mut().zip(from).skip(FIRST) {
        if into.is_null() {
            *into = *from;
        }
    }
}

/// Whether a driver has what consumers in the kernel take for granted.
fn complete(ops: &Ops) -> bool {
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

impl Device {
    /// Decides, at registration, whether kernel consumers are told of the device.
    pub(crate) fn judge_ops(&self, fields: &mut Unregistered<'_>) {
        fields.set_kverbs_provider(complete(self.ops()));
    }

    /// Whether kernel consumers are told of the device.
    pub(crate) fn is_kverbs_provider(&self) -> bool {
        self.fields().kverbs_provider()
    }
}

/// Gives a device its driver's methods; may be called several times, before registration.
///
/// # Safety
///
/// `device` is allocated and not registered, and used by nobody else; `ops` is valid.
#[no_mangle]
pub unsafe extern "C" fn ib_set_device_ops(device: *mut bindings::ib_device, ops: *const Ops) {
    // SAFETY: By this function's duty.
    merge(unsafe { &mut (*device).ops }, unsafe { &*ops });
}

rdma::exported!(ib_set_device_ops);
