// SPDX-License-Identifier: GPL-2.0

//! Memory of programs: addresses that they pass, and copies from and to it.
//!
//! Every function checks the address. All of them may sleep.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::Within;

/// A structure that is copied from and to programs.
///
/// # Safety
///
/// Any bytes are a valid value.
pub(crate) unsafe trait Plain: Sized {
    /// A value of zeros.
    fn zeroed() -> Self {
        // SAFETY: Any bytes are a valid value (contract of the trait).
        unsafe { core::mem::zeroed() }
    }
}

macro_rules! plain {
    ($($t:ty),* $(,)?) => { $(
        // SAFETY: Any bytes are a valid integer.
        unsafe impl Plain for $t {}
    )* };
}

plain!(u8, u16, u32, u64, i32, i64);
// SAFETY: An array has no padding, and any bytes are a valid `T`.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// An address that a program has passed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address(usize);

impl Address {
    /// The null pointer.
    pub(crate) const NULL: Self = Self(0);

    /// The address in a field of 64 bits.
    pub(crate) const fn new(address: u64) -> Self {
        // CAST: 64-bit kernels; on others the upper half is ignored, as in C (`u64_to_user_ptr`).
        Self(address as usize)
    }

    /// The address of a pointer that C has passed.
    pub(crate) fn of<T>(pointer: *const T) -> Self {
        Self(pointer.addr())
    }

    /// The address as a pointer, which is not to be dereferenced.
    pub(crate) fn raw<T>(self) -> *mut T {
        ptr::without_provenance_mut(self.0)
    }

    /// The address behind so many bytes.
    pub(crate) const fn after(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// Copies a structure.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn read<T: Plain>(self) -> Result<T> {
        let mut value = MaybeUninit::<T>::uninit();
        // SAFETY: The value has so many bytes, all of which are written, and any are valid
        // (`Plain`). The function checks the address.
        unsafe {
            let failed =
                bindings::copy_from_user(value.as_mut_ptr().cast(), self.raw(), size_of::<T>());
            (failed == 0).then(|| value.assume_init()).ok_or(EFAULT)
        }
    }

    /// Copies a structure of `len` bytes at the program. Bytes that are missing are zero.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: there are more bytes than this kernel knows, which are not all zero; `EFAULT`.
    pub(crate) fn read_struct<T: Plain>(self, len: usize) -> Result<T> {
        let mut value = T::zeroed();
        // SAFETY: The value has so many bytes, and any are valid (`Plain`). The function checks the
        // address.
        let result = to_result(unsafe {
            bindings::rdma_helper_copy_struct_from_user(
                ptr::from_mut(&mut value).cast(),
                size_of::<T>(),
                self.raw(),
                len,
            )
        });
        match result {
            Ok(()) => Ok(value),
            Err(error) if error == E2BIG => Err(super::unsupported()),
            Err(error) => Err(error),
        }
    }

    /// Fills a slice.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn read_slice<T: Plain>(self, to: &mut [T]) -> Result {
        // SAFETY: The slice is writable, and any bytes are valid (`Plain`). The function checks the
        // address.
        let failed = unsafe {
            bindings::copy_from_user(to.as_mut_ptr().cast(), self.raw(), size_of_val(to))
        };
        (failed == 0).then_some(()).ok_or(EFAULT)
    }

    /// Copies the first `len` bytes of a structure, at most all, to the program.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn write<T: Plain>(self, value: &T, len: usize) -> Result {
        let len = len.min(size_of::<T>());
        // SAFETY: So many bytes are readable. The function checks the address.
        let failed =
            unsafe { bindings::copy_to_user(self.raw(), ptr::from_ref(value).cast(), len) };
        (failed == 0).then_some(()).ok_or(EFAULT)
    }

    /// Zeroes `len` bytes.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn clear(self, len: usize) -> Result {
        if len == 0 {
            return Ok(());
        }
        // SAFETY: The function checks that the address is one of the program.
        let failed = unsafe { bindings::rdma_helper_clear_user(self.raw(), len) };
        (failed == 0).then_some(()).ok_or(EFAULT)
    }

    /// Whether `len` bytes are all zero; bytes that cannot be read are not.
    pub(crate) fn is_cleared(self, len: usize) -> bool {
        // SAFETY: The function checks that the address is one of the program.
        unsafe { bindings::rdma_helper_buffer_cleared(self.raw(), len) }
    }

    /// Whether `len` bytes are within what programs may address.
    pub(crate) fn is_accessible(self, len: usize) -> bool {
        // SAFETY: The function does not access the memory.
        unsafe { bindings::rdma_helper_access_ok(self.raw(), len) }
    }

    /// Reads a few words.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    #[inline]
    pub(crate) fn words<const N: usize>(self) -> Result<[u64; N]> {
        let mut words = [0; N];
        let count = const {
            assert!(N <= 16);
            // CAST: Checked above.
            N as u32
        };
        // SAFETY: So many words are writable. The function checks the address.
        let done =
            unsafe { bindings::rdma_helper_get_words(words.as_mut_ptr(), self.raw(), count) };
        done.then_some(words).ok_or(EFAULT)
    }

    /// Writes a number of 32 bits.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    #[inline]
    pub(crate) fn put_u32(self, value: u32) -> Result {
        // SAFETY: The function checks that the address is one of the program.
        let failed = unsafe { bindings::rdma_helper_put_user_u32(value, self.raw()) };
        (failed == 0).then_some(()).ok_or(EFAULT)
    }

    /// Reads a number.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn get_u64(self) -> Result<u64> {
        let mut value = 0;
        // SAFETY: The function checks that the address is one of the program.
        to_result(unsafe { bindings::rdma_helper_get_user_u64(&mut value, self.raw()) })?;
        Ok(value)
    }

    /// Writes a number.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub(crate) fn put_u64(self, value: u64) -> Result {
        // SAFETY: The function checks that the address is one of the program.
        to_result(unsafe { bindings::rdma_helper_put_user_u64(value, self.raw()) })
    }
}

// SAFETY: Any value is valid: it is not dereferenced.
unsafe impl FromC for Address {
    type C = *const c_void;

    unsafe fn from_c(c: Self::C) -> Self {
        Self::of(c)
    }
}
// SAFETY: It is a number, and borrows nothing.
unsafe impl Within<'_> for Address {}

impl IntoC<*const c_void> for Address {
    fn into_c(self) -> *const c_void {
        self.raw::<c_void>().cast_const()
    }
}

impl From<Passed<c_void>> for Address {
    fn from(pointer: Passed<c_void>) -> Self {
        Self::of(pointer.as_ptr())
    }
}
