// SPDX-License-Identifier: GPL-2.0

//! Tables of C structures that several parts of the core use, and that no other module does.
//!
//! | file | structures |
//! |---|---|
//! | `class` | the class `infiniband`, memory of devices and their copies |
//! | `client` | clients, and handlers of events |
//! | `cm` | `struct rdma_id_private` |
//! | `counter` | `struct rdma_counter` |
//! | `device` | devices: the fields that the core writes, their ports, their driver's methods |
//! | `end` | the end of a device's registration |
//! | `mr_pool` | pools of regions of queue pairs |
//! | `ties` | ports by their network device |
//! | `tracked` | from what is tracked of an object to the object |
//! | `uverbs` | what is tracked of contexts and DMA handles |
//!
//! Structures that other modules use as well are in [`rdma::edge`].

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
