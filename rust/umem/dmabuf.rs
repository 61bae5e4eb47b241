// SPDX-License-Identifier: GPL-2.0

//! DMA-bufs: memory that a process passes to us as a file.
//!
//! Only buffers whose exporter never moves them are accepted, and only those in system memory: the
//! CPU copies the data, as there is no DMA engine. A buffer is mapped in the kernel while its
//! [`DmaBuf`] exists.
//!
//! C header: `include/linux/dma-buf.h`.

use crate::accounted;
use crate::bindings;
use crate::provider::unsupported;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;

/// Part of a DMA-buf, mapped in the kernel and prepared for CPU access.
///
/// # Invariants
///
/// `_access` is to a mapping in system memory that contains the `len` bytes at `start`.
pub struct DmaBuf {
    // Its drop ends the access.
    _access: Access,
    start: usize,
    len: usize,
}

impl DmaBuf {
    /// Maps the `len` bytes at `offset` of the DMA-buf behind `fd`, a file of the current process.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `EBADF` if there is no such file; `EINVAL` if it is not a DMA-buf, `len` is zero, or the
    /// range exceeds the buffer; `EOPNOTSUPP` if the buffer may move, or is not in system memory;
    /// those of the exporter.
    pub fn get(fd: i32, offset: u64, len: u64) -> Result<Self> {
        let (offset, len) = (usize::try_from(offset)?, usize::try_from(len)?);
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        // SAFETY: The function accepts any number.
        let buf = from_err_ptr(unsafe { bindings::rdma_helper_dma_buf_get(fd) })?;
        // INVARIANT: The function returned a reference.
        let buf = Held(NonNull::new(buf).ok_or(EBADF)?);
        // SAFETY: `buf` holds a reference.
        let (size, moves) = unsafe {
            (
                bindings::rdma_helper_dma_buf_size(buf.0.as_ptr()),
                bindings::rdma_helper_dma_buf_is_dynamic(buf.0.as_ptr()),
            )
        };
        if len == 0 || end > size {
            return Err(EINVAL);
        }
        if moves {
            return Err(unsupported());
        }
        // SAFETY: A zeroed structure is an empty mapping.
        let empty = unsafe { core::mem::MaybeUninit::zeroed().assume_init() };
        let mut map = KBox::new(empty, accounted::GFP)?;
        // SAFETY: `buf` holds a reference, and `map` is writable.
        to_result(unsafe { bindings::rdma_helper_dma_buf_vmap(buf.0.as_ptr(), &mut *map) })?;
        // INVARIANT: The function filled in the mapping.
        let mapped = Mapped { map, buf };
        // SAFETY: `map` is a mapping (invariant of `Mapped`).
        let base = unsafe { bindings::rdma_helper_iosys_map_memory(&*mapped.map) } as usize;
        if base == 0 {
            return Err(unsupported());
        }
        // INVARIANT: The range lies within the buffer, as checked.
        Ok(Self {
            _access: Access::begin(mapped)?,
            start: base.wrapping_add(offset),
            len,
        })
    }

    /// Returns the kernel address of the first byte. The bytes are contiguous.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the length is zero, which never is the case.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// CPU access to a mapped DMA-buf.
///
/// # Invariants
///
/// The access has begun and not ended.
struct Access(Mapped);

impl Access {
    /// Begins the access. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the exporter; the access has not begun then.
    fn begin(mapped: Mapped) -> Result<Self> {
        // SAFETY: `buf` holds a reference.
        to_result(unsafe { bindings::rdma_helper_dma_buf_begin(mapped.buf.0.as_ptr()) })?;
        // INVARIANT: The access has begun.
        Ok(Self(mapped))
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        // An error has no consequence: the mapping is removed in any case.
        // SAFETY: The access has begun (type invariant), and nothing uses the memory any more.
        let _ = unsafe { bindings::rdma_helper_dma_buf_end(self.0.buf.0.as_ptr()) };
    }
}

/// A DMA-buf that is mapped in the kernel.
///
/// # Invariants
///
/// `map` is a mapping of the whole `buf`.
struct Mapped {
    map: KBox<bindings::iosys_map>,
    buf: Held,
}

// SAFETY: The buffer may be unmapped and released by any task.
unsafe impl Send for Mapped {}
// SAFETY: Nothing is written through a shared reference.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `map` is a mapping of `buf` (type invariant), and nothing uses it any more.
        unsafe { bindings::rdma_helper_dma_buf_vunmap(self.buf.0.as_ptr(), &mut *self.map) };
    }
}

/// A reference to a DMA-buf.
///
/// # Invariants
///
/// It owns the reference.
struct Held(NonNull<bindings::dma_buf>);

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: The reference is owned (type invariant).
        unsafe { bindings::rdma_helper_dma_buf_put(self.0.as_ptr()) };
    }
}
