// SPDX-License-Identifier: GPL-2.0

//! Functions that other modules call.

/// Asserts at compile time that functions of this crate have the types of their declarations in the
/// kernel's headers. The functions are `#[no_mangle] extern "C"`, and the module's C file exports
/// them.
#[macro_export]
macro_rules! exported {
    ($($name:ident),* $(,)?) => { $(
        // Both arms coerce to one function pointer type only if the signatures agree.
        const _: () = {
            let _ = if true { $crate::bindings::$name } else { $name };
        };
    )* };
}
