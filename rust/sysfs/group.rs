// SPDX-License-Identifier: GPL-2.0

//! Attributes and attribute groups.

use core::marker::PhantomData;
use core::ptr;

use super::directory::Kind;
use crate::bindings;
use kernel::prelude::*;

/// A structure that describes a sysfs file.
///
/// # Safety
///
/// The type is `repr(C)` and begins with `struct attribute`, or `repr(transparent)` over such a
/// type.
pub unsafe trait Attribute: Sized + Send + Sync {
    /// Called once when the attribute is at its final address. Sets names that are part of the
    /// attribute itself.
    fn settle(&mut self) {}
}

/// An attribute that begins with a `Base`.
///
/// # Safety
///
/// The type is `repr(C)` and begins with a `Base`, or `repr(transparent)` over such a type, or is
/// `Base`.
pub unsafe trait Extends<Base: Attribute>: Attribute {}

// SAFETY: It is the same type.
unsafe impl<A: Attribute> Extends<A> for A {}

/// Returns the `struct attribute` of a static attribute, with this name and mode.
pub const fn constant(name: &'static CStr, mode: u16) -> bindings::attribute {
    // SAFETY: A C structure of integers and pointers, for which zero is valid: nothing is set.
    let mut attribute: bindings::attribute = unsafe { core::mem::zeroed() };
    attribute.name = name.to_bytes_with_nul().as_ptr().cast();
    attribute.mode = mode;
    attribute
}

/// Returns the `struct attribute` of an attribute that is created at run time, with this mode and
/// no name yet.
#[allow(clippy::needless_update, reason = "lockdep kernels have another field")]
pub fn dynamic(mode: u16) -> bindings::attribute {
    bindings::attribute {
        name: ptr::null(),
        mode,
        // Lockdep requires a static key; C also uses one for each place that creates attributes.
        #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
        key: kernel::sync::static_lock_class!().as_ptr(),
        ..Default::default()
    }
}

/// A constant group of constant attributes.
#[repr(transparent)]
pub struct StaticGroup<A>(bindings::attribute_group, PhantomData<A>);

// SAFETY: It points only to constants.
unsafe impl<A> Sync for StaticGroup<A> {}

impl<A: Attribute> StaticGroup<A> {
    /// Creates a group of these attributes, which must end with `None`. If it has a name, it is a
    /// subdirectory.
    pub const fn new(
        name: Option<&'static CStr>,
        attributes: &'static [Option<&'static A>],
    ) -> Self {
        assert!(matches!(attributes, [.., None]), "the list has no end");
        // SAFETY: A C structure of integers and pointers, for which zero is valid: nothing is set.
        let mut group: bindings::attribute_group = unsafe { core::mem::zeroed() };
        if let Some(name) = name {
            group.name = name.to_bytes_with_nul().as_ptr().cast();
        }
        // `Option<&A>` is a pointer, null for `None`; an `A` begins with a `struct attribute`.
        group.__bindgen_anon_2.attrs = attributes.as_ptr().cast_mut().cast();
        Self(group, PhantomData)
    }

    /// Returns the C structure.
    pub const fn as_raw(&'static self) -> *const bindings::attribute_group {
        &raw const self.0
    }

    /// Returns the group as one of a directory whose attributes are `Base`s.
    pub fn get<Base: Attribute>(&'static self) -> GroupRef<'static, Base>
    where
        A: Extends<Base>,
    {
        GroupRef(&self.0, PhantomData)
    }
}

/// A group that is created at run time. It owns its attributes.
///
/// # Invariants
///
/// The group's list points to the attributes, each once, and ends with null. List and attributes do
/// not move.
pub struct Group<A> {
    raw: KBox<bindings::attribute_group>,
    _list: KVVec<*mut bindings::attribute>,
    attributes: KVVec<A>,
}

// SAFETY: It owns the targets of its pointers, and attributes are `Send`.
unsafe impl<A: Attribute> Send for Group<A> {}
// SAFETY: It is not changed through shared references; attributes are `Sync`.
unsafe impl<A: Attribute> Sync for Group<A> {}

impl<A: Attribute> Group<A> {
    /// Creates a group of these attributes, a subdirectory called `name`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(name: &'static CStr, mut attributes: KVVec<A>) -> Result<Self> {
        let mut list = KVVec::with_capacity(attributes.len().saturating_add(1), GFP_KERNEL)?;
        for attribute in attributes.iter_mut() {
            attribute.settle();
            list.push(ptr::from_mut(attribute).cast(), GFP_KERNEL)?;
        }
        list.push(ptr::null_mut(), GFP_KERNEL)?;
        let mut raw = KBox::new(bindings::attribute_group::default(), GFP_KERNEL)?;
        raw.name = name.to_bytes_with_nul().as_ptr().cast();
        raw.__bindgen_anon_2.attrs = list.as_mut_ptr();
        // INVARIANT: Built above; the vectors are not changed any more.
        Ok(Self {
            raw,
            _list: list,
            attributes,
        })
    }

    /// Returns the group as one of a directory whose attributes are `Base`s.
    pub fn get<Base: Attribute>(&self) -> GroupRef<'_, Base>
    where
        A: Extends<Base>,
    {
        GroupRef(&self.raw, PhantomData)
    }

    /// Returns the C structure, which exists as long as this.
    pub fn as_raw(&self) -> *const bindings::attribute_group {
        &raw const *self.raw
    }

    /// Returns the attributes.
    pub fn attributes(&self) -> &[A] {
        &self.attributes
    }
}

/// A reference to a group whose attributes begin with a `Base`.
pub struct GroupRef<'a, Base>(&'a bindings::attribute_group, PhantomData<Base>);

// SAFETY: The group does not change while it is borrowed.
unsafe impl<Base: Attribute> Send for GroupRef<'_, Base> {}
// SAFETY: As for `Send`: the group does not change while it is borrowed.
unsafe impl<Base: Attribute> Sync for GroupRef<'_, Base> {}

impl<Base> Clone for GroupRef<'_, Base> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Base> Copy for GroupRef<'_, Base> {}

impl<'a, Base: Attribute> GroupRef<'a, Base> {
    /// Calls `f` for each group of a C list that ends with null. `list` may be null.
    ///
    /// # Safety
    ///
    /// `list` is null or such a list. The list and its groups are valid during `'a`, and every
    /// attribute in them begins with a `Base`.
    pub unsafe fn for_each(
        list: *const *const bindings::attribute_group,
        f: &mut dyn FnMut(Self) -> Result,
    ) -> Result {
        if list.is_null() {
            return Ok(());
        }
        let mut at = list;
        // SAFETY: The list ends with null (contract of this function), where the loop ends.
        while let Some(group) = unsafe { (*at).as_ref() } {
            f(Self(group, PhantomData))?;
            // SAFETY: The entry was not null, so there is a next one.
            at = unsafe { at.add(1) };
        }
        Ok(())
    }

    /// Creates the group's files in the directory `kobj`, whose attributes are `K::Attribute`s.
    ///
    /// # Safety
    ///
    /// `kobj` is a directory of kind `K` that is added, and is removed before `'a` ends.
    #[allow(
        clippy::extra_unused_type_parameters,
        reason = "the kind that the contract is about"
    )]
    pub(super) unsafe fn create<K: Kind<Attribute = Base>>(
        &self,
        kobj: *mut bindings::kobject,
    ) -> Result {
        // SAFETY: The directory is added (contract of this function), and the group is valid for
        // `'a`.
        kernel::error::to_result(unsafe { bindings::sysfs_create_group(kobj, self.0) })
    }
}
