// SPDX-License-Identifier: GPL-2.0

//! The C structures of user verbs, as far as `ib_uverbs` makes them or looks into them.
//!
//! | file | what |
//! |---|---|
//! | `abi` | structures that are copied to and from programs as they are |
//! | `device` | the character device of an RDMA device, its numbers and class |
//! | `file` | open files: made, listed, closed |
//! | `call` | a call of a program: request, answer, attributes |
//! | `frame` | the memory of an ioctl call, from its first attribute to its end |
//! | `handle` | handles of objects: types, lookup, creation, destruction |
//! | `kinds` | the numbers of the types of handles, and their objects |
//! | `definitions` | what drivers define |
//! | `events` | files from which programs read events |
//! | `marshall` | unions of structures that are copied for programs |
//! | `mmap` | mappings of device memory |
//! | `nodes` | nodes by their RDMA devices |
//! | `object` | objects of drivers |
//! | `user` | memory of programs |
//!
//! Structures that other modules use as well are in [`rdma::edge::uverbs`]; the structures of
//! objects are in [`rdma::edge::verbs`], and each object's calls of drivers in a file of its name.

pub(crate) mod abi;
pub(crate) mod call;
pub(crate) mod definitions;
pub(crate) mod device;
pub(crate) mod events;
pub(crate) mod file;
pub(crate) mod frame;
pub(crate) mod handle;
mod kinds;
pub(crate) mod marshall;
pub(crate) mod mmap;
pub(crate) mod nodes;
pub(crate) mod object;
pub(crate) mod user;

pub(crate) use rdma::provider::unsupported;
