// SPDX-License-Identifier: GPL-2.0

//! The C structures of user memory. The head common to all kinds is in [`rdma::edge::umem`],
//! scatter lists are in [`rdma::edge::sg_table`].
//!
//! | file | what |
//! |---|---|
//! | this file | calls common to several kinds; release of memory |
//! | `pinned` | pins, and the table of pinned pages |
//! | `dmabuf` | attachments, and data guarded by their reservation lock |
//! | `odp` | mirrored page tables, and the list of pages |

pub(super) mod dmabuf;
#[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
pub(super) mod odp;
pub(super) mod pinned;

use super::pinned::Pinned;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::sg_table::Entry;
use rdma::edge::umem::Umem;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::OfCall;
use rdma::edge::View;
use rdma::edge::Within;

rdma::import! {
    in rdma::bindings;

    /// Returns whether a region with these access flags writes to its memory.
    pub(super) fn writable(access: c_int) -> bool = rdma_helper_ib_access_writable;
    /// Reschedules if needed. May sleep.
    pub(super) fn cond_resched() = rdma_helper_cond_resched;
}

rdma::c_struct! {
    /// An iterator over the blocks of a mapped list (`struct ib_block_iter`). It has been started,
    /// and its list still exists.
    pub(super) struct BlockIter: bindings::ib_block_iter;
    fields {
        /// Entry that the next block begins in; null after the last one.
        cell entry at __sg: Option<Entry<'_>>, set_entry;
        /// Number of entries from that one on.
        cell nents at __sg_nents: u32, set_nents;
        /// Bytes of that entry that have been processed.
        cell advance at __sg_advance: u32, set_advance;
        /// Base-2 logarithm of the block size.
        cell page_bit at __pg_bit: u32;
        /// DMA address of the current block.
        cell dma_addr at __dma_addr: u64, set_dma_addr;
    }
}

// SAFETY: It belongs to a driver's loop, on one stack; `Opaque` is not `Sync`.
unsafe impl OfCall for BlockIter {}

/// Memory that C releases; its device must not use it any more.
pub(super) enum Given {
    /// Null or an error pointer.
    Nothing,
    /// Pinned memory of a process.
    Pinned(Pinned),
    /// Memory of a DMA-buf.
    Dmabuf(Owned<dmabuf::Dmabuf>),
    /// On-demand memory of a process.
    #[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
    Odp(Owned<odp::Odp>),
}

/// Returns whether a pointer from C is null or an error pointer.
fn is_err_or_null<T>(ptr: *const T) -> bool {
    // CAST, OVERFLOW: Error pointers are in the last page of the address space.
    ptr.is_null() || (ptr as usize) >= (-(bindings::MAX_ERRNO as isize)) as usize
}

// SAFETY: `from_c` has the contract of `ib_umem_release`: null, an error pointer, or memory that
// the caller gives up.
unsafe impl FromC for Given {
    type C = *mut bindings::ib_umem;

    unsafe fn from_c(c: Self::C) -> Self {
        if is_err_or_null(c) {
            return Self::Nothing;
        }
        // SAFETY: Memory of one of the kinds: contract of this function. The flags tell which
        // structure the head is the first field of; memory without either flag is pinned.
        unsafe {
            let umem = Umem::view(c);
            if umem.is_dmabuf() {
                return Self::Dmabuf(Owned::from_c(c.cast()));
            }
            #[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
            if umem.is_odp() {
                return Self::Odp(Owned::from_c(c.cast()));
            }
            Self::Pinned(Pinned::from_c(c))
        }
    }
}

// SAFETY: It owns the memory, so it is not limited to a call.
unsafe impl Within<'_> for Given {}

/// Memory that was created for C.
pub(super) enum Made {
    /// Memory of a process.
    Pinned(Pinned),
    /// Memory of a DMA-buf.
    Dmabuf(Owned<dmabuf::Dmabuf>),
}

impl Made {
    /// The head, common to all kinds.
    pub(super) fn head(&self) -> &Umem {
        match self {
            Self::Pinned(pinned) => pinned.head(),
            Self::Dmabuf(dmabuf) => dmabuf.umem(),
        }
    }
}

impl From<Made> for Given {
    fn from(made: Made) -> Self {
        match made {
            Made::Pinned(pinned) => Self::Pinned(pinned),
            Made::Dmabuf(dmabuf) => Self::Dmabuf(dmabuf),
        }
    }
}

impl AnswerOk for Made {
    type C = *mut bindings::ib_umem;

    fn ok(self) -> Self::C {
        match self {
            Self::Pinned(pinned) => pinned.into_raw(),
            // CAST: The head is the first field.
            Self::Dmabuf(dmabuf) => dmabuf.ok().cast(),
        }
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

/// Memory that was created for C, or null.
pub(super) struct MaybeMade(pub(super) Option<Made>);

impl AnswerOk for MaybeMade {
    type C = *mut bindings::ib_umem;

    fn ok(self) -> Self::C {
        self.0.map_or(core::ptr::null_mut(), AnswerOk::ok)
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

/// A plain structure of the caller, which does not change during the call.
pub(super) struct Plain<'a, T>(pub(super) &'a T);

// SAFETY: `from_c` has the contract of the type.
unsafe impl<T> FromC for Plain<'_, T> {
    type C = *const T;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: An initialised structure that does not change: contract of this function.
        Self(unsafe { &*c })
    }
}

// SAFETY: The reference is limited to `'a`.
unsafe impl<'a, T> Within<'a> for Plain<'a, T> {}

/// Kernel buffer for the content of user memory.
///
/// # Invariants
///
/// During the call that owns it, `len` bytes at `to` are writable.
pub(super) struct Room {
    to: *mut c_void,
    len: usize,
}

impl Room {
    /// Size in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies pinned memory into the buffer, starting at byte `skip` of its pages. Returns the
    /// number of copied bytes. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the offset does not fit in C's type.
    pub(super) fn fill(self, umem: &Umem, skip: usize) -> Result<usize> {
        let skip = bindings::off_t::try_from(skip)?;
        let table = umem.pages();
        // SAFETY: The table has `orig_nents` entries with pages (promise of `Pages`), and `len`
        // bytes are writable: type invariant.
        Ok(unsafe {
            bindings::sg_pcopy_to_buffer(
                rdma::edge::IntoC::into_c(table.list()),
                table.orig_nents(),
                self.to,
                self.len,
                skip,
            )
        })
    }
}

/// See [`super::copy_from`].
///
/// # Safety
///
/// `dst` must have room for `length` bytes, and the memory must exist.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_copy_from(
    dst: *mut c_void,
    umem: *mut bindings::ib_umem,
    offset: usize,
    length: usize,
) -> c_int {
    // INVARIANT: Contract of this function.
    let room = Room {
        to: dst,
        len: length,
    };
    // SAFETY: The memory exists during the call: contract of this function.
    let umem = unsafe { Umem::view(umem) };
    from_result(|| super::copy_from(room, umem, offset).map(|()| 0))
}

rdma::exported!(ib_umem_copy_from);
