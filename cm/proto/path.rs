// SPDX-License-Identifier: GPL-2.0

//! Paths in requests: what the sender writes, and what the receiver makes of it.
//!
//! Source: IBTA volume 1, 12.7.11 to 12.7.21 (path fields).

use super::conn::Source;
use super::ids::Gid;
use super::ids::ServiceId;
use super::wire::Lap;
use super::wire::Req;
use super::wire::WirePath;

/// The permissive LID.
pub const PERMISSIVE_LID: u16 = 0xffff;

/// A path, as in a path record: from the own port to the peer's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathRecord {
    /// Own GID.
    pub sgid: Gid,
    /// Peer's GID.
    pub dgid: Gid,
    /// Own LID.
    pub slid: u32,
    /// Peer's LID.
    pub dlid: u32,
    /// Whether the LIDs are those of Omni-Path GIDs.
    pub is_opa: bool,
    /// Flow label.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Partition.
    pub pkey: u16,
    /// Service level.
    pub sl: u8,
    /// MTU.
    pub mtu: u8,
    /// Rate.
    pub rate: u8,
    /// Packet life time.
    pub life_time: u8,
    /// Service.
    pub service_id: ServiceId,
}

/// Primary and alternate path of a received REQ. `opa`: whether the port has Omni-Path addresses.
/// `roce`: whether it is a RoCE port, where LIDs mean nothing.
pub fn from_req(
    req: &Req<'_>,
    source: &Source,
    opa: bool,
    roce: bool,
) -> (PathRecord, Option<PathRecord>) {
    let _ = (req, source, opa, roce);
    todo!()
}

/// The LID in the data path of the primary path: 0 and [`PERMISSIVE_LID`] mean that of the path.
pub fn data_lid(req: &Req<'_>, source: &Source) -> u16 {
    let _ = (req, source);
    todo!()
}

/// The path of a received LAP. `pkey_and_mtu`: see
/// [`Conn::pkey_and_mtu`](super::conn::Conn::pkey_and_mtu).
pub fn from_lap(lap: &Lap<'_>, pkey_and_mtu: (u16, u8), opa: bool) -> PathRecord {
    let _ = (lap, pkey_and_mtu, opa);
    todo!()
}

/// What a REQ says of a path. `ack_delay`: of the own adapter. `inbound_lid`: the LID that the peer
/// sends data to, if that is known to differ.
pub fn to_wire(path: &PathRecord, ack_delay: u8, inbound_lid: Option<u16>) -> WirePath {
    let _ = (path, ack_delay, inbound_lid);
    todo!()
}
