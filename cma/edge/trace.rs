// SPDX-License-Identifier: GPL-2.0

//! The tracepoints of `drivers/infiniband/core/cma_trace.h`, which `trace.c` instantiates.

use super::event::Event;
use super::id::Id;
use kernel::ffi::c_int;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::verbs::Pd;
use rdma::edge::View;

/// What an ID does.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    SendRtu,
    SendRej,
    PrepareMra,
    SendSidrReq,
    SendSidrRep,
    Disconnect,
    SentDrep,
    SentDreq,
    Destroy,
    SendReq,
    SendRep,
    QpDestroy,
}

/// Traces a step of an ID.
pub(crate) fn step(id: &Id, step: Step) {
    let which = match step {
        Step::SendRtu => 0,
        Step::SendRej => 1,
        Step::PrepareMra => 2,
        Step::SendSidrReq => 3,
        Step::SendSidrRep => 4,
        Step::Disconnect => 5,
        Step::SentDrep => 6,
        Step::SentDreq => 7,
        Step::Destroy => 8,
        Step::SendReq => 9,
        Step::SendRep => 10,
        Step::QpDestroy => 11,
    };
    // SAFETY: The ID begins with the structure that the tracepoints read.
    unsafe { bindings::rdma_helper_cma_trace(which, id.c().cast()) };
}

/// Traces that an ID gets a device.
pub(crate) fn attach(id: &Id, device: &Device) {
    // SAFETY: As in `step`; the device exists.
    unsafe { bindings::rdma_helper_cma_trace_attach(id.c().cast(), device.raw()) };
}

/// Traces that an ID gets a queue pair, or does not.
pub(super) fn qp(id: &Id, pd: &Pd, attr: *const bindings::ib_qp_init_attr, result: c_int) {
    // SAFETY: As in `step`; the protection domain and the attributes exist.
    unsafe { bindings::rdma_helper_cma_trace_qp(id.c().cast(), pd.raw(), attr, result) };
}

/// Traces a request, by its event of `ib_cm`.
pub(super) fn request(id: &Id, event: u32) {
    // CAST: A small number.
    // SAFETY: As in `step`: the ID begins with the structure.
    unsafe { bindings::rdma_helper_cma_trace_request(id.c().cast(), event as c_int) };
}

/// Traces an event before the consumer gets it.
pub(super) fn event(id: &Id, event: &mut Event) {
    // SAFETY: As in `step`; the event exists.
    unsafe { bindings::rdma_helper_cma_trace_event(id.c().cast(), event.as_raw()) };
}

/// Traces the consumer's answer to an event.
pub(super) fn done(id: &Id, event: &mut Event, answer: c_int) {
    // SAFETY: As in `step`; the event exists.
    unsafe { bindings::rdma_helper_cma_trace_done(id.c().cast(), event.as_raw(), answer) };
}

/// Traces that a device was added, or is being removed.
pub(crate) fn device(device: &Device, added: bool) {
    // SAFETY: The device exists (guarantee of a reference).
    unsafe { bindings::rdma_helper_cma_trace_device(device.raw(), added) };
}
