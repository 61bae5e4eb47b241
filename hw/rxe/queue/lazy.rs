// SPDX-License-Identifier: GPL-2.0

//! Storage whose entries are initialised on first use.
//!
//! The entries of a queue are used in order, so a vector with full capacity that grows one by one
//! suffices: creating a long queue does not write all of its entries.
//!
//! The memory is allocated, and charged to the user's memory cgroup, when the queue is created. It
//! is not allocated piecemeal, because entries are first used in softirq or by a worker, where
//! allocation may fail and no task could be charged, and one round of the ring uses all entries
//! anyway. Thus a lack of memory fails the verb and never a queue pair.

use core::ops::Deref;
use core::ops::DerefMut;
use kernel::prelude::*;
use rdma::accounted;

/// Storage for a fixed number of values, of which the first ones are initialised.
pub(crate) struct LazyVec<T> {
    made: KVVec<T>,
    room: usize,
}

impl<T: Copy> LazyVec<T> {
    /// Creates storage for `room` values, charged to the current task. May sleep.
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

    /// Returns the maximum number of values.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// Extends the storage to at least `count` values; new ones are set to `value`. `None` if that
    /// exceeds the room. Any context; does not allocate.
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
