// SPDX-License-Identifier: GPL-2.0

//! Layouts of records.
//!
//! A record passes its fields in order to a cursor ([`Record::walk`]), which either writes or reads
//! them. So packing and unpacking use the same layout. Fields have the most significant bit first,
//! and need not start at a byte boundary.

use super::super::gid::Gid;

/// An unsigned integer field of a record.
pub trait Number: Copy {
    /// The value as 64 bits.
    fn widen(self) -> u64;
    /// The value truncated to its lower bits.
    fn narrow(value: u64) -> Self;
}

macro_rules! numbers {
    ($($t:ty),*) => { $(
        impl Number for $t {
            fn widen(self) -> u64 {
                self.into()
            }
            // CAST: Truncation is the purpose of `narrow`.
            fn narrow(value: u64) -> Self {
                value as Self
            }
        }
    )* };
}
numbers!(u8, u16, u32, u64);

/// Traverses the bits of a record, from the first one on. Beyond the end of the buffer, writes are
/// ignored and reads return zeros.
pub trait Cursor {
    /// Processes the next `bits` bits, at most 64: writes the lower ones of `value`, or returns
    /// those read.
    fn bits(&mut self, bits: u32, value: u64) -> u64;

    /// An integer field of `bits` bits.
    fn number<N: Number>(&mut self, bits: u32, field: &mut N) {
        *field = N::narrow(self.bits(bits, field.widen()));
    }

    /// A field of whole bytes.
    fn bytes(&mut self, field: &mut [u8]);

    /// A GID field.
    fn gid(&mut self, field: &mut Gid) {
        self.bytes(&mut field.0);
    }

    /// Reserved bits: written as zeros, ignored when read.
    fn reserved(&mut self, bits: u32) {
        self.bits(bits, 0);
    }
}

/// A record with a layout on the wire.
pub trait Record: Copy + Default {
    /// Length in bytes.
    const LEN: usize;

    /// Passes the fields to the cursor, in order.
    fn walk(&mut self, at: &mut impl Cursor);

    /// Writes the record to the start of `bytes`. Values are truncated to the width of their
    /// fields.
    fn pack(mut self, bytes: &mut [u8]) {
        self.walk(&mut Pack { bytes, at: 0 });
    }

    /// Reads a record from the start of `bytes`.
    fn unpack(bytes: &[u8]) -> Self {
        let mut record = Self::default();
        record.read(bytes);
        record
    }

    /// Like [`unpack`](Self::unpack), but into a record whose format is already set.
    fn read(&mut self, bytes: &[u8]) {
        self.walk(&mut Unpack { bytes, at: 0 });
    }
}

/// Cursor that writes a record.
struct Pack<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

/// Cursor that reads a record.
struct Unpack<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Part of a field that lies in one byte.
struct Part {
    /// Index of the byte.
    byte: usize,
    /// Distance of its lowest bit from that of the byte; below 8.
    up: u32,
    /// Distance of its lowest bit from that of the field; below 64.
    down: u32,
    /// Mask of its bits in the byte.
    mask: u8,
}

/// Calls `each` for each byte that the next `bits` bits are in, and advances `at`.
// Inlined with its callers that pack, so that the widths of fields are constants.
#[inline(always)]
fn parts(at: &mut usize, bits: u32, mut each: impl FnMut(Part)) {
    let mut left = bits.min(64);
    while left != 0 {
        // CAST, OVERFLOW: below 8.
        let free = 8 - (*at % 8) as u32;
        let bits = left.min(free);
        // OVERFLOW: `bits` is 1 to 8 and at most `left` and `free`.
        let up = free - bits;
        left -= bits;
        each(Part {
            byte: *at / 8,
            up,
            down: left,
            // OVERFLOW: `8 - bits` and `up` are below 8, by the above.
            mask: 0xff_u8.wrapping_shr(8 - bits).wrapping_shl(up),
        });
        *at = at.saturating_add(bits as usize);
    }
}

/// Returns the range of the next `len` bytes, and advances `at`; `None` if `at` is not at a byte
/// boundary or there are fewer bytes.
#[inline(always)]
fn whole(at: &mut usize, len: usize, end: usize) -> Option<core::ops::Range<usize>> {
    let first = *at / 8;
    let range = first..first.checked_add(len)?;
    if *at % 8 != 0 || range.end > end {
        return None;
    }
    *at = range.end.checked_mul(8)?;
    Some(range)
}

impl Cursor for Pack<'_> {
    #[inline(always)]
    fn bits(&mut self, bits: u32, value: u64) -> u64 {
        let Self { bytes, at } = self;
        let number = value.to_be_bytes();
        // CAST, OVERFLOW: at most 8, the length of `number`.
        let used = (bits.min(64) / 8) as usize;
        if let Some(from) = number.get(number.len() - used..).filter(|_| bits % 8 == 0) {
            let range = whole(at, used, bytes.len());
            if let Some(to) = range.and_then(|range| bytes.get_mut(range)) {
                to.copy_from_slice(from);
                return value;
            }
        }
        pack_parts(bytes, at, bits, value);
        value
    }

    #[inline(always)]
    fn bytes(&mut self, field: &mut [u8]) {
        let range = whole(&mut self.at, field.len(), self.bytes.len());
        match range.and_then(|range| self.bytes.get_mut(range)) {
            Some(to) => to.copy_from_slice(field),
            None => field.iter_mut().for_each(|byte| self.number(8, byte)),
        }
    }
}

/// Packs a field that is not whole bytes at a whole byte.
// Not inline: it has a caller for each such field of each record.
#[inline(never)]
fn pack_parts(bytes: &mut [u8], at: &mut usize, bits: u32, value: u64) {
    parts(at, bits, |part| {
        if let Some(byte) = bytes.get_mut(part.byte) {
            // CAST: bits outside the mask are discarded. OVERFLOW: see `Part`.
            let new = (value.wrapping_shr(part.down) as u8).wrapping_shl(part.up);
            *byte = *byte & !part.mask | new & part.mask;
        }
    });
}

impl Cursor for Unpack<'_> {
    // Not inline: it has a caller for each field of each record.
    #[inline(never)]
    fn bits(&mut self, bits: u32, _: u64) -> u64 {
        let mut value = 0;
        let Self { bytes, at } = self;
        parts(at, bits, |part| {
            let byte = bytes.get(part.byte).copied().unwrap_or(0);
            // OVERFLOW: see `Part`.
            let bits = (byte & part.mask).wrapping_shr(part.up);
            value |= u64::from(bits).wrapping_shl(part.down);
        });
        value
    }

    fn bytes(&mut self, field: &mut [u8]) {
        let range = whole(&mut self.at, field.len(), self.bytes.len());
        match range.and_then(|range| self.bytes.get(range)) {
            Some(from) => field.copy_from_slice(from),
            None => field.iter_mut().for_each(|byte| self.number(8, byte)),
        }
    }
}

/// Splits a byte stream into records of `N` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Parts<const N: usize> {
    record: [u8; N],
    filled: usize,
}

impl<const N: usize> Parts<N> {
    /// No bytes received yet.
    pub const fn new() -> Self {
        Self {
            record: [0; N],
            filled: 0,
        }
    }

    /// Adds a byte. Returns the record when its last byte was added.
    pub fn add(&mut self, byte: u8) -> Option<&[u8; N]> {
        *self.record.get_mut(self.filled)? = byte;
        self.filled = self.filled.saturating_add(1);
        if self.filled < N {
            return None;
        }
        self.filled = 0;
        Some(&self.record)
    }
}

impl<const N: usize> Default for Parts<N> {
    fn default() -> Self {
        Self::new()
    }
}
