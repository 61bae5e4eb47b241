// SPDX-License-Identifier: GPL-2.0

//! Socket addresses of IPv4 and IPv6 as bytes (`struct sockaddr_storage`).
//!
//! Only the part that these families use is kept: the first 28 bytes, which is a whole
//! `struct sockaddr_in6`.

/// Length of `struct sockaddr_storage`.
pub const STORAGE: usize = 128;
/// Bytes that are kept.
pub const KEPT: usize = 28;

/// IPv4 (`AF_INET`).
pub const INET: u16 = 2;
/// IPv6 (`AF_INET6`).
pub const INET6: u16 = 10;

/// A socket address. All zeros if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address([u8; KEPT]);

/// What a TCP port mapping relates: an IP address and a port, in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// IPv4.
    V4([u8; 4], [u8; 2]),
    /// IPv6, without scope and flow label.
    V6([u8; 16], [u8; 2]),
}

impl Address {
    /// Keeps the first bytes of a `struct sockaddr_storage`.
    pub const fn new(bytes: [u8; KEPT]) -> Self {
        Self(bytes)
    }

    /// Reads a `struct sockaddr_storage` at the start of `bytes`; `None` if there are fewer bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let whole = bytes.get(..STORAGE)?;
        Some(Self(*whole.first_chunk::<KEPT>()?))
    }

    /// Returns the whole `struct sockaddr_storage`; what was not kept is zero.
    pub fn storage(&self) -> [u8; STORAGE] {
        let mut storage = [0; STORAGE];
        if let Some(start) = storage.first_chunk_mut::<KEPT>() {
            *start = self.0;
        }
        storage
    }

    /// Address family.
    pub fn family(&self) -> u16 {
        u16::from_ne_bytes(self.at::<0, 2>())
    }

    /// Returns IP address and port; `None` for other families.
    pub fn endpoint(&self) -> Option<Endpoint> {
        match self.family() {
            INET => Some(Endpoint::V4(self.at::<4, 4>(), self.at::<2, 2>())),
            INET6 => Some(Endpoint::V6(self.at::<8, 16>(), self.at::<2, 2>())),
            _ => None,
        }
    }

    /// Returns whether both have the same family, IP address and port. Addresses of other families
    /// are equal to none.
    pub fn same(&self, other: &Self) -> bool {
        self.endpoint()
            .is_some_and(|endpoint| other.endpoint() == Some(endpoint))
    }

    /// Returns this address, with the IP address of `actual` if that of `mapped` is the wildcard.
    /// The port is not changed.
    pub fn unless_wildcard(self, mapped: &Self, actual: &Self) -> Self {
        match mapped.endpoint() {
            Some(Endpoint::V4([0, 0, 0, 0], _)) => self.with(4, actual.at::<4, 4>()),
            Some(Endpoint::V6(ip, _)) if ip == [0; 16] => self.with(8, actual.at::<8, 16>()),
            _ => self,
        }
    }

    fn at<const FROM: usize, const N: usize>(&self) -> [u8; N] {
        const { assert!(FROM + N <= KEPT) };
        // INDEX, OVERFLOW: Asserted above.
        core::array::from_fn(|i| self.0[FROM + i])
    }

    fn with<const N: usize>(mut self, from: usize, bytes: [u8; N]) -> Self {
        for (to, byte) in self.0.iter_mut().skip(from).zip(bytes) {
            *to = byte;
        }
        self
    }
}
