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
    #[allow(dead_code, reason = "the tests on the host try all")]
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

/// Number of bytes of a service's name.
pub const NAME: usize = 64;

/// `RDMA_USER_CM_IB_SERVICE_FLAG_ID`, `RDMA_USER_CM_IB_SERVICE_FLAG_NAME`.
const BY_ID: u32 = 1 << 0;
const BY_NAME: u32 = 1 << 1;

/// Fields of a service record (`ib_sa_comp_mask`, but in the byte order of the host).
const RECORD_ID: u64 = 1 << 0;
const RECORD_NAME: u64 = 1 << 6;

/// What a query for service records gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Service ID; 0 if it is not given.
    pub id: u64,
    /// Name, with zeros behind it.
    pub name: [u8; NAME],
    /// The fields that are given.
    pub mask: u64,
}

impl Wanted {
    /// The query of a consumer who gives what `flags` say.
    pub fn new(flags: u32, id: u64, name: &[u8; NAME]) -> Self {
        let mut wanted = Self {
            id: 0,
            name: [0; NAME],
            mask: 0,
        };
        if flags & BY_ID != 0 {
            wanted.id = id;
            wanted.mask |= RECORD_ID;
        }
        if flags & BY_NAME != 0 {
            // The last byte stays zero.
            let text = name.iter().take(NAME - 1).take_while(|byte| **byte != 0);
            for (to, from) in wanted.name.iter_mut().zip(text) {
                *to = *from;
            }
            wanted.mask |= RECORD_NAME;
        }
        wanted
    }
}
