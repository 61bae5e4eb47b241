// SPDX-License-Identifier: GPL-2.0

//! Packet buffers.
//!
//! [`NewSkb`] is a buffer under construction: nobody else has it or its data, so
//! it can be written. [`Skb`] is any buffer that we own; its data may be shared
//! with clones and is only read. Both are freed when dropped, in any context but
//! a hard interrupt.
//!
//! A buffer has 48 bytes of scratch space that belong to its owner. The first
//! [`CB_LEN`] are for the user, by [`Skb::set_cb`]; the last eight link buffers
//! in an [`SkbQueue`].
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

/// Bytes of scratch space for the user of an [`Skb`].
pub const CB_LEN: usize = 40;

/// `ETH_P_IP`.
pub const PROTOCOL_IPV4: u16 = 0x0800;
/// `ETH_P_IPV6`.
pub const PROTOCOL_IPV6: u16 = 0x86dd;

/// A count of bytes as the `usize` it fits in.
#[inline]
const fn size(bytes: u32) -> usize {
    // CAST: `usize` has 32 bits or more wherever there is a network stack.
    bytes as usize
}

/// A packet buffer that we own.
///
/// # Invariants
///
/// The pointer is valid and owns a reference to the buffer; no other reference is
/// used to change it.
pub struct Skb(NonNull<bindings::sk_buff>);

// SAFETY: A buffer belongs to whoever has it, on any CPU.
unsafe impl Send for Skb {}
// SAFETY: Methods with `&self` only read, C's functions that they call too.
unsafe impl Sync for Skb {}

impl Skb {
    /// Takes over a buffer from C.
    ///
    /// # Safety
    ///
    /// The caller passes on a reference that it owns, and no other is used to change
    /// the buffer.
    #[inline]
    pub unsafe fn from_raw(ptr: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: By the caller's promise.
        Self(ptr)
    }

    /// Hands the buffer over to C.
    #[inline]
    pub fn into_raw(self) -> NonNull<bindings::sk_buff> {
        ManuallyDrop::new(self).0
    }

    /// The C object.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    /// The data pointer, and how many bytes of the packet lie there in the buffer proper.
    #[inline]
    fn linear(&self) -> (*mut u8, usize) {
        let skb = self.as_raw();
        // SAFETY: By the type invariant, the buffer is valid, and others do not change it.
        let (data, len, data_len) = unsafe { ((*skb).data, (*skb).len, (*skb).data_len) };
        (data, size(len.saturating_sub(data_len)))
    }

    /// Bytes in the packet, from the data pointer on.
    #[inline]
    pub fn len(&self) -> usize {
        // SAFETY: As in `linear`.
        size(unsafe { (*self.as_raw()).len })
    }

    /// Whether the packet is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the buffer takes, headers and unused room included.
    #[inline]
    pub fn memory(&self) -> usize {
        // SAFETY: As in `linear`.
        size(unsafe { (*self.as_raw()).truesize })
    }

    /// Whether a part of the packet lies outside the buffer proper, in fragments.
    #[inline]
    pub fn is_nonlinear(&self) -> bool {
        // SAFETY: As in `linear`.
        unsafe { (*self.as_raw()).data_len != 0 }
    }

    /// Brings all of the packet into the buffer proper. Softirq.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; then nothing changed.
    #[inline]
    pub fn linearize(&mut self) -> Result {
        // SAFETY: By the type invariant, the buffer is valid and ours to change.
        to_result(unsafe { bindings::rdma_helper_skb_linearize(self.as_raw()) })
    }

    /// The packet from the data pointer on, as far as it lies in the buffer proper.
    #[inline]
    pub fn data(&self) -> &[u8] {
        let (data, len) = self.linear();
        // SAFETY:
        // - `data` points to that many bytes of the buffer, all of which were written
        //   by whoever put them in;
        // - nobody writes to the data of a buffer that has reached its owner.
        unsafe { slice::from_raw_parts(data, len) }
    }

    /// Where the network header is, and how many bytes precede the data pointer there. `None` if
    /// it lies behind the data pointer.
    #[inline]
    fn network_header(&self) -> Option<(*mut u8, usize)> {
        // SAFETY: By the type invariant, the buffer is valid.
        let before = unsafe { bindings::rdma_helper_skb_before_data(self.as_raw()) };
        let before = usize::try_from(before).ok()?;
        // SAFETY: `before` bytes lie between the network header and the data pointer, inside the
        // buffer, as the helper has looked.
        Some((unsafe { self.linear().0.sub(before) }, before))
    }

    /// The linear part of the packet from the network header on, together with the
    /// length of what precedes the data pointer there. `None` if the network header
    /// lies behind the data pointer.
    #[inline]
    pub fn from_network_header(&self) -> Option<(&[u8], usize)> {
        let (start, before) = self.network_header()?;
        // OVERFLOW: Bytes of one buffer.
        let len = before.wrapping_add(self.linear().1);
        // SAFETY: The bytes from the network header to the data pointer precede those of `data`;
        // as there.
        let all = unsafe { slice::from_raw_parts(start, len) };
        Some((all, before))
    }

    /// As [`Self::from_network_header`], but to be written: `None` also if others, such
    /// as packet sockets, may be reading the data.
    #[inline]
    pub fn from_network_header_mut(&mut self) -> Option<(&mut [u8], usize)> {
        // SAFETY: By the type invariant, the buffer is valid.
        if unsafe { bindings::rdma_helper_skb_cloned(self.as_raw()) } {
            return None;
        }
        let (start, before) = self.network_header()?;
        // OVERFLOW: Bytes of one buffer.
        let len = before.wrapping_add(self.linear().1);
        // SAFETY: These are bytes of the buffer's data, to which no clone refers, and the
        // buffer is borrowed exclusively.
        Some((unsafe { slice::from_raw_parts_mut(start, len) }, before))
    }

    /// As [`Self::from_network_header_mut`], if the network header lies `before` bytes in
    /// front of the data pointer: else `None`.
    #[inline]
    pub fn from_network_header_at_mut(&mut self, before: usize) -> Option<&mut [u8]> {
        let count = u32::try_from(before).ok()?;
        // SAFETY: By the type invariant, the buffer is valid.
        let writable = unsafe {
            bindings::rdma_helper_skb_is_before_data(self.as_raw(), count)
                && !bindings::rdma_helper_skb_cloned(self.as_raw())
        };
        if !writable {
            return None;
        }
        let (data, len) = self.linear();
        // SAFETY:
        // - the network header, which is inside the buffer, is `before` bytes in front;
        // - otherwise as in `data`, of which no clone has a part;
        // - the buffer is borrowed exclusively.
        // OVERFLOW: bytes of one buffer.
        Some(unsafe { slice::from_raw_parts_mut(data.sub(before), before.wrapping_add(len)) })
    }

    /// The `len` bytes in front of the data pointer; `None` if the buffer does not begin
    /// so early.
    #[inline]
    pub fn before_data(&self, len: usize) -> Option<&[u8]> {
        let (data, _) = self.linear();
        // SAFETY: As in `linear`.
        let head = unsafe { (*self.as_raw()).head };
        if data.addr().wrapping_sub(head.addr()) < len {
            return None;
        }
        // SAFETY: `head` is where the buffer begins, and `data` is not in front of it. What is
        // between them has a value: it comes from C's allocator, and nobody writes to it any more.
        Some(unsafe { slice::from_raw_parts(data.sub(len), len) })
    }

    /// Removes `len` bytes from the front. `None`, with nothing changed, if the
    /// buffer proper holds fewer.
    #[inline]
    pub fn pull(&mut self, len: usize) -> Option<()> {
        if len > self.data().len() {
            return None;
        }
        let len = u32::try_from(len).ok()?;
        // SAFETY: The buffer is ours to change, and holds that many bytes.
        unsafe { bindings::rdma_helper_skb_pull(self.as_raw(), len) };
        Some(())
    }

    /// Another buffer with the same data, which neither may change. Its scratch space is
    /// its own. Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline]
    pub fn try_clone(&mut self) -> Result<Self> {
        // SAFETY: By the type invariant, the buffer is valid; cloning notes in it that its data
        // are shared, for which it is borrowed exclusively.
        let skb = unsafe { bindings::rdma_helper_skb_clone(self.as_raw(), bindings::GFP_ATOMIC) };
        // INVARIANT: The reference is to a buffer that nobody else has.
        NonNull::new(skb).map(Self).ok_or(ENOMEM)
    }

    /// The protocol of the network layer (`ETH_P_*`), in native byte order.
    #[inline]
    pub fn protocol(&self) -> u16 {
        // SAFETY: By the type invariant, the buffer is valid.
        u16::from_be(unsafe { bindings::rdma_helper_skb_protocol(self.as_raw()) })
    }

    /// The device the packet came from, if any.
    ///
    /// # Safety
    ///
    /// The buffer must have been received in the read-side section of `_rcu`, so
    /// that the device cannot be gone.
    #[inline]
    pub(super) unsafe fn dev<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        // SAFETY: By the type invariant, the buffer is valid.
        let dev = unsafe { bindings::rdma_helper_skb_dev(self.as_raw()) };
        // SAFETY: By the caller's promise, RCU protects the device.
        (!dev.is_null()).then(|| unsafe { NetDevice::from_raw(dev) })
    }

    /// Makes a received buffer independent of the stack: it lets go of its socket,
    /// its route and its device, so that it can be kept. Softirq.
    #[inline]
    pub fn detach(&mut self) {
        // SAFETY: By the type invariant, the buffer is valid and ours to change.
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
        // SAFETY: The scratch space has so many bytes, and `T` accepts all of them.
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
        // SAFETY: The buffer is ours to change, and the scratch space is large enough.
        unsafe {
            let cb: *mut T = ptr::addr_of_mut!((*self.as_raw()).cb).cast();
            cb.write_unaligned(value);
        }
    }

    /// Frees the buffer of a packet that could not be used, so that drop monitors
    /// see it. A plain drop means that the packet has done its work.
    #[inline]
    pub fn discard(self) {
        // SAFETY: The reference is ours to give up.
        unsafe { bindings::rdma_helper_kfree_skb(self.into_raw().as_ptr()) };
    }

    /// Where the link of an [`SkbQueue`] lies.
    #[inline]
    fn link(skb: NonNull<bindings::sk_buff>) -> *mut *mut bindings::sk_buff {
        // SAFETY: Only computes an address inside the object, `CB_LEN` bytes into the
        // 48 of `cb`.
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
        // With bottom halves off it goes to the CPU's own stock, from which the next one to be
        // sent comes (`helpers/buffers.c`).
        // SAFETY: By the type invariant, the reference is ours to give up.
        unsafe { bindings::rdma_helper_consume_skb(self.as_raw()) };
    }
}

/// Frees the buffers that CPUs keep for what they send next, when it is dropped. A module that
/// has packet buffers has one.
#[must_use = "it frees when it is dropped"]
pub struct Stock(());

impl Stock {
    /// Makes it; costs nothing.
    ///
    /// # Safety
    ///
    /// When it is dropped, nothing of the module has buffers any more, or will.
    #[inline]
    pub const unsafe fn new() -> Self {
        Self(())
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        // SAFETY: By the promise of who made it.
        unsafe { bindings::rdma_helper_skb_empty_stock() };
    }
}

/// A packet buffer under construction.
///
/// # Invariants
///
/// Nobody else has a reference to the buffer or to its data, and all of the packet
/// lies in the buffer proper.
pub struct NewSkb(Skb);

impl NewSkb {
    /// A buffer for `head` bytes in front of the data pointer and `size` behind it.
    /// Does not sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if that is too large.
    #[inline]
    pub fn alloc(head: usize, size: usize) -> Result<Self> {
        let head = u32::try_from(head).map_err(|_| ENOMEM)?;
        let size = u32::try_from(size).map_err(|_| ENOMEM)?;
        head.checked_add(size).ok_or(ENOMEM)?;
        // SAFETY: Any sizes whose sum is one, and any flags, are fine.
        let skb = unsafe { bindings::rdma_helper_skb_new(head, size, bindings::GFP_ATOMIC) };
        // INVARIANT: The buffer is new.
        Ok(Self(Skb(NonNull::new(skb).ok_or(ENOMEM)?)))
    }

    /// Makes the packet longer by `len` bytes at its end, and returns those. They hold what the
    /// memory's last user left, so they can be written only; [`zeroed`] makes bytes of them.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the buffer has no room for them.
    #[inline]
    pub fn put(&mut self, len: usize) -> Result<&mut [MaybeUninit<u8>]> {
        let count = u32::try_from(len).map_err(|_| ENOSPC)?;
        // SAFETY: The buffer is ours and linear.
        let start = unsafe { bindings::rdma_helper_skb_put(self.0.as_raw(), count) };
        let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(ENOSPC)?;
        // SAFETY: It is the start of `len` bytes of the buffer, to which nobody else has
        // access.
        Ok(unsafe { slice::from_raw_parts_mut(start.cast().as_ptr(), len) })
    }

    /// Bytes in the packet.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the packet is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The whole packet.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let (data, len) = self.0.linear();
        // SAFETY: By the type invariant, the packet is linear and nobody else has
        // access to it. Its bytes come from C's allocator, so for the compiler they have a value.
        unsafe { slice::from_raw_parts_mut(data, len) }
    }

    /// Says what the packet is: `protocol` (`ETH_P_*`, native byte order), a network
    /// header at the start, and a transport header `network_len` bytes behind.
    #[inline]
    pub fn set_headers(&mut self, protocol: u16, network_len: u16) {
        // SAFETY: The buffer is valid and ours to change.
        unsafe {
            let protocol = protocol.to_be();
            let transport = network_len.into();
            bindings::rdma_helper_skb_set_headers(self.0.as_raw(), protocol, 0, transport);
        }
    }

    /// The C object.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_raw()
    }

    /// Ends construction.
    #[inline]
    pub fn finish(self) -> Skb {
        self.0
    }
}

/// The bytes of a part of [`NewSkb::put`], all zero.
#[inline]
pub fn zeroed(part: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    part.fill(MaybeUninit::new(0));
    // SAFETY: All of them were just written; the type differs in that only.
    unsafe { &mut *(ptr::from_mut(part) as *mut [u8]) }
}

/// A queue of buffers that any number of CPUs fill and one empties at a time,
/// without a lock. Any context.
///
/// # Invariants
///
/// `newest` is null or a buffer that the queue owns, whose link is the next older
/// one, and so on.
pub struct SkbQueue {
    newest: AtomicPtr<bindings::sk_buff>,
    len: AtomicU32,
}

impl SkbQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        Self {
            newest: AtomicPtr::new(ptr::null_mut()),
            len: AtomicU32::new(0),
        }
    }

    /// How many buffers there are, about.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether there is nothing in the queue.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.newest.load(Ordering::Acquire).is_null()
    }

    /// Appends a buffer. Returns whether the queue was empty before: then somebody
    /// must be told.
    #[inline]
    pub fn push(&self, skb: Skb) -> bool {
        let skb = skb.into_raw();
        let link = Skb::link(skb);
        let _: u32 = self.len.fetch_add(1, Ordering::Relaxed);
        let mut older = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: The buffer is ours until it is in the queue.
            unsafe { link.write_unaligned(older) };
            // Release: the buffer's contents come before the buffer.
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

    /// Takes all that is in the queue, oldest first.
    #[inline]
    pub fn take_all(&self) -> SkbBatch {
        // Acquire: pairs with the release in `push`.
        let mut newest = self.newest.swap(ptr::null_mut(), Ordering::Acquire);
        let mut oldest = ptr::null_mut();
        let mut count = 0u32;
        while let Some(skb) = NonNull::new(newest) {
            let link = Skb::link(skb);
            // SAFETY: By the type invariant, the chain was the queue's and now is ours.
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

/// Buffers taken from a queue, oldest first. What is not taken from it is freed.
///
/// # Invariants
///
/// The pointer is null or a buffer that the batch owns, whose link is the next
/// newer one, and so on.
pub struct SkbBatch(*mut bindings::sk_buff);

// SAFETY: Buffers belong to whoever has them, on any CPU.
unsafe impl Send for SkbBatch {}

impl Iterator for SkbBatch {
    type Item = Skb;

    #[inline]
    fn next(&mut self) -> Option<Skb> {
        let skb = NonNull::new(self.0)?;
        // SAFETY: By the type invariant, the buffer is ours.
        self.0 = unsafe { Skb::link(skb).read_unaligned() };
        // INVARIANT: The batch has let go of the buffer.
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
