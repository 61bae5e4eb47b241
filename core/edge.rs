// SPDX-License-Identifier: GPL-2.0

//! Tables of C structures that several parts of the core use, and that no other module does.
//!
//! | file | structures |
//! |---|---|
//! | `class` | the class `infiniband`, memory of devices and their copies |
//! | `client` | clients, and handlers of events |
//! | `ties` | ports by their network device |
//! | `device` | devices: the fields that the core writes, their ports, their driver's methods |
//!
//! Structures that other modules use as well are in [`rdma::edge`].

pub(crate) mod class;
pub(crate) mod client;
pub(crate) mod device;
pub(crate) mod ties;
