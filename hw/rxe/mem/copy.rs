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
use core::sync::atomic::{AtomicU64, Ordering};

/// What an atomic operation does.
pub use crate::proto::host::AtomicOp;

/// Copies a range out, filling `to` as far as the range goes. Returns how far.
///
/// # Safety
///
/// All pieces must be valid for reads for the duration of the call, and none may
/// overlap `to`.
pub unsafe fn read(pieces: Pieces<'_>, to: &mut [u8]) -> usize {
    let mut done = 0usize;
    for Piece { at, len } in pieces {
        let Some(part) = to.get_mut(done..).and_then(|rest| rest.get_mut(..len)) else {
            break;
        };
        // SAFETY: The caller vouches for the piece; `part` has `len` bytes.
        unsafe { core::ptr::copy_nonoverlapping(at.as_ptr(), part.as_mut_ptr(), len) };
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
