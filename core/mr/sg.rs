// SPDX-License-Identifier: GPL-2.0

//! Converts scatter lists to the pages of a region, for `map_mr_sg` of drivers.

use crate::object::tables::Mr;
use crate::object::tables::SetPage;
use crate::proto::sg_pages;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use rdma::edge::scatter::Scatter;
use rdma::edge::Alone;
use rdma::edge::Lent;

/// Passes the pages of the start of a list to a driver, and sets address and length of the region
/// to match. Returns the number of entries taken completely; `offset` is then the position in the
/// next entry at which to continue. Never sleeps.
///
/// If a driver takes only some pages of an entry, offset and length cover exactly what was taken;
/// those of the C core are one page short.
fn to_pages(
    mut mr: Alone<'_, Mr>,
    list: Scatter<'_>,
    count: c_int,
    offset: Option<Lent<'_, c_uint>>,
    set_page: Option<SetPage<'_>>,
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
    mr.set_length(0);
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
            mr.set_length(taken.length);
            if let Some(offset) = offset {
                *offset.0 = taken.offset;
            }
            // CAST: At most `count`.
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
        set_page: Option<SetPage<'_>>,
    ) -> c_int = to_pages;
}
