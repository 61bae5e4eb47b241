// SPDX-License-Identifier: GPL-2.0

//! Answers to queries: `struct rdma_ucm_query_route_resp`, `struct rdma_ucm_query_addr_resp`. What is
//! not known is zero.

use super::command::Address;
use super::command::ADDR;
use super::command::INET;
use super::command::ROUTE;
use super::command::STORAGE;

/// Bytes of a path (`struct ib_user_path_rec`).
pub const PATH: usize = 64;
/// Bytes of an address of InfiniBand (`struct sockaddr_ib`).
const SOCKADDR_IB: usize = 48;

/// The device of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// Node GUID, in network byte order.
    pub node_guid: u64,
    /// Index of the device.
    pub index: u32,
    /// Port number.
    pub port: u8,
    /// P_Key, in network byte order.
    pub pkey: u16,
}

/// Copies as much as fits.
fn put<const N: usize>(to: &mut [u8; N], at: usize, from: &[u8]) {
    for (to, from) in to.iter_mut().skip(at).zip(from) {
        *to = *from;
    }
}

/// A path that is not resolved yet: what the addresses alone tell of it.
pub fn unresolved(dgid: &[u8; 16], sgid: &[u8; 16], pkey: u16) -> [u8; PATH] {
    let mut to = [0; PATH];
    put(&mut to, 0, dgid);
    put(&mut to, 16, sgid);
    put(&mut to, 52, &pkey.to_ne_bytes());
    to
}

/// Returns the answer to QUERY_ROUTE.
pub fn route(
    from: &Address,
    to: &Address,
    device: Option<&Device>,
    count: u32,
    paths: &[[u8; PATH]; 2],
) -> [u8; ROUTE.0] {
    let mut answer = [0; ROUTE.0];
    let [first, second] = paths;
    put(&mut answer, 8, first);
    put(&mut answer, 8 + PATH, second);
    for (at, address) in [(136, from), (164, to)] {
        let len = if address.family() == INET { 16 } else { 28 };
        put(&mut answer, at, address.0.get(..len).unwrap_or_default());
    }
    put(&mut answer, 192, &count.to_ne_bytes());
    if let Some(device) = device {
        put(&mut answer, 0, &device.node_guid.to_ne_bytes());
        put(&mut answer, 196, &[device.port]);
        put(&mut answer, 200, &device.index.to_ne_bytes());
    }
    answer
}

/// Returns the answer to QUERY for addresses or GIDs.
pub fn addresses(from: &Address, to: &Address, device: Option<&Device>) -> [u8; ADDR.0] {
    let mut answer = [0; ADDR.0];
    for (size_at, at, address) in [(12, 16, from), (14, 16 + STORAGE, to)] {
        let len = address.len();
        // The length of an address, at most 48.
        let size = u16::try_from(len).unwrap_or(0);
        put(&mut answer, size_at, &size.to_ne_bytes());
        put(&mut answer, at, address.0.get(..len).unwrap_or_default());
    }
    if let Some(device) = device {
        put(&mut answer, 0, &device.node_guid.to_ne_bytes());
        put(&mut answer, 8, &[device.port]);
        put(&mut answer, 10, &device.pkey.to_ne_bytes());
        put(&mut answer, 272, &device.index.to_ne_bytes());
    }
    answer
}

/// An address of InfiniBand. P_Key and service ID are in network byte order.
pub fn infiniband(pkey: u16, gid: &[u8; 16], service_id: u64) -> Address {
    let mut all = [0; STORAGE];
    let mut raw = [0; SOCKADDR_IB];
    put(&mut raw, 0, &super::command::IB.to_ne_bytes());
    put(&mut raw, 2, &pkey.to_ne_bytes());
    put(&mut raw, 8, gid);
    put(&mut raw, 24, &service_id.to_ne_bytes());
    put(&mut all, 0, &raw);
    Address(all)
}
