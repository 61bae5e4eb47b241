// SPDX-License-Identifier: GPL-2.0

//! Datagrams of a tunnel socket that a network card has brought one by one, chained before
//! the stack has them (generic receive offload, GRO).
//!
//! What comes of it is a [train](super::train): the stack is crossed once. Each datagram
//! stays in its own buffer with its own headers, but for the lengths in those of the
//! first, and who forwards the train has the stack take it apart. Which datagrams are
//! chained is the user's to say, by [`TunnelReceiver::gro`](super::TunnelReceiver::gro).
//! Of them only those are asked about that are for an address of this machine.
//!
//! Who waits, waits for the end of what the driver takes from the card in one go, or for
//! what the administrator set (`gro_flush_timeout`). All of it is softirq, inside
//! an RCU read-side section.
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
/// For C only, as `gro_receive` of a tunnel socket.
pub(super) unsafe extern "C" fn receive<T: TunnelReceiver>(
    _sk: *mut bindings::sock,
    head: *mut bindings::list_head,
    skb: *mut bindings::sk_buff,
) -> *mut bindings::sk_buff {
    let mut gro = bindings::rdma_gro::default();
    // CAST: a small constant.
    let behind = LOOK as u32;
    // SAFETY: GRO gives us a buffer of its own and the list of those that it holds.
    unsafe { bindings::rdma_helper_gro_look(head, skb, behind, &mut gro) };
    // SAFETY: The helper has set what it found: each is null, or the start of so many bytes
    // of a buffer that GRO holds, to which nobody writes before we do below, when these are
    // not used any more.
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
            // SAFETY: GRO holds both, and what waits is the first of a list of buffers.
            let joined = unsafe { bindings::rdma_helper_gro_join(gro.waiting, skb, same_ident) };
            (joined, last || !joined)
        }
        Step::Wait => {
            // SAFETY: The buffer is GRO's, and `headers` is where its own were found.
            let waits = unsafe { bindings::rdma_helper_gro_wait(skb, gro.headers) };
            (waits, true)
        }
        Step::Alone | Step::Join { .. } => (false, true),
    };
    if !taken {
        // SAFETY: The buffer is GRO's.
        unsafe { bindings::rdma_helper_gro_alone(skb) };
    }
    // Those that wait go on at once if we name them; then GRO sees to the new one.
    if goes_on {
        gro.waiting
    } else {
        ptr::null_mut()
    }
}

/// # Safety
///
/// `start` is null, or the start of `len` bytes to which nobody writes during `'a`.
#[inline]
unsafe fn bytes<'a>(start: *const u8, len: u32) -> Option<&'a [u8]> {
    // SAFETY: By the caller's promise.
    (!start.is_null()).then(|| unsafe { slice::from_raw_parts(start, size(len)) })
}

/// A count of bytes as the `usize` it fits in.
#[inline]
const fn size(bytes: u32) -> usize {
    // CAST: `usize` has 32 bits or more wherever there is a network stack.
    bytes as usize
}
