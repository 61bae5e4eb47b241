// SPDX-License-Identifier: GPL-2.0

//! Kernel UDP sockets that hand every datagram to a callback.
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
use crate::wire::gro::Arrival;
use crate::wire::gro::Chain;
use crate::wire::gro::Step;

/// Who gets a tunnel's datagrams.
pub trait TunnelReceiver: Send + Sync + 'static {
    /// A datagram has come. Its data pointer is at the UDP header, the network header
    /// is in front of it, and a UDP checksum, if present, was right. `ndev` is the device that
    /// it came from, if any. Softirq.
    fn receive(&self, skb: Skb, ndev: Option<&NetDevice>, rcu: &rcu::Guard);

    /// A datagram has come from a network card, and others of its flow wait, or none: what
    /// becomes of it? Softirq.
    fn gro(new: &Arrival<'_>, waiting: Option<&Chain<'_>>) -> Step;
}

/// A UDP socket of the kernel, bound to a port on all addresses of a namespace.
///
/// # Invariants
///
/// `sk` is a kernel socket that we own; its user data is the contents of `receiver`.
pub struct UdpTunnel<T: TunnelReceiver> {
    sk: NonNull<bindings::sock>,
    receiver: Option<Arc<T>>,
}

// SAFETY: Nothing but the release, which may be anywhere, is done with the socket, and
// the receiver is `Send + Sync`.
unsafe impl<T: TunnelReceiver> Send for UdpTunnel<T> {}
// SAFETY: See `Send`.
unsafe impl<T: TunnelReceiver> Sync for UdpTunnel<T> {}

impl<T: TunnelReceiver> UdpTunnel<T> {
    /// Opens the socket. With `v6`, it is for IPv6 only, else for IPv4. May sleep.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` if somebody has the port, `EAFNOSUPPORT` without IPv6, `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The tunnel must be dropped before the namespace is gone: it does not keep it.
    pub unsafe fn open(net: &Net, v6: bool, port: u16, receiver: Arc<T>) -> Result<Self> {
        // The lowest bits of a socket's user data have a meaning of their own.
        const { assert!(align_of::<T>() >= 8) };
        // SAFETY: The namespace is alive.
        let socket = from_err_ptr(unsafe {
            bindings::rdma_helper_udp_sock_create(net.as_raw(), v6, port.to_be())
        })?;
        // SAFETY: The socket was just made, so it has a `struct sock`.
        let sk = NonNull::new(unsafe { bindings::rdma_helper_socket_sk(socket) }).ok_or(ENOMEM)?;
        let user = Arc::as_ptr(&receiver).cast_mut().cast::<c_void>();
        // SAFETY: The socket is ours and nobody uses it yet. The receiver stays until
        // after the socket is released and all callbacks have returned, see `drop`.
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
        // INVARIANT: Just established.
        Ok(Self {
            sk,
            receiver: Some(receiver),
        })
    }
}

impl<T: TunnelReceiver> Drop for UdpTunnel<T> {
    /// May sleep. Afterwards no callback runs.
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the socket is ours to release. Callbacks that
        // have begun run in read-side sections, for which `synchronize_net` waits.
        unsafe {
            bindings::rdma_helper_udp_tunnel_release(self.sk.as_ptr());
            bindings::rdma_helper_synchronize_net();
        }
        drop(self.receiver.take());
    }
}

/// Whether an error says that the kernel has no such protocol: `EAFNOSUPPORT`.
pub fn is_unsupported(error: Error) -> bool {
    // OVERFLOW: a small number.
    i64::from(error.to_errno()) == -i64::from(bindings::EAFNOSUPPORT)
}

/// # Safety
///
/// For C only, as `encap_rcv` of the socket of an `UdpTunnel<T>`.
unsafe extern "C" fn encap_rcv<T: TunnelReceiver>(
    sk: *mut bindings::sock,
    skb: *mut bindings::sk_buff,
) -> c_int {
    let Some(skb) = NonNull::new(skb) else {
        return 0;
    };
    let rcu = rcu::read_lock();
    // SAFETY: C passes the buffer on to us, in the read-side section that it was received in and
    // that `rcu` is inside of.
    let (skb, ndev) = unsafe {
        let skb = Skb::from_raw(skb);
        let ndev = skb.dev(&rcu);
        (skb, ndev)
    };
    // SAFETY: C calls with the socket whose callback this is.
    let user = unsafe { bindings::rdma_helper_sk_user_data(sk) };
    // SAFETY: The user data is null once the socket is being released, and else a `T`
    // that outlives our read-side section, see `UdpTunnel::drop`.
    match unsafe { user.cast::<T>().as_ref() } {
        Some(receiver) => receiver.receive(skb, ndev, &rcu),
        None => skb.discard(),
    }
    0
}
