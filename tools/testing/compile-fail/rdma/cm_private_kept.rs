// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0521 borrowed data escapes

//! Private data of an event that are kept beyond the handler: they are in the peer's message, which is
//! freed.

use rdma::cm::CmEvent;
use rdma::cm::Params;

/// Keeps the data.
pub struct Kept<'a>(pub &'a [u8]);

/// Looks at the data of an event.
pub fn look(event: &CmEvent<'_>, kept: &mut Kept<'static>, seen: &mut usize) {
    if let Params::Conn(_, data) = event.params() {
        *seen = data.len();
        #[cfg(wrong)]
        {
            kept.0 = data;
        }
    }
    let _ = kept;
}
