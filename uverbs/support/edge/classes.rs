// SPDX-License-Identifier: GPL-2.0

//! The two classes of types of objects: numbered ones (`uverbs_idr_class`) and files
//! (`uverbs_fd_class`).
//!
//! Drivers put the address of a class into a type. Only this module looks into the structures, and
//! compares addresses only, so their methods are not filled.

use super::handle::HandleRef;
use super::handle::Sole;
use super::Call;
use core::ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::ApiObject;
use rdma::edge::uverbs::FileType;
use rdma::edge::uverbs::NumberedType;
use rdma::edge::uverbs::Reason;
use rdma::edge::uverbs::Uobject;
use rdma::edge::IntoC;
use rdma::edge::View;

/// A class without methods.
const CLASS: bindings::uverbs_obj_type_class = bindings::uverbs_obj_type_class {
    alloc_begin: None,
    alloc_commit: None,
    alloc_abort: None,
    lookup_get: None,
    lookup_put: None,
    destroy_hw: None,
    remove_handle: None,
    swap_uobjects: None,
};

/// The class of types whose objects have numbers.
#[no_mangle]
#[allow(non_upper_case_globals, reason = "C's name")]
pub(crate) static uverbs_idr_class: bindings::uverbs_obj_type_class = CLASS;

/// The class of types whose objects are files.
#[no_mangle]
#[allow(non_upper_case_globals, reason = "C's name")]
pub(crate) static uverbs_fd_class: bindings::uverbs_obj_type_class = CLASS;

/// The class of a type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// `uverbs_idr_class`.
    Numbered,
    /// `uverbs_fd_class`.
    File,
}

/// The class of a type; `None` if it is neither.
pub(crate) fn class(kind: &ApiObject) -> Option<Class> {
    let class = kind.type_class();
    if ptr::eq(class, &raw const uverbs_idr_class) {
        Some(Class::Numbered)
    } else if ptr::eq(class, &raw const uverbs_fd_class) {
        Some(Class::File)
    } else {
        None
    }
}

/// The size of a handle of a type; `None` when the device is gone.
pub(super) fn size(kind: &ApiObject) -> Option<usize> {
    // SAFETY: A type stays until the driver has gone, before which `ib_uverbs` clears the pointer
    // and waits for its users (`uverbs_disassociate_api`).
    unsafe { kind.type_attrs().as_ref() }.map(|kind| kind.obj_size)
}

/// A numbered type; `None` when the device is gone.
fn numbered(kind: &ApiObject) -> Option<&NumberedType> {
    if class(kind) != Some(Class::Numbered) {
        return None;
    }
    // SAFETY: As in `size`; a type of this class is the beginning of a `uverbs_obj_idr_type`.
    unsafe { kind.type_attrs().cast::<NumberedType>().as_ref() }
}

/// A type of files; `None` when the device is gone.
pub(crate) fn file_type(kind: &ApiObject) -> Option<&FileType> {
    if class(kind) != Some(Class::File) {
        return None;
    }
    // SAFETY: As in `size`; a type of this class is the beginning of a `uverbs_obj_fd_type`.
    unsafe { kind.type_attrs().cast::<FileType>().as_ref() }
}

/// Destroys the object of a numbered handle. May sleep.
///
/// # Errors
///
/// `EIO`: the type is gone; those of the type. The object is unchanged.
pub(crate) fn destroy_numbered(handle: &impl Sole, reason: Reason, call: &Call) -> Result {
    let kind = numbered(handle.uapi_object()).ok_or(EIO)?;
    // SAFETY: A type's fields do not change; the handle is of the type, and exclusively locked
    // (`Sole`, `uverbs_types.h`).
    unsafe {
        let destroy = (*kind.raw()).destroy_object.ok_or(EINVAL)?;
        to_result(destroy(handle.raw(), reason.into_c(), call.raw()))
    }
}

/// Destroys the object of a handle of a file. May sleep.
///
/// # Errors
///
/// `EIO`: the type is gone.
pub(crate) fn destroy_file(handle: &impl Sole, reason: Reason) -> Result {
    let kind = file_type(handle.uapi_object()).ok_or(EIO)?;
    // SAFETY: As in `destroy_numbered`.
    unsafe {
        if let Some(destroy) = (*kind.raw()).destroy_object {
            destroy(handle.raw(), reason.into_c());
        }
    }
    Ok(())
}

/// Whether files of a type that this module makes tell it when they are released.
pub(crate) fn tells_release(kind: &FileType) -> bool {
    // SAFETY: The operations of a type stay as long as the type.
    let Some(fops) = (unsafe { kind.fops().as_ref() }) else {
        return true;
    };
    let ours: unsafe extern "C" fn(_, _) -> _ = crate::destroy::uverbs_uobject_fd_release;
    fops.release
        .is_some_and(|release| ptr::fn_addr_eq(release, ours))
}

/// What a type does with a handle after its file was released.
pub(super) struct Cleanup(unsafe extern "C" fn(*mut bindings::ib_uobject));

impl Cleanup {
    /// That of a handle's type, if any.
    pub(super) fn of(handle: &Uobject) -> Option<Self> {
        let kind = file_type(handle.uapi_object())?;
        // SAFETY: A type with this method is not cleared, and stays as long as there are files.
        unsafe { (*kind.raw()).release_cleanup }.map(Self)
    }

    /// Calls it.
    pub(super) fn run(self, handle: &HandleRef) {
        // SAFETY: The handle is of the type, and its file was released.
        unsafe { (self.0)(handle.raw()) };
    }
}
