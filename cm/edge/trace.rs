// SPDX-License-Identifier: GPL-2.0

//! Tracepoints. `trace.c` instantiates those of the kernel's `cm_trace.h`.

use crate::edge::id::IbCmId;
use crate::proto::wire::Kind;
use core::ptr;
use rdma::bindings;
use rdma::edge::View;

/// A tracepoint about an ID. Numbers are those of `trace.c`.
#[derive(Clone, Copy)]
pub(crate) enum OfId {
    SendReq = 0,
    SendRep = 1,
    SendDupReq = 2,
    SendDupRep = 3,
    SendRtu = 4,
    SendSidrReq = 5,
    SendSidrRep = 6,
    SendDreq = 7,
    SendDrep = 8,
    SendRtuErr = 10,
    EstablishErr = 11,
    NoListenerErr = 12,
    SendDrepErr = 13,
    DreqUnknownErr = 14,
    SendUnknownRejErr = 15,
    RejUnknownErr = 16,
    PrepareMraUnknownErr = 17,
    MraUnknownErr = 18,
    QpInitErr = 19,
    QpRtrErr = 20,
    QpRtsErr = 21,
    DreqSkipped = 22,
}

/// Traces an event of an ID.
pub(crate) fn id(which: OfId, id: &IbCmId) {
    // CAST: A small number.
    // SAFETY: The ID exists (guarantee of a reference); tracing reads its numbers.
    unsafe { bindings::rdma_helper_cm_trace(which as u32, id.raw(), 0, 0, 0) };
}

/// Traces that an ID sends a message, but for REJs.
pub(crate) fn sends(kind: Kind, of: &IbCmId) {
    let which = match kind {
        Kind::Req => OfId::SendReq,
        Kind::Rep => OfId::SendRep,
        Kind::Rtu => OfId::SendRtu,
        Kind::Dreq => OfId::SendDreq,
        Kind::Drep => OfId::SendDrep,
        Kind::SidrReq => OfId::SendSidrReq,
        Kind::SidrRep => OfId::SendSidrRep,
        Kind::Mra | Kind::Rej | Kind::Lap | Kind::Apr => return,
    };
    id(which, of);
}

/// Traces that an ID rejects.
pub(crate) fn send_rej(id: &IbCmId, reason: u32) {
    // SAFETY: The ID exists (guarantee of a reference); tracing reads its numbers.
    unsafe { bindings::rdma_helper_cm_trace(9, id.raw(), reason, 0, 0) };
}

/// A tracepoint about a message: two communication IDs. Numbers are those of `trace.c`.
#[derive(Clone, Copy)]
pub(crate) enum OfMessage {
    IssueRej = 23,
    IssueDrep = 24,
    StaleConn = 25,
    NoId = 26,
    /// Only the first number is traced.
    RemoteNoId = 27,
    /// Only the first number is traced.
    InsertFailed = 28,
    /// An ID, and its state.
    SendRepErr = 29,
    /// A state, and the status of a completion.
    SendErr = 31,
}

/// Traces an event of a message.
pub(crate) fn message(which: OfMessage, a: u32, b: u32) {
    // CAST: A small number.
    // SAFETY: These events have no ID.
    unsafe { bindings::rdma_helper_cm_trace(which as u32, ptr::null(), a, b, 0) };
}

/// Traces a REP that its ID does not accept.
pub(crate) fn rep_unknown(local: u32, remote: u32, state: u32) {
    // SAFETY: The event has no ID.
    unsafe { bindings::rdma_helper_cm_trace(30, ptr::null(), local, remote, state) };
}
