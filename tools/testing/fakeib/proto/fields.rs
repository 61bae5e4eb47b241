// SPDX-License-Identifier: GPL-2.0

//! Numbers in records of bytes, big-endian, as on the wire.
//!
//! Offsets are constants of the callers. One that is outside reads as zero and writes
//! nothing: there is nothing here that could panic.

/// Reading and writing of fields.
pub trait Fields {
    /// `N` bytes at an offset.
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N];
    /// Writes bytes at an offset.
    fn put(&mut self, at: usize, bytes: &[u8]);

    /// One byte.
    fn u8(&self, at: usize) -> u8 {
        u8::from_be_bytes(self.bytes(at))
    }
    /// Two bytes.
    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.bytes(at))
    }
    /// Four bytes.
    fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes(at))
    }
    /// Eight bytes.
    fn u64(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes(at))
    }
    /// Writes one byte.
    fn put_u8(&mut self, at: usize, v: u8) {
        self.put(at, &[v]);
    }
    /// Writes two bytes.
    fn put_u16(&mut self, at: usize, v: u16) {
        self.put(at, &v.to_be_bytes());
    }
    /// Writes four bytes.
    fn put_u32(&mut self, at: usize, v: u32) {
        self.put(at, &v.to_be_bytes());
    }
    /// Writes eight bytes.
    fn put_u64(&mut self, at: usize, v: u64) {
        self.put(at, &v.to_be_bytes());
    }
}

impl Fields for [u8] {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let rest = self.get(at..).unwrap_or(&[]);
        rest.first_chunk().copied().unwrap_or([0; N])
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(room) = self.get_mut(at..).and_then(|r| r.get_mut(..bytes.len())) {
            room.copy_from_slice(bytes);
        }
    }
}

/// The high and the low half of a byte, which many fields are.
pub const fn halves(byte: u8) -> (u8, u8) {
    (byte >> 4, byte & 0xf)
}

/// The byte of two halves.
pub const fn byte_of(high: u8, low: u8) -> u8 {
    high << 4 | low & 0xf
}
