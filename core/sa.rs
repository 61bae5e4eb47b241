// SPDX-License-Identifier: GPL-2.0

//! Subnet administration: the clients of the InfiniBand fabric's administrator.
//!
//! | file | what |
//! |---|---|
//! | `user` | who asks: the `ib_sa_client`s of other modules |
//! | `path` | address vectors from paths and memberships |
//! | `convert` | records between C and the engines |
//! | `abi` | exported functions |
//!
//! What a record looks like and what is to be done next is in [`crate::proto::sa`].

mod abi;
mod convert;
mod path;
mod user;

use crate::device::Device;

/// Which bits of a source's LID a path may choose: those that the subnet manager left to the
/// port, or all while that is not known.
fn path_mask(_device: &Device, _port: u32) -> u8 {
    0x7f
}
