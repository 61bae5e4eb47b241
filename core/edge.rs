// SPDX-License-Identifier: GPL-2.0

//! Tables of C structures that several parts of `ib_core` share and other modules do not use.
//!
//! | file | structures |
//! |---|---|
//! | `class` | the device class `infiniband`; allocation of devices and of their copies |
//! | `client` | clients and event handlers |
//! | `cm` | `struct rdma_id_private` |
//! | `counter` | `struct rdma_counter` |
//! | `device` | devices: core-only fields, ports, driver methods |
//! | `end` | unregistration of a device |
//! | `mr_pool` | memory region pools of queue pairs |
//! | `ties` | hash table of ports by network device |
//! | `tracked` | from a restrack entry to its object |
//! | `uverbs` | user contexts and DMA handles, as tracked by restrack |
//!
//! Structures that other modules also use are in [`rdma::edge`].

pub(crate) mod class;
pub(crate) mod client;
pub(crate) mod cm;
pub(crate) mod counter;
pub(crate) mod device;
pub(crate) mod end;
pub(crate) mod mr_pool;
pub(crate) mod ties;
pub(crate) mod tracked;
pub(crate) mod uverbs;
