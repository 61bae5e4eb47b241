// SPDX-License-Identifier: GPL-2.0

//! The objects of user verbs, one file each: the table of its methods and commands
//! ([`crate::table`]), their handlers, and how it is destroyed.

pub(crate) mod ah;
pub(crate) mod async_event;
pub(crate) mod comp_channel;
pub(crate) mod comp_cntr;
pub(crate) mod counters;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod dm;
pub(crate) mod dmabuf;
pub(crate) mod dmah;
pub(crate) mod flow;
pub(crate) mod flow_action;
pub(crate) mod mcast;
pub(crate) mod mr;
pub(crate) mod mw;
pub(crate) mod pd;
pub(crate) mod post;
pub(crate) mod qp;
pub(crate) mod qp_attr;
pub(crate) mod rwq_table;
pub(crate) mod srq;
pub(crate) mod wq;
pub(crate) mod xrcd;
