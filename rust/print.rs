// SPDX-License-Identifier: GPL-2.0

//! Messages of this crate in the kernel log. The macros of the kernel crate need a module's prefix,
//! which a crate that is compiled into several modules does not have.

use kernel::fmt::Arguments;

/// Writes an error with the prefix `rdma`. Any context.
#[cold]
pub(crate) fn error(text: Arguments<'_>) {
    // SAFETY: The format string is one of the kernel crate; the name is NUL-terminated.
    unsafe {
        kernel::print::call_printk(&kernel::print::format_strings::ERR, b"rdma\0", text);
    }
}
