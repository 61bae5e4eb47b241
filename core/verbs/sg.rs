// SPDX-License-Identifier: GPL-2.0

//! Scatter lists as the pages of a region, for drivers' `map_mr_sg`.

use crate::object::tables::Mr;
use crate::object::tables::SetPage;
use crate::proto::sg_pages;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use rdma::edge::scatter::Scatter;
use rdma::edge::Alone;
use rdma::edge::Lent;

/// Hands the pages of the beginning of a list to a driver, and sets address and length of the
/// region accordingly. Returns how many entries were taken whole; the offset is then where
/// in the next one to go on. Never sleeps.
///
/// Where a driver takes only some pages of an entry, offset and length say exactly what was
/// taken; the C core says a page less.
fn to_pages(
    mut mr: Alone<'_, Mr>,
    list: Scatter<'_>,
    count: c_int,
    offset: Option<Lent<'_, c_uint>>,
    set_page: Option<SetPage>,
) -> c_int {
    let Some(set_page) = set_page else {
        return EINVAL.to_errno();
    };
    let count = usize::try_from(count).unwrap_or(0);
    let Some(first) = list.addr().filter(|_| count != 0) else {
        return EINVAL.to_errno();
    };
    let start = offset.as_ref().map_or(0, |offset| *offset.0);
    Mr::set_iova(&mut mr, first.wrapping_add(u64::from(start)));
    Mr::set_length(&mut mr, 0);
    let entries = list.take(count).map(|piece| sg_pages::Entry {
        addr: piece.addr,
        len: piece.len,
    });
    let taken = sg_pages::take(entries, start, mr.page_size(), |page| {
        match set_page.hand(&mr, page) {
            refused if refused < 0 => Err(refused),
            _ => Ok(()),
        }
    });
    match taken {
        Ok(taken) => {
            Mr::set_length(&mut mr, taken.length);
            if let Some(offset) = offset {
                *offset.0 = taken.offset;
            }
            // CAST: No more than `count`.
            taken.entries as c_int
        }
        Err(sg_pages::Refusal::Invalid) => EINVAL.to_errno(),
        Err(sg_pages::Refusal::Page(refused)) => refused,
    }
}

rdma::export! {
    in rdma::bindings;

    /// See [`to_pages`].
    fn ib_sg_to_pages(
        mr: Alone<'_, Mr>, list: Scatter<'_>, count: c_int, offset: Option<Lent<'_, c_uint>>,
        set_page: Option<SetPage>,
    ) -> c_int = to_pages;
}
