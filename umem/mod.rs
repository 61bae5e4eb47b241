// SPDX-License-Identifier: GPL-2.0

//! User memory that devices reach: pinned, on demand, or of a dma-buf.
//!
//! | file | what |
//! |---|---|
//! | `source` | which memory a user's call means: an attribute, older attributes, an address |
//! | `pinned` | memory of a process that stays where it is |
//! | `odp` | memory of a process that comes when it is touched |
//! | `dmabuf` | memory of another driver's |
//! | `scatter` | how a device cuts lists of segments into its pages |
//! | `edge` | the C structures of these |
//!
//! The three kinds share the head `struct ib_umem`, which drivers hold by pointer and
//! read; what else there is to each of them is behind its release function. The head is
//! written when it is made, except `iova`, which says where the device sees the memory
//! ([`ib_umem_find_best_pgsz`]).
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

/// The pages that bytes lie in.
#[derive(Clone, Copy)]
struct Span {
    /// The address of the first page.
    first: usize,
    /// How many pages.
    count: usize,
}

impl Span {
    /// Of `len` bytes at `addr`. None, if they or their last page end beyond the address
    /// space. No bytes are on no page if `addr` is at the beginning of one, else on one.
    fn of(addr: usize, len: usize) -> Option<Self> {
        let first = addr & !(PAGE_SIZE - 1);
        let end = addr.checked_add(len)?.checked_add(PAGE_SIZE - 1)? & !(PAGE_SIZE - 1);
        Some(Self {
            first,
            // The end is not before the first page.
            count: end.wrapping_sub(first) / PAGE_SIZE,
        })
    }
}

/// Gives back memory of any kind.
fn release(umem: Given) {
    match umem {
        Given::Nothing => {}
        Given::Pinned(pinned) => drop(pinned),
        Given::Dmabuf(dmabuf) => dmabuf::release(dmabuf),
        #[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
        Given::Odp(odp) => odp::release(odp),
    }
}

/// Copies what is at `offset`, as much as there is room for. May sleep.
///
/// # Errors
///
/// `EINVAL` if there are not as many bytes, or the memory is not CPU-accessible.
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
    // Within the memory, which is within the address space.
    let skip = offset.wrapping_add(umem.address() & (PAGE_SIZE - 1));
    if room.fill(umem, skip)? == length {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

/// Whether existing memory can serve a region with other access flags: `EACCES` if they are to
/// write to what is only to be read. Any context.
fn check_rereg(umem: Option<&Umem>, flags: c_int, new_access_flags: c_int) -> Result {
    let Some(umem) = umem else { return Ok(()) };
    const ACCESS: c_int = bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as c_int;
    const TRANSLATION: c_int = bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS as c_int;
    let (access, translation) = (flags & ACCESS != 0, flags & TRANSLATION != 0);
    if access && !translation && edge::writable(new_access_flags) && !umem.writable() {
        return Err(EACCES);
    }
    Ok(())
}

/// The size of the pages, as a power of two, of memory that comes on demand.
#[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
fn odp_page_shift(umem: &Umem) -> Option<u32> {
    edge::odp::Odp::of_head(umem).map(edge::odp::Odp::page_shift)
}

/// Without on-demand memory, none.
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
