// SPDX-License-Identifier: GPL-2.0

//! The listener that a request is for, among the owners of the port in its service ID.
//!
//! A listener with an address is on one device. One without has an internal ID on each device, the
//! places here.

use super::addr::Address;
use super::header::Header;
use super::header::Pair;

/// Where a listener listens. `D` is a device, `N` a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<D, N> {
    /// The device.
    pub device: D,
    /// The port of the device; 0 for all.
    pub port: u32,
    /// The namespace of the listener.
    pub net: N,
    /// The network interface to which it is bound; 0 for all.
    pub ifindex: u32,
}

/// How a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via<N> {
    /// By IP, over a network device.
    Ip {
        /// The header of the request.
        header: Header,
        /// The namespace of the network device.
        net: N,
        /// The index of the network device.
        ifindex: u32,
    },
    /// By `AF_IB`.
    Ib,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<D, N> {
    /// The device that received it.
    pub device: D,
    /// The port of the device.
    pub port: u32,
    /// How it arrived.
    pub via: Via<N>,
}

/// Whether a listener with this local address takes a request. `afonly`: whether it leaves the
/// other address family alone.
pub fn is_addressed<N>(source: &Address, afonly: bool, via: &Via<N>) -> bool {
    if source.is_any() && !afonly {
        return true;
    }
    let pair = match via {
        Via::Ip { header, .. } => Some(&header.pair),
        Via::Ib => None,
    };
    match (source, pair) {
        (Address::Ib(_), _) => true,
        (Address::V4(v4), Some(Pair::V4 { destination, .. })) => {
            source.is_any() || v4.addr == *destination
        }
        (Address::V6(v6), Some(Pair::V6 { destination, .. })) => {
            source.is_any() || v6.addr == *destination
        }
        (Address::V4(_) | Address::V6(_), _) => false,
    }
}

/// Whether a listener at this place, with this local address, gets a request.
pub fn is_reached<D: PartialEq, N: PartialEq>(
    place: &Place<D, N>,
    source: &Address,
    request: &Request<D, N>,
) -> bool {
    if place.device != request.device {
        return false;
    }
    match &request.via {
        Via::Ib => {
            matches!(source, Address::Ib(_)) && (place.port == 0 || place.port == request.port)
        }
        Via::Ip {
            header,
            net,
            ifindex,
        } => {
            // Other addresses are unique on the device; link-local ones only on their link.
            !header.local(0).is_link_local()
                || (place.net == *net && (place.ifindex == 0 || place.ifindex == *ifindex))
        }
    }
}

/// An owner of a port.
pub trait Owner<D, N> {
    /// What is chosen.
    type Id;

    /// The local address.
    fn source(&self) -> &Address;

    /// Whether it leaves the other address family alone.
    fn afonly(&self) -> bool;

    /// Its own place, if it is bound to a device, and those of its internal IDs.
    fn places(&self) -> impl Iterator<Item = (Place<D, N>, Self::Id)>;
}

/// Returns the listener that a request is for: the first owner that is addressed and reached.
pub fn choose<D: PartialEq, N: PartialEq, O: Owner<D, N>>(
    owners: impl IntoIterator<Item = O>,
    request: &Request<D, N>,
) -> Option<O::Id> {
    owners
        .into_iter()
        .filter(|owner| is_addressed(owner.source(), owner.afonly(), &request.via))
        .find_map(|owner| {
            owner
                .places()
                .find(|(place, _)| is_reached(place, owner.source(), request))
                .map(|(_, id)| id)
        })
}
