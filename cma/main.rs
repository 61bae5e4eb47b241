// SPDX-License-Identifier: GPL-2.0

//! `rdma_cm`: connections and datagrams by IP address, over InfiniBand, RoCE and iWARP.
//!
//! Replaces the C module of the same name: exported functions and structures are those of
//! `include/rdma/rdma_cm.h`. It uses only exported functions of `ib_core`, `ib_cm` and `iw_cm`, so
//! it works with the C modules too.
//!
//! | file | what |
//! |---|---|
//! | `proto` | states, ports, headers, listeners, paths: pure, tested on the host |
//! | `abi` | exported functions |
//! | `bind`, `ports` | local addresses and ports; resolution of addresses |
//! | `route` | paths |
//! | `connect` | connections, and events of the transports |
//! | `listen`, `request` | listeners, and requests of peers |
//! | `mcast` | multicast groups |
//! | `deliver` | events for consumers, and the end of IDs |
//! | `device` | devices and the IDs that are attached to them |
//! | `configfs` | settings of administrators |
//! | `news` | changes of neighbours and bonds |
//! | `edge` | C structures and functions |
//!
//! Locks, outermost first: lock of callbacks of a listener, of a request's ID; `Id::starts`,
//! `Id::children`; `Id::tracked`; `Membership::left`; `Ports::table`, `DEVICES`, `CmaDevice::ids`,
//! `Id::qp`, `Id::groups`, `Id::news` (none under another of these); `PEERS`; `Id::inner`, which is
//! taken in any context.

#![allow(unreachable_pub, reason = "proto is a crate of its own on the host")]

mod abi;
mod bind;
#[cfg(CONFIG_CONFIGFS_FS)]
mod configfs;
mod connect;
mod deliver;
mod device;
mod edge;
mod listen;
mod mcast;
mod news;
mod ports;
#[path = "../core/private.rs"]
mod private;
mod proto;
mod request;
mod route;

use crate::device::CmaDevice;
use crate::edge::news::Neighbours;
use crate::edge::sa;
use crate::news::Bonds;
use crate::ports::Ports;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::client::Client;
use rdma::client::ClientSlot;
use rdma::client::DeviceRef;
use rdma::client::NlInfo;
use rdma::client::Registered;
use rdma::net::NetNotifier;
use rdma::net::Pernet;
use rdma::provider::unsupported;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
use rdma::workqueue::QueueOptions;

rdma::resident_module! { struct Main(RdmaCm); }

module! {
    type: Main,
    name: "rdma_cm",
    authors: ["The rust-rdma authors"],
    description: "Generic RDMA CM Agent",
    license: "Dual BSD/GPL",
}

rdma::global_lock! {
    /// The queue of work items of IDs.
    // SAFETY: `RdmaCm::init` initialises it, before there are IDs.
    unsafe(uninit) static QUEUE: Mutex<Option<QueueLease>> = None;
}

/// A lease of the queue of work items.
///
/// # Errors
///
/// `ENODEV`: the module is being unloaded.
pub(crate) fn queue() -> Result<QueueLease> {
    QUEUE.lock().clone().ok_or(ENODEV)
}

/// The client that is told of devices.
struct Cma;

rdma::static_slot!(impl for Cma: ClientSlot<Cma>);

impl Client for Cma {
    type Data = Arc<CmaDevice>;
    const NAME: &'static CStr = c"cma";

    fn add(&self, device: DeviceRef) -> Result<Arc<CmaDevice>> {
        CmaDevice::add(device)
    }

    fn remove(&self, device: Arc<CmaDevice>) {
        CmaDevice::remove(device);
    }

    fn nl_info<'a>(&self, _: &'a Arc<CmaDevice>, _: &DeviceRef, _: u32) -> Result<NlInfo<'a>> {
        Err(unsupported())
    }
}

/// State of the module. Fields are dropped in this order.
struct RdmaCm {
    #[cfg(CONFIG_CONFIGFS_FS)]
    _configfs: crate::edge::configfs::Root,
    _client: Registered<Cma>,
    _neighbours: Pin<KBox<Neighbours>>,
    _bonds: Pin<KBox<NetNotifier<Bonds>>>,
    _lease: Lease,
    _sa: sa::Registered,
    _ports: Pernet<Ports>,
    _queue: OwnedQueue,
}

/// The lease that new IDs get.
struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        let lease = QUEUE.lock().take();
        drop(lease);
    }
}

impl kernel::Module for RdmaCm {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        rdma::sync::init_once(&QUEUE);
        device::init();
        news::init();
        let queue = QueueOptions::unbound()
            .mem_reclaim()
            .create(c"rdma_cm", rdma::resident!())?;
        *QUEUE.lock() = Some(queue.lease());
        let lease = Lease;
        let ports = ports::register()?;
        let sa = sa::Registered::new();
        let bonds = KBox::pin_init(NetNotifier::register(rdma::resident!(), Bonds), GFP_KERNEL)?;
        let neighbours = KBox::pin_init(Neighbours::register(rdma::resident!()), GFP_KERNEL)?;
        let client = Registered::register(Arc::new(Cma, GFP_KERNEL)?, rdma::resident!())?;
        Ok(Self {
            #[cfg(CONFIG_CONFIGFS_FS)]
            _configfs: crate::edge::configfs::Root::register(rdma::resident!())?,
            _client: client,
            _neighbours: neighbours,
            _bonds: bonds,
            _lease: lease,
            _sa: sa,
            _ports: ports,
            _queue: queue,
        })
    }
}
