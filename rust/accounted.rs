// SPDX-License-Identifier: GPL-2.0

//! Memory that a user causes to be allocated, charged to the memory cgroup of the current task.
//!
//! The kernel crate has no flags for an allocation that may be large and must fail with an error:
//! with `GFP_KERNEL_ACCOUNT` alone, a full memory cgroup invokes the OOM killer. Here reclaim is
//! tried, and then `ENOMEM` is returned. [`GFP`] are the flags for objects; the functions are for
//! vectors whose size a user determines.
//!
//! The vector's owner frees it, in any context in which a `KVVec` may be freed.
//!
//! C header: `include/linux/gfp_types.h`.

use crate::bindings;
use crate::task::cond_resched;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use kernel::alloc::Flags;
use kernel::mm::Mm;
use kernel::prelude::*;
use kernel::uaccess::UserSliceReader;

/// Allocation flags of such memory, for C functions that allocate: `GFP_USERS` in `helpers/base.c`.
pub const FLAGS: bindings::gfp_t = bindings::GFP_KERNEL_ACCOUNT
    | 1 << bindings::___GFP_RETRY_MAYFAIL_BIT
    | 1 << bindings::___GFP_NOWARN_BIT;

/// The same flags for functions of the kernel crate: for objects that a user causes.
// SAFETY: `Flags` consists of a `u32`, whose bits are those of `gfp_t`; every value is valid.
pub const GFP: Flags = unsafe { core::mem::transmute::<bindings::gfp_t, Flags>(FLAGS) };

/// Returns an empty vector with room for `capacity` values.
///
/// Context: may sleep.
///
/// # Errors
///
/// `ENOMEM` if the cgroup or the machine is out of memory, or the size overflows.
///
/// # Examples
///
/// ```ignore
/// let mut list = accounted::with_capacity::<u64>(count)?;
/// list.push_within_capacity(1)?;
/// ```
pub fn with_capacity<T>(capacity: usize) -> Result<KVVec<T>> {
    const {
        assert!(size_of::<T>() != 0, "values without a size need no memory");
        assert!(
            align_of::<T>() <= 8,
            "kmalloc aligns to eight bytes at least"
        );
    }
    if capacity == 0 {
        return Ok(KVVec::new());
    }
    let size = capacity.checked_mul(size_of::<T>()).ok_or(ENOMEM)?;
    isize::try_from(size).map_err(|_| ENOMEM)?;
    let start = bytes(size)?.cast::<T>();
    // SAFETY:
    // - `bytes` returns memory that `kvfree` frees, as the allocator of `KVVec` does.
    // - It has `size` bytes, at most `isize::MAX`, and an alignment of at least 8, which suffices
    //   for `T` (asserted above).
    // - The length is 0, so no value needs to be initialized.
    Ok(unsafe { KVVec::from_raw_parts(start.as_ptr(), 0, capacity) })
}

/// Returns a vector of `count` copies of `value`.
///
/// Context: may sleep.
///
/// # Errors
///
/// As [`with_capacity`].
///
/// # Examples
///
/// ```ignore
/// let slots = accounted::from_elem(0u64, count)?;
/// ```
pub fn from_elem<T: Copy>(value: T, count: usize) -> Result<KVVec<T>> {
    let mut list = with_capacity(count)?;
    append(&mut list, count, |piece| {
        piece.fill(MaybeUninit::new(value));
        Ok(())
    })?;
    Ok(list)
}

/// Returns a vector of `head` and `count` bytes that a program writes after it.
///
/// Context: may sleep.
///
/// # Errors
///
/// As [`with_capacity`]; `EFAULT` if the program has no such memory.
///
/// # Examples
///
/// ```ignore
/// let message = accounted::from_user(&header, &mut reader, reader.len())?;
/// ```
pub fn from_user(head: &[u8], from: &mut UserSliceReader, count: usize) -> Result<KVVec<u8>> {
    let mut list = with_capacity(head.len().checked_add(count).ok_or(ENOMEM)?)?;
    for byte in head {
        list.push_within_capacity(*byte).map_err(|_| ENOMEM)?;
    }
    append(&mut list, count, |piece| from.read_raw(piece))?;
    Ok(list)
}

/// Returns `len` zeroed bytes, at least one, in memory that can be mapped for DMA.
///
/// Context: may sleep.
///
/// # Errors
///
/// As [`with_capacity`]. More than a few pages are rarely found in one piece.
///
/// # Examples
///
/// ```ignore
/// let segment = accounted::zeros(200)?;
/// ```
pub fn zeros(len: usize) -> Result<KVec<u8>> {
    let len = len.max(1);
    isize::try_from(len).map_err(|_| ENOMEM)?;
    // SAFETY: The helper accepts any size.
    let start = unsafe { bindings::rdma_helper_zalloc_accounted(len) };
    let start = NonNull::new(start.cast::<u8>()).ok_or(ENOMEM)?;
    // SAFETY: The helper returns `len` zeroed bytes, at most `isize::MAX`, that `kfree` frees, as the
    // allocator of `KVec` does.
    Ok(unsafe { KVec::from_raw_parts(start.as_ptr(), len, len) })
}

/// Calls `create`, whose charged allocations are charged to the process of `mm` and not to that of
/// the current task.
///
/// Context: may sleep.
///
/// # Examples
///
/// ```ignore
/// let list = accounted::charged_to(&mm, || accounted::with_capacity::<u64>(count))?;
/// ```
pub fn charged_to<R>(mm: &Mm, create: impl FnOnce() -> R) -> R {
    let mut before = core::ptr::null_mut();
    // SAFETY: `mm` exists; the second pointer is to a local.
    let group = unsafe { bindings::rdma_helper_charge_begin(mm.as_raw(), &mut before) };
    let made = create();
    // SAFETY: Both are from the call above, by the same task. Calls within `create` have ended.
    unsafe { bindings::rdma_helper_charge_end(group, before) };
    made
}

/// Values that are written between calls of `cond_resched`.
const PIECE: usize = 1 << 14;

/// Appends `count` values, which `write` initialises by pieces. They must fit.
fn append<T>(
    list: &mut KVVec<T>,
    count: usize,
    mut write: impl FnMut(&mut [MaybeUninit<T>]) -> Result,
) -> Result {
    let mut left = count;
    while left != 0 {
        let len = left.min(PIECE);
        let piece = list.spare_capacity_mut().get_mut(..len).ok_or(ENOMEM)?;
        write(piece)?;
        // SAFETY: The capacity has room for `len` more values, which `write` has initialised.
        unsafe { list.inc_len(len) };
        left = left.saturating_sub(len);
        cond_resched();
    }
    Ok(())
}

/// Allocates memory that `kvfree` frees, aligned to eight bytes. Not generic, so that it is
/// compiled once.
#[inline(never)]
fn bytes(size: usize) -> Result<NonNull<u8>> {
    // SAFETY: The helper accepts any size.
    let start = unsafe { bindings::rdma_helper_alloc_accounted(size) };
    NonNull::new(start.cast()).ok_or(ENOMEM)
}
