// SPDX-License-Identifier: GPL-2.0

//! The objects of user verbs, one file each: the table of its methods and commands
//! ([`crate::table`]), their handlers, and how it is destroyed.

pub(crate) mod ah;
pub(crate) mod async_event;
pub(crate) mod comp_channel;
pub(crate) mod device;
pub(crate) mod dm;
pub(crate) mod dmabuf;
pub(crate) mod dmah;
pub(crate) mod mr;
pub(crate) mod mw;
pub(crate) mod pd;
