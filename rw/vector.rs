// SPDX-License-Identifier: GPL-2.0

//! Transfers of vectors of pages (`struct bio_vec`), without a scatter list in between.
//!
//! An IOMMU, if there is one that supports it, maps several entries to one contiguous range;
//! otherwise each entry is a DMA segment, or all are registered where that is required.

use super::direct;
use super::edge::mapping;
use super::edge::mapping::Entries;
use super::edge::mapping::Mapping;
use super::edge::mapping::Pieces;
use super::edge::vector;
use super::edge::vector::Vector;
use super::edge::DmaArg;
use super::edge::Done;
use super::edge::Kind;
use super::edge::Place;
use super::edge::QpArg;
use super::edge::Vectors;
use super::lkey;
use super::port;
use super::region;
use super::Target;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::rw_plan;
use kernel::prelude::*;

/// Creates a transfer of a vector. Returns the number of its requests. May sleep.
///
/// # Errors
///
/// `EINVAL` for an empty vector, or one that exceeds the entries; `ENOMEM`; errors of mapping and
/// of [`region::build`].
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

/// Creates a transfer in which each part is a DMA segment.
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

/// Creates a transfer of all parts, mapped to one contiguous range, if there is an IOMMU that
/// supports it. Returns whether it was created. May sleep.
///
/// # Errors
///
/// Errors of mapping.
fn join(place: &mut Place<'_>, qp: &Qp, vector: &Vector<'_>, target: &Target) -> Result<bool> {
    let device = qp.device();
    if !vector::may_join(device) {
        return Ok(false);
    }
    let first = vector.parts().next().ok_or(EINVAL)??;
    // CAST: `usize` has at least 32 bits.
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

/// Creates a transfer of registered parts, by way of a scatter list, which the first region keeps.
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

/// Destroys a transfer that [`init()`] created of at most `count` entries.
pub(super) fn destroy(done: Done<'_, Vectors>, qp: QpArg<'_>, count: u32, dma: DmaArg<'_>) {
    if kernel::warn_on!(matches!(done.kind(), Some(Kind::Signature) | None)) {
        return;
    }
    if let Some(ended) = done.end(qp, dma) {
        ended.unmap(count);
    }
}
