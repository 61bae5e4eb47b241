// SPDX-License-Identifier: GPL-2.0

//! Memory that the kernel and user space both map: queues of work and completions.
//!
//! User space may write any byte at any moment, so no reference to this memory is
//! ever made. [`SharedBuf`] has copies in and out and two ordered word accesses, all
//! checked against its size. Each access reads or writes memory once: what was
//! copied and then checked does not change any more.
//!
//! C headers: `include/linux/vmalloc.h`, `include/linux/mm.h`.

use core::ptr::NonNull;

use crate::bindings;
use kernel::error::to_result;
use kernel::mm::virt::VmaNew;
use kernel::page::page_align;
use kernel::prelude::*;
use kernel::sync::atomic::atomic_load;
use kernel::sync::atomic::atomic_store;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Release;
use zerocopy::FromBytes;
use zerocopy::Immutable;
use zerocopy::IntoBytes;

/// How many bytes are copied at a time.
const WORD: usize = size_of::<u64>();

/// Zeroed pages that can be mapped to user space.
///
/// Mappings keep the pages, not this object: user space may go on using them when it
/// is gone, and hurts nobody. Whoever has it drops it in process context; see `drop`.
///
/// All accesses may be made in any context and never sleep. Those that do not fit,
/// or whose offset is not a multiple of the word's size, give `None` or `EINVAL`
/// and touch nothing.
///
/// # Examples
///
/// ```ignore
/// let buf = SharedBuf::new(header + stride * entries)?;
/// let tail = buf.load_acquire_u32(TAIL).ok_or(EINVAL)?;
/// let wqe: WireWqe = buf.read(offset(tail)).ok_or(EINVAL)?;
/// ```
///
/// # Invariants
///
/// `start` is the first of `len` mapped, page-aligned bytes of our own, which stay
/// mapped until drop. `len` is a multiple of the page size.
pub struct SharedBuf {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: The memory belongs to no task, and all accesses suit concurrent writers.
unsafe impl Send for SharedBuf {}
// SAFETY: As for `Send`.
unsafe impl Sync for SharedBuf {}

impl SharedBuf {
    /// Allocates at least `len` bytes, up to the end of the last page, all zero, charged to
    /// the memory cgroup of the current task.
    ///
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `len` is zero or overflows when it is rounded up; `ENOMEM` if the cgroup or
    /// the machine has no such memory, or the task was killed. The OOM killer is not invoked.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let buf = SharedBuf::new(64 * 1024)?;
    /// ```
    pub fn new(len: usize) -> Result<Self> {
        let len = page_align(len).filter(|&len| len != 0).ok_or(EINVAL)?;
        // SAFETY: The helper accepts any size.
        let start = unsafe { bindings::rdma_helper_alloc_mappable(len) };
        let start = NonNull::<u8>::new(start.cast()).ok_or(ENOMEM)?;
        // INVARIANT: The helper returned a page-aligned mapping of `len` bytes, which stays
        // until it is freed in `drop`.
        Ok(Self { start, len })
    }

    /// The size in bytes, a multiple of the page size.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never true; there is no empty buffer.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads a 32-bit word, before whatever the caller reads later.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let producer = buf.load_acquire_u32(PRODUCER).ok_or(EINVAL)?;
    /// // Entries before `producer` are complete.
    /// ```
    #[inline]
    pub fn load_acquire_u32(&self, offset: usize) -> Option<u32> {
        let word = self.word(offset)?;
        // SAFETY: `word` is aligned and mapped; what others write at the same time
        // are machine words too, or at worst bytes, which tears but does not harm.
        Some(unsafe { atomic_load(word, Acquire) })
    }

    /// Writes a 32-bit word, after whatever the caller wrote before.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an offset outside the buffer or not a multiple of four.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// buf.write_bytes(offset, &cqe)?;
    /// buf.store_release_u32(PRODUCER, next)?;
    /// ```
    #[inline]
    pub fn store_release_u32(&self, offset: usize, value: u32) -> Result {
        let word = self.word(offset).ok_or(EINVAL)?;
        // SAFETY: As in `load_acquire_u32`.
        unsafe { atomic_store(word, value, Release) };
        Ok(())
    }

    /// Copies bytes out, each read once.
    ///
    /// Words of eight bytes are read whole if `offset` is a multiple of eight.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not all inside the buffer.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let mut raw = [0; 64];
    /// buf.read_bytes(offset, &mut raw)?;
    /// ```
    #[inline]
    pub fn read_bytes(&self, offset: usize, to: &mut [u8]) -> Result {
        let mut from = self.bytes(offset, to.len()).ok_or(EINVAL)?.as_ptr();
        let (mut at, mut rest) = (offset, to);
        if from.cast::<u64>().is_aligned() {
            // OVERFLOW: a place inside the buffer.
            at = at.wrapping_add(rest.len() & !(WORD - 1));
            let mut words = rest.chunks_exact_mut(WORD);
            for word in &mut words {
                // Volatile, here and below: the compiler must not read twice, nor
                // read from the ring later what it believes it has copied.
                // SAFETY: Inside what `bytes` has checked, and aligned.
                let value = unsafe { from.cast::<u64>().read_volatile() };
                word.copy_from_slice(&value.to_ne_bytes());
                // SAFETY: At most the end of what `bytes` has checked.
                from = unsafe { from.add(WORD) };
            }
            rest = words.into_remainder();
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.read_each(at, rest)
    }

    /// [`Self::read_bytes`] of bytes that are no words. Apart: were it part of that, the
    /// compiler would take its words to pieces, too.
    #[inline(never)]
    fn read_each(&self, offset: usize, to: &mut [u8]) -> Result {
        let mut from = self.bytes(offset, to.len()).ok_or(EINVAL)?.as_ptr();
        for byte in to {
            // SAFETY: Inside what `bytes` has checked.
            *byte = unsafe { from.read_volatile() };
            // SAFETY: At most the end of what `bytes` has checked.
            from = unsafe { from.add(1) };
        }
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not all inside the buffer.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// buf.write_bytes(offset, cqe.as_bytes())?;
    /// ```
    #[inline]
    pub fn write_bytes(&self, offset: usize, from: &[u8]) -> Result {
        let mut to = self.bytes(offset, from.len()).ok_or(EINVAL)?.as_ptr();
        let (mut at, mut rest) = (offset, from);
        if to.cast::<u64>().is_aligned() {
            // OVERFLOW: a place inside the buffer.
            at = at.wrapping_add(rest.len() & !(WORD - 1));
            let mut words = rest.chunks_exact(WORD);
            for word in &mut words {
                let mut value = [0; WORD];
                value.copy_from_slice(word);
                // SAFETY: Inside what `bytes` has checked, and aligned.
                unsafe { to.cast::<u64>().write_volatile(u64::from_ne_bytes(value)) };
                // SAFETY: At most the end of what `bytes` has checked.
                to = unsafe { to.add(WORD) };
            }
            rest = words.remainder();
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.write_each(at, rest)
    }

    /// [`Self::write_bytes`] of bytes that are no words; as [`Self::read_each`].
    #[inline(never)]
    fn write_each(&self, offset: usize, from: &[u8]) -> Result {
        let mut to = self.bytes(offset, from.len()).ok_or(EINVAL)?.as_ptr();
        for &byte in from {
            // SAFETY: Inside what `bytes` has checked.
            unsafe { to.write_volatile(byte) };
            // SAFETY: At most the end of what `bytes` has checked.
            to = unsafe { to.add(1) };
        }
        Ok(())
    }

    /// Copies a value out; it is the caller's, to be checked at leisure.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let wqe: UserWqe = buf.read(offset).ok_or(EINVAL)?;
    /// ```
    #[inline]
    pub fn read<T: FromBytes + IntoBytes>(&self, offset: usize) -> Option<T> {
        let mut value = T::new_zeroed();
        self.read_bytes(offset, value.as_mut_bytes()).ok()?;
        Some(value)
    }

    /// Copies a value in.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not all inside the buffer.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// buf.write(offset, &cqe)?;
    /// ```
    #[inline]
    pub fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result {
        self.write_bytes(offset, value.as_bytes())
    }

    /// Maps the buffer, from its start, into a new area of user memory.
    ///
    /// Context: may sleep; called from an mmap handler.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the area is larger than the buffer, `ENOMEM`.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// buf.mmap(vma)?;
    /// ```
    pub fn mmap(&self, vma: &VmaNew) -> Result {
        // SAFETY: `VmaNew` is an area that is being set up. The memory has `VM_USERMAP`
        // (`rdma_helper_alloc_mappable`), and the kernel checks the sizes. Mapped pages hold
        // references of their own.
        to_result(unsafe {
            bindings::rdma_helper_remap_vmalloc_range(vma.as_ptr(), self.start.as_ptr().cast(), 0)
        })
    }

    /// Whether nothing but this object has any of the pages: no user mapping, and nobody who found
    /// them through one (pinned pages, pipes). Once true, that stays so until [`Self::mmap`], since
    /// pages are found through mappings alone; what users wrote before has arrived. It may be false
    /// for a moment when it is true: whoever walks all pages of the machine holds one so long.
    ///
    /// Any context.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// if buf.is_private() {
    ///     // Nobody looks on any more.
    ///     buf.write_bytes(0, &header)?;
    /// }
    /// ```
    pub fn is_private(&self) -> bool {
        // SAFETY: `start` and `len` are a whole allocation (invariant of `SharedBuf`).
        unsafe { bindings::rdma_helper_vmalloc_private(self.start.as_ptr().cast(), self.len) }
    }

    /// The start of `len` bytes at `offset`, if the buffer has them.
    #[inline]
    fn bytes(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: Inside the allocation, or at its end if `len` is zero.
        Some(unsafe { self.start.add(offset) })
    }

    /// The aligned word at `offset`, if there is one.
    #[inline]
    fn word(&self, offset: usize) -> Option<*mut u32> {
        // The start is page-aligned, so the offset decides. OVERFLOW: not by zero.
        if offset % size_of::<u32>() != 0 {
            return None;
        }
        Some(self.bytes(offset, size_of::<u32>())?.as_ptr().cast())
    }
}

impl Drop for SharedBuf {
    /// Process context, with bottom halves on. `vfree` in a softirq puts what it frees later
    /// on a list by the first word of the memory itself: user space, which may have that mapped
    /// until then and longer, would see the pointer and could change it. So there the memory is
    /// kept for good, with a warning.
    fn drop(&mut self) {
        // SAFETY: By the type invariant the memory is ours; accesses borrow us, and
        // user mappings hold the pages themselves.
        unsafe { bindings::rdma_helper_vfree_mapped(self.start.as_ptr().cast()) };
    }
}
