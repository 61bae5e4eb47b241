// SPDX-License-Identifier: GPL-2.0

//! The netlink socket of a network namespace. Must match `include/linux/netlink.h`.

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
use rdma::edge::View;
use rdma::net::pernet::AfterDevices;
use rdma::net::CountedNet;
use rdma::net::NewNet;
use rdma::net::Pernet;
use rdma::net::PernetData;
use rdma::net::PernetSlot;

/// Type of the function that handles received buffers.
type Input = unsafe extern "C" fn(*mut bindings::sk_buff);

/// The netlink socket of a network namespace.
///
/// # Invariants
///
/// `0` is a socket that `netlink_kernel_create` returned and that is not released yet.
pub(in crate::netlink) struct Socket(NonNull<bindings::sock>);

// SAFETY: The functions of a socket may be called from any thread.
unsafe impl Send for Socket {}
// SAFETY: See `Send`.
unsafe impl Sync for Socket {}

rdma::static_slot!(impl for Socket: PernetSlot);

rdma::callback! {
    /// `input` function of the sockets.
    fn receive(batch: Batch<'_>) = super::super::client::receive;
}

impl PernetData for Socket {
    type Dropped = AfterDevices;

    fn new(net: &NewNet) -> impl PinInit<Self, Error> {
        let sock = Self::create(net, receive);
        if let Ok(sock) = &sock {
            sock.set_send_timeout(super::super::send_timeout());
        }
        // SAFETY: The closure initialises the slot if and only if it returns `Ok`.
        unsafe {
            pin_init::pin_init_from_closure(move |slot: *mut Self| {
                slot.write(sock?);
                Ok(())
            })
        }
    }
}

impl Socket {
    fn create(net: &NewNet, input: Input) -> Result<Self> {
        let mut config = bindings::netlink_kernel_cfg {
            input: Some(input),
            // Each request is checked for the sender's permissions.
            flags: bindings::NL_CFG_F_NONROOT_RECV,
            ..Default::default()
        };
        // SAFETY: The namespace is valid, as it is being set up; C copies what it needs from
        // `config`.
        let sock = unsafe {
            bindings::__netlink_kernel_create(
                net.raw(),
                bindings::NETLINK_RDMA as c_int,
                rdma::this_module!().as_ptr(),
                &mut config,
            )
        };
        // INVARIANT: The socket was just created.
        NonNull::new(sock).map(Self).ok_or(ENOMEM)
    }

    /// Sets the timeout of a blocking send while the receiver's buffer is full.
    fn set_send_timeout(&self, timeout: Jiffies) {
        let timeout = c_long::try_from(timeout).unwrap_or(c_long::MAX);
        // SAFETY: The socket is valid (type invariant); the helper writes a whole word.
        unsafe { bindings::rdma_helper_sock_set_sndtimeo(self.0.as_ptr(), timeout) };
    }

    /// Returns the socket of a network namespace.
    ///
    /// # Errors
    ///
    /// `ESRCH` while the namespace is being set up.
    pub(in crate::netlink) fn of(net: &CountedNet) -> Result<Pin<&Self>> {
        // SAFETY: Sockets are registered from `netlink::Subsystem::new`, the first step of the
        // module's `init`, until it is dropped, the last step of the exit (order of the fields of
        // `IbCore` in `main.rs`).
        unsafe { Pernet::<Self>::get(net) }.ok_or(ESRCH)
    }

    /// Sends a message to one port ID. Returns a length or a negative errno. May sleep unless
    /// `flags` has `MSG_DONTWAIT`.
    pub(in crate::netlink) fn unicast(&self, message: Message, port: u32, flags: c_int) -> c_int {
        // SAFETY: The socket is valid (type invariant). The function consumes the message even on
        // failure.
        unsafe { bindings::netlink_unicast(self.0.as_ptr(), message.into_raw(), port, flags) }
    }

    /// Sends a message to a group. May sleep as `flags` permit.
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
        // SAFETY: The socket is valid (type invariant). The function consumes the message even on
        // failure.
        to_result(unsafe { bindings::rdma_helper_nlmsg_multicast(sock, skb, 0, group, flags) })
    }

    /// Returns whether a group has listeners. Any context.
    pub(in crate::netlink) fn has_listeners(&self, group: u32) -> bool {
        // SAFETY: The socket is valid (type invariant).
        unsafe { bindings::netlink_has_listeners(self.0.as_ptr(), group) != 0 }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: The socket is valid (type invariant). Nobody sends on it any more, as its
        // namespace is exiting or the module is unloading.
        unsafe { bindings::netlink_kernel_release(self.0.as_ptr()) };
    }
}

/// Creates a socket in every network namespace. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(in crate::netlink) fn register() -> Result<Pernet<Socket>> {
    Pernet::register(rdma::resident!())
}
