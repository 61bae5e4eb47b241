// SPDX-License-Identifier: GPL-2.0

//! Ownership of objects that are shared with C.
//!
//! | type | says |
//! |---|---|
//! | [`Owned`] | nobody but the driver uses the object: its holder may destroy it |
//! | [`Given`] | an object that C gives back, or null |
//! | [`Bare`] | the driver has allocated the object, and the core has not filled its fields yet |
//! | [`Slot`], [`GidSlot`] | a field that owns an object, or null |
//! | [`UseCount`], [`Use`] | how many other objects use this one; one of these uses |
//!
//! None of them destroys anything on drop: how an object ends is decided by the module that
//! made it. C header: `include/rdma/ib_verbs.h`.

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

/// An object that its holder may destroy: it was made just now, or C gives it back because nobody
/// uses it any more. An object that is dropped here is not destroyed; it stays as it is.
///
/// # Invariants
///
/// `0` is an object, and nobody uses it but its driver and readers that find it through its
/// restrack entry.
#[must_use = "an object that is not given to C is never freed"]
pub struct Owned<K: View>(NonNull<K::C>);

impl<K: View> Owned<K> {
    /// # Safety
    ///
    /// `object` is an object for which the type invariant holds, and the caller gives it up.
    #[inline(always)]
    pub unsafe fn new(object: NonNull<K::C>) -> Self {
        // INVARIANT: The caller promises it.
        Self(object)
    }

    /// The C structure, which the caller owns from now on.
    #[inline(always)]
    pub fn into_raw(self) -> NonNull<K::C> {
        self.0
    }
}

impl<K: View> Deref for Owned<K> {
    type Target = K;

    #[inline(always)]
    fn deref(&self) -> &K {
        // SAFETY: `0` is an object (type invariant), and it is not destroyed while `self` is
        // borrowed, since that takes `self` by value.
        unsafe { K::view(self.0.as_ptr()) }
    }
}

// SAFETY: Nobody else uses the object (type invariant of `Owned`). Readers that find it through
// its entry read only what the entry's kind says, which `set_` functions do not change.
unsafe impl<K: View> SoleOwner for Owned<K> {
    type Of = K;

    #[inline(always)]
    fn sole(&mut self) -> *mut K::C {
        self.0.as_ptr()
    }
}

// SAFETY: Owns the object, so it is not limited by a call.
unsafe impl<K: View> Within<'_> for Owned<K> {}
// SAFETY: `from_c`'s contract is that C gives the object to the callee.
unsafe impl<K: View> FromC for Owned<K> {
    type C = *mut K::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: C gives an object, not null. INVARIANT: Nobody else uses it, by the same contract.
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

// An object that a consumer gets, or null.
impl<K: View> Answer for Option<Owned<K>> {
    type C = *mut K::C;

    #[inline(always)]
    fn answer(self) -> Self::C {
        self.map_or(core::ptr::null_mut(), AnswerOk::ok)
    }
}

/// A structure that we make ourselves, in a box.
///
/// # Safety
///
/// Objects that are owned are boxes that were given to [`Owned::of_box`].
pub unsafe trait Boxed: View {}

impl<K: Boxed> Owned<K> {
    /// One that was made just now.
    pub fn of_box(object: KBox<K::C>) -> Self {
        // INVARIANT: Nobody else has it.
        Self(NonNull::from(KBox::leak(object)))
    }

    /// The box again.
    pub fn into_box(self) -> KBox<K::C> {
        // SAFETY: It was a box (contract of `Boxed`), and nobody else has it (type invariant).
        unsafe { KBox::from_raw(self.0.as_ptr()) }
    }
}

/// An object that C gives back to have it destroyed, or null.
pub struct Given<K: View>(Option<Owned<K>>);

// SAFETY: Owns the object, so it is not limited by a call.
unsafe impl<K: View> Within<'_> for Given<K> {}
// SAFETY: `from_c`'s contract is that C gives null or an object to the callee.
unsafe impl<K: View> FromC for Given<K> {
    type C = *mut K::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // INVARIANT: Nobody else uses the object, by the contract of `from_c`.
        Self(NonNull::new(c).map(Owned))
    }
}

impl<K: View> Given<K> {
    /// For Rust callers of a function that C calls as well.
    #[inline(always)]
    pub fn of(object: Owned<K>) -> Self {
        Self(Some(object))
    }

    /// # Errors
    ///
    /// `EINVAL` for null.
    #[inline(always)]
    pub fn owned(self) -> Result<Owned<K>> {
        self.0.ok_or(EINVAL)
    }
}

/// An object that a driver has allocated and made just now. The core has not filled its fields
/// yet, so nothing but [`fill`](Self::fill) is possible.
///
/// # Invariants
///
/// `0` is such an object, and nobody but its driver uses it.
pub struct Bare<K: View>(NonNull<K::C>);

// SAFETY: `from_c`'s contract is that the driver gives the object to the caller.
unsafe impl<K: View> FromC for Bare<K> {
    type C = *mut K::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A driver returns an object, not null. INVARIANT: It is new.
        Self(unsafe { NonNull::new_unchecked(c) })
    }
}

impl<K: View> Bare<K> {
    /// Fills the core's fields.
    #[inline(always)]
    pub fn fill(self, init: impl Init<K>) -> Owned<K> {
        // SAFETY: Nobody but the driver, which does not touch the core's fields, uses the object
        // (type invariant).
        unsafe { init.fill(self.0.as_ptr()) };
        // INVARIANT: The type invariant of `Bare`; now the `init` fields are written too.
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
        // SAFETY: The field is an aligned word of a live structure; all of our accesses to it are
        // through this function, and C leaves it alone while the structure exists.
        unsafe { Atomic::from_ptr(self.raw()) }
    }

    /// Takes the object out.
    pub fn take(&self) -> Option<Owned<K>> {
        // INVARIANT: The field owned it, and the exchange gives it to one caller only.
        NonNull::new(self.place().xchg(core::ptr::null_mut(), Full)).map(Owned)
    }

    /// Whether there is no object in it, now.
    pub fn is_empty(&self) -> bool {
        self.place().load(Relaxed).is_null()
    }

    /// The content of the field of a structure that is about to be destroyed: whoever destroys it
    /// gets the object.
    pub fn left(&self) -> Left<K> {
        Left(self.place().load(Relaxed))
    }

    /// Puts an object in, and returns the one that was there.
    pub fn put(&self, object: Option<Owned<K>>) -> Option<Owned<K>> {
        let object = object.map_or(core::ptr::null_mut(), AnswerOk::ok);
        // INVARIANT: As in `take`.
        NonNull::new(self.place().xchg(object, Full)).map(Owned)
    }
}

/// What a structure that is being destroyed had in a [`Slot`].
pub struct Left<K: View>(*mut K::C);

impl<K: View> Left<K> {
    /// Called when the structure is gone.
    ///
    /// # Safety
    ///
    /// The structure is gone, and nobody took the object out of its slot after
    /// [`Slot::left`].
    pub unsafe fn take(self) -> Option<Owned<K>> {
        // INVARIANT: The structure owned the object and is gone, so nobody else has it.
        NonNull::new(self.0).map(Owned)
    }
}

/// A field of a C structure that owns a reference to an entry of a GID table, or is null.
///
/// # Invariants
///
/// The reference is the structure's, and the field is changed as a whole.
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

    /// The entry, if there is one.
    pub fn get(&self) -> Option<&GidAttr> {
        let entry = self.place().load(Relaxed).cast_mut();
        // SAFETY: The structure holds a reference to it (type invariant).
        NonNull::new(entry).map(|entry| unsafe { GidAttr::view(entry.as_ptr()) })
    }

    /// Puts a reference in, and returns the one that was there. Of two callers that do so at once
    /// each gets a different one.
    pub fn put(&self, new: Option<Owned<GidAttr>>) -> Option<Owned<GidAttr>> {
        let new = new.map_or(core::ptr::null(), |new| {
            new.into_raw().as_ptr().cast_const()
        });
        // INVARIANT: The field owned the reference, and the exchange gives it to one caller only.
        NonNull::new(self.place().xchg(new, Full).cast_mut()).map(Owned)
    }

    /// The reference of a structure that is about to be destroyed.
    ///
    /// # Safety
    ///
    /// The structure neither uses the reference nor gives it up any more.
    pub unsafe fn held(&self) -> Option<Owned<GidAttr>> {
        // INVARIANT: The caller promises that the reference is nobody else's.
        NonNull::new(self.place().load(Relaxed).cast_mut()).map(Owned)
    }
}

crate::c_struct! {
    /// The number of objects that use an object (`atomic_t usecnt`).
    pub struct UseCount: bindings::atomic_t;
    fields {}
}

crate::import! {
    in crate::bindings;

    fn atomic_read(count: &UseCount) -> i32 = atomic_read;
    fn atomic_inc(count: &UseCount) = atomic_inc;
}

impl UseCount {
    /// Whether another object uses this one.
    pub fn is_used(&self) -> bool {
        self.get() != 0
    }

    /// How many objects use it.
    pub fn get(&self) -> i32 {
        atomic_read(self)
    }

    /// Counts one use; dropping the result gives it back.
    pub fn count(&self) -> Use {
        atomic_inc(self);
        // INVARIANT: Just counted; an object that is used is not destroyed.
        Use(NonNull::from(self).cast())
    }
}

/// One use of an object by another; given back on drop.
///
/// # Invariants
///
/// `0` is the count of an object, which lives because it is used, and one of the uses is ours.
pub struct Use(NonNull<bindings::atomic_t>);

impl Use {
    /// Takes over a use from an object that is being destroyed.
    ///
    /// # Safety
    ///
    /// The object counted a use, and does not give it back in another way.
    pub unsafe fn kept(count: &UseCount) -> Self {
        // INVARIANT: The caller promises it.
        Self(NonNull::from(count).cast())
    }

    /// Keeps the use for as long as the object exists for which it was counted; that object's end
    /// takes it over with [`Self::kept`].
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        // SAFETY: The count's object lives, and one of the uses is ours (type invariant).
        unsafe { bindings::atomic_dec(self.0.as_ptr()) };
    }
}
