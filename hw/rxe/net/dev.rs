// SPDX-License-Identifier: GPL-2.0

//! The network devices below the rxe devices, and their events.
//!
//! Lifetimes: a [`NetEdge`] outlives all attachments; an [`Attachment`] owns reception; an
//! [`Endpoint`] is passive and may be kept indefinitely.

use core::sync::atomic::Ordering;

use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::sync::Arc;

use rdma::net::rtnl;
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::net::NetDevice;
use rdma::net::NetNotifier;
use rdma::net::NetdevEvent;
use rdma::net::NetdevEvents;
use rdma::net::Pernet;
use rdma::net::Route;

use super::edge::HeldRoute;
use super::edge::Namespace;
use super::edge::PernetState;
use super::local::Lane;
use super::local::LANES;
use super::rx::RxSink;

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
        self.pernet.of(net).map(|state| state.namespace().clone())
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
            .map(|state| state.namespace().clone());
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
            // The event is repeated while there are references to the device. Another one may have the
            // index by then.
            if dev.is_unregistered() {
                return;
            }
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
            .map(|state| state.namespace().clone())
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

    /// Prepares a route for being kept: see [`Namespace::hold`].
    ///
    /// # Errors
    ///
    /// `ENODEV` if `net` is not the endpoint's namespace, or ends; `ENOMEM`.
    pub(super) fn hold(&self, net: &Net, route: Route, rcu: &rcu::Guard) -> Result<HeldRoute> {
        self.namespace.hold(net, route, rcu)
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
        if ndev.ifindex() != endpoint.ifindex {
            return Err(ENODEV);
        }
        namespace.open_sockets(&edge.pernet, &net)?;
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
    /// has not been unregistered and has not left its namespace. If it leaves later, the sink is
    /// notified. May sleep; must not be called under RTNL.
    pub(crate) fn is_attached(&self, edge: &NetEdge<S>, ndev: &NetDevice) -> bool {
        // RTNL excludes a move in progress: either the device has moved, or the mover will find the
        // sink and see the caller's earlier writes.
        let _rtnl = rtnl::lock();
        // A device that is leaving may have been before the sink was there.
        if ndev.is_leaving() {
            return false;
        }
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
