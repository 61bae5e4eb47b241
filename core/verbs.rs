// SPDX-License-Identifier: GPL-2.0

//! Objects of devices: protection domains, queues, regions and the rest. What all kinds share is
//! in [`crate::object`], memory regions are in [`crate::mr`].
//!
//! | file | what |
//! |---|---|
//! | `pd`, `cq`, `srq`, `wq`, `xrcd` | each kind |
//! | `qp`, `shared_qp` | queue pairs; those that several users open |
//! | `modify_qp` | changes of a queue pair, and the addresses in them |
//! | `ah`, `wc_ah` | address handles, and the address vectors of packets |
//! | `mcast` | multicast groups of a queue pair |
//! | `drain` | waiting for the last completion of a queue |
//! | `port` | what a port can do; rates and speeds; virtual functions |
//! | `text` | names of events and statuses |
//!
//! What users ask for is checked by `ib_uverbs`; here is checked what concerns the
//! device, and what kernel consumers hand in is trusted as far as types can say.

mod ah;
mod cq;
mod drain;
mod edge;
mod mcast;
mod modify_qp;
mod pd;
mod port;
pub(crate) mod qp;
mod shared_qp;
mod srq;
mod text;
mod wc_ah;
mod wq;
mod xrcd;

pub(crate) use ah::create as create_ah;
pub(crate) use ah::destroy as destroy_ah;
pub(crate) use ah::query_attr as query_ah;
pub(crate) use modify_qp::modify_for_kernel as modify_qp;
pub(crate) use pd::alloc as alloc_pd;
pub(crate) use pd::dealloc as dealloc_pd;
pub(crate) use port::link_layer;
pub(crate) use port::Rate;
pub(crate) use qp::create_for_kernel as create_qp;
pub(crate) use qp::destroy as destroy_qp;
