// SPDX-License-Identifier: GPL-2.0

//! Trains: datagrams of one flow that cross the IP stack as one buffer.
//!
//! The first packet carries the others in its fragment list, each in a buffer of its
//! own with all of its headers (`SKB_GSO_FRAGLIST`, as the kernel's own UDP GRO makes
//! them for forwarding). Whoever cannot carry that has the stack take it apart: then
//! lengths are set from the buffers, and IPv4 idents are counted up from the first.
//! [`Train`] is one under construction, [`SkbList`] what a received one held.
//!
//! C sources of the rules: `net/core/skbuff.c` (`skb_segment_list`),
//! `net/ipv4/udp_offload.c`, `include/linux/udp.h` (`udp_unexpected_gso`).

use core::ptr;
use core::ptr::NonNull;

use kernel::error::to_result;
use kernel::prelude::*;

use super::skb::NewSkb;
use super::skb::Skb;
use crate::bindings;

/// A train under construction; see the module.
///
/// # Invariants
///
/// `last` is the end of the list that begins at the fragment list of `head`, or null if
/// there is none. The buffers of that list were under construction, and nobody else has
/// them.
pub struct Train {
    head: NewSkb,
    last: *mut bindings::sk_buff,
    count: u16,
    /// Bytes of payload behind the first packet.
    later: u32,
    /// What the buffers behind the first packet take of memory.
    truesize: u32,
}

// SAFETY: Buffers belong to whoever has them, on any CPU.
unsafe impl Send for Train {}

impl Train {
    /// A train of one packet, which is complete, with its headers set.
    #[inline]
    pub fn new(head: NewSkb) -> Self {
        Self {
            head,
            last: ptr::null_mut(),
            count: 1,
            later: 0,
            truesize: 0,
        }
    }

    /// How many packets there are.
    #[inline]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Bytes of the train as one packet: the headers of the first one only.
    #[inline]
    pub fn len(&self) -> usize {
        self.head
            .len()
            .saturating_add(usize::try_from(self.later).unwrap_or(usize::MAX))
    }

    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Couples one more packet, whose IP and UDP headers have `header_len` bytes. It is
    /// lost, and `None`, if it is shorter than that.
    #[inline]
    pub fn push(&mut self, skb: NewSkb, header_len: usize) -> Option<()> {
        let mut skb = skb.finish();
        skb.pull(header_len)?;
        let len = u32::try_from(skb.len()).ok()?;
        self.later = self.later.saturating_add(len);
        self.count = self.count.saturating_add(1);
        let skb = skb.into_raw().as_ptr();
        // INVARIANT: The buffer was under construction, and is the end of the list now.
        // SAFETY: By the type invariant, `last` is null or a buffer that is ours to
        // change; so is the head.
        unsafe {
            self.truesize = self.truesize.saturating_add((*skb).truesize);
            if self.last.is_null() {
                bindings::rdma_helper_skb_set_frag_list(self.head.as_raw(), skb);
            } else {
                bindings::rdma_helper_skb_set_next(self.last, skb);
            }
        }
        self.last = skb;
        Some(())
    }

    /// The first packet's bytes.
    #[inline]
    pub fn head_mut(&mut self) -> &mut [u8] {
        self.head.data_mut()
    }

    /// Ends construction, for [`Route::send`](super::Route::send). The first packet's IP and UDP headers have `header_len` bytes;
    /// its UDP length must say [`Train::len`] less the IP header, if there are more.
    #[inline]
    pub(super) fn finish(self, header_len: usize) -> Skb {
        if !self.last.is_null() {
            let size = self.head.len().saturating_sub(header_len);
            let size = u16::try_from(size).unwrap_or(u16::MAX);
            // SAFETY: The head is ours to change, and the list of buffers behind it has
            // `later` bytes.
            unsafe {
                bindings::rdma_helper_skb_set_train(
                    self.head.as_raw(),
                    self.later,
                    self.truesize,
                    size,
                    self.count,
                );
            }
        }
        self.head.finish()
    }
}

/// Packets that were taken off a train. What is not taken from it is freed.
///
/// # Invariants
///
/// The pointer is null or a buffer to which the list owns a reference, whose `next` is
/// the next one, and so on.
pub struct SkbList(*mut bindings::sk_buff);

// SAFETY: Buffers belong to whoever has them, on any CPU.
unsafe impl Send for SkbList {}

impl SkbList {
    /// No packets.
    #[inline]
    pub const fn empty() -> Self {
        Self(ptr::null_mut())
    }

    /// Whether there are no packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// Takes the packets of a train off its first one, `skb`. None if that is
    /// no train. Softirq.
    ///
    /// Each of them has its data pointer behind its UDP header. The lengths in the IP and
    /// UDP headers of it still speak of the whole train.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, if others see this buffer too; then nothing changed.
    #[inline]
    pub fn of(skb: &mut Skb) -> Result<Self> {
        // SAFETY: By the type invariant, the buffer is valid.
        if !unsafe { bindings::rdma_helper_skb_is_train(skb.as_raw()) } {
            return Ok(Self(ptr::null_mut()));
        }
        // The list belongs to the data, which clones share.
        // SAFETY: The buffer is ours to change.
        to_result(unsafe {
            bindings::rdma_helper_skb_unclone(skb.as_raw(), bindings::GFP_ATOMIC)
        })?;
        // SAFETY: As above; and the list, of which the data held one reference, is cut
        // off from it.
        // INVARIANT: That reference is the list's now.
        Ok(Self(unsafe {
            bindings::rdma_helper_skb_take_frag_list(skb.as_raw())
        }))
    }
}

impl Iterator for SkbList {
    type Item = Skb;

    /// Without memory, packets that others see too are lost.
    #[inline]
    fn next(&mut self) -> Option<Skb> {
        while !self.0.is_null() {
            // SAFETY: By the type invariant, the buffer is valid, and one reference is
            // ours, which is passed on. If there are others, we get another buffer.
            let own =
                unsafe { bindings::rdma_helper_skb_list_take(&mut self.0, bindings::GFP_ATOMIC) };
            if let Some(own) = NonNull::new(own) {
                // SAFETY: Nobody else has the buffer, and the reference is passed on.
                return Some(unsafe { Skb::from_raw(own) });
            }
        }
        None
    }
}

impl Drop for SkbList {
    #[inline]
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: By the type invariant, the references are ours to give up.
            unsafe { bindings::rdma_helper_kfree_skb_list(self.0) };
        }
    }
}
