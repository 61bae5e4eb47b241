// SPDX-License-Identifier: GPL-2.0

//! Generic receive offload (GRO) for tunnel sockets: datagrams that a network card received one by
//! one are chained before they enter the stack.
//!
//! The result is a [train](super::train), which passes through the stack once. Each datagram
//! remains in its own buffer with its own headers; only the lengths in those of the first are
//! changed. If a train is forwarded, the stack segments it. The user decides which datagrams are
//! chained, by [`TunnelReceiver::gro`](super::TunnelReceiver::gro). It is called only for datagrams
//! with an address of this machine.
//!
//! A chain waits until the driver has taken all packets of one poll from the card, or for the time
//! that the administrator configured (`gro_flush_timeout`). Everything runs in softirq, in an RCU
//! read-side critical section.
//!
//! C headers: `include/net/gro.h`, `include/net/udp_tunnel.h`. C sources of the rules:
//! `net/core/gro.c`, `net/ipv4/udp_offload.c` (`udp_gro_receive`, `udp4_gro_complete`).

use core::ptr;
use core::slice;

use crate::bindings;
use crate::wire::gro::Arrival;
use crate::wire::gro::Chain;
use crate::wire::gro::Step;
use crate::wire::gro::LOOK;

use super::udp::TunnelReceiver;

/// # Safety
///
/// Only for C, as `gro_receive` of a tunnel socket.
pub(super) unsafe extern "C" fn receive<T: TunnelReceiver>(
    _sk: *mut bindings::sock,
    head: *mut bindings::list_head,
    skb: *mut bindings::sk_buff,
) -> *mut bindings::sk_buff {
    let mut gro = bindings::rdma_gro::default();
    // CAST: A small constant.
    let behind = LOOK as u32;
    // SAFETY: GRO passes a buffer that it owns, and the list of buffers that it holds.
    unsafe { bindings::rdma_helper_gro_look(head, skb, behind, &mut gro) };
    // SAFETY: The helper has set both results: each is null, or the start of as many bytes of a
    // buffer that GRO holds. They are not written while these references are used.
    let (headers, first) = unsafe {
        (
            bytes(gro.headers, gro.headers_len),
            bytes(gro.first, gro.first_len),
        )
    };
    let step = match headers {
        None => Step::Alone,
        Some(headers) => {
            let new = Arrival {
                headers,
                len: size(gro.len),
            };
            let chain = first.map(|headers| Chain {
                headers,
                count: gro.count,
                len: size(gro.waiting_len),
                same_ident: gro.same_ident,
            });
            T::gro(&new, chain.as_ref())
        }
    };
    let (taken, goes_on) = match step {
        Step::Join { same_ident, last } if first.is_some() => {
            // SAFETY: GRO holds both buffers, and `waiting` is the first of a list.
            let joined = unsafe { bindings::rdma_helper_gro_join(gro.waiting, skb, same_ident) };
            (joined, last || !joined)
        }
        Step::Wait => {
            // SAFETY: GRO holds the buffer, and `headers` is the position of its headers.
            let waits = unsafe { bindings::rdma_helper_gro_wait(skb, gro.headers) };
            (waits, true)
        }
        Step::Alone | Step::Join { .. } => (false, true),
    };
    if !taken {
        // SAFETY: GRO holds the buffer.
        unsafe { bindings::rdma_helper_gro_alone(skb) };
    }
    // GRO completes the waiting chain that is returned, and then handles the new buffer.
    if goes_on {
        gro.waiting
    } else {
        ptr::null_mut()
    }
}

/// # Safety
///
/// `start` must be null, or the start of `len` bytes that are not written during `'a`.
#[inline]
unsafe fn bytes<'a>(start: *const u8, len: u32) -> Option<&'a [u8]> {
    // SAFETY: The bytes are valid, and not written during `'a` (contract of this function).
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start, size(len)) })
}

/// Converts a number of bytes to `usize`.
#[inline]
const fn size(bytes: u32) -> usize {
    // CAST: `usize` has at least 32 bits on machines with a network stack.
    bytes as usize
}
