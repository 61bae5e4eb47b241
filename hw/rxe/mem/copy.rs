// SPDX-License-Identifier: GPL-2.0

//! Bytes in and out of registered memory.
//!
//! That memory belongs to users, who read and write it while we do; a device would
//! not ask them either. So it is only ever touched through raw pointers, by plain
//! copies whose result may be any mixture, and by real atomics where the standard
//! wants them (IBTA 9.4.5; annex A19). No reference to it is ever made.
//!
//! Pure: no kernel imports; tested on the host.

use super::map::{Piece, Pieces};
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

/// What an atomic operation does.
pub use crate::proto::host::AtomicOp;

/// Bytes to be written, which may be somebody's registered memory: so there is no way
/// to read them, and no reference to them.
///
/// # Invariants
///
/// `len` bytes at `at` are valid for writes for `'a`.
#[derive(Debug)]
pub struct Room<'a> {
    at: NonNull<u8>,
    len: usize,
    _borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> Room<'a> {
    /// The room that a slice is.
    pub fn of(slice: &'a mut [u8]) -> Self {
        // INVARIANT: A slice is valid for writes while it is borrowed.
        Self {
            len: slice.len(),
            at: NonNull::from(slice).cast(),
            _borrowed: PhantomData,
        }
    }

    /// The room that a piece is.
    ///
    /// # Safety
    ///
    /// The piece must be valid for writes for `'a`.
    pub unsafe fn of_piece(Piece { at, len }: Piece) -> Self {
        // INVARIANT: The caller's promise.
        Self {
            at,
            len,
            _borrowed: PhantomData,
        }
    }

    /// How many bytes.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The first `len` bytes, and the rest; `None` if there are not so many.
    pub fn split_at(self, len: usize) -> Option<(Self, Self)> {
        let rest = self.len.checked_sub(len)?;
        // SAFETY: Inside the range, or one behind it.
        let behind = unsafe { self.at.add(len) };
        let part = |at, len| Self {
            // INVARIANT: Both parts are of the range.
            at,
            len,
            _borrowed: PhantomData,
        };
        Some((part(self.at, len), part(behind, rest)))
    }

    /// Fills it with as many bytes of `from`, which must have so many: else `None`.
    #[must_use]
    pub fn fill(self, from: &[u8]) -> Option<()> {
        let from = from.get(..self.len)?;
        // SAFETY: `self` is valid for writes of `len` bytes, `from` for reads.
        unsafe { copy(from.as_ptr(), self.at.as_ptr(), self.len) };
        Some(())
    }
}

/// Copies bytes between places of which one may be a part of the other: a user may
/// send from a buffer into itself.
///
/// # Safety
///
/// `from` must be valid for reads and `to` for writes of `len` bytes.
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if from.addr().abs_diff(to.addr()) >= len {
        // SAFETY: The caller's promise, and they do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
    } else {
        // SAFETY: The caller's promise.
        unsafe { core::ptr::copy(from, to, len) };
    }
}

/// Copies a range out, filling `to` as far as the range goes. Returns how far.
///
/// # Safety
///
/// All pieces must be valid for reads for the duration of the call.
pub unsafe fn read(pieces: Pieces<'_>, to: Room<'_>) -> usize {
    let mut rest = to;
    let mut done = 0usize;
    for Piece { at, len } in pieces {
        let Some((part, behind)) = rest.split_at(len) else {
            break;
        };
        // SAFETY: The caller vouches for the piece; `part` is valid for writes of
        // `len` bytes.
        unsafe { copy(at.as_ptr(), part.at.as_ptr(), len) };
        rest = behind;
        done = done.saturating_add(len);
    }
    done
}

/// Copies `from` into a range as far as the range goes. Returns how far.
///
/// # Safety
///
/// All pieces must be valid for writes for the duration of the call, and none may
/// overlap `from`.
pub unsafe fn write(pieces: Pieces<'_>, from: &[u8]) -> usize {
    let mut done = 0usize;
    for Piece { at, len } in pieces {
        let Some(part) = from.get(done..).and_then(|rest| rest.get(..len)) else {
            break;
        };
        // SAFETY: The caller vouches for the piece; `part` has `len` bytes.
        unsafe { core::ptr::copy_nonoverlapping(part.as_ptr(), at.as_ptr(), len) };
        done = done.saturating_add(len);
    }
    done
}

/// Carries out an atomic operation, atomic also to the machine's CPUs, and returns
/// what was there before. `None` if the range is not eight aligned bytes.
///
/// # Safety
///
/// All pieces must be valid for reads and writes for the duration of the call.
pub unsafe fn atomic(pieces: Pieces<'_>, op: AtomicOp) -> Option<u64> {
    let word = word(pieces)?;
    // SAFETY: Aligned by `word`; valid by the caller's promise. Others may access it
    // by other means at the same time: users who mix those get what they asked for,
    // as they would from a device.
    let cell = unsafe { AtomicU64::from_ptr(word) };
    Some(match op {
        AtomicOp::CompareSwap { compare, swap } => {
            match cell.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(old) | Err(old) => old,
            }
        }
        AtomicOp::FetchAdd { add } => cell.fetch_add(add, Ordering::SeqCst),
    })
}

/// Stores eight bytes at once, after all that was written before (IBTA A19.4.2).
/// `None` if the range is not eight aligned bytes.
///
/// # Safety
///
/// All pieces must be valid for writes for the duration of the call.
pub unsafe fn atomic_write(pieces: Pieces<'_>, value: [u8; 8]) -> Option<()> {
    let word = word(pieces)?;
    // SAFETY: As in `atomic`.
    let cell = unsafe { AtomicU64::from_ptr(word) };
    cell.store(u64::from_ne_bytes(value), Ordering::Release);
    Some(())
}

/// The one aligned word that a range is.
fn word(mut pieces: Pieces<'_>) -> Option<*mut u64> {
    let Piece { at, len } = pieces.next()?;
    let word = at.as_ptr().cast::<u64>();
    let is_word = len == 8 && word.is_aligned() && pieces.next().is_none();
    is_word.then_some(word)
}
