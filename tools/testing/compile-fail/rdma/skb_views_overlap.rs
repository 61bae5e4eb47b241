// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0502

//! The bytes of a packet are read through one view and written through another, which overlaps it.

use rdma::net::Skb;

/// Writes the first byte, and returns its former value.
pub fn replace(skb: &mut Skb, new: u8) -> Option<u8> {
    let (read, _) = skb.from_network_header()?;
    #[cfg(not(wrong))]
    let read = *read.first()?;
    let (written, _) = skb.from_network_header_mut()?;
    *written.first_mut()? = new;
    #[cfg(wrong)]
    let read = *read.first()?;
    Some(read)
}
