// SPDX-License-Identifier: GPL-2.0

//! `rdma::anchor`: a model of a table that gives its numbers out in turn, whose nodes are
//! counted.

use rdma_core_engines::anchor::Anchor;
use rdma_core_engines::anchor::Freed;
use rdma_core_engines::rng::Rng;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// Numbers in a node.
const NODE: u32 = 64;

/// A table as the users of an anchor have it: true is an object, false a number that is kept.
#[derive(Default)]
struct Table {
    taken: BTreeMap<u32, bool>,
    anchor: Anchor,
    next: u32,
    /// How often a node had to be made.
    made: usize,
}

impl Table {
    fn nodes(&self) -> BTreeSet<u32> {
        self.taken.keys().map(|id| id / NODE).collect()
    }

    fn put(&mut self, id: u32) {
        self.made += usize::from(!self.nodes().contains(&(id / NODE)));
        assert_eq!(self.taken.insert(id, true), None, "nobody has it");
        self.anchor.given(id);
    }

    /// The next in turn of so many.
    fn give(&mut self, of: u32) -> Option<u32> {
        loop {
            let (from, taken) = (self.next, &self.taken);
            let mut all = (from..of).chain(0..from);
            if let Some(id) = all.find(|id| !taken.contains_key(id)) {
                self.next = (id + 1) % of;
                self.put(id);
                return Some(id);
            }
            let kept = self.anchor.give_up()?;
            assert_eq!(self.taken.remove(&kept), Some(false));
        }
    }

    fn give_this(&mut self, id: u32) -> bool {
        if self.taken.contains_key(&id) {
            let Some(kept) = self.anchor.give_up_if(id) else {
                return false;
            };
            assert_eq!(self.taken.remove(&kept), Some(false));
        }
        self.put(id);
        true
    }

    fn free(&mut self, id: u32) {
        match self.anchor.freed(id) {
            Freed::Erase => assert_eq!(self.taken.remove(&id), Some(true)),
            Freed::KeepFor(other) => {
                if let Some(other) = other {
                    assert_eq!(self.taken.remove(&other), Some(false));
                }
                assert_eq!(self.taken.insert(id, false), Some(true));
            }
        }
        let kept = self.taken.values().filter(|&&used| !used).count();
        assert!(kept <= 1, "{kept} numbers are kept");
    }
}

#[test]
fn reallocation_needs_a_node_every_64_ids() {
    let mut table = Table::default();
    for _ in 0..6400 {
        let id = table.give(1 << 24).unwrap();
        table.free(id);
    }
    assert_eq!(table.made, 100);
    assert_eq!(table.nodes().len(), 1);
}

#[test]
fn a_kept_id_can_be_allocated() {
    let mut table = Table::default();
    for round in 0..10 {
        // All of a small range, and no more.
        let ids: Vec<_> = std::iter::from_fn(|| table.give(3)).collect();
        assert_eq!(ids.len(), 3, "round {round}");
        // By name, whichever was kept.
        ids.iter().for_each(|&id| table.free(id));
        assert!(ids.iter().all(|&id| table.give_this(id)));
        assert!(!table.give_this(0));
        ids.iter().for_each(|&id| table.free(id));
    }
}

#[test]
fn at_most_one_id_is_kept_and_it_is_unused() {
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let (mut table, mut live) = (Table::default(), Vec::new());
        for _ in 0..2000 {
            match rng.below(5) {
                0 | 1 => live.extend(table.give(300)),
                2 => {
                    let id = rng.below(300) as u32;
                    let is_free = !live.contains(&id);
                    assert_eq!(table.give_this(id), is_free);
                    live.extend(is_free.then_some(id));
                }
                _ if live.is_empty() => {}
                _ => {
                    let id = live.swap_remove(rng.below(live.len()));
                    table.free(id);
                }
            }
            let used = table.taken.values().filter(|&&used| used).count();
            assert_eq!(used, live.len());
        }
        live.into_iter().for_each(|id| table.free(id));
        assert!(table.taken.len() <= 1);
        if let Some(kept) = table.anchor.give_up() {
            assert_eq!(table.taken.remove(&kept), Some(false));
        }
        assert!(table.taken.is_empty());
    }
}
