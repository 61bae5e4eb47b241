// SPDX-License-Identifier: GPL-2.0

//! Where messages are written to.

/// Bytes that grow at their end.
#[allow(clippy::len_without_is_empty, reason = "nobody asks")]
pub trait Sink {
    /// How many there are.
    fn len(&self) -> usize;
    /// So many zeros more, to be written. None if there is no room; then nothing changed.
    fn grow(&mut self, len: usize) -> Option<&mut [u8]>;
    /// Leaves only the first `len` of them.
    fn cut(&mut self, len: usize);
    /// All of them.
    fn written_mut(&mut self) -> &mut [u8];
}

/// A slice that is filled from its beginning.
#[derive(Debug)]
pub struct Slice<'b> {
    buf: &'b mut [u8],
    len: usize,
}

impl<'b> Slice<'b> {
    /// Nothing of it is filled.
    pub fn new(buf: &'b mut [u8]) -> Self {
        Self { buf, len: 0 }
    }

    /// What is filled.
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
