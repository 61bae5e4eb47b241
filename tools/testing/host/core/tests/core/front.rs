// SPDX-License-Identifier: GPL-2.0

//! `rdma::front`: a model of a table that looks there first.

use rdma_core_engines::front::Front;
use rdma_core_engines::rng::Rng;
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// A number, by which the table says whose an object is.
type Object = u32;

/// A table as the user of a front has it. Objects that were taken out stay allocated, as for
/// readers that have them, and must not be found.
#[derive(Default)]
struct Table<const N: usize> {
    all: BTreeMap<u32, NonNull<Object>>,
    gone: Vec<NonNull<Object>>,
    front: Front<Object, N>,
}

impl<const N: usize> Table<N> {
    fn add(&mut self, id: u32) {
        let object = NonNull::from(Box::leak(Box::new(id)));
        assert!(self.all.insert(id, object).is_none(), "nobody has it");
        self.front.put(id, object);
    }

    fn remove(&mut self, id: u32) {
        let object = self.all.remove(&id).unwrap();
        self.front.take(id, object);
        self.gone.push(object);
    }

    /// Whether `id` is found without looking further.
    fn is_in_front(&self, id: u32) -> bool {
        let Some(object) = self.front.look(id) else {
            return false;
        };
        // SAFETY: Nothing is freed before the end.
        let number = unsafe { *object.as_ref() };
        assert_eq!(self.all.get(&number), Some(&object), "{number} is gone");
        number == id
    }
}

impl<const N: usize> Drop for Table<N> {
    fn drop(&mut self) {
        for object in self.all.values().chain(&self.gone) {
            // SAFETY: Each came from a box, and is in one of the two lists.
            drop(unsafe { Box::from_raw(object.as_ptr()) });
        }
    }
}

#[test]
fn all_ids_fit_if_there_are_enough_slots() {
    for first in [0, 1, 6, 7, u32::MAX - 7] {
        let mut table = Table::<8>::default();
        (first..=first + 7).for_each(|id| table.add(id));
        assert!((first..=first + 7).all(|id| table.is_in_front(id)));
    }
}

#[test]
fn short_lived_ids_do_not_evict_others() {
    let mut table = Table::<8>::default();
    [3, 4].into_iter().for_each(|id| table.add(id));
    for id in 5..500 {
        table.add(id);
        assert_eq!(table.is_in_front(id), !matches!(id % 8, 3 | 4));
        table.remove(id);
        assert!(!table.is_in_front(id));
        assert!(table.is_in_front(3) && table.is_in_front(4));
    }
}

#[test]
fn a_front_without_slots_finds_nothing() {
    let mut table = Table::<0>::default();
    table.add(0);
    table.add(u32::MAX);
    assert!(!table.is_in_front(0) && !table.is_in_front(u32::MAX));
    table.remove(0);
}

#[test]
fn found_ids_are_in_the_table() {
    // Miri is a thousand times slower, and looks at each access.
    let (seeds, steps) = if cfg!(miri) { (2, 100) } else { (50, 2000) };
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let mut table = Table::<16>::default();
        let mut found = 0;
        for _ in 0..steps {
            let id = rng.below(40) as u32;
            match table.all.contains_key(&id) {
                true => table.remove(id),
                false => table.add(id),
            }
            found += (0..40).filter(|&id| table.is_in_front(id)).count();
        }
        assert!(found > steps * 8, "half of the places are in use: {found}");
    }
}
