// SPDX-License-Identifier: GPL-2.0

//! The soft-RoCE protocol engine: the protocol between two queue pairs.
//!
//! The engine is a plain value. Packets, the time and the user's work requests are arguments;
//! packets, completions and one deadline are passed out through the traits of [`host`]. It never
//! reads a clock, sleeps, locks or allocates, and it accesses no payload: it only determines which
//! bytes go where. The same files are a module of `rdma_rxe` and of the host's simulation.
//!
//! A queue pair has two independent halves:
//!
//! * [`send::SendSide`], the requester and its completer: takes work requests off the send queue,
//!   splits them into packets, handles acknowledgments and responses, retransmits lost packets, and
//!   completes the requests in order;
//! * [`recv::RecvSide`], the responder: validates and executes the peer's requests, replies to
//!   them, and completes receive requests.
//!
//! The halves are independent of each other. [`qp`] defines the effect of a state transition on
//! each. Every method takes `&mut self`: the host guarantees that only one context at a time runs a
//! half (and may run both halves concurrently).
//!
//! # The host's duties
//!
//! 1. After anything that may give the send side work (a doorbell, a response, a timer, room to
//!    send again), call [`send::SendSide::poll`] until it returns [`Progress::Idle`] or
//!    [`Progress::Blocked`], then arm one timer for [`send::SendSide::next_deadline`]. A timer that
//!    fires early is harmless.
//! 2. After a run of [`recv::RecvSide::on_request`] calls, call [`recv::RecvSide::poll`] in the
//!    same way: it sends the pending responses and one acknowledgment for the whole run. Nothing is
//!    sent without it. The poll for an acknowledgment that [may wait](recv::RecvSide::ack_may_wait)
//!    may be delayed, or the acknowledgment be piggybacked on a request of the other half,
//!    according to [`delayed_ack`].
//! 3. After `Blocked`, poll again when there is room to send.
//! 4. After `Parked`, keep the packet and all later ones until the memory is present.
//! 5. After `Early`, keep the packet in an [`Early`] if there is room, and pass it again when it
//!    [is due](recv::RecvSide::is_due). A packet that is not kept counts as lost.
//!
//! Source: InfiniBand Architecture Specification, volume 1, chapter 9, as amended by annexes A17
//! (RoCEv2) and A19 (flush, atomic write).

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the module and the host's simulation each use a part"
)]

pub mod cork;
pub mod delayed_ack;
pub mod early;
pub mod host;
mod notice;
pub mod pace;
pub mod packet;
pub mod qp;
pub mod recv;
pub mod send;
pub mod types;
pub mod wqe;

pub use early::Early;
pub use host::{
    AtomicOp, BadRecv, Counter, Disposition, DropCause, FlushKind, LocalFault, Progress, QpEvent,
    RecvFetch, RecvHost, RemoteFault, SendFetch, SendHost, TxError,
};
pub use packet::{Dest, Payload, RxPacket, TxPacket};
pub use qp::QpState;
pub use recv::{rounded_depth, RecvAttr, RecvSide, Resource};
pub use send::{SendAttr, SendSide, Slot, Slots};
pub use types::{AccessFlags, Key, Nanos, QpType, Qpn, RetryLimit, WcOpcode, WcStatus};
pub use wqe::{RecvCompletion, RecvWqe, SendCompletion, SendFlags, SendOp, SendWqe, UdDest};
