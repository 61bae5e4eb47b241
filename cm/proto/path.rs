// SPDX-License-Identifier: GPL-2.0

//! Paths in requests: what the sender writes, and what the receiver makes of it.
//!
//! Source: IBTA volume 1, 12.7.11 to 12.7.21 (path fields).

use super::conn::Source;
use super::ids::Gid;
use super::ids::ServiceId;
use super::times;
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

/// A path from another subnet: permissive LIDs stand for those of the message itself.
fn routed(path: &WirePath, source: &Source) -> WirePath {
    let mut path = *path;
    if path.subnet_local {
        return path;
    }
    if path.local_lid == PERMISSIVE_LID {
        // CAST: LIDs of more than 16 bits are not used with these paths.
        path.local_lid = source.slid as u16;
        path.sl = source.sl;
    }
    if path.remote_lid == PERMISSIVE_LID {
        path.remote_lid = source.dlid_path_bits.into();
    }
    path
}

/// The path that a message describes, as seen by the receiver.
fn record(
    path: &WirePath,
    (pkey, mtu): (u16, u8),
    service_id: ServiceId,
    is_opa: bool,
) -> PathRecord {
    let (slid, dlid) = if is_opa {
        (path.remote_gid.opa_lid(), path.local_gid.opa_lid())
    } else {
        (path.remote_lid.into(), path.local_lid.into())
    };
    PathRecord {
        sgid: path.remote_gid,
        dgid: path.local_gid,
        slid,
        dlid,
        is_opa,
        flow_label: path.flow_label,
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        pkey,
        sl: path.sl,
        mtu,
        rate: path.rate,
        // The timeout is for the way there and back.
        life_time: path.ack_timeout.saturating_sub(1),
        service_id,
    }
}

/// Primary and alternate path of a received REQ. The hop limit of the primary path is that of the
/// REQ; consumers are told that of the message's GRH instead. `opa`: whether the port has Omni-Path addresses.
/// `roce`: whether it is a RoCE port, where LIDs mean nothing.
pub fn from_req(
    req: &Req<'_>,
    source: &Source,
    opa: bool,
    roce: bool,
) -> (PathRecord, Option<PathRecord>) {
    let opa = opa && req.primary.local_gid.is_opa();
    let wire = if roce {
        req.primary
    } else {
        routed(&req.primary, source)
    };
    let mut primary = record(&wire, (req.pkey, req.mtu), req.service_id, opa);
    if !opa {
        // The port that sent the message is the one to answer to.
        primary.dlid = source.slid;
    }
    let alternate = req.alternate.map(|wire| {
        let wire = if roce { wire } else { routed(&wire, source) };
        record(&wire, (req.pkey, req.mtu), req.service_id, opa)
    });
    (primary, alternate)
}

/// The LID in the data path of the primary path: 0 and [`PERMISSIVE_LID`] mean that of the path.
pub fn data_lid(req: &Req<'_>, source: &Source) -> u16 {
    routed(&req.primary, source).local_lid
}

/// The path of a received LAP. `pkey_and_mtu`: see
/// [`Conn::pkey_and_mtu`](super::conn::Conn::pkey_and_mtu).
pub fn from_lap(lap: &Lap<'_>, pkey_and_mtu: (u16, u8), opa: bool) -> PathRecord {
    let opa = opa && lap.alternate.local_gid.is_opa();
    record(&lap.alternate, pkey_and_mtu, ServiceId(0), opa)
}

/// What a REQ says of a path. `ack_delay`: of the own adapter. `inbound_lid`: the LID that the peer
/// sends data to, if that is known to differ.
pub fn to_wire(path: &PathRecord, ack_delay: u8, inbound_lid: Option<u16>) -> WirePath {
    let subnet_local = path.hop_limit <= 1;
    let multicast = 0xc000;
    let is_extended = path.is_opa && (path.dlid >= multicast || path.slid >= multicast);
    let gid = |gid: Gid, lid: u32| {
        if is_extended {
            gid.with_opa_lid(lid)
        } else {
            gid
        }
    };
    let lid = |lid: u32, routed: u16| match (subnet_local, is_extended) {
        (true, true) => 0,
        // CAST: Other LIDs have 16 bits.
        (true, false) => lid as u16,
        (false, _) => routed,
    };
    WirePath {
        local_lid: lid(path.slid, inbound_lid.unwrap_or(PERMISSIVE_LID)),
        // It is not known.
        remote_lid: lid(path.dlid, PERMISSIVE_LID),
        local_gid: gid(path.sgid, path.slid),
        remote_gid: gid(path.dgid, path.dlid),
        flow_label: path.flow_label,
        rate: path.rate,
        traffic_class: path.traffic_class,
        hop_limit: path.hop_limit,
        sl: path.sl,
        subnet_local,
        ack_timeout: times::ack_timeout(ack_delay, path.life_time),
    }
}
