// SPDX-License-Identifier: GPL-2.0

//! The part of the network stack that a transport over UDP needs.
//!
//! * [`skb`]: packet buffers, owned, and queues of them;
//! * [`train`]: datagrams that cross the stack as one buffer;
//! * [`device`]: network devices and namespaces;
//! * [`addr`]: pairs of addresses, from GIDs;
//! * [`route`]: cached routes and their validity, and transmission along them;
//! * [`in_flight`]: counts of packets that have not left the stack, and waiting for that;
//! * `inspect`: whether packets are inspected on their way;
//! * [`kept`]: routes that are kept while their namespace may end;
//! * [`neighbour`]: hardware addresses of neighbours on a route, and waiting for their resolution;
//! * [`udp`]: kernel UDP sockets that pass each datagram to a callback;
//! * `gro`: datagrams of such sockets, chained on reception;
//! * [`notifier`], [`address_notifier`]: events of network devices and their addresses;
//! * [`rtnl`]: the lock that serialises changes of network devices;
//! * [`stacked`]: upper and lower devices, and their addresses;
//! * [`pernet`]: data for each namespace;
//! * [`gid`]: references to entries of a device's GID table.
//!
//! "Softirq" in these files means that bottom halves are disabled, so nothing may sleep.

pub mod addr;
pub mod address_notifier;
pub mod device;
pub mod gid;
mod gro;
pub mod in_flight;
mod inspect;
pub mod kept;
pub mod neighbour;
pub mod notifier;
pub mod pernet;
pub mod route;
pub mod rtnl;
pub mod skb;
pub mod stacked;
pub mod train;
pub mod udp;

pub use addr::AddrPair;
pub use address_notifier::AddressEvents;
pub use address_notifier::AddressNotifier;
pub use device::CountedNet;
pub use device::DeviceName;
pub use device::Net;
pub use device::NetDevice;
pub use gid::GidAttr;
pub use gid::LiveGid;
pub use gid::NetworkType;
pub use in_flight::InFlight;
pub use kept::KeptRoute;
pub use kept::KeptRoutes;
pub use notifier::NetNotifier;
pub use notifier::NetdevEvent;
pub use notifier::NetdevEvents;
pub use pernet::NewNet;
pub use pernet::Pernet;
pub use pernet::PernetData;
pub use pernet::PernetSlot;
pub use route::Flow;
pub use route::Route;
pub use route::Sent;
pub use skb::NewSkb;
pub use skb::Skb;
pub use skb::SkbQueue;
pub use train::SkbList;
pub use train::Train;
pub use udp::TunnelReceiver;
pub use udp::UdpTunnel;
