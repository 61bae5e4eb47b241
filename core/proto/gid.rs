// SPDX-License-Identifier: GPL-2.0

//! Global identifiers of ports, and how they follow from Ethernet and IP addresses.
//!
//! IBTA volume 1, 4.1.1 (form), annexes A16.4.2 and A17.4.5 (RoCE).

/// A global identifier, as on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gid(pub [u8; 16]);

/// How packets that use a GID look (`enum ib_gid_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum GidType {
    /// InfiniBand's own.
    Ib = 0,
    /// RoCE version 1: an Ethertype of its own.
    RoceV1 = 1,
    /// RoCE version 2: over UDP.
    RoceV2 = 2,
}

impl GidType {
    /// The types of Ethernet ports, in the order in which a table is filled.
    pub const ROCE: [GidType; 2] = [GidType::RoceV1, GidType::RoceV2];

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of [`GidType`]s, those that a port knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidTypes(u8);

impl GidTypes {
    /// The RoCE types out of these two.
    pub const fn roce(v1: bool, v2: bool) -> Self {
        let v1 = if v1 { GidType::RoceV1.bit() } else { 0 };
        let v2 = if v2 { GidType::RoceV2.bit() } else { 0 };
        Self(v1 | v2)
    }

    /// Whether this one is among them.
    pub const fn has(self, gid_type: GidType) -> bool {
        self.0 & gid_type.bit() != 0
    }

    /// How many there are.
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The RoCE types among them, in order.
    pub fn iter(self) -> impl Iterator<Item = GidType> {
        GidType::ROCE.into_iter().filter(move |t| self.has(*t))
    }
}

impl Gid {
    /// Reserved; never in a table, and no port has it.
    pub const ZERO: Gid = Gid([0; 16]);

    /// Whether it is the reserved one.
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// Of an IPv4 address: its mapping into IPv6 (RFC 4291, 2.5.5.2).
    pub const fn from_ipv4(ip: [u8; 4]) -> Self {
        let [a, b, c, d] = ip;
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// Of an IPv6 address: the same bytes.
    pub const fn from_ipv6(ip: [u8; 16]) -> Self {
        Self(ip)
    }

    /// The link-local one that a port has without any IP address: the prefix
    /// `fe80::/64` and the interface identifier of RFC 4291, appendix A. A
    /// network device that shares its MAC with others tells itself apart by
    /// `dev_id`, which is zero for all others (`addrconf_ifid_eui48`).
    pub const fn link_local(mac: [u8; 6], dev_id: u16) -> Self {
        let [a, b, c, d, e, f] = mac;
        let (a, [x, y]) = match dev_id {
            0 => (a ^ 2, [0xff, 0xfe]),
            id => (a, id.to_be_bytes()),
        };
        Self([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, x, y, d, e, f])
    }

    /// As sysfs shows it: eight groups of four digits, none left out. A port has a
    /// thousand of them, and programs read all, so this does without formatting.
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
