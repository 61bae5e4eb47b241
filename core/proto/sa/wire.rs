// SPDX-License-Identifier: GPL-2.0

//! Layouts of records.
//!
//! A record names its fields once, in the order in which they lie ([`Record::walk`]), to a
//! cursor that either writes them or reads them. So what is packed is what is unpacked.
//! Fields are most significant bit first, and need not begin at a byte.

use super::super::gid::Gid;

/// An unsigned number of a record.
pub trait Number: Copy {
    /// As 64 bits.
    fn widen(self) -> u64;
    /// Its lower bits.
    fn narrow(value: u64) -> Self;
}

macro_rules! numbers {
    ($($t:ty),*) => { $(
        impl Number for $t {
            fn widen(self) -> u64 {
                self.into()
            }
            // CAST: What a field has no room for is lost; that is what `narrow` is for.
            fn narrow(value: u64) -> Self {
                value as Self
            }
        }
    )* };
}
numbers!(u8, u16, u32, u64);

/// Goes over a record's bits, from the first one on. Beyond the end of the bytes, nothing is
/// written, and zeros are read.
pub trait Cursor {
    /// The next `bits`, 64 at most: writes the lower ones of `value`, or returns what is there.
    fn bits(&mut self, bits: u32, value: u64) -> u64;

    /// A number of so many bits.
    fn number<N: Number>(&mut self, bits: u32, field: &mut N) {
        *field = N::narrow(self.bits(bits, field.widen()));
    }

    /// Whole bytes.
    fn bytes(&mut self, field: &mut [u8]);

    /// A GID.
    fn gid(&mut self, field: &mut Gid) {
        self.bytes(&mut field.0);
    }

    /// Bits that are reserved: zeros are written, whatever is there is passed over.
    fn reserved(&mut self, bits: u32) {
        self.bits(bits, 0);
    }
}

/// A record that lies in a datagram.
pub trait Record: Copy + Default {
    /// Its bytes there.
    const LEN: usize;

    /// Names its fields in their order.
    fn walk(&mut self, at: &mut impl Cursor);

    /// Writes it at the beginning of `bytes`. Numbers lose the bits that their fields lack.
    fn pack(mut self, bytes: &mut [u8]) {
        self.walk(&mut Pack { bytes, at: 0 });
    }

    /// Reads it from the beginning of `bytes`.
    fn unpack(bytes: &[u8]) -> Self {
        let mut record = Self::default();
        record.read(bytes);
        record
    }

    /// As [`unpack`](Self::unpack), into a record that knows what form it has.
    fn read(&mut self, bytes: &[u8]) {
        self.walk(&mut Unpack { bytes, at: 0 });
    }
}

/// Writes.
struct Pack<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

/// Reads.
struct Unpack<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The part of a field that lies in one byte.
struct Part {
    /// Which byte.
    byte: usize,
    /// How far its lowest bit is from that of the byte; below 8.
    up: u32,
    /// How far its lowest bit is from that of the field; below 64.
    down: u32,
    /// Its bits in the byte.
    mask: u8,
}

/// Goes over the bytes that the next `bits` are in, and moves `at` behind them.
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

/// The bytes from `at` on, if it is at the first bit of one and there are `len`; then `at` is
/// moved behind them.
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
    #[inline]
    fn bits(&mut self, bits: u32, value: u64) -> u64 {
        let Self { bytes, at } = self;
        let number = value.to_be_bytes();
        // CAST, OVERFLOW: 8 at most, which is the length of `number`.
        let used = (bits.min(64) / 8) as usize;
        if let Some(from) = number.get(number.len() - used..).filter(|_| bits % 8 == 0) {
            let range = whole(at, used, bytes.len());
            if let Some(to) = range.and_then(|range| bytes.get_mut(range)) {
                to.copy_from_slice(from);
                return value;
            }
        }
        parts(at, bits, |part| {
            if let Some(byte) = bytes.get_mut(part.byte) {
                // CAST: the mask says what is meant. OVERFLOW: see `Part`.
                let new = (value.wrapping_shr(part.down) as u8).wrapping_shl(part.up);
                *byte = *byte & !part.mask | new & part.mask;
            }
        });
        value
    }

    fn bytes(&mut self, field: &mut [u8]) {
        let range = whole(&mut self.at, field.len(), self.bytes.len());
        match range.and_then(|range| self.bytes.get_mut(range)) {
            Some(to) => to.copy_from_slice(field),
            None => field.iter_mut().for_each(|byte| self.number(8, byte)),
        }
    }
}

impl Cursor for Unpack<'_> {
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

/// Cuts bytes that come in parts of any length into records of `N`.
#[derive(Clone, Copy, Debug)]
pub struct Parts<const N: usize> {
    record: [u8; N],
    filled: usize,
}

impl<const N: usize> Parts<N> {
    /// Nothing has come.
    pub const fn new() -> Self {
        Self {
            record: [0; N],
            filled: 0,
        }
    }

    /// A byte has come; the record, if it was its last.
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
