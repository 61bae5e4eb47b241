// SPDX-License-Identifier: GPL-2.0

//! The macros that declare the edge: [`c_struct!`](macro@crate::c_struct) for structures,
//! [`export!`](macro@crate::export) and [`callback!`](macro@crate::callback) for functions that C
//! calls, [`argument!`](macro@crate::argument) for their arguments,
//! [`import!`](macro@crate::import) for C functions. The keywords are explained in [`crate::edge`].

use core::mem::ManuallyDrop;

/// Address of a member of a union, which bindgen wraps in a `ManuallyDrop`.
#[doc(hidden)]
#[inline(always)]
pub fn member<T>(place: *mut ManuallyDrop<T>) -> *mut T {
    place.cast()
}

/// Declares the view of a C structure. See the [module](crate::edge).
#[macro_export]
macro_rules! c_struct {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident: $c:ty;
        $(init $init:ident<$lt:lifetime> {
            $( $(#[$imeta:meta])* $ifield:ident $(at $($ipath:ident).+)?: $ity:ty ),* $(,)?
        })?
        fields {
            $(
                $(#[$rmeta:meta])*
                $how:ident $field:ident $(at $($path:ident).+)? $(in $($member:ident).+)?: $ty:ty
                    $(where $tag:ident)? $(, $set:ident)? $(=> $lock:ty)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[repr(transparent)]
        $vis struct $name(kernel::types::Opaque<$c>);

        // SAFETY: Transparent over the structure.
        unsafe impl $crate::edge::View for $name {
            type C = $c;
        }

        $(
            #[doc = concat!("What a [`", stringify!($name), "`] is made of before anybody sees it.")]
            $vis struct $init<$lt> {
                $( $(#[$imeta])* $vis $ifield: $ity, )*
            }

            // SAFETY: `fill` writes all `init` fields.
            unsafe impl<$lt> $crate::edge::Init<$name> for $init<$lt> {
                #[inline(always)]
                unsafe fn fill(self, c: *mut $c) {
                    $(
                        // SAFETY: The caller owns the memory exclusively (contract).
                        unsafe {
                            $crate::c_place!(c, $ifield, [$($($ipath).+)?])
                                .write($crate::edge::IntoC::into_c(self.$ifield))
                        };
                    )*
                }
            }
        )?

        #[allow(dead_code, reason = "a table says of fields how they are reached, not who does")]
        impl $name {
            $($(
                $(#[$imeta])*
                #[inline(always)]
                $vis fn $ifield<$lt>(&$lt self) -> $ity {
                    // SAFETY: Written before a reference exists (guarantee of a reference).
                    unsafe {
                        $crate::edge::FromC::from_c(
                            $crate::c_place!(self.0.get(), $ifield, [$($($ipath).+)?]).read(),
                        )
                    }
                }
            )*)?
            $(
                $crate::c_field!(
                    $how $(#[$rmeta])* [$vis] $field [$($($path).+)? $(in $($member).+)?] [$ty]
                    [$($tag)?] [$($set)?] [$($lock)?]
                );
            )*
        }
    };
}

/// Address of a field. Only for [`c_struct!`].
#[doc(hidden)]
#[macro_export]
macro_rules! c_place {
    ($c:expr, $field:ident, []) => {
        (&raw mut (*$c).$field)
    };
    ($c:expr, $field:ident, [in $($path:ident).+]) => {
        $crate::edge::member(&raw mut (*$c).$($path).+)
    };
    ($c:expr, $field:ident, [$($path:ident).+]) => {
        (&raw mut (*$c).$($path).+)
    };
}

/// Methods of a field. Only for [`c_struct!`].
#[doc(hidden)]
#[macro_export]
macro_rules! c_field {
    (const $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [] [$($set:ident)?] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self) -> $ty {
            // SAFETY: Written before a reference exists, and constant (declaration in the table).
            unsafe {
                $crate::edge::FromC::from_c($crate::c_place!(self.0.get(), $f, $path).read())
            }
        }

        $(
            #[doc = concat!("Sets [`", stringify!($f), "`](Self::", stringify!($f), ").")]
            #[inline(always)]
            $vis fn $set(this: &mut impl $crate::edge::Writer<Of = Self>, value: $ty) {
                let c = this.place();
                // SAFETY: Nobody else reads or writes the field (contract of `Writer`).
                unsafe {
                    $crate::c_place!(c, $f, $path).write($crate::edge::IntoC::into_c(value))
                };
            }
        )?
    };
    (const $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [$tag:ident] [] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self) -> Option<$ty> {
            // SAFETY: If the tag says that the member is valid, it was written before a reference
            // existed, and is constant (declaration in the table).
            self.$tag().then(|| unsafe {
                $crate::edge::FromC::from_c($crate::c_place!(self.0.get(), $f, $path).read())
            })
        }
    };
    (racy $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [] [$($set:ident)?] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self) -> $ty {
            // SAFETY: The object exists; the field is accessed by whole words only (declaration in
            // the table).
            unsafe {
                kernel::sync::atomic::Atomic::from_ptr($crate::c_place!(self.0.get(), $f, $path))
            }
            .load(kernel::sync::atomic::Relaxed)
        }

        $(
            #[doc = concat!("Sets [`", stringify!($f), "`](Self::", stringify!($f), ").")]
            #[inline(always)]
            $vis fn $set(&self, value: $ty) {
                // SAFETY: As in the reader: the field is accessed by whole words only.
                unsafe {
                    kernel::sync::atomic::Atomic::from_ptr($crate::c_place!(self.0.get(), $f, $path))
                }
                .store(value, kernel::sync::atomic::Relaxed);
            }
        )?
    };
    (guarded $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [] [$($set:ident)?] [$lock:ty]) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self, _by: &$lock) -> $ty {
            // SAFETY: The object exists. The field is accessed by whole words, so that even the lock
            // of another object leads to no undefined value.
            unsafe {
                kernel::sync::atomic::Atomic::from_ptr($crate::c_place!(self.0.get(), $f, $path))
            }
            .load(kernel::sync::atomic::Relaxed)
        }

        $(
            #[doc = concat!("Sets [`", stringify!($f), "`](Self::", stringify!($f), ").")]
            #[inline(always)]
            $vis fn $set(&self, _by: &mut $lock, value: $ty) {
                // SAFETY: As in the reader.
                unsafe {
                    kernel::sync::atomic::Atomic::from_ptr($crate::c_place!(self.0.get(), $f, $path))
                }
                .store(value, kernel::sync::atomic::Relaxed);
            }
        )?
    };
    (embed $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [] [] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self) -> &$ty {
            // SAFETY: An embedded field with its own table; its type is checked here.
            unsafe { <$ty as $crate::edge::View>::view($crate::c_place!(self.0.get(), $f, $path)) }
        }
    };
    (bit $(#[$m:meta])* [$vis:vis] $f:ident [] [$ty:ty] [] [$($set:ident)?] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self) -> $ty {
            // SAFETY: The bit and its neighbours are written before a reference exists (declaration
            // in the table).
            unsafe { (*self.0.get()).$f() != 0 }
        }

        $(
            // The name of the setter must be that of bindgen.
            #[doc = concat!("Sets [`", stringify!($f), "`](Self::", stringify!($f), ").")]
            #[inline(always)]
            $vis fn $set(this: &mut impl $crate::edge::Writer<Of = Self>, value: $ty) {
                let c = this.place();
                // SAFETY: Nobody else reads or writes the bit or its neighbours (contract of
                // `Writer`, declaration in the table).
                unsafe { (*c).$set(value.into()) };
            }
        )?
    };
    (cell $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [] [$($set:ident)?] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self) -> $ty
        where
            Self: $crate::edge::OfCall,
        {
            // SAFETY: Nobody else uses the structure during the call (contract of `OfCall`).
            unsafe {
                $crate::edge::FromC::from_c($crate::c_place!(self.0.get(), $f, $path).read())
            }
        }

        $(
            #[doc = concat!("Sets [`", stringify!($f), "`](Self::", stringify!($f), ").")]
            #[inline(always)]
            $vis fn $set(&self, value: $ty)
            where
                Self: $crate::edge::OfCall,
            {
                // SAFETY: As in the reader: nobody else uses the structure during the call.
                unsafe {
                    $crate::c_place!(self.0.get(), $f, $path)
                        .write($crate::edge::IntoC::into_c(value))
                };
            }
        )?
    };
    (put $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [] [] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self, value: $ty)
        where
            Self: $crate::edge::OfCall,
        {
            // SAFETY: Nobody else uses the structure during the call (contract of `OfCall`).
            unsafe {
                $crate::c_place!(self.0.get(), $f, $path).write($crate::edge::IntoC::into_c(value))
            };
        }
    };
}

/// Declares functions that C calls, implemented by safe functions. The macro uses the name that C
/// knows, converts arguments and results, and checks the signature against the declaration in the
/// headers.
///
/// `in MODULE;` at the start gives the module of the bindings with the declarations.
#[macro_export]
macro_rules! export {
    (
        in $root:ident::$headers:ident;
        $(
            $(#[$meta:meta])*
            fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $($path:ident)::+;
        )*
    ) => { $(
        $(#[$meta])*
        ///
        /// # Safety
        ///
        /// The arguments must be what the types of the implementing function state
        /// ([`FromC`](rdma::edge::FromC)).
        #[no_mangle]
        #[allow(clippy::unused_unit, reason = "some have no result")]
        pub(crate) unsafe extern "C" fn $name(
            $($arg: <$ty as $crate::edge::FromC>::C),*
        ) $(-> <$ret as $crate::edge::Answer>::C)? {
            let during = $crate::edge::During;
            // SAFETY: C passes what the argument types state (contract of the header).
            let ($($arg,)*) = unsafe { ($($crate::edge::within::<$ty>($arg, &during),)*) };
            // An unsafe function does not coerce to this type.
            let safe: fn($($ty),*) $(-> $ret)? = $($path)::+;
            $crate::edge::Answer::answer(safe($($arg),*))
        }

        // Both arms coerce to one function pointer type only if the signatures agree.
        const _: () = {
            let _ = if true { $root::$headers::$name } else { $name };
        };
    )* };
}

/// Declares types of arguments that guarantee more than the type within. The guarantee of the C
/// caller is the invariant of the declared type. Row: `impl<'a> TYPE = |value: WITHIN|
/// EXPRESSION;`, optionally with one more parameter, `impl<'a, T: Trait>`.
///
/// A row without `'a` declares a type whose guarantee is not limited to a call: a use count, an
/// object whose ownership passes to the callee, or one that its owner keeps beyond the call. There,
/// the type within is `'static`.
#[macro_export]
macro_rules! argument {
    () => {};
    (
        $(#[$meta:meta])*
        impl<$lt:lifetime $(, $of:ident: $bound:path)?> $name:ty
            = |$value:ident: $within:ty| $make:expr;
        $($rows:tt)*
    ) => {
        $(#[$meta])*
        // SAFETY: The contract of `from_c` is that of the type within, and the type's invariant.
        unsafe impl<$lt $(, $of: $bound)?> $crate::edge::FromC for $name {
            type C = <$within as $crate::edge::FromC>::C;

            #[inline(always)]
            unsafe fn from_c(c: Self::C) -> Self {
                // SAFETY: The contract of the type within is part of that of this function.
                let $value = unsafe { <$within as $crate::edge::FromC>::from_c(c) };
                // INVARIANT: Guaranteed by the caller (contract of this function).
                $make
            }
        }
        // SAFETY: The value has the lifetime of the type within.
        unsafe impl<$lt $(, $of: $bound)?> $crate::edge::Within<$lt> for $name
        where
            $within: $crate::edge::Within<$lt>,
        {
        }

        $crate::argument! { $($rows)* }
    };
    (
        $(#[$meta:meta])*
        impl $name:ty = |$value:ident: $within:ty| $make:expr;
        $($rows:tt)*
    ) => {
        $(#[$meta])*
        // SAFETY: The contract of `from_c` is that of the type within, and the type's invariant.
        unsafe impl $crate::edge::FromC for $name {
            type C = <$within as $crate::edge::FromC>::C;

            #[inline(always)]
            unsafe fn from_c(c: Self::C) -> Self {
                // SAFETY: The contract of the type within is part of that of this function, which
                // outlasts the call.
                let $value = unsafe { <$within as $crate::edge::FromC>::from_c(c) };
                // INVARIANT: Guaranteed by the caller (contract of this function).
                $make
            }
        }
        // SAFETY: By the type's invariant, what it refers to exists longer than the call.
        unsafe impl $crate::edge::Within<'_> for $name
        where
            $within: $crate::edge::Within<'static>,
        {
        }

        $crate::argument! { $($rows)* }
    };
}

/// Declares functions as [`export!`] does, for functions that C calls by pointer. The signature is
/// checked where the pointer is stored. They may be generic: `fn name<T: Trait>(..) = T::method;`.
#[macro_export]
macro_rules! callback {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$of:ident: $bound:path>)? ($($arg:ident: $ty:ty),* $(,)?)
            $(-> $ret:ty)? = $($path:ident)::+;
    )*) => { $(
        $(#[$meta])*
        ///
        /// # Safety
        ///
        /// For C only: the arguments must be what the types of the implementing function state.
        $vis unsafe extern "C" fn $name $(<$of: $bound>)? (
            $($arg: <$ty as $crate::edge::FromC>::C),*
        ) $(-> <$ret as $crate::edge::Answer>::C)? {
            let during = $crate::edge::During;
            // SAFETY: C passes what the argument types state (contract of the field or parameter
            // that holds the pointer).
            let ($($arg,)*) = unsafe { ($($crate::edge::within::<$ty>($arg, &during),)*) };
            // An unsafe function does not coerce to this type.
            let safe: fn($($ty),*) $(-> $ret)? = $($path)::+;
            $crate::edge::Answer::answer(safe($($arg),*))
        }
    )* };
}

/// Declares safe wrappers of C functions that may be called in any state with arguments that are
/// what their types state. Each row must be checked against the function's header, or against the
/// helper in `rust/helpers`.
///
/// `in MODULE;` at the start gives the module of the bindings with the declarations.
#[macro_export]
macro_rules! import {
    (
        in $root:ident::$headers:ident;
        $(
            $(#[$meta:meta])*
            $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $c:ident;
        )*
    ) => { $(
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: The arguments are what their types state, and the function has no other
            // precondition (claim of the table).
            unsafe {
                $crate::edge::Reply::reply(
                    $root::$headers::$c($($crate::edge::IntoC::into_c($arg)),*)
                )
            }
        }
    )* };
}
