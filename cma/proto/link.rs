// SPDX-License-Identifier: GPL-2.0

//! Addresses of the link layer, as an ID has them of both ends and of the broadcast group.
//!
//! Those of IPoIB are 20 bytes long: flags and number of a queue pair, then a GID. The broadcast
//! address also has the P_Key (RFC 4391, 4 and 9.1.1). Others have the GID at their beginning.
//!
//! C header: `rdma/ib_addr.h`.

use super::addr::Ib;

/// Number of bytes of a hardware address (`MAX_ADDR_LEN`).
pub const HARDWARE: usize = 32;

/// `ARPHRD_ETHER`, `ARPHRD_INFINIBAND`, `ARPHRD_NONE`.
pub const ETHER: u16 = 1;
/// See [`ETHER`].
pub const INFINIBAND: u16 = 32;
/// See [`ETHER`].
pub const NO_HARDWARE: u16 = 0xfffe;

/// Bytes before the GID in an address of IPoIB.
const BEFORE_GID: usize = 4;
/// Where the broadcast address has the P_Key.
const PKEY: usize = 8;

/// Addresses of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Type of the network device.
    pub dev_type: u16,
    /// Of this end.
    pub source: [u8; HARDWARE],
    /// Of the other end.
    pub destination: [u8; HARDWARE],
    /// Of all.
    pub broadcast: [u8; HARDWARE],
}

/// The GID behind the first `skip` bytes.
fn gid(hardware: &[u8; HARDWARE], skip: usize) -> [u8; 16] {
    let rest = hardware.get(skip..).unwrap_or_default();
    rest.first_chunk().copied().unwrap_or_default()
}

/// Writes `bytes` behind the first `skip` bytes.
fn put<const N: usize>(hardware: &mut [u8; HARDWARE], skip: usize, bytes: [u8; N]) {
    let rest = hardware.get_mut(skip..).unwrap_or_default();
    if let Some(place) = rest.first_chunk_mut() {
        *place = bytes;
    }
}

impl Link {
    const fn skip(&self) -> usize {
        if self.dev_type == INFINIBAND {
            BEFORE_GID
        } else {
            0
        }
    }

    /// The GID of this end.
    pub fn sgid(&self) -> [u8; 16] {
        gid(&self.source, self.skip())
    }

    /// The GID of the other end.
    pub fn dgid(&self) -> [u8; 16] {
        gid(&self.destination, self.skip())
    }

    /// The GID of the broadcast group of IPoIB.
    pub fn mgid(&self) -> [u8; 16] {
        gid(&self.broadcast, BEFORE_GID)
    }

    /// The P_Key.
    pub const fn pkey(&self) -> u16 {
        u16::from_be_bytes([self.broadcast[PKEY], self.broadcast[PKEY + 1]])
    }

    /// Sets the GID of this end.
    pub fn set_sgid(&mut self, gid: [u8; 16]) {
        let skip = self.skip();
        put(&mut self.source, skip, gid);
    }

    /// Sets the GID of the other end.
    pub fn set_dgid(&mut self, gid: [u8; 16]) {
        let skip = self.skip();
        put(&mut self.destination, skip, gid);
    }

    /// Sets the P_Key.
    pub fn set_pkey(&mut self, pkey: u16) {
        put(&mut self.broadcast, PKEY, pkey.to_be_bytes());
    }

    /// This end has a local address of `AF_IB`, which belongs to no network device.
    pub fn set_ib_source(&mut self, addr: &Ib) {
        self.dev_type = INFINIBAND;
        self.set_sgid(addr.addr);
        self.set_pkey(addr.pkey);
    }
}
