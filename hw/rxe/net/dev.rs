// SPDX-License-Identifier: GPL-2.0

//! Namespaces and their sockets, and the network devices under our devices.
//!
//! Each network namespace has a [`Namespace`]: a table from network device to
//! [`RxSink`], and two UDP sockets that exist while somebody is attached. A
//! received packet finds its device by the number of the network device it came
//! from, under RCU. A packet from a VLAN device also finds the device below it.
//!
//! Lifetimes: a [`NetEdge`] outlives all attachments; an [`Attachment`] owns
//! reception; an [`Endpoint`] is passive and may be kept by anybody.
//!
//! Locks: `Namespace::sockets` is taken in process context only, also under RTNL,
//! and takes nothing but what opening and closing a socket takes.

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

/// A namespace, as far as we are concerned.
#[pin_data]
pub(super) struct Namespace<S: RxSink> {
    /// Who is attached to the network device with that number.
    #[pin]
    sinks: Table<S, 4>,
    /// Counts events that make routes or addresses change.
    generation: AtomicU32,
    #[pin]
    sockets: Mutex<Sockets<S>>,
}

enum Sockets<S: RxSink> {
    /// Nobody is attached.
    Closed,
    /// There is a socket for IPv4 and, if the kernel has IPv6, one for it, for so
    /// many attachments.
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

    /// Who is attached to the network device with that number.
    #[inline]
    pub(super) fn sink<'a>(
        &'a self,
        ifindex: u32,
        rcu: &'a rcu::Guard,
    ) -> Option<ArcBorrow<'a, S>> {
        self.sinks.borrow(ifindex, rcu)
    }

    /// One more user of the sockets. May sleep.
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
        // SAFETY: `net` is the namespace of `self`, and when it goes, `PernetState`
        // closes the sockets.
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

    /// One user of the sockets less. May sleep.
    fn close_sockets(&self) {
        let mut sockets = self.sockets.lock();
        match &mut *sockets {
            Sockets::Open { users, .. } if *users > 1 => *users = users.saturating_sub(1),
            // Under the lock: whoever opens them next needs the port to be free.
            Sockets::Open { .. } => *sockets = Sockets::Closed,
            Sockets::Closed | Sockets::Gone => {}
        }
    }

    /// Takes `sink` off the table, if it is there. Any context that may sleep.
    fn forget(&self, ifindex: u32, sink: &Arc<S>) {
        // The lock keeps two callers, an attachment and the notifier, from each other.
        let _sockets = self.sockets.lock();
        if let Some(present) = self.sinks.get(ifindex) {
            if Arc::ptr_eq(&present, sink) {
                let _: Option<Arc<S>> = self.sinks.remove(ifindex);
            }
        }
    }

    /// Makes all cached routes invalid. Any context.
    fn bump(&self) {
        let _: u32 = self.generation.fetch_add(1, Ordering::Release);
    }

    /// Hands a packet to whom it is for.
    fn deliver(&self, skb: Skb, ndev: &NetDevice, rcu: &rcu::Guard) {
        let sink = self.sink(ndev.ifindex(), rcu).or_else(|| {
            let (below, _) = ndev.vlan()?;
            // Numbers mean something in one namespace only.
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

/// What the kernel keeps for us in a namespace.
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

/// The module's edge to the network: one for the whole module.
pub(crate) struct NetEdge<S: RxSink> {
    // In this order: the listener uses what the other provides.
    _notifier: Pin<KBox<NetNotifier<Listener<S>>>>,
    pernet: Arc<Pernet<PernetState<S>>>,
}

impl<S: RxSink> NetEdge<S> {
    /// May sleep; takes the RTNL lock.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the network stack; `EBUSY` if there is one.
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

    /// Our part of a namespace; `None` while it is set up.
    fn namespace(&self, net: &CountedNet) -> Option<Arc<Namespace<S>>> {
        self.pernet.of(net).map(|state| state.0.clone())
    }
}

/// Hears about network devices.
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
            // Nobody is attached to a device of a namespace that has no part of ours.
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
            // The number may be given to another device soon. First, since a device that is not
            // registered yet when it is told looks for itself later: `Attachment::is_attached`.
            namespace.forget(ifindex, &sink);
        }
        sink.link_event(event, dev);
    }
}

/// A device's place in the network: what sending needs. Passive; keep it as long as
/// you like. It is attached once.
pub(crate) struct Endpoint<S: RxSink> {
    namespace: Arc<Namespace<S>>,
    ifindex: u32,
    lanes: [Arc<Lane<S>>; LANES],
}

impl<S: RxSink> Endpoint<S> {
    /// The endpoint on `ndev`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENODEV` if the network device is in no namespace yet.
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

    /// Changes whenever cached routes must be resolved again.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.namespace.generation.load(Ordering::Acquire)
    }

    /// The lane for packets to that queue pair of this device.
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

/// Reception of packets for a device. Dropping it, which may sleep, stops that.
pub(crate) struct Attachment<S: RxSink> {
    endpoint: Arc<Endpoint<S>>,
    sink: Arc<S>,
}

impl<S: RxSink> Attachment<S> {
    /// From now on, `sink` gets what comes to the endpoint's network device, `ndev`.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` if another device is attached to it; `EADDRINUSE` if somebody else
    /// has the UDP port; `ENODEV` if `ndev` is not where it was; `ENOMEM`.
    pub(crate) fn new(
        edge: &NetEdge<S>,
        endpoint: Arc<Endpoint<S>>,
        ndev: &NetDevice,
        sink: Arc<S>,
    ) -> Result<Self> {
        let namespace = &endpoint.namespace;
        // To be there while the sockets are opened, wherever the device goes meanwhile.
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

    /// Whether packets still come: `ndev`, that of the endpoint, has not left its namespace. If
    /// it does so later the sink is told. May sleep; not under RTNL.
    pub(crate) fn is_attached(&self, edge: &NetEdge<S>, ndev: &NetDevice) -> bool {
        // No device is half-way from one namespace to another: either it has moved, or who moves
        // it will find the sink, and what the caller did before.
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
        // Two things: no callback is running any more, and the table's reference is
        // gone, so that `sink` is not dropped by a softirq.
        rdma::sync::rcu::barrier();
        rdma::sync::rcu::synchronize();
    }
}
