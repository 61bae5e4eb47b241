// SPDX-License-Identifier: GPL-2.0

//! User memory as C has it. The head of all kinds is in [`rdma::edge::umem`], scatter lists are in
//! [`rdma::edge::sg_table`].
//!
//! | file | what |
//! |---|---|
//! | here | calls of several kinds; memory that C gives back |
//! | `pinned` | pins, and the table of pinned pages |
//! | `dmabuf` | attachments, and what their reservation lock guards |
//! | `odp` | page tables that are followed, and the list of their pages |

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

    /// Whether a region with these rights writes to its memory.
    pub(super) fn writable(access: c_int) -> bool = rdma_helper_ib_access_writable;
    /// Lets others run. May sleep.
    pub(super) fn cond_resched() = rdma_helper_cond_resched;
}

rdma::c_struct! {
    /// An iterator over the blocks of a mapped list (`struct ib_block_iter`), which was begun and
    /// whose list still exists.
    pub(super) struct BlockIter: bindings::ib_block_iter;
    fields {
        /// The entry that the next block begins in; null after the last.
        cell entry at __sg: Option<Entry<'_>>, set_entry;
        /// Entries from that one on.
        cell nents at __sg_nents: u32, set_nents;
        /// Bytes of that entry that are done.
        cell advance at __sg_advance: u32, set_advance;
        /// Bit of the size of a block.
        cell page_bit at __pg_bit: u32;
        /// Where the block at hand begins.
        cell dma_addr at __dma_addr: u64, set_dma_addr;
    }
}

// SAFETY: It belongs to a driver's loop, on one stack; `Opaque` is not `Sync`.
unsafe impl OfCall for BlockIter {}

/// Memory that C gives back, whose device does not use it any more.
pub(super) enum Given {
    /// None, or the error that was to be it.
    Nothing,
    /// Memory of a process, pinned.
    Pinned(Pinned),
    /// Memory of a DMA-buf.
    Dmabuf(Owned<dmabuf::Dmabuf>),
    /// Memory of a process, on demand.
    #[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
    Odp(Owned<odp::Odp>),
}

/// Whether C's pointer is none or an error's.
fn is_err_or_null<T>(ptr: *const T) -> bool {
    // CAST, OVERFLOW: errors are the last page of addresses.
    ptr.is_null() || (ptr as usize) >= (-(bindings::MAX_ERRNO as isize)) as usize
}

// SAFETY: `from_c`'s contract is that of `ib_umem_release`: null, an error, or memory that the
// caller gives up.
unsafe impl FromC for Given {
    type C = *mut bindings::ib_umem;

    unsafe fn from_c(c: Self::C) -> Self {
        if is_err_or_null(c) {
            return Self::Nothing;
        }
        // SAFETY: Memory of some kind, by the contract of this function. Its flags say of which kind
        // it is the head, the first field; what is neither of the others is pinned.
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

// SAFETY: It owns the memory, so it is not limited by a call.
unsafe impl Within<'_> for Given {}

/// Memory that was made for C.
pub(super) enum Made {
    /// Memory of a process.
    Pinned(Pinned),
    /// Memory of a DMA-buf.
    Dmabuf(Owned<dmabuf::Dmabuf>),
}

impl Made {
    /// The part that all kinds have.
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

/// Memory that was made for C, or none.
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

/// A plain structure of the caller's, which it does not change during the call.
pub(super) struct Plain<'a, T>(pub(super) &'a T);

// SAFETY: `from_c`'s contract is that of the type.
unsafe impl<T> FromC for Plain<'_, T> {
    type C = *const T;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: An initialised structure that nobody changes: contract of this function.
        Self(unsafe { &*c })
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a, T> Within<'a> for Plain<'a, T> {}

/// Memory of the kernel's for the content of user memory.
///
/// # Invariants
///
/// For the call that has it, `len` bytes at `to` may be written.
pub(super) struct Room {
    to: *mut c_void,
    len: usize,
}

impl Room {
    /// Bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Fills it with what is at `skip` of the pages of pinned memory. May sleep. Bytes that were
    /// copied.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an offset that C's type does not hold.
    pub(super) fn fill(self, umem: &Umem, skip: usize) -> Result<usize> {
        let skip = bindings::off_t::try_from(skip)?;
        let table = umem.pages();
        // SAFETY: The table has so many entries with pages (promise of `Pages`). So many bytes may be
        // written: type invariant.
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
/// `dst` has room for `length` bytes; the memory exists.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_copy_from(
    dst: *mut c_void,
    umem: *mut bindings::ib_umem,
    offset: usize,
    length: usize,
) -> c_int {
    // INVARIANT: By the contract of this function.
    let room = Room {
        to: dst,
        len: length,
    };
    // SAFETY: The memory exists during the call, by the contract of this function.
    let umem = unsafe { Umem::view(umem) };
    from_result(|| super::copy_from(room, umem, offset).map(|()| 0))
}

rdma::exported!(ib_umem_copy_from);
