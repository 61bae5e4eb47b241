// SPDX-License-Identifier: GPL-2.0

//! Routes, and sending along them.
//!
//! A [`Route`] may be kept as long as one likes: it does not keep its network
//! device from going away. Ask [`Route::is_valid`] before each use.
//!
//! C headers: `include/net/route.h`, `include/net/ip6_route.h`, `include/net/dst.h`.

use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::rcu;

use super::addr::AddrPair;
use super::device::Net;
use super::device::NetDevice;
use super::train::Train;
use crate::bindings;

/// What a route is looked up by. The protocol is UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Both ends.
    pub addrs: AddrPair,
    /// Number of the device that packets must leave by.
    pub ifindex: u32,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
    /// Flow label of 20 bits; IPv6 only.
    pub flow_label: u32,
}

/// A reference to a route (`struct dst_entry`), and what tells whether it still
/// holds.
///
/// # Invariants
///
/// The pointer is valid and owns a reference. The route is for IPv6 if `v6`.
pub struct Route {
    dst: NonNull<bindings::dst_entry>,
    cookie: u32,
    v6: bool,
}

// SAFETY: Routes are counted atomically and made for use from any thread.
unsafe impl Send for Route {}
// SAFETY: See `Send`.
unsafe impl Sync for Route {}

impl Route {
    /// Looks a route up. Softirq or process context.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH`, `EHOSTUNREACH` and others of the routing tables;
    /// `EAFNOSUPPORT` for IPv6 without IPv6.
    pub fn lookup(net: &Net, flow: &Flow) -> Result<Self> {
        let ifindex = i32::try_from(flow.ifindex).map_err(|_| ENODEV)?;
        let (sport, dport) = (flow.src_port.to_be(), flow.dst_port.to_be());
        match flow.addrs {
            AddrPair::V4 { src, dst } => {
                // SAFETY: The namespace is alive; all else is plain numbers.
                let dst = unsafe {
                    bindings::rdma_helper_route4(
                        net.as_raw(),
                        ifindex,
                        u32::from_ne_bytes(src.octets()),
                        u32::from_ne_bytes(dst.octets()),
                        sport,
                        dport,
                    )
                };
                // SAFETY: The lookup returned an error or a reference to an IPv4 route.
                unsafe { Self::from_lookup(dst, false) }
            }
            AddrPair::V6 { src, dst } => {
                let (src, dst) = (src.octets(), dst.octets());
                // SAFETY: The namespace is alive, and both addresses live for the call.
                let dst = unsafe {
                    bindings::rdma_helper_route6(
                        net.as_raw(),
                        ifindex,
                        src.as_ptr().cast(),
                        dst.as_ptr().cast(),
                        sport,
                        dport,
                        (flow.flow_label & 0x000f_ffff).to_be(),
                    )
                };
                // SAFETY: The lookup returned an error or a reference to an IPv6 route.
                unsafe { Self::from_lookup(dst, true) }
            }
        }
    }

    /// # Safety
    ///
    /// `dst` must be an error pointer, or a reference that the caller passes on to a
    /// route that is for IPv6 if `v6`.
    pub(super) unsafe fn from_lookup(dst: *mut bindings::dst_entry, v6: bool) -> Result<Self> {
        let dst = NonNull::new(from_err_ptr(dst)?).ok_or(ENODEV)?;
        // INVARIANT: By the caller's promise.
        let mut route = Self { dst, cookie: 0, v6 };
        // SAFETY: By the type invariant.
        let error = unsafe { bindings::rdma_helper_dst_error(route.as_raw()) };
        to_result(error)?;
        if v6 {
            // SAFETY: By the type invariant, and the route is for IPv6.
            route.cookie = unsafe { bindings::rdma_helper_rt6_cookie(route.as_raw()) };
        }
        Ok(route)
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::dst_entry {
        self.dst.as_ptr()
    }

    /// Whether the routing tables still say the same. Softirq or process context.
    #[inline]
    pub fn is_valid(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_helper_dst_check(self.as_raw(), self.cookie) }
    }

    /// Whether the route is for IPv6.
    #[inline]
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// Largest packet in bytes, IP header included, that this path is known to carry.
    #[inline]
    pub fn mtu(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_helper_dst_mtu(self.as_raw()) }
    }

    /// The device that packets leave by. It is a blackhole if the real one is gone.
    #[inline]
    pub fn dev<'a>(&self, _rcu: &'a rcu::Guard) -> &'a NetDevice {
        // SAFETY: By the type invariant, and we are in a read-side section.
        let dev = unsafe { bindings::rdma_helper_dst_dev_rcu(self.as_raw()) };
        // SAFETY: A route always has a device, and RCU protects it.
        unsafe { NetDevice::from_raw(dev) }
    }

    /// Whether packets are changed on their way out of this machine (IPsec). Softirq or
    /// process context.
    #[inline]
    pub fn is_transformed(&self) -> bool {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_helper_dst_is_transformed(self.as_raw()) }
    }

    /// Sends packets that begin with their complete IP headers, save the checksums of
    /// IPv4 ones. IP and UDP headers have `header_len` bytes. Softirq.
    ///
    /// # Errors
    ///
    /// Those of the stack. A packet that is queued, or lost on the way, is no error
    /// if the stack does not say so.
    #[inline]
    pub fn send(&self, train: Train, header_len: usize) -> Result<Sent> {
        // The packet borrows the route; whoever queues it takes a reference, as long as
        // we are in a read-side section.
        let rcu = rcu::read_lock();
        let dev = self.dev(&rcu);
        let skb = train.finish(header_len).into_raw().as_ptr();
        // SAFETY:
        // - the buffer was under construction, so it is ours, and has no route yet;
        // - route and device are valid while `rcu` and `self` live;
        // - the stack takes the buffer over, in every case.
        let code = unsafe {
            bindings::rdma_helper_skb_set_dev(skb, dev.as_raw());
            bindings::rdma_helper_skb_dst_set_noref(skb, self.as_raw());
            if self.v6 {
                bindings::rdma_helper_ip6_local_out(dev.net(&rcu).as_raw(), skb)
            } else {
                bindings::rdma_helper_ip_local_out(dev.net(&rcu).as_raw(), skb)
            }
        };
        drop(rcu);
        if code < 0 {
            return Err(Error::from_errno(code));
        }
        // Positive codes are `NET_XMIT_*`: a queueing discipline is full.
        Ok(if code == 0 {
            Sent::Yes
        } else {
            Sent::Congested
        })
    }
}

/// What became of a packet that was handed to the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a congested path wants fewer packets"]
pub enum Sent {
    /// It is on its way.
    Yes,
    /// The path is congested. This packet, or another one, was dropped.
    Congested,
}

impl Drop for Route {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant, the reference is ours to give up.
        unsafe { bindings::rdma_helper_dst_release(self.as_raw()) };
    }
}
