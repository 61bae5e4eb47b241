// SPDX-License-Identifier: GPL-2.0

//! The driver's part of a system call: what a user library sends along and gets back.
//!
//! Either buffer may be missing, shorter or longer than what this kernel knows, since library and
//! kernel are updated apart. The rules, which are those of the core's own helpers:
//!
//! - input shorter than the least is `EINVAL`; bytes it lacks beyond that are zero;
//! - input longer than what we know must be zero there, else `EOPNOTSUPP`;
//! - output is cut to the room there is, and the rest of the room is zeroed, unless the driver
//!   says that it must fit, then `EINVAL`;
//! - bad addresses are `EFAULT`.
//!
//! Input is copied once, and only the copy is looked at.
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

/// The driver's part of a system call, or of a call by the kernel, which has none.
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
    /// `raw` is what the core passes to a driver's operation.
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut bindings::ib_udata) -> Self {
        // INVARIANT: All callers of operations in the core pass null or the `driver_udata` of
        // their attribute bundle; `rdma_udata_to_uverbs_attr_bundle` relies on it as well.
        Self {
            raw,
            _p: PhantomData,
        }
    }

    /// Whether the call comes from user space.
    #[inline]
    pub fn is_user(&self) -> bool {
        !self.raw.is_null()
    }

    /// Bytes of input.
    #[inline]
    pub fn in_len(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { self.raw.as_ref() }.map_or(0, |u| u.inlen)
    }

    /// Bytes of room for output.
    #[inline]
    pub fn out_len(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { self.raw.as_ref() }.map_or(0, |u| u.outlen)
    }

    /// The user context of the caller; none in calls by the kernel and while a context is made.
    pub fn ucontext<P: Provider>(&self) -> Option<&UContext<P>> {
        if self.raw.is_null() {
            return None;
        }
        // CAST: by the type invariant; `driver_udata` is the first field.
        let bundle = self.raw.cast::<bindings::uverbs_attr_bundle>();
        // SAFETY: The bundle is valid, and either view of this anonymous union is the same.
        let context = unsafe { (*bundle).__bindgen_anon_1.hdr.context };
        // SAFETY: The core sets it once the context is complete, and destroys it only when no
        // system call that uses it runs. It is one of the device whose operation was called.
        unsafe { UContext::from_raw_opt(context) }
    }

    /// Reads the input. May sleep.
    ///
    /// # Errors
    ///
    /// As the module says, with all of `T` being the least; `EINVAL` in calls by the kernel.
    #[inline]
    pub fn read<T: FromBytes>(&mut self) -> Result<T> {
        self.read_at_least(size_of::<T>())
    }

    /// Reads the input, of which `least` bytes must be there, and the rest counts as zero.
    /// May sleep.
    pub fn read_at_least<T: FromBytes>(&mut self, least: usize) -> Result<T> {
        if self.raw.is_null() {
            return Err(EINVAL);
        }
        let mut value = T::new_zeroed();
        // SAFETY: The value is `size_of::<T>()` bytes, any of which are valid.
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

    /// Checks that there is no input, or only zeros. May sleep.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if there is other input.
    pub fn expect_no_input(&mut self) -> Result {
        if self.in_len() == 0 {
            return Ok(());
        }
        // SAFETY: Nothing is written for a size of 0.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(self.raw, core::ptr::null_mut(), 0, 0)
        })
    }

    /// Checks that there is room for a `T`, before work is done whose result could not be told.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is not, or in a call by the kernel.
    #[inline]
    pub fn expect_room<T>(&self) -> Result {
        if self.out_len() < size_of::<T>() {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Writes the output, as much as there is room for. Nothing happens in calls by the kernel.
    /// May sleep.
    pub fn respond<T: IntoBytes + Immutable>(&mut self, value: &T) -> Result {
        if self.raw.is_null() {
            return Ok(());
        }
        let bytes = value.as_bytes();
        // SAFETY: The bytes are initialised and there are as many.
        to_result(unsafe {
            bindings::_ib_respond_udata(self.raw, bytes.as_ptr().cast(), bytes.len())
        })
    }

    /// Writes the output, for which there must be room. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is not, or in a call by the kernel.
    pub fn respond_all<T: IntoBytes + Immutable>(&mut self, value: &T) -> Result {
        self.expect_room::<T>()?;
        self.respond(value)
    }

    /// Zeroes the room for output, for calls that have none to give. May sleep.
    pub fn respond_nothing(&mut self) -> Result {
        self.respond(&())
    }
}
