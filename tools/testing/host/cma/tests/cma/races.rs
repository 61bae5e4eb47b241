// SPDX-License-Identifier: GPL-2.0

//! Calls of a consumer's threads against events, removal and destruction, in any order.
//!
//! The lock of callbacks is modelled as the C interface demands: events, `connect`, removal and
//! destruction wait while a callback runs, unless they are calls from that callback; other calls do
//! not.

use rdma_cma_engines::proto::event::Happened;
use rdma_cma_engines::proto::event::Kind;
use rdma_cma_engines::proto::state::After;
use rdma_cma_engines::proto::state::Answer;
use rdma_cma_engines::proto::state::Cause;
use rdma_cma_engines::proto::state::Delivery;
use rdma_cma_engines::proto::state::Life;
use rdma_cma_engines::proto::state::Pending;
use rdma_cma_engines::proto::state::Ticket;
use rdma_cma_engines::proto::state::Turn;
use rdma_cma_engines::rng::Rng;
use std::collections::BTreeSet;

const RUNS: u64 = 100_000;
const STEPS: usize = 80;

/// Which states may follow a state, by the table of the C module.
const fn may_follow(from: u32, to: u32) -> bool {
    matches!(
        (from, to),
        (0, 7)
            | (7, 0 | 1 | 8 | 11)
            | (1, 2 | 7)
            | (2, 3 | 4)
            | (3, 2 | 4 | 12)
            | (4, 2 | 5)
            | (5, 4 | 6)
            | (8, 7)
            | (11, 12 | 7)
            | (12, 3)
            | (0..=8 | 11..=12, 9 | 10)
            | (9, 10)
    )
}

/// A query that was begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Query {
    Addr,
    Route,
    Service,
}

/// A query, whether its call has not returned yet, and what ended it.
struct Asked {
    query: Query,
    ticket: Ticket,
    in_call: bool,
    ends: u32,
}

#[derive(Default)]
struct Seen {
    moves: BTreeSet<(u32, u32)>,
    removals: u32,
    disconnects: u32,
    destroyed: u32,
    cancelled: u32,
    events: u64,
}

struct World {
    rng: Rng,
    life: Life,
    asked: Vec<Asked>,
    running: Option<Delivery>,
    seen: Seen,
    /// The consumer has destroyed the ID, or asked for it.
    gone: bool,
}

impl World {
    /// Checks the move that a step made.
    fn check(&mut self, before: u32) {
        let now = self.life.state().raw();
        assert!(before == now || may_follow(before, now), "{before} {now}");
        self.seen.moves.insert((before, now));
    }

    /// Something that was in progress is cancelled.
    fn cancel(&mut self, pending: Pending) {
        let query = match pending {
            Pending::Nothing => return,
            Pending::Listen => {
                self.seen.cancelled += 1;
                return;
            }
            Pending::Addr => Query::Addr,
            Pending::Route => Query::Route,
            Pending::Service => Query::Service,
        };
        self.seen.cancelled += 1;
        // The newest query of this kind was in progress.
        let asked = self.asked.iter_mut().rev().find(|one| one.query == query);
        asked.unwrap().ends += 1;
    }

    fn ask(&mut self, query: Query, ticket: Ticket) {
        let in_call = self.rng.one_in(2);
        self.asked.push(Asked {
            query,
            ticket,
            in_call,
            ends: 0,
        });
    }

    /// A call that needs no lock.
    fn call(&mut self) {
        match self.rng.below(11) {
            0 => drop(self.life.bind()),
            1 => {
                if let Ok(ticket) = self.life.resolve_addr() {
                    self.ask(Query::Addr, ticket);
                }
            }
            2 | 3 => {
                if let Ok(ticket) = self.life.resolve_route() {
                    self.ask(Query::Route, ticket);
                }
            }
            4 => {
                if let Ok(ticket) = self.life.resolve_service(self.rng.one_in(2)) {
                    self.ask(Query::Service, ticket);
                }
            }
            5 => drop(self.life.set_path()),
            6 if self.rng.one_in(3) => drop(self.life.listen()),
            7 if self.rng.one_in(3) => self.life.bind_failed(),
            8 => self.life.listen_failed(),
            9 if self.rng.one_in(3) => self.life.set_path_failed(),
            _ => self.fail_query(),
        }
    }

    /// A query's call returns an error: such a query gets no answer.
    fn fail_query(&mut self) {
        let Some(one) = self.asked.iter_mut().find(|one| one.in_call) else {
            return;
        };
        one.in_call = false;
        let before = self.life.state();
        match one.query {
            Query::Addr => self.life.resolve_addr_failed(one.ticket),
            Query::Route => self.life.resolve_route_failed(one.ticket),
            Query::Service => self.life.resolve_service_failed(one.ticket),
        }
        if self.life.state() != before {
            one.ends += 1;
        }
    }

    /// An event, with the lock of callbacks.
    fn event(&mut self) {
        let cause = match self.rng.below(10) {
            0..=4 => {
                if self.asked.is_empty() {
                    return;
                }
                let at = self.rng.below(self.asked.len());
                let good = !self.rng.one_in(4);
                let one = &self.asked[at];
                if one.in_call {
                    return;
                }
                match one.query {
                    Query::Addr => Cause::Addr(one.ticket, good),
                    Query::Route => Cause::Route(one.ticket, good),
                    Query::Service => Cause::Service(one.ticket, good),
                }
            }
            5 => Cause::Request,
            6 | 7 => Cause::Connection(Happened::News, Kind::Established),
            8 if self.rng.one_in(2) => {
                Cause::Connection(Happened::Disconnected, Kind::Disconnected)
            }
            8 => Cause::Connection(Happened::TimewaitExit, Kind::TimewaitExit),
            _ => Cause::Around(Kind::AddrChange),
        };
        let before = self.life.state();
        match self.life.begin(cause) {
            Turn::Busy => panic!("the lock is held by nobody else"),
            Turn::Drop => assert_eq!(self.life.state(), before),
            Turn::Deliver(delivery) => {
                assert!(!self.gone && !before.is_over());
                self.note(cause);
                self.seen.events += 1;
                self.running = Some(delivery);
            }
        }
    }

    fn note(&mut self, cause: Cause) {
        match cause {
            Cause::Addr(of, _) | Cause::Route(of, _) | Cause::Service(of, _) => {
                let one = self.asked.iter_mut().find(|one| one.ticket == of).unwrap();
                one.ends += 1;
            }
            Cause::Connection(Happened::Disconnected, _) => self.seen.disconnects += 1,
            Cause::Connection(Happened::TimewaitExit, _) => assert_eq!(self.seen.disconnects, 1),
            Cause::Connection(Happened::News, _) => assert_eq!(self.seen.disconnects, 0),
            Cause::Request | Cause::Around(_) => {}
        }
    }

    fn remove(&mut self) {
        match self.life.remove() {
            Turn::Busy => panic!("the lock is held by nobody else"),
            Turn::Drop => assert!(self.life.state().is_over()),
            Turn::Deliver(delivery) => {
                assert!(!self.gone);
                self.seen.removals += 1;
                self.running = Some(delivery);
            }
        }
    }

    fn destroy(&mut self) {
        if self.gone {
            assert_eq!(self.life.destroy(), None);
            return;
        }
        let pending = self.life.destroy().unwrap();
        self.cancel(pending);
        self.gone = true;
        self.seen.destroyed += 1;
    }

    /// The running callback does something, or returns.
    fn callback(&mut self) {
        // Others that do not hold the lock are refused.
        let before = self.life;
        assert_eq!(self.life.begin(Cause::Request), Turn::Busy);
        assert_eq!(self.life.remove(), Turn::Busy);
        assert_eq!(self.life, before);
        match self.rng.below(4) {
            0 => drop(self.life.connect()),
            1 => self.life.connect_failed(),
            2 => drop(self.life.accept()),
            _ => {
                let delivery = self.running.take().unwrap();
                let answer = if self.rng.one_in(12) {
                    Answer::Destroy
                } else {
                    Answer::Keep
                };
                match self.life.over(delivery, answer) {
                    After::Keep => assert_eq!(answer, Answer::Keep),
                    After::Removed(pending) => {
                        assert_eq!(answer, Answer::Keep);
                        self.cancel(pending);
                    }
                    After::Destroy(pending) => {
                        assert_eq!(answer, Answer::Destroy);
                        self.cancel(pending);
                        self.gone = true;
                        self.seen.destroyed += 1;
                    }
                }
            }
        }
    }

    fn step(&mut self) {
        let before = self.life.state().raw();
        if self.running.is_some() {
            // A call of another thread, or the callback.
            if self.rng.one_in(2) {
                self.call();
            } else {
                self.callback();
            }
        } else {
            match self.rng.below(120) {
                0 => self.remove(),
                1 => self.destroy(),
                2..=9 => drop(self.life.connect()),
                10 => self.life.connect_failed(),
                11..=69 => self.event(),
                _ => self.call(),
            }
        }
        self.check(before);
        assert!(self.seen.removals <= 1 && self.seen.destroyed <= 1);
        assert!(self.asked.iter().all(|one| one.ends <= 1));
    }
}

/// One run.
fn run(seed: u64) -> Seen {
    let mut rng = Rng::new(seed);
    let life = if rng.one_in(4) {
        Life::passive()
    } else {
        Life::new()
    };
    let mut world = World {
        rng,
        life,
        asked: Vec::new(),
        running: None,
        seen: Seen::default(),
        gone: false,
    };
    for _ in 0..STEPS {
        world.step();
    }
    // The end: the callback returns, then somebody destroys the ID.
    while world.running.is_some() {
        world.callback();
    }
    world.destroy();
    assert_eq!(world.seen.destroyed, 1);
    // No query is left without an end.
    for one in &world.asked {
        assert_eq!(one.ends, 1, "seed {seed}");
    }
    assert!(world.life.state().is_over());
    world.seen
}

#[test]
fn many_runs() {
    let (mut events, mut cancelled) = (0, 0);
    let mut moves = BTreeSet::new();
    for seed in 0..RUNS {
        let seen = run(seed);
        events += seen.events;
        cancelled += u64::from(seen.cancelled);
        moves.extend(seen.moves);
    }
    // The runs reach what they are for: each move, in races.
    assert!(events > 2 * RUNS, "{events} events");
    assert!(cancelled > RUNS / 10, "{cancelled} cancelled");
    for from in 0..13 {
        for to in (0..13).filter(|to| *to != from && may_follow(from, *to)) {
            assert!(moves.contains(&(from, to)), "{from} {to} was not reached");
        }
    }
}
