// SPDX-License-Identifier: GPL-2.0

//! Packet buffers (skbs).
//!
//! [`NewSkb`] is a buffer under construction: it and its data are not shared, so it can be written.
//! [`Skb`] is any buffer that is owned; its data may be shared with clones and is only read. Drop
//! frees both, in any context except a hard interrupt.
//!
//! A buffer has 48 bytes of scratch space for its owner. The first [`CB_LEN`] are accessed by
//! [`Skb::set_cb`]; the last eight link the buffers of an [`SkbQueue`].
//!
//! C header: `include/linux/skbuff.h`.

use core::mem::ManuallyDrop;
use core::mem::MaybeUninit;
use core::ptr;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;

use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::rcu;

use zerocopy::FromBytes;
use zerocopy::Immutable;
use zerocopy::IntoBytes;

use super::device::NetDevice;
use crate::bindings;
use crate::module::Last;

/// Bytes of scratch space for the user of an [`Skb`].
pub const CB_LEN: usize = 40;

/// `ETH_P_IP`.
pub const PROTOCOL_IPV4: u16 = 0x0800;
/// `ETH_P_IPV6`.
pub const PROTOCOL_IPV6: u16 = 0x86dd;

/// Converts a number of bytes to `usize`.
#[inline]
const fn size(bytes: u32) -> usize {
    // CAST: `usize` has at least 32 bits on machines with a network stack.
    bytes as usize
}

/// An owned reference to a packet buffer.
///
/// # Invariants
///
/// The pointer is valid and owns a reference to the buffer; no other reference is used to change
/// it.
pub struct Skb(NonNull<bindings::sk_buff>);

// SAFETY: A buffer is not bound to a CPU.
unsafe impl Send for Skb {}
// SAFETY: Methods with `&self` only read the buffer, as do the C functions that they call.
unsafe impl Sync for Skb {}

impl Skb {
    /// Takes over a buffer from C.
    ///
    /// # Safety
    ///
    /// The caller must pass a reference that it owns, and no other reference may be used to change
    /// the buffer.
    #[inline]
    pub unsafe fn from_raw(ptr: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: Guaranteed by the caller (contract of this function).
        Self(ptr)
    }

    /// Passes the buffer to C.
    #[inline]
    pub fn into_raw(self) -> NonNull<bindings::sk_buff> {
        ManuallyDrop::new(self).0
    }

    /// Returns the C structure, which exists as long as `self`.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    /// Returns the data pointer, and the number of bytes of the packet in the linear part of the
    /// buffer.
    #[inline]
    fn linear(&self) -> (*mut u8, usize) {
        let skb = self.as_raw();
        // SAFETY: The buffer is valid, and is not changed by others (type invariant).
        let (data, len, data_len) = unsafe { ((*skb).data, (*skb).len, (*skb).data_len) };
        (data, size(len.saturating_sub(data_len)))
    }

    /// Returns the number of bytes in the packet, from the data pointer on.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: The buffer is valid (type invariant), and its length is not changed by others.
        size(unsafe { (*self.as_raw()).len })
    }

    /// Returns whether the packet is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory that the buffer uses, in bytes, including headers and unused space.
    #[inline]
    pub fn memory(&self) -> usize {
        // SAFETY: The buffer is valid (type invariant), and its size is not changed by others.
        size(unsafe { (*self.as_raw()).truesize })
    }

    /// Returns whether part of the packet is in fragments, outside the linear part.
    #[inline]
    pub fn is_nonlinear(&self) -> bool {
        // SAFETY: The buffer is valid (type invariant), and its length is not changed by others.
        unsafe { (*self.as_raw()).data_len != 0 }
    }

    /// Moves all of the packet into the linear part. Softirq.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    #[inline]
    pub fn linearize(&mut self) -> Result {
        // SAFETY: The buffer is valid, and changed through this reference only (type invariant).
        to_result(unsafe { bindings::rdma_helper_skb_linearize(self.as_raw()) })
    }

    /// Returns the packet from the data pointer on, as far as it is in the linear part.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let (data, len) = self.linear();
        // SAFETY:
        // - `data` points to `len` bytes of the buffer, all of which are initialised;
        // - the data of a buffer is not written once it was passed to its receiver.
        unsafe { slice::from_raw_parts(data, len) }
    }

    /// Returns a pointer to the network header, and the number of bytes from there to the data
    /// pointer. `None` if the header is behind the data pointer.
    #[inline]
    fn network_header(&self) -> Option<(*mut u8, usize)> {
        // SAFETY: The buffer is valid (type invariant).
        let before = unsafe { bindings::rdma_helper_skb_before_data(self.as_raw()) };
        let before = usize::try_from(before).ok()?;
        // SAFETY: `before` bytes are between the network header and the data pointer, inside the
        // buffer: the helper has checked it.
        Some((unsafe { self.linear().0.sub(before) }, before))
    }

    /// Returns the linear part of the packet from the network header on, and the number of bytes
    /// from there to the data pointer. `None` if the network header is behind the data pointer.
    #[inline]
    pub fn from_network_header(&self) -> Option<(&[u8], usize)> {
        let (start, before) = self.network_header()?;
        // OVERFLOW: Bytes of one buffer.
        let len = before.wrapping_add(self.linear().1);
        // SAFETY: The bytes from the network header to the data pointer directly precede those of
        // `data`, and are initialised and not written, like those.
        let all = unsafe { slice::from_raw_parts(start, len) };
        Some((all, before))
    }

    /// [`Self::from_network_header`], mutably: `None` also if the data is shared, for example with
    /// packet sockets.
    #[inline]
    pub fn from_network_header_mut(&mut self) -> Option<(&mut [u8], usize)> {
        // SAFETY: The buffer is valid (type invariant).
        if unsafe { bindings::rdma_helper_skb_cloned(self.as_raw()) } {
            return None;
        }
        let (start, before) = self.network_header()?;
        // OVERFLOW: Bytes of one buffer.
        let len = before.wrapping_add(self.linear().1);
        // SAFETY: The bytes belong to data that is not shared with a clone, as checked, and the
        // buffer is mutably borrowed.
        Some((unsafe { slice::from_raw_parts_mut(start, len) }, before))
    }

    /// [`Self::from_network_header_mut`], if the network header is `before` bytes in front of the
    /// data pointer; otherwise `None`.
    #[inline]
    pub fn from_network_header_at_mut(&mut self, before: usize) -> Option<&mut [u8]> {
        let count = u32::try_from(before).ok()?;
        // SAFETY: The buffer is valid (type invariant).
        let writable = unsafe {
            bindings::rdma_helper_skb_is_before_data(self.as_raw(), count)
                && !bindings::rdma_helper_skb_cloned(self.as_raw())
        };
        if !writable {
            return None;
        }
        let (data, len) = self.linear();
        // SAFETY:
        // - the network header is inside the buffer, `before` bytes in front of the data pointer;
        // - the bytes are initialised, and not shared with a clone, as checked;
        // - the buffer is mutably borrowed.
        // OVERFLOW: Bytes of one buffer.
        Some(unsafe { slice::from_raw_parts_mut(data.sub(before), before.wrapping_add(len)) })
    }

    /// Returns the `len` bytes in front of the data pointer; `None` if the buffer does not contain
    /// them.
    #[inline]
    pub fn before_data(&self, len: usize) -> Option<&[u8]> {
        let (data, _) = self.linear();
        // SAFETY: The buffer is valid (type invariant), and the field does not change.
        let head = unsafe { (*self.as_raw()).head };
        if data.addr().wrapping_sub(head.addr()) < len {
            return None;
        }
        // SAFETY: `head` is the start of the buffer, and not behind `data`. The bytes between them
        // come from C's allocator, so they have a value for the compiler, and are not written any
        // more.
        Some(unsafe { slice::from_raw_parts(data.sub(len), len) })
    }

    /// Removes `len` bytes from the front. `None`, with nothing changed, if the linear part has
    /// fewer.
    #[inline]
    pub fn pull(&mut self, len: usize) -> Option<()> {
        if len > self.data().len() {
            return None;
        }
        let len = u32::try_from(len).ok()?;
        // SAFETY: The buffer is changed through this reference only (type invariant), and has that
        // many bytes in its linear part.
        unsafe { bindings::rdma_helper_skb_pull(self.as_raw(), len) };
        Some(())
    }

    /// Undoes [`Self::pull`] of `len` bytes. `None`, with nothing changed, if the network header does
    /// not start there.
    #[inline]
    pub(super) fn unpull(&mut self, len: usize) -> Option<()> {
        let len = u32::try_from(len).ok()?;
        // SAFETY: The buffer is changed through this reference only (type invariant). The network
        // header is inside the buffer, so there is as much headroom, as checked.
        unsafe {
            if !bindings::rdma_helper_skb_is_before_data(self.as_raw(), len) {
                return None;
            }
            bindings::rdma_helper_skb_push(self.as_raw(), len);
        }
        Some(())
    }

    /// Returns another buffer with the same data, which is not written through either. Its scratch
    /// space is its own. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub fn try_clone(&mut self) -> Result<Self> {
        // SAFETY: The buffer is valid (type invariant). Cloning marks it as shared, by a plain
        // write, for which it is mutably borrowed.
        let skb = unsafe { bindings::rdma_helper_skb_clone(self.as_raw(), bindings::GFP_ATOMIC) };
        // INVARIANT: The function returned the only reference to a new buffer.
        NonNull::new(skb).map(Self).ok_or(ENOMEM)
    }

    /// Returns the network layer protocol (`ETH_P_*`), in native byte order.
    #[inline]
    pub fn protocol(&self) -> u16 {
        // SAFETY: The buffer is valid (type invariant).
        u16::from_be(unsafe { bindings::rdma_helper_skb_protocol(self.as_raw()) })
    }

    /// Returns the device that received the packet, if any.
    ///
    /// # Safety
    ///
    /// The buffer must have been received in the RCU read-side critical section of `_rcu`, so that
    /// the device still exists.
    #[inline]
    pub(super) unsafe fn dev<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        // SAFETY: The buffer is valid (type invariant).
        let dev = unsafe { bindings::rdma_helper_skb_dev(self.as_raw()) };
        // SAFETY: RCU keeps the device (contract of this function).
        (!dev.is_null()).then(|| unsafe { NetDevice::from_raw(dev) })
    }

    /// Detaches a received buffer from its socket, route and device, so that it can be kept.
    /// Softirq.
    #[inline]
    pub fn detach(&mut self) {
        // SAFETY: The buffer is valid, and changed through this reference only (type invariant).
        unsafe {
            bindings::rdma_helper_skb_orphan(self.as_raw());
            bindings::rdma_helper_skb_dst_drop(self.as_raw());
            bindings::rdma_helper_skb_set_dev(self.as_raw(), ptr::null_mut());
        }
    }

    /// Reads the scratch space as a `T`.
    #[inline]
    pub fn cb<T: FromBytes>(&self) -> T {
        const { assert!(size_of::<T>() <= CB_LEN) };
        // SAFETY: The scratch space has as many bytes, and `T` permits any values of them.
        unsafe {
            (&raw const (*self.as_raw()).cb)
                .cast::<T>()
                .read_unaligned()
        }
    }

    /// Writes `value` to the scratch space.
    #[inline]
    pub fn set_cb<T: IntoBytes + Immutable>(&mut self, value: T) {
        const { assert!(size_of::<T>() <= CB_LEN) };
        // SAFETY: The buffer is changed through this reference only (type invariant), and its
        // scratch space is large enough.
        unsafe {
            let cb: *mut T = ptr::addr_of_mut!((*self.as_raw()).cb).cast();
            cb.write_unaligned(value);
        }
    }

    /// Frees a buffer whose packet could not be used, which drop monitors report. A plain drop
    /// means that the packet was processed.
    #[inline]
    pub fn discard(self) {
        // SAFETY: The reference is owned (type invariant), and passed to the function.
        unsafe { bindings::rdma_helper_kfree_skb(self.into_raw().as_ptr()) };
    }

    /// Returns the address of the link of an [`SkbQueue`].
    #[inline]
    fn link(skb: NonNull<bindings::sk_buff>) -> *mut *mut bindings::sk_buff {
        // SAFETY: The result is an address inside the structure, `CB_LEN` bytes into the 48 of
        // `cb`; nothing is accessed.
        unsafe {
            ptr::addr_of_mut!((*skb.as_ptr()).cb)
                .cast::<u8>()
                .add(CB_LEN)
                .cast()
        }
    }
}

impl Drop for Skb {
    #[inline]
    fn drop(&mut self) {
        // With bottom halves disabled, the buffer goes to the CPU's stock, from which the next
        // buffer is allocated (`helpers/buffers.c`).
        // SAFETY: The reference is owned (type invariant), and passed to the function.
        unsafe { bindings::rdma_helper_consume_skb(self.as_raw()) };
    }
}

/// Frees the buffers that CPUs keep for later packets (`helpers/buffers.c`). A module with packet
/// buffers has one, by [`resident_module!`](crate::resident_module).
///
/// # Invariants
///
/// When it is dropped, no other code of the module runs, nor will.
#[must_use = "its drop frees the buffers"]
pub struct Stock(());

impl Last for Stock {
    unsafe fn new() -> Self {
        // INVARIANT: Guaranteed by the caller (contract of this function).
        Self(())
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        // SAFETY: No code of the module that allocates or frees buffers runs (type invariant).
        unsafe { bindings::rdma_helper_skb_empty_stock() };
    }
}

/// A packet buffer under construction.
///
/// # Invariants
///
/// It has the only reference to the buffer and to its data. All of the packet is in the linear part,
/// and has been written.
pub struct NewSkb(Skb);

impl NewSkb {
    /// Allocates a buffer with `head` bytes in front of the data pointer and `size` behind it. Does
    /// not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if the size is too large.
    #[inline]
    pub fn alloc(head: usize, size: usize) -> Result<Self> {
        let head = u32::try_from(head).map_err(|_| ENOMEM)?;
        let size = u32::try_from(size).map_err(|_| ENOMEM)?;
        head.checked_add(size).ok_or(ENOMEM)?;
        // SAFETY: The function accepts any sizes whose sum does not overflow, as checked, and any
        // flags.
        let skb = unsafe { bindings::rdma_helper_skb_new(head, size, bindings::GFP_ATOMIC) };
        // INVARIANT: The buffer is new.
        Ok(Self(Skb(NonNull::new(skb).ok_or(ENOMEM)?)))
    }

    /// Extends the packet by `len` bytes of zero, and returns them.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the buffer has no room for them.
    #[inline]
    pub fn append_zeroed(&mut self, len: usize) -> Result<&mut [u8]> {
        let count = u32::try_from(len).map_err(|_| ENOSPC)?;
        // SAFETY: The buffer is not shared, and linear (type invariant).
        let start = unsafe { bindings::rdma_helper_skb_put(self.0.as_raw(), count) };
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(ENOSPC)?;
        // INVARIANT: The packet was extended by `len` bytes, which are written here.
        // SAFETY: `start` points to them; the buffer is not shared (type invariant), and mutably
        // borrowed.
        unsafe {
            start.write_bytes(0, len);
            Ok(slice::from_raw_parts_mut(start.as_ptr(), len))
        }
    }

    /// Extends the packet by `len` bytes that `write` writes. It returns the slice that it is given,
    /// initialised: a packet has no byte with what the memory had before.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the buffer has no room for them; `EINVAL` if `write` returns another slice; and
    /// the errors of `write`. The packet is not extended then.
    #[inline]
    pub fn append<E: From<Error>>(
        &mut self,
        len: usize,
        write: impl for<'w> FnOnce(&'w mut [MaybeUninit<u8>]) -> Result<&'w mut [u8], E>,
    ) -> Result<(), E> {
        let count = u32::try_from(len).map_err(|_| ENOSPC)?;
        // SAFETY: The buffer is not shared, and linear (type invariant).
        let start = unsafe { bindings::rdma_helper_skb_tail(self.0.as_raw(), count) };
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(ENOSPC)?;
        // SAFETY: The buffer has `len` bytes at `start`, behind the packet; it is not shared (type
        // invariant), and mutably borrowed.
        let room = unsafe { slice::from_raw_parts_mut(start.cast().as_ptr(), len) };
        let written = write(room)?;
        if written.as_ptr() != start.as_ptr() || written.len() != len {
            return Err(EINVAL.into());
        }
        // INVARIANT: The packet is extended by the bytes at `start`, of which an initialised slice
        // has been returned.
        // SAFETY: The buffer is not shared, and linear (type invariant).
        unsafe { bindings::rdma_helper_skb_put(self.0.as_raw(), count) };
        Ok(())
    }

    /// Returns the number of bytes in the packet.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the packet is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the whole packet.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let (data, len) = self.0.linear();
        // SAFETY: The packet is linear, not shared, and has been written (type invariant).
        unsafe { slice::from_raw_parts_mut(data, len) }
    }

    /// Sets the protocol (`ETH_P_*`, in native byte order), the network header at the start, and
    /// the transport header `network_len` bytes behind it.
    #[inline]
    pub fn set_headers(&mut self, protocol: u16, network_len: u16) {
        // SAFETY: The buffer is valid and not shared (type invariant).
        unsafe {
            let protocol = protocol.to_be();
            let transport = network_len.into();
            bindings::rdma_helper_skb_set_headers(self.0.as_raw(), protocol, 0, transport);
        }
    }

    /// Returns the C structure, which exists as long as `self`.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_raw()
    }

    /// Ends the construction.
    #[inline]
    pub fn finish(self) -> Skb {
        self.0
    }
}

/// A lockless queue of buffers, with any number of producers and one consumer at a time. Any
/// context.
///
/// # Invariants
///
/// `newest` is null or a buffer that the queue owns, whose link points to the next older one, and
/// so on.
pub struct SkbQueue {
    newest: AtomicPtr<bindings::sk_buff>,
    len: AtomicU32,
}

impl SkbQueue {
    /// Creates an empty queue.
    pub const fn new() -> Self {
        Self {
            newest: AtomicPtr::new(ptr::null_mut()),
            len: AtomicU32::new(0),
        }
    }

    /// Returns the approximate number of buffers.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns whether the queue is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Acquire).is_null()
    }

    /// Appends a buffer. Returns whether the queue was empty before; the consumer must be woken
    /// then.
    #[inline]
    pub fn push(&self, skb: Skb) -> bool {
        let skb = skb.into_raw();
        let link = Skb::link(skb);
        let _: u32 = self.len.fetch_add(1, Ordering::Relaxed);
        let mut older = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: The buffer is not in the queue yet, so it is accessed only here.
            unsafe { link.write_unaligned(older) };
            // Release: the buffer's contents are written before it is published.
            match self.newest.compare_exchange_weak(
                older,
                skb.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return older.is_null(),
                Err(now) => older = now,
            }
        }
    }

    /// Takes all buffers from the queue, oldest first.
    #[inline]
    pub fn take_all(&self) -> SkbBatch {
        // Acquire: pairs with the release in `push`.
        let mut newest = self.newest.swap(ptr::null_mut(), Ordering::Acquire);
        let mut oldest = ptr::null_mut();
        let mut count = 0u32;
        while let Some(skb) = NonNull::new(newest) {
            let link = Skb::link(skb);
            // SAFETY: The chain belonged to the queue (type invariant), and was taken from it here.
            unsafe {
                newest = link.read_unaligned();
                link.write_unaligned(oldest);
            }
            oldest = skb.as_ptr();
            count = count.wrapping_add(1);
        }
        let _: u32 = self.len.fetch_sub(count, Ordering::Relaxed);
        SkbBatch(oldest)
    }
}

impl Default for SkbQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SkbQueue {
    fn drop(&mut self) {
        drop(self.take_all());
    }
}

/// Buffers taken from a queue, oldest first. Drop frees those that remain.
///
/// # Invariants
///
/// The pointer is null or a buffer that the batch owns, whose link points to the next newer one,
/// and so on.
pub struct SkbBatch(*mut bindings::sk_buff);

// SAFETY: Buffers are not bound to a CPU.
unsafe impl Send for SkbBatch {}

impl Iterator for SkbBatch {
    type Item = Skb;

    #[inline]
    fn next(&mut self) -> Option<Skb> {
        let skb = NonNull::new(self.0)?;
        // SAFETY: The batch owns the buffer (type invariant).
        self.0 = unsafe { Skb::link(skb).read_unaligned() };
        // INVARIANT: The buffer was removed from the batch.
        Some(Skb(skb))
    }
}

impl Drop for SkbBatch {
    fn drop(&mut self) {
        for skb in self.by_ref() {
            drop(skb);
        }
    }
}
