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

/// A part of a buffer of another driver's, mapped in the kernel, to which the CPU has access.
///
/// # Invariants
///
/// `access` is to a mapping in memory, which has the `len` bytes at `start`.
pub struct DmaBuf {
    // For its drop.
    _access: Access,
    start: usize,
    len: usize,
}

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
        // INVARIANT: It was just filled in.
        let mapped = Mapped { map, buf };
        // SAFETY: It is a mapping.
        let base = unsafe { bindings::rdma_helper_iosys_map_memory(&*mapped.map) } as usize;
        if base == 0 {
            return Err(unsupported());
        }
        // INVARIANT: The bytes are within the buffer, as checked.
        Ok(Self {
            _access: Access::begin(mapped)?,
            start: base.wrapping_add(offset),
            len,
        })
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

/// The CPU's access to a mapped buffer.
///
/// # Invariants
///
/// The access has begun, and not ended.
struct Access(Mapped);

impl Access {
    /// Begins it. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the exporter; the access has not begun then.
    fn begin(mapped: Mapped) -> Result<Self> {
        // SAFETY: We hold the buffer.
        to_result(unsafe { bindings::rdma_helper_dma_buf_begin(mapped.buf.0.as_ptr()) })?;
        // INVARIANT: Just begun.
        Ok(Self(mapped))
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        // An exporter that cannot end the access has nothing that we could do.
        // SAFETY: By the type invariant; nobody uses the memory through us any more.
        let _ = unsafe { bindings::rdma_helper_dma_buf_end(self.0.buf.0.as_ptr()) };
    }
}

/// A buffer that is mapped in the kernel.
///
/// # Invariants
///
/// `map` is a mapping of all of `buf`.
struct Mapped {
    map: KBox<bindings::iosys_map>,
    buf: Held,
}

// SAFETY: Any task may unmap and release it.
unsafe impl Send for Mapped {}
// SAFETY: Nothing is written through a shared reference.
unsafe impl Sync for Mapped {}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; nobody uses the mapping any more.
        unsafe { bindings::rdma_helper_dma_buf_vunmap(self.buf.0.as_ptr(), &mut *self.map) };
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
