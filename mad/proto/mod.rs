// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs): what the core decides about them.
//!
//! * [`wire`]: the common header, kinds of classes, lengths;
//! * [`registry`]: who gets what nobody asked for;
//! * [`matching`]: which request a response answers;
//! * [`send`]: the life of one send: queued, sent, waiting for a response, again;
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
