// SPDX-License-Identifier: GPL-2.0

//! Handles, the last put the first taken.
//!
//! They lie in a chain of chunks, any of which may be partly filled, so that two chains are
//! joined without moving handles, and memory that was got beforehand is given to a chain
//! under a spinlock.

use kernel::prelude::*;

/// Handles of a chunk: with the rest it fills half a kilobyte.
const SIZE: usize = 124;

/// Part of a [`Stack`].
pub(super) struct Chunk {
    next: Option<KBox<Chunk>>,
    len: usize,
    handles: [u32; SIZE],
}

impl Chunk {
    /// An empty one. May sleep.
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

    /// The handles in it.
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
    /// Chunks with nothing in them.
    empty: Option<KBox<Chunk>>,
    empty_count: usize,
}

impl Stack {
    /// How many handles there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many can be put without more memory.
    pub(super) fn room(&self) -> usize {
        let top = self
            .top
            .as_ref()
            .map_or(0, |chunk| SIZE.saturating_sub(chunk.len));
        self.empty_count.saturating_mul(SIZE).saturating_add(top)
    }

    /// Adds memory.
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

    /// Takes the memory over that `spare` has not used.
    pub(super) fn take_room(&mut self, spare: &mut Stack) {
        while let Some(chunk) = spare.shrink() {
            self.grow(chunk);
        }
    }

    /// Puts one; gives it back if there is no room.
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
        // `len` is an index of the chunk. The sum counts handles, of which each takes memory.
        top.len = len.saturating_add(1);
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    /// Takes the last. A chunk that becomes empty is freed.
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

    /// Takes the handles of the last chunk.
    pub(super) fn pop_chunk(&mut self) -> Option<KBox<Chunk>> {
        let mut chunk = self.top.take()?;
        self.top = chunk.next.take();
        self.len = self.len.saturating_sub(chunk.len);
        Some(chunk)
    }

    /// Puts all of another's on top.
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
        // One after the other: the chain may be longer than the kernel's stack is deep.
        while self.pop_chunk().is_some() {}
        while self.shrink().is_some() {}
    }
}
