// SPDX-License-Identifier: GPL-2.0

//! Socket addresses, as the connection manager takes them.
//!
//! C headers: `include/linux/socket.h`, `include/uapi/linux/in.h`, `include/uapi/linux/in6.h`.

use crate::bindings;
use core::net::SocketAddr;

/// Bytes of a socket address (`struct sockaddr_storage`).
pub const ADDRESS: usize = 128;

/// Bytes of the longest address (`struct sockaddr_ib`), as a route has it.
pub const IB: usize = 48;

/// A socket address of any family.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct SocketAddress(pub [u8; ADDRESS]);

impl SocketAddress {
    /// Returns an address of IPv4 or IPv6. The scope of an IPv6 address is an interface number.
    pub fn new(address: SocketAddr) -> Self {
        let mut bytes = [0; ADDRESS];
        let mut put = |at: usize, part: &[u8]| {
            for (to, from) in bytes.iter_mut().skip(at).zip(part) {
                *to = *from;
            }
        };
        // `struct sockaddr_in` and `struct sockaddr_in6`.
        put(2, &address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                // CAST: 2.
                put(0, &(bindings::AF_INET as u16).to_ne_bytes());
                put(4, &v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                // CAST: 10.
                put(0, &(bindings::AF_INET6 as u16).to_ne_bytes());
                put(8, &v6.ip().octets());
                put(24, &v6.scope_id().to_ne_bytes());
            }
        }
        Self(bytes)
    }

    /// Returns an address that consists of these bytes, and zeros behind them.
    pub fn of(address: &[u8; IB]) -> Self {
        let mut bytes = [0; ADDRESS];
        if let Some(first) = bytes.first_chunk_mut() {
            *first = *address;
        }
        Self(bytes)
    }

    /// Returns the address for C.
    pub(super) fn raw(&mut self) -> *mut bindings::sockaddr {
        self.0.as_mut_ptr().cast()
    }
}
