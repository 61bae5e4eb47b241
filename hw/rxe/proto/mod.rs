// SPDX-License-Identifier: GPL-2.0

//! The soft-RoCE protocol engine: what two queue pairs say to each other.
//!
//! The engine is a plain value. Packets, the time and the user's work requests
//! come in as arguments; packets, completions and one next deadline go out
//! through the traits of [`host`]. It never reads a clock, sleeps, locks or
//! allocates, and it touches no payload byte: it only says which bytes go where.
//! The same files are a module of `rdma_rxe` and of the host's simulation.
//!
//! A queue pair has two independent halves:
//!
//! * [`send::SendSide`], the requester and its completer: takes work requests off
//!   the send queue, cuts them into packets, listens to acknowledgements and
//!   responses, sends again what was lost, and completes the requests in order;
//! * [`recv::RecvSide`], the responder: checks and executes the peer's requests,
//!   answers them, and completes receive requests.
//!
//! Neither half knows the other. [`qp`] says what a change of the queue pair's
//! state does to each. Every method takes `&mut self`: the host guarantees that
//! one half is run by one context at a time (and may run both halves at once).
//!
//! # The host's duties
//!
//! 1. After anything that may give the send side work (a doorbell, a response, a
//!    timer, room on the wire again), call [`send::SendSide::poll`] until it says
//!    [`Progress::Idle`] or [`Progress::Blocked`], then arm one timer for
//!    [`send::SendSide::next_deadline`]. A timer that fires early does no harm.
//! 2. After a run of [`recv::RecvSide::on_request`] calls, call
//!    [`recv::RecvSide::poll`] the same way: it sends what is owed to the peer, and
//!    one acknowledgement for the whole run. Without it nothing is ever answered. An
//!    acknowledgement that [may wait](recv::RecvSide::ack_may_wait) may be polled for a
//!    little later, or leave with a request of the other half, by the rule of [`delayed_ack`].
//! 3. After `Blocked`, poll again when the wire has room.
//! 4. After `Parked`, keep the packet, and all that come later, until memory is there.
//! 5. After `Early`, keep the packet in an [`Early`] if there is room, and hand it in again
//!    when it [is due](recv::RecvSide::is_due). What is not kept counts as lost.
//!
//! Rules are those of the InfiniBand Architecture Specification, volume 1,
//! chapter 9, as amended by annexes A17 (RoCEv2) and A19 (flush, atomic write).

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
