// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 Rules

//! A flow of bytes that are no rules: the driver follows the addresses of objects in them.

use crate::edge::handle::New;
use crate::edge::object::flow;
use crate::edge::object::flow::Rules;
use crate::object::flow::Flow;
use kernel::prelude::*;
use rdma::edge::verbs::Qp;

pub(crate) fn make(new: New<'_, Flow>, qp: &Qp, rules: Rules, bytes: &mut [u8]) -> Result {
    #[cfg(not(wrong))]
    let made = flow::create(&new, qp, rules)?;
    #[cfg(wrong)]
    let made = flow::create(&new, qp, bytes)?;
    new.made(made);
    Ok(())
}
