// SPDX-License-Identifier: GPL-2.0

//! Attributes and groups of them.

use core::marker::PhantomData;
use core::ptr;

use super::directory::Kind;
use crate::bindings;
use kernel::prelude::*;

/// A structure that describes a file.
///
/// # Safety
///
/// The type is `repr(C)` and begins with `struct attribute`, or `repr(transparent)` over such a
/// type.
pub unsafe trait Attribute: Sized + Send + Sync {
    /// Called once when the attribute has reached the place where it stays: names that are part
    /// of the attribute itself are set here.
    fn settle(&mut self) {}
}

/// An attribute that is more than a `Base`, which it begins with.
///
/// # Safety
///
/// The type is `repr(C)` and begins with a `Base`, or `repr(transparent)` over such a type, or is
/// `Base`.
pub unsafe trait Extends<Base: Attribute>: Attribute {}

// SAFETY: The same type.
unsafe impl<A: Attribute> Extends<A> for A {}

/// The start of an attribute with this name and mode that stays in static memory.
pub const fn constant(name: &'static CStr, mode: u16) -> bindings::attribute {
    // SAFETY: Of a C structure of integers and pointers; zeros mean that nothing is set.
    let mut attribute: bindings::attribute = unsafe { core::mem::zeroed() };
    attribute.name = name.to_bytes_with_nul().as_ptr().cast();
    attribute.mode = mode;
    attribute
}

/// The start of an attribute with this mode that is made at run time, still without a name.
#[allow(clippy::needless_update, reason = "lockdep kernels have another field")]
pub fn dynamic(mode: u16) -> bindings::attribute {
    bindings::attribute {
        name: ptr::null(),
        mode,
        // Lockdep asks for a static key; C has one for each place that makes attributes.
        #[cfg(CONFIG_DEBUG_LOCK_ALLOC)]
        key: kernel::sync::static_lock_class!().as_ptr(),
        ..Default::default()
    }
}

/// A group of which all is constant.
#[repr(transparent)]
pub struct StaticGroup<A>(bindings::attribute_group, PhantomData<A>);

// SAFETY: It points to constants only.
unsafe impl<A> Sync for StaticGroup<A> {}

impl<A: Attribute> StaticGroup<A> {
    /// A group of these attributes, the last of which is `None`. With a name it is a folder.
    pub const fn new(
        name: Option<&'static CStr>,
        attributes: &'static [Option<&'static A>],
    ) -> Self {
        assert!(matches!(attributes, [.., None]), "the list has no end");
        // SAFETY: As in `constant`.
        let mut group: bindings::attribute_group = unsafe { core::mem::zeroed() };
        if let Some(name) = name {
            group.name = name.to_bytes_with_nul().as_ptr().cast();
        }
        // `Option<&A>` is a pointer, and null if `None`; an `A` begins with an attribute.
        group.__bindgen_anon_2.attrs = attributes.as_ptr().cast_mut().cast();
        Self(group, PhantomData)
    }

    /// The C structure.
    pub const fn as_raw(&'static self) -> *const bindings::attribute_group {
        &raw const self.0
    }

    /// As a group of a directory whose attributes are `Base`s.
    pub fn get<Base: Attribute>(&'static self) -> GroupRef<'static, Base>
    where
        A: Extends<Base>,
    {
        GroupRef(&self.0, PhantomData)
    }
}

/// A group that is made at run time, with its attributes.
///
/// # Invariants
///
/// The group's list points to the attributes, each once, and ends with null; neither moves.
pub struct Group<A> {
    raw: KBox<bindings::attribute_group>,
    _list: KVVec<*mut bindings::attribute>,
    attributes: KVVec<A>,
}

// SAFETY: It owns what its pointers point to, and attributes are `Send`.
unsafe impl<A: Attribute> Send for Group<A> {}
// SAFETY: Nothing of it changes; attributes are `Sync`.
unsafe impl<A: Attribute> Sync for Group<A> {}

impl<A: Attribute> Group<A> {
    /// A folder `name` of these attributes.
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
        // INVARIANT: Just made so; the vectors are not touched again.
        Ok(Self {
            raw,
            _list: list,
            attributes,
        })
    }

    /// As a group of a directory whose attributes are `Base`s.
    pub fn get<Base: Attribute>(&self) -> GroupRef<'_, Base>
    where
        A: Extends<Base>,
    {
        GroupRef(&self.raw, PhantomData)
    }

    /// The C structure, which lives as long as this.
    pub fn as_raw(&self) -> *const bindings::attribute_group {
        &raw const *self.raw
    }

    /// Its attributes.
    pub fn attributes(&self) -> &[A] {
        &self.attributes
    }
}

/// A group whose attributes begin with a `Base`.
pub struct GroupRef<'a, Base>(&'a bindings::attribute_group, PhantomData<Base>);

// SAFETY: The group does not change while it is borrowed.
unsafe impl<Base: Attribute> Send for GroupRef<'_, Base> {}
// SAFETY: As for `Send`.
unsafe impl<Base: Attribute> Sync for GroupRef<'_, Base> {}

impl<Base> Clone for GroupRef<'_, Base> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Base> Copy for GroupRef<'_, Base> {}

impl<'a, Base: Attribute> GroupRef<'a, Base> {
    /// Calls `f` for each group of a C list that ends with null, or that is null.
    ///
    /// # Safety
    ///
    /// `list` is null or such a list; it and all in it stays for `'a`, and every attribute in it
    /// begins with a `Base`.
    pub unsafe fn for_each(
        list: *const *const bindings::attribute_group,
        f: &mut dyn FnMut(Self) -> Result,
    ) -> Result {
        if list.is_null() {
            return Ok(());
        }
        let mut at = list;
        // SAFETY: A list that ends with null (contract); we stop there.
        while let Some(group) = unsafe { (*at).as_ref() } {
            f(Self(group, PhantomData))?;
            // SAFETY: There was a group, so the list goes on.
            at = unsafe { at.add(1) };
        }
        Ok(())
    }

    /// Makes its files in the directory `kobj`, which shows `K::Attribute`s.
    ///
    /// # Safety
    ///
    /// `kobj` is a directory of the kind `K` that is there, and will be removed before `'a` ends.
    #[allow(
        clippy::extra_unused_type_parameters,
        reason = "the kind that the contract is about"
    )]
    pub(super) unsafe fn create<K: Kind<Attribute = Base>>(
        &self,
        kobj: *mut bindings::kobject,
    ) -> Result {
        // SAFETY: The directory is there (contract), and the group is valid for `'a`.
        kernel::error::to_result(unsafe { bindings::sysfs_create_group(kobj, self.0) })
    }
}
