// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0596

//! A clone of a packet buffer that others look at: C notes in the buffer that it is cloned, by a
//! plain write.

use kernel::prelude::*;
use rdma::net::Skb;

/// Clones it.
pub fn copy(#[cfg(not(wrong))] skb: &mut Skb, #[cfg(wrong)] skb: &Skb) -> Result<Skb> {
    skb.try_clone()
}
