// SPDX-License-Identifier: GPL-2.0

//! A few places in front of a table, in which most numbers are found at once.
//!
//! To walk the tree of a table takes some 90 instructions, and each packet wants a device, a
//! queue pair and some regions. So an object is also put into the place that its number
//! has among `N`, if that is empty, and stays there as long as it is in the table. Numbers are
//! given out in turn, so that of up to `N` objects that were made together none lacks a place;
//! one that finds its place taken is only in the table. Who comes and goes all the time
//! therefore takes no place from who stays.
//!
//! A place holds a pointer and not the number: who looks has to compare the number of what is
//! there, under the protection by which the table keeps its objects alive for readers.
//!
//! Pure: no kernel imports; tested on the host, and model-checked there (`cfg(model)`).

use core::ptr::null_mut;
use core::ptr::NonNull;
#[cfg(not(model))]
use core::sync::atomic::{AtomicPtr, Ordering};
#[cfg(model)]
use loom::sync::atomic::{AtomicPtr, Ordering};

/// `N` places; a power of two, or zero for a table that nobody reads often. It takes `N`
/// pointers of memory.
///
/// Looking needs no lock. Whoever changes it holds that of the table.
pub struct Front<T, const N: usize> {
    places: [AtomicPtr<T>; N],
}

impl<T, const N: usize> Front<T, N> {
    /// With all places empty.
    #[cfg(not(model))]
    pub const fn new() -> Self {
        const { assert!(N == 0 || N.is_power_of_two()) };
        Self {
            places: [const { AtomicPtr::new(null_mut()) }; N],
        }
    }

    /// With all places empty (`loom` cannot make one in a constant).
    #[cfg(model)]
    pub fn new() -> Self {
        Self {
            places: core::array::from_fn(|_| AtomicPtr::new(null_mut())),
        }
    }

    #[inline]
    fn place(&self, id: u32) -> Option<&AtomicPtr<T>> {
        // CAST: widens, or keeps the width. With no place the mask does not matter.
        self.places.get(id as usize & N.wrapping_sub(1))
    }

    /// What has the place of `id`, if anything has: the object of that number or of another.
    /// All that was written to it before it was put there is seen. Any context.
    #[inline]
    pub fn look(&self, id: u32) -> Option<NonNull<T>> {
        NonNull::new(self.place(id)?.load(Ordering::Acquire))
    }

    /// Lets `object`, whose number is `id`, be found, if its place is empty. The lock is held.
    #[inline]
    pub fn put(&self, id: u32, object: NonNull<T>) {
        if let Some(place) = self.place(id) {
            if place.load(Ordering::Relaxed).is_null() {
                place.store(object.as_ptr(), Ordering::Release);
            }
        }
    }

    /// Has `object`, whose number is `id`, not be found any more; readers that found it before
    /// may still use it. The lock is held.
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
