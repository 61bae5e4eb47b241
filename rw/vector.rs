// SPDX-License-Identifier: GPL-2.0

//! Transfers of vectors of pages (`struct bio_vec`), without a scatter list in between.
//!
//! Several entries are joined to one piece by an IOMMU, where there is one that can; else
//! each is a piece, or all are registered where they must be.

use super::direct;
use super::edge::mapping;
use super::edge::mapping::Mapping;
use super::edge::mapping::Pieces;
use super::edge::vector;
use super::edge::vector::Vector;
use super::edge::Content;
use super::edge::Done;
use super::edge::Kind;
use super::edge::Place;
use super::list::Entries;
use super::lkey;
use super::port;
use super::region;
use super::Target;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::rw_plan;
use kernel::prelude::*;
use rdma::bindings;

/// Makes a transfer of a vector. Returns how many requests it has. May sleep.
///
/// # Errors
///
/// `EINVAL` for nothing, or for more than the entries have; `ENOMEM`; those of mapping and of
/// [`region::build`].
pub(super) fn init(
    place: &mut Place<'_>,
    qp: &Qp,
    number: u32,
    vector: &Vector<'_>,
    target: &Target,
) -> Result<u32> {
    if vector.bytes() == 0 {
        return Err(EINVAL);
    }
    let pieces = rw_plan::covered(vector.segments(), vector.bytes()).ok_or(EINVAL)?;
    let port = port(qp.device(), number);
    if port.registers_pages(target.direction) {
        return registered(place, qp, &port, vector, pieces, target);
    }
    if pieces == 1 {
        let part = vector.parts().next().ok_or(EINVAL)??;
        let piece = mapping::map(qp.device(), part, target.dma)?;
        place.single(piece, lkey(qp), &target.request(0));
        return Ok(1);
    }
    if join(place, qp, vector, target)? {
        return Ok(1);
    }
    each(place, qp, vector, pieces, target)
}

/// Each part is a piece.
fn each(
    place: &mut Place<'_>,
    qp: &Qp,
    vector: &Vector<'_>,
    count: u32,
    target: &Target,
) -> Result<u32> {
    let requests = direct::room(qp, target, count)?;
    let mut pieces = Pieces::new(qp.device(), target.dma, requests);
    let lkey = lkey(qp);
    for part in vector.parts() {
        pieces.push(part?, lkey)?;
    }
    Ok(direct::many(place, qp, target, pieces.keep(), count))
}

/// Makes a transfer of all parts joined to one piece, where an IOMMU can do that; whether it could.
/// May sleep.
///
/// # Errors
///
/// Those of mapping.
fn join(place: &mut Place<'_>, qp: &Qp, vector: &Vector<'_>, target: &Target) -> Result<bool> {
    let device = qp.device();
    if !vector::may_join(device) {
        return Ok(false);
    }
    let first = vector.parts().next().ok_or(EINVAL)??;
    // CAST: Not less than 32 bits.
    let total = vector.bytes() as usize;
    let Some(mut joining) = place.join(device, first, total, target.dma) else {
        return Ok(false);
    };
    for part in vector.parts() {
        joining.link(part?)?;
    }
    joining.finish(vector.bytes(), lkey(qp), &target.request(0))?;
    Ok(true)
}

/// All parts are registered, by way of a scatter list, which the first region keeps.
fn registered(
    place: &mut Place<'_>,
    qp: &Qp,
    port: &rw_plan::Port,
    vector: &Vector<'_>,
    pieces: u32,
    target: &Target,
) -> Result<u32> {
    let mapping = Mapping::of_parts(qp.device(), vector.parts(), pieces, target.dma)?;
    let entries = Entries::from(&mapping, 0);
    let (mut regions, requests) = region::build(qp, port, target, &entries, 0)?;
    mapping.keep_in(&mut regions)?;
    place.regions(regions);
    Ok(requests)
}

/// Ends a transfer that [`init()`] made of so many entries at most.
pub(super) fn destroy(done: Done<'_>, qp: &Qp, count: u32, dma: bindings::dma_data_direction) {
    if kernel::warn_on!(matches!(done.kind(), Some(Kind::Signature) | None)) {
        return;
    }
    let Some((content, unmap)) = done.end(qp, dma) else {
        return;
    };
    match content {
        Content::Regions(regions) => unmap.kept(regions),
        // It is unmapped.
        Content::Joined(joined) => drop(joined),
        Content::Many(requests) => unmap.pieces(requests.made(count)),
        Content::Single(piece) => unmap.pieces(core::iter::once(piece)),
    }
}
