// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 MaybeUninit

//! Bytes of a new packet that were not written: they are what the memory's last user left, and would
//! be sent.

use core::slice;
use kernel::prelude::*;
use rdma::net::NewSkb;

/// Adds a byte to a packet.
pub fn extend(skb: &mut NewSkb) -> Result {
    skb.append(1, |room| {
        let byte = room.first_mut().ok_or(EINVAL)?;
        #[cfg(not(wrong))]
        let written = slice::from_mut(byte.write(1));
        #[cfg(wrong)]
        let written = slice::from_mut(byte);
        Ok::<_, Error>(written)
    })
}
