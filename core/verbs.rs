// SPDX-License-Identifier: GPL-2.0

//! Verbs objects: protection domains, queues, address handles. Common code is in [`crate::object`],
//! memory regions are in [`crate::mr`].
//!
//! | file | what |
//! |---|---|
//! | `pd`, `cq`, `srq`, `wq`, `xrcd` | one file per kind |
//! | `qp`, `shared_qp` | queue pairs; those shared by several users (XRC targets) |
//! | `modify_qp` | modification of queue pairs, and their address vectors |
//! | `ah`, `wc_ah` | address handles; address vectors from received packets |
//! | `mcast` | multicast groups of a queue pair |
//! | `drain` | waiting for the last completion of a queue |
//! | `port` | link layer, rates and speeds of a port; virtual functions |
//! | `text` | names of events and completion statuses |
//!
//! `ib_uverbs` checks parameters of users. This code checks what depends on the device, and trusts
//! parameters of kernel consumers as far as types cannot check them.

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
pub(crate) use wc_ah::create_reply as create_reply_ah;
