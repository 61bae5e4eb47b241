// SPDX-License-Identifier: GPL-2.0

//! Global identifiers of ports, and their derivation from Ethernet and IP addresses.
//!
//! IBTA volume 1, 4.1.1 (form), annexes A16.4.2 and A17.4.5 (RoCE).

/// A global identifier, as on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

/// Packet format that a GID selects (`enum ib_gid_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum GidType {
    /// InfiniBand.
    Ib = 0,
    /// RoCE version 1: has its own Ethertype.
    RoceV1 = 1,
    /// RoCE version 2: over UDP.
    RoceV2 = 2,
}

impl GidType {
    /// The types of Ethernet ports, in the order in which a GID table is filled.
    pub const ROCE: [GidType; 2] = [GidType::RoceV1, GidType::RoceV2];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of [`GidType`]s: those that a port supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidTypes(u8);

impl GidTypes {
    /// The set of those RoCE types that are true.
    pub const fn roce(v1: bool, v2: bool) -> Self {
        let v1 = if v1 { GidType::RoceV1.bit() } else { 0 };
        let v2 = if v2 { GidType::RoceV2.bit() } else { 0 };
        Self(v1 | v2)
    }

    /// Returns whether the type is in the set.
    pub const fn has(self, gid_type: GidType) -> bool {
        self.0 & gid_type.bit() != 0
    }

    /// Number of types in the set.
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The RoCE types in the set, in the order of [`GidType::ROCE`].
    pub fn iter(self) -> impl Iterator<Item = GidType> {
        GidType::ROCE.into_iter().filter(move |t| self.has(*t))
    }
}

impl Gid {
    /// Reserved: never in a table, never a port's GID.
    pub const ZERO: Gid = Gid([0; 16]);

    /// Returns whether this is the reserved zero GID.
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// GID of an IPv4 address: the IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2).
    pub const fn from_ipv4(ip: [u8; 4]) -> Self {
        let [a, b, c, d] = ip;
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// GID of an IPv6 address: the same bytes.
    pub const fn from_ipv6(ip: [u8; 16]) -> Self {
        Self(ip)
    }

    /// Link-local GID of a port without an IP address: the prefix `fe80::/64` and the interface
    /// identifier of RFC 4291, appendix A. `dev_id` distinguishes network devices that share a MAC
    /// address; it is zero for all others (`addrconf_ifid_eui48`).
    pub const fn link_local(mac: [u8; 6], dev_id: u16) -> Self {
        let [a, b, c, d, e, f] = mac;
        let (a, [x, y]) = match dev_id {
            0 => (a ^ 2, [0xff, 0xfe]),
            id => (a, id.to_be_bytes()),
        };
        Self([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, x, y, d, e, f])
    }

    /// The GID as sysfs shows it: eight groups of four digits, no zeros omitted. A port may have a
    /// thousand GIDs and programs read all of them, so this avoids the formatting machinery.
    pub fn text(&self) -> [u8; 39] {
        // OVERFLOW: nibbles are below 16.
        let digit = |nibble: u8| match nibble {
            0..=9 => b'0' + nibble,
            _ => b'a' + nibble - 10,
        };
        let mut text = [b':'; 39];
        for (group, pair) in text.chunks_mut(5).zip(self.0.chunks_exact(2)) {
            let nibbles = pair.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            for (place, nibble) in group.iter_mut().zip(nibbles) {
                *place = digit(nibble);
            }
        }
        text
    }
}
