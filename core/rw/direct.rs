// SPDX-License-Identifier: GPL-2.0

//! Requests that name memory piece by piece.

use super::context::Context;
use super::context::Joined;
use super::context::Kind;
use super::context::Requests;
use super::Qp;
use super::Target;
use crate::proto::rw_plan;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

/// Memory as the device sees it.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// Its address.
    pub(super) addr: u64,
    /// Bytes.
    pub(super) len: u32,
}

/// Fills in a request for pieces that follow each other in the peer's memory.
fn fill(
    request: &mut bindings::ib_rdma_wr,
    target: &Target,
    into: u64,
    pieces: *mut bindings::ib_sge,
    count: usize,
) {
    *request = bindings::ib_rdma_wr::default();
    request.wr.opcode = target.opcode();
    request.wr.sg_list = pieces;
    // No more than a request takes, which has 32 bits.
    request.wr.num_sge = count as c_int;
    request.remote_addr = target.remote.wrapping_add(into);
    request.rkey = target.rkey;
}

/// Makes a transfer of one piece.
pub(super) fn single(context: &mut Context, qp: Qp, target: &Target, piece: Piece) -> u32 {
    let place = context.single();
    // SAFETY: The context's own place, which stays where it is until the transfer is done.
    unsafe {
        let sge = &raw mut (*place).sge;
        sge.write(bindings::ib_sge {
            addr: piece.addr,
            length: piece.len,
            lkey: qp.lkey(),
        });
        fill(&mut (*place).wr, target, 0, sge, 1);
    }
    context.made(Kind::Single, 1);
    1
}

/// Makes a transfer of memory that was joined to one piece; the state of that is in the place
/// already.
pub(super) fn joined(context: &mut Context, qp: Qp, target: &Target, piece: Piece) -> u32 {
    let place: *mut Joined = context.joined();
    // SAFETY: The context's own place, which stays where it is until the transfer is done.
    unsafe {
        let sge = &raw mut (*place).sge;
        sge.write(bindings::ib_sge {
            addr: piece.addr,
            length: piece.len,
            lkey: qp.lkey(),
        });
        fill(&mut (*place).wr, target, 0, sge, 1);
    }
    context.made(Kind::Joined, 1);
    1
}

/// Room for a transfer of so many pieces. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` for a queue pair whose requests take no pieces.
pub(super) fn room(qp: Qp, target: &Target, pieces: u32) -> Result<Requests> {
    let each = qp.pieces(target.direction);
    if each == 0 {
        return Err(EINVAL);
    }
    let requests = rw_plan::runs(pieces, each).len();
    Requests::new(requests, usize::try_from(pieces)?)
}

/// Makes a transfer of the pieces in `requests`. Returns how many requests it has.
pub(super) fn many(context: &mut Context, qp: Qp, target: &Target, mut requests: Requests) -> u32 {
    let each = qp.pieces(target.direction);
    let (wrs, sges) = requests.parts();
    // As many as were asked for in 32 bits.
    let runs = rw_plan::runs(sges.len() as u32, each);
    let count = runs.len() as u32;
    let mut into = 0u64;
    let mut rest = sges;
    let mut link: *mut bindings::ib_send_wr = core::ptr::null_mut();
    for (run, wr) in runs.zip(wrs.iter_mut()) {
        let (mine, others) = rest.split_at_mut((run.len()).min(rest.len()));
        rest = others;
        let bytes = mine.iter().map(|sge| u64::from(sge.length)).sum();
        fill(wr, target, into, mine.as_mut_ptr(), mine.len());
        into = into.wrapping_add(bytes);
        if !link.is_null() {
            // SAFETY: The request before this one, in the same memory.
            unsafe { (*link).next = &raw mut wr.wr };
        }
        link = &raw mut wr.wr;
    }
    let raw = requests.into_raw();
    context.set_many(raw);
    context.made(Kind::Many, count as usize);
    count
}

/// The first and the last request of a transfer.
///
/// # Safety
///
/// It was made here.
pub(super) unsafe fn ends(
    context: &mut Context,
) -> Option<(*mut bindings::ib_send_wr, *mut bindings::ib_send_wr)> {
    let ops = context.ops();
    // SAFETY: By this function's duty these are the requests.
    unsafe {
        Some(match context.kind()? {
            Kind::Single => {
                let wr = &raw mut (*context.single()).wr.wr;
                (wr, wr)
            }
            Kind::Joined => {
                let wr = &raw mut (*context.joined()).wr.wr;
                (wr, wr)
            }
            Kind::Many => {
                let wrs = context.many().wrs;
                let last = wrs.add(ops.checked_sub(1)?);
                (&raw mut (*wrs).wr, &raw mut (*last).wr)
            }
            Kind::Region | Kind::Signature => return None,
        })
    }
}
