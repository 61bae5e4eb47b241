// SPDX-License-Identifier: GPL-2.0

//! A small cache of items of known size, bounded by number and by total size.
//!
//! To add an item to a full cache, the caller first removes the oldest. An item larger than the
//! whole cache is never kept.
//!
//! Pure: no kernel imports; tested on the host.

/// How many things are kept: the rings of six queue pairs and some completion queues.
pub const PLACES: usize = 16;
/// How many bytes they have together.
pub const BYTES: usize = 256 << 10;

struct Place<T> {
    len: usize,
    item: T,
}

/// The shelf.
///
/// # Invariants
///
/// Places in use come before empty ones, the oldest first. `bytes` is what their lengths sum up
/// to, at most [`BYTES`].
pub struct Shelf<T> {
    places: [Option<Place<T>>; PLACES],
    bytes: usize,
}

impl<T> Shelf<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            places: [const { None }; PLACES],
            bytes: 0,
        }
    }

    /// Takes the oldest off if `len` bytes more do not fit; to be repeated until it answers
    /// `None`. So it does at once for what will never fit.
    pub fn make_room(&mut self, len: usize) -> Option<T> {
        if len > BYTES || self.fits(len) {
            return None;
        }
        self.remove(0)
    }

    /// Keeps `item`, of `len` bytes.
    ///
    /// # Errors
    ///
    /// Gives it back if there is no room.
    pub fn put(&mut self, len: usize, item: T) -> Result<(), T> {
        if !self.fits(len) {
            return Err(item);
        }
        match self.places.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(Place { len, item }),
            None => return Err(item),
        }
        // OVERFLOW: at most `BYTES`, as `fits` says.
        self.bytes = self.bytes.saturating_add(len);
        Ok(())
    }

    /// Takes the newest off that has exactly `len` bytes and is `usable`.
    pub fn take(&mut self, len: usize, mut usable: impl FnMut(&T) -> bool) -> Option<T> {
        let at = self.places.iter().rposition(|place| {
            place
                .as_ref()
                .is_some_and(|place| place.len == len && usable(&place.item))
        })?;
        self.remove(at)
    }

    fn fits(&self, len: usize) -> bool {
        let free = self.places.last().is_some_and(Option::is_none);
        free && len <= BYTES.saturating_sub(self.bytes)
    }

    fn remove(&mut self, at: usize) -> Option<T> {
        let rest = self.places.get_mut(at..)?;
        let Place { len, item } = rest.first_mut()?.take()?;
        // INVARIANT: the empty place goes behind those in use.
        rest.rotate_left(1);
        self.bytes = self.bytes.saturating_sub(len);
        Some(item)
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self::new()
    }
}
