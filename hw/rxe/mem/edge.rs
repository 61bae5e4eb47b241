// SPDX-License-Identifier: GPL-2.0

//! Copies to and from registered memory.
//!
//! Users may read and write this memory concurrently, as with a hardware device. It is therefore
//! accessed only through raw pointers: by plain copies, whose result may be any mixture of old and
//! new bytes, and by atomic operations where the specification requires them (IBTA 9.4.5; annex
//! A19). No references to it are created, so no slice overlaps it.
//!
//! Pure: no kernel imports; tested on the host.

use super::map::{Piece, Pieces};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

/// Kind of an atomic operation.
pub use crate::proto::host::AtomicOp;

/// Space to be written, which may be registered memory: it offers neither reads nor references.
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
    /// Converts a slice.
    pub fn of(slice: &'a mut [u8]) -> Self {
        // INVARIANT: A slice is valid for writes while it is borrowed.
        Self {
            len: slice.len(),
            at: NonNull::from(slice).cast(),
            _borrowed: PhantomData,
        }
    }

    /// Calls `fill` to write all of an uninitialised slice, and returns it; `None` if it wrote only
    /// a part.
    ///
    /// # Errors
    ///
    /// Those of `fill`.
    #[inline]
    pub fn initialise<E>(
        slice: &'a mut [MaybeUninit<u8>],
        fill: impl for<'f> FnOnce(Room<'f>) -> Result<Filled<'f>, E>,
    ) -> Result<Option<&'a mut [u8]>, E> {
        let (at, len) = (NonNull::from(&mut *slice).cast(), slice.len());
        // INVARIANT: A slice is valid for writes while it is borrowed.
        let filled = fill(Room {
            at,
            len,
            _borrowed: PhantomData,
        })?;
        let whole = filled.at == at && filled.len == len;
        // SAFETY: All bytes of the slice have been written (invariant of `Filled`), and it is mutably
        // borrowed; the types differ only in that.
        Ok(whole.then(|| unsafe { &mut *(core::ptr::from_mut(slice) as *mut [u8]) }))
    }

    /// Returns the empty range at its start, to which written ranges are added.
    #[inline]
    pub fn nothing(&self) -> Filled<'a> {
        // INVARIANT: No bytes.
        Filled {
            at: self.at,
            len: 0,
            _borrowed: PhantomData,
        }
    }

    /// Returns the length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Splits off the first `len` bytes; `None` if there are fewer.
    pub fn split_at(self, len: usize) -> Option<(Self, Self)> {
        let rest = self.len.checked_sub(len)?;
        // SAFETY: `len <= self.len`, so the result is inside the range or one past its end.
        let behind = unsafe { self.at.add(len) };
        let part = |at, len| Self {
            // INVARIANT: Both parts lie inside the range.
            at,
            len,
            _borrowed: PhantomData,
        };
        Some((part(self.at, len), part(behind, rest)))
    }

    /// Fills it with the first bytes of `from`; `None` if `from` is shorter.
    #[must_use]
    pub fn fill(self, from: &[u8]) -> Option<Filled<'a>> {
        Part::of(from.get(..self.len)?).read(self)
    }
}

/// The bytes of a [`Room`] that were written, from its first one on. It offers no access to them:
/// they may be memory that a user changes.
///
/// # Invariants
///
/// `len` bytes at `at` were rooms for `'a`, and have been written since.
#[derive(Debug)]
#[must_use = "it may be less than the room"]
pub struct Filled<'a> {
    at: NonNull<u8>,
    len: usize,
    _borrowed: PhantomData<&'a mut [u8]>,
}

impl Filled<'_> {
    /// Adds the bytes that follow; `None` if `behind` begins elsewhere.
    #[inline]
    pub fn and(self, behind: Self) -> Option<Self> {
        let end = self.at.addr().get().checked_add(self.len)?;
        let len = self.len.checked_add(behind.len)?;
        // INVARIANT: Two adjacent ranges, both written.
        (behind.at.addr().get() == end).then_some(Self { len, ..self })
    }
}

/// A contiguous piece of registered memory, or bytes to be copied into it.
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
    /// Wraps a piece of memory.
    ///
    /// # Safety
    ///
    /// The piece must be valid for reads for `'a`, and for writes if it is `writable`.
    #[inline]
    pub unsafe fn new(Piece { at, len }: Piece, writable: bool) -> Self {
        // INVARIANT: Guaranteed by the caller (`# Safety`).
        Self {
            at,
            len,
            writable,
            _region: PhantomData,
        }
    }

    /// Wraps read-only bytes.
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

    /// Returns `len` bytes of it, from offset `at` on; `None` if there are fewer.
    #[inline]
    #[must_use]
    pub fn slice(&self, at: usize, len: usize) -> Option<Self> {
        if len > self.len.checked_sub(at)? {
            return None;
        }
        // INVARIANT: The bytes are a part of those of `self`.
        Some(Self {
            // SAFETY: `at <= self.len`, so the result is inside the piece or one past its end.
            at: unsafe { self.at.add(at) },
            len,
            writable: self.writable,
            _region: PhantomData,
        })
    }

    /// Returns address and length.
    #[inline]
    pub fn range(&self) -> (NonNull<u8>, usize) {
        (self.at, self.len)
    }

    /// Copies it into `to`; `None` if the lengths differ. The two may overlap: a user may send from
    /// a buffer into itself.
    #[inline]
    #[must_use]
    pub fn read<'r>(self, to: Room<'r>) -> Option<Filled<'r>> {
        let len = self.len;
        if to.len != len {
            return None;
        }
        let at = to.at;
        let (from, to) = (self.at.as_ptr().cast_const(), to.at.as_ptr());
        // SAFETY: By the type invariants, `from` is valid for reads and `to` for writes of `len`
        // bytes. The distance checked in the first case excludes an overlap.
        unsafe {
            if from.addr().abs_diff(to.addr()) >= len {
                core::ptr::copy_nonoverlapping(from, to, len);
            } else {
                core::ptr::copy(from, to, len);
            }
        }
        // INVARIANT: They have just been written.
        Some(Filled {
            at,
            len,
            _borrowed: PhantomData,
        })
    }

    /// Copies `from` into it; `None` if the lengths differ or it is not writable.
    #[inline]
    #[must_use]
    pub fn write(self, from: &[u8]) -> Option<()> {
        if from.len() != self.len {
            return None;
        }
        self.room()?.fill(from).map(drop)
    }

    /// Converts it to a room; `None` if it is not writable.
    #[inline]
    pub fn room(self) -> Option<Room<'a>> {
        // INVARIANT: The part is valid for writes, as `writable` is set (invariant of `Part`).
        self.writable.then_some(Room {
            at: self.at,
            len: self.len,
            _borrowed: PhantomData,
        })
    }

    /// Returns it as an atomic; `None` unless it is an aligned writable word.
    fn word(self) -> Option<&'a AtomicU64> {
        let word = self.at.as_ptr().cast::<u64>();
        if self.len != 8 || !word.is_aligned() || !self.writable {
            return None;
        }
        // SAFETY: Aligned, as checked, and valid by the type invariants. Users may access it
        // non-atomically at the same time, with unspecified results, as with a hardware device.
        Some(unsafe { AtomicU64::from_ptr(word) })
    }
}

/// Registered memory as a sequence of parts.
///
/// # Invariants
///
/// All pieces are valid for reads for `'a`, and for writes if `writable`.
pub struct Reach<'a> {
    pieces: Pieces<'a>,
    writable: bool,
}

impl<'a> Reach<'a> {
    /// Wraps pieces of memory.
    ///
    /// # Safety
    ///
    /// They must be valid for reads for `'a`, and for writes if they are `writable`.
    pub unsafe fn new(pieces: Pieces<'a>, writable: bool) -> Self {
        // INVARIANT: Guaranteed by the caller (`# Safety`).
        Self { pieces, writable }
    }

    /// Fills `to`; `None` unless the lengths are equal. Some of it may have been written then.
    #[must_use]
    pub fn read<'r>(self, to: Room<'r>) -> Option<Filled<'r>> {
        let len = to.len;
        let mut filled = to.nothing();
        let mut rest = to;
        for part in self {
            let (room, behind) = rest.split_at(part.len)?;
            filled = filled.and(part.read(room)?)?;
            rest = behind;
        }
        (filled.len == len).then_some(filled)
    }

    /// Returns its parts as rooms, or none if it is not writable.
    #[inline]
    pub fn rooms(self) -> impl Iterator<Item = Room<'a>> {
        self.filter_map(Part::room)
    }

    /// Copies `from` into it as far as possible. Returns the number of bytes copied.
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

    /// Executes an atomic operation, which is atomic with respect to the CPUs too, and returns the
    /// previous value. `None` unless this is one aligned writable word of eight bytes.
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

    /// Stores eight bytes atomically, ordered after all earlier writes (IBTA A19.4.2). `None`
    /// unless this is one aligned writable word of eight bytes.
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
        // INVARIANT: Holds for all pieces of `self`.
        Some(Part {
            at,
            len,
            writable: self.writable,
            _region: PhantomData,
        })
    }
}
