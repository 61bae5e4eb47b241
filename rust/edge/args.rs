// SPDX-License-Identifier: GPL-2.0

//! Types of arguments and results of functions between C and Rust.
//!
//! | type | C type |
//! |---|---|
//! | numbers, `bool`, function pointers | the same |
//! | `NonNull<T>`, `Option<NonNull<T>>` | a pointer that is not null; any pointer |
//! | `&V`, `Option<&V>` | a pointer to the structure; null for `None` |
//! | [`In`] | a pointer to a `const` structure |
//! | [`Context`] | a `void *` to an object |
//! | [`Passed`] | a pointer that is not dereferenced, only passed on |
//! | [`Tied`] | an argument that relates to others of the same call |
//! | [`OutParam`] | a pointer to an uninitialised result |
//! | [`Lent`] | a pointer to a plain structure for the callee's exclusive use; null for `None` |
//! | [`Alone`] | a pointer to an object whose constant fields only the callee accesses |
//! | `Result`, `Result<T>` | zero or a negative errno; a pointer or an error pointer |

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
        // SAFETY: It contains no references.
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

// SAFETY: Every value is valid. Only for fields: C does not pass arrays by value.
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

// SAFETY: Every value is valid: safe code cannot dereference a raw pointer.
unsafe impl<T> FromC for *const T {
    type C = Self;
    #[inline(always)]
    unsafe fn from_c(c: Self) -> Self {
        c
    }
}
// SAFETY: It contains no references.
unsafe impl<T> Within<'_> for *const T {}

// SAFETY: The contract of `from_c` is that the pointer is not null. Safe code cannot dereference
// it.
unsafe impl<T> FromC for NonNull<T> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is not null (contract of `from_c`).
        unsafe { NonNull::new_unchecked(c) }
    }
}
// SAFETY: It contains no references.
unsafe impl<T> Within<'_> for NonNull<T> {}

// SAFETY: Every value is valid.
unsafe impl<T> FromC for Option<NonNull<T>> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        NonNull::new(c)
    }
}
// SAFETY: It contains no references.
unsafe impl<T> Within<'_> for Option<NonNull<T>> {}

macro_rules! handlers {
    ($(fn($($a:ident),*);)*) => { $(
        // SAFETY: Every value is valid: safe code cannot call the function.
        unsafe impl<R, $($a),*> FromC for Option<unsafe extern "C" fn($($a),*) -> R> {
            type C = Self;
            #[inline(always)]
            unsafe fn from_c(c: Self) -> Self {
                c
            }
        }
        // SAFETY: It contains no references.
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

// SAFETY: The contract of `from_c` is that of `view`.
unsafe impl<'a, V: View> FromC for &'a V {
    type C = *mut V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is an object that is valid for `'a` (contract of this function, see `FromC`,
        // `Reply`).
        unsafe { V::view(c) }
    }
}

// SAFETY: The contract of `from_c` is that `c` is null or fulfils the contract of `view`.
unsafe impl<'a, V: View> FromC for Option<&'a V> {
    type C = *mut V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is null or an object that is valid for `'a` (contract of this function, see
        // `FromC`, `Reply`).
        unsafe { c.cast::<V>().as_ref() }
    }
}

// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a, V: View> Within<'a> for &'a V {}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a, V: View> Within<'a> for Option<&'a V> {}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a, V: View> Within<'a> for In<'a, V> {}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a, V: View> Within<'a> for Option<In<'a, V>> {}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a, V: View> Within<'a> for Context<'a, V> {}
// SAFETY: The string outlives every call (contract of `from_c`).
unsafe impl Within<'_> for Option<&'static CStr> {}
// SAFETY: It contains no references.
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

/// A reference to a structure that C declares `const`.
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

// SAFETY: As for a reference: the contract of `from_c` is that of `view`.
unsafe impl<V: View> FromC for In<'_, V> {
    type C = *const V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is an object that is valid for the lifetime (contract of this function, see
        // `FromC`, `Reply`).
        Self(unsafe { V::view(c.cast_mut()) })
    }
}

// SAFETY: As for an optional reference: `c` is null or fulfils the contract of `view`.
unsafe impl<V: View> FromC for Option<In<'_, V>> {
    type C = *const V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is null or an object that is valid for the lifetime (contract of this
        // function, see `FromC`, `Reply`).
        unsafe { c.cast::<V>().as_ref() }.map(In)
    }
}

impl<V: View> IntoC<*const V::C> for In<'_, V> {
    #[inline(always)]
    fn into_c(self) -> *const V::C {
        self.0.raw()
    }
}

/// The context argument of a callback, which is an object.
pub struct Context<'a, V>(pub &'a V);

// SAFETY: As for a reference: the contract of `from_c` is that of `view`.
unsafe impl<V: View> FromC for Context<'_, V> {
    type C = *mut c_void;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is an object that is valid for the lifetime (contract of this function, see
        // `FromC`, `Reply`).
        Self(unsafe { V::view(c.cast()) })
    }
}

// SAFETY: The contract of `from_c` is that `c` is null or a NUL-terminated string that outlives all
// uses.
unsafe impl FromC for Option<&'static CStr> {
    type C = *const c_char;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is not null, so it is a string that outlives all uses (contract of `from_c`).
        (!c.is_null()).then(|| unsafe { CStr::from_char_ptr(c) })
    }
}

/// A pointer that C passes to C through Rust code. It is not dereferenced here and cannot be
/// created from an address, so the guarantees of the sender hold for the receiver.
pub struct Passed<T> {
    raw: *mut T,
    _of_call: PhantomData<*mut T>,
}

impl<T> Passed<T> {
    /// The null pointer.
    pub const NULL: Self = Self {
        raw: core::ptr::null_mut(),
        _of_call: PhantomData,
    };
}

impl<T> Passed<T> {
    /// Returns the address, for comparisons.
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

// SAFETY: The pointer is not dereferenced.
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

/// An argument that relates to other arguments of the same call, those with the same tag `Of`. The
/// documentation of the tag states the relation.
///
/// Only calls by C create such values, and the values do not outlive the call. So values of one tag
/// that are available to a function belong to one call, and the relation holds between them.
pub struct Tied<'a, Of, T> {
    value: T,
    _of_call: PhantomData<(&'a (), Of)>,
}

impl<Of, T> Tied<'_, Of, T> {
    /// Returns the argument.
    #[inline(always)]
    pub fn get(self) -> T {
        self.value
    }
}

// SAFETY: The contract of `from_c` is that of the argument, and the relation that the tag states.
unsafe impl<Of, T: FromC> FromC for Tied<'_, Of, T> {
    type C = T::C;

    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self {
            // SAFETY: The contract of `from_c` of the argument is part of that of this function.
            value: unsafe { T::from_c(c) },
            _of_call: PhantomData,
        }
    }
}
// SAFETY: The value and the argument have the lifetime `'a`.
unsafe impl<'a, Of, T: Within<'a>> Within<'a> for Tied<'a, Of, T> {}

/// A location that C provides for a result, a plain value.
pub struct OutParam<'a, T> {
    place: NonNull<T>,
    _of_call: PhantomData<&'a mut T>,
}

impl<T> OutParam<'_, T> {
    /// Writes the result. The location may be unaligned, because C code may use a field of a packed
    /// structure.
    #[inline(always)]
    pub fn set(&mut self, value: T) {
        // SAFETY: The location may be written during the call (contract of `from_c`).
        unsafe { self.place.as_ptr().write_unaligned(value) };
    }
}

// SAFETY: The location belongs to C; plain values are written to it, and nothing is read.
unsafe impl<T> FromC for OutParam<'_, T> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        Self {
            // SAFETY: The location exists, so it is not null (contract of `from_c`).
            place: unsafe { NonNull::new_unchecked(c) },
            _of_call: PhantomData,
        }
    }
}

// SAFETY: As for `OutParam`, or null.
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

// SAFETY: The value has the lifetime `'a`.
unsafe impl<'a, T> Within<'a> for OutParam<'a, T> {}
// SAFETY: The value has the lifetime `'a`.
unsafe impl<'a, T> Within<'a> for Option<OutParam<'a, T>> {}

// SAFETY: The contract of `from_c` is that `c` is a NUL-terminated string, valid for the lifetime.
unsafe impl FromC for &CStr {
    type C = *const c_char;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is a NUL-terminated string, valid for the lifetime (contract of `from_c`).
        unsafe { CStr::from_char_ptr(c) }
    }
}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a> Within<'a> for &'a CStr {}

impl IntoC<*const c_char> for &CStr {
    #[inline(always)]
    fn into_c(self) -> *const c_char {
        self.as_char_ptr()
    }
}

/// A plain structure that is exclusively available to a function during one call.
pub struct Lent<'a, T>(pub &'a mut T);

// SAFETY: The contract of `from_c` is that the structure is initialised, and that only the callee
// uses it during the call.
unsafe impl<T> FromC for Lent<'_, T> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The structure is initialised, and only the callee uses it (contract of `from_c`).
        Self(unsafe { &mut *c })
    }
}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a, T> Within<'a> for Lent<'a, T> {}

// SAFETY: As for `Lent`, or null.
unsafe impl<T> FromC for Option<Lent<'_, T>> {
    type C = *mut T;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is null, or a structure that only the callee uses (contract of `from_c`).
        unsafe { c.as_mut() }.map(Lent)
    }
}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a, T> Within<'a> for Option<Lent<'a, T>> {}

impl<T> IntoC<*mut T> for Lent<'_, T> {
    #[inline(always)]
    fn into_c(self) -> *mut T {
        self.0
    }
}

/// An object that C passes to a function that writes it: during the call nobody else reads or
/// writes the fields that the function writes.
pub struct Alone<'a, V>(&'a V);

// SAFETY: The contract of `from_c` is that of `view`, and that nobody else uses the fields in
// question.
unsafe impl<V: View> FromC for Alone<'_, V> {
    type C = *mut V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is an object that is valid for the lifetime (contract of this function, see
        // `FromC`).
        Self(unsafe { V::view(c) })
    }
}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a, V: View> Within<'a> for Alone<'a, V> {}

// SAFETY: As for `Alone`, or null.
unsafe impl<V: View> FromC for Option<Alone<'_, V>> {
    type C = *mut V::C;
    #[inline(always)]
    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `c` is null or an object that is valid for the lifetime (contract of this
        // function, see `FromC`).
        unsafe { Option::from_c(c) }.map(Alone)
    }
}
// SAFETY: The reference has the lifetime `'a`.
unsafe impl<'a, V: View> Within<'a> for Option<Alone<'a, V>> {}

impl<V> Deref for Alone<'_, V> {
    type Target = V;

    #[inline(always)]
    fn deref(&self) -> &V {
        self.0
    }
}

// SAFETY: Nobody else uses the fields that the holder writes (contract of `from_c` of `Alone`).
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

// A pointer, which may be an error pointer.
impl<T> Answer for *mut T {
    type C = Self;
    #[inline(always)]
    fn answer(self) -> Self {
        self
    }
}

// As for `*mut T`.
impl<T> Answer for *const T {
    type C = Self;
    #[inline(always)]
    fn answer(self) -> Self {
        self
    }
}

// A pointer that a consumer has registered, or null.
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

// SAFETY: There is no value to convert.
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
            // Positive values are not defined for these functions, so they count as failure.
            1.. => Err(EINVAL),
            _ => Err(Error::from_errno(c)),
        }
    }
}

// SAFETY: The contract of `reply` is that of `made`.
unsafe impl<T: FromC<C = *mut C>, C> Reply<*mut C> for Result<T> {
    #[inline(always)]
    unsafe fn reply(c: *mut C) -> Self {
        // SAFETY: `c` is an error pointer, null, or valid for `T` (contract of this function, see
        // `Reply`).
        unsafe { made(c) }
    }
}

/// Converts the result of a C function that creates objects: a pointer, or an error pointer.
///
/// # Errors
///
/// The error of the pointer; `ENOMEM` for null.
///
/// # Safety
///
/// `c` is an error pointer, null, or fulfils the contract of `T::from_c`.
#[inline(always)]
pub unsafe fn made<T: FromC<C = *mut C>, C>(c: *mut C) -> Result<T> {
    let c = from_err_ptr(c)?;
    if c.is_null() {
        return Err(ENOMEM);
    }
    // SAFETY: `c` is neither an error pointer nor null, so it is valid for `T` (contract of this
    // function).
    Ok(unsafe { T::from_c(c) })
}
