// SPDX-License-Identifier: GPL-2.0

//! Events for consumers (`struct rdma_cm_event`).

use super::args::Data;
use crate::proto::event::Kind;
use core::mem::ManuallyDrop;
use core::mem::MaybeUninit;
use rdma::bindings;

/// Values of a connection request or reply.
#[derive(Clone, Copy, Default)]
pub(crate) struct Values {
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) flow_control: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
    pub(crate) srq: u8,
    pub(crate) qp_num: u32,
    pub(crate) ece: (u32, u32),
}

/// An event.
pub(crate) struct Event(bindings::rdma_cm_event);

impl Event {
    /// An event without parameters; its kind and status are set when it is delivered.
    pub(crate) fn new() -> Self {
        // SAFETY: Zeros are valid for all fields: numbers, null pointers, and unions of them.
        Self(unsafe { MaybeUninit::zeroed().assume_init() })
    }

    /// Sets what happened.
    pub(crate) fn set(&mut self, kind: Kind, status: i32) {
        self.0.event = kind.raw();
        self.0.status = status;
    }

    /// An event of a connection. `data` outlives the event's delivery.
    pub(crate) fn of_connection(data: Data<'_>, values: &Values) -> Self {
        let mut event = Self::new();
        event.0.param.conn = ManuallyDrop::new(bindings::rdma_conn_param {
            private_data: data.as_ptr(),
            private_data_len: data.len(),
            responder_resources: values.responder_resources,
            initiator_depth: values.initiator_depth,
            flow_control: values.flow_control,
            retry_count: values.retry_count,
            rnr_retry_count: values.rnr_retry_count,
            srq: values.srq,
            qp_num: values.qp_num,
            qkey: 0,
        });
        event.0.ece.vendor_id = values.ece.0;
        event.0.ece.attr_mod = values.ece.1;
        event
    }

    /// An event of datagrams. `data` outlives the event's delivery.
    pub(crate) fn of_datagrams(data: Data<'_>, qp_num: u32, qkey: u32) -> Self {
        let mut event = Self::new();
        // SAFETY: All members of the union are zeros, which are valid for this one.
        let ud = unsafe { &mut *event.0.param.ud };
        ud.private_data = data.as_ptr();
        ud.private_data_len = data.len();
        ud.qp_num = qp_num;
        ud.qkey = qkey;
        event
    }

    /// An event of a multicast group, with the consumer's context of it.
    pub(crate) fn for_group(context: &super::core::GroupContext) -> Self {
        let mut event = Self::new();
        // SAFETY: All members of the union are zeros, which are valid for this one.
        unsafe { &mut *event.0.param.ud }.private_data = context.0;
        event
    }

    /// Sets the queue pair and Q_Key of an event of datagrams.
    pub(super) fn set_target(&mut self, qp_num: u32, qkey: u32) {
        // SAFETY: Zeros, or an event of datagrams, whose member this is.
        let ud = unsafe { &mut *self.0.param.ud };
        ud.qp_num = qp_num;
        ud.qkey = qkey;
    }

    /// The address attributes of an event of datagrams.
    pub(super) fn ah_attr(&mut self) -> *mut bindings::rdma_ah_attr {
        // SAFETY: Zeros, or an event of datagrams, whose member this is. Only the address is taken.
        unsafe { &raw mut (*self.0.param.ud).ah_attr }
    }

    /// Returns the C structure.
    pub(super) fn as_raw(&mut self) -> *mut bindings::rdma_cm_event {
        &raw mut self.0
    }
}
