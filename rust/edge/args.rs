// SPDX-License-Identifier: GPL-2.0

//! Types of arguments and results of functions between C and Rust.
//!
//! | type | C has |
//! |---|---|
//! | numbers, `bool`, function pointers | the same |
//! | `NonNull<T>`, `Option<NonNull<T>>` | a pointer, not null; any pointer |
//! | `&V`, `Option<&V>` | a pointer to the structure; null for `None` |
//! | [`In`] | a pointer to a `const` structure |
//! | [`Context`] | `void *`, which is an object |
//! | [`Passed`] | a pointer that is only passed on |
//! | [`Tied`] | an argument that belongs to others of the same call |
//! | [`OutParam`] | a pointer to an uninitialised result |
//! | [`Lent`] | a pointer to a plain structure that nobody else uses during the call; null for `None` |
//! | [`Alone`] | a pointer to an object of which the callee alone changes the constant fields |
//! | `Result`, `Result<T>` | zero or an error; a pointer or an error |

use super::Answer;
use super::AnswerOk;
use super::FromC;
use super::IntoC;
use super::Refused;
use super::Reply;
use super::View;
use super::Within;
use super::Writer;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;

macro_rules! plain {
    ($($t:ty),*) => { $(
        // SAFETY: Every value is valid.
        unsafe impl FromC for $t {
            type C = Self;
            #[inline(always)]
            unsafe fn from_c(c: Self) -> Self {
                c
            }
        }
        // SAFETY: There is no reference in it.
        unsafe impl Within<'_> for $t {}
        impl IntoC<$t> for $t {
            #[inline(always)]
            fn into_c(self) -> Self {
                self
            }
        }
        impl Answer for $t {
            type C = Self;
            #[inline(always)]
            fn answer(self) -> Self {
                self
            }
        }
    )* };
}

plain!((), bool, u8, u16, u32, u64, usize, i32, i64, isize);

// SAFETY: Every value is valid. C passes no array by value: it is a field.
unsafe impl<const N: usize> FromC for [u8; N] {
    type C = Self;
    #[inline(always)]
    unsafe fn from_c(c: Self) -> Self {
        c
    }
}
impl<const N: usize> IntoC<Self> for [u8; N] {
    #[inline(always)]
    fn into_c(self) -> Self {
        self
    }
}

// SAFETY: A raw pointer is only a number to safe code.
unsafe impl<T> FromC for *const T {
    type C = Self;
    #[inline(always)]
    unsafe fn from_c(c: Self) -> Self {
        c
    }
}
// SAFETY: There is no reference in it.
unsafe impl<T> Within<'_> for *const T {}

// SAFETY: `from_c`'s contract: it is not null. A pointer is only an address to safe code.
unsafe impl<T> FromC for NonNull<T> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        unsafe { NonNull::new_unchecked(c) }
    }
}
// SAFETY: There is no reference in it.
unsafe impl<T> Within<'_> for NonNull<T> {}

// SAFETY: Every value is valid.
unsafe impl<T> FromC for Option<NonNull<T>> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        NonNull::new(c)
    }
}
// SAFETY: There is no reference in it.
unsafe impl<T> Within<'_> for Option<NonNull<T>> {}

macro_rules! handlers {
    ($(fn($($a:ident),*);)*) => { $(
        // SAFETY: Nothing is promised of what the function does.
        unsafe impl<R, $($a),*> FromC for Option<unsafe extern "C" fn($($a),*) -> R> {
            type C = Self;
            #[inline(always)]
            unsafe fn from_c(c: Self) -> Self {
                c
            }
        }
        // SAFETY: There is no reference in it.
        unsafe impl<R, $($a),*> Within<'_> for Option<unsafe extern "C" fn($($a),*) -> R> {}
        impl<R, $($a),*> IntoC<Self> for Option<unsafe extern "C" fn($($a),*) -> R> {
            #[inline(always)]
            fn into_c(self) -> Self {
                self
            }
        }
    )* };
}

handlers! {
    fn(A);
    fn(A, B);
    fn(A, B, C);
    fn(A, B, C, D);
    fn(A, B, C, D, E);
    fn(A, B, C, D, E, F);
}

// SAFETY: The duty of `from_c` is that of `view`.
unsafe impl<'a, V: View> FromC for &'a V {
    type C = *mut V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The contract of this function (see `FromC`, `Reply`).
        unsafe { V::view(c) }
    }
}

// SAFETY: `from_c` makes a view of what is not null, by the contract of `view`.
unsafe impl<'a, V: View> FromC for Option<&'a V> {
    type C = *mut V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The contract of this function (see `FromC`, `Reply`).
        unsafe { c.cast::<V>().as_ref() }
    }
}

// SAFETY: The reference in it is of `'a`.
unsafe impl<'a, V: View> Within<'a> for &'a V {}
// SAFETY: The reference in it is of `'a`.
unsafe impl<'a, V: View> Within<'a> for Option<&'a V> {}
// SAFETY: The reference in it is of `'a`.
unsafe impl<'a, V: View> Within<'a> for In<'a, V> {}
// SAFETY: The reference in it is of `'a`.
unsafe impl<'a, V: View> Within<'a> for Option<In<'a, V>> {}
// SAFETY: The reference in it is of `'a`.
unsafe impl<'a, V: View> Within<'a> for Context<'a, V> {}
// SAFETY: Names outlive every call (contract of `from_c`).
unsafe impl Within<'_> for Option<&'static CStr> {}
// SAFETY: There is no reference in it.
unsafe impl<T> Within<'_> for Passed<T> {}

impl<V: View> IntoC<*mut V::C> for &V {
    #[inline(always)]
    fn into_c(self) -> *mut V::C {
        self.raw()
    }
}

impl<V: View> IntoC<*const V::C> for &V {
    #[inline(always)]
    fn into_c(self) -> *const V::C {
        self.raw()
    }
}

impl<V: View> IntoC<*mut V::C> for Option<&V> {
    #[inline(always)]
    fn into_c(self) -> *mut V::C {
        self.map_or(core::ptr::null_mut(), V::raw)
    }
}

/// A reference to what C declares `const`.
pub struct In<'a, V>(pub &'a V);

impl<V> Deref for In<'_, V> {
    type Target = V;

    #[inline(always)]
    fn deref(&self) -> &V {
        self.0
    }
}

impl<V> Clone for In<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for In<'_, V> {}

// SAFETY: As for a reference.
unsafe impl<V: View> FromC for In<'_, V> {
    type C = *const V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The contract of this function (see `FromC`, `Reply`).
        Self(unsafe { V::view(c.cast_mut()) })
    }
}

// SAFETY: As for a reference, or null.
unsafe impl<V: View> FromC for Option<In<'_, V>> {
    type C = *const V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The contract of this function (see `FromC`, `Reply`).
        unsafe { c.cast::<V>().as_ref() }.map(In)
    }
}

impl<V: View> IntoC<*const V::C> for In<'_, V> {
    #[inline(always)]
    fn into_c(self) -> *const V::C {
        self.0.raw()
    }
}

/// A callback's context that is an object.
pub struct Context<'a, V>(pub &'a V);

// SAFETY: As for a reference.
unsafe impl<V: View> FromC for Context<'_, V> {
    type C = *mut c_void;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The contract of this function (see `FromC`, `Reply`).
        Self(unsafe { V::view(c.cast()) })
    }
}

// SAFETY: `from_c`'s contract is that it is null or a string that outlives all uses.
unsafe impl FromC for Option<&'static CStr> {
    type C = *const c_char;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: It is not null, so it is a string that stays (contract of `from_c`).
        (!c.is_null()).then(|| unsafe { CStr::from_char_ptr(c) })
    }
}

/// A pointer that one part of C passes to another through Rust code. It is not dereferenced here,
/// and cannot be forged, so the receiver gets what the sender promised.
pub struct Passed<T> {
    raw: *mut T,
    _of_call: PhantomData<*mut T>,
}

impl<T> Passed<T> {
    /// No pointer.
    pub const NULL: Self = Self {
        raw: core::ptr::null_mut(),
        _of_call: PhantomData,
    };
}

impl<T> Passed<T> {
    /// Its value, for comparisons.
    #[inline(always)]
    pub fn as_ptr(self) -> *const T {
        self.raw
    }
}

impl<T> Clone for Passed<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Passed<T> {}

// SAFETY: The pointer is not followed.
unsafe impl<T> FromC for Passed<T> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(raw: *mut T) -> Self {
        Self {
            raw,
            _of_call: PhantomData,
        }
    }
}

impl<T> IntoC<*mut T> for Passed<T> {
    #[inline(always)]
    fn into_c(self) -> *mut T {
        self.raw
    }
}

/// An argument that belongs to others of the same call: those with the tag `Of`, which says how.
///
/// Only calls of C make such values, and they end with the call. So those of one tag that a function
/// has at hand are of one call, and what the tag says holds of them.
pub struct Tied<'a, Of, T> {
    value: T,
    _of_call: PhantomData<(&'a (), Of)>,
}

impl<Of, T> Tied<'_, Of, T> {
    /// The argument.
    #[inline(always)]
    pub fn get(self) -> T {
        self.value
    }
}

// SAFETY: `from_c`'s contract is that of the argument, and what the tag says.
unsafe impl<Of, T: FromC> FromC for Tied<'_, Of, T> {
    type C = T::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self {
            // SAFETY: `from_c`'s contract.
            value: unsafe { T::from_c(c) },
            _of_call: PhantomData,
        }
    }
}
// SAFETY: It is limited to `'a`, and so is the argument.
unsafe impl<'a, Of, T: Within<'a>> Within<'a> for Tied<'a, Of, T> {}

/// A place for a plain value that C lends to a function: its result.
pub struct OutParam<'a, T> {
    place: NonNull<T>,
    _of_call: PhantomData<&'a mut T>,
}

impl<T> OutParam<'_, T> {
    /// Writes the result. C code in packed structures may lend an unaligned place.
    #[inline(always)]
    pub fn set(&mut self, value: T) {
        // SAFETY: `from_c`'s contract: the place may be written during the call.
        unsafe { self.place.as_ptr().write_unaligned(value) };
    }
}

// SAFETY: The place is C's; plain values are written to it, and nothing is read.
unsafe impl<T> FromC for OutParam<'_, T> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self {
            // SAFETY: `from_c`'s contract: the place is there.
            place: unsafe { NonNull::new_unchecked(c) },
            _of_call: PhantomData,
        }
    }
}

// SAFETY: Null, or what `OutParam` says.
unsafe impl<T> FromC for Option<OutParam<'_, T>> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        NonNull::new(c).map(|place| OutParam {
            place,
            _of_call: PhantomData,
        })
    }
}

// SAFETY: It is limited to `'a`.
unsafe impl<'a, T> Within<'a> for OutParam<'a, T> {}
// SAFETY: It is limited to `'a`.
unsafe impl<'a, T> Within<'a> for Option<OutParam<'a, T>> {}

// SAFETY: `from_c`'s contract: a terminated string for the reference's lifetime.
unsafe impl FromC for &CStr {
    type C = *const c_char;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        unsafe { CStr::from_char_ptr(c) }
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for &'a CStr {}

impl IntoC<*const c_char> for &CStr {
    #[inline(always)]
    fn into_c(self) -> *const c_char {
        self.as_char_ptr()
    }
}

/// A plain structure that is lent to a function for one call, by us or by C.
pub struct Lent<'a, T>(pub &'a mut T);

// SAFETY: `from_c`'s contract: the structure is there and initialised, and nobody else uses it
// during the call.
unsafe impl<T> FromC for Lent<'_, T> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Self(unsafe { &mut *c })
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a, T> Within<'a> for Lent<'a, T> {}

// SAFETY: Null, or what `Lent` says.
unsafe impl<T> FromC for Option<Lent<'_, T>> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        unsafe { c.as_mut() }.map(Lent)
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a, T> Within<'a> for Option<Lent<'a, T>> {}

impl<T> IntoC<*mut T> for Lent<'_, T> {
    #[inline(always)]
    fn into_c(self) -> *mut T {
        self.0
    }
}

/// An object that C lends to a function whose duty is to write it: nobody else reads or writes
/// meanwhile what the function writes.
pub struct Alone<'a, V>(&'a V);

// SAFETY: As for a reference, and nobody else uses the fields in question.
unsafe impl<V: View> FromC for Alone<'_, V> {
    type C = *mut V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The contract of this function (see `FromC`).
        Self(unsafe { V::view(c) })
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a, V: View> Within<'a> for Alone<'a, V> {}

// SAFETY: Null, or what `Alone` says.
unsafe impl<V: View> FromC for Option<Alone<'_, V>> {
    type C = *mut V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The contract of this function (see `FromC`).
        unsafe { Option::from_c(c) }.map(Alone)
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a, V: View> Within<'a> for Option<Alone<'a, V>> {}

impl<V> Deref for Alone<'_, V> {
    type Target = V;

    #[inline(always)]
    fn deref(&self) -> &V {
        self.0
    }
}

// SAFETY: `from_c`'s contract.
unsafe impl<V: View> Writer for Alone<'_, V> {
    type Of = V;

    #[inline(always)]
    fn place(&mut self) -> *mut V::C {
        self.0.raw()
    }
}

impl AnswerOk for () {
    type C = c_int;
    #[inline(always)]
    fn ok(self) -> c_int {
        0
    }
    #[inline(always)]
    fn error(error: Error) -> c_int {
        error.to_errno()
    }
}

impl<T: AnswerOk> Answer for Result<T> {
    type C = T::C;
    #[inline(always)]
    fn answer(self) -> T::C {
        match self {
            Ok(value) => value.ok(),
            Err(error) => T::error(error),
        }
    }
}

// A pointer that may be an error.
impl<T> Answer for *mut T {
    type C = Self;
    #[inline(always)]
    fn answer(self) -> Self {
        self
    }
}

// As for `*mut`.
impl<T> Answer for *const T {
    type C = Self;
    #[inline(always)]
    fn answer(self) -> Self {
        self
    }
}

// A pointer that a consumer had from us, null if it is none.
impl<T> Answer for Passed<T> {
    type C = *mut T;
    #[inline(always)]
    fn answer(self) -> *mut T {
        self.raw
    }
}

impl<T> Refused for Result<T> {
    #[inline(always)]
    fn refused(error: Error) -> Self {
        Err(error)
    }
}

impl Refused for () {
    #[inline(always)]
    fn refused(_: Error) {}
}

// SAFETY: There is no value.
unsafe impl Reply<()> for () {
    #[inline(always)]
    unsafe fn reply(_c: ()) {}
}

impl Refused for c_int {
    #[inline(always)]
    fn refused(error: Error) -> Self {
        error.to_errno()
    }
}

macro_rules! replies {
    ($($t:ty),*) => { $(
        // SAFETY: Every value is valid.
        unsafe impl Reply<$t> for $t {
            #[inline(always)]
            unsafe fn reply(c: $t) -> Self {
                c
            }
        }
    )* };
}

replies!(bool, u8, u16, u32, u64, usize, i64, isize);

// SAFETY: Every value is valid.
unsafe impl Reply<c_int> for c_int {
    #[inline(always)]
    unsafe fn reply(c: c_int) -> Self {
        c
    }
}

// SAFETY: Every value is valid.
unsafe impl Reply<c_int> for Result {
    #[inline(always)]
    unsafe fn reply(c: c_int) -> Self {
        match c {
            0 => Ok(()),
            // What returns something else has not done what it was asked.
            1.. => Err(EINVAL),
            _ => Err(Error::from_errno(c)),
        }
    }
}

// SAFETY: The duty of `reply` is that of `made`.
unsafe impl<T: FromC<C = *mut C>, C> Reply<*mut C> for Result<T> {
    #[inline(always)]
    unsafe fn reply(c: *mut C) -> Self {
        // SAFETY: The contract of this function (see `FromC`, `Reply`).
        unsafe { made(c) }
    }
}

/// What a C function that makes objects returns: a pointer, or an error in its place.
///
/// # Errors
///
/// That one; `ENOMEM` for null.
///
/// # Safety
///
/// `c` is an error, or what `T` says.
#[inline(always)]
pub unsafe fn made<T: FromC<C = *mut C>, C>(c: *mut C) -> Result<T> {
    let c = from_err_ptr(c)?;
    if c.is_null() {
        return Err(ENOMEM);
    }
    // SAFETY: The contract of this function (see `FromC`, `Reply`).
    Ok(unsafe { T::from_c(c) })
}
