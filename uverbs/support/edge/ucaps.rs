// SPDX-License-Identifier: GPL-2.0

//! The arguments of the functions of [`ucaps`](crate::ucaps).

use core::marker::PhantomData;
use core::slice;
use kernel::ffi::c_int;
use rdma::edge::IntoC;
use rdma::edge::Passed;

/// The address of file descriptors. Only C creates it, for the duration of a call.
pub(crate) struct FilesAt<'a>(*const c_int, PhantomData<&'a ()>);

/// Number of descriptors at a [`FilesAt`]. Only C creates it, for the duration of a call.
pub(crate) struct Count<'a>(c_int, PhantomData<&'a ()>);

rdma::argument! {
    /// As many descriptors as the [`Count`] of the same call says are readable, and no one writes
    /// to them.
    impl<'a> FilesAt<'a> = |files: Passed<c_int>| FilesAt(files.into_c(), PhantomData);
    /// See [`FilesAt`].
    impl<'a> Count<'a> = |count: c_int| Count(count, PhantomData);
}

impl<'a> FilesAt<'a> {
    /// Returns the descriptors; `count` must be an argument of the same call.
    pub(crate) fn with(self, count: Count<'a>) -> &'a [c_int] {
        match usize::try_from(count.0) {
            Ok(count) if count > 0 => {
                // SAFETY: `argument!`'s row of `FilesAt`.
                unsafe { slice::from_raw_parts(self.0, count) }
            }
            _ => &[],
        }
    }
}
