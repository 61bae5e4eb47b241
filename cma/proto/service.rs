// SPDX-License-Identifier: GPL-2.0

//! Service IDs: the port space and the port number, as listeners and requests of `ib_cm` carry
//! them (IBTA annex A11.2).

use super::addr::Address;
use super::addr::Ib;

/// A port space (`enum rdma_ucm_port_space`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Of IPoIB groups.
    Ipoib,
    /// Connections by IP address.
    Tcp,
    /// Datagrams by IP address.
    Udp,
    /// Of InfiniBand.
    Ib,
}

/// The bits of a service ID that give the port space.
const SPACE: u64 = 0xffff_ffff_ffff_0000;

impl Space {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ipoib, Self::Tcp, Self::Udp, Self::Ib];

    /// The port space with this number.
    pub const fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            0x0002 => Self::Ipoib,
            0x0106 => Self::Tcp,
            0x0111 => Self::Udp,
            0x013f => Self::Ib,
            _ => return None,
        })
    }

    /// The number of the port space.
    pub const fn raw(self) -> u32 {
        match self {
            Self::Ipoib => 0x0002,
            Self::Tcp => 0x0106,
            Self::Udp => 0x0111,
            Self::Ib => 0x013f,
        }
    }

    /// The service IDs of the space, with port 0.
    const fn base(self) -> u64 {
        // CAST: widens.
        (self.raw() as u64) << 16
    }
}

/// The service ID of an address in a port space, whose number may be unknown.
pub const fn id(space: u32, addr: &Address) -> u64 {
    match addr {
        Address::Ib(ib) => ib.sid,
        // CAST: widens.
        Address::V4(_) | Address::V6(_) => ((space as u64) << 16) | addr.port() as u64,
    }
}

/// The port number in a service ID.
pub const fn port(id: u64) -> u16 {
    // CAST: the low 16 bits.
    id as u16
}

/// The port space in a service ID.
pub const fn space(id: u64) -> Option<Space> {
    // CAST: 16 bits remain.
    Space::from_raw(((id >> 16) & 0xffff) as u32)
}

/// The port space in which an address takes a port, and the address with the full service ID of
/// that space. An ID of the space `Ib` with an `AF_IB` address may use the spaces of IP, too: its
/// service ID says which.
///
/// `None`: the port space is unknown, or the service ID is of none that the ID may use.
pub fn select(id_space: u32, addr: Address) -> Option<(Space, Address)> {
    let own = Space::from_raw(id_space);
    let Address::Ib(ib) = addr else {
        return Some((own?, addr));
    };
    let mask = ib.mask & SPACE;
    let wanted = ib.sid & mask;
    let space = [Space::Ib, Space::Tcp, Space::Udp]
        .into_iter()
        .find(|space| {
            (own == Some(Space::Ib) || own == Some(*space)) && wanted == space.base() & mask
        })?;
    let sid = space.base() | u64::from(addr.port());
    let mask = ib.mask | SPACE;
    Some((space, Address::Ib(Ib { sid, mask, ..ib })))
}
