// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0061 call

//! The method of one driver, called with the counters of another one.

use crate::edge::call::Call;
use crate::edge::object::counters::Read;
use crate::edge::object::counters::Set;
use kernel::prelude::*;

pub(crate) fn read(call: &Call, set: &Set, other: &Set, values: &mut [u64]) -> Result<usize> {
    let read = Read::of(set)?;
    #[cfg(wrong)]
    read.call(other, call, 0, values)?;
    let _ = Read::of(other)?;
    read.call(call, 0, values)
}
