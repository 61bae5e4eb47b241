// SPDX-License-Identifier: GPL-2.0

//! Transfers of vectors of pages (`struct bio_vec`), without a scatter list in between.
//!
//! Several entries are joined to one piece by an IOMMU, where there is one that can; else
//! each is a piece, or all are registered where they must be.

use super::context::Array;
use super::context::Context;
use super::context::Joined;
use super::context::Kind;
use super::direct;
use super::direct::Piece;
use super::list::Mapping;
use super::port;
use super::region;
use super::Qp;
use super::Target;
use crate::device::Device;
use crate::proto::rw_plan;
use crate::proto::rw_plan::Segment;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;

/// A part of a vector.
#[derive(Clone, Copy)]
pub(super) struct Vector<'a> {
    /// Its entries.
    pub(super) entries: &'a [bindings::bio_vec],
    /// Where in them it begins, and how long it is.
    pub(super) iter: bindings::bvec_iter,
}

impl Vector<'_> {
    fn bytes(&self) -> u32 {
        self.iter.bi_size
    }

    /// Its parts in the entries.
    fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let (first, done) = (self.iter.bi_idx, self.iter.bi_bvec_done);
        rw_plan::segments(self.entries, first, done, self.bytes(), |entry| {
            entry.bv_len
        })
    }

    /// A part, as C has it.
    fn part(&self, segment: Segment) -> Result<bindings::bio_vec> {
        let entry = self.entries.get(segment.entry).ok_or(EINVAL)?;
        Ok(bindings::bio_vec {
            bv_page: entry.bv_page,
            bv_len: segment.len,
            bv_offset: entry.bv_offset.checked_add(segment.offset).ok_or(EINVAL)?,
        })
    }

    /// Its parts, as C has them.
    fn parts(&self) -> impl Iterator<Item = Result<bindings::bio_vec>> + '_ {
        self.segments().map(|segment| self.part(segment))
    }
}

/// Makes a transfer of a vector. Returns how many requests it has. May sleep.
///
/// # Errors
///
/// `EINVAL` for nothing, or for more than the entries have; `ENOMEM`; those of mapping and of
/// [`region::build`].
///
/// # Safety
///
/// The pages of the vector stay until the transfer is destroyed, as `context` does at its
/// place.
pub(super) unsafe fn init(
    context: &mut Context,
    qp: Qp,
    number: u32,
    vector: &Vector<'_>,
    target: &Target,
) -> Result<u32> {
    if vector.bytes() == 0 {
        return Err(EINVAL);
    }
    let pieces = rw_plan::covered(vector.segments(), vector.bytes()).ok_or(EINVAL)?;
    let port = port(qp.device(), number);
    // SAFETY: By this function's duty, for each of them.
    unsafe {
        if port.registers_pages(target.direction) {
            return registered(context, qp, &port, vector, pieces, target);
        }
        if pieces == 1 {
            let part = vector.parts().next().ok_or(EINVAL)??;
            let piece = map(qp.device(), part, target)?;
            return Ok(direct::single(context, qp, target, piece));
        }
        if let Some(piece) = join(context, qp.device(), vector, target)? {
            return Ok(direct::joined(context, qp, target, piece));
        }
        each(context, qp, vector, pieces, target)
    }
}

/// Maps a part for DMA.
///
/// # Errors
///
/// `ENOMEM`.
///
/// # Safety
///
/// The page stays until it is unmapped.
unsafe fn map(device: &Device, mut part: bindings::bio_vec, target: &Target) -> Result<Piece> {
    // SAFETY: By this function's duty.
    unsafe {
        let addr = bindings::rdma_helper_rw_map_bvec(device.as_raw(), &mut part, target.dma);
        if bindings::rdma_helper_rw_mapping_error(device.as_raw(), addr) {
            return Err(ENOMEM);
        }
        Ok(Piece {
            addr,
            len: part.bv_len,
        })
    }
}

/// Unmaps pieces, up to the first that is none.
///
/// # Safety
///
/// The others are mapped on the device in this direction, and not in use.
unsafe fn unmap<'a>(
    device: &Device,
    pieces: impl Iterator<Item = &'a bindings::ib_sge>,
    dma: bindings::dma_data_direction,
) {
    for sge in pieces.take_while(|sge| sge.length != 0) {
        // SAFETY: By this function's duty.
        unsafe {
            let len = sge.length as usize;
            bindings::rdma_helper_rw_unmap_bvec(device.as_raw(), sge.addr, len, dma);
        }
    }
}

/// Each part is a piece.
///
/// # Safety
///
/// As for [`init()`].
unsafe fn each(
    context: &mut Context,
    qp: Qp,
    vector: &Vector<'_>,
    pieces: u32,
    target: &Target,
) -> Result<u32> {
    let mut requests = direct::room(qp, target, pieces)?;
    let lkey = qp.lkey();
    let (_, sges) = requests.parts();
    let mut map_all = || -> Result {
        for (sge, part) in sges.iter_mut().zip(vector.parts()) {
            // SAFETY: By this function's duty.
            let piece = unsafe { map(qp.device(), part?, target) }?;
            *sge = bindings::ib_sge {
                addr: piece.addr,
                length: piece.len,
                lkey,
            };
        }
        Ok(())
    };
    if let Err(error) = map_all() {
        // SAFETY: Those with a length were mapped; nobody has seen them.
        unsafe { unmap(qp.device(), sges.iter(), target.dma) };
        return Err(error);
    }
    Ok(direct::many(context, qp, target, requests))
}

/// Joins all parts to one piece, where an IOMMU can. Its state is in the context then. May
/// sleep.
///
/// # Errors
///
/// Those of mapping.
///
/// # Safety
///
/// As for [`init()`].
unsafe fn join(
    context: &mut Context,
    device: &Device,
    vector: &Vector<'_>,
    target: &Target,
) -> Result<Option<Piece>> {
    let total = vector.bytes() as usize;
    let place: *mut Joined = context.joined();
    // SAFETY: By this function's duty; the place is the context's own.
    unsafe {
        // Such a device has no IOMMU.
        if bindings::rdma_helper_ib_uses_virt_dma(device.as_raw()) {
            return Ok(None);
        }
        let state = &raw mut (*place).state;
        let mut first = vector.parts().next().ok_or(EINVAL)??;
        if !bindings::rdma_helper_rw_iova_try_alloc(device.as_raw(), state, &mut first, total) {
            return Ok(None);
        }
        let mut linked = 0usize;
        let mut link = || -> Result {
            for part in vector.parts() {
                let mut part = part?;
                to_result(bindings::rdma_helper_rw_iova_link(
                    device.as_raw(),
                    state,
                    &mut part,
                    linked,
                    target.dma,
                ))?;
                linked = linked.saturating_add(part.bv_len as usize);
            }
            to_result(bindings::rdma_helper_rw_iova_sync(
                device.as_raw(),
                state,
                linked,
            ))
        };
        if let Err(error) = link() {
            // What was linked, and all of the range.
            bindings::rdma_helper_rw_iova_destroy(device.as_raw(), state, linked, target.dma);
            return Err(error);
        }
        (*place).mapped_len = linked;
        Ok(Some(Piece {
            addr: (*state).addr,
            len: vector.bytes(),
        }))
    }
}

/// All parts are registered, by way of a scatter list, which the first region keeps.
///
/// # Safety
///
/// As for [`init()`].
unsafe fn registered(
    context: &mut Context,
    qp: Qp,
    port: &rw_plan::Port,
    vector: &Vector<'_>,
    pieces: u32,
    target: &Target,
) -> Result<u32> {
    let mut list = Array::<bindings::scatterlist>::new(usize::try_from(pieces)?)?;
    // SAFETY: The list has so many entries; pages are the caller's.
    unsafe {
        bindings::sg_init_table(list.as_mut_ptr(), pieces);
        for (entry, part) in list.iter_mut().zip(vector.parts()) {
            let part = part?;
            bindings::rdma_helper_rw_sg_set_page(entry, part.bv_page, part.bv_len, part.bv_offset);
        }
        let mapping = Mapping::new(qp.device(), list.as_mut_ptr(), pieces, target.dma)?;
        let entries = mapping.from(0);
        let (mut regions, requests) =
            region::build(qp, port, target, entries.at(), entries.left(), 0)?;
        let first = regions.first().ok_or(EINVAL)?;
        first.sgt = mapping.keep();
        let _: *mut bindings::scatterlist = list.into_raw();
        regions.finish(context, Kind::Region);
        Ok(requests)
    }
}

/// Ends a transfer that [`init()`] made.
///
/// # Safety
///
/// It was, of so many entries at most, and is done.
pub(super) unsafe fn destroy(
    context: &mut Context,
    qp: Qp,
    count: u32,
    dma: bindings::dma_data_direction,
) {
    let device = qp.device().as_raw();
    // SAFETY: By this function's duty.
    unsafe {
        match context.kind() {
            Some(Kind::Region) => {
                let table = &raw mut (*context.regions()).sgt;
                bindings::rdma_helper_rw_unmap_sgtable(device, table, dma);
                let list = (*table).sgl;
                region::destroy(context, qp, qp.regions());
                bindings::kfree(list.cast());
            }
            Some(Kind::Joined) => {
                let place = context.joined();
                let mapped = (*place).mapped_len;
                let state = &raw mut (*place).state;
                bindings::rdma_helper_rw_iova_destroy(device, state, mapped, dma);
            }
            Some(Kind::Many) => {
                let many = context.many();
                // All requests' pieces lie one after the other.
                let requests = core::slice::from_raw_parts(many.wrs, context.ops());
                let pieces = requests
                    .iter()
                    .map(|wr| wr.wr.num_sge as usize)
                    .sum::<usize>();
                let pieces = pieces.min(count as usize);
                let sges = core::slice::from_raw_parts(many.sges, pieces);
                unmap(qp.device(), sges.iter(), dma);
                bindings::kfree(many.wrs.cast());
            }
            Some(Kind::Single) => {
                let sge = &(*context.single()).sge;
                unmap(qp.device(), core::iter::once(sge), dma);
            }
            Some(Kind::Signature) | None => {
                kernel::warn_on!(true);
            }
        }
    }
}
