// SPDX-License-Identifier: GPL-2.0

//! Descriptions of the types of handles, which `ib_uverbs_support` reads, and their methods.
//!
//! C header: `include/rdma/uverbs_types.h`.

use super::ended;
use super::made_beside;
use super::Dead;
use super::Dying;
use super::Ended;
use super::Ends;
use super::File;
use super::Handle;
use super::Kind;
use super::Object;
use crate::edge::call::Call;
use core::marker::PhantomData;
use core::ptr;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::Reason;
use rdma::edge::FromC;

/// Description of a numbered type: a static of the module.
#[repr(transparent)]
pub(crate) struct NumberedType<K>(bindings::uverbs_obj_idr_type, PhantomData<fn(K)>);
// SAFETY: It is only in statics, to which nothing writes.
unsafe impl<K> Sync for NumberedType<K> {}

/// Description of a type of file descriptors: a static of the module.
#[repr(transparent)]
pub(crate) struct FileType<K>(bindings::uverbs_obj_fd_type, PhantomData<fn(K)>);
// SAFETY: It is only in statics, to which nothing writes.
unsafe impl<K> Sync for FileType<K> {}

/// A type of handles.
#[derive(Clone, Copy)]
pub(crate) struct Type {
    /// The description.
    at: *const bindings::uverbs_obj_type,
    /// The number, which a driver's type does not have here.
    id: Option<u32>,
    /// Makes what is beside a new handle; `None` for a driver's type, which has nothing of ours.
    begun: Option<unsafe fn(*mut bindings::ib_uobject)>,
    /// Ends it.
    ended: Option<unsafe fn(*mut bindings::ib_uobject)>,
}
// SAFETY: It points to the description of a type, to which nothing writes, and a function.
unsafe impl Sync for Type {}
// SAFETY: As for `Sync`.
unsafe impl Send for Type {}

impl<K: Object> NumberedType<K> {
    /// Describes the type.
    pub(crate) const fn new() -> Self {
        let of = bindings::uverbs_obj_idr_type {
            type_: bindings::uverbs_obj_type {
                type_class: &raw const bindings::uverbs_idr_class,
                obj_size: size_of::<Handle<K>>(),
            },
            destroy_object: Some(destroy_object::<K>),
        };
        Self(of, PhantomData)
    }

    /// The type, for its table.
    pub(crate) const fn get(&'static self) -> Type {
        Type::of::<K>(&self.0.type_)
    }
}

impl<K: File> FileType<K> {
    /// Describes the type `K`, whose files have a name and operations; none if others make the
    /// files.
    ///
    /// # Safety
    ///
    /// The operations, if any, are for files of the type `K`, whose `release` is
    /// `uverbs_uobject_fd_release`.
    pub(in crate::edge) const unsafe fn new(
        name: &'static CStr,
        operations: *const bindings::file_operations,
        flags: u32,
    ) -> Self {
        let of = bindings::uverbs_obj_fd_type {
            type_: bindings::uverbs_obj_type {
                type_class: &raw const bindings::uverbs_fd_class,
                obj_size: size_of::<Handle<K>>(),
            },
            destroy_object: Some(destroy_file::<K>),
            release_cleanup: match K::RELEASE {
                Some(_) => Some(release_file::<K>),
                None => None,
            },
            fops: operations,
            name: name.to_bytes_with_nul().as_ptr().cast::<c_char>(),
            // CAST: Flags of `open`.
            flags: flags as c_int,
        };
        Self(of, PhantomData)
    }

    /// The type, for its table.
    pub(crate) const fn get(&'static self) -> Type {
        Type::of::<K>(&self.0.type_)
    }
}

/// The `destroy_object` method of a numbered type.
///
/// # Safety
///
/// For `ib_uverbs_support` only: with a handle of the type that it has locked exclusively, and a call
/// of the handle's file.
unsafe extern "C" fn destroy_object<K: Object>(
    uobject: *mut bindings::ib_uobject,
    why: bindings::rdma_remove_reason,
    attrs: *mut bindings::uverbs_attr_bundle,
) -> c_int {
    // SAFETY: This function's contract.
    let (handle, call, why) = unsafe {
        (
            <&Handle<K> as FromC>::from_c(uobject),
            <&Call as FromC>::from_c(attrs),
            Reason::from_c(why),
        )
    };
    if handle.object_at().is_null() {
        // The method of a driver has made the handle, and no object, and has failed then.
        // INVARIANT: There is no object.
        K::Beside::end(Ended(handle.beside()));
        return 0;
    }
    // INVARIANT: The handle is locked exclusively.
    match K::destroy(Dying { handle, call, why }) {
        Ok(Dead(handle)) => {
            // INVARIANT: The object was just destroyed.
            K::Beside::end(Ended(handle.beside()));
            0
        }
        Err(error) => error.to_errno(),
    }
}

/// The `destroy_object` method of a type of files.
///
/// # Safety
///
/// For `ib_uverbs_support` only, with a handle of the type that it has locked exclusively.
unsafe extern "C" fn destroy_file<K: File>(
    uobject: *mut bindings::ib_uobject,
    why: bindings::rdma_remove_reason,
) {
    // SAFETY: This function's contract.
    let (handle, why) = unsafe { (<&Handle<K> as FromC>::from_c(uobject), Reason::from_c(why)) };
    K::destroy(handle, why);
}

/// The `release_cleanup` method of a type of files.
///
/// # Safety
///
/// For `ib_uverbs_support` only, with a handle of the type, whose file is released.
unsafe extern "C" fn release_file<K: File>(uobject: *mut bindings::ib_uobject) {
    if let Some(release) = K::RELEASE {
        // SAFETY: This function's contract.
        release(unsafe { <&Handle<K> as FromC>::from_c(uobject) });
    }
}

impl Type {
    /// A type of ours, whose description is of `K`.
    const fn of<K: Kind>(at: &'static bindings::uverbs_obj_type) -> Self {
        Self {
            at,
            id: Some(K::ID),
            begun: Some(made_beside::<K>),
            ended: Some(ended::<K>),
        }
    }

    /// A driver's type.
    pub(in crate::edge) fn of_driver(at: *const bindings::uverbs_obj_type) -> Self {
        Self {
            at,
            id: None,
            begun: None,
            ended: None,
        }
    }

    /// Whether the type is one of handles with this number.
    pub(crate) fn has_id(self, id: u32) -> bool {
        self.id == Some(id)
    }

    /// Whether drivers may use the class of the type.
    ///
    /// # Safety
    ///
    /// The description exists.
    pub(in crate::edge) unsafe fn is_for_drivers(self) -> bool {
        // SAFETY: This function's contract.
        let class = unsafe { (*self.at).type_class };
        ptr::eq(class, &raw const bindings::uverbs_idr_class)
            || ptr::eq(class, &raw const bindings::uverbs_fd_class)
    }

    /// Writes the type to the description of an object.
    ///
    /// # Safety
    ///
    /// Nobody else uses the description of the object; that of the type exists.
    pub(in crate::edge) unsafe fn describe(self, object: *mut bindings::uverbs_api_object) {
        // SAFETY: This function's contract.
        unsafe {
            (*object).type_attrs = self.at;
            (*object).type_class = (*self.at).type_class;
        }
    }

    /// Whether the type is still used when the device is gone: by the release of its files.
    ///
    /// # Safety
    ///
    /// The description exists.
    pub(in crate::edge) unsafe fn is_lasting(self) -> bool {
        // SAFETY: This function's contract; the class determines the structure.
        unsafe {
            ptr::eq((*self.at).type_class, &raw const bindings::uverbs_fd_class)
                && (*self.at.cast::<bindings::uverbs_obj_fd_type>())
                    .release_cleanup
                    .is_some()
        }
    }

    /// Makes what is beside a handle that was just begun.
    ///
    /// # Safety
    ///
    /// `handle` is a new handle of the type, which nobody else uses.
    pub(in crate::edge) unsafe fn begun(self, handle: *mut bindings::ib_uobject) {
        if let Some(begun) = self.begun {
            // SAFETY: This function's contract.
            unsafe { begun(handle) };
        }
    }

    /// Ends what is beside a handle whose object is to be forgotten. May sleep.
    ///
    /// # Safety
    ///
    /// `handle` is one of the type, and only this task forgets its object.
    pub(in crate::edge) unsafe fn forget(self, handle: *mut bindings::ib_uobject) {
        if let Some(ended) = self.ended {
            // SAFETY: This function's contract.
            unsafe { ended(handle) };
        }
    }
}
