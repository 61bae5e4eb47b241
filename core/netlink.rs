// SPDX-License-Identifier: GPL-2.0

//! The netlink sockets of the subsystem (`NETLINK_RDMA`), one per network namespace, and their
//! clients, which handle incoming messages.
//!
//! | file | what |
//! |---|---|
//! | here | sending |
//! | `client` | the table of clients; dispatch of incoming messages |
//! | `answer` | responses of user programs |
//! | `edge` | C structures: sockets, messages, handlers |
//! | `abi` | exported functions |

use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::time::msecs_to_jiffies;
use kernel::time::Jiffies;
use rdma::bindings;
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::net::Pernet;

mod abi;
mod answer;
mod client;
mod edge;

pub(crate) use self::answer::Answer;
pub(crate) use self::client::Registration;
pub(crate) use self::edge::may_warn;
pub(crate) use self::edge::Doit;
pub(crate) use self::edge::Dump;
pub(crate) use self::edge::DumpCall;
pub(crate) use self::edge::DumpState;
pub(crate) use self::edge::Handler;
pub(crate) use self::edge::Handlers;
pub(crate) use self::edge::Incoming;
pub(crate) use self::edge::Lent;
pub(crate) use self::edge::Message;
pub(crate) use self::edge::Tail;

use self::edge::socket;
use self::edge::socket::Socket;

impl From<crate::proto::nla::Full> for Error {
    fn from(_: crate::proto::nla::Full) -> Self {
        EMSGSIZE
    }
}

/// Timeout of a blocking send while the receiver's buffer is full.
const SEND_TIMEOUT_MS: u32 = 10_000;

// CAST: The flag fits.
const DONTWAIT: c_int = bindings::MSG_DONTWAIT as c_int;

fn send_timeout() -> Jiffies {
    msecs_to_jiffies(SEND_TIMEOUT_MS)
}

/// Sends a message to the socket with netlink port ID `port`. Does not sleep.
///
/// # Errors
///
/// `ECONNREFUSED` if there is no such socket, `EAGAIN` if it is full.
pub(crate) fn unicast(net: &CountedNet, message: Message, port: u32) -> Result {
    // On success the result is a length.
    to_result(Socket::of(net)?.unicast(message, port, DONTWAIT).min(0))
}

/// Sends a message to the listeners of a group. May sleep.
///
/// # Errors
///
/// `ESRCH` if nobody listens; `ENOBUFS`, `ENOMEM`.
pub(crate) fn multicast(net: &CountedNet, message: Message, group: u32) -> Result {
    multicast_with(net, message, group, bindings::GFP_KERNEL)
}

/// As [`multicast`]. May sleep as `flags` permit.
///
/// # Errors
///
/// Errors of [`multicast`].
pub(crate) fn multicast_with(
    net: &CountedNet,
    message: Message,
    group: u32,
    flags: bindings::gfp_t,
) -> Result {
    Socket::of(net)?.multicast(message, group, flags)
}

/// Returns whether a group has listeners in the initial namespace. Any context.
pub(crate) fn has_listeners(group: u32) -> bool {
    Socket::of(Net::init()).is_ok_and(|socket| socket.has_listeners(group))
}

/// The client table and the sockets.
pub(crate) struct Subsystem {
    _sockets: Pernet<Socket>,
}

impl Subsystem {
    /// Must be called once only. May sleep.
    pub(crate) fn new() -> Result<Self> {
        client::init();
        let sockets = socket::register()?;
        Ok(Self { _sockets: sockets })
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        client::check_none_left();
    }
}
