// SPDX-License-Identifier: GPL-2.0

//! Routes, and sending packets on them.
//!
//! A [`Route`] may be kept for any time: it does not prevent removal of its network device. Check
//! [`Route::is_valid`] before each use.
//!
//! C headers: `include/net/route.h`, `include/net/ip6_route.h`, `include/net/dst.h`.

use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::sync::Arc;

use super::addr::AddrPair;
use super::device::Net;
use super::device::NetDevice;
use super::in_flight::InFlight;
use super::skb::Skb;
use super::train::Train;
use crate::bindings;

/// Key of a route lookup. The protocol is UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Addresses of both ends.
    pub addrs: AddrPair,
    /// Index of the device through which packets must leave.
    pub ifindex: u32,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
    /// Flow label of 20 bits; IPv6 only.
    pub flow_label: u32,
}

/// A reference to a route (`struct dst_entry`), and its cookie, by which the kernel checks whether
/// it is still valid.
///
/// Where a card's queues are selected by CPU (XPS), all packets along a route use the queue of the
/// CPU that looked it up, so that they stay in order when their sender moves to another CPU.
///
/// # Invariants
///
/// The pointer is valid and owns a reference. The route is for IPv6 if and only if `v6` is set.
pub struct Route {
    dst: NonNull<bindings::dst_entry>,
    cookie: u32,
    v6: bool,
    /// The CPU that looked it up.
    cpu: u32,
}

// SAFETY: Routes are counted atomically, and may be used from any thread.
unsafe impl Send for Route {}
// SAFETY: As for `Send`.
unsafe impl Sync for Route {}

impl Route {
    /// Looks up a route. Softirq or process context.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH`, `EHOSTUNREACH` and others of the routing tables; `EAFNOSUPPORT` for IPv6 if
    /// the kernel does not support it.
    pub fn lookup(net: &Net, flow: &Flow) -> Result<Self> {
        let ifindex = i32::try_from(flow.ifindex).map_err(|_| ENODEV)?;
        let (sport, dport) = (flow.src_port.to_be(), flow.dst_port.to_be());
        match flow.addrs {
            AddrPair::V4 { src, dst } => {
                // SAFETY: The namespace is valid (`Net`); the other arguments are numbers.
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
                // SAFETY: The namespace is valid (`Net`), and both addresses outlive the call.
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
    /// `dst` must be an error pointer, or a reference, which the caller passes on, to a route that
    /// is for IPv6 if and only if `v6` is set.
    pub(super) unsafe fn from_lookup(dst: *mut bindings::dst_entry, v6: bool) -> Result<Self> {
        let dst = NonNull::new(from_err_ptr(dst)?).ok_or(ENODEV)?;
        // INVARIANT: Guaranteed by the caller (contract of this function).
        let mut route = Self {
            dst,
            cookie: 0,
            v6,
            // SAFETY: The function has no precondition.
            cpu: unsafe { bindings::rdma_helper_cpu() },
        };
        // SAFETY: The route is valid (type invariant).
        let error = unsafe { bindings::rdma_helper_dst_error(route.as_raw()) };
        to_result(error)?;
        if v6 {
            // SAFETY: The route is valid (type invariant), and for IPv6.
            route.cookie = unsafe { bindings::rdma_helper_rt6_cookie(route.as_raw()) };
        }
        Ok(route)
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::dst_entry {
        self.dst.as_ptr()
    }

    /// Returns whether the routing tables still yield this route. Softirq or process context.
    #[inline]
    pub fn is_valid(&self) -> bool {
        // SAFETY: The route is valid (type invariant).
        unsafe { bindings::rdma_helper_dst_check(self.as_raw(), self.cookie) }
    }

    /// Returns whether the route is for IPv6.
    #[inline]
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// Returns the path MTU: the largest packet, including the IP header, that the path is known to
    /// carry.
    #[inline]
    pub fn mtu(&self) -> u32 {
        // SAFETY: The route is valid (type invariant).
        unsafe { bindings::rdma_helper_dst_mtu(self.as_raw()) }
    }

    /// Returns the device through which packets leave. If it was removed, this is the blackhole
    /// device.
    #[inline]
    pub fn dev<'a>(&self, _rcu: &'a rcu::Guard) -> &'a NetDevice {
        // SAFETY: The route is valid (type invariant), and RCU is held.
        let dev = unsafe { bindings::rdma_helper_dst_dev_rcu(self.as_raw()) };
        // SAFETY: A route always has a device, and RCU keeps it.
        unsafe { NetDevice::from_raw(dev) }
    }

    /// Returns whether packets are transformed before they leave the machine (IPsec). Softirq or
    /// process context.
    #[inline]
    pub fn is_transformed(&self) -> bool {
        // SAFETY: The route is valid (type invariant).
        unsafe { bindings::rdma_helper_dst_is_transformed(self.as_raw()) }
    }

    /// Sends packets that begin with complete IP headers, except the checksums of IPv4 headers. IP
    /// and UDP headers have `header_len` bytes. `counted` counts them until they have left. Softirq.
    ///
    /// # Errors
    ///
    /// Those of the stack. A packet that is queued, or lost on the way, is an error only if the
    /// stack reports it.
    #[inline]
    pub fn send(
        &self,
        train: Train,
        header_len: usize,
        counted: Option<&Arc<InFlight>>,
    ) -> Result<Sent> {
        let count = train.count();
        self.transmit(train.finish(header_len), counted, count)
    }

    /// As [`Self::send`], but sends the packets one by one; `sent` is called with each result.
    pub fn send_apart(
        &self,
        train: Train,
        header_len: usize,
        counted: Option<&Arc<InFlight>>,
        mut sent: impl FnMut(Result<Sent>),
    ) {
        let (head, others) = train.into_parts();
        sent(self.transmit(head, counted, 1));
        for mut skb in others {
            // A buffer without these headers is not a packet, and is dropped.
            if let Some(()) = skb.unpull(header_len) {
                sent(self.transmit(skb, counted, 1));
            }
        }
    }

    /// Passes a buffer of `packets` packets, which was under construction, to the stack. Softirq.
    #[inline]
    fn transmit(
        &self,
        mut skb: Skb,
        counted: Option<&Arc<InFlight>>,
        packets: u16,
    ) -> Result<Sent> {
        if let Some(counted) = counted {
            InFlight::add(counted, &mut skb, packets.into());
        }
        // The packet borrows the route: code that queues it takes a reference, as long as RCU is
        // held.
        let rcu = rcu::read_lock();
        let dev = self.dev(&rcu);
        let skb = skb.into_raw().as_ptr();
        // SAFETY:
        // - the buffer was under construction, so it has no other references, and no route;
        // - route and device are valid while `self` and `rcu` exist;
        // - the stack takes over the buffer in every case.
        let code = unsafe {
            bindings::rdma_helper_skb_set_dev(skb, dev.as_raw());
            bindings::rdma_helper_skb_set_sender_cpu(skb, self.cpu);
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

/// Result of passing a packet to the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a congested path wants fewer packets"]
pub enum Sent {
    /// The packet was accepted.
    Yes,
    /// The path is congested: this packet, or another one, was dropped.
    Congested,
}

impl Drop for Route {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The reference is owned (type invariant), and passed to the function.
        unsafe { bindings::rdma_helper_dst_release(self.as_raw()) };
    }
}
