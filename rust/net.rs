// SPDX-License-Identifier: GPL-2.0

//! The network stack, as far as a transport over UDP needs it.
//!
//! * [`skb`]: packet buffers, owned, and queues of them;
//! * [`train`]: datagrams that cross the stack as one buffer;
//! * [`device`]: network devices and namespaces;
//! * [`addr`]: pairs of addresses, from GIDs;
//! * [`route`]: routes that may be kept and checked, and sending along them;
//! * [`neighbour`]: hardware addresses of neighbours on a route, and waiting for them;
//! * [`udp`]: kernel UDP sockets that hand every datagram to a callback;
//! * `gro`: datagrams of such sockets that are chained as they come from a network card;
//! * [`notifier`], [`address_notifier`]: what happens to network devices and their addresses;
//! * [`rtnl`]: the lock that keeps them still;
//! * [`stacked`]: devices above and below each other, and their addresses;
//! * [`pernet`]: data that each namespace has;
//! * [`gid`]: references to entries of a device's GID table.
//!
//! "Softirq" in these files means: bottom halves are disabled, nothing sleeps.

pub mod addr;
pub mod address_notifier;
pub mod device;
pub mod gid;
mod gro;
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
pub use notifier::NetNotifier;
pub use notifier::NetdevEvent;
pub use notifier::NetdevEvents;
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
