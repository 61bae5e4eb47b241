// SPDX-License-Identifier: GPL-2.0

//! Transfers of scatter lists.

use super::direct;
use super::edge::mapping::Mapping;
use super::edge::Content;
use super::edge::Done;
use super::edge::Kind;
use super::edge::Place;
use super::lkey;
use super::port;
use super::region;
use super::Target;
use crate::object::Object;
use crate::object::Qp;
use crate::proto::rw_plan;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::scatter::Piece;
use rdma::edge::scatter::Scatter;

/// A list and how many entries it has.
#[derive(Clone)]
pub(super) struct List<'a> {
    pub(super) list: Scatter<'a>,
    pub(super) count: u32,
}

/// Goes through the entries of a mapped list, as the device sees them.
pub(super) struct Entries<'a> {
    at: Scatter<'a>,
    left: u32,
}

impl<'a> Entries<'a> {
    /// Those from one on.
    pub(super) fn from(mapping: &'a Mapping<'_>, first: u32) -> Self {
        let mut entries = Self {
            at: mapping.list(),
            left: mapping.pieces(),
        };
        for _ in 0..first {
            let _: Option<Piece> = entries.next();
        }
        entries
    }

    /// How many there still are.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// The list from the next one on.
    pub(super) fn list(&self) -> Scatter<'a> {
        self.at.clone()
    }
}

impl Iterator for Entries<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let left = self.left.checked_sub(1)?;
        let piece = self.at.next()?;
        self.left = left;
        Some(piece)
    }
}

/// Makes a transfer of a list, from `offset` bytes into it to its end. Returns how many
/// requests it has. May sleep.
///
/// # Errors
///
/// `EIO` if the list ends before; those of mapping, of [`region::build`], `ENOMEM`.
pub(super) fn init(
    place: &mut Place<'_>,
    qp: &Qp,
    number: u32,
    list: &List<'_>,
    offset: u32,
    target: &Target,
) -> Result<u32> {
    let mapping = place.map(qp.device(), &list.list, list.count, target.dma)?;
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
            // Without them it is slower, where they are not needed.
            Err(error) if error == EAGAIN && !port.must_register() => {}
            Err(error) => return Err(error),
        }
    }
    let requests = direct_from(place, qp, entries, offset, target)?;
    mapping.keep();
    Ok(requests)
}

/// The same, piece by piece.
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
            // The offset is in the first.
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

/// Ends a transfer that [`init()`] made of this list: regions go back, memory is freed and
/// unmapped.
pub(super) fn destroy(done: Done<'_>, qp: &Qp, list: &List<'_>, dma: bindings::dma_data_direction) {
    match done.kind() {
        Some(Kind::Region | Kind::Many | Kind::Single) => {}
        // They are others' to destroy.
        Some(Kind::Joined | Kind::Signature) | None => {
            kernel::warn_on!(true);
            return;
        }
    }
    let Some((content, unmap)) = done.end(qp, dma) else {
        return;
    };
    if let Content::Regions(regions) = &content {
        kernel::warn_on!(regions.keeps_list());
    }
    drop(content);
    unmap.list(&list.list, list.count);
}
