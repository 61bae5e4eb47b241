// SPDX-License-Identifier: GPL-2.0

//! Functions that other modules call.

/// States that functions of this crate are those that the kernel's headers declare: that each
/// has the type of the declaration. The functions are `#[no_mangle] extern "C"`, and the
/// module's C file exports them.
#[macro_export]
macro_rules! exported {
    ($($name:ident),* $(,)?) => { $(
        // Both arms coerce to one function pointer type only if the signatures agree.
        const _: () = {
            let _ = if true { $crate::bindings::$name } else { $name };
        };
    )* };
}
