// SPDX-License-Identifier: GPL-2.0

//! Pure engines of `iw_cm`. No kernel calls, no allocation, no clock.
//!
//! * [`conn`]: the states of an ID, and what calls and events do in each;
//! * [`ring`]: positions of waiting events in storage that is allocated in advance;
//! * [`addr`]: socket addresses as bytes;
//! * [`message`]: netlink messages of the port mapper, parsed and written;
//! * [`mapper`]: what is known of the port mapper, requests to it, and its answers;
//! * [`remote`]: addresses of peers that the port mapper has announced.
//!
//! Specification: `include/rdma/iw_cm.h`, `include/uapi/rdma/rdma_netlink.h`.

pub mod addr;
pub mod conn;
pub mod mapper;
pub mod message;
pub mod remote;
pub mod ring;

/// The message or the call is refused with `EINVAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;
