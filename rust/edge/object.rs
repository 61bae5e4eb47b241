// SPDX-License-Identifier: GPL-2.0

//! Ownership of objects that are shared with C.
//!
//! | type | meaning |
//! |---|---|
//! | [`Owned`] | only the driver uses the object; its holder may destroy it |
//! | [`Given`] | an object that C returns for destruction, or null |
//! | [`Bare`] | an object allocated by the driver, with the core's fields not filled yet |
//! | [`Slot`], [`GidSlot`] | a field that owns an object, or null |
//! | [`UseCount`], [`Use`] | the number of objects that use an object; one such use |
//!
//! Drop of these types does not destroy objects; the module that created an object destroys it. C
//! header: `include/rdma/ib_verbs.h`.

use super::verbs::GidAttr;
use super::Answer;
use super::AnswerOk;
use super::FromC;
use super::Init;
use super::SoleOwner;
use super::View;
use super::Within;
use crate::bindings;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::types::Opaque;

/// An object that its holder may destroy: it was just created, or C returned it because it is no
/// longer in use. Drop does not destroy the object; it is leaked.
///
/// # Invariants
///
/// `0` is an object that nobody uses except its driver and readers that find it through its
/// restrack entry.
#[must_use = "an object that is not given to C is never freed"]
pub struct Owned<K: View>(NonNull<K::C>);

impl<K: View> Owned<K> {
    /// Takes ownership of an object.
    ///
    /// # Safety
    ///
    /// The type invariant holds for `object`, and the caller owns it.
    #[inline(always)]
    pub unsafe fn new(object: NonNull<K::C>) -> Self {
        // INVARIANT: Guaranteed by the caller.
        Self(object)
    }

    /// Returns the C structure, whose ownership passes to the caller.
    #[inline(always)]
    pub fn into_raw(self) -> NonNull<K::C> {
        self.0
    }
}

impl<K: View> Deref for Owned<K> {
    type Target = K;

    #[inline(always)]
    fn deref(&self) -> &K {
        // SAFETY: `0` is an object (type invariant). It is not destroyed while `self` is borrowed,
        // because that requires `self` by value.
        unsafe { K::view(self.0.as_ptr()) }
    }
}

// SAFETY: Nobody else uses the object (type invariant of `Owned`). Readers that find it through its
// restrack entry read only fields that setters do not change.
unsafe impl<K: View> SoleOwner for Owned<K> {
    type Of = K;

    #[inline(always)]
    fn sole(&mut self) -> *mut K::C {
        self.0.as_ptr()
    }
}

// SAFETY: It owns the object, so it is not limited to a call.
unsafe impl<K: View> Within<'_> for Owned<K> {}
// SAFETY: The contract of `from_c` is that ownership of an object passes to the callee.
unsafe impl<K: View> FromC for Owned<K> {
    type C = *mut K::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: C passes an object, not null (contract of this function).
        // INVARIANT: Nobody else uses it (contract of this function).
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

impl<K: View> AnswerOk for Owned<K> {
    type C = *mut K::C;

    #[inline(always)]
    fn ok(self) -> Self::C {
        self.0.as_ptr()
    }

    #[inline(always)]
    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

// An object that is returned to a consumer, or null.
impl<K: View> Answer for Option<Owned<K>> {
    type C = *mut K::C;

    #[inline(always)]
    fn answer(self) -> Self::C {
        self.map_or(core::ptr::null_mut(), AnswerOk::ok)
    }
}

/// A structure that we allocate in a box.
///
/// # Safety
///
/// All owned objects of the type are boxes that were passed to [`Owned::of_box`].
pub unsafe trait Boxed: View {}

impl<K: Boxed> Owned<K> {
    /// Takes ownership of a new object.
    pub fn of_box(object: KBox<K::C>) -> Self {
        // INVARIANT: No other reference exists.
        Self(NonNull::from(KBox::leak(object)))
    }

    /// Returns the object as a box.
    pub fn into_box(self) -> KBox<K::C> {
        // SAFETY: It was a box (contract of `Boxed`), and nobody else uses it (type invariant).
        unsafe { KBox::from_raw(self.0.as_ptr()) }
    }
}

/// An object that C returns for destruction, or null.
pub struct Given<K: View>(Option<Owned<K>>);

// SAFETY: It owns the object, so it is not limited to a call.
unsafe impl<K: View> Within<'_> for Given<K> {}
// SAFETY: The contract of `from_c` is that `c` is null, or an object whose ownership passes to the
// callee.
unsafe impl<K: View> FromC for Given<K> {
    type C = *mut K::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: Nobody else uses the object (contract of this function).
        Self(NonNull::new(c).map(Owned))
    }
}

impl<K: View> Given<K> {
    /// Wraps an object, for Rust callers of a function that C also calls.
    #[inline(always)]
    pub fn of(object: Owned<K>) -> Self {
        Self(Some(object))
    }

    /// Returns the object.
    ///
    /// # Errors
    ///
    /// `EINVAL` for null.
    #[inline(always)]
    pub fn owned(self) -> Result<Owned<K>> {
        self.0.ok_or(EINVAL)
    }
}

/// An object that a driver has just allocated and created. The core has not filled its fields yet,
/// so only [`fill`](Self::fill) is possible.
///
/// # Invariants
///
/// `0` is such an object, and only its driver uses it.
pub struct Bare<K: View>(NonNull<K::C>);

// SAFETY: The contract of `from_c` is that the driver passes ownership of the object to the caller.
unsafe impl<K: View> FromC for Bare<K> {
    type C = *mut K::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A driver returns an object, not null (contract of this function).
        // INVARIANT: The object is new.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

impl<K: View> Bare<K> {
    /// Writes the core's fields.
    #[inline(always)]
    pub fn fill(self, init: impl Init<K>) -> Owned<K> {
        // SAFETY: Only the driver uses the object (type invariant), and it does not access the
        // core's fields.
        unsafe { init.fill(self.0.as_ptr()) };
        // INVARIANT: Only the driver uses the object (invariant of `Bare`), and its `init` fields
        // are written now.
        Owned(self.0)
    }
}

/// A field of a C structure that owns an object, or is null.
#[repr(transparent)]
pub struct Slot<K: View>(Opaque<*mut K::C>, PhantomData<K>);

// SAFETY: Transparent over the pointer.
unsafe impl<K: View> View for Slot<K> {
    type C = *mut K::C;
}

impl<K: View> Slot<K> {
    fn place(&self) -> &Atomic<*mut K::C> {
        // SAFETY: The field is an aligned word of a live structure. Rust accesses it only through
        // this function, and C does not access it while the structure exists.
        unsafe { Atomic::from_ptr(self.raw()) }
    }

    /// Takes the object out of the field.
    pub fn take(&self) -> Option<Owned<K>> {
        // INVARIANT: The field owned the object, and the exchange returns it to one caller only.
        NonNull::new(self.place().xchg(core::ptr::null_mut(), Full)).map(Owned)
    }

    /// Returns whether the field is null now.
    pub fn is_empty(&self) -> bool {
        self.place().load(Relaxed).is_null()
    }

    /// Returns the content of the field, for a structure that is about to be destroyed. The code
    /// that destroys it takes the object with [`Left::take`].
    pub fn left(&self) -> Left<K> {
        Left(self.place().load(Relaxed))
    }

    /// Stores an object, and returns the previous one.
    pub fn put(&self, object: Option<Owned<K>>) -> Option<Owned<K>> {
        let object = object.map_or(core::ptr::null_mut(), AnswerOk::ok);
        // INVARIANT: The field owned the object, and the exchange returns it to one caller only.
        NonNull::new(self.place().xchg(object, Full)).map(Owned)
    }
}

/// Object in a [`Slot`] of a structure that is being destroyed.
pub struct Left<K: View>(*mut K::C);

impl<K: View> Left<K> {
    /// Returns the object, after the structure was destroyed.
    ///
    /// # Safety
    ///
    /// The structure was destroyed, and nobody took the object out of its slot after
    /// [`Slot::left`].
    pub unsafe fn take(self) -> Option<Owned<K>> {
        // INVARIANT: The structure owned the object and was destroyed, so there is no other owner.
        NonNull::new(self.0).map(Owned)
    }
}

/// A field of a C structure that owns a reference to an entry of a GID table, or is null.
///
/// # Invariants
///
/// The structure owns the reference, and the field is changed as a whole.
#[repr(transparent)]
pub struct GidSlot(Opaque<*const bindings::ib_gid_attr>);

// SAFETY: Transparent over the pointer.
unsafe impl View for GidSlot {
    type C = *const bindings::ib_gid_attr;
}

impl GidSlot {
    fn place(&self) -> &Atomic<*const bindings::ib_gid_attr> {
        // SAFETY: The field is an aligned word that is changed as a whole (type invariant).
        unsafe { Atomic::from_ptr(self.raw()) }
    }

    /// Returns whether there is an entry now.
    pub fn is_empty(&self) -> bool {
        self.place().load(Relaxed).is_null()
    }

    /// Returns the entry, if any.
    ///
    /// # Safety
    ///
    /// The field must not change while the result is used.
    pub unsafe fn get(&self) -> Option<&GidAttr> {
        let entry = self.place().load(Relaxed).cast_mut();
        // SAFETY: The structure holds a reference to the entry (type invariant) as long as the
        // field does not change (contract of this function).
        NonNull::new(entry).map(|entry| unsafe { GidAttr::view(entry.as_ptr()) })
    }

    /// Stores a reference, and returns the previous one. Concurrent callers get different
    /// references.
    pub fn put(&self, new: Option<Owned<GidAttr>>) -> Option<Owned<GidAttr>> {
        let new = new.map_or(core::ptr::null(), |new| {
            new.into_raw().as_ptr().cast_const()
        });
        // INVARIANT: The field owned the reference, and the exchange returns it to one caller only.
        NonNull::new(self.place().xchg(new, Full).cast_mut()).map(Owned)
    }

    /// Returns the reference of a structure that is about to be destroyed.
    ///
    /// # Safety
    ///
    /// The structure must neither use the reference nor drop it any more.
    pub unsafe fn held(&self) -> Option<Owned<GidAttr>> {
        // INVARIANT: The caller guarantees that there is no other owner of the reference.
        NonNull::new(self.place().load(Relaxed).cast_mut()).map(Owned)
    }
}

crate::c_struct! {
    /// Number of objects that use an object (`atomic_t usecnt`).
    pub struct UseCount: bindings::atomic_t;
    fields {}
}

crate::import! {
    in crate::bindings;

    fn atomic_read(count: &UseCount) -> i32 = atomic_read;
    fn atomic_inc(count: &UseCount) = atomic_inc;
}

impl UseCount {
    /// Returns whether another object uses this one.
    pub fn is_used(&self) -> bool {
        self.get() != 0
    }

    /// Returns the number of objects that use this one.
    pub fn get(&self) -> i32 {
        atomic_read(self)
    }

    /// Adds a use, which the drop of the result removes.
    pub fn count(&self) -> Use {
        atomic_inc(self);
        // INVARIANT: Just counted; an object that is in use is not destroyed.
        Use(NonNull::from(self).cast())
    }
}

/// A use of an object by another one, removed on drop.
///
/// # Invariants
///
/// `0` is the use count of an object, which exists while it is in use. One of the uses belongs to
/// this.
pub struct Use(NonNull<bindings::atomic_t>);

impl Use {
    /// Takes over a use from an object that is being destroyed.
    ///
    /// # Safety
    ///
    /// The object counted a use, and does not remove it itself.
    pub unsafe fn kept(count: &UseCount) -> Self {
        // INVARIANT: Guaranteed by the caller.
        Self(NonNull::from(count).cast())
    }

    /// Keeps the use as long as the object for which it was counted exists. The destruction of that
    /// object takes it over with [`Self::kept`].
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        // SAFETY: The object of the count exists, and one of its uses belongs to this (type
        // invariant).
        unsafe { bindings::atomic_dec(self.0.as_ptr()) };
    }
}
