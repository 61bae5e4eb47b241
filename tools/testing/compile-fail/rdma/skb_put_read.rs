// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 MaybeUninit

//! The bytes of a new packet, read before they were written: they are what the memory's last user
//! left.

use kernel::prelude::*;
use rdma::net::skb::zeroed;
use rdma::net::NewSkb;

/// The first byte of those that are added.
pub fn first(skb: &mut NewSkb) -> Result<u8> {
    let part = skb.put(4)?;
    #[cfg(not(wrong))]
    let bytes: &[u8] = zeroed(part);
    #[cfg(wrong)]
    let bytes: &[u8] = part;
    #[cfg(wrong)]
    let _ = zeroed;
    bytes.first().copied().ok_or(EINVAL)
}
