// SPDX-License-Identifier: GPL-2.0

//! Receive buffers, and received MADs as consumers see them: `struct ib_mad_recv_wc` and what it
//! points to.
//!
//! ```text
//!            post                completion, or the queue pair is gone
//!   RecvMad ------> Posted (device) ------> RecvMad --into_message--> Received
//!      ^                                                                 |  hand over
//!      +------------- freed by drop <---------- ib_free_recv_mad <--- consumer
//! ```

use super::dma::zeros;
use super::dma::Aligned;
use super::dma::Mapping;
use super::dma::Way;
use super::port::Gone;
use super::port::Live;
use super::Wc;
use crate::mad::incoming;
use crate::proto::mad::rmpp;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Special;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::container_of;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::edge::Within;

/// Number of bytes before each MAD: space for a global route header.
pub(crate) const GRH: usize = 40;

/// Buffer for one MAD, with its metadata.
pub(crate) struct RecvMad {
    /// For the work request that uses the buffer.
    cqe: bindings::ib_cqe,
    /// Slot of the buffer among the receives of the queue pair `kind`.
    place: usize,
    kind: Special,
    wc: Opaque<bindings::ib_wc>,
    recv_wc: bindings::ib_mad_recv_wc,
    /// Space for a global route header, then the MAD; unused if there is `long`.
    short: Aligned<SHORT>,
    /// The same for the longer MADs of Omni-Path.
    long: Option<KVec<u8>>,
}

/// Length of a MAD of InfiniBand and the space before it.
const SHORT: usize = GRH + wire::MAD_SIZE;

// One object of the allocator, as most buffers are short.
const _: () = assert!(size_of::<RecvMad>() <= 512);

impl RecvMad {
    /// Allocates a zeroed buffer for a MAD of `mad_size` bytes. The context depends on `flags`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(mad_size: usize, flags: Flags) -> Result<KBox<Self>> {
        let len = GRH.checked_add(mad_size).ok_or(ENOMEM)?;
        let long = if len == SHORT {
            None
        } else {
            Some(zeros(len, flags)?)
        };
        // Built in place, as it is large.
        KBox::init(
            init!(Self {
                cqe: bindings::ib_cqe::default(),
                place: 0,
                kind: Special::Gsi,
                wc: Opaque::new(bindings::ib_wc::default()),
                // `into_message` writes the pointers before C sees them.
                recv_wc: bindings::ib_mad_recv_wc::default(),
                short: Aligned([0; SHORT]),
                long,
            }),
            flags,
        )
    }

    /// The space for the global route header, and the MAD.
    fn data(&self) -> &[u8] {
        self.long.as_deref().unwrap_or(&self.short.0)
    }

    /// As [`data`](Self::data).
    fn data_mut(&mut self) -> &mut [u8] {
        match &mut self.long {
            Some(long) => long,
            None => &mut self.short.0,
        }
    }

    /// Maximum size of a MAD in bytes.
    pub(crate) fn mad_size(&self) -> usize {
        self.data().len().saturating_sub(GRH)
    }

    /// The space for the global route header, and the MAD.
    pub(crate) fn parts(&self) -> (&[u8; GRH], &[u8]) {
        self.data().split_first_chunk().unwrap_or((&[0; GRH], &[]))
    }

    /// The MAD.
    pub(crate) fn mad(&mut self) -> &mut [u8] {
        self.data_mut().get_mut(GRH..).unwrap_or_default()
    }

    /// The header of the MAD.
    pub(crate) fn header(&self) -> Option<wire::Header> {
        wire::Header::parse(self.parts().1)
    }

    /// Stores the completion.
    pub(crate) fn set_wc(&mut self, wc: &Wc) {
        // SAFETY: Both are valid and plain data; `&mut self` and the borrow of `wc`, which is
        // limited to one call (`OfCall`), exclude other accesses.
        unsafe { ptr::copy_nonoverlapping(wc.raw(), self.wc.get(), 1) };
    }

    /// Makes the buffer a message of one MAD of `len` bytes, with segments of size `segment`.
    /// `grh`: whether consumers see the global route header.
    pub(crate) fn into_message(
        mut self: KBox<Self>,
        len: usize,
        segment: usize,
        grh: bool,
    ) -> Received {
        // At most some thousands, so it fits.
        self.recv_wc.mad_len = i32::try_from(len).unwrap_or(i32::MAX);
        self.recv_wc.mad_seg_size = segment;
        let this = KBox::into_raw(self);
        // SAFETY: The memory is owned here, and stays in place until it is freed, as do the bytes.
        unsafe {
            let data = (*this).data_mut().as_mut_ptr();
            (*this).recv_wc.recv_buf.grh = if grh { data.cast() } else { ptr::null_mut() };
            (*this).recv_wc.recv_buf.__bindgen_anon_1.mad = data.wrapping_add(GRH).cast();
            (*this).recv_wc.wc = (*this).wc.get();
            let head = &raw mut (*this).recv_wc.rmpp_list;
            (*head).next = head;
            (*head).prev = head;
            link_after(&raw mut (*this).recv_wc.recv_buf.list, head);
            // INVARIANT: A list with this single entry.
            Received(NonNull::new_unchecked(this))
        }
    }

    /// Posts the buffer as a receive, for a slot of its queue pair. The driver may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; errors of the driver; `EINVAL` if the port has no such queue pair.
    pub(crate) fn post(
        mut self: KBox<Self>,
        live: Live<'_>,
        kind: Special,
        slot: usize,
    ) -> Result<Posted> {
        let qp = live.qp(kind).ok_or(EINVAL)?;
        let pd = live.pd().ok_or(EINVAL)?;
        self.place = slot;
        self.kind = kind;
        self.cqe.done = Some(on_received);
        let data = self.data_mut();
        let len = u32::try_from(data.len()).map_err(|_| EINVAL)?;
        let data = NonNull::from(data).cast();
        // SAFETY: `Posted` keeps the memory, and permits no access to it, until it is unmapped.
        let mapping = unsafe { Mapping::new(live, data, len, Way::FromDevice) }?;
        let mut sge = mapping.sge(pd.local_dma_lkey());
        let buffer = KBox::into_raw(self);
        let mut wr = bindings::ib_recv_wr {
            sg_list: &mut sge,
            num_sge: 1,
            ..Default::default()
        };
        // SAFETY: The memory is owned here; only the address is taken.
        wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(unsafe { &raw mut (*buffer).cqe });
        // SAFETY: The queue pair exists (`Live`); the driver copies the request, and the `cqe`
        // stays in place until the request is completed or the queue pair is gone.
        match to_result(unsafe { bindings::rdma_helper_ib_post_recv(qp.raw(), &wr) }) {
            // INVARIANT: The device owns the buffer from here on.
            Ok(()) => Ok(Posted {
                // SAFETY: `KBox::into_raw` never returns null.
                buffer: unsafe { NonNull::new_unchecked(buffer) },
                mapping,
            }),
            Err(error) => {
                // SAFETY: The driver refused the request, so the memory is still owned here, and
                // the mapping is for this device.
                unsafe {
                    mapping.unmap(live.device());
                    drop(KBox::from_raw(buffer));
                }
                Err(error)
            }
        }
    }
}

/// A receive buffer that is posted. Dropping it leaks it.
///
/// # Invariants
///
/// `buffer` comes from a `KBox` and has no other owner. Its bytes are mapped by `mapping`, for the
/// device of the port that it was posted on, and the device may write to them until its request is
/// completed or the queue pair is gone.
#[must_use = "a posted buffer must be kept until the device is done with it"]
pub(crate) struct Posted {
    buffer: NonNull<RecvMad>,
    mapping: Mapping,
}

// SAFETY: The buffer is owned by this, and not bound to a thread.
unsafe impl Send for Posted {}

impl Posted {
    /// Takes the buffer back if `came` is its completion; otherwise it is still posted.
    pub(crate) fn completed(self, live: Live<'_>, came: &Came<'_>) -> Result<KBox<RecvMad>, Self> {
        if self.buffer != came.buffer {
            return Err(self);
        }
        // SAFETY: The completion is that of the buffer's request, so the device, which is that of
        // the port (type invariant), is done with the buffer.
        Ok(unsafe { self.take(live.device()) })
    }

    /// Takes the buffer back after its queue pair is gone.
    pub(crate) fn gone(self, gone: &Gone<'_>) -> KBox<RecvMad> {
        // SAFETY: `gone`: the queue pair is gone, so the device is done with the buffer.
        unsafe { self.take(gone.device()) }
    }

    /// # Safety
    ///
    /// The device, that of the port, must be done with the buffer.
    unsafe fn take(self, device: &crate::device::Device) -> KBox<RecvMad> {
        // SAFETY: By the type invariant the buffer is owned here and mapped by `mapping`; the
        // device is done with it by the contract of this function.
        unsafe {
            self.mapping.unmap(device);
            KBox::from_raw(self.buffer.as_ptr())
        }
    }
}

/// The completion of a receive, as its callback receives it.
pub(crate) struct Came<'a> {
    /// The completion.
    pub(crate) wc: &'a Wc,
    buffer: NonNull<RecvMad>,
}

impl Came<'_> {
    /// The slot and the queue pair of the buffer, which is still posted. The port is open, so the
    /// buffer is not freed.
    pub(crate) fn slot(&self, _live: Live<'_>) -> (usize, Special) {
        // SAFETY: A `Posted` keeps the buffer until `completed`, which takes this completion, or
        // until the queue pair is gone, which cannot happen while the port is open (`Live`). The
        // two fields do not change while it is posted.
        unsafe {
            let buffer = self.buffer.as_ptr();
            ((*buffer).place, (*buffer).kind)
        }
    }
}

// SAFETY: `from_c` is for completions of requests whose callback is `on_received`: those of
// `RecvMad::post`, whose `wr_cqe` is the field of a buffer.
unsafe impl FromC for Came<'_> {
    type C = *mut bindings::ib_wc;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The completion is lent for the call; see the implementation for the buffer, of
        // which only the address is computed here.
        unsafe {
            let cqe = *(*c).__bindgen_anon_1.wr_cqe;
            Self {
                wc: Wc::view(c),
                buffer: NonNull::new_unchecked(container_of!(cqe, RecvMad, cqe)),
            }
        }
    }
}
// SAFETY: The poller lends the completion for the call.
unsafe impl<'a> Within<'a> for Came<'a> {}

rdma::callback! {
    /// Callback of the requests of [`RecvMad::post`], called by the completion queues of ports.
    fn on_received(cq: super::port::PortOf<'_>, came: Came<'_>) = incoming::received;
}

/// Inserts an entry after another.
///
/// # Safety
///
/// `after` must be in a list that the caller owns, `new` in none.
unsafe fn link_after(new: *mut bindings::list_head, after: *mut bindings::list_head) {
    // SAFETY: Entries of a list point to entries of the same list, which the caller owns.
    unsafe {
        let next = (*after).next;
        (*new).next = next;
        (*new).prev = after;
        (*next).prev = new;
        (*after).next = new;
    }
}

/// Removes an entry from its list.
///
/// # Safety
///
/// `entry` must be in a list that the caller owns.
unsafe fn unlink(entry: *mut bindings::list_head) {
    // SAFETY: Entries of a list point to entries of the same list, which the caller owns.
    unsafe {
        let (next, prev) = ((*entry).next, (*entry).prev);
        (*next).prev = prev;
        (*prev).next = next;
    }
}

/// A message: one MAD, or all received segments of a transfer. Dropping it frees it.
///
/// # Invariants
///
/// `0` is a [`RecvMad`] that [`RecvMad::into_message`] took out of its `KBox`. The entries of its
/// `rmpp_list` are such buffers, too, including itself. All of them are owned by this message, and
/// no device accesses them.
pub(crate) struct Received(NonNull<RecvMad>);

// SAFETY: By the type invariant the message owns the memory, which is not bound to a thread.
unsafe impl Send for Received {}
// SAFETY: Functions that take `&self` only read.
unsafe impl Sync for Received {}

/// The buffer of an entry of a message's list.
///
/// # Safety
///
/// `entry` must be an entry of a message's list, not its head.
unsafe fn of_entry(entry: *mut bindings::list_head) -> *mut RecvMad {
    // SAFETY: By the contract of this function, the entry is embedded in a `RecvMad`; only the
    // address is computed.
    unsafe { container_of!(entry, RecvMad, recv_wc.recv_buf.list) }
}

/// The segment number of the MAD of a list entry.
///
/// # Safety
///
/// As for [`of_entry`]; the caller must have access to the message.
unsafe fn segment_at(entry: *mut bindings::list_head) -> u32 {
    // SAFETY: By the contract of this function, the entry is that of a live buffer.
    segment_number(unsafe { &*of_entry(entry) }.parts().1)
}

fn segment_number(mad: &[u8]) -> u32 {
    rmpp::Header::parse(mad).map_or(0, |header| header.segment)
}

impl Received {
    fn first(&self) -> &RecvMad {
        // SAFETY: By the type invariant `0` is a buffer owned by this message.
        unsafe { self.0.as_ref() }
    }

    fn head(&self) -> *mut bindings::list_head {
        // SAFETY: By the type invariant `0` is a valid buffer; only the address is computed.
        unsafe { &raw mut (*self.0.as_ptr()).recv_wc.rmpp_list }
    }

    /// The first MAD.
    pub(crate) fn mad(&self) -> &[u8] {
        self.first().parts().1
    }

    /// The space for the global route header.
    pub(crate) fn grh(&self) -> &[u8; GRH] {
        self.first().parts().0
    }

    /// The completion of the first MAD.
    pub(crate) fn wc(&self) -> &Wc {
        // SAFETY: By the type invariant the buffer, and the completion in it, are owned by this
        // message.
        unsafe { Wc::view(self.first().wc.get()) }
    }

    /// The MADs, in order: one, or the segments of a transfer.
    pub(crate) fn mads(&self) -> impl Iterator<Item = &[u8]> {
        let head = self.head();
        let mut at = head;
        core::iter::from_fn(move || {
            // SAFETY: By the type invariant entries lead to entries of the list, which does not
            // change while the message is borrowed. The head is not used as an entry.
            unsafe {
                at = (*at).next;
                (at != head).then(|| (*of_entry(at)).parts().1)
            }
        })
        .fuse()
    }

    /// Length of the message in bytes.
    pub(crate) fn message_len(&self) -> i32 {
        self.first().recv_wc.mad_len
    }

    /// Sets the length of the message in bytes.
    pub(crate) fn set_len(&mut self, len: i32) {
        // SAFETY: By the type invariant `0` is a buffer owned by this message, borrowed mutably.
        unsafe { (*self.0.as_ptr()).recv_wc.mad_len = len };
    }

    /// Inserts a message of one segment of the same transfer, sorted by segment number.
    pub(crate) fn insert(&mut self, segment: Self) {
        let number = segment_number(segment.mad());
        let new = ManuallyDrop::new(segment).0.as_ptr();
        // SAFETY: By the type invariant, both messages are owned here. The list is walked backwards
        // up to the head, which is not dereferenced as an entry.
        // INVARIANT: The buffer moves from one list to the other.
        unsafe {
            let entry = &raw mut (*new).recv_wc.recv_buf.list;
            unlink(entry);
            let head = self.head();
            let mut after = (*head).prev;
            while after != head && segment_at(after) > number {
                after = (*after).prev;
            }
            link_after(entry, after);
        }
    }

    /// The payload length in the header of the last segment.
    pub(crate) fn last_length(&self) -> u32 {
        // SAFETY: By the type invariant the entries of the list are buffers of this message; the
        // list is not empty.
        let last = unsafe { &*of_entry((*self.head()).prev) };
        rmpp::Header::parse(last.parts().1).map_or(0, |header| header.length_or_window)
    }

    /// Frees the segments with a number above `number`.
    pub(crate) fn truncate(&mut self, number: u32) {
        // SAFETY: By the type invariant the entries are buffers owned by this message. The first
        // buffer, which has the head, is not freed.
        unsafe {
            let (head, first) = (
                self.head(),
                &raw mut (*self.0.as_ptr()).recv_wc.recv_buf.list,
            );
            loop {
                let last = (*head).prev;
                if last == first || segment_at(last) <= number {
                    return;
                }
                unlink(last);
                drop(KBox::from_raw(of_entry(last)));
            }
        }
    }

    /// Passes the message to a consumer, which frees it.
    pub(super) fn into_raw(self) -> *mut bindings::ib_mad_recv_wc {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariant `0` is a valid buffer; only the address is computed.
        unsafe { &raw mut (*this.0.as_ptr()).recv_wc }
    }
}

// SAFETY: `from_c` is for a whole message that a consumer received by its handler and gives back:
// `ib_free_recv_mad` in `include/rdma/ib_mad.h`.
unsafe impl FromC for Received {
    type C = *mut bindings::ib_mad_recv_wc;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: The consumer gives back what `into_raw` returned.
        // SAFETY: `c` is the `recv_wc` field of a `RecvMad`.
        Self(unsafe { NonNull::new_unchecked(container_of!(c, RecvMad, recv_wc)) })
    }
}
// SAFETY: It owns its buffers.
unsafe impl Within<'_> for Received {}

impl Drop for Received {
    fn drop(&mut self) {
        let head = self.head();
        // SAFETY: By the type invariant the entries are buffers owned by this message. The buffer
        // with the head may be anywhere in the list: the next entry is read before each one is
        // freed, and the head is only compared.
        unsafe {
            let mut entry = (*head).next;
            while entry != head {
                let next = (*entry).next;
                drop(KBox::from_raw(of_entry(entry)));
                entry = next;
            }
        }
    }
}
