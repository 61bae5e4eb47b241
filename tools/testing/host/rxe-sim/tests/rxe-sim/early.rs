// SPDX-License-Identifier: GPL-2.0

//! The store of early packets against a sorted list.

use rxe_sim::proto::early::Place;
use rxe_sim::proto::*;
use rxe_sim::rng::Rng;
use rxe_sim::wire::Psn;

#[test]
fn it_is_a_sorted_list() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let room = 1 + rng.below(20) as usize;
        let start = Psn::new(0x00ff_ffff - rng.below(40));
        let places: Vec<Place<u32>> = (0..room).map(|_| None).collect();
        let mut early = Early::new(places);
        let mut model: Vec<u32> = Vec::new();
        for step in 0..200 {
            if rng.one_in(3) {
                let first = (!model.is_empty()).then(|| model.remove(0));
                assert_eq!(early.first(), first.map(|at| start + at), "seed {seed}");
                assert_eq!(early.pop(), first.map(|at| (start + at, at)));
            } else {
                // What was taken does not come again, but the rest may.
                let at = step / 2 + rng.below(30);
                let fits = model.len() < room && !model.contains(&at);
                let done = early.insert(start + at, at);
                assert_eq!(done, if fits { Ok(()) } else { Err(at) }, "seed {seed}");
                if fits {
                    model.push(at);
                    model.sort_unstable();
                }
            }
            assert_eq!((early.len(), early.room()), (model.len(), room));
            assert_eq!(early.is_empty(), model.is_empty());
        }
    }
}

#[test]
fn without_storage_it_keeps_nothing() {
    let places: Vec<Place<u32>> = Vec::new();
    let mut early = Early::new(places);
    assert_eq!(early.insert(Psn::new(1), 7), Err(7));
    assert_eq!(early.first(), None);
    assert_eq!(early.pop(), None);
}
