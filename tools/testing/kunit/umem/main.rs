// SPDX-License-Identifier: GPL-2.0

//! KUnit suites of what `ib_core` does for user memory and user calls, as a module: loading
//! it runs them on the loaded core, whichever that is. What stands in for devices and files
//! here has only the fields that the functions use.

use kernel::prelude::*;
use rdma::bindings;

mod dmabuf;
mod entries;
#[cfg(CONFIG_INFINIBAND_ON_DEMAND_PAGING)]
mod odp;
mod pinned;
mod process;

rdma::resident_module! { struct Main(Suites); }

module! {
    type: Main,
    name: "rdma_kunit_umem",
    authors: ["The rust-rdma authors"],
    description: "KUnit suites of user memory",
    license: "GPL",
    imports_ns: ["DMA_BUF", "EXPORTED_FOR_KUNIT_TESTING"],
}

struct Suites;

impl kernel::Module for Suites {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}

/// A structure of the kernel's, all zero.
///
/// # Safety
///
/// All zero is a value of it.
unsafe fn zeroed<T>() -> Result<KBox<T>> {
    let memory = KBox::<T>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
    // SAFETY: By this function's duty.
    Ok(unsafe { memory.assume_init() })
}

/// A device without a driver.
fn device() -> Result<KBox<bindings::ib_device>> {
    // SAFETY: Zero is none of each of its functions and pointers.
    unsafe { zeroed() }
}
