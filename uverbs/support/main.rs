// SPDX-License-Identifier: GPL-2.0

//! `ib_uverbs_support`: lifetimes of the objects that programs create through user verbs.
//!
//! Drop-in replacement of the C module of the same name. `ib_uverbs` and drivers call it; structures
//! are C's, since drivers (`mlx5`) walk the handles of an open file themselves. It reaches `ib_core`
//! by exported functions only, so either one may be the C one.
//!
//! | file | what |
//! |---|---|
//! | `begin` | a handle is created: begun, committed or aborted |
//! | `lookup` | a handle is used: found by number or file descriptor, locked, put |
//! | `destroy` | an object is destroyed: by its user, with all of a file, or at removal of the device |
//! | `method` | handles among the attributes of a method |
//! | `flow` | the objects that a flow uses |
//! | `ucaps` | user capabilities: nodes that stand for a right |
//! | `edge` | the C structures |
//!
//! A handle (`struct ib_uobject`) is begun, with a number or a file descriptor that nobody can use
//! yet; when it is committed, it is in the table and in the list of its open file, each of which has
//! a reference. `usecnt` says who uses it: -1 for one exclusively, else how many share it; nobody
//! waits for it. Of a handle whose object is destroyed, the memory stays as long as references, and
//! an RCU grace period for readers of the table.
//!
//! Locks: `hw_destroy_rwsem` of the open file, for reading from begin to commit or abort and while
//! one object is destroyed, for writing (by `ib_uverbs`) while all of them are; then `uobjects_lock`
//! or the lock of the table, which are not held together. Creation takes the first by trylock only.
//!
//! C headers: `include/rdma/uverbs_types.h`, `drivers/infiniband/core/rdma_core.h`.

#![allow(unreachable_pub, reason = "C calls what is exported")]

mod begin;
mod destroy;
mod edge;
mod flow;
mod lookup;
mod method;
#[path = "../../core/private.rs"]
mod private;
mod ucaps;

use kernel::prelude::*;

rdma::resident_module! { struct Main(Support); }

module! {
    type: Main,
    name: "ib_uverbs_support",
    authors: ["The rust-rdma authors"],
    description: "InfiniBand uverbs objects",
    license: "Dual BSD/GPL",
}

/// The module. Handles belong to open files, whose module uses this one.
struct Support;

impl kernel::Module for Support {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        ucaps::init();
        Ok(Self)
    }
}

impl Drop for Support {
    fn drop(&mut self) {
        ucaps::cleanup();
    }
}
