// SPDX-License-Identifier: GPL-2.0

//! Whether packets are inspected on their way: by rules of netfilter and `tc`, or by generic XDP
//! programs.
//!
//! All of these take a [train](super::train) for one packet. They change the first packet of a train
//! only, and an XDP program destroys the train. [`Route::carries_trains`] tells whether a train
//! would meet any of them before it is segmented, or before it reaches the socket that takes it
//! apart. Nothing is remembered, so that a rule holds for the next packets that are sent; nothing
//! is locked or allocated.
//!
//! The answer may be wrong in one direction only: where it is not known what a device does with
//! packets, or where rules change nothing, packets are sent one by one.
//!
//! C sources of the rules: `net/core/dev.c` (`__dev_queue_xmit`, `__netif_receive_skb_core`),
//! `net/ipv4/ip_output.c`, `net/ipv6/output_core.c`, `net/bridge/br_device.c`.

use core::net::IpAddr;
use core::ptr;

use kernel::sync::rcu;

use super::device::Net;
use super::device::NetDevice;
use super::route::Route;
use crate::bindings;
use crate::edge::FromC;

/// Number of devices that are examined. If there are more on the way, it is taken for one with rules.
const DEVICES: usize = 24;

/// What a device does with packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It delivers those from one port to all others.
    Bridge,
    /// It passes all to the devices below it: a bond or a VLAN.
    Stacked,
    /// As a stacked device, but packets may come back from the device below.
    Macvlan,
    /// It is not known, or it routes.
    Other,
}

/// Direction of packets, as a device or a namespace sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

impl Route {
    /// Returns whether nothing inspects trains on their way to `dst`, to which this route leads.
    /// Softirq or process context.
    pub fn carries_trains(&self, dst: IpAddr) -> bool {
        let rcu = rcu::read_lock();
        let dev = self.dev(&rcu);
        if net_inspects(dev.net(&rcu), dst.is_ipv6(), true) {
            return false;
        }
        // Packets of such a device leave through its VRF first.
        if dev_is_vrf_port(dev)
            && !all_adjacent(dev, Side::Above, &rcu, |vrf| !dev_inspects_sent(vrf))
        {
            return false;
        }
        let mut walk = Walk {
            dst,
            found: [None; DEVICES],
            rcu: &rcu,
        };
        walk.find(dev, Way::Out) && walk.is_clear()
    }
}

/// A walk along all ways that packets to `dst` may take.
struct Walk<'a> {
    dst: IpAddr,
    /// Devices on the way, in the order in which they are examined.
    found: [Option<(&'a NetDevice, Way)>; DEVICES],
    rcu: &'a rcu::Guard,
}

impl<'a> Walk<'a> {
    /// Adds a device, unless it is known already. Returns false if there is no room.
    fn find(&mut self, dev: &'a NetDevice, way: Way) -> bool {
        for place in &mut self.found {
            match *place {
                Some(known) if known == (dev, way) => return true,
                Some(_) => {}
                None => {
                    *place = Some((dev, way));
                    return true;
                }
            }
        }
        false
    }

    /// Returns whether nothing inspects packets at the devices that were found, and at those to which
    /// they lead.
    fn is_clear(&mut self) -> bool {
        let mut at = 0;
        while let Some(&Some((dev, way))) = self.found.get(at) {
            let clear = match way {
                Way::Out => self.sends(dev),
                Way::In => self.receives(dev),
            };
            if !clear {
                return false;
            }
            // OVERFLOW: at most `DEVICES`.
            at += 1;
        }
        true
    }

    /// Returns whether `dev` itself does not inspect packets that it sends.
    fn sends(&mut self, dev: &'a NetDevice) -> bool {
        if dev_inspects_sent(dev) {
            return false;
        }
        // The stack segments trains in front of this device.
        if !dev_passes_trains(dev) {
            return true;
        }
        let rcu = self.rcu;
        if let Some(peer) = peer(dev, rcu) {
            return self.find(peer, Way::In);
        }
        match kind(dev) {
            Kind::Bridge => self.bridges(dev),
            Kind::Stacked => {
                all_adjacent(dev, Side::Below, rcu, |lower| self.find(lower, Way::Out))
            }
            Kind::Macvlan => all_adjacent(dev, Side::Below, rcu, |lower| {
                self.find(lower, Way::Out) && self.find(lower, Way::In)
            }),
            Kind::Other => false,
        }
    }

    /// Returns whether `dev` itself does not inspect packets that it receives.
    fn receives(&mut self, dev: &'a NetDevice) -> bool {
        let rcu = self.rcu;
        let (net, v6) = (dev.net(rcu), self.dst.is_ipv6());
        if dev_inspects_received(dev)
            || net_inspects(net, v6, false)
            || dev_is_taken(dev)
            || (dev_routes(dev, v6) && !self.is_local(net))
        {
            return false;
        }
        all_adjacent(dev, Side::Above, rcu, |upper| {
            (kind(upper) != Kind::Bridge || self.bridges(upper)) && self.find(upper, Way::In)
        })
    }

    /// Returns whether nothing inspects frames between the ports of a bridge.
    fn bridges(&mut self, bridge: &'a NetDevice) -> bool {
        let rcu = self.rcu;
        !net_inspects_bridged(bridge.net(rcu))
            && all_adjacent(bridge, Side::Below, rcu, |port| self.find(port, Way::Out))
    }

    /// Returns whether the destination is in this namespace.
    fn is_local(&self, net: &Net) -> bool {
        // SAFETY: The namespace is valid (`Net`); the address has 16 bytes and outlives the call.
        unsafe {
            match self.dst {
                IpAddr::V4(ip) => {
                    bindings::rdma_helper_net_has_ip4(net.as_raw(), u32::from_ne_bytes(ip.octets()))
                }
                IpAddr::V6(ip) => {
                    bindings::rdma_helper_net_has_ip6(net.as_raw(), ip.octets().as_ptr().cast())
                }
            }
        }
    }
}

/// Returns what a device does with packets.
fn kind(dev: &NetDevice) -> Kind {
    match dev_kind(dev) {
        bindings::rdma_dev_kind_RDMA_DEV_BRIDGE => Kind::Bridge,
        bindings::rdma_dev_kind_RDMA_DEV_STACKED => Kind::Stacked,
        bindings::rdma_dev_kind_RDMA_DEV_MACVLAN => Kind::Macvlan,
        _ => Kind::Other,
    }
}

/// Returns the other end, if the device is one of a pair.
fn peer<'a>(dev: &'a NetDevice, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
    // SAFETY: The device is valid and RCU is held, which keeps the device that is returned.
    unsafe { Option::from_c(bindings::rdma_helper_dev_peer(dev.as_raw())) }
}

/// The devices that are next to one: above it, as a bridge is above its ports, or below it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

/// Returns whether `holds` is true for all devices directly above or below `dev`.
fn all_adjacent<'a>(
    dev: &'a NetDevice,
    side: Side,
    _rcu: &'a rcu::Guard,
    mut holds: impl FnMut(&'a NetDevice) -> bool,
) -> bool {
    let mut at = ptr::null_mut();
    loop {
        // SAFETY: The device is valid and RCU is held; `at` is null or was set by the function for
        // this device and side. RCU keeps the device that is returned.
        let next: Option<&NetDevice> = unsafe {
            Option::from_c(bindings::rdma_helper_dev_next_adjacent(
                dev.as_raw(),
                side == Side::Above,
                &mut at,
            ))
        };
        match next {
            Some(next) if !holds(next) => return false,
            Some(_) => {}
            None => return true,
        }
    }
}

crate::import! {
    in crate::bindings;

    /// Attributes of a valid device or namespace, which others may change at any time.
    fn dev_inspects_sent(device: &NetDevice) -> bool = rdma_helper_dev_inspects_sent;
    fn dev_inspects_received(device: &NetDevice) -> bool = rdma_helper_dev_inspects_received;
    fn dev_passes_trains(device: &NetDevice) -> bool = rdma_helper_dev_passes_trains;
    fn dev_kind(device: &NetDevice) -> u32 = rdma_helper_dev_kind;
    fn dev_is_taken(device: &NetDevice) -> bool = rdma_helper_dev_is_taken;
    fn dev_is_vrf_port(device: &NetDevice) -> bool = rdma_helper_dev_is_vrf_port;
    fn dev_routes(device: &NetDevice, v6: bool) -> bool = rdma_helper_dev_routes;
    fn net_inspects(net: &Net, v6: bool, sent: bool) -> bool = rdma_helper_net_inspects;
    fn net_inspects_bridged(net: &Net) -> bool = rdma_helper_net_inspects_bridged;
}
