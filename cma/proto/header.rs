// SPDX-License-Identifier: GPL-2.0

//! The header before the private data of a request: the IP addresses of both ends (IBTA annex
//! A11.2). Requests of `AF_IB` have none.
//!
//! | byte | |
//! |---|---|
//! | 0 | version, 0 |
//! | 1 | IP version in the high four bits; the others are reserved |
//! | 2, 3 | port of the sender |
//! | 4 to 19 | address of the sender; of IPv4, in the last four bytes |
//! | 20 to 35 | address of the destination |

use super::addr::Address;
use super::addr::Family;
use super::addr::V4;
use super::addr::V6;

/// Number of bytes.
pub const SIZE: usize = 36;

/// Number of bytes of private data in a request of `ib_cm`.
pub const REQ_DATA: usize = 92;
/// As [`REQ_DATA`], of a request for datagrams.
pub const SIDR_DATA: usize = 216;

/// Version of the header.
const VERSION: u8 = 0;

/// IP addresses of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// IPv4.
    V4 {
        /// Of the sender.
        source: [u8; 4],
        /// Of the destination.
        destination: [u8; 4],
    },
    /// IPv6.
    V6 {
        /// Of the sender.
        source: [u8; 16],
        /// Of the destination.
        destination: [u8; 16],
    },
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Port of the sender.
    pub port: u16,
    /// Both addresses.
    pub pair: Pair,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoHeader {
    /// Too short, or of another version of the protocol.
    Invalid,
    /// Of neither IP version, so the request is one of `AF_IB`.
    NotIp,
}

impl Header {
    /// Reads the header at the start of a request's private data.
    ///
    /// # Errors
    ///
    /// See [`NoHeader`].
    pub fn parse(data: &[u8]) -> Result<Self, NoHeader> {
        let header: &[u8; SIZE] = data.first_chunk().ok_or(NoHeader::Invalid)?;
        let [version, ip, port_high, port_low, addrs @ ..] = header;
        if *version != VERSION {
            return Err(NoHeader::Invalid);
        }
        let (from, to) = addrs.split_at(16);
        let pair = match ip >> 4 {
            4 => Pair::V4 {
                source: *from.last_chunk().ok_or(NoHeader::Invalid)?,
                destination: *to.last_chunk().ok_or(NoHeader::Invalid)?,
            },
            6 => Pair::V6 {
                source: *from.last_chunk().ok_or(NoHeader::Invalid)?,
                destination: *to.last_chunk().ok_or(NoHeader::Invalid)?,
            },
            _ => return Err(NoHeader::NotIp),
        };
        Ok(Self {
            port: u16::from_be_bytes([*port_high, *port_low]),
            pair,
        })
    }

    /// The header of a request from `source` to `destination`; `None` for `AF_IB` and for addresses
    /// of different families.
    pub const fn of(source: &Address, destination: &Address) -> Option<Self> {
        let port = source.port();
        let pair = match (source, destination) {
            (Address::V4(from), Address::V4(to)) => Pair::V4 {
                source: from.addr,
                destination: to.addr,
            },
            (Address::V6(from), Address::V6(to)) => Pair::V6 {
                source: from.addr,
                destination: to.addr,
            },
            (Address::V4(_) | Address::V6(_) | Address::Ib(_), _) => return None,
        };
        Some(Self { port, pair })
    }

    /// The bytes of the header.
    pub fn to_bytes(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let (version, source, destination) = match self.pair {
            Pair::V4 {
                source,
                destination,
            } => (4, padded(source), padded(destination)),
            Pair::V6 {
                source,
                destination,
            } => (6, source, destination),
        };
        let [high, low] = self.port.to_be_bytes();
        if let Some((start, addrs)) = bytes.split_first_chunk_mut() {
            *start = [VERSION, version << 4, high, low];
            if let Some((from, to)) = addrs.split_first_chunk_mut() {
                *from = source;
                copy(to, &destination);
            }
        }
        bytes
    }

    /// The address that the request was sent to, with the port of its service ID.
    pub const fn local(&self, port: u16) -> Address {
        match self.pair {
            Pair::V4 { destination, .. } => Address::V4(V4 {
                addr: destination,
                port,
            }),
            Pair::V6 { destination, .. } => Address::V6(V6 {
                addr: destination,
                port,
                flow: 0,
                scope: 0,
            }),
        }
    }

    /// The address of the sender.
    pub const fn remote(&self) -> Address {
        let port = self.port;
        match self.pair {
            Pair::V4 { source, .. } => Address::V4(V4 { addr: source, port }),
            Pair::V6 { source, .. } => Address::V6(V6 {
                addr: source,
                port,
                flow: 0,
                scope: 0,
            }),
        }
    }
}

/// An address of IPv4 in the place of one of IPv6.
const fn padded([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
}

/// Copies as much as fits.
fn copy(to: &mut [u8], from: &[u8]) {
    let len = to.len().min(from.len());
    if let (Some(to), Some(from)) = (to.get_mut(..len), from.get(..len)) {
        to.copy_from_slice(from);
    }
}

/// Writes the private data of a request from `source` to `destination`: the header, then the
/// consumer's data as far as it fits.
///
/// The first byte is the version of the protocol for `AF_IB`, too, where it is the consumer's: the
/// C module writes it, and refuses requests without it.
pub fn write(buffer: &mut [u8], source: &Address, destination: &Address, data: &[u8]) {
    if let Some(rest) = buffer.get_mut(offset(source.family())..) {
        copy(rest, data);
    }
    if let Some(header) = Header::of(source, destination) {
        copy(buffer, &header.to_bytes());
    }
    if let Some(version) = buffer.first_mut() {
        *version = VERSION;
    }
}

/// Number of bytes before the consumer's data in requests of an ID whose local address is of this
/// family.
pub const fn offset(family: Family) -> usize {
    match family {
        Family::V4 | Family::V6 => SIZE,
        Family::Ib => 0,
    }
}

/// Number of bytes of private data of a request with `len` bytes of the consumer; `None` if it does
/// not fit into the length field. `ib_cm` refuses what is too long for a message.
pub fn len_with(family: Family, len: u8) -> Option<u8> {
    u8::try_from(offset(family)).ok()?.checked_add(len)
}
