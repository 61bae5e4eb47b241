// SPDX-License-Identifier: GPL-2.0

//! Exported netlink functions (`include/rdma/rdma_netlink.h`).

use super::client;
use super::edge::message::NetArg;
use super::edge::socket::Socket;
use super::edge::Message;
use kernel::ffi::c_int;
use rdma::bindings;
use rdma::edge::Answer;

/// Sends a message without blocking. Consumes the message even on failure.
fn unicast(net: NetArg<'_>, message: Message, port: u32) -> c_int {
    send(net, message, port, super::DONTWAIT)
}

/// As [`unicast`], but if the receiver's buffer is full, waits up to ten seconds.
fn unicast_wait(net: NetArg<'_>, message: Message, port: u32) -> c_int {
    send(net, message, port, 0)
}

fn send(net: NetArg<'_>, message: Message, port: u32, flags: c_int) -> c_int {
    match Socket::of(net.0) {
        // On success the result is a length.
        Ok(socket) => socket.unicast(message, port, flags).min(0),
        Err(error) => error.to_errno(),
    }
}

/// Sends a message to a group. Consumes the message even on failure. May sleep as `flags` permit.
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
