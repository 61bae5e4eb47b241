// SPDX-License-Identifier: GPL-2.0

//! The netlink socket of the subsystem (`NETLINK_RDMA`), one for each namespace, and its
//! clients, who answer what is asked.
//!
//! | file | what |
//! |---|---|
//! | here | sockets; sending |
//! | `client` | the table of clients; what comes in |
//! | `skb` | messages under construction |
//! | `answer` | what user programs answer |
//! | `abi` | exported functions |

use core::pin::Pin;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::time::msecs_to_jiffies;
use rdma::bindings;
use rdma::net::Net;
use rdma::net::Pernet;
use rdma::net::PernetData;
use rdma::net::PernetSlot;

mod abi;
mod answer;
mod client;
mod skb;

pub(crate) use self::answer::Answer;
pub(crate) use self::skb::Message;
pub(crate) use self::skb::Tail;

/// How long a sender that may wait does, for a reader who does not keep up.
const SEND_TIMEOUT_MS: u32 = 10_000;

/// The socket of a namespace.
///
/// # Invariants
///
/// A socket that `netlink_kernel_create` made.
pub(crate) struct Socket(NonNull<bindings::sock>);

// SAFETY: A socket is used from any thread.
unsafe impl Send for Socket {}
// SAFETY: As above.
unsafe impl Sync for Socket {}

static SLOT: PernetSlot = PernetSlot::new();

impl PernetData for Socket {
    fn slot() -> &'static PernetSlot {
        &SLOT
    }

    fn new(net: &Net) -> impl PinInit<Self, Error> {
        let mut config = bindings::netlink_kernel_cfg {
            input: Some(client::receive),
            // Who may ask what is judged for each request.
            flags: bindings::NL_CFG_F_NONROOT_RECV,
            ..Default::default()
        };
        // SAFETY: The namespace is coming to be; C copies what it needs of `config`.
        let sock = unsafe {
            bindings::__netlink_kernel_create(
                net.as_raw(),
                bindings::NETLINK_RDMA as kernel::ffi::c_int,
                crate::THIS_MODULE.as_ptr(),
                &mut config,
            )
        };
        let sock = NonNull::new(sock).ok_or(ENOMEM);
        if let Ok(sock) = sock {
            let timeout = msecs_to_jiffies(SEND_TIMEOUT_MS);
            // SAFETY: The socket is new.
            unsafe {
                bindings::rdma_helper_sock_set_sndtimeo(
                    sock.as_ptr(),
                    kernel::ffi::c_long::try_from(timeout).unwrap_or(kernel::ffi::c_long::MAX),
                );
            }
        }
        // INVARIANT: Just made.
        // SAFETY: The slot is written only if there is a socket.
        unsafe {
            pin_init::pin_init_from_closure(move |slot: *mut Self| {
                slot.write(Self(sock?));
                Ok(())
            })
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; nobody sends to a namespace that has gone.
        unsafe { bindings::netlink_kernel_release(self.0.as_ptr()) };
    }
}

/// The socket of a namespace.
fn socket(net: &Net) -> Pin<&Socket> {
    // SAFETY: Everything that sends is called while the module is there, and all of that
    // time, but while it loads or unloads, sockets are registered.
    unsafe { Pernet::<Socket>::get(net) }
}

/// A message that is sent to its asker, who is called by the port of a socket. Does not
/// sleep.
///
/// # Errors
///
/// `ECONNREFUSED` if there is no such socket, `EAGAIN` if it is full.
pub(crate) fn unicast(net: &Net, message: Message, port: u32) -> Result {
    // CAST: A flag.
    let now = bindings::MSG_DONTWAIT as kernel::ffi::c_int;
    // SAFETY: The socket is there, and takes the message over in any case.
    let ret =
        unsafe { bindings::netlink_unicast(socket(net).0.as_ptr(), message.into_raw(), port, now) };
    // It answers a length.
    if ret < 0 {
        to_result(ret)
    } else {
        Ok(())
    }
}

/// A message for whoever listens to a group. May sleep.
///
/// # Errors
///
/// `ESRCH` if nobody does; `ENOBUFS`, `ENOMEM`.
pub(crate) fn multicast(net: &Net, message: Message, group: u32) -> Result {
    multicast_with(net, message, group, bindings::GFP_KERNEL)
}

/// As [`multicast`]; sleeps as `flags` say.
///
/// # Errors
///
/// Those of [`multicast`].
pub(crate) fn multicast_with(
    net: &Net,
    message: Message,
    group: u32,
    flags: bindings::gfp_t,
) -> Result {
    // SAFETY: The socket is there, and takes the message over in any case.
    to_result(unsafe {
        bindings::rdma_helper_nlmsg_multicast(
            socket(net).0.as_ptr(),
            message.into_raw(),
            0,
            group,
            flags,
        )
    })
}

/// Whether somebody in the first namespace listens to a group. Any context.
pub(crate) fn has_listeners(group: u32) -> bool {
    // SAFETY: The first namespace has its socket.
    unsafe { bindings::netlink_has_listeners(socket(Net::init()).0.as_ptr(), group) != 0 }
}

/// The table of clients, and the sockets.
pub(crate) struct Subsystem {
    _sockets: Pernet<Socket>,
}

impl Subsystem {
    /// May sleep. Once.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The module calls this once, before there is a socket or a client.
        unsafe { client::init() };
        // SAFETY: As above.
        let sockets = unsafe { Pernet::register() }?;
        Ok(Self { _sockets: sockets })
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        client::check_none_left();
    }
}
