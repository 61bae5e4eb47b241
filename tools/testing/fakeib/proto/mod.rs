// SPDX-License-Identifier: GPL-2.0

//! The hardware that `fakeib` stands for: channel adapters, a switch, the cables between
//! them, and the agents in them that a subnet manager talks to.
//!
//! ```text
//!   adapter 0    adapter 1    adapter 2
//!       |            |            |          a cable each
//!   +---1------------2------------3---+
//!   |             switch              |      port 0 is its own
//!   +---------------------------------+
//! ```
//!
//! All of it is one value, [`fabric::Fabric`]. It imports `core` and its siblings only; it
//! does not lock, sleep or read a clock, and after it has been made it does not allocate.
//! The module lends it the lists it is made of, and calls it under one lock. Nothing that
//! comes in a datagram can make it panic.
//!
//! * [`fields`]: numbers in big-endian records; [`mad`]: the head of a management datagram;
//! * [`port`]: one port, its states and attributes; [`port_info`]: `PortInfo` of it;
//! * [`node`]: what an adapter or a switch answers to subnet management, [`switch`]: what only
//!   a switch has; [`perf`]: performance management;
//! * [`directed`]: datagrams that carry their path;
//! * [`fabric`]: all nodes, and the way of a packet through them.
//!
//! Chapters are those of the InfiniBand Architecture Specification, volume 1, release 1.3.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each of its builds uses a part"
)]

pub mod directed;
pub mod fabric;
pub mod fields;
pub mod mad;
pub mod node;
pub mod perf;
pub mod port;
pub mod port_info;
pub mod switch;
