// SPDX-License-Identifier: GPL-2.0

//! Trains: datagrams of one flow that pass through the IP stack as one buffer.
//!
//! The first packet has the others in its fragment list, each in a separate buffer with all of its
//! headers (`SKB_GSO_FRAGLIST`, as the kernel's UDP GRO creates them for forwarding). A device that
//! cannot transmit this has the stack segment it: lengths are then set from the buffers, and IPv4
//! IDs count up from the first. [`Train`] is a train under construction, [`SkbList`] the packets of
//! a received one.
//!
//! C sources of the rules: `net/core/skbuff.c` (`skb_segment_list`), `net/ipv4/udp_offload.c`,
//! `include/linux/udp.h` (`udp_unexpected_gso`).

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
/// `last` is the end of the list that begins at the fragment list of `head`, or null if there is
/// none. The buffers of the list were under construction, and this has the only references to them.
pub struct Train {
    head: NewSkb,
    last: *mut bindings::sk_buff,
    count: u16,
    /// Bytes of payload behind the first packet.
    later: u32,
    /// Memory used by the buffers behind the first packet, in bytes.
    truesize: u32,
}

// SAFETY: Buffers are not bound to a CPU.
unsafe impl Send for Train {}

impl Train {
    /// Creates a train of one packet, which is complete, with its headers set.
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

    /// Returns the number of packets.
    #[inline]
    pub fn count(&self) -> u16 {
        self.count
    }

    /// Returns the size of the train as one packet, with the headers of the first packet only, in
    /// bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.head
            .len()
            .saturating_add(usize::try_from(self.later).unwrap_or(usize::MAX))
    }

    /// Returns whether the train is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a packet whose IP and UDP headers have `header_len` bytes. If it is shorter than
    /// that, it is dropped, and the result is `None`.
    #[inline]
    pub fn push(&mut self, skb: NewSkb, header_len: usize) -> Option<()> {
        let mut skb = skb.finish();
        skb.pull(header_len)?;
        let len = u32::try_from(skb.len()).ok()?;
        self.later = self.later.saturating_add(len);
        self.count = self.count.saturating_add(1);
        let skb = skb.into_raw().as_ptr();
        // INVARIANT: The buffer was under construction, and is now the end of the list.
        // SAFETY: `last` is null or a buffer without other references, and so is the head (type
        // invariant).
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

    /// Returns the bytes of the first packet.
    #[inline]
    pub fn head_mut(&mut self) -> &mut [u8] {
        self.head.data_mut()
    }

    /// Ends the construction, for [`Route::send`](super::Route::send). The IP and UDP headers of
    /// the first packet have `header_len` bytes. If there are more packets, its UDP length must be
    /// [`Train::len`] without the IP header.
    #[inline]
    pub(super) fn finish(self, header_len: usize) -> Skb {
        if !self.last.is_null() {
            let size = self.head.len().saturating_sub(header_len);
            let size = u16::try_from(size).unwrap_or(u16::MAX);
            // SAFETY: The head has no other references (type invariant), and the buffers of its
            // list have `later` bytes.
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

impl Train {
    /// Takes the train apart: the first packet, and the others, whose data pointers are behind
    /// their IP and UDP headers.
    #[inline]
    pub(super) fn into_parts(self) -> (Skb, SkbList) {
        let list = if self.last.is_null() {
            ptr::null_mut()
        } else {
            // SAFETY: The head has no other references (type invariant), and its fragment list is
            // owned; the list's bytes are not counted in the head until `finish`.
            unsafe { bindings::rdma_helper_skb_take_frag_list(self.head.as_raw()) }
        };
        // INVARIANT: The list owns the references that the head had.
        (self.head.finish(), SkbList(list))
    }
}

/// Packets of a received train, or of one that was taken apart. Drop frees those that remain.
///
/// # Invariants
///
/// The pointer is null or a buffer to which the list owns a reference, whose `next` is the next
/// one, and so on.
pub struct SkbList(*mut bindings::sk_buff);

// SAFETY: Buffers are not bound to a CPU.
unsafe impl Send for SkbList {}

impl SkbList {
    /// Creates an empty list.
    #[inline]
    pub const fn empty() -> Self {
        Self(ptr::null_mut())
    }

    /// Returns whether there are no packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_null()
    }

    /// Detaches the further packets of a train from its first one, `skb`. The list is empty if
    /// `skb` is not a train. Softirq.
    ///
    /// The data pointer of each packet is behind its UDP header. The lengths in its IP and UDP
    /// headers are still those of the whole train.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the buffer is shared; nothing has changed then.
    #[inline]
    pub fn of(skb: &mut Skb) -> Result<Self> {
        // SAFETY: The buffer is valid (invariant of `Skb`).
        if !unsafe { bindings::rdma_helper_skb_is_train(skb.as_raw()) } {
            return Ok(Self(ptr::null_mut()));
        }
        // The list belongs to the data, which clones share.
        // SAFETY: The buffer is changed through this reference only (invariant of `Skb`).
        to_result(unsafe {
            bindings::rdma_helper_skb_unclone(skb.as_raw(), bindings::GFP_ATOMIC)
        })?;
        // SAFETY: The buffer is changed through this reference only, and its data is not shared, so
        // the data's only reference to the list can be removed.
        // INVARIANT: The list owns that reference now.
        Ok(Self(unsafe {
            bindings::rdma_helper_skb_take_frag_list(skb.as_raw())
        }))
    }
}

impl Iterator for SkbList {
    type Item = Skb;

    /// Shared packets are dropped if there is no memory to copy them.
    #[inline]
    fn next(&mut self) -> Option<Skb> {
        while !self.0.is_null() {
            // SAFETY: The buffer is valid, and the reference, which is owned (type invariant), is
            // passed on. If there are others, the function returns another buffer.
            let own =
                unsafe { bindings::rdma_helper_skb_list_take(&mut self.0, bindings::GFP_ATOMIC) };
            if let Some(own) = NonNull::new(own) {
                // SAFETY: The function returned the only reference to the buffer.
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
            // SAFETY: The references are owned (type invariant), and passed to the function.
            unsafe { bindings::rdma_helper_kfree_skb_list(self.0) };
        }
    }
}
