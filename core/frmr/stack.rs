// SPDX-License-Identifier: GPL-2.0

//! A LIFO stack of handles.
//!
//! The handles are in a chain of chunks, any of which may be partly filled. So two stacks can be
//! joined without moving handles, and preallocated memory can be added under a spinlock.

use kernel::prelude::*;

/// Handles per chunk; a chunk has about 512 bytes.
const SIZE: usize = 124;

/// Part of a [`Stack`].
pub(super) struct Chunk {
    next: Option<KBox<Chunk>>,
    len: usize,
    handles: [u32; SIZE],
}

impl Chunk {
    /// Allocates an empty chunk. May sleep.
    pub(super) fn new() -> Result<KBox<Self>> {
        Ok(KBox::new(
            Self {
                next: None,
                len: 0,
                handles: [0; SIZE],
            },
            GFP_KERNEL,
        )?)
    }

    /// Handles in the chunk.
    pub(super) fn handles(&mut self) -> &mut [u32] {
        self.handles.get_mut(..self.len).unwrap_or(&mut [])
    }

    fn pop(&mut self) -> Option<u32> {
        let last = self.len.checked_sub(1)?;
        self.len = last;
        self.handles.get(last).copied()
    }
}

/// A chain of chunks.
#[derive(Default)]
pub(super) struct Stack {
    top: Option<KBox<Chunk>>,
    len: usize,
    /// Empty chunks.
    empty: Option<KBox<Chunk>>,
    empty_count: usize,
}

impl Stack {
    /// Number of handles.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of handles that can be pushed without allocating.
    pub(super) fn room(&self) -> usize {
        let top = self
            .top
            .as_ref()
            .map_or(0, |chunk| SIZE.saturating_sub(chunk.len));
        self.empty_count.saturating_mul(SIZE).saturating_add(top)
    }

    /// Adds an empty chunk.
    pub(super) fn grow(&mut self, mut chunk: KBox<Chunk>) {
        chunk.len = 0;
        chunk.next = self.empty.take();
        self.empty = Some(chunk);
        self.empty_count = self.empty_count.saturating_add(1);
    }

    fn shrink(&mut self) -> Option<KBox<Chunk>> {
        let mut chunk = self.empty.take()?;
        self.empty = chunk.next.take();
        self.empty_count = self.empty_count.saturating_sub(1);
        Some(chunk)
    }

    /// Takes over the empty chunks of `spare`.
    pub(super) fn take_room(&mut self, spare: &mut Stack) {
        while let Some(chunk) = spare.shrink() {
            self.grow(chunk);
        }
    }

    /// Pushes a handle; returns it as the error if there is no room.
    pub(super) fn push(&mut self, handle: u32) -> Result<(), u32> {
        if self.top.as_ref().is_none_or(|chunk| chunk.len >= SIZE) {
            let Some(mut chunk) = self.shrink() else {
                return Err(handle);
            };
            chunk.next = self.top.take();
            self.top = Some(chunk);
        }
        let Some(top) = &mut self.top else {
            return Err(handle);
        };
        let len = top.len;
        let Some(place) = top.handles.get_mut(len) else {
            return Err(handle);
        };
        *place = handle;
        // Neither saturates: `len` is an index in the chunk, and each handle counted by the sum
        // takes memory.
        top.len = len.saturating_add(1);
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Pops a handle. Empty chunks on top are freed.
    pub(super) fn pop(&mut self) -> Option<u32> {
        loop {
            let top = self.top.as_mut()?;
            if let Some(handle) = top.pop() {
                self.len = self.len.saturating_sub(1);
                return Some(handle);
            }
            self.top = self.top.take().and_then(|mut chunk| chunk.next.take());
        }
    }

    /// Pops the top chunk with its handles.
    pub(super) fn pop_chunk(&mut self) -> Option<KBox<Chunk>> {
        let mut chunk = self.top.take()?;
        self.top = chunk.next.take();
        self.len = self.len.saturating_sub(chunk.len);
        Some(chunk)
    }

    /// Pushes all handles of another stack.
    pub(super) fn append(&mut self, mut other: Stack) {
        while let Some(mut chunk) = other.pop_chunk() {
            self.len = self.len.saturating_add(chunk.len);
            chunk.next = self.top.take();
            self.top = Some(chunk);
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // Iterative: dropping a long chain recursively could overflow the kernel stack.
        while self.pop_chunk().is_some() {}
        while self.shrink().is_some() {}
    }
}
