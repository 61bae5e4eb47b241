// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0382 borrow of moved value: `buffer`
//! A buffer belongs to the device while it is posted.
use rdma::ulp::Buffer;
use rdma::ulp::Ends;
use rdma::ulp::Queues;
use rdma::ulp::Refused;

pub fn post<E: Ends>(queues: &Queues<E>, buffer: Buffer) -> Result<usize, Refused> {
    #[cfg(not(wrong))]
    let len = buffer.bytes().len();
    queues.receive(buffer)?;
    #[cfg(wrong)]
    let len = buffer.bytes().len();
    Ok(len)
}
