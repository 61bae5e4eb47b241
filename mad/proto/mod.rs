// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs): decisions of the core.
//!
//! * [`wire`]: the common header, management classes, lengths;
//! * [`registry`]: which agent receives unsolicited MADs;
//! * [`matching`]: which request a response belongs to;
//! * [`send`]: states of a send: queued, sent, waiting for a response, retransmitted;
//! * [`rmpp`]: transfers of many datagrams, both ends;
//! * [`smi`]: subnet management packets on directed routes.
//!
//! Specification: InfiniBand Architecture, volume 1, chapters 13 (MADs, RMPP) and 14
//! (subnet management). C header: `include/rdma/ib_mad.h`.

pub mod matching;
pub mod registry;
pub mod rmpp;
pub mod send;
pub mod smi;
pub mod wire;
