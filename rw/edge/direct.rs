// SPDX-License-Identifier: GPL-2.0

//! Requests that refer to memory directly.

use super::CMany;
use super::Rdma;
use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ops::Range;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::scatter::Piece;

/// The SGE of a DMA segment.
pub(super) fn sge(piece: Piece, lkey: u32) -> bindings::ib_sge {
    bindings::ib_sge {
        addr: piece.addr,
        length: piece.len,
        lkey,
    }
}

/// The DMA segment of an SGE.
pub(super) fn piece(sge: &bindings::ib_sge) -> Piece {
    Piece {
        addr: sge.addr,
        len: sge.length,
    }
}

/// A request for DMA segments that are contiguous in the peer's memory.
fn request(rdma: &Rdma, pieces: *mut bindings::ib_sge, count: usize) -> bindings::ib_rdma_wr {
    let mut request = bindings::ib_rdma_wr::default();
    request.wr.opcode = rdma.opcode;
    request.wr.sg_list = pieces;
    // CAST: At most the number of SGEs of a request, a `u32`.
    request.wr.num_sge = count as c_int;
    request.remote_addr = rdma.remote;
    request.rkey = rdma.rkey;
    request
}

/// Writes a request with a single SGE.
///
/// # Safety
///
/// `sge_at` and `wr_at` must be valid for writes, and stay in place until the request is completed.
pub(super) unsafe fn write_one(
    sge_at: *mut bindings::ib_sge,
    wr_at: *mut bindings::ib_rdma_wr,
    piece: Piece,
    lkey: u32,
    rdma: &Rdma,
) {
    // SAFETY: By the contract of this function both are valid for writes.
    unsafe {
        sge_at.write(sge(piece, lkey));
        wr_at.write(request(rdma, sge_at, 1));
    }
}

/// Requests and their SGEs, in one allocation. Freed on drop.
///
/// # Invariants
///
/// `raw.wrs` is owned kmalloc memory with `requests` requests and, at `raw.sges` in it, `pieces`
/// SGEs. The SGEs of initialised requests are contiguous from there on.
pub(in crate::rw) struct Requests {
    raw: CMany,
    requests: usize,
    pieces: usize,
}

impl Requests {
    /// Allocates zeroed requests and SGEs. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in crate::rw) fn new(requests: usize, pieces: usize) -> Result<Self> {
        let of_requests = Layout::array::<bindings::ib_rdma_wr>(requests).map_err(|_| ENOMEM)?;
        let of_pieces = Layout::array::<bindings::ib_sge>(pieces).map_err(|_| ENOMEM)?;
        let (layout, at) = of_requests.extend(of_pieces).map_err(|_| ENOMEM)?;
        let memory = super::zeroed(layout)?.as_ptr();
        // INVARIANT: New memory of this size, zeroed, which is a valid value of both types.
        Ok(Self {
            raw: CMany {
                wrs: memory.cast(),
                sges: memory.wrapping_add(at).cast(),
            },
            requests,
            pieces,
        })
    }

    /// The requests of a completed transfer.
    ///
    /// # Safety
    ///
    /// `raw` and `requests` must come from [`into_raw`](Self::into_raw), and be used once.
    pub(super) unsafe fn from_raw(raw: CMany, requests: usize) -> Self {
        // INVARIANT: By the contract of this function. `pieces` is a lower bound.
        Self {
            raw,
            requests,
            pieces: 0,
        }
    }

    fn parts(&mut self) -> (&mut [bindings::ib_rdma_wr], &mut [bindings::ib_sge]) {
        // SAFETY: The memory is owned and has that many of both, which do not overlap (type
        // invariant).
        unsafe {
            (
                core::slice::from_raw_parts_mut(self.raw.wrs, self.requests),
                core::slice::from_raw_parts_mut(self.raw.sges, self.pieces),
            )
        }
    }

    /// The SGEs.
    pub(super) fn pieces(&mut self) -> &[bindings::ib_sge] {
        self.parts().1
    }

    /// The SGE at an index.
    pub(super) fn piece_mut(&mut self, at: usize) -> Option<&mut bindings::ib_sge> {
        self.parts().1.get_mut(at)
    }

    /// Writes an SGE. Ignored if the index is out of range.
    pub(in crate::rw) fn set_piece(&mut self, at: usize, piece: Piece, lkey: u32) {
        if let Some(place) = self.piece_mut(at) {
            *place = sge(piece, lkey);
        }
    }

    /// Writes the request `at` with the SGEs in `run`, and links it to the one before. Returns its
    /// length in bytes.
    pub(in crate::rw) fn set_request(&mut self, at: usize, run: Range<u32>, rdma: &Rdma) -> u64 {
        let (requests, pieces) = self.parts();
        // CAST: `usize` has at least 32 bits.
        let run = run.start as usize..run.end as usize;
        let mine = pieces.get_mut(run).unwrap_or_default();
        let bytes = mine.iter().fold(0, |bytes: u64, sge| {
            bytes.wrapping_add(u64::from(sge.length))
        });
        let Some(place) = requests.get_mut(at) else {
            return 0;
        };
        *place = request(rdma, mine.as_mut_ptr(), mine.len());
        let link = &raw mut place.wr;
        if let Some(before) = at.checked_sub(1).and_then(|at| requests.get_mut(at)) {
            before.wr.next = link;
        }
        bytes
    }

    /// The DMA segments of all requests of a transfer, but no more than `most`.
    pub(in crate::rw) fn made(&self, most: u32) -> impl Iterator<Item = Piece> + '_ {
        // SAFETY: There are that many requests, and their SGEs are contiguous (type invariant).
        let pieces = unsafe {
            let requests = core::slice::from_raw_parts(self.raw.wrs, self.requests);
            let pieces = requests.iter().fold(0, |sum: usize, wr| {
                sum.saturating_add(wr.wr.num_sge as usize)
            });
            core::slice::from_raw_parts(self.raw.sges, pieces.min(most as usize))
        };
        pieces.iter().map(piece)
    }

    /// Gives up ownership of the memory. Returns it with the number of requests.
    pub(super) fn into_raw(self) -> (CMany, usize) {
        let this = ManuallyDrop::new(self);
        (this.raw, this.requests)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // SAFETY: The memory is from kmalloc, and owned (type invariant).
        unsafe { bindings::kfree(self.raw.wrs.cast()) };
    }
}
