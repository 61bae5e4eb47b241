// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 post

//! A MAD that is posted before its bytes are written: segments of a transfer would carry what was
//! in memory before.

use kernel::prelude::*;
use rdma::mad::Address;
use rdma::mad::Lengths;
use rdma::mad::MadUser;

/// Sends a MAD.
pub fn send<U: MadUser>(
    address: Address<'_, U>,
    lengths: &Lengths,
    mad: &[u8],
    sent: KBox<U::Sent>,
) -> Result {
    let buffer = address.buffer(lengths)?;
    #[cfg(not(wrong))]
    buffer.fill(mad)?.post(0, 0, sent)?;
    #[cfg(wrong)]
    buffer.post(0, 0, sent)?;
    let _ = mad;
    Ok(())
}
