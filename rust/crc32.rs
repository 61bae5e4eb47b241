// SPDX-License-Identifier: GPL-2.0

//! The kernel's CRC-32, which uses the CPU's instructions for it where available.
//!
//! It is the reflected IEEE 802.3 polynomial without the final inversion: RoCE's invariant CRC
//! (IBTA, annex A17) starts with `!0` and inverts the result.
//!
//! C header: `include/linux/crc32.h`.

use crate::bindings;

/// Continues `crc` over `data`.
///
/// Context: any. Never sleeps.
///
/// # Examples
///
/// ```ignore
/// assert_eq!(!crc32_le(!0, b"123456789"), 0xcbf4_3926);
/// // In pieces:
/// assert_eq!(crc32_le(crc32_le(!0, b"1234"), b"56789"), crc32_le(!0, b"123456789"));
/// ```
#[inline]
pub fn crc32_le(crc: u32, data: &[u8]) -> u32 {
    // SAFETY: The slice is valid for reads of its length.
    unsafe { crc32_le_raw(crc, data.as_ptr(), data.len()) }
}

/// Continues `crc` over `len` bytes at `data`, which need not be a Rust object.
///
/// For memory that others may write concurrently (a page of a registered region). The result is
/// then the CRC of a mixture of old and new bytes.
///
/// Context: any. Never sleeps.
///
/// # Safety
///
/// `len` bytes at `data` must be mapped and readable during the call.
#[inline]
pub unsafe fn crc32_le_raw(crc: u32, data: *const u8, len: usize) -> u32 {
    // SAFETY: The caller guarantees that the bytes are readable (contract of this function).
    unsafe { bindings::rdma_helper_crc32_le(crc, data.cast(), len) }
}
