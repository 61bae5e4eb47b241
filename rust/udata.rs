// SPDX-License-Identifier: GPL-2.0

//! Driver-specific data of a system call (`struct ib_udata`): input from the user library, and
//! output to it.
//!
//! Either buffer may be missing, shorter or longer than what this kernel expects, because library
//! and kernel are updated independently. The rules are those of the core's helpers:
//!
//! - input shorter than the minimum: `EINVAL`; missing bytes beyond the minimum are zero;
//! - input longer than expected: the excess must be zero, else `EOPNOTSUPP`;
//! - output is truncated to the available room, and the rest of the room is zeroed; if the driver
//!   requires that it fits, `EINVAL`;
//! - inaccessible memory: `EFAULT`.
//!
//! Input is copied once, and only the copy is checked and used.
//!
//! C headers: `include/rdma/ib_verbs.h` (`struct ib_udata`), `include/rdma/uverbs_ioctl.h`.

use crate::bindings;
use crate::provider::Provider;
use crate::provider::UContext;
use core::marker::PhantomData;
use core::mem::size_of;
use kernel::error::to_result;
use kernel::prelude::*;
use zerocopy::Immutable;

/// Driver-specific data of a system call; empty for calls by the kernel.
///
/// # Invariants
///
/// `raw` is null or the `driver_udata` of a `struct uverbs_attr_bundle`, valid for `'a`.
pub struct Udata<'a> {
    raw: *mut bindings::ib_udata,
    _p: PhantomData<&'a mut ()>,
}

impl Udata<'_> {
    /// # Safety
    ///
    /// `raw` was passed by the core to a driver's operation, and the operation has not returned
    /// yet.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut bindings::ib_udata) -> Self {
        // INVARIANT: Callers of operations in the core pass null or the `driver_udata` of their
        // attribute bundle; the C function `rdma_udata_to_uverbs_attr_bundle` relies on the same.
        Self {
            raw,
            _p: PhantomData,
        }
    }

    /// Returns whether the call comes from user space.
    #[inline]
    pub fn is_user(&self) -> bool {
        !self.raw.is_null()
    }

    /// Returns the number of bytes of input.
    #[inline]
    pub fn in_len(&self) -> usize {
        // SAFETY: `raw` is null or valid (type invariant).
        unsafe { self.raw.as_ref() }.map_or(0, |u| u.inlen)
    }

    /// Returns the number of bytes available for output.
    #[inline]
    pub fn out_len(&self) -> usize {
        // SAFETY: `raw` is null or valid (type invariant).
        unsafe { self.raw.as_ref() }.map_or(0, |u| u.outlen)
    }

    /// Returns the user context of the caller; `None` in calls by the kernel and while a context is
    /// being created.
    pub fn ucontext<P: Provider>(&self) -> Option<&UContext<P>> {
        if self.raw.is_null() {
            return None;
        }
        // CAST: `raw` is the `driver_udata` of a bundle (type invariant), which is its first field.
        let bundle = self.raw.cast::<bindings::uverbs_attr_bundle>();
        // SAFETY: The bundle is valid (type invariant), and both variants of this anonymous union
        // have the same layout.
        let context = unsafe { (*bundle).__bindgen_anon_1.hdr.context };
        // SAFETY: The core sets the context once it is complete, and destroys it only when no
        // system call uses it. It belongs to the device whose operation was called.
        unsafe { UContext::from_raw_opt(context) }
    }

    /// Reads the input. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the input is shorter than a `T`, or in calls by the kernel; `EOPNOTSUPP`,
    /// `EFAULT`: see the [module](self).
    #[inline]
    pub fn read<T: FromBytes>(&mut self) -> Result<T> {
        self.read_at_least(size_of::<T>())
    }

    /// Reads the input, of which at least `least` bytes must be present; missing bytes beyond that
    /// are zero. May sleep.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read), with `least` as the minimum.
    pub fn read_at_least<T: FromBytes>(&mut self, least: usize) -> Result<T> {
        if self.raw.is_null() {
            return Err(EINVAL);
        }
        let mut value = T::new_zeroed();
        // SAFETY: The value has `size_of::<T>()` bytes, for which any content is valid
        // (`FromBytes`).
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(
                self.raw,
                (&raw mut value).cast(),
                size_of::<T>(),
                least,
            )
        })?;
        Ok(value)
    }

    /// Checks that the input is empty or contains only zeros. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` for other input; `EFAULT`.
    pub fn expect_no_input(&mut self) -> Result {
        if self.in_len() == 0 {
            return Ok(());
        }
        // SAFETY: With a size of 0 nothing is written.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(self.raw, core::ptr::null_mut(), 0, 0)
        })
    }

    /// Checks that there is room for a `T`. For use before operations whose result could not be
    /// reported.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no room, or in a call by the kernel.
    #[inline]
    pub fn expect_room<T>(&self) -> Result {
        if self.out_len() < size_of::<T>() {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Writes the output, truncated to the available room. No effect in calls by the kernel. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn respond<T: IntoBytes + Immutable>(&mut self, value: &T) -> Result {
        if self.raw.is_null() {
            return Ok(());
        }
        let bytes = value.as_bytes();
        // SAFETY: The bytes are initialised (`IntoBytes`), and the length is theirs.
        to_result(unsafe {
            bindings::_ib_respond_udata(self.raw, bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Writes the output, which must fit. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it does not fit, or in a call by the kernel; `EFAULT`.
    pub fn respond_all<T: IntoBytes + Immutable>(&mut self, value: &T) -> Result {
        self.expect_room::<T>()?;
        self.respond(value)
    }

    /// Zeroes the room for output, for calls without output. May sleep.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn respond_nothing(&mut self) -> Result {
        self.respond(&())
    }
}
