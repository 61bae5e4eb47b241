// SPDX-License-Identifier: GPL-2.0

//! Subnet administration: records, queries, and membership in multicast groups.
//!
//! An InfiniBand fabric has one subnet administrator (SA). Nodes query it for paths, services and
//! GUIDs, and join multicast groups through it, with management datagrams that carry one record
//! each (IBTA, volume 1, chapter 15).
//!
//! * [`wire`]: layout of records, defined once for packing and unpacking;
//! * [`path`], [`member`], [`record`]: the records;
//! * [`datagram`]: the headers in front of a record;
//! * [`query`]: ids, retries and cancellation of queries;
//! * [`local`]: path queries by netlink to a service on this machine;
//! * [`group`]: the state machine of a multicast group.

pub mod datagram;
pub mod group;
pub mod local;
pub mod member;
pub mod path;
pub mod query;
pub mod record;
pub mod wire;

/// Size of the data area for a record in a datagram, in bytes.
pub const DATA: usize = 200;

/// The first LID that is not a unicast LID.
pub const MULTICAST_LIDS: u32 = 0xc000;

/// The permissive LID: addresses the SM, and any port that receives the datagram.
pub const PERMISSIVE_LID: u32 = 0xffff;

/// Interface id under which the SA of every subnet is reachable.
pub const WELL_KNOWN_GUID: u64 = 1 << 57 | 2;
