// SPDX-License-Identifier: GPL-2.0

//! Tracking for drivers and the other modules of the core
//! (`include/rdma/restrack.h`, and `restrack.h` of the core).

use core::ffi::CStr;
use core::mem::ManuallyDrop;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

use super::Entry;
use super::Kind;
use crate::device::Device;
use crate::private::exported_private;

fn kind(number: bindings::rdma_restrack_type) -> Option<Kind> {
    Kind::ALL.get(usize::try_from(number).ok()?).copied()
}

/// Begins an entry's life. Any context.
///
/// # Safety
///
/// `res` is a part of an object of this type, whose owner the caller is.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_new(
    res: *mut bindings::rdma_restrack_entry,
    number: bindings::rdma_restrack_type,
) {
    let Some(kind) = kind(number) else {
        kernel::warn_on!(true);
        return;
    };
    // SAFETY: By this function's duty. INVARIANT: The type is set here.
    unsafe { Entry::from_raw(res) }.init(kind);
}

/// Adds an object to its device's table. May sleep.
///
/// # Safety
///
/// `res` was begun by [`rdma_restrack_new`]; the caller owns its object, which has a
/// device, and ends it by [`rdma_restrack_del`] or [`rdma_restrack_commit_del`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_add(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: By this function's duty.
    unsafe { Entry::from_raw(res) }.add();
}

/// Takes an object out of its table and waits for readers. May sleep.
///
/// # Safety
///
/// The caller owns the object of `res`.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_del(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: By this function's duty.
    unsafe { Entry::from_raw(res) }.del();
}

/// Takes an object out of sight before the driver is asked to destroy it. May sleep.
///
/// # Safety
///
/// As of [`rdma_restrack_del`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_begin_del(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: By this function's duty.
    unsafe { Entry::from_raw(res) }.begin_del();
}

/// Ends what [`rdma_restrack_begin_del`] began.
///
/// # Safety
///
/// As of [`rdma_restrack_del`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_commit_del(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: By this function's duty.
    unsafe { Entry::from_raw(res) }.commit_del();
}

/// Takes back what [`rdma_restrack_begin_del`] began.
///
/// # Safety
///
/// As of [`rdma_restrack_del`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_abort_del(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: By this function's duty.
    unsafe { Entry::from_raw(res) }.abort_del();
}

/// Makes readers see an object as it is now. May sleep.
///
/// # Safety
///
/// As of [`rdma_restrack_del`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_sync(res: *mut bindings::rdma_restrack_entry) {
    // SAFETY: By this function's duty.
    unsafe { Entry::from_raw(res) }.sync();
}

/// Names the owner: a part of the kernel, or the present process if `caller` is null.
///
/// # Safety
///
/// As of [`rdma_restrack_del`]; `caller` outlives the object.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_set_name(
    res: *mut bindings::rdma_restrack_entry,
    caller: *const c_char,
) {
    // SAFETY: By this function's duty the name, if there is one, is there long enough.
    let caller = (!caller.is_null()).then(|| unsafe { CStr::from_ptr(caller.cast()) });
    // SAFETY: By this function's duty.
    unsafe { Entry::from_raw(res) }.set_name(caller);
}

/// Gives an object to the owner of another.
///
/// # Safety
///
/// As of [`rdma_restrack_del`]; `parent` is an entry that does not change meanwhile.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_parent_name(
    dst: *mut bindings::rdma_restrack_entry,
    parent: *const bindings::rdma_restrack_entry,
) {
    // SAFETY: By this function's duty; the parent is only read.
    unsafe { Entry::from_raw(dst).set_parent(Entry::from_raw(parent.cast_mut())) };
}

/// How many objects of a kind there are. `details` counts those, too, that only the
/// driver knows. Any context but hard interrupts.
///
/// # Safety
///
/// `dev` is a device.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_count(
    dev: *mut bindings::ib_device,
    number: bindings::rdma_restrack_type,
    details: bool,
) -> c_int {
    let Some(kind) = kind(number) else { return 0 };
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(dev) };
    c_int::try_from(device.slot::<super::Tables>().of(kind).count(details)).unwrap_or(c_int::MAX)
}

/// Keeps an object, unless it is being destroyed: then 0. Any context.
///
/// # Safety
///
/// `res` is an entry whose memory is there meanwhile.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_get(
    res: *mut bindings::rdma_restrack_entry,
) -> c_int {
    // SAFETY: By this function's duty.
    let held = unsafe { Entry::from_raw(res) }.hold();
    // The count is the caller's now.
    c_int::from(held.map(ManuallyDrop::new).is_some())
}

/// Lets an object go; 1 if it was the last count. Any context.
///
/// # Safety
///
/// The caller has a count.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_put(
    res: *mut bindings::rdma_restrack_entry,
) -> c_int {
    // SAFETY: By this function's duty.
    c_int::from(unsafe { Entry::from_raw(res).uncount() })
}

/// The object of an id, to be let go; `ENOENT` as an error pointer. Any context but hard
/// interrupts.
///
/// # Safety
///
/// `dev` is a device.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_restrack_get_byid(
    dev: *mut bindings::ib_device,
    number: bindings::rdma_restrack_type,
    id: u32,
) -> *mut bindings::rdma_restrack_entry {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(dev) };
    match kind(number).and_then(|kind| device.slot::<super::Tables>().of(kind).get(id)) {
        // The count is the caller's now.
        Some(held) => ManuallyDrop::new(held).raw(),
        None => ENOENT.to_ptr(),
    }
}

rdma::exported!(
    rdma_restrack_count,
    rdma_restrack_get,
    rdma_restrack_get_byid,
    rdma_restrack_put
);
exported_private!(
    rdma_restrack_abort_del,
    rdma_restrack_add,
    rdma_restrack_begin_del,
    rdma_restrack_commit_del,
    rdma_restrack_del,
    rdma_restrack_new,
    rdma_restrack_parent_name,
    rdma_restrack_set_name,
    rdma_restrack_sync
);
