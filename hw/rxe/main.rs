// SPDX-License-Identifier: GPL-2.0

//! `rdma_rxe`: RDMA over Converged Ethernet version 2, in software.
//!
//! Drop-in for the C driver of the same name. `rdma link add NAME type rxe netdev
//! DEV` makes a device, `rdma link delete` or the end of its network device ends it.
//!
//! | folder or file | what |
//! |---|---|
//! | `proto` | the protocol engine: pure, runs on the host too |
//! | `queue`, `mem` | rings shared with user space; memory regions and windows |
//! | `net` | packets in and out |
//! | `qp`, `cq`, `srq`, `ah`, `mcast` | the objects, and how they use the above |
//! | `device`, `verbs` | the device, its data path's share, its verbs table |
//! | `edge` | C functions that only this driver calls |
//!
//! The life of a packet: `net::rx` checks it, [`device::Dev`] finds its queue pair,
//! [`qp::Qp`] runs the engine, which answers by way of `qp::wire` and `net::tx`.

mod ah;
mod counters;
mod cq;
mod device;
mod edge;
mod limits;
mod mcast;
mod mem;
mod net;
mod pma;
mod proto;
mod qp;
mod queue;
mod srq;
mod user;
mod verbs;

use rdma::wire;

use crate::device::Dev;
use crate::device::Rxe;
use crate::net::NetEdge;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::link::LinkOps;
use rdma::link::LinkRegistration;
use rdma::link::LinkSlot;
use rdma::net::skb::Stock;
use rdma::net::NetDevice;
use rdma::provider::device::unregister_driver;
use rdma::provider::Unregistered;
use rdma::sync::rcu::Drain;

rdma::resident_module! { struct Main(RxeModule); }

module! {
    type: Main,
    name: "rdma_rxe",
    authors: ["The rust-rdma authors"],
    description: "Soft RDMA transport",
    license: "GPL",
    alias: ["rdma-link-rxe"],
}

rdma::global_lock! {
    // SAFETY: Initialised in the module's init, before anybody can take it.
    unsafe(uninit) static EDGE: Mutex<Option<Arc<NetEdge<Dev>>>> = None;
}

/// What the module owns. Fields are dropped in this order: nobody can make devices
/// any more, then those there are go, then the edge to the network, then the RCU callbacks
/// that drop what the data path held have run, and at last the packet buffers go that were
/// kept for the next.
struct RxeModule {
    _link: LinkRegistration<Link>,
    _devices: AllDevices,
    _edge: EdgeOwner,
    _drain: Drain,
    _stock: Stock,
}

impl kernel::Module for RxeModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        rdma::sync::init_once(&EDGE);
        *EDGE.lock() = Some(NetEdge::new()?);
        // From here on, what fails drops it.
        let edge = EdgeOwner;
        Ok(Self {
            _link: LinkRegistration::register(&LINK_SLOT, rdma::resident!())?,
            _devices: AllDevices,
            _edge: edge,
            _drain: Drain::new(),
            // SAFETY: It is dropped last, when there is no device, no socket and no queue pair.
            _stock: unsafe { Stock::new() },
        })
    }
}

/// Unregisters all devices when dropped.
struct AllDevices;

impl Drop for AllDevices {
    fn drop(&mut self) {
        unregister_driver::<Rxe>();
    }
}

/// Leaves the network when dropped.
struct EdgeOwner;

impl Drop for EdgeOwner {
    fn drop(&mut self) {
        let edge = EDGE.lock().take();
        drop(edge);
    }
}

/// The link type `rxe`.
struct Link;

static LINK_SLOT: LinkSlot<Link> = LinkSlot::new();

impl LinkOps for Link {
    const NAME: &'static CStr = c"rxe";

    fn new_link(name: &CStr, netdev: &NetDevice) -> Result {
        // A VLAN is used by way of the device below it.
        if netdev.vlan().is_some() {
            return Err(EPERM);
        }
        let edge = EDGE.lock().clone().ok_or(ENODEV)?;
        let data = Rxe::new(&edge, netdev)?;
        let dev = data.dev.clone();
        let guid = data.guid();
        let mut device = Unregistered::<Rxe>::new(&THIS_MODULE, Ok::<Rxe, Error>(data))?;
        device.set_node_guid(guid);
        device.set_comp_vectors(kernel::cpu::nr_cpu_ids());
        device.set_link(&LINK_SLOT);
        device.set_netdev(1, netdev)?;
        dev.set_device(device.device().reference());
        // The core owns it from now on; `AllDevices` sees to those that are left.
        let device = device.register(name)?.release();
        Rxe::end_if_left(&device, &edge);
        Ok(())
    }

    fn del_link(_device: NonNull<bindings::ib_device>) -> Result {
        // The core unregisters it, which drops all that is ours.
        Ok(())
    }
}
