// SPDX-License-Identifier: GPL-2.0

//! Network namespaces and their sockets, and the network devices below the rxe devices.
//!
//! Each network namespace has a [`Namespace`]: a table from network device to [`RxSink`], and two
//! UDP sockets that exist while any device is attached. A received packet finds its sink by the
//! interface index of its network device, under RCU. A packet from a VLAN device also matches the
//! lower device's sink.
//!
//! Lifetimes: a [`NetEdge`] outlives all attachments; an [`Attachment`] owns reception; an
//! [`Endpoint`] is passive and may be kept indefinitely.
//!
//! Locks: `Namespace::sockets` is taken in process context only, also under RTNL. Under it only the
//! locks for opening and closing sockets are taken.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;

use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::Mutex;

use rdma::net::pernet::AfterDevices;
use rdma::net::rtnl;
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::net::NetDevice;
use rdma::net::NetNotifier;
use rdma::net::NetdevEvent;
use rdma::net::NetdevEvents;
use rdma::net::Pernet;
use rdma::net::PernetData;
use rdma::net::Skb;
use rdma::net::TunnelReceiver;
use rdma::net::UdpTunnel;
use rdma::new_table;
use rdma::table::Table;
use rdma::wire::gro;
use rdma::wire::gro::Arrival;
use rdma::wire::gro::Chain;
use rdma::wire::gro::Step;
use rdma::wire::ROCE_V2_UDP_PORT;

use super::local::Lane;
use super::local::LANES;
use super::rx::RxRun;
use super::rx::RxSink;

/// The driver's state of a network namespace.
#[pin_data]
pub(super) struct Namespace<S: RxSink> {
    /// Sinks by interface index of the network device they are attached to.
    #[pin]
    sinks: Table<S, 4>,
    /// Counts events that may change routes or addresses.
    generation: AtomicU32,
    #[pin]
    sockets: Mutex<Sockets<S>>,
}

enum Sockets<S: RxSink> {
    /// No device is attached.
    Closed,
    /// There is a socket for IPv4 and, if the kernel supports it, one for IPv6. `users` counts
    /// attachments.
    Open {
        users: u32,
        _v4: UdpTunnel<Namespace<S>>,
        _v6: Option<UdpTunnel<Namespace<S>>>,
    },
    /// The namespace is gone.
    Gone,
}

impl<S: RxSink> Namespace<S> {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                sinks <- new_table!("rxe::Namespace::sinks"),
                generation: AtomicU32::new(0),
                sockets <- new_mutex!(Sockets::Closed, "rxe::Namespace::sockets"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the sink attached to the network device with this index.
    #[inline]
    pub(super) fn sink<'a>(
        &'a self,
        ifindex: u32,
        rcu: &'a rcu::Guard,
    ) -> Option<ArcBorrow<'a, S>> {
        self.sinks.borrow(ifindex, rcu)
    }

    /// Adds a user of the sockets and opens them for the first. May sleep.
    fn open_sockets(self: &Arc<Self>, net: &CountedNet) -> Result {
        let mut sockets = self.sockets.lock();
        match &mut *sockets {
            Sockets::Gone => return Err(ENODEV),
            Sockets::Open { users, .. } => {
                *users = users.checked_add(1).ok_or(EOVERFLOW)?;
                return Ok(());
            }
            Sockets::Closed => {}
        }
        // SAFETY: `net` is the namespace of `self`, and `PernetState`'s drop closes the sockets
        // when the namespace is removed.
        let open = |v6| unsafe { UdpTunnel::open(net, v6, ROCE_V2_UDP_PORT, self.clone()) };
        let v4 = open(false)?;
        let v6 = match open(true) {
            Ok(v6) => Some(v6),
            Err(e) if rdma::net::udp::is_unsupported(e) => None,
            Err(e) => return Err(e),
        };
        *sockets = Sockets::Open {
            users: 1,
            _v4: v4,
            _v6: v6,
        };
        Ok(())
    }

    /// Removes a user of the sockets and closes them with the last. May sleep.
    fn close_sockets(&self) {
        let mut sockets = self.sockets.lock();
        match &mut *sockets {
            Sockets::Open { users, .. } if *users > 1 => *users = users.saturating_sub(1),
            // Closed under the lock: the next opener needs the port to be free.
            Sockets::Open { .. } => *sockets = Sockets::Closed,
            Sockets::Closed | Sockets::Gone => {}
        }
    }

    /// Removes `sink` from the table, if present. May sleep.
    fn forget(&self, ifindex: u32, sink: &Arc<S>) {
        // The lock serialises the callers, an attachment and the notifier.
        let _sockets = self.sockets.lock();
        if let Some(present) = self.sinks.get(ifindex) {
            if Arc::ptr_eq(&present, sink) {
                let _: Option<Arc<S>> = self.sinks.remove(ifindex);
            }
        }
    }

    /// Invalidates all cached routes. Any context.
    fn bump(&self) {
        let _: u32 = self.generation.fetch_add(1, Ordering::Release);
    }

    /// Delivers a packet to the sink of its network device.
    fn deliver(&self, skb: Skb, ndev: &NetDevice, rcu: &rcu::Guard) {
        let sink = self.sink(ndev.ifindex(), rcu).or_else(|| {
            let (below, _) = ndev.vlan()?;
            // Interface indices are valid within one namespace only.
            (below.net(rcu) == ndev.net(rcu))
                .then(|| self.sink(below.ifindex(), rcu))
                .flatten()
        });
        let Some(sink) = sink else {
            skb.discard();
            return;
        };
        let dropped = |reason| sink.dropped(reason);
        let mut run = RxRun::new(&dropped);
        match run.load(skb, ndev, rcu) {
            Ok(()) => sink.receive(&mut run),
            Err((skb, reason)) => {
                sink.dropped(reason);
                skb.discard();
            }
        }
    }
}

impl<S: RxSink> TunnelReceiver for Namespace<S> {
    fn receive(&self, skb: Skb, ndev: Option<&NetDevice>, rcu: &rcu::Guard) {
        match ndev {
            Some(ndev) => self.deliver(skb, ndev, rcu),
            None => skb.discard(),
        }
    }

    #[inline]
    fn gro(new: &Arrival<'_>, waiting: Option<&Chain<'_>>) -> Step {
        gro::step(new, waiting)
    }
}

/// State that the kernel keeps for each namespace.
struct PernetState<S: RxSink>(Arc<Namespace<S>>);

rdma::impl_pernet_slot!(impl{S: RxSink} for PernetState<S>);

impl<S: RxSink> PernetData for PernetState<S> {
    type Dropped = AfterDevices;

    fn new(_net: &Net) -> impl PinInit<Self, Error> {
        Namespace::new().map(Self)
    }
}

impl<S: RxSink> Drop for PernetState<S> {
    fn drop(&mut self) {
        *self.0.sockets.lock() = Sockets::Gone;
    }
}

/// The driver's connection to the network stack; one per module.
pub(crate) struct NetEdge<S: RxSink> {
    // Drop order: the listener uses `pernet`.
    _notifier: Pin<KBox<NetNotifier<Listener<S>>>>,
    pernet: Arc<Pernet<PernetState<S>>>,
}

impl<S: RxSink> NetEdge<S> {
    /// Registers with the network stack. May sleep; takes the RTNL lock.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the network stack; `EBUSY` if there is one already.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let pernet = Pernet::<PernetState<S>>::register(rdma::resident!())?;
        let pernet = Arc::new(pernet, GFP_KERNEL)?;
        let listener = Listener {
            pernet: pernet.clone(),
        };
        let notifier = KBox::pin_init(
            NetNotifier::register(rdma::resident!(), listener),
            GFP_KERNEL,
        )?;
        Ok(Arc::new(
            Self {
                _notifier: notifier,
                pernet,
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns the state of a namespace; `None` while the namespace is being set up.
    fn namespace(&self, net: &CountedNet) -> Option<Arc<Namespace<S>>> {
        self.pernet.of(net).map(|state| state.0.clone())
    }
}

/// Receives events of network devices.
struct Listener<S: RxSink> {
    pernet: Arc<Pernet<PernetState<S>>>,
}

impl<S: RxSink> NetdevEvents for Listener<S> {
    fn event(&self, event: NetdevEvent, dev: &NetDevice) {
        let namespace = self
            .pernet
            .of_device(dev, &rcu::read_lock())
            .map(|state| state.0.clone());
        let Some(namespace) = namespace else {
            // No device is attached in a namespace without state.
            return;
        };
        match event {
            NetdevEvent::Register
            | NetdevEvent::ChangeName
            | NetdevEvent::ChangeUpper
            | NetdevEvent::BondingFailover
            | NetdevEvent::Other(_) => return,
            NetdevEvent::Unregister
            | NetdevEvent::Up
            | NetdevEvent::GoingDown
            | NetdevEvent::Down
            | NetdevEvent::Change
            | NetdevEvent::ChangeMtu
            | NetdevEvent::ChangeAddr => namespace.bump(),
        }
        let ifindex = dev.ifindex();
        let Some(sink) = namespace.sinks.get(ifindex) else {
            return;
        };
        if event == NetdevEvent::Unregister {
            // The index may be reused soon. Remove the sink before telling it, since a device that
            // is not registered yet checks for this later: `Attachment::is_attached`.
            namespace.forget(ifindex, &sink);
        }
        sink.link_event(event, dev);
    }
}

/// What a device needs for sending. Passive; may be kept indefinitely. It is attached once.
pub(crate) struct Endpoint<S: RxSink> {
    namespace: Arc<Namespace<S>>,
    ifindex: u32,
    lanes: [Arc<Lane<S>>; LANES],
}

impl<S: RxSink> Endpoint<S> {
    /// Creates the endpoint on `ndev`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` if the namespace of `ndev` has no state yet.
    pub(crate) fn new(edge: &NetEdge<S>, ndev: &NetDevice) -> Result<Arc<Self>> {
        let namespace = edge
            .pernet
            .of_device(ndev, &rcu::read_lock())
            .map(|state| state.0.clone())
            .ok_or(ENODEV)?;
        let ifindex = ndev.ifindex();
        let lane = || Lane::new(namespace.clone(), ifindex);
        let lanes = [lane()?, lane()?, lane()?, lane()?];
        Ok(Arc::new(
            Self {
                namespace,
                ifindex,
                lanes,
            },
            GFP_KERNEL,
        )?)
    }

    /// Returns a counter that changes whenever cached routes must be resolved again.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.namespace.generation.load(Ordering::Acquire)
    }

    /// Returns whether no packets to queue pair `qpn` of this device are on their way through a
    /// lane.
    #[inline]
    pub(crate) fn is_lane_empty(&self, qpn: u32) -> bool {
        self.lane(qpn).is_empty()
    }

    /// Returns the lane for packets to queue pair `qpn` of this device.
    #[inline]
    pub(super) fn lane(&self, qpn: u32) -> &Arc<Lane<S>> {
        let [first, second, third, fourth] = &self.lanes;
        match qpn % 4 {
            0 => first,
            1 => second,
            2 => third,
            _ => fourth,
        }
    }
}

/// Reception of packets for a device. Dropping it stops reception and may sleep.
pub(crate) struct Attachment<S: RxSink> {
    endpoint: Arc<Endpoint<S>>,
    sink: Arc<S>,
}

impl<S: RxSink> Attachment<S> {
    /// Delivers packets from the endpoint's network device, `ndev`, to `sink` from now on. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` if another device is attached to `ndev`; `EADDRINUSE` if the UDP port is in use;
    /// `ENODEV` if `ndev` has moved to another namespace; `ENOMEM`.
    pub(crate) fn new(
        edge: &NetEdge<S>,
        endpoint: Arc<Endpoint<S>>,
        ndev: &NetDevice,
        sink: Arc<S>,
    ) -> Result<Self> {
        let namespace = &endpoint.namespace;
        // Keep the namespace alive while the sockets are opened, even if the device moves.
        let net = ndev.net(&rcu::read_lock()).try_hold().ok_or(ENODEV)?;
        let present = edge.namespace(&net).ok_or(ENODEV)?;
        if ndev.ifindex() != endpoint.ifindex || !Arc::ptr_eq(namespace, &present) {
            return Err(ENODEV);
        }
        namespace.open_sockets(&net)?;
        let slot = match namespace.sinks.reserve_exact(endpoint.ifindex, GFP_KERNEL) {
            Ok(slot) => slot,
            Err(e) => {
                namespace.close_sockets();
                return Err(if e == EBUSY { EEXIST } else { e });
            }
        };
        let _: u32 = slot.publish(sink.clone());
        Ok(Self { endpoint, sink })
    }

    /// Returns whether packets are still delivered, that is, `ndev`, the endpoint's network device,
    /// has not left its namespace. If it leaves later, the sink is notified. May sleep; must not be
    /// called under RTNL.
    pub(crate) fn is_attached(&self, edge: &NetEdge<S>, ndev: &NetDevice) -> bool {
        // RTNL excludes a move in progress: either the device has moved, or the mover will find the
        // sink and see the caller's earlier writes.
        let _rtnl = rtnl::lock();
        let namespace = &self.endpoint.namespace;
        let Some(net) = ndev.net(&rcu::read_lock()).try_hold() else {
            return false;
        };
        let present = namespace.sinks.get(self.endpoint.ifindex);
        edge.namespace(&net)
            .is_some_and(|now| Arc::ptr_eq(namespace, &now))
            && present.is_some_and(|present| Arc::ptr_eq(&present, &self.sink))
    }
}

impl<S: RxSink> Drop for Attachment<S> {
    fn drop(&mut self) {
        let namespace = &self.endpoint.namespace;
        namespace.forget(self.endpoint.ifindex, &self.sink);
        namespace.close_sockets();
        for lane in &self.endpoint.lanes {
            lane.close();
        }
        // Wait until no callback is running and the table's reference is dropped, so that a softirq
        // does not drop the last reference to `sink`.
        rdma::sync::rcu::barrier();
        rdma::sync::rcu::synchronize();
    }
}
