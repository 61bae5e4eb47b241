// SPDX-License-Identifier: GPL-2.0

//! Echo by RDMA: the client gives the server access to its data, and the server reads them, and
//! writes back the complement of each byte.
//!
//! ```text
//!   client                                server
//!     expose the data
//!     SEND: order (address, key, length) --->
//!                                 <--- RDMA READ
//!                                 <--- RDMA WRITE
//!                                 <--- SEND with invalidate: the order
//!     the data are the client's again
//! ```

use crate::peer::Peer;
use crate::peer::SIZE;
use kernel::prelude::*;
use rdma::ulp::Access;
use rdma::ulp::Buffer;
use rdma::ulp::Exposed;
use rdma::ulp::Queues;
use rdma::ulp::Received;
use rdma::ulp::Remote;

/// What a client says that it wants this, in the private data of its request.
pub(crate) const MARK: &[u8] = b"rdma";
/// Bytes of an order.
pub(crate) const ORDER: usize = 16;

/// Where a client's data are.
struct Order {
    at: Remote,
    len: usize,
}

impl Order {
    fn parse(message: &[u8]) -> Result<Self> {
        let (addr, rest) = message.split_first_chunk().ok_or(EINVAL)?;
        let (key, rest) = rest.split_first_chunk().ok_or(EINVAL)?;
        let (len, rest) = rest.split_first_chunk().ok_or(EINVAL)?;
        let len = usize::try_from(u32::from_be_bytes(*len))?;
        if !rest.is_empty() || len == 0 || len > SIZE {
            return Err(EINVAL);
        }
        let at = Remote {
            addr: u64::from_be_bytes(*addr),
            key: u32::from_be_bytes(*key),
        };
        Ok(Self { at, len })
    }

    fn write(&self, to: &mut [u8]) -> Result {
        let (addr, rest) = to.split_first_chunk_mut().ok_or(EINVAL)?;
        let (key, rest) = rest.split_first_chunk_mut().ok_or(EINVAL)?;
        let (len, _) = rest.split_first_chunk_mut().ok_or(EINVAL)?;
        *addr = self.at.addr.to_be_bytes();
        *key = self.at.key.to_be_bytes();
        *len = u32::try_from(self.len)?.to_be_bytes();
        Ok(())
    }
}

/// The transfers of a connection, in their order: requests of one kind end in the order in which
/// they were posted.
pub(crate) struct Transfers {
    /// Of a server: orders, with the buffers of their messages, whose data are being read.
    reading: KVec<(Order, Buffer)>,
    /// Of a server: those whose data are being written.
    writing: KVec<(Order, Buffer)>,
    /// Of a client: data that the server works on.
    exposed: KVec<Exposed>,
    /// Buffers for data.
    spare: KVec<Buffer>,
}

fn first<T>(list: &mut KVec<T>) -> Result<T> {
    list.remove(0).map_err(|_| EIO)
}

impl Transfers {
    pub(crate) fn new() -> Self {
        Self {
            reading: KVec::new(),
            writing: KVec::new(),
            exposed: KVec::new(),
            spare: KVec::new(),
        }
    }

    /// Returns a buffer for data. There are never more than messages underway.
    fn data(&mut self, queues: &Queues<Peer>) -> Result<Buffer> {
        match self.spare.pop() {
            Some(data) => Ok(data),
            None => Buffer::new(queues.pd(), SIZE),
        }
    }

    /// A server has received an order: it reads the data.
    pub(crate) fn ordered(&mut self, queues: &Queues<Peer>, message: Buffer, len: usize) -> Result {
        let order = Order::parse(message.bytes().get(..len).ok_or(EINVAL)?)?;
        let (at, len) = (order.at, order.len);
        let data = self.data(queues)?;
        self.reading.push((order, message), GFP_KERNEL)?;
        Ok(queues.read(data, len, at)?)
    }

    /// A server has read data: it writes the answer.
    pub(crate) fn read(&mut self, queues: &Queues<Peer>, mut data: Buffer) -> Result {
        let (order, message) = first(&mut self.reading)?;
        let (at, len) = (order.at, order.len);
        for byte in data.bytes_mut().iter_mut().take(len) {
            *byte = !*byte;
        }
        self.writing.push((order, message), GFP_KERNEL)?;
        Ok(queues.write(data, len, at)?)
    }

    /// A server has written the answer: it sends the order back, which ends its access.
    pub(crate) fn written(&mut self, queues: &Queues<Peer>, data: Buffer) -> Result {
        let (order, message) = first(&mut self.writing)?;
        self.spare.push(data, GFP_KERNEL)?;
        Ok(queues.send_and_invalidate(message, ORDER, order.at.key)?)
    }

    /// A client exposes the data that `fill` writes, if there are any, and orders an answer with
    /// `message`, which is returned if there are none.
    pub(crate) fn order(
        &mut self,
        queues: &Queues<Peer>,
        mut message: Buffer,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Result<Option<Buffer>> {
        let mut data = self.data(queues)?;
        let Some(len) = fill(data.bytes_mut()) else {
            self.spare.push(data, GFP_KERNEL)?;
            return Ok(Some(message));
        };
        let region = queues.region().ok_or(EBUSY)?;
        let exposed = queues.expose(region, data, Access::ReadWrite)?;
        let at = exposed.remote();
        self.exposed.push(exposed, GFP_KERNEL)?;
        Order { at, len }.write(message.bytes_mut())?;
        queues.send(message, ORDER)?;
        Ok(None)
    }

    /// A client has received its order back: passes the data to `check`.
    pub(crate) fn came_back<R>(
        &mut self,
        message: &mut Received<'_>,
        check: impl FnOnce(&mut [u8]) -> Result<R>,
    ) -> Result<R> {
        let exposed = first(&mut self.exposed)?;
        // The region is free again: it is dropped.
        let (_region, mut data) = message.invalidates(exposed).map_err(|_| EIO)?;
        let result = check(data.bytes_mut());
        self.spare.push(data, GFP_KERNEL)?;
        result
    }
}
