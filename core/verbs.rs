// SPDX-License-Identifier: GPL-2.0

//! Objects of devices: protection domains, queues, regions and the rest.
//!
//! | file | what |
//! |---|---|
//! | `edge::tables` | the C structures, field by field |
//! | `edge::driver` | the methods of drivers |
//! | `edge::object` | what all kinds share: allocation, tracking, use counts |
//! | `pd`, `cq`, `srq`, `mr`, `wq`, `xrcd` | each kind |
//! | `qp`, `shared_qp` | queue pairs; those that several users open |
//! | `modify_qp` | changes of a queue pair, and the addresses in them |
//! | `ah`, `ah_attr`, `wc_ah` | address handles, address vectors, and those of a packet |
//! | `mcast` | multicast groups of a queue pair |
//! | `drain` | waiting for the last completion of a queue |
//! | `sg` | scatter lists as pages |
//! | `port` | what a port can do; rates and speeds; virtual functions |
//! | `text` | names of events and statuses |
//!
//! What users ask for is checked by `ib_uverbs`; here is checked what concerns the
//! device, and what kernel consumers hand in is trusted as far as types can say.

mod ah;
mod ah_attr;
mod cq;
mod drain;
mod edge;
mod mcast;
mod modify_qp;
pub(crate) mod mr;
mod pd;
mod port;
pub(crate) mod qp;
mod sg;
mod shared_qp;
mod srq;
mod text;
mod wc_ah;
mod wq;
mod xrcd;

pub(crate) use crate::gid::GidRef;
pub(crate) use ah::create as create_ah;
pub(crate) use ah::destroy as destroy_ah;
pub(crate) use ah::query_attr as query_ah;
pub(crate) use ah_attr::set_route;
pub(crate) use ah_attr::Filled;
use edge::driver;
pub(crate) use edge::object;
pub(crate) use edge::tables;
pub(crate) use edge::Out;
pub(crate) use modify_qp::modify_for_kernel as modify_qp;
pub(crate) use pd::alloc as alloc_pd;
pub(crate) use pd::dealloc as dealloc_pd;
pub(crate) use port::link_layer;
pub(crate) use port::Caps;
pub(crate) use port::Rate;
pub(crate) use qp::create_for_kernel as create_qp;
pub(crate) use qp::destroy as destroy_qp;
