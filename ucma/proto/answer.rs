// SPDX-License-Identifier: GPL-2.0

//! Answers to queries: `struct rdma_ucm_query_route_resp`, `struct rdma_ucm_query_addr_resp`. What is
//! not known is zero.

use super::command::Named;
use super::command::ADDR;
use super::command::INET;
use super::command::ROUTE;
use super::command::STORAGE;
use super::put;

/// Bytes of a path (`struct ib_user_path_rec`).
pub const PATH: usize = 64;
/// Bytes of an address of InfiniBand (`struct sockaddr_ib`).
pub const SOCKADDR_IB: usize = 48;

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

/// A path that is not resolved yet: what the addresses alone tell of it.
pub fn unresolved(dgid: &[u8; 16], sgid: &[u8; 16], pkey: u16) -> [u8; PATH] {
    let mut to = [0; PATH];
    put(&mut to, 0, dgid);
    put(&mut to, 16, sgid);
    put(&mut to, 52, &pkey.to_ne_bytes());
    to
}

/// Writes the answer to QUERY_ROUTE over zeros.
pub fn route(
    answer: &mut [u8; ROUTE.0],
    from: Named<'_>,
    to: Named<'_>,
    device: Option<&Device>,
    count: u32,
    paths: &[[u8; PATH]; 2],
) {
    let [first, second] = paths;
    put(answer, 8, first);
    put(answer, 8 + PATH, second);
    for (at, address) in [(136, from), (164, to)] {
        let len = if address.family() == INET { 16 } else { 28 };
        put(answer, at, address.first(len));
    }
    put(answer, 192, &count.to_ne_bytes());
    if let Some(device) = device {
        put(answer, 0, &device.node_guid.to_ne_bytes());
        put(answer, 196, &[device.port]);
        put(answer, 200, &device.index.to_ne_bytes());
    }
}

/// Writes the answer to QUERY for addresses or GIDs over zeros.
pub fn addresses(
    answer: &mut [u8; ADDR.0],
    from: Named<'_>,
    to: Named<'_>,
    device: Option<&Device>,
) {
    for (size_at, at, address) in [(12, 16, from), (14, 16 + STORAGE, to)] {
        let bytes = address.bytes();
        // The length of an address, at most 48.
        let size = u16::try_from(bytes.len()).unwrap_or(0);
        put(answer, size_at, &size.to_ne_bytes());
        put(answer, at, bytes);
    }
    if let Some(device) = device {
        put(answer, 0, &device.node_guid.to_ne_bytes());
        put(answer, 8, &[device.port]);
        put(answer, 10, &device.pkey.to_ne_bytes());
        put(answer, 272, &device.index.to_ne_bytes());
    }
}

/// Returns an address of InfiniBand. P_Key and service ID are in network byte order.
pub fn infiniband(pkey: u16, gid: &[u8; 16], service_id: u64) -> [u8; SOCKADDR_IB] {
    let mut all = [0; SOCKADDR_IB];
    put(&mut all, 0, &super::command::IB.to_ne_bytes());
    put(&mut all, 2, &pkey.to_ne_bytes());
    put(&mut all, 8, gid);
    put(&mut all, 24, &service_id.to_ne_bytes());
    all
}
