// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 borrow of moved value

//! Memory that a peer may access and that is still read: the peer writes it meanwhile.

use rdma::ulp::Access;
use rdma::ulp::Buffer;
use rdma::ulp::Ends;
use rdma::ulp::Queues;
use rdma::ulp::Region;

/// Exposes a buffer. Returns its first byte.
pub fn expose<E: Ends>(queues: &Queues<E>, region: Region, buffer: Buffer) -> Option<u8> {
    #[cfg(not(wrong))]
    let first = buffer.bytes().first().copied();
    let exposed = queues.expose(region, buffer, Access::Write);
    #[cfg(wrong)]
    let first = buffer.bytes().first().copied();
    drop(exposed);
    first
}
