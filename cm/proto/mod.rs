// SPDX-License-Identifier: GPL-2.0

//! Pure engine of `ib_cm`. No kernel calls, no allocation, no clock.
//!
//! * [`ids`]: numbers of the protocol;
//! * [`wire`]: messages, parsed from and written to MADs;
//! * [`conn`]: one communication identifier: its states, calls, messages, timers;
//! * [`tables`]: keys of the tables, and how the identifier of a message is found;
//! * [`answer`]: messages that the CM sends by itself, also without an identifier;
//! * [`path`]: paths in requests, and what a receiver makes of them;
//! * [`times`]: timeout fields;
//! * [`counters`]: counters of a port;
//! * [`reject`]: texts of rejection reasons.
//!
//! How the parts are used, for a received MAD:
//!
//! 1. [`Message::parse`](wire::Message::parse); count it as received by its kind.
//! 2. [`Lookup::of`](tables::Lookup::of) tells how to find the identifier.
//! 3. If there is one: [`Conn::receive`](conn::Conn::receive) under its lock. It ignores what is
//!    not for it or not from its peer.
//! 4. If there is none: [`Answer::to_stranger`](answer::Answer::to_stranger).
//! 5. For a REQ: [`tables::claim`] its keys for a new identifier. `SameId`:
//!    [`Conn::duplicate_req`](conn::Conn::duplicate_req) of the other. `SameQpn`:
//!    [`Answer::reject`](answer::Answer::reject), and a DREQ of the other if
//!    [`Conn::is_from_peer`](conn::Conn::is_from_peer). Granted: find the listener, make the paths
//!    ([`path::from_req`]), [`Conn::from_req`](conn::Conn::from_req), deliver
//!    `Received(Kind::Req)`.
//! 6. For a SIDR_REQ: insert its [`SidrKey`](tables::SidrKey), find the listener,
//!    [`Conn::from_sidr_req`](conn::Conn::from_sidr_req).
//!
//! Specification: InfiniBand Architecture, volume 1, chapter 12; `include/rdma/ib_cm.h`.
//!
//! # Deliberate differences from the C module
//!
//! * See the end of this text; to be written with the code.

pub mod answer;
pub mod conn;
pub mod counters;
pub mod ids;
pub mod path;
pub mod reject;
pub mod tables;
pub mod times;
pub mod wire;
