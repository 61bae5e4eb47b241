// SPDX-License-Identifier: GPL-2.0

//! Transfers whose requests refer to memory directly, without registration.

use super::edge::direct::Requests;
use super::edge::Place;
use super::pieces;
use super::Target;
use crate::object::Qp;
use crate::proto::rw_plan;
use kernel::prelude::*;

/// Allocates the requests of a transfer of `count` DMA segments. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` for a queue pair whose requests take no SGEs.
pub(super) fn room(qp: &Qp, target: &Target, count: u32) -> Result<Requests> {
    let each = pieces(qp, target.direction);
    if each == 0 {
        return Err(EINVAL);
    }
    let requests = rw_plan::runs(count, each).len();
    Requests::new(requests, usize::try_from(count)?)
}

/// Creates a transfer of the `count` DMA segments in `requests`. Returns the number of its
/// requests.
pub(super) fn many(
    place: &mut Place<'_>,
    qp: &Qp,
    target: &Target,
    mut requests: Requests,
    count: u32,
) -> u32 {
    let runs = rw_plan::runs(count, pieces(qp, target.direction));
    // CAST: At most the number of DMA segments, a `u32`.
    let made = runs.len() as u32;
    let mut into = 0u64;
    let mut at = 0usize;
    for run in runs {
        into = into.wrapping_add(requests.set_request(at, run, &target.request(into)));
        at = at.wrapping_add(1);
    }
    place.many(requests);
    made
}
