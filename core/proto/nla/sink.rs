// SPDX-License-Identifier: GPL-2.0

//! Buffers that messages are written to.

/// A byte buffer that grows at its end.
#[allow(clippy::len_without_is_empty, reason = "nobody asks")]
pub trait Sink {
    /// Number of bytes written.
    fn len(&self) -> usize;
    /// Appends `len` zeroed bytes and returns them. If there is no room, changes nothing and
    /// returns `None`.
    fn grow(&mut self, len: usize) -> Option<&mut [u8]>;
    /// Truncates the buffer to its first `len` bytes.
    fn cut(&mut self, len: usize);
    /// All bytes written.
    fn written_mut(&mut self) -> &mut [u8];
}

/// A slice that is filled from its start.
#[derive(Debug)]
pub struct Slice<'b> {
    buf: &'b mut [u8],
    len: usize,
}

impl<'b> Slice<'b> {
    /// An empty buffer over this slice.
    pub fn new(buf: &'b mut [u8]) -> Self {
        Self { buf, len: 0 }
    }

    /// The bytes written so far.
    pub fn written(&self) -> &[u8] {
        self.buf.get(..self.len).unwrap_or_default()
    }
}

impl Sink for Slice<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn grow(&mut self, len: usize) -> Option<&mut [u8]> {
        let end = self.len.checked_add(len)?;
        let room = self.buf.get_mut(self.len..end)?;
        room.fill(0);
        self.len = end;
        Some(room)
    }

    fn cut(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    fn written_mut(&mut self) -> &mut [u8] {
        self.buf.get_mut(..self.len).unwrap_or_default()
    }
}
