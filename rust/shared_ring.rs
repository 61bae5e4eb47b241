// SPDX-License-Identifier: GPL-2.0

//! Memory that is mapped by the kernel and by user space: work queues and completion queues.
//!
//! User space may write any byte at any time, so no reference to this memory is ever created.
//! [`SharedBuf`] provides copies in and out and two ordered word accesses, all with bounds checks.
//! Each access reads or writes memory once: data is validated after it was copied.
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

/// Bytes per access of a copy.
const WORD: usize = size_of::<u64>();

/// Zeroed pages that can be mapped to user space.
///
/// Mappings hold references to the pages, not to this object: user space may go on using them after
/// the drop, without effect on the kernel. It must be dropped in process context; see `drop`.
///
/// Accesses may be made in any context and never sleep. An access that is out of bounds, or a word
/// access whose offset is not a multiple of the word size, returns `None` or `EINVAL` and does not
/// touch memory.
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
/// `start` is the first of `len` mapped, page-aligned bytes, owned by this, which stay mapped until
/// drop. `len` is a multiple of the page size.
pub struct SharedBuf {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: The memory is not bound to a task, and all accesses allow concurrent writers.
unsafe impl Send for SharedBuf {}
// SAFETY: As for `Send`: all accesses allow concurrent writers.
unsafe impl Sync for SharedBuf {}

impl SharedBuf {
    /// Allocates `len` zeroed bytes, rounded up to whole pages, charged to the memory cgroup of the
    /// current task.
    ///
    /// Context: may sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `len` is zero or overflows when it is rounded up; `ENOMEM` if the cgroup or the
    /// machine is out of memory, or the task was killed. The OOM killer is not invoked.
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
        // INVARIANT: The helper returned a page-aligned mapping of `len` bytes, which exists until
        // it is freed in `drop`.
        Ok(Self { start, len })
    }

    /// Returns the size in bytes, a multiple of the page size.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false; there are no empty buffers.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads a 32-bit word with acquire ordering: later reads of the caller are not reordered
    /// before it.
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
        // SAFETY: `word` is aligned and mapped (`Self::word`). Concurrent writers write words, or
        // smaller units; the latter can only tear the value.
        Some(unsafe { atomic_load(word, Acquire) })
    }

    /// Writes a 32-bit word with release ordering: earlier writes of the caller are not reordered
    /// after it.
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
        // SAFETY: As in `load_acquire_u32`: `word` is aligned and mapped, and concurrent writes can
        // only tear the value.
        unsafe { atomic_store(word, value, Release) };
        Ok(())
    }

    /// Copies bytes out, each read once.
    ///
    /// If `offset` is a multiple of eight, whole words of eight bytes are read.
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
            // OVERFLOW: At most `offset + to.len()`, which `bytes` has checked.
            at = at.wrapping_add(rest.len() & !(WORD - 1));
            let mut words = rest.chunks_exact_mut(WORD);
            for word in &mut words {
                // Volatile, here and below: the compiler must not read twice, nor delay the read
                // beyond the caller's checks.
                // SAFETY: Within the range that `bytes` has checked, and aligned.
                let value = unsafe { from.cast::<u64>().read_volatile() };
                word.copy_from_slice(&value.to_ne_bytes());
                // SAFETY: At most the end of the range that `bytes` has checked.
                from = unsafe { from.add(WORD) };
            }
            rest = words.into_remainder();
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.read_each(at, rest)
    }

    /// Implements [`Self::read_bytes`] for bytes that do not form words. A function of its own,
    /// because when inlined the compiler splits the word accesses into bytes, too.
    #[inline(never)]
    fn read_each(&self, offset: usize, to: &mut [u8]) -> Result {
        let mut from = self.bytes(offset, to.len()).ok_or(EINVAL)?.as_ptr();
        for byte in to {
            // SAFETY: Within the range that `bytes` has checked.
            *byte = unsafe { from.read_volatile() };
            // SAFETY: At most the end of the range that `bytes` has checked.
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
            // OVERFLOW: At most `offset + from.len()`, which `bytes` has checked.
            at = at.wrapping_add(rest.len() & !(WORD - 1));
            let mut words = rest.chunks_exact(WORD);
            for word in &mut words {
                let mut value = [0; WORD];
                value.copy_from_slice(word);
                // SAFETY: Within the range that `bytes` has checked, and aligned.
                unsafe { to.cast::<u64>().write_volatile(u64::from_ne_bytes(value)) };
                // SAFETY: At most the end of the range that `bytes` has checked.
                to = unsafe { to.add(WORD) };
            }
            rest = words.remainder();
        }
        if rest.is_empty() {
            return Ok(());
        }
        self.write_each(at, rest)
    }

    /// Implements [`Self::write_bytes`] for bytes that do not form words; see [`Self::read_each`].
    #[inline(never)]
    fn write_each(&self, offset: usize, from: &[u8]) -> Result {
        let mut to = self.bytes(offset, from.len()).ok_or(EINVAL)?.as_ptr();
        for &byte in from {
            // SAFETY: Within the range that `bytes` has checked.
            unsafe { to.write_volatile(byte) };
            // SAFETY: At most the end of the range that `bytes` has checked.
            to = unsafe { to.add(1) };
        }
        Ok(())
    }

    /// Copies a value out. The copy does not change, so the caller may check it and then use it.
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

    /// Maps the buffer, from its start, into a new VMA.
    ///
    /// Context: `mmap` handler. May sleep.
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
        // SAFETY: A `VmaNew` is a VMA that is being set up. The memory has `VM_USERMAP`
        // (`rdma_helper_alloc_mappable`), and the kernel checks the sizes. The mapping takes
        // references to the pages.
        to_result(unsafe {
            bindings::rdma_helper_remap_vmalloc_range(vma.as_ptr(), self.start.as_ptr().cast(), 0)
        })
    }

    /// Returns whether only this object refers to the pages: there is no user mapping, and no
    /// reference that was obtained through one (pinned pages, pipes). Once true, the result stays
    /// true until [`Self::mmap`], because pages are found only through mappings; earlier writes of
    /// users are visible then. The result may be false temporarily while something walks all pages
    /// of the machine and holds one of these.
    ///
    /// Context: any.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// if buf.is_private() {
    ///     // User space no longer has access.
    ///     buf.write_bytes(0, &header)?;
    /// }
    /// ```
    pub fn is_private(&self) -> bool {
        // SAFETY: `start` and `len` are a whole allocation (type invariant).
        unsafe { bindings::rdma_helper_vmalloc_private(self.start.as_ptr().cast(), self.len) }
    }

    /// Returns the address of `len` bytes at `offset`, if they are within the buffer.
    #[inline]
    fn bytes(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: Within the allocation, or at its end if `len` is zero.
        Some(unsafe { self.start.add(offset) })
    }

    /// Returns the address of the word at `offset`, if it is aligned and within the buffer.
    #[inline]
    fn word(&self, offset: usize) -> Option<*mut u32> {
        // `start` is page-aligned, so the alignment of `offset` decides.
        // OVERFLOW: The divisor is not zero.
        if offset % size_of::<u32>() != 0 {
            return None;
        }
        Some(self.bytes(offset, size_of::<u32>())?.as_ptr().cast())
    }
}

impl Drop for SharedBuf {
    /// Must be called in process context, with bottom halves enabled. `vfree` in a softirq defers
    /// the free with a list node in the freed memory itself. User space may still have that memory
    /// mapped, and could read and change the pointer. In that case the memory is leaked, with a
    /// warning.
    fn drop(&mut self) {
        // SAFETY: The memory is owned by this (type invariant). Accesses borrow `self`, and user
        // mappings hold references to the pages.
        unsafe { bindings::rdma_helper_vfree_mapped(self.start.as_ptr().cast()) };
    }
}
