// SPDX-License-Identifier: GPL-2.0

//! Storage whose entries are first written when they are first used.
//!
//! A queue's private entries are used in order, so a vector that was allocated for all of
//! them and grows one by one will do: whoever makes a long queue and posts little does
//! not pay for the rest.

use core::ops::Deref;
use core::ops::DerefMut;
use kernel::prelude::*;

/// Room for a fixed number of values, of which the first so many exist.
pub(crate) struct LazyVec<T> {
    made: KVVec<T>,
    room: usize,
}

impl<T: Copy> LazyVec<T> {
    /// Room for `room` values, none of which exists. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(room: usize) -> Result<Self> {
        Ok(Self {
            made: KVVec::with_capacity(room, GFP_KERNEL)?,
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
