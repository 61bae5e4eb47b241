// SPDX-License-Identifier: GPL-2.0

//! Subnet administration (SA): queries to the SA of an InfiniBand fabric, and memberships in
//! multicast groups.
//!
//! | file | what |
//! |---|---|
//! | `port`, `sm_ah` | a port, and the address handle of its subnet's SA |
//! | `agent` | MAD agent of a port |
//! | `query`, `answer` | queries, and delivery of their responses |
//! | `state` | table of active queries |
//! | `netlink` | the local service, a program that resolves paths |
//! | `group` | multicast groups and their members |
//! | `path` | address vectors from paths and memberships |
//! | `convert` | records between C and the engines |
//! | `abi` | exported functions |
//! | `edge` | arguments of exports, clients, memberships as seen by their owners, MADs |
//!
//! Record layouts and protocol decisions are in [`crate::proto::sa`].

mod abi;
mod agent;
mod answer;
mod convert;
mod edge;
mod group;
mod netlink;
mod path;
mod port;
mod query;
mod sm_ah;
mod state;

use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::sync::SpinLockIrq;
use rdma::workqueue::OwnedQueue;
use rdma::workqueue::QueueLease;
use rdma::workqueue::QueueOptions;

use self::edge::Published;
use self::port::Port;
use crate::device::client::Own;
use crate::device::client::Part;
use crate::device::event::Watch;
use crate::device::event::Watcher;
use crate::device::Caps;
use crate::device::Device;
use crate::proto::sa::group::Trouble;
use rdma::errno::eopnotsupp;

/// The ports of a device whose subnet has an SA.
struct Administrated(KVec<Arc<Port>>);

/// The ports of a device that support multicast groups.
struct Grouped(KVec<Arc<group::Port>>);

/// State of one client on a registered device.
struct Place<T: Watcher> {
    ports: Arc<T>,
    watch: Pin<KBox<Watch<T>>>,
}

/// State of both clients on a device.
#[pin_data]
pub(crate) struct Slots {
    #[pin]
    administrated: SpinLockIrq<Option<Place<Administrated>>>,
    #[pin]
    grouped: SpinLockIrq<Option<Place<Grouped>>>,
}

impl crate::device::PerDevice for Slots {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            administrated <- rdma::new_spinlock_irq!(None, "Device::sa"),
            grouped <- rdma::new_spinlock_irq!(None, "Device::mcast"),
        })
    }
}

impl Drop for Administrated {
    fn drop(&mut self) {
        self.0.iter().for_each(Port::close);
    }
}

impl Drop for Grouped {
    fn drop(&mut self) {
        self.0.iter().for_each(|port| port.close());
    }
}

/// Calls `make` for each port with an SA and appends the results to `into`. After an error, `into`
/// keeps the earlier results.
///
/// # Errors
///
/// `EOPNOTSUPP` if no port has an SA; those of `make`.
fn for_ports<T>(device: &Device, into: &mut KVec<T>, make: impl Fn(u32) -> Result<T>) -> Result {
    for port in device.ports() {
        if Caps::of(device, port).has_sa() {
            // Reserve first: nothing can fail after `make` has succeeded.
            into.reserve(1, GFP_KERNEL)?;
            into.push(make(port)?, GFP_KERNEL)?;
        }
    }
    if into.is_empty() {
        return Err(eopnotsupp());
    }
    Ok(())
}

/// Looks up a port with an SA. Any context.
///
/// # Errors
///
/// `ENODEV` if there is none.
fn port(device: &Device, number: u32) -> Result<Arc<Port>> {
    let place = device.slot::<Slots>().administrated.lock();
    let ports = place.as_ref().map(|place| &place.ports.0).ok_or(ENODEV)?;
    let port = ports.iter().find(|port| port.number() == number);
    port.cloned().ok_or(ENODEV)
}

/// Looks up a port with multicast groups. Any context.
///
/// # Errors
///
/// `ENODEV` if there is none.
fn group_port(device: &Device, number: u32) -> Result<Arc<group::Port>> {
    let place = device.slot::<Slots>().grouped.lock();
    let ports = place.as_ref().map(|place| &place.ports.0).ok_or(ENODEV)?;
    let port = ports.iter().find(|port| port.number() == number);
    port.cloned().ok_or(ENODEV)
}

/// Mask of the source LID bits that a path may choose (LMC bits of the port), or 0x7f while the LMC
/// is unknown.
fn path_mask(device: &Device, number: u32) -> u8 {
    let manager = port(device, number).ok().and_then(|port| port.manager());
    manager.map_or(0x7f, |manager| manager.path_mask)
}

/// Publishes the ports of a device and registers them for its events.
fn occupy<T: Watcher>(
    device: &Device,
    place: &SpinLockIrq<Option<Place<T>>>,
    ports: &Arc<T>,
) -> Result {
    let watch = Watch::register(device, ports.clone())?;
    *place.lock() = Some(Place {
        ports: ports.clone(),
        watch,
    });
    Ok(())
}

/// Unpublishes the ports of a device. When this returns, no event handler runs and no lookup finds
/// the ports. May sleep.
fn vacate<T: Watcher>(place: &SpinLockIrq<Option<Place<T>>>) {
    let taken = place.lock().take();
    if let Some(Place { ports, watch }) = taken {
        drop(watch);
        // Dropping the last reference closes the ports, which waits for running operations.
        drop(ports);
    }
}

/// The client for SA queries.
struct Sa;

impl Part for Sa {
    const NAME: &'static CStr = c"sa";

    fn add(device: &Device) -> Result {
        let mut opened = Administrated(KVec::new());
        for_ports(device, &mut opened.0, |port| Port::open(device, port))?;
        let ports = Arc::new(opened, GFP_KERNEL)?;
        occupy(device, &device.slot::<Slots>().administrated, &ports)?;
        // Events are registered by now, so later changes trigger another update.
        ports.0.iter().for_each(|port| port.look());
        Ok(())
    }

    fn remove(device: &Device) {
        vacate(&device.slot::<Slots>().administrated);
    }
}

impl Watcher for Administrated {
    fn event(&self, event: bindings::ib_event_type, port: u32) {
        if let Some(port) = self.0.iter().find(|each| each.number() == port) {
            port.disturbed(event);
        }
    }
}

/// The client for multicast groups.
struct Mcast;

impl Part for Mcast {
    const NAME: &'static CStr = c"ib_multicast";

    fn add(device: &Device) -> Result {
        let mut made = Grouped(KVec::new());
        for_ports(device, &mut made.0, |port| group::Port::new(device, port))?;
        let ports = Arc::new(made, GFP_KERNEL)?;
        occupy(device, &device.slot::<Slots>().grouped, &ports)
    }

    fn remove(device: &Device) {
        vacate(&device.slot::<Slots>().grouped);
    }
}

impl Watcher for Grouped {
    fn event(&self, event: bindings::ib_event_type, port: u32) {
        let trouble = match event {
            bindings::ib_event_type_IB_EVENT_PORT_ERR
            | bindings::ib_event_type_IB_EVENT_LID_CHANGE
            | bindings::ib_event_type_IB_EVENT_CLIENT_REREGISTER => Trouble::Forgotten,
            bindings::ib_event_type_IB_EVENT_PKEY_CHANGE => Trouble::Partitions,
            _ => return,
        };
        if let Some(port) = self.0.iter().find(|each| each.number() == port) {
            port.disturbed(trouble);
        }
    }
}

/// Workqueue of multicast groups, while a [`GroupQueue`] exists.
static QUEUE: Published<QueueLease> = Published::new();

/// Owner of the workqueue of multicast groups.
struct GroupQueue(OwnedQueue);

impl GroupQueue {
    fn new() -> Result<Self> {
        let queue = QueueOptions::ordered()
            .mem_reclaim()
            .create(c"ib_mcast", rdma::resident!())?;
        QUEUE.set(Some(Arc::new(queue.lease(), GFP_KERNEL)?));
        Ok(Self(queue))
    }
}

impl Drop for GroupQueue {
    fn drop(&mut self) {
        // All ports are closed. Flush the work of groups that are about to be freed.
        self.0.flush();
        QUEUE.set(None);
    }
}

/// Returns the workqueue of multicast groups, while it exists.
fn queue() -> Option<Arc<QueueLease>> {
    QUEUE.get()
}

/// State of the module for this part. Fields are dropped in this order.
pub(crate) struct Subsystem {
    _service: crate::netlink::Registration,
    _mcast: Pin<KBox<Own<Mcast>>>,
    _queue: GroupQueue,
    _sa: Pin<KBox<Own<Sa>>>,
    _queries: state::Shared,
}

impl Subsystem {
    /// Registers the clients and the local service. Called once, after devices and MAD agents are
    /// available. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let queries = state::Shared::new()?;
        let sa = Own::register()?;
        let queue = GroupQueue::new()?;
        let mcast = Own::register()?;
        Ok(Self {
            _service: netlink::register(),
            _mcast: mcast,
            _queue: queue,
            _sa: sa,
            _queries: queries,
        })
    }
}
