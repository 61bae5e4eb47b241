// SPDX-License-Identifier: GPL-2.0

//! The macros that declare the edge: [`c_struct!`](macro@crate::c_struct) for structures,
//! [`export!`](macro@crate::export) and [`callback!`](macro@crate::callback) for functions that C calls,
//! [`argument!`](macro@crate::argument) for what they get, [`import!`](macro@crate::import) for
//! functions of C. Their words are explained in [`crate::edge`].

use core::mem::ManuallyDrop;

/// The place of a union's member, of which bindgen makes a `ManuallyDrop`.
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

            // SAFETY: All are written.
            unsafe impl<$lt> $crate::edge::Init<$name> for $init<$lt> {
                #[inline(always)]
                unsafe fn fill(self, c: *mut $c) {
                    $(
                        // SAFETY: The memory is the caller's alone.
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
                    // SAFETY: Written before anybody has a reference, by the promise of one.
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

/// The place of a field. For [`c_struct!`] alone.
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

/// The methods of one field. For [`c_struct!`] alone.
#[doc(hidden)]
#[macro_export]
macro_rules! c_field {
    (const $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [] [$($set:ident)?] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self) -> $ty {
            // SAFETY: Written before the object was handed out, by the table.
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
            // SAFETY: Written before the object was handed out, if the tag says that it is there.
            self.$tag().then(|| unsafe {
                $crate::edge::FromC::from_c($crate::c_place!(self.0.get(), $f, $path).read())
            })
        }
    };
    (const $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [$tag:ident] [$set:ident] []) => {
        $crate::c_field!(const $(#[$m])* [$vis] $f $path [$ty] [$tag] [] []);

        #[doc = concat!("Sets [`", stringify!($f), "`](Self::", stringify!($f), "), if it is there.")]
        #[inline(always)]
        $vis fn $set(
            this: &mut (impl $crate::edge::SoleOwner<Of = Self> + core::ops::Deref<Target = Self>),
            value: $ty,
        ) {
            if this.$tag() {
                let c = this.sole();
                // SAFETY: Nobody else has the object.
                unsafe {
                    $crate::c_place!(c, $f, $path).write($crate::edge::IntoC::into_c(value))
                };
            }
        }
    };
    (racy $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [] [$($set:ident)?] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self) -> $ty {
            // SAFETY: The object is there; all access to the field is by whole words.
            unsafe {
                kernel::sync::atomic::Atomic::from_ptr($crate::c_place!(self.0.get(), $f, $path))
            }
            .load(kernel::sync::atomic::Relaxed)
        }

        $(
            #[doc = concat!("Sets [`", stringify!($f), "`](Self::", stringify!($f), ").")]
            #[inline(always)]
            $vis fn $set(&self, value: $ty) {
                // SAFETY: As in the reader.
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
            // SAFETY: The lock is held, and nobody changes the field without it.
            unsafe {
                $crate::edge::FromC::from_c($crate::c_place!(self.0.get(), $f, $path).read())
            }
        }

        $(
            #[doc = concat!("Sets [`", stringify!($f), "`](Self::", stringify!($f), ").")]
            #[inline(always)]
            $vis fn $set(&self, _by: &mut $lock, value: $ty) {
                // SAFETY: The lock is held, and nobody reads or changes the field without it.
                unsafe {
                    $crate::c_place!(self.0.get(), $f, $path)
                        .write($crate::edge::IntoC::into_c(value))
                };
            }
        )?
    };
    (embed $(#[$m:meta])* [$vis:vis] $f:ident $path:tt [$ty:ty] [] [] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self) -> &$ty {
            // SAFETY: A field of the object, with a table of its own; its type is checked here.
            unsafe { <$ty as $crate::edge::View>::view($crate::c_place!(self.0.get(), $f, $path)) }
        }
    };
    (bit $(#[$m:meta])* [$vis:vis] $f:ident [] [$ty:ty] [] [$($set:ident)?] []) => {
        $(#[$m])*
        #[inline(always)]
        $vis fn $f(&self) -> $ty {
            // SAFETY: Written before the object was handed out, with the bits beside it.
            unsafe { (*self.0.get()).$f() != 0 }
        }

        $(
            // Named as bindgen names it.
            #[doc = concat!("Sets [`", stringify!($f), "`](Self::", stringify!($f), ").")]
            #[inline(always)]
            $vis fn $set(this: &mut impl $crate::edge::Writer<Of = Self>, value: $ty) {
                let c = this.place();
                // SAFETY: Nobody else reads or writes the field, nor the bits beside it (contract
                // of `Writer`, by the table).
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
            // SAFETY: Nobody else reads or writes the structure during the call.
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
                // SAFETY: As in the reader.
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
            // SAFETY: Nobody else reads or writes the structure during the call.
            unsafe {
                $crate::c_place!(self.0.get(), $f, $path).write($crate::edge::IntoC::into_c(value))
            };
        }
    };
}

/// Makes functions that C calls of safe ones: with the name that C knows, the arguments and the
/// answer as C has them, and checked against the declaration in the headers.
///
/// `in MODULE;` at the beginning says whose bindings have the declarations.
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
        /// The arguments are what the types of the function behind it say
        /// ([`FromC`](rdma::edge::FromC)).
        #[no_mangle]
        #[allow(clippy::unused_unit, reason = "some have no result")]
        pub(crate) unsafe extern "C" fn $name(
            $($arg: <$ty as $crate::edge::FromC>::C),*
        ) $(-> <$ret as $crate::edge::Answer>::C)? {
            let during = $crate::edge::During;
            // SAFETY: C passes what the argument types say (the contract of the export's header).
            let ($($arg,)*) = unsafe { ($($crate::edge::within::<$ty>($arg, &during),)*) };
            // One that is not safe does not coerce.
            let safe: fn($($ty),*) $(-> $ret)? = $($path)::+;
            $crate::edge::Answer::answer(safe($($arg),*))
        }

        // Both arms coerce to one function pointer type only if the signatures agree.
        const _: () = {
            let _ = if true { $root::$headers::$name } else { $name };
        };
    )* };
}

/// Makes types of arguments that promise more than the type within: what C promises is the invariant
/// of the type that the row makes. Row: `impl<'a> TYPE = |value: WITHIN| EXPRESSION;`, with one more
/// parameter `impl<'a, T: Trait>`.
///
/// A row without `'a` is of a type whose promise is not limited to a call: a count, an object that is
/// given up, or one that its owner keeps beyond the call. The type within is `'static` there.
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
        // SAFETY: `from_c`'s contract is that of the type within, and the type's invariant.
        unsafe impl<$lt $(, $of: $bound)?> $crate::edge::FromC for $name {
            type C = <$within as $crate::edge::FromC>::C;

            #[inline(always)]
            unsafe fn from_c(c: Self::C) -> Self {
                // SAFETY: `from_c`'s contract.
                let $value = unsafe { <$within as $crate::edge::FromC>::from_c(c) };
                // INVARIANT: `from_c`'s contract.
                $make
            }
        }
        // SAFETY: It is limited to as long as the type within is.
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
        // SAFETY: `from_c`'s contract is that of the type within, and the type's invariant.
        unsafe impl $crate::edge::FromC for $name {
            type C = <$within as $crate::edge::FromC>::C;

            #[inline(always)]
            unsafe fn from_c(c: Self::C) -> Self {
                // SAFETY: `from_c`'s contract, which lasts longer than the call.
                let $value = unsafe { <$within as $crate::edge::FromC>::from_c(c) };
                // INVARIANT: `from_c`'s contract.
                $make
            }
        }
        // SAFETY: The type's promise says how long what it refers to stays: longer than the call.
        unsafe impl $crate::edge::Within<'_> for $name
        where
            $within: $crate::edge::Within<'static>,
        {
        }

        $crate::argument! { $($rows)* }
    };
}

/// As [`export!`], for functions that C gets pointers to. The place that the pointer is put in
/// checks the signature. They may be generic: `fn name<T: Trait>(..) = T::method;`.
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
        /// For C: the arguments are what the types of the function behind it say.
        $vis unsafe extern "C" fn $name $(<$of: $bound>)? (
            $($arg: <$ty as $crate::edge::FromC>::C),*
        ) $(-> <$ret as $crate::edge::Answer>::C)? {
            let during = $crate::edge::During;
            // SAFETY: C passes what the argument types say (the contract of the place that takes the pointer).
            let ($($arg,)*) = unsafe { ($($crate::edge::within::<$ty>($arg, &during),)*) };
            // One that is not safe does not coerce.
            let safe: fn($($ty),*) $(-> $ret)? = $($path)::+;
            $crate::edge::Answer::answer(safe($($arg),*))
        }
    )* };
}

/// Makes safe functions of C functions that may be called in any state with arguments that are what
/// their types say. Each row is to be held against the function's header, or against the helper in
/// `rust/helpers`.
///
/// `in MODULE;` at the beginning says whose bindings have the declarations.
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
            // SAFETY: The arguments are what their types say, and the function asks for no more (the
            // table's claim).
            unsafe {
                $crate::edge::Reply::reply(
                    $root::$headers::$c($($crate::edge::IntoC::into_c($arg)),*)
                )
            }
        }
    )* };
}
