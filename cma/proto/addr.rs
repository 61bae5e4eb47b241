// SPDX-License-Identifier: GPL-2.0

//! Socket addresses: IPv4, IPv6 and `AF_IB`.
//!
//! Consumers pass them as C structures, [`Address::parse`] reads the bytes of one. Port numbers and
//! service IDs are in host order here.
//!
//! C headers: `linux/in.h`, `linux/in6.h`, `rdma/ib.h`.

/// Number of bytes of a `struct sockaddr_storage`.
pub const STORAGE: usize = 128;
/// Number of bytes of the longest address, a `struct sockaddr_ib`.
pub const LONGEST: usize = 48;

/// `AF_INET`, `AF_INET6`, `AF_IB`.
pub const INET: u16 = 2;
/// See [`INET`].
pub const INET6: u16 = 10;
/// See [`INET`].
pub const IB: u16 = 27;

/// Address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `AF_INET`.
    V4,
    /// `AF_INET6`.
    V6,
    /// `AF_IB`.
    Ib,
}

impl Family {
    /// The family with this number.
    pub const fn from_raw(raw: u16) -> Option<Self> {
        Some(match raw {
            INET => Self::V4,
            INET6 => Self::V6,
            IB => Self::Ib,
            _ => return None,
        })
    }

    /// The number of the family.
    pub const fn raw(self) -> u16 {
        match self {
            Self::V4 => INET,
            Self::V6 => INET6,
            Self::Ib => IB,
        }
    }

    /// Size of the C structure in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::V4 => 16,
            Self::V6 => 28,
            Self::Ib => 48,
        }
    }

    /// The unspecified address, with port 0.
    pub const fn unspecified(self) -> Address {
        match self {
            Self::V4 => Address::V4(V4 {
                addr: [0; 4],
                port: 0,
            }),
            Self::V6 => Address::V6(V6 {
                addr: [0; 16],
                port: 0,
                flow: 0,
                scope: 0,
            }),
            Self::Ib => Address::Ib(Ib {
                addr: [0; 16],
                pkey: 0,
                flow: 0,
                sid: 0,
                mask: 0,
                scope: 0,
            }),
        }
    }
}

/// A `struct sockaddr_in`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V4 {
    /// The address.
    pub addr: [u8; 4],
    /// The port number; 0 for none.
    pub port: u16,
}

/// A `struct sockaddr_in6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V6 {
    /// The address.
    pub addr: [u8; 16],
    /// The port number; 0 for none.
    pub port: u16,
    /// Traffic class and flow label, with the reserved bits above.
    pub flow: u32,
    /// Interface of a link-local address; 0 for none.
    pub scope: u32,
}

/// A `struct sockaddr_ib`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ib {
    /// The GID.
    pub addr: [u8; 16],
    /// The P_Key.
    pub pkey: u16,
    /// Traffic class and flow label.
    pub flow: u32,
    /// Service ID.
    pub sid: u64,
    /// The bits of the service ID that count.
    pub mask: u64,
    /// Unused.
    pub scope: u64,
}

/// A socket address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// `AF_INET`.
    V4(V4),
    /// `AF_INET6`.
    V6(V6),
    /// `AF_IB`.
    Ib(Ib),
}

/// Bytes `AT` to `AT + N` of a socket address.
fn part<const AT: usize, const N: usize>(bytes: &[u8; STORAGE]) -> [u8; N] {
    const { assert!(AT + N <= STORAGE) };
    match bytes.get(AT..).and_then(|rest| rest.first_chunk()) {
        Some(part) => *part,
        None => [0; N],
    }
}

/// Writes `N` bytes at `AT`.
fn put<const AT: usize, const N: usize>(bytes: &mut [u8; LONGEST], part: [u8; N]) {
    const { assert!(AT + N <= LONGEST) };
    if let Some(place) = bytes.get_mut(AT..).and_then(|rest| rest.first_chunk_mut()) {
        *place = part;
    }
}

impl Address {
    /// Reads a socket address; `None` if its family is unknown. Bytes beyond the size of the
    /// family's structure are not used.
    pub fn parse(bytes: &[u8; STORAGE]) -> Option<Self> {
        let port = u16::from_be_bytes(part::<2, 2>(bytes));
        let flow = u32::from_be_bytes(part::<4, 4>(bytes));
        let addr = part::<8, 16>(bytes);
        Some(
            match Family::from_raw(u16::from_ne_bytes(part::<0, 2>(bytes)))? {
                Family::V4 => Self::V4(V4 {
                    addr: part::<4, 4>(bytes),
                    port,
                }),
                Family::V6 => Self::V6(V6 {
                    addr,
                    port,
                    flow,
                    scope: u32::from_ne_bytes(part::<24, 4>(bytes)),
                }),
                Family::Ib => Self::Ib(Ib {
                    addr,
                    pkey: port,
                    flow,
                    sid: u64::from_be_bytes(part::<24, 8>(bytes)),
                    mask: u64::from_be_bytes(part::<32, 8>(bytes)),
                    scope: u64::from_ne_bytes(part::<40, 8>(bytes)),
                }),
            },
        )
    }

    /// The bytes of the socket address; zeros beyond the size of the family's structure.
    pub fn to_bytes(self) -> [u8; STORAGE] {
        let mut bytes = [0; STORAGE];
        if let Some(first) = bytes.first_chunk_mut() {
            *first = self.to_longest();
        }
        bytes
    }

    /// As [`to_bytes`](Self::to_bytes), but no more than the longest address has.
    pub fn to_longest(self) -> [u8; LONGEST] {
        let mut bytes = [0; LONGEST];
        put::<0, 2>(&mut bytes, self.family().raw().to_ne_bytes());
        match self {
            Self::V4(V4 { addr, port }) => {
                put::<2, 2>(&mut bytes, port.to_be_bytes());
                put::<4, 4>(&mut bytes, addr);
            }
            Self::V6(V6 {
                addr,
                port,
                flow,
                scope,
            }) => {
                put::<2, 2>(&mut bytes, port.to_be_bytes());
                put::<4, 4>(&mut bytes, flow.to_be_bytes());
                put::<8, 16>(&mut bytes, addr);
                put::<24, 4>(&mut bytes, scope.to_ne_bytes());
            }
            Self::Ib(Ib {
                addr,
                pkey,
                flow,
                sid,
                mask,
                scope,
            }) => {
                put::<2, 2>(&mut bytes, pkey.to_be_bytes());
                put::<4, 4>(&mut bytes, flow.to_be_bytes());
                put::<8, 16>(&mut bytes, addr);
                put::<24, 8>(&mut bytes, sid.to_be_bytes());
                put::<32, 8>(&mut bytes, mask.to_be_bytes());
                put::<40, 8>(&mut bytes, scope.to_ne_bytes());
            }
        }
        bytes
    }

    /// The address family.
    pub const fn family(&self) -> Family {
        match self {
            Self::V4(_) => Family::V4,
            Self::V6(_) => Family::V6,
            Self::Ib(_) => Family::Ib,
        }
    }

    /// The port number; 0 for none. `AF_IB` has it in the service ID, as far as the mask covers it.
    pub const fn port(&self) -> u16 {
        match self {
            Self::V4(v4) => v4.port,
            Self::V6(v6) => v6.port,
            // CAST: the low 16 bits are the port.
            Self::Ib(ib) => (ib.sid & ib.mask) as u16,
        }
    }

    /// The address with another port number. The service ID of `AF_IB` becomes an exact one.
    pub const fn with_port(self, port: u16) -> Self {
        match self {
            Self::V4(v4) => Self::V4(V4 { port, ..v4 }),
            Self::V6(v6) => Self::V6(V6 { port, ..v6 }),
            Self::Ib(ib) => Self::Ib(Ib {
                // CAST: widens.
                sid: (ib.sid & ib.mask) | port as u64,
                mask: u64::MAX,
                ..ib
            }),
        }
    }

    /// Whether the address is unspecified; of IPv4, the whole network 0.0.0.0/8.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::V4(v4) => v4.addr[0] == 0,
            Self::V6(V6 { addr, .. }) | Self::Ib(Ib { addr, .. }) => *addr == [0; 16],
        }
    }

    /// Whether the address is a loopback address.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::V4(v4) => v4.addr[0] == 127,
            Self::V6(V6 { addr, .. }) | Self::Ib(Ib { addr, .. }) => {
                u128::from_be_bytes(*addr) == 1
            }
        }
    }

    /// Whether the address names no device: unspecified or loopback.
    pub fn is_any(&self) -> bool {
        self.is_zero() || self.is_loopback()
    }

    /// Whether the address is a link-local address of IPv6.
    pub const fn is_link_local(&self) -> bool {
        matches!(self, Self::V6(v6) if v6.addr[0] == 0xfe && v6.addr[1] & 0xc0 == 0x80)
    }

    /// The interface that the address demands: the scope of a link-local address.
    ///
    /// # Errors
    ///
    /// [`Invalid`](super::Refusal::Invalid): a link-local address without scope.
    pub const fn interface(&self) -> Result<Option<u32>, super::Refusal> {
        match self {
            Self::V6(v6) if self.is_link_local() => match v6.scope {
                0 => Err(super::Refusal::Invalid),
                scope => Ok(Some(scope)),
            },
            Self::V4(_) | Self::V6(_) | Self::Ib(_) => Ok(None),
        }
    }

    /// The IPv4 address of an IPv4-mapped IPv6 address (`::ffff:a.b.c.d`), which is what a socket of
    /// IPv6 names an IPv4 host; other addresses as they are.
    pub const fn unmapped(self) -> Self {
        match self {
            Self::V6(V6 {
                addr: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d],
                port,
                ..
            }) => Self::V4(V4 {
                addr: [a, b, c, d],
                port,
            }),
            Self::V4(_) | Self::V6(_) | Self::Ib(_) => self,
        }
    }

    /// Whether both name the same host, whatever their ports. Link-local addresses also need the
    /// same scope.
    pub fn is_same_host(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::V4(a), Self::V4(b)) => a.addr == b.addr,
            (Self::V6(a), Self::V6(b)) => {
                a.addr == b.addr && (!other.is_link_local() || a.scope == b.scope)
            }
            (Self::Ib(a), Self::Ib(b)) => a.addr == b.addr,
            (Self::V4(_) | Self::V6(_) | Self::Ib(_), _) => false,
        }
    }

    /// The RoCE GID of an IP address; `None` for `AF_IB`.
    pub fn gid(&self) -> Option<[u8; 16]> {
        match self {
            Self::V4(v4) => {
                let [a, b, c, d] = v4.addr;
                Some([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
            }
            Self::V6(v6) => Some(v6.addr),
            Self::Ib(_) => None,
        }
    }

    /// The address with the loopback address of its family in place of its own.
    pub const fn loopback(self) -> Self {
        const ONE: [u8; 16] = 1u128.to_be_bytes();
        match self {
            Self::V4(v4) => Self::V4(V4 {
                addr: [127, 0, 0, 1],
                ..v4
            }),
            Self::V6(v6) => Self::V6(V6 { addr: ONE, ..v6 }),
            Self::Ib(ib) => Self::Ib(Ib { addr: ONE, ..ib }),
        }
    }

    /// The local address of an ID whose consumer gives only a destination: unspecified, but on the
    /// same link and in the same partition. The second value is the interface that the destination
    /// demands.
    pub const fn source_for(&self) -> (Self, Option<u32>) {
        match (self, self.family().unspecified()) {
            (Self::V6(to), Self::V6(from)) => {
                let scope = to.scope;
                let interface = if self.is_link_local() {
                    Some(scope)
                } else {
                    None
                };
                (Self::V6(V6 { scope, ..from }), interface)
            }
            (Self::Ib(to), Self::Ib(from)) => (
                Self::Ib(Ib {
                    pkey: to.pkey,
                    ..from
                }),
                None,
            ),
            (_, from) => (from, None),
        }
    }
}
