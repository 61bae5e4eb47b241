// SPDX-License-Identifier: GPL-2.0

//! A queue of limited length whose memory is allocated at once.

use kernel::prelude::*;

/// The queue.
pub(crate) struct Ring<T> {
    slots: KVVec<Option<T>>,
    first: usize,
    used: usize,
}

impl<T> Ring<T> {
    /// A queue for `limit` entries. May sleep.
    pub(crate) fn new(limit: u32) -> Result<Self> {
        let limit = usize::try_from(limit)?;
        let mut slots = KVVec::with_capacity(limit, GFP_KERNEL)?;
        for _ in 0..limit {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            slots,
            first: 0,
            used: 0,
        })
    }

    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Brings an index that is at most one round too far back into the ring.
    fn wrap(&self, i: usize) -> usize {
        i.checked_sub(self.slots.len()).unwrap_or(i)
    }

    /// Adds an entry, or gives it back if there is no room.
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        if self.used == self.slots.len() {
            return Err(item);
        }
        // OVERFLOW: both are at most the number of slots, of which memory has room for few.
        let i = self.wrap(self.first.wrapping_add(self.used));
        match self.slots.get_mut(i) {
            Some(slot) => *slot = Some(item),
            None => return Err(item),
        }
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// Takes the oldest entry.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let item = self.slots.get_mut(self.first)?.take()?;
        self.first = self.wrap(self.first.wrapping_add(1));
        self.used = self.used.saturating_sub(1);
        Some(item)
    }

    /// The oldest entry.
    pub(crate) fn peek(&self) -> Option<&T> {
        self.slots.get(self.first)?.as_ref()
    }

    /// Drops the entries that `keep` does not want to keep.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for _ in 0..self.used {
            let Some(item) = self.pop() else { return };
            if keep(&item) {
                // There is room where it came from.
                let _ = self.push(item);
            }
        }
    }
}
