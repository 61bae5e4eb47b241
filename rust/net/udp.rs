// SPDX-License-Identifier: GPL-2.0

//! Kernel UDP sockets that pass every datagram to a callback.
//!
//! C headers: `include/net/udp_tunnel.h`, `include/linux/udp.h`.

use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::sync::Arc;

use super::device::Net;
use super::device::NetDevice;
use super::gro;
use super::skb::Skb;
use crate::bindings;
use crate::module::Resident;
use crate::wire::gro::Arrival;
use crate::wire::gro::Chain;
use crate::wire::gro::Step;

/// Receiver of the datagrams of a tunnel.
pub trait TunnelReceiver: Send + Sync + 'static {
    /// Handles a datagram. Its data pointer is at the UDP header, the network header is in front of
    /// it, and a UDP checksum, if present, was verified. `ndev` is the device that received it, if
    /// any. Softirq.
    fn receive(&self, skb: Skb, ndev: Option<&NetDevice>, rcu: &rcu::Guard);

    /// Decides about a datagram from a network card, while others of its flow wait, or none.
    /// Softirq.
    fn gro(new: &Arrival<'_>, waiting: Option<&Chain<'_>>) -> Step;
}

/// A kernel UDP socket, bound to a port on all addresses of a namespace.
///
/// # Invariants
///
/// `sk` is a kernel socket that this owns; its user data is the contents of `receiver`.
pub struct UdpTunnel<T: TunnelReceiver> {
    sk: NonNull<bindings::sock>,
    receiver: Option<Arc<T>>,
    /// The callbacks are the module's code.
    _resident: Resident,
}

// SAFETY: The only operation on the socket is its release, on any thread; the receiver is `Send +
// Sync`.
unsafe impl<T: TunnelReceiver> Send for UdpTunnel<T> {}
// SAFETY: As for `Send`.
unsafe impl<T: TunnelReceiver> Sync for UdpTunnel<T> {}

impl<T: TunnelReceiver> UdpTunnel<T> {
    /// Opens a socket, for IPv6 only if `v6` is set, otherwise for IPv4. May sleep. `resident` is
    /// [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if the port is in use; `EAFNOSUPPORT` if the kernel does not support IPv6;
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The tunnel must be dropped before the namespace is freed, to which it holds no reference.
    pub unsafe fn open(
        resident: Resident,
        net: &Net,
        v6: bool,
        port: u16,
        receiver: Arc<T>,
    ) -> Result<Self> {
        // The lowest bits of a socket's user data are flags.
        const { assert!(align_of::<T>() >= 8) };
        // SAFETY: The namespace is valid (`Net`).
        let socket = from_err_ptr(unsafe {
            bindings::rdma_helper_udp_sock_create(net.as_raw(), v6, port.to_be())
        })?;
        // SAFETY: The socket is new and valid, so it has a `struct sock`.
        let sk = NonNull::new(unsafe { bindings::rdma_helper_socket_sk(socket) }).ok_or(ENOMEM)?;
        let user = Arc::as_ptr(&receiver).cast_mut().cast::<c_void>();
        // SAFETY: The socket is new and not in use yet. The receiver is dropped after the socket
        // was released and all callbacks have returned, see `drop`.
        unsafe {
            bindings::rdma_helper_reclassify_socket(sk.as_ptr());
            bindings::rdma_helper_setup_udp_tunnel(
                net.as_raw(),
                sk.as_ptr(),
                user,
                Some(encap_rcv::<T>),
                Some(gro::receive::<T>),
            );
        }
        // INVARIANT: Established above.
        Ok(Self {
            sk,
            receiver: Some(receiver),
            _resident: resident,
        })
    }
}

impl<T: TunnelReceiver> Drop for UdpTunnel<T> {
    /// May sleep. No callback runs afterwards.
    fn drop(&mut self) {
        // SAFETY: The socket is owned (type invariant). Running callbacks are in RCU read-side
        // critical sections, for which `synchronize_net` waits.
        unsafe {
            bindings::rdma_helper_udp_tunnel_release(self.sk.as_ptr());
            bindings::rdma_helper_synchronize_net();
        }
        drop(self.receiver.take());
    }
}

/// Returns whether an error means that the kernel does not support the protocol: `EAFNOSUPPORT`.
pub fn is_unsupported(error: Error) -> bool {
    // OVERFLOW: A small number.
    i64::from(error.to_errno()) == -i64::from(bindings::EAFNOSUPPORT)
}

/// # Safety
///
/// Only for C, as `encap_rcv` of the socket of an `UdpTunnel<T>`.
unsafe extern "C" fn encap_rcv<T: TunnelReceiver>(
    sk: *mut bindings::sock,
    skb: *mut bindings::sk_buff,
) -> c_int {
    let Some(skb) = NonNull::new(skb) else {
        return 0;
    };
    let rcu = rcu::read_lock();
    // SAFETY: C passes its reference to the buffer (contract of this function), in the RCU
    // read-side critical section in which it was received, which includes that of `rcu`.
    let (skb, ndev) = unsafe {
        let skb = Skb::from_raw(skb);
        let ndev = skb.dev(&rcu);
        (skb, ndev)
    };
    // SAFETY: `sk` is the socket of the callback (contract of this function).
    let user = unsafe { bindings::rdma_helper_sk_user_data(sk) };
    // SAFETY: The user data is null once the socket is being released, and otherwise a `T` that
    // exists until this read-side critical section ends, see `UdpTunnel::drop`.
    match unsafe { user.cast::<T>().as_ref() } {
        Some(receiver) => receiver.receive(skb, ndev, &rcu),
        None => skb.discard(),
    }
    0
}
