// SPDX-License-Identifier: GPL-2.0

//! Transfers of scatter lists.

use super::context::Context;
use super::context::Kind;
use super::direct;
use super::direct::Piece;
use super::port;
use super::region;
use super::Qp;
use super::Target;
use crate::device::Device;
use crate::proto::rw_plan;
use core::mem::ManuallyDrop;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;

/// A list that is mapped for DMA; not any more on drop.
///
/// # Invariants
///
/// The table's list is mapped on the device, in this direction.
pub(super) struct Mapping<'a> {
    device: &'a Device,
    table: bindings::sg_table,
    dma: bindings::dma_data_direction,
}

impl<'a> Mapping<'a> {
    /// May sleep.
    ///
    /// # Errors
    ///
    /// Those of mapping; `EINVAL` for a list without entries.
    ///
    /// # Safety
    ///
    /// `sg` is a list of `count` entries, which stays while this exists.
    pub(super) unsafe fn new(
        device: &'a Device,
        sg: *mut bindings::scatterlist,
        count: u32,
        dma: bindings::dma_data_direction,
    ) -> Result<Self> {
        let mut table = bindings::sg_table {
            sgl: sg,
            orig_nents: count,
            ..Default::default()
        };
        // SAFETY: By this function's duty.
        to_result(unsafe {
            bindings::rdma_helper_rw_map_sgtable(device.as_raw(), &mut table, dma)
        })?;
        // INVARIANT: Just mapped.
        Ok(Self { device, table, dma })
    }

    /// How many pieces the device sees.
    pub(super) fn pieces(&self) -> u32 {
        self.table.nents
    }

    /// The pieces from one on.
    pub(super) fn from(&self, first: u32) -> Entries<'_> {
        let mut entries = Entries {
            at: self.table.sgl,
            left: self.table.nents,
            _mapping: self,
        };
        for _ in 0..first {
            let _: Option<Piece> = entries.next();
        }
        entries
    }

    /// It stays mapped: somebody unmaps it as the list that it is.
    pub(super) fn keep(self) -> bindings::sg_table {
        ManuallyDrop::new(self).table
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe {
            bindings::rdma_helper_rw_unmap_sgtable(self.device.as_raw(), &mut self.table, self.dma);
        }
    }
}

/// Goes through the entries of a mapped list.
///
/// # Invariants
///
/// `at` has `left` entries at least, which are mapped.
pub(super) struct Entries<'a> {
    at: *mut bindings::scatterlist,
    left: u32,
    _mapping: &'a Mapping<'a>,
}

impl Entries<'_> {
    /// How many there still are.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// The next one, as C has it.
    pub(super) fn at(&self) -> *mut bindings::scatterlist {
        self.at
    }
}

impl Iterator for Entries<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.at.is_null() {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        // SAFETY: By the type invariant.
        unsafe {
            let piece = Piece {
                addr: bindings::sg_dma_address(self.at),
                len: bindings::sg_dma_len(self.at),
            };
            self.at = bindings::sg_next(self.at);
            Some(piece)
        }
    }
}

/// Makes a transfer of a list, from `offset` bytes into it to its end. Returns how many
/// requests it has. May sleep.
///
/// # Errors
///
/// `EIO` if the list ends before; those of mapping, of [`region::build`], `ENOMEM`.
///
/// # Safety
///
/// `sg` is a list of `count` entries, which stays until the transfer is destroyed, as
/// `context` does at its place.
pub(super) unsafe fn init(
    context: &mut Context,
    qp: Qp,
    number: u32,
    sg: *mut bindings::scatterlist,
    count: u32,
    offset: u32,
    target: &Target,
) -> Result<u32> {
    // SAFETY: By this function's duty.
    let mapping = unsafe { Mapping::new(qp.device(), sg, count, target.dma) }?;
    let lengths = mapping.from(0).map(|piece| piece.len);
    let found = rw_plan::skip(lengths, offset);
    let Some((first, offset)) = found else {
        kernel::warn_on!(true);
        return Err(EIO);
    };
    let entries = mapping.from(first);
    let pieces = entries.left();
    let port = port(qp.device(), number);
    if port.registers(target.direction, pieces) {
        // SAFETY: So many entries are mapped.
        match unsafe { region::build(qp, &port, target, entries.at(), pieces, offset) } {
            Ok((regions, requests)) => {
                regions.finish(context, Kind::Region);
                mapping.keep();
                return Ok(requests);
            }
            // Without them it is slower, where they are not needed.
            Err(error) if error == EAGAIN && !port.must_register() => {}
            Err(error) => return Err(error),
        }
    }
    let requests = direct_from(context, qp, entries, offset, target)?;
    mapping.keep();
    Ok(requests)
}

/// The same, piece by piece.
fn direct_from(
    context: &mut Context,
    qp: Qp,
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
            // The offset is in the first.
            len: piece.len.saturating_sub(into),
        }
    });
    if count == 1 {
        let piece = pieces.next().ok_or(EIO)?;
        return Ok(direct::single(context, qp, target, piece));
    }
    let mut requests = direct::room(qp, target, count)?;
    let lkey = qp.lkey();
    let (_, sges) = requests.parts();
    for (sge, piece) in sges.iter_mut().zip(pieces) {
        *sge = bindings::ib_sge {
            addr: piece.addr,
            length: piece.len,
            lkey,
        };
    }
    Ok(direct::many(context, qp, target, requests))
}

/// Ends a transfer that [`init()`] made: regions go back, memory is freed and unmapped.
///
/// # Safety
///
/// It was, of this list, and is done.
pub(super) unsafe fn destroy(
    context: &mut Context,
    qp: Qp,
    sg: *mut bindings::scatterlist,
    count: u32,
    dma: bindings::dma_data_direction,
) {
    // SAFETY: By this function's duty.
    unsafe {
        match context.kind() {
            Some(Kind::Region) => {
                let first = context.regions();
                kernel::warn_on!(!first.is_null() && !(*first).sgt.sgl.is_null());
                region::destroy(context, qp, qp.regions());
            }
            Some(Kind::Many) => bindings::kfree(context.many().wrs.cast()),
            Some(Kind::Single) => {}
            // They are others' to destroy.
            Some(Kind::Joined | Kind::Signature) | None => {
                kernel::warn_on!(true);
                return;
            }
        }
        let mut table = bindings::sg_table {
            sgl: sg,
            orig_nents: count,
            ..Default::default()
        };
        bindings::rdma_helper_rw_unmap_sgtable(qp.device().as_raw(), &mut table, dma);
    }
}
