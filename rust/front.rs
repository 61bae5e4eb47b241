// SPDX-License-Identifier: GPL-2.0

//! Front: a direct-mapped cache of an ID table.
//!
//! A walk of a table's tree takes some 90 instructions, and each packet looks up a device, a queue
//! pair and some regions. So each object is also stored in the slot that its ID selects among `N`,
//! if that slot is empty, and stays there as long as it is in the table. IDs are allocated
//! cyclically, so up to `N` objects that were created together all get a slot. An object that finds
//! its slot occupied is only in the table: short-lived objects do not evict long-lived ones.
//!
//! A slot holds a pointer and not the ID: the reader compares the ID of the object found, under the
//! protection by which the table keeps its objects alive for readers (RCU).
//!
//! Pure: no kernel imports; tested on the host, and model-checked there (`cfg(model)`).

use core::ptr::null_mut;
use core::ptr::NonNull;
#[cfg(not(model))]
use core::sync::atomic::{AtomicPtr, Ordering};
#[cfg(model)]
use loom::sync::atomic::{AtomicPtr, Ordering};

/// `N` slots of one pointer each. `N` is a power of two, or zero for tables that are rarely read.
///
/// Lookup needs no lock. Changes require the lock of the table.
pub struct Front<T, const N: usize> {
    places: [AtomicPtr<T>; N],
}

impl<T, const N: usize> Front<T, N> {
    /// Creates a front with all slots empty.
    #[cfg(not(model))]
    pub const fn new() -> Self {
        const { assert!(N == 0 || N.is_power_of_two()) };
        Self {
            places: [const { AtomicPtr::new(null_mut()) }; N],
        }
    }

    /// Creates a front with all slots empty (`loom` atomics cannot be created in a constant).
    #[cfg(model)]
    pub fn new() -> Self {
        Self {
            places: core::array::from_fn(|_| AtomicPtr::new(null_mut())),
        }
    }

    #[inline]
    fn place(&self, id: u32) -> Option<&AtomicPtr<T>> {
        // CAST: widens, or keeps the width. Without slots the mask does not matter.
        self.places.get(id as usize & N.wrapping_sub(1))
    }

    /// Returns the object in the slot of `id`, which may have another ID. Everything written to the
    /// object before [`put`](Self::put) is visible. Context: any.
    #[inline]
    pub fn look(&self, id: u32) -> Option<NonNull<T>> {
        NonNull::new(self.place(id)?.load(Ordering::Acquire))
    }

    /// Stores `object`, whose ID is `id`, if its slot is empty. The caller holds the table's lock.
    #[inline]
    pub fn put(&self, id: u32, object: NonNull<T>) {
        if let Some(place) = self.place(id) {
            if place.load(Ordering::Relaxed).is_null() {
                place.store(object.as_ptr(), Ordering::Release);
            }
        }
    }

    /// Removes `object`, whose ID is `id`, from its slot. Readers that found it before may still
    /// use it. The caller holds the table's lock.
    #[inline]
    pub fn take(&self, id: u32, object: NonNull<T>) {
        if let Some(place) = self.place(id) {
            if place.load(Ordering::Relaxed) == object.as_ptr() {
                place.store(null_mut(), Ordering::Relaxed);
            }
        }
    }
}

impl<T, const N: usize> Default for Front<T, N> {
    fn default() -> Self {
        Self::new()
    }
}
