// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0505 new

//! A new handle, used after it was aborted: its memory is freed.

use crate::edge::handle::New;
use crate::object::pd::Pd;

pub(crate) fn number(new: New<'_, Pd>) -> u32 {
    let handle = new.handle();
    #[cfg(wrong)]
    drop(new);
    handle.number()
}
