// SPDX-License-Identifier: GPL-2.0

//! `ib_core`: the heart of the subsystem. Drivers register devices with it; clients
//! (user verbs, connection managers, upper-layer protocols) are told of them and use
//! them through it.
//!
//! Drop-in for the C module of the same name: the same exported symbols, structures
//! (`include/rdma/*.h`), netlink, sysfs and parameters.
//!
//! | file or folder | what |
//! |---|---|
//! | `device` | devices, clients, events, namespaces: who is there and for how long |
//! | `life` | what happens to a device, in which order |
//! | `gid`, `cache` | the GIDs of ports; P_Keys, LMC, state of ports |
//! | `cq` | completion queues that the core polls for the kernel's consumers |
//! | `mr_pool` | regions that queue pairs keep |
//! | `verbs`, `addr`, `cgroup` | objects of devices, and the limits on them |
//! | `restrack`, `netlink`, `nldev` | what objects there are, and `rdma` that asks |
//! | `../mad` | management datagrams: agents, transfers, queue pairs 0 and 1 |
//! | `../rw` | transfers of storage targets |
//! | `sysfs`, `stats`, `counter` | /sys/class/infiniband; counters |
//! | `../umem` | registered user memory, pinned, on demand or of a dma-buf |
//! | `uverbs` | what the user-verbs module and drivers share of a user's call |
//! | `frmr` | memory regions kept for the next user |
//! | `pack` | packed structures, headers of datagrams |
//! | `sa` | subnet administration: paths, multicast groups |
//! | `security` | what a security module (LSM) is asked |
//! | `proto` | the pure engines behind these |
//! | `edge` | tables of C structures that several parts use |
//! | `private` | bindings to the headers that the core's modules share |
//!
//! Locks: `Documentation/core_locking.md`. Each part's exported functions stand at the
//! end of its file or in its `abi.rs`, and convert between C and what the rest works on.

#![allow(unreachable_pub, reason = "C calls what is exported")]

mod addr;
mod cache;
mod cgroup;
mod counter;
mod cq;
mod device;
mod edge;
mod errno;
mod frmr;
mod gid;
mod life;
#[path = "../mad/mod.rs"]
mod mad;
mod mr;
mod mr_pool;
mod netlink;
mod nldev;
mod object;
mod pack;
mod private;
mod proto;
mod restrack;
#[path = "../rw/mod.rs"]
mod rw;
mod sa;
mod security;
mod stats;
mod sysfs;
#[path = "../umem/mod.rs"]
mod umem;
mod uverbs;
mod verbs;

use kernel::prelude::*;

rdma::resident_module! { struct Main(IbCore); }

module! {
    type: Main,
    name: "ib_core",
    authors: ["The rust-rdma authors"],
    description: "core kernel InfiniBand API",
    license: "GPL",
    alias: ["rdma-netlink-subsys-4", "rdma-netlink-subsys-5", "net-pf-16-proto-20"],
    imports_ns: ["DMA_BUF"],
}

/// What the module owns. Fields are dropped in this order, the reverse of how they came.
struct IbCore {
    _gids: gid::Subsystem,
    _sa: sa::Subsystem,
    _mads: mad::Subsystem,
    _security: security::Subsystem,
    _nldev: nldev::Subsystem,
    _devices: device::Subsystem,
    _cqs: cq::Subsystem,
    _addresses: addr::Subsystem,
    // Devices that leave a namespace say so, also when it goes.
    _netlink: netlink::Subsystem,
}

impl kernel::Module for IbCore {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let netlink = netlink::Subsystem::new()?;
        let addresses = addr::Subsystem::new()?;
        let cqs = cq::Subsystem::new()?;
        let devices = device::Subsystem::new()?;
        let nldev = nldev::Subsystem::new()?;
        let security = security::Subsystem::new()?;
        let mads = mad::Subsystem::new()?;
        let sa = sa::Subsystem::new()?;
        let gids = gid::Subsystem::new()?;
        Ok(Self {
            _gids: gids,
            _sa: sa,
            _mads: mads,
            _security: security,
            _nldev: nldev,
            _devices: devices,
            _cqs: cqs,
            _addresses: addresses,
            _netlink: netlink,
        })
    }
}
