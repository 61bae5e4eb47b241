// SPDX-License-Identifier: GPL-2.0

//! Directories of one's own.

use core::ops::Deref;
use core::ptr::NonNull;

use super::group::Attribute;
use super::group::GroupRef;
use super::page::errno;
use crate::bindings;
use crate::edge::View;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::types::Opaque;

/// What a kind of directories is.
pub trait Kind: Sized + Send + Sync + 'static {
    /// What its files are described by, at least.
    type Attribute: Attribute;

    /// Calls `add` for each group of files that the directory is made with. Groups that live in
    /// `self` are fine: the directory is removed before its data go.
    fn groups<'a>(&'a self, add: &mut dyn FnMut(GroupRef<'a, Self::Attribute>) -> Result)
        -> Result;

    /// A file is read. Returns how much was written to `page`, or a negative error.
    ///
    /// # Safety
    ///
    /// `attribute` begins with a `Self::Attribute` of the directory, `page` is a page for us alone.
    unsafe fn show(&self, _attribute: NonNull<Self::Attribute>, _page: *mut c_char) -> isize {
        errno(EIO)
    }

    /// A file is written. Returns how much was taken, or a negative error.
    ///
    /// # Safety
    ///
    /// As [`show`](Self::show); `data` points to `count` bytes and a NUL.
    unsafe fn store(
        &self,
        _attribute: NonNull<Self::Attribute>,
        _data: *const c_char,
        _count: usize,
    ) -> isize {
        errno(EIO)
    }
}

/// A `struct kobject` with data. It is counted by C, and freed when nobody has it any more.
#[repr(C)]
#[pin_data]
pub struct Directory<K: Kind> {
    #[pin]
    kobj: Opaque<bindings::kobject>,
    #[pin]
    data: K,
}

// SAFETY: `repr(C)`, and begins with the structure.
unsafe impl<K: Kind> View for Directory<K> {
    type C = bindings::kobject;
}

// SAFETY: What C does to the kobject is locked by C; `K` is `Send` and `Sync`.
unsafe impl<K: Kind> Send for Directory<K> {}
// SAFETY: As for `Send`.
unsafe impl<K: Kind> Sync for Directory<K> {}

// SAFETY: The count is that of the kobject, and every `Directory` was made by `new`.
unsafe impl<K: Kind> AlwaysRefCounted for Directory<K> {
    fn inc_ref(&self) {
        // SAFETY: There is a reference, so that it lives.
        unsafe { bindings::kobject_get(self.as_raw()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference; the kobject is the first field.
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

    /// A directory that is nowhere yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or that of `data`.
    #[expect(
        clippy::new_ret_no_self,
        reason = "what is new may be added, which the type says"
    )]
    pub fn new(data: impl PinInit<K, Error>) -> Result<Fresh<K>> {
        let new = KBox::pin_init(
            try_pin_init!(Self {
                kobj: Opaque::zeroed(),
                data <- data,
            }? Error),
            GFP_KERNEL,
        )?;
        // SAFETY: Nothing moves it: it goes behind an `ARef`.
        let new = NonNull::from(KBox::leak(unsafe { Pin::into_inner_unchecked(new) }));
        // SAFETY: The kobject is zeroed memory; `release` fits how it was allocated.
        unsafe { bindings::kobject_init(new.as_ref().as_raw(), Self::TYPE) };
        // SAFETY: The count is 1, and nobody else has it. INVARIANT: It is new.
        Ok(Fresh(unsafe { ARef::from_raw(new) }))
    }

    /// The C structure.
    pub fn as_raw(&self) -> *mut bindings::kobject {
        self.kobj.get()
    }

    /// The directory of a kobject.
    ///
    /// # Safety
    ///
    /// `kobj` is that of a directory of this kind, and lives for `'a`.
    pub unsafe fn from_raw<'a>(kobj: *mut bindings::kobject) -> &'a Self {
        // SAFETY: A directory of this kind (contract); the kobject is its first field.
        unsafe { &*kobj.cast() }
    }

    /// # Safety
    ///
    /// For C only, as `release` of the type `TYPE`.
    unsafe extern "C" fn release(kobj: *mut bindings::kobject) {
        // SAFETY: C calls this for the last reference, of what `new` allocated.
        drop(unsafe { KBox::from_raw(kobj.cast::<Self>()) });
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
        // SAFETY: `kobj` is of this kind, whose type has this method, and is there while one of
        // its files is read; its attributes begin with `K::Attribute`.
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
        // SAFETY: As in `show`.
        unsafe { Self::from_raw(kobj).data.store(attribute, data, count) }
    }
}

impl<K: Kind> Deref for Directory<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.data
    }
}

/// A directory that nobody has made visible yet.
///
/// # Invariants
///
/// The directory was never added, and only the holder of this may add it.
pub struct Fresh<K: Kind>(ARef<Directory<K>>);

impl<K: Kind> Fresh<K> {
    /// A reference to it.
    pub fn hold(&self) -> ARef<Directory<K>> {
        self.0.clone()
    }
}

/// A directory that can be seen. Dropping it removes the directory with its files, and waits until
/// nobody is reading or writing one.
///
/// # Invariants
///
/// The directory was added and not removed.
pub struct Added<K: Kind>(ARef<Directory<K>>);

impl<K: Kind> Added<K> {
    /// Makes `directory` visible as `name`, with the files of its kind. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `kobject_add` and `sysfs_create_group`: `EEXIST`, `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `parent` is a kobject that has been added, and is there for this call.
    pub unsafe fn new(
        directory: Fresh<K>,
        parent: *mut bindings::kobject,
        name: &CStr,
    ) -> Result<Self> {
        let directory = directory.0;
        // SAFETY: The format takes one string. The directory is not added yet (`Fresh`); it takes a
        // reference to its parent, which may be removed before it: `create_dir` in lib/kobject.c
        // sees to that.
        to_result(unsafe {
            bindings::kobject_add(
                directory.as_raw(),
                parent,
                c"%s".to_bytes_with_nul().as_ptr().cast(),
                name.as_char_ptr(),
            )
        })?;
        // INVARIANT: Added. What follows may fail: dropping removes it again.
        let added = Self(directory);
        let kobj = added.as_raw();
        // SAFETY: It is of kind `K` and there; it is removed when `added` is dropped, which keeps
        // the data, and with them the groups, until then.
        added.groups(&mut |group| unsafe { group.create::<K>(kobj) })?;
        Ok(added)
    }

    /// Makes `directory` visible as `name` in this one. It is removed with this one at the latest.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn child<C: Kind>(&self, directory: Fresh<C>, name: &CStr) -> Result<Added<C>> {
        // SAFETY: This one is added (type invariant).
        unsafe { Added::new(directory, self.as_raw(), name) }
    }

    /// Gives the directory, still visible, to C.
    pub fn into_raw(self) -> *mut bindings::kobject {
        let this = core::mem::ManuallyDrop::new(self);
        this.as_raw()
    }

    /// The reverse of [`into_raw`](Self::into_raw).
    ///
    /// # Safety
    ///
    /// `kobj` is from there, and nobody has taken it back yet.
    pub unsafe fn from_raw(kobj: NonNull<bindings::kobject>) -> Self {
        // SAFETY: The reference that `into_raw` gave away (contract). INVARIANT: It is added.
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
        // SAFETY: By the type invariant. Groups need no removal of their own: their files go with
        // the directory, and sysfs waits for each of them.
        unsafe { bindings::kobject_del(self.as_raw()) };
    }
}
