// SPDX-License-Identifier: GPL-2.0

//! The shelf of memory that is used again: its bounds, its order, and that nothing is lost.

use crate::common::{rounds, Rng};
use rxe_mem::queue::shelf::{Shelf, BYTES, PLACES};

const PAGE: usize = 4096;

#[test]
fn the_newest_of_that_size_comes_back() {
    let mut shelf = Shelf::new();
    for (len, item) in [(PAGE, 'a'), (2 * PAGE, 'b'), (PAGE, 'c')] {
        assert_eq!(shelf.make_room(len), None);
        assert_eq!(shelf.put(len, item), Ok(()));
    }
    assert_eq!(shelf.take(3 * PAGE, |_| true), None);
    assert_eq!(shelf.take(PAGE, |_| true), Some('c'));
    assert_eq!(shelf.take(PAGE, |_| true), Some('a'));
    assert_eq!(shelf.take(PAGE, |_| true), None);
    assert_eq!(shelf.take(2 * PAGE, |_| true), Some('b'));
}

#[test]
fn entries_in_use_are_skipped_and_kept() {
    let mut shelf = Shelf::new();
    for item in ['a', 'b', 'c'] {
        shelf.put(PAGE, item).unwrap();
    }
    assert_eq!(shelf.take(PAGE, |&item| item == 'a'), Some('a'));
    assert_eq!(shelf.take(PAGE, |_| false), None);
    assert_eq!(shelf.take(PAGE, |_| true), Some('c'));
    assert_eq!(shelf.take(PAGE, |_| true), Some('b'));
}

#[test]
fn the_oldest_goes_when_places_or_bytes_are_used_up() {
    let mut shelf = Shelf::new();
    for item in 0..PLACES {
        assert_eq!(shelf.make_room(PAGE), None);
        shelf.put(PAGE, item).unwrap();
    }
    assert_eq!(shelf.put(PAGE, 99), Err(99));
    assert_eq!(shelf.make_room(PAGE), Some(0));
    assert_eq!(shelf.make_room(PAGE), None);
    // Half of all bytes: as many go as it takes, and no more.
    let mut gone = 0;
    while shelf.make_room(BYTES - 10 * PAGE).is_some() {
        gone += 1;
    }
    assert_eq!(gone, PLACES - 1 - 10);
    shelf.put(BYTES - 10 * PAGE, 100).unwrap();
    assert_eq!(shelf.put(1, 101), Err(101));
}

#[test]
fn a_buffer_beyond_the_limit_evicts_nothing() {
    let mut shelf = Shelf::new();
    shelf.put(PAGE, 'a').unwrap();
    for len in [BYTES + 1, usize::MAX] {
        assert_eq!(shelf.make_room(len), None);
        assert_eq!(shelf.put(len, 'b'), Err('b'));
    }
    while shelf.make_room(BYTES).is_some() {}
    assert_eq!(shelf.put(BYTES, 'c'), Ok(()));
}

/// Against a plain list: the same things come out, bounds hold after each step.
#[test]
fn it_is_a_list_with_bounds() {
    let mut rng = Rng(7);
    let mut shelf = Shelf::new();
    let mut list: Vec<(usize, u32)> = Vec::new();
    for item in 0..u32::try_from(rounds(100_000)).unwrap() {
        let len = PAGE * usize::try_from(1 + rng.below(24)).unwrap();
        if rng.below(2) == 0 {
            while let Some(oldest) = shelf.make_room(len) {
                assert_eq!(list.remove(0).1, oldest);
            }
            shelf.put(len, item).unwrap();
            list.push((len, item));
        } else {
            let odd = rng.u32() % 2;
            let wanted = |item: u32| item % 2 == odd;
            let at = list.iter().rposition(|&(l, item)| l == len && wanted(item));
            let expected = at.map(|at| list.remove(at).1);
            assert_eq!(shelf.take(len, |&item| wanted(item)), expected);
        }
        let bytes = list.iter().map(|&(len, _)| len).sum::<usize>();
        assert!(list.len() <= PLACES && bytes <= BYTES);
    }
}
