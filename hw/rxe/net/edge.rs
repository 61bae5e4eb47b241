// SPDX-License-Identifier: GPL-2.0

//! Network namespaces and their UDP sockets.
//!
//! Each network namespace has a [`Namespace`]: a table from network device to [`RxSink`], and two
//! UDP sockets that exist while any device is attached. A received packet finds its sink by the
//! interface index of its network device, under RCU. A packet from a VLAN device also matches the
//! lower device's sink.
//!
//! This is a part of the edge because a socket does not keep its namespace: that it is closed in
//! time is argued here, by [`PernetState`]. The same goes for routes ([`HeldRoute`]).
//!
//! Locks: `Namespace::sockets` is taken in process context only, also under RTNL. Under it only the
//! locks for opening and closing sockets are taken.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;

use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::Mutex;

use rdma::net::pernet::AfterDevices;
use rdma::net::CountedNet;
use rdma::net::KeptRoute;
use rdma::net::KeptRoutes;
use rdma::net::Net;
use rdma::net::NetDevice;
use rdma::net::NewNet;
use rdma::net::Pernet;
use rdma::net::PernetData;
use rdma::net::PernetSlot;
use rdma::net::Route;
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

use super::rx::RxRun;
use super::rx::RxSink;

/// The driver's state of a network namespace.
#[pin_data]
pub(super) struct Namespace<S: RxSink> {
    /// Sinks by interface index of the network device they are attached to.
    #[pin]
    pub(super) sinks: Table<S, 4>,
    /// Counts events that may change routes or addresses.
    pub(super) generation: AtomicU32,
    /// [`Net::identity`] of the namespace.
    net: usize,
    kept: Arc<KeptRoutes>,
    /// A device was attached, so that there may be routes in `kept`. Written under `sockets`.
    attached: AtomicBool,
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
    fn new(net: &NewNet) -> Result<Arc<Self>> {
        let net = net.identity();
        let kept = KeptRoutes::new(rdma::resident!())?;
        Arc::pin_init(
            pin_init!(Self {
                sinks <- new_table!("rxe::Namespace::sinks"),
                generation: AtomicU32::new(0),
                net,
                kept,
                attached: AtomicBool::new(false),
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
    ///
    /// # Errors
    ///
    /// `ENODEV` if this is not the state of `net`, or `net` is gone; `EADDRINUSE` if the UDP port is
    /// in use; `ENOMEM`.
    pub(super) fn open_sockets(
        self: &Arc<Self>,
        pernet: &Pernet<PernetState<S>>,
        net: &CountedNet,
    ) -> Result {
        let present = pernet.of(net).ok_or(ENODEV)?;
        if !Arc::ptr_eq(self, present.namespace()) {
            return Err(ENODEV);
        }
        let mut sockets = self.sockets.lock();
        match &mut *sockets {
            Sockets::Gone => return Err(ENODEV),
            Sockets::Open { users, .. } => {
                *users = users.checked_add(1).ok_or(EOVERFLOW)?;
                return Ok(());
            }
            Sockets::Closed => {}
        }
        self.attached.store(true, Ordering::Relaxed);
        // SAFETY: `self` is the state of `net`, as checked. The drop of its `PernetState` closes the
        // sockets before the namespace is freed, and none are opened after that (`Gone`).
        let open = |v6| unsafe {
            UdpTunnel::open(rdma::resident!(), net, v6, ROCE_V2_UDP_PORT, self.clone())
        };
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
    pub(super) fn close_sockets(&self) {
        let mut sockets = self.sockets.lock();
        match &mut *sockets {
            Sockets::Open { users, .. } if *users > 1 => *users = users.saturating_sub(1),
            // Closed under the lock: the next opener needs the port to be free.
            Sockets::Open { .. } => *sockets = Sockets::Closed,
            Sockets::Closed | Sockets::Gone => {}
        }
    }

    /// Removes `sink` from the table, if present. May sleep.
    pub(super) fn forget(&self, ifindex: u32, sink: &Arc<S>) {
        // The lock serialises the callers, an attachment and the notifier.
        let _sockets = self.sockets.lock();
        if let Some(present) = self.sinks.get(ifindex) {
            if Arc::ptr_eq(&present, sink) {
                let _: Option<Arc<S>> = self.sinks.remove(ifindex);
            }
        }
    }

    /// Invalidates all cached routes. Any context.
    pub(super) fn bump(&self) {
        let _: u32 = self.generation.fetch_add(1, Ordering::Release);
    }

    /// Prepares a route for being kept. `net` is where it was looked up, in the critical section of
    /// `rcu`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if `net` is not this namespace, or ends; `ENOMEM`.
    pub(super) fn hold(&self, net: &Net, route: Route, rcu: &rcu::Guard) -> Result<HeldRoute> {
        if net.identity() != self.net {
            return Err(ENODEV);
        }
        // The initial namespace does not end.
        if *net == **Net::init() {
            return Ok(HeldRoute::Own(route));
        }
        self.kept.keep(route, rcu).map(HeldRoute::Kept)
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

/// A route that is kept from one turn to the next.
pub(super) enum HeldRoute {
    /// It is valid as long as it is kept.
    Own(Route),
    /// It is released at the end of its namespace.
    Kept(KeptRoute),
}

impl HeldRoute {
    /// Returns the route; `None` if its namespace ends.
    #[inline]
    pub(super) fn get<'a>(&'a self, rcu: &'a rcu::Guard) -> Option<&'a Route> {
        match self {
            Self::Own(route) => Some(route),
            Self::Kept(route) => route.get(rcu),
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

/// State that the kernel keeps for each namespace; its drop closes the sockets and releases routes.
pub(super) struct PernetState<S: RxSink>(Arc<Namespace<S>>);

impl<S: RxSink> PernetState<S> {
    /// Returns the driver's state of the namespace.
    pub(super) fn namespace(&self) -> &Arc<Namespace<S>> {
        &self.0
    }
}

rdma::static_slot!(impl{S: RxSink} for PernetState<S>: PernetSlot);

impl<S: RxSink> PernetData for PernetState<S> {
    type Dropped = AfterDevices;

    fn new(net: &NewNet) -> impl PinInit<Self, Error> {
        Namespace::new(net).map(Self)
    }
}

impl<S: RxSink> Drop for PernetState<S> {
    fn drop(&mut self) {
        *self.0.sockets.lock() = Sockets::Gone;
        // No device is attached any more from here on. Most namespaces never had one, and this waits.
        if self.0.attached.load(Ordering::Relaxed) {
            self.0.kept.end();
        }
    }
}
