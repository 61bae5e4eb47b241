// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0521 set_page

//! A driver's function that takes pages, kept after the call that passed it: it would be called for
//! a region of another driver.

use crate::object::tables::Mr;
use crate::object::tables::SetPage;
use kernel::ffi::c_int;
use rdma::edge::Alone;

#[cfg(wrong)]
fn keep(_: SetPage<'static>) {}

pub(crate) fn pass(mr: &Alone<'_, Mr>, set_page: SetPage<'_>) -> c_int {
    let done = set_page.hand(mr, 0);
    #[cfg(wrong)]
    keep(set_page);
    done
}
