// SPDX-License-Identifier: GPL-2.0

//! Receive buffers, and received MADs as consumers get them: `struct ib_mad_recv_wc` and what
//! it points to.
//!
//! ```text
//!            post                completion, or the queue pair is gone
//!   RecvMad ------> Posted (device) ------> RecvMad --into_message--> Received
//!      ^                                                                 |  hand over
//!      +------------- freed by drop <---------- ib_free_recv_mad <--- consumer
//! ```

use super::dma::zeros;
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

/// Bytes before each MAD: room for a global route header.
pub(crate) const GRH: usize = 40;

/// Room for one MAD, and what is said of it.
pub(crate) struct RecvMad {
    /// For the work request that has it.
    cqe: bindings::ib_cqe,
    /// Its slot among the receives of the queue pair, and which queue pair that is.
    slot: usize,
    kind: Special,
    wc: Opaque<bindings::ib_wc>,
    recv_wc: bindings::ib_mad_recv_wc,
    /// Room for a global route header, then the MAD.
    data: KVec<u8>,
}

impl RecvMad {
    /// Room for a MAD of so many bytes, all zeros. The context is that of `flags`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(mad_size: usize, flags: Flags) -> Result<KBox<Self>> {
        let data = zeros(GRH.checked_add(mad_size).ok_or(ENOMEM)?, flags)?;
        Ok(KBox::new(
            Self {
                cqe: bindings::ib_cqe::default(),
                slot: 0,
                kind: Special::Gsi,
                wc: Opaque::new(bindings::ib_wc::default()),
                // Pointers are written by `into_message`, before C sees them.
                recv_wc: bindings::ib_mad_recv_wc::default(),
                data,
            },
            flags,
        )?)
    }

    /// Bytes of a MAD that there is room for.
    pub(crate) fn mad_size(&self) -> usize {
        self.data.len().saturating_sub(GRH)
    }

    /// The global route header's room and the MAD.
    pub(crate) fn parts(&self) -> (&[u8; GRH], &[u8]) {
        self.data.split_first_chunk().unwrap_or((&[0; GRH], &[]))
    }

    /// The MAD.
    pub(crate) fn mad(&mut self) -> &mut [u8] {
        self.data.get_mut(GRH..).unwrap_or_default()
    }

    /// The header of the MAD.
    pub(crate) fn header(&self) -> Option<wire::Header> {
        wire::Header::parse(self.parts().1)
    }

    /// Sets the completion.
    pub(crate) fn set_wc(&mut self, wc: &Wc) {
        // SAFETY: Both are valid and plain data; `&mut self` and the borrow of `wc`, which is of
        // one call (`OfCall`), say that nobody else accesses them.
        unsafe { ptr::copy_nonoverlapping(wc.raw(), self.wc.get(), 1) };
    }

    /// Makes it a message of one MAD of `len` bytes, each segment of which has `segment`.
    /// `grh`: consumers see the header.
    pub(crate) fn into_message(
        mut self: KBox<Self>,
        len: usize,
        segment: usize,
        grh: bool,
    ) -> Received {
        let data = self.data.as_mut_ptr();
        self.recv_wc.recv_buf.grh = if grh { data.cast() } else { ptr::null_mut() };
        self.recv_wc.recv_buf.__bindgen_anon_1.mad = data.wrapping_add(GRH).cast();
        // At most some thousands.
        self.recv_wc.mad_len = i32::try_from(len).unwrap_or(i32::MAX);
        self.recv_wc.mad_seg_size = segment;
        let this = KBox::into_raw(self);
        // SAFETY: The memory is ours, and stays where it is until it is freed.
        unsafe {
            (*this).recv_wc.wc = (*this).wc.get();
            let head = &raw mut (*this).recv_wc.rmpp_list;
            (*head).next = head;
            (*head).prev = head;
            link_after(&raw mut (*this).recv_wc.recv_buf.list, head);
            // INVARIANT: A list of one.
            Received(NonNull::new_unchecked(this))
        }
    }

    /// Posts it as a receive, for the slot of its queue pair. The driver may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, the driver's; `EINVAL` if the port has no such queue pair.
    pub(crate) fn post(
        mut self: KBox<Self>,
        live: Live<'_>,
        kind: Special,
        slot: usize,
    ) -> Result<Posted> {
        let qp = live.qp(kind).ok_or(EINVAL)?;
        let pd = live.pd().ok_or(EINVAL)?;
        self.slot = slot;
        self.kind = kind;
        self.cqe.done = Some(on_received);
        let len = u32::try_from(self.data.len()).map_err(|_| EINVAL)?;
        let data = NonNull::new(self.data.as_mut_ptr()).ok_or(EINVAL)?;
        // SAFETY: `Posted` keeps the memory, and lets nobody access it, until it has undone the
        // mapping.
        let mapping = unsafe { Mapping::new(live, data, len, Way::FromDevice) }?;
        let mut sge = mapping.sge(pd.local_dma_lkey());
        let buffer = KBox::into_raw(self);
        let mut wr = bindings::ib_recv_wr {
            sg_list: &mut sge,
            num_sge: 1,
            ..Default::default()
        };
        // SAFETY: The memory is ours; only the address is taken.
        wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(unsafe { &raw mut (*buffer).cqe });
        // SAFETY: The queue pair exists (`Live`); the driver copies the request, and what it points
        // to stays until the request is completed or the queue pair is gone.
        match to_result(unsafe { bindings::rdma_helper_ib_post_recv(qp.raw(), &wr) }) {
            // INVARIANT: The device has it.
            Ok(()) => Ok(Posted {
                // SAFETY: `KBox::into_raw` gives no null.
                buffer: unsafe { NonNull::new_unchecked(buffer) },
                mapping,
            }),
            Err(error) => {
                // SAFETY: The driver did not take it, so the memory is ours as before, and the
                // mapping is of this device.
                unsafe {
                    mapping.unmap(live.device());
                    drop(KBox::from_raw(buffer));
                }
                Err(error)
            }
        }
    }
}

/// A receive buffer that the device has. Dropping it leaks it.
///
/// # Invariants
///
/// `buffer` is of a `KBox` that nobody else owns. Its bytes are mapped by `mapping`, for the device
/// of the port that it was posted on, and the device may write to them until its request is
/// completed or the queue pair is gone.
#[must_use = "a posted buffer must be kept until the device is done with it"]
pub(crate) struct Posted {
    buffer: NonNull<RecvMad>,
    mapping: Mapping,
}

// SAFETY: The buffer belongs to this, not to a thread.
unsafe impl Send for Posted {}

impl Posted {
    /// Takes the buffer back, of which `came` is the completion; otherwise it is still posted.
    pub(crate) fn completed(self, live: Live<'_>, came: &Came<'_>) -> Result<KBox<RecvMad>, Self> {
        if self.buffer != came.buffer {
            return Err(self);
        }
        // SAFETY: By the type invariant; the completion is that of its request.
        Ok(unsafe { self.take(live.device()) })
    }

    /// Takes the buffer back from a queue pair that is gone.
    pub(crate) fn gone(self, gone: &Gone<'_>) -> KBox<RecvMad> {
        // SAFETY: By the type invariant; there is no request any more.
        unsafe { self.take(gone.device()) }
    }

    /// # Safety
    ///
    /// The device, that of the port, is done with it.
    unsafe fn take(self, device: &crate::device::Device) -> KBox<RecvMad> {
        // SAFETY: By the type invariant and this function's requirement.
        unsafe {
            self.mapping.unmap(device);
            KBox::from_raw(self.buffer.as_ptr())
        }
    }
}

/// The completion of a receive, as its callback gets it.
pub(crate) struct Came<'a> {
    /// The completion.
    pub(crate) wc: &'a Wc,
    buffer: NonNull<RecvMad>,
}

impl Came<'_> {
    /// The slot and the queue pair of the buffer, which is still posted. The port is open, so that
    /// nobody frees it.
    pub(crate) fn slot(&self, _live: Live<'_>) -> (usize, Special) {
        // SAFETY: A `Posted` keeps the buffer until `completed`, which takes this completion, or
        // until the queue pair is gone, which is while the port is open (`Live`) not the case. The
        // two fields do not change while it is posted.
        unsafe {
            let buffer = self.buffer.as_ptr();
            ((*buffer).slot, (*buffer).kind)
        }
    }
}

// SAFETY: `from_c` is for completions of requests whose callback is `on_received`: those of
// `RecvMad::post`, whose `wr_cqe` is the field of a buffer.
unsafe impl FromC for Came<'_> {
    type C = *mut bindings::ib_wc;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The completion is lent for the call; see the implementation for the buffer,
        // of which only the address is computed here.
        unsafe {
            let cqe = *(*c).__bindgen_anon_1.wr_cqe;
            Self {
                wc: Wc::view(c),
                buffer: NonNull::new_unchecked(container_of!(cqe, RecvMad, cqe)),
            }
        }
    }
}
// SAFETY: The completion is lent for the call.
unsafe impl<'a> Within<'a> for Came<'a> {}

rdma::callback! {
    /// For completion queues of ports, as the callback of the requests of [`RecvMad::post`].
    fn on_received(cq: super::port::PortOf<'_>, came: Came<'_>) = incoming::received;
}

/// Puts an entry after another.
///
/// # Safety
///
/// `after` is in a list that the caller owns, `new` in none.
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

/// Takes an entry out of its list.
///
/// # Safety
///
/// It is in a list that the caller owns.
unsafe fn unlink(entry: *mut bindings::list_head) {
    // SAFETY: Entries of a list point to entries of the same list, which the caller owns.
    unsafe {
        let (next, prev) = ((*entry).next, (*entry).prev);
        (*next).prev = prev;
        (*prev).next = next;
    }
}

/// A message: one MAD, or all that came of a transfer. Dropping it frees it.
///
/// # Invariants
///
/// `0` is a [`RecvMad`] that [`RecvMad::into_message`] took out of its `KBox`. The entries of its
/// `rmpp_list` are such, too, itself among them. All of them are this message's alone, and no
/// device accesses them.
pub(crate) struct Received(NonNull<RecvMad>);

// SAFETY: By the type invariant the memory is the message's, and belongs to no thread.
unsafe impl Send for Received {}
// SAFETY: Functions that take `&self` only read.
unsafe impl Sync for Received {}

/// The buffer that has an entry of a message's list.
///
/// # Safety
///
/// The entry is one of a message's list, not the head.
unsafe fn of_entry(entry: *mut bindings::list_head) -> *mut RecvMad {
    // SAFETY: By this function's requirement; only the address is computed.
    unsafe { container_of!(entry, RecvMad, recv_wc.recv_buf.list) }
}

/// The segment number of the MAD that has an entry of a list.
///
/// # Safety
///
/// As for [`of_entry`]; the caller has the message.
unsafe fn segment_at(entry: *mut bindings::list_head) -> u32 {
    // SAFETY: By this function's requirement.
    segment_number(unsafe { &*of_entry(entry) }.parts().1)
}

fn segment_number(mad: &[u8]) -> u32 {
    rmpp::Header::parse(mad).map_or(0, |header| header.segment)
}

impl Received {
    fn first(&self) -> &RecvMad {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }

    fn head(&self) -> *mut bindings::list_head {
        // SAFETY: By the type invariant; only the address is computed.
        unsafe { &raw mut (*self.0.as_ptr()).recv_wc.rmpp_list }
    }

    /// The first MAD.
    pub(crate) fn mad(&self) -> &[u8] {
        self.first().parts().1
    }

    /// The room of the global route header.
    pub(crate) fn grh(&self) -> &[u8; GRH] {
        self.first().parts().0
    }

    /// The completion of the first MAD.
    pub(crate) fn wc(&self) -> &Wc {
        // SAFETY: By the type invariant; the copy of the completion is the message's.
        unsafe { Wc::view(self.first().wc.get()) }
    }

    /// The MADs, in their order: one, or the segments of a transfer.
    pub(crate) fn mads(&self) -> impl Iterator<Item = &[u8]> {
        let head = self.head();
        let mut at = head;
        core::iter::from_fn(move || {
            // SAFETY: By the type invariant: entries lead to entries of the list, which does not
            // change while the message is borrowed. The head is not taken for an entry.
            unsafe {
                at = (*at).next;
                (at != head).then(|| (*of_entry(at)).parts().1)
            }
        })
        .fuse()
    }

    /// How long the message is, in bytes.
    pub(crate) fn message_len(&self) -> i32 {
        self.first().recv_wc.mad_len
    }

    /// Sets how long the message is, in bytes.
    pub(crate) fn set_len(&mut self, len: i32) {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).recv_wc.mad_len = len };
    }

    /// Adds a message of one segment of the same transfer, in its place.
    pub(crate) fn insert(&mut self, segment: Self) {
        let number = segment_number(segment.mad());
        let new = ManuallyDrop::new(segment).0.as_ptr();
        // SAFETY: By the type invariant, both messages are ours. Their lists are walked from the
        // end to the head, which is not dereferenced as an entry.
        // INVARIANT: The buffer moves from the one list to the other.
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

    /// The length that is in the header of the last segment.
    pub(crate) fn last_length(&self) -> u32 {
        // SAFETY: By the type invariant; the list is not empty.
        let last = unsafe { &*of_entry((*self.head()).prev) };
        rmpp::Header::parse(last.parts().1).map_or(0, |header| header.length_or_window)
    }

    /// Frees the segments after this one.
    pub(crate) fn truncate(&mut self, number: u32) {
        // SAFETY: By the type invariant. The first buffer, which has the head, is not freed.
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

    /// Gives it to a consumer, who frees it.
    pub(super) fn into_raw(self) -> *mut bindings::ib_mad_recv_wc {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariant; only the address is computed.
        unsafe { &raw mut (*this.0.as_ptr()).recv_wc }
    }
}

// SAFETY: `from_c` is for a message that a consumer got by its handler, whole, and gives back:
// `ib_free_recv_mad` in `include/rdma/ib_mad.h`.
unsafe impl FromC for Received {
    type C = *mut bindings::ib_mad_recv_wc;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: The consumer gives back what `into_raw` gave.
        // SAFETY: It is the field of a `RecvMad`.
        Self(unsafe { NonNull::new_unchecked(container_of!(c, RecvMad, recv_wc)) })
    }
}
// SAFETY: It owns what it refers to.
unsafe impl Within<'_> for Received {}

impl Drop for Received {
    fn drop(&mut self) {
        let head = self.head();
        // SAFETY: By the type invariant. The buffer that has the head may be anywhere in the list:
        // the next entry is read before each is freed, and the head is only compared.
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
