// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0200 Id

//! A second type of handles with a number: what is beside the handles of the first one is read as if
//! it were this one's.

use crate::edge::handle::Id;
use crate::edge::handle::Kind;
use crate::object::pd::Pd;
use kernel::prelude::*;

pub(crate) struct Other;

#[cfg(wrong)]
impl Id for Other {
    const ID: u32 = Pd::ID;
}

#[cfg(wrong)]
impl Kind for Other {
    type Beside = crate::object::qp::Beside;

    fn beside() -> impl PinInit<Self::Beside> {
        crate::object::qp::Qp::beside()
    }
}

pub(crate) fn number<K: Kind>() -> u32 {
    K::ID.max(Pd::ID)
}
