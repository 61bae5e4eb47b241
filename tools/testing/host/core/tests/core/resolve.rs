// SPDX-License-Identifier: GPL-2.0

//! `resolve`: random histories of requests, with a work queue around them.

use rdma_core_engines::proto::resolve::table::Entry;
use rdma_core_engines::proto::resolve::table::Heads;
use rdma_core_engines::proto::resolve::table::Neighbour;
use rdma_core_engines::proto::resolve::table::Slot;
use rdma_core_engines::proto::resolve::table::Table;
use rdma_core_engines::proto::resolve::Cancelled;
use rdma_core_engines::proto::resolve::Life;
use rdma_core_engines::proto::resolve::Next;
use rdma_core_engines::proto::resolve::Outcome;
use rdma_core_engines::proto::resolve::Turn;
use rdma_core_engines::proto::resolve::Verdict;
use rdma_core_engines::rng::Rng;

type Error = &'static str;

/// The task that runs the work; others are other tasks.
const WORKER: u64 = 7;
const OTHER: u64 = 8;

/// What is known of a request beside its life.
struct Seen {
    patience: u64,
    made: u64,
    /// When its work is queued for.
    queued: Option<u64>,
    /// When it was last tried; and news since that began.
    told: Vec<(u64, Verdict<Error, u32>)>,
    cancelled: Option<u64>,
    answered: bool,
    refused: bool,
}

/// How long a try takes, and when the neighbour is known.
struct World {
    now: u64,
    known_at: u64,
    fails_at: u64,
}

impl World {
    fn look(&self) -> Outcome<Error> {
        if self.now >= self.fails_at {
            Outcome::Failed("no route")
        } else if self.now >= self.known_at {
            Outcome::Found
        } else {
            Outcome::Asked
        }
    }
}

fn queue(seen: &mut Seen, at: u64) {
    // As mod_delayed_work.
    seen.queued = Some(at);
}

#[test]
fn histories() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let mut world = World {
            now: rng.below(50) as u64,
            known_at: rng.below(400) as u64,
            fails_at: if rng.one_in(4) {
                rng.below(400) as u64
            } else {
                u64::MAX
            },
        };
        let patience = rng.below(300) as u64;
        let mut seen = Seen {
            patience,
            made: world.now,
            queued: None,
            told: Vec::new(),
            cancelled: None,
            answered: false,
            refused: false,
        };
        let mut life: Life<u32> = Life::new(patience);
        // Cancelled while its asker tries: for good, whatever comes of that.
        let mut early = life;
        assert_eq!(early.cancel(OTHER), Cancelled::Starting);
        assert!(!early.wake());
        assert_eq!(early.answer(7), None);
        assert_eq!(early.turn(WORKER), Turn::Nothing);
        // The first try, with news or an answer in the middle.
        let outcome = world.look();
        let news = event(&mut rng, &mut world, &mut life, &mut seen);
        match life.started(outcome) {
            Ok(ms) => {
                if outcome == Outcome::Asked && !seen.answered && !news {
                    assert_eq!(ms, patience);
                } else {
                    assert_eq!(ms, 0, "seed {seed}");
                }
                queue(&mut seen, world.now + ms);
            }
            Err(_) => {
                assert!(matches!(outcome, Outcome::Failed(_)) && !seen.answered);
                assert_eq!(life.turn(WORKER), Turn::Nothing);
                seen.refused = true;
            }
        }
        run(&mut rng, &mut world, &mut life, &mut seen, seed);

        if seen.refused {
            assert!(seen.told.is_empty());
            continue;
        }
        match (seen.told.as_slice(), seen.cancelled) {
            // Told after it was cancelled: never.
            ([], Some(_)) => {}
            ([(when, verdict)], cancelled) => {
                assert!(cancelled.is_none_or(|at| at >= *when), "seed {seed}");
                let elapsed = when - seen.made;
                match verdict {
                    Verdict::TimedOut => assert!(elapsed >= patience, "seed {seed}"),
                    Verdict::Found(Some(_)) => assert!(seen.answered),
                    Verdict::Found(None) => assert!(!seen.answered || world.known_at <= *when),
                    Verdict::Failed(_) => assert!(elapsed < patience || patience == 0),
                }
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
}

/// What happens beside the worker: whether a neighbour became known.
fn event(rng: &mut Rng, world: &mut World, life: &mut Life<u32>, seen: &mut Seen) -> bool {
    match rng.below(6) {
        0 | 1 => {
            // This one, or another.
            if rng.one_in(2) {
                world.known_at = world.known_at.min(world.now);
            }
            if life.wake() {
                queue(seen, world.now);
            }
            true
        }
        2 if !seen.answered => {
            if let Some(at_once) = life.answer(42) {
                seen.answered = true;
                if at_once {
                    queue(seen, world.now);
                }
            }
            false
        }
        _ => false,
    }
}

fn cancel(life: &mut Life<u32>, seen: &mut Seen, now: u64, by: u64) {
    let what = life.cancel(by);
    seen.cancelled = Some(now);
    if what == Cancelled::Wait {
        // As cancel_delayed_work_sync.
        seen.queued = None;
    }
    assert_eq!(what == Cancelled::ByItself, by == WORKER);
    assert_ne!(what, Cancelled::Starting);
}

fn run(rng: &mut Rng, world: &mut World, life: &mut Life<u32>, seen: &mut Seen, seed: u64) {
    for _ in 0..10_000 {
        if rng.one_in(3) {
            event(rng, world, life, seen);
        }
        if rng.one_in(40) && seen.cancelled.is_none() {
            cancel(life, seen, world.now, OTHER);
        }
        let Some(at) = seen.queued else {
            // Whoever is not told, not refused and not cancelled is queued.
            let over = !seen.told.is_empty() || seen.refused || seen.cancelled.is_some();
            assert!(over, "seed {seed}: lost");
            return;
        };
        if at > world.now {
            world.now += 1 + rng.below((at - world.now) as usize) as u64;
            continue;
        }
        seen.queued = None;
        match life.turn(WORKER) {
            Turn::Nothing => {}
            Turn::Tell(answer) => tell(rng, world, life, seen, Verdict::Found(answer)),
            Turn::Try => {
                // No second worker, whatever it thinks.
                assert_eq!(life.turn(WORKER), Turn::Nothing);
                let outcome = world.look();
                world.now += rng.below(3) as u64;
                let news = event(rng, world, life, seen);
                if rng.one_in(30) && seen.cancelled.is_none() {
                    cancel(life, seen, world.now, OTHER);
                }
                match life.tried(outcome, world.now - seen.made, WORKER) {
                    Next::Nothing => assert!(seen.cancelled.is_some()),
                    Next::Tell(verdict) => tell(rng, world, life, seen, verdict),
                    Next::Wait(ms) => {
                        assert!(world.now - seen.made < seen.patience);
                        // News are not lost.
                        assert!(!news || ms == 0, "seed {seed}");
                        queue(seen, world.now + ms);
                    }
                }
            }
        }
    }
    panic!("seed {seed}: never ends");
}

fn tell(
    rng: &mut Rng,
    world: &mut World,
    life: &mut Life<u32>,
    seen: &mut Seen,
    verdict: Verdict<Error, u32>,
) {
    assert!(seen.cancelled.is_none(), "told after it was cancelled");
    seen.told.push((world.now, verdict));
    // Meanwhile nobody gets it to run again.
    assert!(!life.wake() && life.answer(1).is_none());
    if rng.one_in(5) {
        cancel(life, seen, world.now, WORKER);
    }
    life.told();
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hop(u64);

impl Neighbour for Hop {
    // Others have the same hash, that of "any" among them.
    fn hash(&self) -> u64 {
        self.0 / 2
    }
}

/// Which request an entry is, and whether its asker has tried.
type Handle = (u64, bool);
type Requests = Table<Vec<Slot<u32, Handle, Hop>>, Vec<Heads>>;

fn room(len: usize) -> (Vec<Slot<u32, Handle, Hop>>, Vec<Heads>) {
    let slots = (0..len).map(|_| Slot::new()).collect();
    (slots, vec![Heads::EMPTY; len])
}

/// The table against a list that is searched.
#[test]
fn tables() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let mut table: Requests = Table::new(Vec::new(), Vec::new());
        // Number, slot, key, neighbour, whether it waits.
        let mut list: Vec<(u64, u32, usize, Option<Hop>, bool)> = Vec::new();
        let mut id = u64::from(u32::MAX) - 5;
        for _ in 0..80 {
            match rng.below(8) {
                0..=2 => {
                    if table.len() == table.capacity() {
                        let (slots, heads) = room(1 + table.len() * 2);
                        let (slots, _) = table.grow(slots, heads);
                        assert!(slots
                            .iter()
                            .all(|slot| format!("{slot:?}").contains("None")));
                    }
                    id += 1;
                    let mut life = Life::new(10);
                    let waits = !rng.one_in(4);
                    if waits {
                        life.started::<()>(Outcome::Asked).unwrap();
                    }
                    let key = rng.below(5);
                    let entry = Entry {
                        id,
                        key,
                        handle: (id, waits),
                        life,
                        waits_for: None,
                    };
                    let at = table.insert(entry).unwrap();
                    assert!(list.iter().all(|other| other.1 != at));
                    list.push((id, at, key, None, waits));
                }
                3 => {
                    let key = rng.below(5);
                    while let Some((entry, what)) = table.cancel(key, OTHER) {
                        assert_eq!(entry.key, key);
                        let place = list.iter().position(|other| other.0 == entry.id);
                        // Also those that their askers are making just now.
                        let wanted = match list.remove(place.unwrap()).4 {
                            true => Cancelled::Wait,
                            false => Cancelled::Starting,
                        };
                        assert_eq!(what, wanted);
                    }
                    assert!(list.iter().all(|other| other.2 != key));
                }
                4 if !list.is_empty() => {
                    let (id, at, ..) = list.remove(rng.below(list.len()));
                    assert!(table.remove(at, id + 1000).is_none());
                    assert_eq!(table.remove(at, id).map(|entry| entry.id), Some(id));
                    assert!(table.remove(at, id).is_none());
                }
                5 if !list.is_empty() => {
                    let which = rng.below(list.len());
                    let hop = (!rng.one_in(4)).then(|| Hop(rng.below(6) as u64));
                    list[which].3 = hop;
                    table.watch(list[which].1, list[which].0, hop);
                    table.watch(list[which].1, list[which].0 + 1000, None);
                }
                6 => {
                    let hop = Hop(rng.below(6) as u64);
                    let mut woken = Vec::new();
                    table.wake(hop, |&(id, _)| woken.push(id));
                    let mut wanted: Vec<u64> = list
                        .iter()
                        .filter(|other| other.4 && other.3.is_none_or(|other| other == hop))
                        .map(|other| other.0)
                        .collect();
                    woken.sort();
                    wanted.sort();
                    assert_eq!(woken, wanted, "seed {seed}");
                }
                _ if !list.is_empty() => {
                    let &(id, at, ..) = &list[rng.below(list.len())];
                    assert_eq!(table.get(at, id).map(|entry| entry.id), Some(id));
                    assert!(table.get(at, id + 1000).is_none());
                    let found = table.find_answered(id as u32);
                    assert_eq!(found.map(|entry| entry.id), Some(id));
                    assert!(table.find_answered(1_000_000).is_none());
                }
                _ => {}
            }
            assert_eq!(table.len(), list.len());
        }
        // As many as there is room for, and no more.
        let spare = table.capacity() - table.len();
        for n in 0..=spare {
            let entry = Entry {
                id: u64::MAX - n as u64,
                key: 9,
                handle: (0, false),
                life: Life::new(10),
                waits_for: None,
            };
            assert_eq!(table.insert(entry).is_err(), n == spare);
        }
    }
}

#[test]
fn the_worker_is_woken_only_while_the_request_waits() {
    let starting = || Life::<u32>::new(100);
    let waiting = || {
        let mut life = starting();
        assert_eq!(life.started::<Error>(Outcome::Asked), Ok(100));
        life
    };
    let trying = || {
        let mut life = waiting();
        assert_eq!(life.turn(WORKER), Turn::Try);
        life
    };
    let telling = || {
        let mut life = trying();
        let next = life.tried::<Error>(Outcome::Found, 1, WORKER);
        assert_eq!(next, Next::Tell(Verdict::Found(None)));
        life
    };
    let over = || {
        let mut life = telling();
        life.told();
        life
    };
    assert!(waiting().wake());
    assert!(!starting().wake());
    assert!(!trying().wake());
    assert!(!telling().wake());
    assert!(!over().wake());
    assert_eq!(waiting().answer(1), Some(true));
    assert_eq!(starting().answer(1), Some(false));
    assert_eq!(trying().answer(1), Some(false));
    assert_eq!(telling().answer(1), None);
    assert_eq!(over().answer(1), None);
    // What came meanwhile makes the next turn come at once.
    let mut life = starting();
    assert!(!life.wake());
    assert_eq!(life.started::<Error>(Outcome::Asked), Ok(0));
    let mut life = starting();
    assert_eq!(life.answer(3), Some(false));
    assert_eq!(life.started(Outcome::Failed("no route")), Ok(0));
    assert_eq!(life.turn(WORKER), Turn::Tell(Some(3)));
    let mut life = trying();
    assert!(!life.wake());
    assert_eq!(
        life.tried::<Error>(Outcome::Asked, 1, WORKER),
        Next::Wait(0)
    );
    let mut life = trying();
    assert_eq!(
        life.tried::<Error>(Outcome::Asked, 1, WORKER),
        Next::Wait(99)
    );
    // The deadline itself is too late; what has failed by then has only timed out.
    for (now, outcome, next) in [
        (99, Outcome::Asked, Next::Wait(1)),
        (100, Outcome::Asked, Next::Tell(Verdict::TimedOut)),
        (99, Outcome::Failed("x"), Next::Tell(Verdict::Failed("x"))),
        (100, Outcome::Failed("x"), Next::Tell(Verdict::TimedOut)),
        (100, Outcome::Found, Next::Tell(Verdict::Found(None))),
    ] {
        assert_eq!(trying().tried(outcome, now, WORKER), next, "{now}");
    }
}

/// A worker that has told the asker is like any other task.
#[test]
fn a_reported_request_has_ended() {
    let mut life: Life<u32> = Life::new(5);
    assert_eq!(life.started::<Error>(Outcome::Asked), Ok(5));
    assert_eq!(life.turn(WORKER), Turn::Try);
    let next = life.tried::<Error>(Outcome::Found, 1, WORKER);
    assert_eq!(next, Next::Tell(Verdict::Found(None)));
    let mut telling = life;
    assert_eq!(telling.cancel(OTHER), Cancelled::Wait);
    let mut telling = life;
    assert_eq!(telling.cancel(WORKER), Cancelled::ByItself);
    life.told();
    assert_eq!(life.answer(7), None);
    assert!(!life.wake());
    assert_eq!(life.turn(WORKER), Turn::Nothing);
    assert_eq!(life.cancel(WORKER), Cancelled::Wait);
}
