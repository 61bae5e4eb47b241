// SPDX-License-Identifier: GPL-2.0

//! `ib_core`: the core of the subsystem. Drivers register devices with it. Clients (user verbs,
//! connection managers, upper-layer protocols) are notified of devices, and use them through it.
//!
//! Drop-in replacement of the C module of the same name: exported symbols, structures
//! (`include/rdma/*.h`), netlink and sysfs interfaces and module parameters are the same.
//!
//! | file or folder | what |
//! |---|---|
//! | `device` | devices, clients, events, namespaces: registration and lifetime |
//! | `life` | order of the steps in the lifecycle of a device |
//! | `gid`, `cache` | GID tables; cached P_Keys, LMC and state of ports |
//! | `cq` | completion queues that the core polls for kernel consumers |
//! | `mr_pool` | memory region pools of queue pairs |
//! | `verbs`, `addr`, `cgroup` | verbs objects; address resolution; rdma cgroup |
//! | `restrack`, `netlink`, `nldev` | resource tracking, netlink, commands of the `rdma` tool |
//! | `../mad` | management datagrams: agents, RMPP, queue pairs 0 and 1 |
//! | `../rw` | RDMA READ and WRITE transfers of storage targets |
//! | `sysfs`, `stats`, `counter` | /sys/class/infiniband; counters |
//! | `../umem` | registered user memory: pinned, on demand, or from a dma-buf |
//! | `uverbs` | helpers for user calls that `ib_uverbs` and drivers share |
//! | `frmr` | pools of fast registration memory regions |
//! | `pack` | packed structures; headers of UD packets |
//! | `sa` | subnet administration: paths, multicast groups |
//! | `security` | LSM hooks |
//! | `proto` | the pure logic of these parts |
//! | `edge` | tables of C structures that several parts share |
//! | `private` | bindings to the headers that the core's modules share |
//!
//! Locks: `Documentation/core_locking.md`. Each part has its exported functions at the end of its
//! file or in its `abi.rs`; they convert between C and Rust types.

#![allow(unreachable_pub, reason = "C calls what is exported")]

mod addr;
mod cache;
mod cgroup;
mod counter;
mod cq;
mod device;
mod edge;
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

rdma::module_at! {
    // Before modules that register clients or devices, of which some are linked earlier.
    level: 5,
    type: Main,
    name: "ib_core",
    authors: ["The rust-rdma authors"],
    description: "core kernel InfiniBand API",
    license: "GPL",
    alias: ["rdma-netlink-subsys-4", "rdma-netlink-subsys-5", "net-pf-16-proto-20"],
    imports_ns: ["DMA_BUF"],
}

/// State of the module. Fields are dropped in this order, the reverse of initialisation.
struct IbCore {
    _gids: gid::Subsystem,
    _sa: sa::Subsystem,
    _mads: mad::Subsystem,
    _security: security::Subsystem,
    _nldev: nldev::Subsystem,
    _devices: device::Subsystem,
    _cqs: cq::Subsystem,
    _addresses: addr::Subsystem,
    // Last, because devices send notifications when they leave a namespace, also on its exit.
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
