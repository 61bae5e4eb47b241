// SPDX-License-Identifier: GPL-2.0

//! `rdma_rxe`: RDMA over Converged Ethernet version 2, in software.
//!
//! Drop-in replacement for the C driver of the same name. `rdma link add NAME type rxe netdev DEV`
//! creates a device; `rdma link delete` or the unregistration of the network device removes it.
//!
//! | folder or file | what |
//! |---|---|
//! | `proto` | the protocol engine: pure, also runs on the host |
//! | `queue`, `mem` | rings shared with user space; memory regions and windows |
//! | `net` | packets in and out |
//! | `qp`, `cq`, `srq`, `ah`, `mcast` | the objects, and how they use the above |
//! | `device`, `verbs` | the device, the state its data path shares, its verbs table |
//! | `faults` | how many page faults of on-demand memory run, and whose |
//! | `edge` | C functions that only this driver calls |
//!
//! The path of a packet: `net::rx` checks it, [`device::Dev`] finds its queue pair, [`qp::Qp`] runs
//! the engine, and the engine replies through `qp::wire` and `net::tx`.

mod ah;
mod counters;
mod cq;
mod device;
mod edge;
mod faults;
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
use crate::faults::Faults;
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
use rdma::workqueue::OwnedQueue;

rdma::resident_module! { struct Main(RxeModule) before Stock; }

rdma::module_at! {
    // After IPv6, of which sockets are made.
    level: 7,
    type: Main,
    name: "rdma_rxe",
    authors: ["The rust-rdma authors"],
    description: "Soft RDMA transport",
    license: "GPL",
    alias: ["rdma-link-rxe"],
}

rdma::global_lock! {
    // SAFETY: The module's init initialises it before it registers anything that can lock it.
    unsafe(uninit) static SHARED: Mutex<Option<Shared>> = None;
}

/// What all devices share.
#[derive(Clone)]
struct Shared {
    edge: Arc<NetEdge<Dev>>,
    faults: Arc<Faults>,
}

/// Returns the network edge that all devices share; `None` when the module is being removed. May
/// sleep.
fn network() -> Option<Arc<NetEdge<Dev>>> {
    SHARED.lock().as_ref().map(|shared| shared.edge.clone())
}

/// State of the module. Fields are dropped in this order: first the link type, so that no devices
/// can be created; then the existing devices; then all page faults have ended; then the network
/// edge; then all pending RCU callbacks, which drop objects of the data path, have run; last, the
/// workqueue of faults is freed. The stock of packet buffers is freed after that.
struct RxeModule {
    _link: LinkRegistration<Link>,
    _devices: AllDevices,
    _faults: faults::Ended,
    _edge: EdgeOwner,
    _drain: Drain,
    _queue: Arc<OwnedQueue>,
}

impl kernel::Module for RxeModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        rdma::sync::init_once(&SHARED);
        let queue = faults::new_queue()?;
        *SHARED.lock() = Some(Shared {
            edge: NetEdge::new()?,
            faults: Faults::new(&queue)?,
        });
        // From here on, dropping `edge` undoes this if a later step fails.
        let edge = EdgeOwner;
        Ok(Self {
            _link: LinkRegistration::register(&LINK_SLOT, rdma::resident!())?,
            _devices: AllDevices,
            _faults: faults::Ended::on(&queue),
            _edge: edge,
            _drain: Drain::new(),
            _queue: queue,
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

/// Disconnects from the network when dropped.
struct EdgeOwner;

impl Drop for EdgeOwner {
    fn drop(&mut self) {
        let shared = SHARED.lock().take();
        drop(shared);
    }
}

/// The link type `rxe`.
struct Link;

static LINK_SLOT: LinkSlot<Link> = LinkSlot::new();

impl LinkOps for Link {
    const NAME: &'static CStr = c"rxe";

    fn new_link(name: &CStr, netdev: &NetDevice) -> Result {
        // A VLAN is served by the rxe device of its lower network device.
        if netdev.vlan().is_some() {
            return Err(EPERM);
        }
        let Shared { edge, faults } = SHARED.lock().clone().ok_or(ENODEV)?;
        let data = Rxe::new(&edge, faults, netdev)?;
        let dev = data.dev.clone();
        let guid = data.guid();
        let mut device = Unregistered::<Rxe>::new(
            rdma::resident!(),
            rdma::this_module!(),
            Ok::<Rxe, Error>(data),
        )?;
        device.set_node_guid(guid);
        device.set_comp_vectors(kernel::cpu::nr_cpu_ids());
        device.set_link(&LINK_SLOT);
        device.set_netdev(1, netdev)?;
        dev.set_device(device.device().reference());
        // From here on, the core owns the device; `AllDevices` unregisters those that remain.
        drop(device.register(name)?.release());
        Ok(())
    }

    fn del_link(_device: NonNull<bindings::ib_device>) -> Result {
        // The core unregisters the device, which drops the driver's data.
        Ok(())
    }
}
