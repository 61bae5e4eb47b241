// SPDX-License-Identifier: GPL-2.0

//! Subnet administration: records, queries, and membership in multicast groups.
//!
//! An InfiniBand fabric has one subnet administrator (SA). Nodes ask it for paths, services
//! and GUIDs, and join multicast groups by it, with management datagrams that carry one
//! record each (IBTA, volume 1, chapter 15).
//!
//! * [`wire`]: a record's layout, said once for both directions;
//! * [`path`], [`member`], [`record`]: the records;
//! * [`datagram`]: the headers before them;
//! * [`query`]: numbers of queries, and how often they are sent;
//! * [`local`]: paths asked for by netlink, of a service on this machine;
//! * [`group`]: what is to be done next for a multicast group.

pub mod datagram;
pub mod group;
pub mod local;
pub mod member;
pub mod path;
pub mod query;
pub mod record;
pub mod wire;

/// Bytes of a record's room in a datagram.
pub const DATA: usize = 200;

/// The first LID that is not one port's.
pub const MULTICAST_LIDS: u32 = 0xc000;

/// The LID that means every SM, and whoever gets the datagram.
pub const PERMISSIVE_LID: u32 = 0xffff;

/// The interface id by which every subnet's SA is reached.
pub const WELL_KNOWN_GUID: u64 = 1 << 57 | 2;
