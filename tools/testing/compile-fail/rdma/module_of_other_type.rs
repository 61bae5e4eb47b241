// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 mismatched types

//! Residents of a type that is not the module: its end is dropped at any time, or never, and the
//! module is unloaded while its objects may be called.

use kernel::prelude::*;

/// A module.
pub struct Plain;

impl kernel::Module for Plain {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

rdma::resident_module! { struct Main(Plain); }

// What `module!` makes of its `type:`.
#[cfg(not(wrong))]
type LocalModule = Main;
#[cfg(wrong)]
type LocalModule = Plain;

/// An object that the kernel may call back.
pub fn resident() -> rdma::module::Resident {
    rdma::module::Resident::of::<Main>()
}
