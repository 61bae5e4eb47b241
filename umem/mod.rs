// SPDX-License-Identifier: GPL-2.0

//! User memory for device access: pinned, on demand, or from a DMA-buf.
//!
//! | file | what |
//! |---|---|
//! | `source` | which memory a user's call refers to: an attribute, older attributes, an address |
//! | `pinned` | pinned memory of a process |
//! | `odp` | on-demand memory of a process (on-demand paging, ODP) |
//! | `dmabuf` | memory of another driver (DMA-buf) |
//! | `scatter` | division of scatter lists into device pages |
//! | `edge` | the C structures |
//!
//! The three kinds share the head `struct ib_umem`, which drivers hold by pointer and read; the
//! rest of each kind is private to its functions. The head does not change after its creation,
//! except `iova`, the address at which the device sees the memory ([`ib_umem_find_best_pgsz`]), and
//! the table of DMA-buf memory, which changes under the buffer's reservation lock.
//!
//! All functions may sleep unless they say otherwise.
//!
//! C headers: `include/rdma/ib_umem.h`, `include/rdma/ib_umem_odp.h`,
//! `include/rdma/iter.h`.
//!
//! [`ib_umem_find_best_pgsz`]: scatter::ib_umem_find_best_pgsz

mod dmabuf;
mod edge;
#[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
mod odp;
mod pinned;
mod scatter;
mod source;

use edge::Given;
use edge::Room;
use kernel::ffi::c_int;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::umem::Umem;
use rdma::features;
use rdma::provider::unsupported;

/// The pages that contain a range of bytes.
#[derive(Clone, Copy)]
struct Span {
    /// Address of the first page.
    first: usize,
    /// Number of pages.
    count: usize,
}

impl Span {
    /// The pages of `len` bytes at `addr`. `None` if their end, rounded up to a page, is beyond the
    /// address space. An empty range has no pages if `addr` is page-aligned, otherwise one.
    fn of(addr: usize, len: usize) -> Option<Self> {
        let first = addr & !(PAGE_SIZE - 1);
        let end = addr.checked_add(len)?.checked_add(PAGE_SIZE - 1)? & !(PAGE_SIZE - 1);
        Some(Self {
            first,
            // The end is not below the first page.
            count: end.wrapping_sub(first) / PAGE_SIZE,
        })
    }
}

/// Releases memory of any kind.
fn release(umem: Given) {
    match umem {
        Given::Nothing => {}
        Given::Pinned(pinned) => drop(pinned),
        Given::Dmabuf(dmabuf) => dmabuf::release(dmabuf),
        #[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
        Given::Odp(odp) => odp::release(odp),
    }
}

/// Fills `room` with the bytes at `offset`. May sleep.
///
/// # Errors
///
/// `EINVAL` if the memory has fewer bytes or is not CPU-accessible.
fn copy_from(room: Room, umem: &Umem, offset: usize) -> Result {
    let length = room.len();
    let within = offset
        .checked_add(length)
        .is_some_and(|end| end <= umem.length());
    if !within {
        pr_err!(
            "ib_umem_copy_from: {} bytes at {} are not within {}\n",
            length,
            offset,
            umem.length()
        );
        return Err(EINVAL);
    }
    // The offset is within the memory, which is within the address space.
    let skip = offset.wrapping_add(umem.address() & (PAGE_SIZE - 1));
    if room.fill(umem, skip)? == length {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Checks whether existing memory can be used for a region that is registered anew. Returns
/// `EOPNOTSUPP` for a DMA-buf, where the kernel refuses that; `EACCES` if new access flags request
/// writes to read-only memory. Any context.
fn check_rereg(umem: Option<&Umem>, flags: c_int, new_access_flags: c_int) -> Result {
    let Some(umem) = umem else { return Ok(()) };
    if features::REREG_REFUSES_DMABUF && umem.is_dmabuf() {
        return Err(unsupported());
    }
    const ACCESS: c_int = bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as c_int;
    const TRANSLATION: c_int = bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS as c_int;
    let (access, translation) = (flags & ACCESS != 0, flags & TRANSLATION != 0);
    if access && !translation && edge::writable(new_access_flags) && !umem.writable() {
        return Err(EACCES);
    }
    Ok(())
}

/// Page shift of on-demand memory; `None` for other memory.
#[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
fn odp_page_shift(umem: &Umem) -> Option<u32> {
    edge::odp::Odp::of_head(umem).map(edge::odp::Odp::page_shift)
}

/// Without support for on-demand memory, always `None`.
#[cfg(not(CONFIG_INFINIBAND_ON_DEMAND_PAGING))]
fn odp_page_shift(_umem: &Umem) -> Option<u32> {
    None
}

rdma::export! {
    in rdma::bindings;

    /// See [`release`].
    fn ib_umem_release(umem: Given) = release;
    /// See [`check_rereg`].
    fn ib_umem_check_rereg(umem: Option<&Umem>, flags: c_int, access: c_int) -> Result
        = check_rereg;
}
