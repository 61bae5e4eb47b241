// SPDX-License-Identifier: GPL-2.0

//! The socket of a namespace. To be held against `include/linux/netlink.h`.

use super::Batch;
use super::Message;
use core::pin::Pin;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_long;
use kernel::prelude::*;
use kernel::time::Jiffies;
use rdma::bindings;
use rdma::net::pernet::AfterDevices;
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::net::Pernet;
use rdma::net::PernetData;

/// What takes messages that come in.
type Input = unsafe extern "C" fn(*mut bindings::sk_buff);

/// The socket of a namespace.
///
/// # Invariants
///
/// A socket that `netlink_kernel_create` made.
pub(in crate::netlink) struct Socket(NonNull<bindings::sock>);

// SAFETY: The functions of a socket may be called from any thread.
unsafe impl Send for Socket {}
// SAFETY: See `Send`.
unsafe impl Sync for Socket {}

rdma::impl_pernet_slot!(impl for Socket);

rdma::callback! {
    /// The `input` of the sockets.
    fn receive(batch: Batch<'_>) = super::super::client::receive;
}

impl PernetData for Socket {
    type Dropped = AfterDevices;

    fn new(net: &Net) -> impl PinInit<Self, Error> {
        let sock = Self::create(net, receive);
        if let Ok(sock) = &sock {
            sock.set_send_timeout(super::super::send_timeout());
        }
        // SAFETY: The slot is written if and only if `Ok` is returned.
        unsafe {
            pin_init::pin_init_from_closure(move |slot: *mut Self| {
                slot.write(sock?);
                Ok(())
            })
        }
    }
}

impl Socket {
    fn create(net: &Net, input: Input) -> Result<Self> {
        let mut config = bindings::netlink_kernel_cfg {
            input: Some(input),
            // Each request is checked for what its sender may do.
            flags: bindings::NL_CFG_F_NONROOT_RECV,
            ..Default::default()
        };
        // SAFETY: The namespace is being set up; C copies what it needs of `config`.
        let sock = unsafe {
            bindings::__netlink_kernel_create(
                net.as_raw(),
                bindings::NETLINK_RDMA as c_int,
                crate::THIS_MODULE.as_ptr(),
                &mut config,
            )
        };
        // INVARIANT: Just made.
        NonNull::new(sock).map(Self).ok_or(ENOMEM)
    }

    /// How long a sender that may wait does so for a reader that does not keep up.
    fn set_send_timeout(&self, timeout: Jiffies) {
        let timeout = c_long::try_from(timeout).unwrap_or(c_long::MAX);
        // SAFETY: A socket, by the type invariant; the word is written whole.
        unsafe { bindings::rdma_helper_sock_set_sndtimeo(self.0.as_ptr(), timeout) };
    }

    /// The socket of a namespace.
    ///
    /// # Errors
    ///
    /// `ESRCH` while the namespace is set up.
    pub(in crate::netlink) fn of(net: &CountedNet) -> Result<Pin<&Self>> {
        // SAFETY: Sockets are registered from `netlink::Subsystem::new`, the first thing that the
        // module's `init` does, to its drop, the last (`main.rs`, fields of `IbCore`).
        unsafe { Pernet::<Self>::get(net) }.ok_or(ESRCH)
    }

    /// Sends to one port. Returns a length, or an error's number. Sleeps unless `flags` has
    /// `MSG_DONTWAIT`.
    pub(in crate::netlink) fn unicast(&self, message: Message, port: u32, flags: c_int) -> c_int {
        // SAFETY: A socket, by the type invariant, which takes the message over in any case.
        unsafe { bindings::netlink_unicast(self.0.as_ptr(), message.into_raw(), port, flags) }
    }

    /// Sends to a group. Sleeps as `flags` say.
    ///
    /// # Errors
    ///
    /// `ESRCH` if nobody listens; `ENOBUFS`, `ENOMEM`.
    pub(in crate::netlink) fn multicast(
        &self,
        message: Message,
        group: u32,
        flags: bindings::gfp_t,
    ) -> Result {
        let (sock, skb) = (self.0.as_ptr(), message.into_raw());
        // SAFETY: A socket, by the type invariant, which takes the message over in any case.
        to_result(unsafe { bindings::rdma_helper_nlmsg_multicast(sock, skb, 0, group, flags) })
    }

    /// Whether somebody listens to a group. Any context.
    pub(in crate::netlink) fn has_listeners(&self, group: u32) -> bool {
        // SAFETY: A socket, by the type invariant.
        unsafe { bindings::netlink_has_listeners(self.0.as_ptr(), group) != 0 }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: A socket, by the type invariant; nobody sends to a namespace that has gone.
        unsafe { bindings::netlink_kernel_release(self.0.as_ptr()) };
    }
}

/// Gives every namespace a socket. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(in crate::netlink) fn register() -> Result<Pernet<Socket>> {
    Pernet::register(rdma::resident!())
}
