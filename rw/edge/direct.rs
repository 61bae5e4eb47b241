// SPDX-License-Identifier: GPL-2.0

//! Requests that name memory piece by piece.

use super::CMany;
use super::Rdma;
use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ops::Range;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::scatter::Piece;

/// A piece, as a request names it.
pub(super) fn sge(piece: Piece, lkey: u32) -> bindings::ib_sge {
    bindings::ib_sge {
        addr: piece.addr,
        length: piece.len,
        lkey,
    }
}

/// A piece that a request names.
pub(super) fn piece(sge: &bindings::ib_sge) -> Piece {
    Piece {
        addr: sge.addr,
        len: sge.length,
    }
}

/// A request for pieces that follow each other in the peer's memory.
fn request(rdma: &Rdma, pieces: *mut bindings::ib_sge, count: usize) -> bindings::ib_rdma_wr {
    let mut request = bindings::ib_rdma_wr::default();
    request.wr.opcode = rdma.opcode;
    request.wr.sg_list = pieces;
    // CAST: No more than a request takes, which has 32 bits.
    request.wr.num_sge = count as c_int;
    request.remote_addr = rdma.remote;
    request.rkey = rdma.rkey;
    request
}

/// Writes a request of one piece.
///
/// # Safety
///
/// Both places can be written, and stay until the request is done.
pub(super) unsafe fn write_one(
    sge_at: *mut bindings::ib_sge,
    wr_at: *mut bindings::ib_rdma_wr,
    piece: Piece,
    lkey: u32,
    rdma: &Rdma,
) {
    // SAFETY: This function's contract.
    unsafe {
        sge_at.write(sge(piece, lkey));
        wr_at.write(request(rdma, sge_at, 1));
    }
}

/// Requests and their pieces, in one memory. Freed on drop.
///
/// # Invariants
///
/// `raw.wrs` is memory of kmalloc's that is ours, with `requests` requests, and at
/// `raw.sges` in it `pieces` pieces. The pieces of requests that were made follow each other from
/// there on.
pub(in crate::rw) struct Requests {
    raw: CMany,
    requests: usize,
    pieces: usize,
}

impl Requests {
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in crate::rw) fn new(requests: usize, pieces: usize) -> Result<Self> {
        let of_requests = Layout::array::<bindings::ib_rdma_wr>(requests).map_err(|_| ENOMEM)?;
        let of_pieces = Layout::array::<bindings::ib_sge>(pieces).map_err(|_| ENOMEM)?;
        let (layout, at) = of_requests.extend(of_pieces).map_err(|_| ENOMEM)?;
        let memory = super::zeroed(layout)?.as_ptr();
        // INVARIANT: New memory of this size, of zeros, which are values of both.
        Ok(Self {
            raw: CMany {
                wrs: memory.cast(),
                sges: memory.wrapping_add(at).cast(),
            },
            requests,
            pieces,
        })
    }

    /// Those of a transfer that is done.
    ///
    /// # Safety
    ///
    /// `raw` and `requests` are of [`into_raw`](Self::into_raw), once.
    pub(super) unsafe fn from_raw(raw: CMany, requests: usize) -> Self {
        // INVARIANT: This function's contract. `pieces` says how many there are at least.
        Self {
            raw,
            requests,
            pieces: 0,
        }
    }

    fn parts(&mut self) -> (&mut [bindings::ib_rdma_wr], &mut [bindings::ib_sge]) {
        // SAFETY: The memory is ours, with so many of both, which do not overlap (type invariant).
        unsafe {
            (
                core::slice::from_raw_parts_mut(self.raw.wrs, self.requests),
                core::slice::from_raw_parts_mut(self.raw.sges, self.pieces),
            )
        }
    }

    /// The pieces.
    pub(super) fn pieces(&mut self) -> &[bindings::ib_sge] {
        self.parts().1
    }

    /// A piece.
    pub(super) fn piece_mut(&mut self, at: usize) -> Option<&mut bindings::ib_sge> {
        self.parts().1.get_mut(at)
    }

    /// Writes a piece. What there is no room for is left out.
    pub(in crate::rw) fn set_piece(&mut self, at: usize, piece: Piece, lkey: u32) {
        if let Some(place) = self.piece_mut(at) {
            *place = sge(piece, lkey);
        }
    }

    /// Writes the request `at`, which has these pieces, and links it to the one before. Returns
    /// how many bytes it moves.
    pub(in crate::rw) fn set_request(&mut self, at: usize, run: Range<u32>, rdma: &Rdma) -> u64 {
        let (requests, pieces) = self.parts();
        // CAST: Not less than 32 bits.
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

    /// The pieces of the requests of a transfer, as many as it has, and no more than `most`.
    pub(in crate::rw) fn made(&self, most: u32) -> impl Iterator<Item = Piece> + '_ {
        // SAFETY: There are so many requests, and their pieces lie one after the other (type
        // invariant).
        let pieces = unsafe {
            let requests = core::slice::from_raw_parts(self.raw.wrs, self.requests);
            let pieces = requests.iter().fold(0, |sum: usize, wr| {
                sum.saturating_add(wr.wr.num_sge as usize)
            });
            core::slice::from_raw_parts(self.raw.sges, pieces.min(most as usize))
        };
        pieces.iter().map(piece)
    }

    /// Gives the memory away, with the number of requests.
    pub(super) fn into_raw(self) -> (CMany, usize) {
        let this = ManuallyDrop::new(self);
        (this.raw, this.requests)
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // SAFETY: The memory is kmalloc's, and ours (type invariant).
        unsafe { bindings::kfree(self.raw.wrs.cast()) };
    }
}
