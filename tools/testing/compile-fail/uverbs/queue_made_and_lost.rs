// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0505 new

//! A completion queue whose handle is aborted after the driver has made the queue: its events go to
//! freed memory.

use crate::edge::handle::Handle;
use crate::edge::handle::New;
use crate::edge::object::cq;
use crate::edge::object::cq::Wanted;
use crate::object::cq::Cq;
use kernel::prelude::*;

pub(crate) fn make<'c>(new: New<'c, Cq>, wanted: &Wanted) -> Result<&'c Handle<Cq>> {
    #[cfg(wrong)]
    let handle = new.handle();
    let made = cq::create(new, wanted)?;
    #[cfg(wrong)]
    let _ = handle.number();
    Ok(made.handle())
}
