// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0505 context

//! A context, freed before a handle that is of it: the end of the handle reads it.

use crate::edge::call::Call;
use crate::edge::object::context::NewContext;
use crate::object::async_event::AsyncFile;
use kernel::prelude::*;

pub(crate) fn make(call: &Call) -> Result {
    let context = NewContext::alloc(call)?;
    let new = context.begin::<AsyncFile>()?;
    #[cfg(wrong)]
    drop(context);
    drop(new);
    Ok(())
}
