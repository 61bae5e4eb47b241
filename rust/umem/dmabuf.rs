// SPDX-License-Identifier: GPL-2.0

//! Memory of another driver, which a process hands over as a file.
//!
//! Only buffers that their exporter never moves are taken, and only those in memory: the
//! CPU is our DMA engine. They are mapped in the kernel as long as the [`DmaBuf`] lives.
//!
//! C header: `include/linux/dma-buf.h`.

use crate::bindings;
use crate::provider::unsupported;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;

/// A part of a buffer of another driver's, mapped in the kernel.
///
/// # Invariants
///
/// `map` is a mapping of all of `buf`, in memory, which has the `len` bytes at `start`.
pub struct DmaBuf {
    map: KBox<bindings::iosys_map>,
    buf: Held,
    start: usize,
    len: usize,
}

// SAFETY: Any task may unmap and release it.
unsafe impl Send for DmaBuf {}
// SAFETY: Nothing is written through a shared reference.
unsafe impl Sync for DmaBuf {}

impl DmaBuf {
    /// The `len` bytes at `offset` of the buffer behind the current process's file `fd`.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `EBADF` if there is no such file; `EINVAL` if it is no such buffer, for no bytes,
    /// or for more than it has; `EOPNOTSUPP` if it is not in memory or does not stay
    /// there; those of the exporter.
    pub fn get(fd: i32, offset: u64, len: u64) -> Result<Self> {
        let (offset, len) = (usize::try_from(offset)?, usize::try_from(len)?);
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        // SAFETY: The function takes any number.
        let buf = from_err_ptr(unsafe { bindings::rdma_helper_dma_buf_get(fd) })?;
        // INVARIANT: The function has returned a reference.
        let buf = Held(NonNull::new(buf).ok_or(EBADF)?);
        // SAFETY: We hold the buffer.
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
        // SAFETY: All zero is an empty mapping.
        let empty = unsafe { core::mem::MaybeUninit::zeroed().assume_init() };
        let mut map = KBox::new(empty, GFP_KERNEL)?;
        // SAFETY: We hold the buffer, and the mapping is ours to fill.
        to_result(unsafe { bindings::rdma_helper_dma_buf_vmap(buf.0.as_ptr(), &mut *map) })?;
        // SAFETY: It was just filled in.
        let base = unsafe { bindings::rdma_helper_iosys_map_memory(&*map) } as usize;
        // INVARIANT: The bytes are within the buffer, as checked. If it is not in memory,
        // the value is dropped at once, which ends the mapping.
        let made = Self {
            map,
            buf,
            start: base.wrapping_add(offset),
            len,
        };
        if base == 0 {
            return Err(unsupported());
        }
        // SAFETY: We hold the buffer.
        to_result(unsafe { bindings::rdma_helper_dma_buf_begin(made.buf.0.as_ptr()) })?;
        Ok(made)
    }

    /// The kernel's address of the first byte; the others follow it.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; never so.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        let buf = self.buf.0.as_ptr();
        // SAFETY: By the type invariant; nobody uses the memory through us any more.
        unsafe {
            // An exporter that cannot end the access has nothing that we could do.
            let _ = bindings::rdma_helper_dma_buf_end(buf);
            bindings::rdma_helper_dma_buf_vunmap(buf, &mut *self.map);
        }
    }
}

/// A reference to a buffer.
///
/// # Invariants
///
/// We own the reference.
struct Held(NonNull<bindings::dma_buf>);

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_helper_dma_buf_put(self.0.as_ptr()) };
    }
}
