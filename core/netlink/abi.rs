// SPDX-License-Identifier: GPL-2.0

//! Netlink for the other modules of the core (`include/rdma/rdma_netlink.h`).

use super::client;
use super::edge::message::NetArg;
use super::edge::socket::Socket;
use super::edge::Message;
use kernel::ffi::c_int;
use rdma::bindings;
use rdma::edge::Answer;

/// Sends a message without waiting; it is taken over in any case.
fn unicast(net: NetArg<'_>, message: Message, port: u32) -> c_int {
    send(net, message, port, super::DONTWAIT)
}

/// As [`unicast`], but waits for a full reader, ten seconds at most.
fn unicast_wait(net: NetArg<'_>, message: Message, port: u32) -> c_int {
    send(net, message, port, 0)
}

fn send(net: NetArg<'_>, message: Message, port: u32, flags: c_int) -> c_int {
    match Socket::of(net.0) {
        // A length is no news.
        Ok(socket) => socket.unicast(message, port, flags).min(0),
        Err(error) => error.to_errno(),
    }
}

/// Sends a message to a group; it is taken over in any case. Sleeps as `flags` say.
fn multicast(net: NetArg<'_>, message: Message, group: u32, flags: bindings::gfp_t) -> c_int {
    super::multicast_with(net.0, message, group, flags).answer()
}

rdma::export! {
    in rdma::bindings;

    /// See [`unicast`].
    fn rdma_nl_unicast(net: NetArg<'_>, message: Message, port: u32) -> c_int = unicast;
    /// See [`unicast_wait`].
    fn rdma_nl_unicast_wait(net: NetArg<'_>, message: Message, port: u32) -> c_int = unicast_wait;
    /// See [`multicast`].
    fn rdma_nl_multicast(
        net: NetArg<'_>, message: Message, group: u32, flags: u32,
    ) -> c_int = multicast;
    /// See [`has_listeners`](super::has_listeners).
    fn rdma_nl_chk_listeners(group: u32) -> bool = super::has_listeners;
    /// See [`client::unregister`].
    fn rdma_nl_unregister(index: u32) = client::unregister;
}
