// SPDX-License-Identifier: GPL-2.0

//! `security`: places of queue pairs, and the promise that nobody keeps a right that was
//! taken away, whatever happens in which order.

use rdma_core_engines::proto::qp::Attrs;
use rdma_core_engines::proto::security::admit;
use rdma_core_engines::proto::security::lost;
use rdma_core_engines::proto::security::Change;
use rdma_core_engines::proto::security::Numbers;
use rdma_core_engines::proto::security::Partition;
use rdma_core_engines::proto::security::Place;
use rdma_core_engines::proto::security::Places;
use rdma_core_engines::proto::security::Standing;
use rdma_core_engines::proto::security::Walk;
use rdma_core_engines::rng::Rng;
use std::collections::BTreeMap;

const fn place(port: u32, index: u16) -> Place {
    Place { port, index }
}

fn change(mask: Attrs, at: Place, alternate: Place) -> Option<Change> {
    Change::new(mask, at.port, at.index, alternate)
}

fn list(places: Places) -> Vec<Place> {
    places.iter().collect()
}

#[test]
fn attributes_that_are_places() {
    let (at, alternate) = (place(1, 2), place(3, 4));
    assert_eq!(change(Attrs(0), at, alternate), None);
    let others = !(Attrs::PORT.0 | Attrs::PKEY_INDEX.0 | Attrs::ALT_PATH.0);
    assert_eq!(change(Attrs(others), at, alternate), None);
    let all = change(Attrs(u32::MAX), at, alternate).unwrap();
    assert_eq!(all.port, Some(1));
    assert_eq!(all.index, Some(2));
    assert_eq!(all.alternate, Some(alternate));
    let one = change(Attrs::PKEY_INDEX, at, alternate).unwrap();
    assert_eq!((one.port, one.index, one.alternate), (None, Some(2), None));
}

#[test]
fn places_follow_changes() {
    let none = place(9, 9);
    let both = Attrs(Attrs::PORT.0 | Attrs::PKEY_INDEX.0);
    let go = |from: Places, mask, at, alternate| {
        from.after(change(mask, at, alternate).expect("a change of places"))
    };
    let start = Places::default();
    // Half a place is none, also if the other half comes later.
    let half = go(start, Attrs::PORT, place(1, 0), none);
    assert_eq!(list(half), []);
    assert_eq!(list(go(half, Attrs::PKEY_INDEX, place(1, 5), none)), []);
    let main = go(start, both, place(1, 5), none);
    assert_eq!(list(main), [place(1, 5)]);
    assert_eq!(
        list(go(main, Attrs::PORT, place(2, 7), none)),
        [place(2, 5)]
    );
    assert_eq!(
        list(go(main, Attrs::PKEY_INDEX, place(2, 7), none)),
        [place(1, 7)]
    );
    let two = go(main, Attrs::ALT_PATH, none, place(2, 8));
    assert_eq!(list(two), [place(1, 5), place(2, 8)]);
    assert_eq!(
        list(go(two, both, place(1, 6), none)),
        [place(1, 6), place(2, 8)]
    );
    assert_eq!(
        list(go(two, Attrs::ALT_PATH, none, place(1, 1))),
        [place(1, 5), place(1, 1)]
    );
    assert_eq!(
        list(go(start, Attrs::ALT_PATH, none, place(2, 8))),
        [place(2, 8)]
    );
}

#[test]
fn each_user_is_checked_for_its_partitions() {
    let all = Attrs(u32::MAX);
    let places = Places::default().after(change(all, place(1, 0), place(2, 1)).unwrap());
    let look = |at: Place| match at {
        Place { port: 1, index: 0 } => Ok(Partition {
            subnet_prefix: 10,
            pkey: 0x8001,
        }),
        Place { port: 2, index: 1 } => Ok(Partition {
            subnet_prefix: 20,
            pkey: 0x8002,
        }),
        _ => Err("nothing there"),
    };
    let mut asked = vec![];
    let yes = admit(&places, look, |p| {
        asked.push((p.subnet_prefix, p.pkey));
        Ok(())
    });
    assert_eq!((yes, asked), (Ok(()), vec![(10, 0x8001), (20, 0x8002)]));
    let refuse = |key| move |p: Partition| if p.pkey == key { Err("no") } else { Ok(()) };
    assert_eq!(admit(&places, look, refuse(0x8002)), Err("no"));
    assert_eq!(admit(&places, look, refuse(0x8003)), Ok(()));
    let nowhere = Places::default().after(change(all, place(1, 3), place(2, 1)).unwrap());
    assert_eq!(admit(&nowhere, look, |_| Ok(())), Err("nothing there"));
    // Only what is on the port counts, and a place without a key takes no right.
    assert!(lost(&places, 2, look, refuse(0x8002)));
    assert!(!lost(&places, 1, look, refuse(0x8002)));
    assert!(!lost(&places, 3, look, refuse(0x8002)));
    assert!(!lost(&nowhere, 1, look, |_| Err("no")));
}

/// A queue pair of the model.
#[derive(Default)]
struct Qp {
    standing: Standing,
    works: bool,
}

/// A walk on its way, as a worker does one.
struct Worker {
    walk: Walk,
    port: u32,
}

/// Ports with a table of one P_Key each, and a policy: what the kernel has, and in steps.
struct World {
    rng: Rng,
    keys: [u16; 2],
    denied: u16,
    numbers: Numbers,
    qps: BTreeMap<u64, Qp>,
    workers: Vec<Worker>,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            keys: [1, 2],
            denied: 0,
            numbers: Numbers::default(),
            qps: BTreeMap::new(),
            workers: vec![],
        }
    }

    fn below(&mut self, end: u32) -> u32 {
        self.rng.below(end as usize) as u32
    }

    fn some(&mut self) -> Option<u64> {
        let len = self.qps.len() as u32;
        (len > 0).then(|| {
            let at = self.below(len) as usize;
            *self.qps.keys().nth(at).unwrap()
        })
    }

    fn admits(&self, places: &Places) -> bool {
        admit(places, |at| look(&self.keys, at), |p| ask(self.denied, p)).is_ok()
    }

    /// One of the steps that the kernel takes under one lock.
    fn step(&mut self) {
        match self.below(8) {
            0 => {
                let number = self.numbers.take();
                self.qps.insert(number, Qp::default());
            }
            1 | 2 => {
                let Some(number) = self.some() else { return };
                let to = place(self.below(2), 0);
                let alternate = place(self.below(2), 0);
                let masks = [Attrs(u32::MAX), Attrs::PORT, Attrs::ALT_PATH];
                let mask = masks[self.below(3) as usize];
                let qp = &self.qps[&number];
                let places = qp
                    .standing
                    .places()
                    .after(change(mask, to, alternate).unwrap());
                if !qp.standing.is_leaving() && self.admits(&places) {
                    let qp = self.qps.get_mut(&number).unwrap();
                    qp.standing.moved(places);
                    qp.works = true;
                }
            }
            3 => {
                let Some(number) = self.some() else { return };
                let fate = self.below(3);
                let leaving = self.qps[&number].standing.is_leaving();
                if !leaving {
                    self.qps.get_mut(&number).unwrap().standing.leave();
                } else if fate == 0 {
                    self.qps.remove(&number);
                } else {
                    let good = self.admits(self.qps[&number].standing.places());
                    let qp = self.qps.get_mut(&number).unwrap();
                    qp.standing.stay();
                    qp.works &= good;
                }
            }
            4 => {
                // A table changes, and then its walk begins.
                let port = self.below(2);
                self.keys[port as usize] = self.below(4) as u16;
                self.workers.push(Worker {
                    walk: self.numbers.walk(),
                    port,
                });
            }
            5 => {
                self.denied = self.below(4) as u16;
                for port in 0..2 {
                    self.workers.push(Worker {
                        walk: self.numbers.walk(),
                        port,
                    });
                }
            }
            _ => self.work(),
        }
    }

    /// One worker goes one step on.
    fn work(&mut self) {
        let len = self.workers.len() as u32;
        if len == 0 {
            return;
        }
        let at = self.below(len) as usize;
        let worker = &mut self.workers[at];
        let found = self.qps.range_mut(worker.walk.next()..).next();
        let Some((_, qp)) = found.filter(|(number, _)| worker.walk.step(**number)) else {
            self.workers.remove(at);
            return;
        };
        if qp.standing.is_leaving() {
            return;
        }
        let places = qp.standing.places();
        if lost(
            places,
            worker.port,
            |at| look(&self.keys, at),
            |p| ask(self.denied, p),
        ) {
            qp.works = false;
        }
    }

    /// Nobody works who may not, once all walks have ended.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.workers.is_empty() {
                break;
            }
            self.work();
        }
        assert!(self.workers.is_empty(), "walks end");
        for qp in self.qps.values().filter(|qp| !qp.standing.is_leaving()) {
            assert!(!qp.works || self.admits(qp.standing.places()));
        }
    }
}

fn look(keys: &[u16; 2], at: Place) -> Result<Partition, ()> {
    let pkey = keys[at.port as usize];
    Ok(Partition {
        subnet_prefix: 0,
        pkey,
    })
}

fn ask(denied: u16, partition: Partition) -> Result<(), ()> {
    if partition.pkey == denied {
        Err(())
    } else {
        Ok(())
    }
}

#[test]
fn revoked_rights_are_lost_by_all_users() {
    let (mut stopped, mut working) = (0, 0);
    for seed in 0..2000 {
        let mut world = World::new(seed + 1);
        for _ in 0..4 {
            for _ in 0..60 {
                world.step();
            }
            world.settle();
            working += world.qps.values().filter(|qp| qp.works).count();
            stopped += world.qps.values().filter(|qp| !qp.works).count();
        }
    }
    // The model does both, or it shows nothing.
    assert!(working > 1000 && stopped > 1000, "{working} {stopped}");
}

#[test]
fn a_walk_ends_while_others_come() {
    let mut numbers = Numbers::default();
    let mut there: Vec<u64> = (0..3).map(|_| numbers.take()).collect();
    let mut walk = numbers.walk();
    let mut met = vec![];
    while let Some(number) = there.iter().copied().find(|n| *n >= walk.next()) {
        if !walk.step(number) {
            break;
        }
        met.push(number);
        there.push(numbers.take());
    }
    assert_eq!(met, [0, 1, 2]);
}

#[test]
fn leaving_can_be_undone() {
    let mut standing = Standing::default();
    assert!(!standing.is_leaving());
    standing.leave();
    assert!(standing.is_leaving());
    standing.stay();
    assert!(!standing.is_leaving());
    // Where it is does not depend on that.
    let all = Attrs(u32::MAX);
    let there = Places::default().after(change(all, place(1, 0), place(2, 1)).unwrap());
    standing.moved(there);
    assert_eq!(*standing.places(), there);
    assert_ne!(there, Places::default());
}
