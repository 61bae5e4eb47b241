// SPDX-License-Identifier: GPL-2.0

//! Numbers of the protocol. All are in host byte order; only [`wire`](super::wire) knows the other.
//!
//! Source: IBTA volume 1, 12.7 (message field details).

/// Communication identifier of one side of a connection, or the request id of service id
/// resolution. 0 stands for "not known yet".
///
/// The number is that of the big-endian field: `ib_cm_id.local_id` is `to_be()` of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommId(pub u32);

impl CommId {
    /// The id that is not known yet.
    pub const NONE: Self = Self(0);
}

/// GUID of a channel adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guid(pub u64);

/// Service id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u64);

impl ServiceId {
    /// Asks the CM to assign a service id (`IB_CM_ASSIGN_SERVICE_ID`).
    pub const ASSIGN: Self = Self(0x0200_0000_0000_0000);
    /// The bits that tell who assigns a service id (`IB_SERVICE_ID_AGN_MASK`).
    const AGENT: u64 = 0xff00_0000_0000_0000;

    /// Returns whether the id is in the range that the CM assigns, [`ASSIGN`](Self::ASSIGN)
    /// included.
    pub const fn is_assigned(self) -> bool {
        self.0 & Self::AGENT == Self::ASSIGN.0
    }
}

/// A GID, as on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Returns whether it is an Omni-Path GID, which holds an extended LID (`ib_is_opa_gid`).
    pub const fn is_opa(&self) -> bool {
        let [_, _, _, _, _, _, _, _, a, b, c, ..] = self.0;
        // The OUI of Intel, in the upper 24 bits of the interface id.
        matches!([a, b, c], [0x00, 0x06, 0x6a])
    }

    /// The Omni-Path GID with this GID's prefix that holds an extended LID.
    pub const fn with_opa_lid(&self, lid: u32) -> Self {
        let [p0, p1, p2, p3, p4, p5, p6, p7, ..] = self.0;
        let [l0, l1, l2, l3] = lid.to_be_bytes();
        Self([
            p0, p1, p2, p3, p4, p5, p6, p7, 0x00, 0x06, 0x6a, 0, l0, l1, l2, l3,
        ])
    }

    /// The extended LID that an Omni-Path GID holds.
    pub const fn opa_lid(&self) -> u32 {
        let [.., a, b, c, d] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// Number of bits of a QPN and of a PSN.
const MASK_24: u32 = 0x00ff_ffff;

/// Queue pair number: 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qpn(u32);

impl Qpn {
    /// The lower 24 bits of a number.
    pub const fn new(number: u32) -> Self {
        Self(number & MASK_24)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Packet sequence number: 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The lower 24 bits of a number.
    pub const fn new(number: u32) -> Self {
        Self(number & MASK_24)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// Options of the vendors of both sides (enhanced connection establishment).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ece {
    /// Vendor: 24 bits.
    pub vendor_id: u32,
    /// Options: the attribute modifier of the MAD header.
    pub attr_mod: u32,
}

/// Number of one tracked send of a connection. Numbers are not reused within a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendId(pub(super) u32);

impl SendId {
    /// The number, to be stored with the send.
    pub const fn to_raw(self) -> u32 {
        self.0
    }

    /// The send with a stored number.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }
}

/// A point in time in milliseconds of a clock that does not go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl Instant {
    /// The point so many milliseconds later.
    pub const fn after(self, ms: u32) -> Self {
        // CAST: Widening.
        Self(self.0.saturating_add(ms as u64))
    }
}
