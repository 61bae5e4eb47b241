// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 buffer

//! A MAD of one agent for an address of another one: the address handle may belong to another
//! device, whose driver would take it for its own.

use kernel::prelude::*;
use rdma::mad::Agent;
use rdma::mad::Lengths;
use rdma::mad::MadUser;
use rdma::mad::To;

/// Allocates a MAD of the first agent.
pub fn one<U: MadUser>(
    first: &Agent<U>,
    second: &Agent<U>,
    to: &To,
    lengths: &Lengths,
) -> Result<u32> {
    #[cfg(not(wrong))]
    drop(first.address(to)?.buffer(lengths)?);
    #[cfg(wrong)]
    drop(first.buffer(lengths, second.address(to)?)?);
    Ok(second.hi_tid())
}
