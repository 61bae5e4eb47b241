// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 set_present

//! An attribute, called present by a handler: its place in the call was never written.

use crate::edge::call::Call;
use rdma::edge::uverbs::Present;

pub(crate) fn pretend(call: &Call) -> bool {
    let present: Present = call.present();
    #[cfg(wrong)]
    call.set_present(present.with(1));
    present.has(1)
}
