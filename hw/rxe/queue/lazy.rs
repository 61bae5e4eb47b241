// SPDX-License-Identifier: GPL-2.0

//! Storage whose entries are first written when they are first used.
//!
//! The entries of a queue are used in order, so a vector of full capacity that grows one by
//! one will do: making a long queue does not write all of it.
//!
//! The memory itself is taken, and charged to the user's memory cgroup, when the queue is
//! made. It is not taken piece by piece later: an entry is first used in a softirq or by a
//! worker, where allocation may fail and no task is there to be charged, and after one lap
//! of the ring a queue has used all entries anyway. So whoever cannot have the memory learns
//! of it from the verb, and a queue pair never fails for want of it.

use core::ops::Deref;
use core::ops::DerefMut;
use kernel::prelude::*;
use rdma::accounted;

/// Room for a fixed number of values, of which the first so many exist.
pub(crate) struct LazyVec<T> {
    made: KVVec<T>,
    room: usize,
}

impl<T: Copy> LazyVec<T> {
    /// Room for `room` values, none of which exists, charged to the current task. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(room: usize) -> Result<Self> {
        Ok(Self {
            made: accounted::with_capacity(room)?,
            room,
        })
    }

    /// How many values there may be.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Sees to it that there are at least `count` values; those that are new are `value`.
    /// `None` if there is no room for so many. Any context; allocates nothing.
    #[inline]
    pub(crate) fn make(&mut self, count: usize, value: T) -> Option<()> {
        if count > self.room {
            return None;
        }
        while self.made.len() < count {
            self.made.push_within_capacity(value).ok()?;
        }
        Some(())
    }
}

impl<T> Deref for LazyVec<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.made
    }
}

impl<T> DerefMut for LazyVec<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.made
    }
}
