// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 Tied

//! A list is taken for a pool of a queue pair that it does not belong to: it would be changed under
//! the wrong lock. Only arguments of one call of C are known to belong together.

use crate::edge::mr_pool::ListArg;
use crate::edge::mr_pool::Pool;
use crate::edge::mr_pool::QpArg;
use crate::object::Qp;

#[cfg(not(wrong))]
pub(crate) fn pool<'a>(qp: QpArg<'a>, _other: &'a Qp, list: ListArg<'a>) -> Option<Pool<'a>> {
    Pool::of(qp, list)
}

#[cfg(wrong)]
pub(crate) fn pool<'a>(_qp: QpArg<'a>, other: &'a Qp, list: ListArg<'a>) -> Option<Pool<'a>> {
    Pool::of(other, list)
}
