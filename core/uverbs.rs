// SPDX-License-Identifier: GPL-2.0

//! What the user-verbs module and drivers share of a user's call.
//!
//! | file | what |
//! |---|---|
//! | `udata` | the driver's own part of a call: bytes in, bytes out |
//! | `attrs` | the attributes of a call by `ioctl`, and memory that lives as long as it |
//! | `mmap` | what a file of a device's user can be mapped to |
//!
//! The module `ib_uverbs` makes the structures: a call's `struct uverbs_attr_bundle`, which
//! is the end of a private `struct bundle_priv` if the call has attributes at all; the open
//! file; the device behind it, whose `disassociate_srcu` is held while a call runs. They are
//! declared in the private headers ([`crate::private`]).
//!
//! C headers: `include/rdma/uverbs_ioctl.h`, `include/rdma/uverbs_types.h`.

mod attrs;
mod mmap;
mod udata;

use crate::private;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;

/// The user context of an open file; an error pointer, `-EIO` if the device is gone,
/// `-EINVAL` if the user has made none yet. Any context.
///
/// # Safety
///
/// The file is open, and its device's `disassociate_srcu` is held, until the result is not
/// used any more.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_uverbs_get_ucontext_file(
    ufile: *mut bindings::ib_uverbs_file,
) -> *mut bindings::ib_ucontext {
    // SAFETY: By this function's duty. The context is published with a release, whole, and
    // stays while the device is there.
    unsafe {
        let context: *const c_void =
            bindings::atomic_ptr_read_acquire((&raw mut (*ufile).ucontext).cast());
        let device: *mut private::ib_uverbs_device = (*ufile).device.cast();
        let there = bindings::rdma_helper_srcu_dereference(
            (&raw mut (*device).ib_dev).cast(),
            &mut (*device).disassociate_srcu,
        );
        if there.is_null() {
            EIO.to_ptr()
        } else if context.is_null() {
            EINVAL.to_ptr()
        } else {
            context.cast_mut().cast()
        }
    }
}

/// The handler of methods that only destroy an object, which is done around it.
#[no_mangle]
pub(crate) extern "C" fn uverbs_destroy_def_handler(
    _attrs: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    0
}

/// The driver's part of a call, emptied: for what a driver is asked to undo, which is none of
/// the user's business. Any context.
///
/// # Safety
///
/// The call runs, and nobody else uses its attributes.
#[no_mangle]
pub(crate) unsafe extern "C" fn uverbs_get_cleared_udata(
    attrs: *mut bindings::uverbs_attr_bundle,
) -> *mut bindings::ib_udata {
    // SAFETY: By this function's duty.
    unsafe {
        let udata = &raw mut (*attrs).__bindgen_anon_1.__bindgen_anon_1.driver_udata;
        *udata = bindings::ib_udata::default();
        udata
    }
}

rdma::exported!(ib_uverbs_get_ucontext_file);
const _: () = {
    // Declared as a function that is unsafe to call, as all of C's are.
    let _: unsafe extern "C" fn(*mut bindings::uverbs_attr_bundle) -> c_int =
        bindings::uverbs_destroy_def_handler;
};
crate::private::exported_private!(uverbs_get_cleared_udata);
