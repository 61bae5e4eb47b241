// SPDX-License-Identifier: GPL-2.0

//! Sysfs directories (`struct kobject`).

use core::ops::Deref;
use core::ptr::NonNull;

use super::group::Attribute;
use super::group::GroupRef;
use super::page::errno;
use crate::bindings;
use crate::edge::View;
use crate::module::Resident;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::types::Opaque;

/// Type of a directory.
pub trait Kind: Sized + Send + Sync + 'static {
    /// Type with which the descriptions of its files begin.
    type Attribute: Attribute;

    /// Calls `add` for each attribute group that the directory is created with. Groups may be part
    /// of `self`: the directory is removed before its data is dropped.
    fn groups<'a>(&'a self, add: &mut dyn FnMut(GroupRef<'a, Self::Attribute>) -> Result)
        -> Result;

    /// Reads a file. Returns the number of bytes written to `page`, or a negative errno.
    ///
    /// # Safety
    ///
    /// `attribute` begins with a `Self::Attribute` of the directory; `page` is a page that only the
    /// callee uses.
    unsafe fn show(&self, _attribute: NonNull<Self::Attribute>, _page: *mut c_char) -> isize {
        errno(EIO)
    }

    /// Writes a file. Returns the number of bytes consumed, or a negative errno.
    ///
    /// # Safety
    ///
    /// As for [`show`](Self::show); `data` points to `count` bytes and a NUL.
    unsafe fn store(
        &self,
        _attribute: NonNull<Self::Attribute>,
        _data: *const c_char,
        _count: usize,
    ) -> isize {
        errno(EIO)
    }
}

/// A `struct kobject` with data. Reference-counted by C, and freed with the last reference.
#[repr(C)]
#[pin_data]
pub struct Directory<K: Kind> {
    #[pin]
    kobj: Opaque<bindings::kobject>,
    #[pin]
    data: K,
    /// `None` only in `release`.
    resident: Option<Resident>,
}

// SAFETY: `repr(C)`, and begins with the structure.
unsafe impl<K: Kind> View for Directory<K> {
    type C = bindings::kobject;
}

// SAFETY: C locks its operations on the kobject; `K` is `Send` and `Sync`.
unsafe impl<K: Kind> Send for Directory<K> {}
// SAFETY: As for `Send`: C locks its operations on the kobject; `K` is `Send` and `Sync`.
unsafe impl<K: Kind> Sync for Directory<K> {}

// SAFETY: The count is that of the kobject, and every `Directory` was created by `new`, in a box
// that `release` frees.
unsafe impl<K: Kind> AlwaysRefCounted for Directory<K> {
    fn inc_ref(&self) {
        // SAFETY: `self` is a reference, so the kobject exists.
        unsafe { bindings::kobject_get(self.as_raw()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller passes ownership of a reference; the kobject is the first field.
        unsafe { bindings::kobject_put(obj.cast().as_ptr()) };
    }
}

impl<K: Kind> Directory<K> {
    const OPS: &'static bindings::sysfs_ops = &bindings::sysfs_ops {
        show: Some(Self::show),
        store: Some(Self::store),
    };

    const TYPE: &'static bindings::kobj_type = &bindings::kobj_type {
        release: Some(Self::release),
        sysfs_ops: Self::OPS,
        default_groups: core::ptr::null_mut(),
        child_ns_type: None,
        namespace: None,
        get_ownership: None,
    };

    /// Creates a directory, not yet added to sysfs. May sleep. `resident` is
    /// [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or those of `data`.
    #[expect(
        clippy::new_ret_no_self,
        reason = "what is new may be added, which the type says"
    )]
    pub fn new(resident: Resident, data: impl PinInit<K, Error>) -> Result<Fresh<K>> {
        let new = KBox::pin_init(
            try_pin_init!(Self {
                kobj: Opaque::zeroed(),
                data <- data,
                resident: Some(resident),
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: The box is not moved out of: it is put behind an `ARef`.
        let new = NonNull::from(KBox::leak(unsafe { Pin::into_inner_unchecked(new) }));
        // SAFETY: The kobject is zeroed memory; `release` matches its allocation.
        unsafe { bindings::kobject_init(new.as_ref().as_raw(), Self::TYPE) };
        // SAFETY: The count is 1, and this is the only reference.
        // INVARIANT: The directory is new, so it was never added.
        Ok(Fresh(unsafe { ARef::from_raw(new) }))
    }

    /// Returns the C structure.
    pub fn as_raw(&self) -> *mut bindings::kobject {
        self.kobj.get()
    }

    /// Returns the directory of a kobject.
    ///
    /// # Safety
    ///
    /// `kobj` belongs to a directory of this kind, and exists during `'a`.
    pub unsafe fn from_raw<'a>(kobj: *mut bindings::kobject) -> &'a Self {
        // SAFETY: `kobj` belongs to a directory of this kind (contract of this function), and is
        // its first field.
        unsafe { &*kobj.cast() }
    }

    /// # Safety
    ///
    /// For C only, as `release` of the type `TYPE`.
    unsafe extern "C" fn release(kobj: *mut bindings::kobject) {
        // SAFETY: C calls this with the last reference to a kobject of `TYPE`, which `new`
        // allocated in a box. The data is not moved out of it.
        let mut this = unsafe { KBox::from_raw(kobj.cast::<Self>()) };
        let resident = this.resident.take();
        drop(this);
        // Everything else is dropped before the module may be unloaded.
        if let Some(resident) = resident {
            resident.end_at_return();
        }
    }

    /// # Safety
    ///
    /// For C only, as `sysfs_ops.show` of the type `TYPE`.
    unsafe extern "C" fn show(
        kobj: *mut bindings::kobject,
        attribute: *mut bindings::attribute,
        page: *mut c_char,
    ) -> isize {
        let Some(attribute) = NonNull::new(attribute.cast()) else {
            return errno(EIO);
        };
        // SAFETY: `kobj` has type `TYPE`, and exists while one of its files is read; its attributes
        // begin with a `K::Attribute`.
        unsafe { Self::from_raw(kobj).data.show(attribute, page) }
    }

    /// # Safety
    ///
    /// For C only, as `sysfs_ops.store` of the type `TYPE`.
    unsafe extern "C" fn store(
        kobj: *mut bindings::kobject,
        attribute: *mut bindings::attribute,
        data: *const c_char,
        count: usize,
    ) -> isize {
        let Some(attribute) = NonNull::new(attribute.cast()) else {
            return errno(EIO);
        };
        // SAFETY: As in `show`; `data` and `count` are those of a write (`sysfs_ops.store`).
        unsafe { Self::from_raw(kobj).data.store(attribute, data, count) }
    }
}

impl<K: Kind> Deref for Directory<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.data
    }
}

/// A directory that is not added to sysfs yet.
///
/// # Invariants
///
/// The directory was never added, and only the owner of this may add it.
pub struct Fresh<K: Kind>(ARef<Directory<K>>);

impl<K: Kind> Fresh<K> {
    /// Returns a reference to the directory.
    pub fn hold(&self) -> ARef<Directory<K>> {
        self.0.clone()
    }
}

/// A directory in sysfs. Drop removes the directory with its files, and waits for running `show`
/// and `store` methods.
///
/// # Invariants
///
/// The directory was added and not removed.
pub struct Added<K: Kind>(ARef<Directory<K>>);

impl<K: Kind> Added<K> {
    /// Adds `directory` to sysfs as `name`, with the files of its kind. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `kobject_add` and `sysfs_create_group`: `EEXIST`, `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `parent` is a kobject that has been added, and exists during the call.
    pub unsafe fn new(
        directory: Fresh<K>,
        parent: *mut bindings::kobject,
        name: &CStr,
    ) -> Result<Self> {
        let directory = directory.0;
        // SAFETY: The format takes one string. The directory was not added yet (`Fresh`). The
        // kobject takes a reference to its parent, which may be removed before it: `create_dir` in
        // lib/kobject.c handles that.
        to_result(unsafe {
            bindings::kobject_add(
                directory.as_raw(),
                parent,
                c"%s".to_bytes_with_nul().as_ptr().cast(),
                name.as_char_ptr(),
            )
        })?;
        // INVARIANT: Just added. If the rest fails, drop removes it.
        let added = Self(directory);
        let kobj = added.as_raw();
        // SAFETY: The kobject is of kind `K`, and is added. It is removed when `added` is dropped,
        // which keeps the data, and so the groups, until then.
        added.groups(&mut |group| unsafe { group.create::<K>(kobj) })?;
        Ok(added)
    }

    /// Adds `directory` as `name` in this one. It is removed with this one at the latest.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn child<C: Kind>(&self, directory: Fresh<C>, name: &CStr) -> Result<Added<C>> {
        // SAFETY: This directory is added (type invariant).
        unsafe { Added::new(directory, self.as_raw(), name) }
    }

    /// Passes ownership of the directory, which stays in sysfs, to C.
    pub fn into_raw(self) -> *mut bindings::kobject {
        let this = core::mem::ManuallyDrop::new(self);
        this.as_raw()
    }

    /// Takes back ownership that [`into_raw`](Self::into_raw) passed to C.
    ///
    /// # Safety
    ///
    /// `kobj` was returned by `into_raw`, and its ownership has not been taken back yet.
    pub unsafe fn from_raw(kobj: NonNull<bindings::kobject>) -> Self {
        // SAFETY: The reference is the one that `into_raw` passed to C (contract of this function).
        // INVARIANT: The directory is added.
        Self(unsafe { ARef::from_raw(kobj.cast()) })
    }
}

impl<K: Kind> Deref for Added<K> {
    type Target = Directory<K>;

    fn deref(&self) -> &Directory<K> {
        &self.0
    }
}

impl<K: Kind> Drop for Added<K> {
    fn drop(&mut self) {
        // SAFETY: The directory is added (type invariant). Groups are not removed separately: their
        // files are removed with the directory, and sysfs waits for each of them.
        unsafe { bindings::kobject_del(self.as_raw()) };
    }
}
