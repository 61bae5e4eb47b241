// SPDX-License-Identifier: GPL-2.0

//! GIDs of multicast groups.
//!
//! InfiniBand maps IP groups as IPoIB does (RFC 4391, 4): signature, scope and P_Key are those of
//! the broadcast group. Groups of the UDP port space have a signature of their own, so that they
//! are not the groups of IPoIB. RoCE uses the IP address.

use super::addr::Address;
use super::service::Space;

/// Number of bytes of a hardware address (`MAX_ADDR_LEN`).
pub const HARDWARE: usize = 32;

/// Low byte of the IPoIB signature, and its replacement in groups of the UDP port space.
const IPOIB: u8 = 0x1b;
const RDMA_CM: u8 = 0x01;
const SIGNATURE_V4: u8 = 0x40;
const SIGNATURE_V6: u8 = 0x60;

/// The parts of a broadcast address that a mapped GID repeats.
struct Link {
    scope: u8,
    pkey: [u8; 2],
}

impl Link {
    const fn of(broadcast: &[u8; HARDWARE]) -> Self {
        let [_, _, _, _, _, scope, _, _, high, low, ..] = *broadcast;
        Self {
            scope: 0x10 | (scope & 0xf),
            pkey: [high, low],
        }
    }
}

/// Whether an IPv6 address is a GID that the subnet administrator assigned: `ff1x:a01b`, with any
/// scope.
const fn is_assigned(addr: &[u8; 16]) -> bool {
    let [a, b, c, d, ..] = *addr;
    a == 0xff && b & 0xf0 == 0x10 && c == 0xa0 && d == IPOIB
}

/// The GID of a group on InfiniBand. An unspecified address asks the subnet administrator to choose
/// one.
pub fn of_ib(addr: &Address, space: Option<Space>, broadcast: &[u8; HARDWARE]) -> [u8; 16] {
    if addr.is_any() {
        return [0; 16];
    }
    let Link {
        scope,
        pkey: [high, low],
    } = Link::of(broadcast);
    let second = match space {
        Some(Space::Udp) => RDMA_CM,
        Some(Space::Ipoib | Space::Tcp | Space::Ib) | None => IPOIB,
    };
    match addr {
        Address::V6(v6) if is_assigned(&v6.addr) => v6.addr,
        Address::Ib(ib) => ib.addr,
        Address::V6(v6) => {
            let [_, _, _, _, _, _, g, h, i, j, k, l, m, n, o, p] = v6.addr;
            let sign = SIGNATURE_V6;
            [
                0xff, scope, sign, second, high, low, g, h, i, j, k, l, m, n, o, p,
            ]
        }
        Address::V4(v4) => {
            let [a, b, c, d] = v4.addr;
            let sign = SIGNATURE_V4;
            let a = a & 0xf;
            [
                0xff, scope, sign, second, high, low, 0, 0, 0, 0, 0, 0, a, b, c, d,
            ]
        }
    }
}

/// The GID of a group on RoCE, of version 2 if `udp`. `None` for `AF_IB`.
pub fn of_roce(addr: &Address, udp: bool) -> Option<[u8; 16]> {
    if addr.is_any() {
        return Some([0; 16]);
    }
    match addr {
        Address::V6(v6) => Some(v6.addr),
        Address::V4(v4) => {
            let [a, b, c, d] = v4.addr;
            let (first, second) = if udp { (0, 0) } else { (0xff, 0x0e) };
            Some([
                first, second, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d,
            ])
        }
        Address::Ib(_) => None,
    }
}
