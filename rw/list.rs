// SPDX-License-Identifier: GPL-2.0

//! Transfers of scatter lists.

use super::direct;
use super::edge::mapping::Data;
use super::edge::mapping::Entries;
use super::edge::mapping::List;
use super::edge::DmaArg;
use super::edge::Done;
use super::edge::Kind;
use super::edge::Lists;
use super::edge::Place;
use super::edge::QpArg;
use super::lkey;
use super::port;
use super::region;
use super::Target;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::rw_plan;
use kernel::prelude::*;
use rdma::edge::scatter::Piece;

/// Creates a transfer of a list, from `offset` bytes into the list to its end. Returns the number
/// of its requests. May sleep.
///
/// # Errors
///
/// `EIO` if `offset` is beyond the list; errors of mapping and of [`region::build`]; `ENOMEM`.
pub(super) fn init(
    place: &mut Place<'_>,
    qp: &Qp,
    number: u32,
    list: &List<'_, Data>,
    offset: u32,
    target: &Target,
) -> Result<u32> {
    let mapping = place.map(qp.device(), list, target.dma)?;
    let lengths = Entries::from(&mapping, 0).map(|piece| piece.len);
    let found = rw_plan::skip(lengths, offset);
    let Some((first, offset)) = found else {
        kernel::warn_on!(true);
        return Err(EIO);
    };
    let entries = Entries::from(&mapping, first);
    let port = port(qp.device(), number);
    if port.registers(target.direction, entries.left()) {
        match region::build(qp, &port, target, &entries, offset) {
            Ok((regions, requests)) => {
                place.regions(regions);
                mapping.keep();
                return Ok(requests);
            }
            // Without regions it is slower, but possible unless registration is required.
            Err(error) if error == EAGAIN && !port.must_register() => {}
            Err(error) => return Err(error),
        }
    }
    let requests = direct_from(place, qp, entries, offset, target)?;
    mapping.keep();
    Ok(requests)
}

/// Like [`init()`], without registration.
fn direct_from(
    place: &mut Place<'_>,
    qp: &Qp,
    entries: Entries<'_>,
    offset: u32,
    target: &Target,
) -> Result<u32> {
    let mut skip = offset;
    let count = entries.left();
    let mut pieces = entries.map(|piece| {
        let into = core::mem::take(&mut skip);
        Piece {
            addr: piece.addr.wrapping_add(u64::from(into)),
            // `offset` is within the first DMA segment.
            len: piece.len.saturating_sub(into),
        }
    });
    let lkey = lkey(qp);
    if count == 1 {
        let piece = pieces.next().ok_or(EIO)?;
        place.single(piece, lkey, &target.request(0));
        return Ok(1);
    }
    let mut requests = direct::room(qp, target, count)?;
    for (at, piece) in pieces.enumerate() {
        requests.set_piece(at, piece, lkey);
    }
    Ok(direct::many(place, qp, target, requests, count))
}

/// Destroys a transfer that [`init()`] created of this list: returns its regions, frees its memory
/// and unmaps the list.
pub(super) fn destroy(done: Done<'_, Lists>, qp: QpArg<'_>, list: List<'_, Data>, dma: DmaArg<'_>) {
    match done.kind() {
        Some(Kind::Region | Kind::Many | Kind::Single) => {}
        // The other destroy functions handle these.
        Some(Kind::Joined | Kind::Signature) | None => {
            kernel::warn_on!(true);
            return;
        }
    }
    if let Some(ended) = done.end(qp, dma) {
        ended.unmap(list, None);
    }
}
