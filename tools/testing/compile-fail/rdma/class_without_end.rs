// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 WaitsForResidents

//! A class of nodes in a module that does not wait for it: if it is leaked, the kernel calls code that was
//! unloaded.

use kernel::prelude::*;
use rdma::chrdev::Class;
use rdma::chrdev::NodeClass;
use rdma::chrdev::NodeGroups;

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

/// The nodes.
pub struct Nodes;

impl NodeClass for Nodes {
    type Node = ();
    const NAME: &'static CStr = c"nodes";
    const FOLDER: &'static CStr = c"nodes";
    const ABI_VERSION: Option<u32> = Some(1);
    const GROUPS: &'static NodeGroups<Self> = &NO_GROUPS;
}

static NO_GROUPS: NodeGroups<Nodes> = NodeGroups::none();

/// A class.
pub fn class() -> Result<Class<Nodes>> {
    Class::register(rdma::resident!())
}
