// SPDX-License-Identifier: GPL-2.0

//! Bytes in and out of registered memory.
//!
//! That memory belongs to users, who read and write it while we do; a device would
//! not ask them either. So it is only ever touched through raw pointers, by plain
//! copies whose result may be any mixture, and by real atomics where the standard
//! wants them (IBTA 9.4.5; annex A19). No other reference to it is ever made, so no slice
//! is a part of it.
//!
//! Pure: no kernel imports; tested on the host.

use super::map::{Piece, Pieces};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
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

    /// The room that bytes are which nobody has written yet.
    pub fn of_unwritten(slice: &'a mut [MaybeUninit<u8>]) -> Self {
        // INVARIANT: A slice is valid for writes while it is borrowed.
        Self {
            len: slice.len(),
            at: NonNull::from(slice).cast(),
            _borrowed: PhantomData,
        }
    }

    /// How many bytes.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
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
        Part::of(from.get(..self.len)?).read(self)
    }
}

/// Registered memory in one piece, or bytes to be copied into some.
///
/// # Invariants
///
/// `len` bytes at `at` are valid for reads for `'a`, and for writes if `writable`.
#[derive(Debug)]
pub struct Part<'a> {
    at: NonNull<u8>,
    len: usize,
    writable: bool,
    _region: PhantomData<&'a ()>,
}

impl<'a> Part<'a> {
    /// The memory that a piece is.
    ///
    /// # Safety
    ///
    /// The piece must be valid for reads for `'a`, and for writes if it is `writable`.
    #[inline]
    pub unsafe fn new(Piece { at, len }: Piece, writable: bool) -> Self {
        // INVARIANT: The caller's promise.
        Self {
            at,
            len,
            writable,
            _region: PhantomData,
        }
    }

    /// Bytes that may be read only.
    #[inline]
    fn of(slice: &'a [u8]) -> Self {
        // INVARIANT: A slice is valid for reads while it is borrowed.
        Self {
            len: slice.len(),
            at: NonNull::from(slice).cast(),
            writable: false,
            _region: PhantomData,
        }
    }

    /// Where it is, and how long.
    #[inline]
    pub fn range(&self) -> (NonNull<u8>, usize) {
        (self.at, self.len)
    }

    /// Copies it into `to`, which is as long: else `None`. One may be a part of the other: a
    /// user may send from a buffer into itself.
    #[inline]
    #[must_use]
    pub fn read(self, to: Room<'_>) -> Option<()> {
        let len = self.len;
        if to.len != len {
            return None;
        }
        let (from, to) = (self.at.as_ptr().cast_const(), to.at.as_ptr());
        // SAFETY: By the invariants, `from` is valid for reads and `to` for writes of `len`
        // bytes. In the first case they do not overlap.
        unsafe {
            if from.addr().abs_diff(to.addr()) >= len {
                core::ptr::copy_nonoverlapping(from, to, len);
            } else {
                core::ptr::copy(from, to, len);
            }
        }
        Some(())
    }

    /// Copies `from` into it, which is as long: else, or if it is not writable, `None`.
    #[inline]
    #[must_use]
    pub fn write(self, from: &[u8]) -> Option<()> {
        if from.len() != self.len {
            return None;
        }
        self.room()?.fill(from)
    }

    /// The room that it is; `None` unless it is writable.
    #[inline]
    pub fn room(self) -> Option<Room<'a>> {
        // INVARIANT: It is valid for writes if it is writable.
        self.writable.then_some(Room {
            at: self.at,
            len: self.len,
            _borrowed: PhantomData,
        })
    }

    /// The aligned word that it is, if it is one and writable.
    fn word(self) -> Option<&'a AtomicU64> {
        let word = self.at.as_ptr().cast::<u64>();
        if self.len != 8 || !word.is_aligned() || !self.writable {
            return None;
        }
        // SAFETY: Aligned, valid by the invariants. Others may access it by other means at
        // the same time: users who mix those get what they asked for, as from a device.
        Some(unsafe { AtomicU64::from_ptr(word) })
    }
}

/// Registered memory, part after part.
///
/// # Invariants
///
/// All pieces are valid for reads for `'a`, and for writes if `writable`.
pub struct Reach<'a> {
    pieces: Pieces<'a>,
    writable: bool,
}

impl<'a> Reach<'a> {
    /// The memory that the pieces are.
    ///
    /// # Safety
    ///
    /// They must be valid for reads for `'a`, and for writes if they are `writable`.
    pub unsafe fn new(pieces: Pieces<'a>, writable: bool) -> Self {
        // INVARIANT: The caller's promise.
        Self { pieces, writable }
    }

    /// Fills `to` as far as it goes. Returns how far.
    pub fn read(self, to: Room<'_>) -> usize {
        let mut rest = to;
        let mut done = 0usize;
        for part in self {
            let len = part.len;
            let Some((room, behind)) = rest.split_at(len) else {
                break;
            };
            if part.read(room).is_none() {
                break;
            }
            rest = behind;
            done = done.saturating_add(len);
        }
        done
    }

    /// Copies `from` into it as far as it goes. Returns how far.
    pub fn write(self, from: &[u8]) -> usize {
        let mut rest = from;
        let mut done = 0usize;
        for part in self {
            let Some((some, behind)) = rest.split_at_checked(part.len) else {
                break;
            };
            if part.write(some).is_none() {
                break;
            }
            rest = behind;
            done = done.saturating_add(some.len());
        }
        done
    }

    /// Carries out an atomic operation, atomic also to the machine's CPUs, and returns
    /// what was there before. `None` if this is not eight aligned bytes to be written.
    #[must_use]
    pub fn atomic(self, op: AtomicOp) -> Option<u64> {
        let word = self.word()?;
        Some(match op {
            AtomicOp::CompareSwap { compare, swap } => {
                match word.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst) {
                    Ok(old) | Err(old) => old,
                }
            }
            AtomicOp::FetchAdd { add } => word.fetch_add(add, Ordering::SeqCst),
        })
    }

    /// Stores eight bytes at once, after all that was written before (IBTA A19.4.2).
    /// `None` if this is not eight aligned bytes to be written.
    #[must_use]
    pub fn atomic_write(self, value: [u8; 8]) -> Option<()> {
        self.word()?
            .store(u64::from_ne_bytes(value), Ordering::Release);
        Some(())
    }

    fn word(mut self) -> Option<&'a AtomicU64> {
        let part = self.next()?;
        match self.next() {
            None => part.word(),
            Some(_) => None,
        }
    }
}

impl<'a> Iterator for Reach<'a> {
    type Item = Part<'a>;

    #[inline]
    fn next(&mut self) -> Option<Part<'a>> {
        let Piece { at, len } = self.pieces.next()?;
        // INVARIANT: As all its pieces.
        Some(Part {
            at,
            len,
            writable: self.writable,
            _region: PhantomData,
        })
    }
}
