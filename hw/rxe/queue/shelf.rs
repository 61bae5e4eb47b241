// SPDX-License-Identifier: GPL-2.0

//! A small cache of items of known size, bounded by number and by total size.
//!
//! To add an item to a full cache, the caller first removes the oldest. An item larger than the
//! whole cache is never kept.
//!
//! Pure: no kernel imports; tested on the host.

/// Maximum number of items: the rings of six queue pairs and some completion queues.
pub const PLACES: usize = 16;
/// Maximum total size of the items in bytes.
pub const BYTES: usize = 256 << 10;

struct Place<T> {
    len: usize,
    item: T,
}

/// A cache of items, ordered by age.
///
/// # Invariants
///
/// Occupied places precede empty ones, oldest first. `bytes` is the sum of the items' lengths, at
/// most [`BYTES`].
pub struct Shelf<T> {
    places: [Option<Place<T>>; PLACES],
    bytes: usize,
}

impl<T> Shelf<T> {
    /// Creates an empty shelf.
    pub const fn new() -> Self {
        Self {
            places: [const { None }; PLACES],
            bytes: 0,
        }
    }

    /// Removes the oldest item if `len` more bytes do not fit. Call it until it returns `None`, as
    /// it does at once for an item that can never fit.
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
    /// Returns the item if there is no room.
    pub fn put(&mut self, len: usize, item: T) -> Result<(), T> {
        if !self.fits(len) {
            return Err(item);
        }
        match self.places.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(Place { len, item }),
            None => return Err(item),
        }
        // OVERFLOW: at most `BYTES`, as checked by `fits`.
        self.bytes = self.bytes.saturating_add(len);
        Ok(())
    }

    /// Removes and returns the newest item that has exactly `len` bytes and is `usable`.
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
        // INVARIANT: the empty place moves behind the occupied ones.
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
