// SPDX-License-Identifier: GPL-2.0

//! Multicast groups: their GIDs, and what a request to join gives.
//!
//! InfiniBand maps IP groups as IPoIB does (RFC 4391, 4): signature, scope and P_Key are those of
//! the broadcast group. Groups of the UDP port space have a signature of their own, so that they
//! are not the groups of IPoIB. RoCE uses the IP address.

use super::addr::Address;
use super::link::HARDWARE;
use super::service::Space;

/// Fields of a membership (`ib_sa_comp_mask`, but in the byte order of the host).
const MGID: u64 = 1 << 0;
const PORT_GID: u64 = 1 << 1;
const QKEY: u64 = 1 << 2;
const MTU_SELECTOR: u64 = 1 << 4;
const MTU: u64 = 1 << 5;
const TRAFFIC_CLASS: u64 = 1 << 6;
const PKEY: u64 = 1 << 7;
const RATE_SELECTOR: u64 = 1 << 8;
const RATE: u64 = 1 << 9;
const SL: u64 = 1 << 12;
const FLOW_LABEL: u64 = 1 << 13;
const HOP_LIMIT: u64 = 1 << 14;
const JOIN_STATE: u64 = 1 << 16;

/// The fields that a request to join a group on InfiniBand gives. IPoIB's groups must be as its
/// broadcast group.
pub const fn fields(space: Option<Space>) -> u64 {
    let all = MGID | PORT_GID | PKEY | JOIN_STATE | QKEY | SL | FLOW_LABEL | TRAFFIC_CLASS;
    match space {
        Some(Space::Ipoib) => all | RATE | RATE_SELECTOR | MTU_SELECTOR | MTU | HOP_LIMIT,
        Some(Space::Tcp | Space::Udp | Space::Ib) | None => all,
    }
}

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
