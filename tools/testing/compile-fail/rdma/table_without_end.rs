// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 WaitsForResidents

//! A table in a module that does not wait for RCU at its end: what is removed from the table is
//! dropped by code that was unloaded.

use kernel::prelude::*;
use rdma::new_table;
use rdma::table::Table;

/// A module.
pub struct Plain;

impl kernel::Module for Plain {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

// What `module!` makes of its `type:`.
#[cfg(not(wrong))]
rdma::resident_module! { struct LocalModule(Plain); }
#[cfg(wrong)]
type LocalModule = Plain;

/// A table.
pub fn table() -> impl PinInit<Table<u32>> {
    new_table!("table")
}
