// SPDX-License-Identifier: GPL-2.0

//! The crate `rdma`: code that all modules of the subsystem share.
//!
//! It contains the bindings to `include/rdma`, safe wrappers of kernel facilities that the `kernel`
//! crate lacks, the wire formats, and two APIs: `provider` for drivers; `client`, `mad`, `cm` and
//! `ulp` for kernel consumers of devices.
//!
//! It is linked into each module. It therefore has no state: a `static` here would exist once per
//! module.

pub mod accounted;
pub mod anchor;
pub mod bindings;
pub mod chrdev;
pub mod client;
pub mod cm;
pub mod crc32;
pub mod edge;
pub mod errno;
pub mod export;
pub mod features;
pub mod front;
pub mod gate;
pub mod hrtimer;
pub mod kvec;
pub mod link;
pub mod list;
pub mod mad;
pub mod misc;
pub mod module;
pub mod net;
pub mod nospec;
mod print;
pub mod provider;
pub mod shared_ring;
pub mod slot;
pub mod sync;
pub mod sysctl;
pub mod sysfs;
pub mod table;
pub mod task;
pub mod timer;
pub mod token;
pub mod udata;
pub mod ulp;
pub mod umem;
pub mod wire;
pub mod workqueue;
pub mod xarray;
