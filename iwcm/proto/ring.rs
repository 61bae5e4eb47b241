// SPDX-License-Identifier: GPL-2.0

//! Positions of waiting events in storage that is allocated in advance. The caller keeps the
//! storage.

/// A ring of `capacity` positions.
///
/// # Invariants
///
/// `len <= capacity`; `head < capacity`, or both are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    capacity: usize,
    head: usize,
    len: usize,
}

impl Ring {
    /// Creates an empty ring.
    pub const fn new(capacity: usize) -> Self {
        Self {
            capacity,
            head: 0,
            len: 0,
        }
    }

    /// Returns whether no event waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the position for one more event; `None` if the ring is full.
    pub fn push(&mut self) -> Option<usize> {
        if self.len >= self.capacity {
            return None;
        }
        let tail = self.wrapped(self.len);
        // INVARIANT: Below the capacity until now.
        self.len = self.len.saturating_add(1);
        Some(tail)
    }

    /// Returns the position of the oldest event, which leaves the ring.
    pub fn pop(&mut self) -> Option<usize> {
        self.len = self.len.checked_sub(1)?;
        let head = self.head;
        self.head = self.wrapped(1);
        Some(head)
    }

    /// Position `by` behind the head; `by` is at most the capacity.
    fn wrapped(&self, by: usize) -> usize {
        let left = self.capacity.saturating_sub(self.head);
        match by.checked_sub(left) {
            Some(from_start) => from_start,
            None => self.head.saturating_add(by),
        }
    }
}
