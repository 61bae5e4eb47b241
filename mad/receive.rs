// SPDX-License-Identifier: GPL-2.0

//! MADs that came, as consumers get them: `struct ib_mad_recv_wc` and what it points to.

use super::buffer::Buffer;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::container_of;
use kernel::prelude::*;
use rdma::bindings;

use crate::proto::mad::rmpp;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Special;

/// Bytes before each MAD: room for a global route header.
pub(super) const GRH: usize = 40;

/// Room for one MAD, and what is said of it.
pub(super) struct RecvMad {
    /// For the work request that has it.
    pub(super) cqe: bindings::ib_cqe,
    /// Its place among what the queue pair has, and which that is.
    pub(super) slot: usize,
    pub(super) kind: Special,
    wc: bindings::ib_wc,
    recv_wc: bindings::ib_mad_recv_wc,
    data: Buffer,
}

/// An empty list.
fn init_list(head: *mut bindings::list_head) {
    // SAFETY: The caller owns it.
    unsafe {
        (*head).next = head;
        (*head).prev = head;
    }
}

impl RecvMad {
    /// Room for a MAD of so many bytes; the rest of it is zeros.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(mad_size: usize, flags: Flags) -> Result<KBox<Self>> {
        let data = Buffer::new(GRH.checked_add(mad_size).ok_or(ENOMEM)?, flags)?;
        Ok(KBox::new(
            Self {
                cqe: bindings::ib_cqe::default(),
                slot: 0,
                kind: Special::Gsi,
                // SAFETY: Zeros are one.
                wc: unsafe { core::mem::zeroed() },
                // SAFETY: As above; pointers are written before anybody follows them.
                recv_wc: unsafe { core::mem::zeroed() },
                data,
            },
            flags,
        )?)
    }

    /// What the device writes to: header room and MAD.
    pub(super) const fn area(&self) -> &Buffer {
        &self.data
    }

    /// Where the MAD is.
    pub(super) fn mad_ptr(&self) -> *mut u8 {
        self.data.as_ptr().wrapping_add(GRH)
    }

    /// Bytes of a MAD that there is room for.
    pub(super) const fn mad_size(&self) -> usize {
        self.data.len() - GRH
    }

    /// Where the global route header is.
    pub(super) fn grh_ptr(&self) -> *mut bindings::ib_grh {
        self.data.as_ptr().cast()
    }

    /// The MAD. It is with neither device nor consumer.
    pub(super) fn mad(&mut self) -> &mut [u8] {
        // SAFETY: A buffer that is owned here is with nobody else: `post` and `into_raw`
        // give it away.
        let bytes = unsafe { self.data.bytes_mut() };
        bytes.get_mut(GRH..).unwrap_or_default()
    }

    /// All of it, header room included.
    pub(super) fn all(&mut self) -> &mut [u8] {
        // SAFETY: As above.
        unsafe { self.data.bytes_mut() }
    }

    /// The header of the MAD.
    pub(super) fn header(&mut self) -> Option<wire::Header> {
        wire::Header::parse(self.mad())
    }

    /// The completion.
    pub(super) fn set_wc(&mut self, wc: &bindings::ib_wc) {
        // SAFETY: Plain data.
        self.wc = unsafe { ptr::read(wc) };
    }

    /// Makes it a message of one MAD of so many bytes, each segment of which has
    /// `segment`. `grh`: consumers see the header.
    pub(super) fn into_message(
        mut self: KBox<Self>,
        len: usize,
        segment: usize,
        grh: bool,
    ) -> Received {
        let mad = self.mad_ptr();
        self.recv_wc.recv_buf.grh = if grh { self.grh_ptr() } else { ptr::null_mut() };
        self.recv_wc.recv_buf.__bindgen_anon_1.mad = mad.cast();
        // At most some thousands.
        self.recv_wc.mad_len = len as i32;
        self.recv_wc.mad_seg_size = segment;
        let this = KBox::into_raw(self);
        // SAFETY: It is ours, and stays where it is from now on.
        unsafe {
            (*this).recv_wc.wc = &raw mut (*this).wc;
            let head = &raw mut (*this).recv_wc.rmpp_list;
            init_list(head);
            link_after(&raw mut (*this).recv_wc.recv_buf.list, head);
        }
        // INVARIANT: A list of one.
        Received(NonNull::from(
            // SAFETY: As above.
            unsafe { &mut *this },
        ))
    }
}

/// Puts an entry after another.
///
/// # Safety
///
/// `after` is in a list that the caller owns, `new` in none.
unsafe fn link_after(new: *mut bindings::list_head, after: *mut bindings::list_head) {
    // SAFETY: By this function's duty.
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
    // SAFETY: By this function's duty.
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
/// A [`RecvMad`] of ours, made by [`RecvMad::into_message`]. Its list `rmpp_list` has that
/// and others like it, which are ours, too.
pub(super) struct Received(NonNull<RecvMad>);

// SAFETY: What it has belongs to no thread.
unsafe impl core::marker::Send for Received {}
// SAFETY: Shared references only read.
unsafe impl Sync for Received {}

/// The MAD that has an entry of a list.
///
/// # Safety
///
/// It is one of a message.
unsafe fn of_entry(entry: *mut bindings::list_head) -> *mut RecvMad {
    // SAFETY: By this function's duty.
    unsafe { container_of!(entry, RecvMad, recv_wc.recv_buf.list) }
}

impl Received {
    fn head(&self) -> *mut bindings::list_head {
        // SAFETY: By the type invariant; the pointer is only computed.
        unsafe { &raw mut (*self.0.as_ptr()).recv_wc.rmpp_list }
    }

    /// The first MAD.
    pub(super) fn mad(&self) -> &[u8] {
        // SAFETY: By the type invariant it is ours.
        unsafe { bytes_of(self.0.as_ptr()) }
    }

    /// The global route header's room.
    pub(super) fn grh(&self) -> *const bindings::ib_grh {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).grh_ptr() }
    }

    /// The same, as bytes.
    pub(super) fn grh_bytes(&self) -> [u8; GRH] {
        // SAFETY: By the type invariant it is ours, and has as many bytes.
        unsafe { self.grh().cast::<[u8; GRH]>().read() }
    }

    /// The completion of the first MAD.
    pub(super) fn wc(&self) -> &bindings::ib_wc {
        // SAFETY: By the type invariant.
        unsafe { &(*self.0.as_ptr()).wc }
    }

    /// Sets how long the message is, in bytes.
    pub(super) fn set_len(&mut self, len: i32) {
        // SAFETY: By the type invariant it is ours.
        unsafe { (*self.0.as_ptr()).recv_wc.mad_len = len };
    }

    /// Adds a message of one segment of the same transfer, in its place.
    pub(super) fn insert(&mut self, segment: Self) {
        let number = segment_number(segment.mad());
        let new = ManuallyDrop::new(segment).0.as_ptr();
        // SAFETY: Both are ours; the list is walked within itself, from its end.
        unsafe {
            let entry = &raw mut (*new).recv_wc.recv_buf.list;
            // Out of its own list, which nobody has any more.
            unlink(entry);
            let head = self.head();
            let mut after = (*head).prev;
            while after != head && segment_number(bytes_of(of_entry(after))) > number {
                after = (*after).prev;
            }
            link_after(entry, after);
        }
    }

    /// The length that is in the header of the last segment.
    pub(super) fn last_length(&self) -> u32 {
        // SAFETY: By the type invariant.
        let last = unsafe { bytes_of(of_entry((*self.head()).prev)) };
        rmpp::Header::parse(last).map_or(0, |header| header.length_or_window)
    }

    /// Frees the segments after this one.
    pub(super) fn truncate(&mut self, number: u32) {
        // SAFETY: By the type invariant; the first stays, as it has the list.
        unsafe {
            let (head, first) = (
                self.head(),
                &raw mut (*self.0.as_ptr()).recv_wc.recv_buf.list,
            );
            loop {
                let last = (*head).prev;
                if last == first || segment_number(bytes_of(of_entry(last))) <= number {
                    return;
                }
                unlink(last);
                drop(KBox::from_raw(of_entry(last)));
            }
        }
    }

    /// For a consumer, who frees it.
    pub(super) fn into_raw(self) -> *mut bindings::ib_mad_recv_wc {
        let this = ManuallyDrop::new(self);
        // SAFETY: By the type invariant; the pointer is only computed.
        unsafe { &raw mut (*this.0.as_ptr()).recv_wc }
    }

    /// From a consumer.
    ///
    /// # Safety
    ///
    /// It is one that [`into_raw`](Self::into_raw) gave, and the consumer forgets it; what
    /// its list has was given the same way.
    pub(super) unsafe fn from_raw(recv_wc: *mut bindings::ib_mad_recv_wc) -> Self {
        // SAFETY: By this function's duty.
        let this = unsafe { container_of!(recv_wc, RecvMad, recv_wc) };
        // INVARIANT: By this function's duty.
        // SAFETY: As above.
        Self(unsafe { NonNull::new_unchecked(this) })
    }
}

/// # Safety
///
/// `mad` is one of a message, which stays.
unsafe fn bytes_of<'a>(mad: *mut RecvMad) -> &'a [u8] {
    // SAFETY: By this function's duty; the device is done with it.
    unsafe { (*mad).data.bytes() }
        .get(GRH..)
        .unwrap_or_default()
}

fn segment_number(mad: &[u8]) -> u32 {
    rmpp::Header::parse(mad).map_or(0, |header| header.segment)
}

impl Drop for Received {
    fn drop(&mut self) {
        let head = self.head();
        // SAFETY: By the type invariant all are ours. The one that has the head of the list
        // may be anywhere in it: the entry after is read before each is freed, and the head
        // is only compared.
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
