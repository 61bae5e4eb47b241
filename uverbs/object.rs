// SPDX-License-Identifier: GPL-2.0

//! The objects of user verbs, one file each: the table of its methods and commands
//! ([`crate::table`]), their handlers, and how it is destroyed.

pub(crate) mod async_event;
pub(crate) mod comp_channel;
pub(crate) mod counters;
pub(crate) mod device;
pub(crate) mod flow;
pub(crate) mod flow_action;
pub(crate) mod pd;
