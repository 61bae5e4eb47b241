// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0046 OWNER

//! File operations that name no module: nothing keeps their table in memory while a file is closed.

use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::chrdev::Files;
use rdma::chrdev::NodeClass;
use rdma::chrdev::NodeGroups;
use rdma::chrdev::Opening;

/// A class.
pub struct Class;

impl NodeClass for Class {
    type Node = ();
    const NAME: &'static CStr = c"class";
    const FOLDER: &'static CStr = c"folder";
    const ABI_VERSION: Option<u32> = None;
    const GROUPS: &'static NodeGroups<Self> = &NO_GROUPS;
}

static NO_GROUPS: NodeGroups<Class> = NodeGroups::none();

// What `module!` makes.
// SAFETY: Null stands for code that is never unloaded.
static THIS_MODULE: ThisModule = unsafe { ThisModule::from_ptr(core::ptr::null_mut()) };

/// Methods.
pub struct Methods;

#[vtable]
impl Files for Methods {
    type Class = Class;
    type Open = ();
    #[cfg(not(wrong))]
    const OWNER: &'static ThisModule = &THIS_MODULE;

    fn open((): &(), _how: Opening) -> Result<Arc<()>> {
        Ok(Arc::new((), GFP_KERNEL)?)
    }

    fn release(_open: Arc<()>) {}
}

/// The module.
pub fn owner() -> &'static ThisModule {
    &THIS_MODULE
}
