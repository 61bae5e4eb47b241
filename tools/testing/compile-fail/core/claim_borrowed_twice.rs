// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0502 claim

//! The bytes of a MAD, read and written at the same time through one claim.

use crate::mad::client::Claim;

pub(crate) fn repeat_first(claim: &mut Claim) {
    let first = claim.mad().first();
    #[cfg(not(wrong))]
    let first = first.copied();
    #[cfg(not(wrong))]
    let first = first.as_ref();
    if let (Some(first), Some(last)) = (first, claim.mad_mut().last_mut()) {
        *last = *first;
    }
}
