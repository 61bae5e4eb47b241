// SPDX-License-Identifier: GPL-2.0

//! When acknowledgements wait for a reply to leave with, and for how long at most.

use crate::common::*;
use rxe_sim::node::DelayedAcks;
use rxe_sim::proto::delayed_ack::{DelayedAck, Look};
use rxe_sim::proto::*;
use rxe_sim::rng::Rng;
use rxe_sim::wire::*;
use rxe_sim::world::Weather;
use rxe_sim::world::World;

/// From a run of requests to the reply.
const REPLY: u64 = 10_000;
/// From one run to the next.
const TURN: u64 = 30_000;

/// A user who answers run after run, and the time of the next.
struct User {
    rule: DelayedAck,
    now: u64,
}

impl User {
    fn new() -> Self {
        Self {
            rule: DelayedAck::new(),
            now: 1 << 40,
        }
    }

    /// The next run, after a reply that took so long.
    fn run_after(&mut self, reply: u64) -> bool {
        let at = Nanos(self.now + reply);
        self.now += reply + TURN;
        self.rule.answered(Nanos(self.now), at)
    }

    /// One of whom a reply is expected.
    fn trusted() -> Self {
        let mut user = Self::new();
        while !user.run_after(REPLY) {}
        user
    }

    /// Nobody answers.
    fn disappoint(&mut self) {
        self.now += self.rule.hold().0;
        assert_eq!(self.rule.look(Nanos(self.now)), Look::Late);
        self.rule.sent();
    }

    /// How many replies it takes until one is expected.
    fn patience(&mut self) -> u32 {
        (1..).find(|_| self.run_after(REPLY)).expect("at some time")
    }
}

#[test]
fn a_pattern_must_be_seen() {
    let mut user = User::new();
    assert!(
        !user.run_after(REPLY),
        "when the first run came is not known"
    );
    for _ in 1..DelayedAck::PATTERN {
        assert!(!user.run_after(REPLY));
    }
    assert!(user.run_after(REPLY));
    assert!(user.run_after(DelayedAck::BOUND.0), "just in time");
}

#[test]
fn a_run_without_a_reply_ends_it() {
    let mut user = User::trusted();
    user.rule.unanswered();
    assert_eq!(
        user.patience(),
        DelayedAck::PATTERN + 1,
        "the first is not timed"
    );
}

#[test]
fn a_slow_reply_ends_it() {
    let mut user = User::trusted();
    assert!(!user.run_after(DelayedAck::BOUND.0 + 1));
    assert_eq!(user.patience(), DelayedAck::PATTERN);
}

#[test]
fn it_waits_for_its_time_and_no_longer() {
    let mut user = User::trusted();
    assert_eq!(user.rule.look(Nanos(user.now)), Look::Nothing);
    assert_eq!(user.rule.hold(), DelayedAck::BOUND);
    let look = |rule: &mut DelayedAck, after| rule.look(Nanos(user.now + after));
    assert_eq!(
        look(&mut user.rule, 1),
        Look::Wait(Nanos(DelayedAck::BOUND.0 - 1))
    );
    let mut late = user.rule;
    assert_eq!(look(&mut late, DelayedAck::BOUND.0), Look::Late);
    user.rule.sent();
    assert_eq!(look(&mut user.rule, DelayedAck::BOUND.0), Look::Nothing);
}

#[test]
fn a_long_pattern_extends_the_delay() {
    let mut user = User::new();
    for _ in 0..=DelayedAck::LONG {
        let _: bool = user.run_after(REPLY);
    }
    assert_eq!(user.rule.hold(), Nanos(DelayedAck::BOUND.0 * 4));
    let before = Nanos(user.now + DelayedAck::BOUND.0 * 4 - 1);
    assert_eq!(user.rule.look(before), Look::Wait(Nanos(1)));
}

#[test]
fn a_peer_that_sends_more_before_the_reply_counts_as_disappointed() {
    let mut user = User::trusted();
    let _: Nanos = user.rule.hold();
    user.rule.unanswered();
    user.rule.sent();
    assert_eq!(
        user.patience(),
        DelayedAck::PATTERN * 2 + 1,
        "the first is not timed"
    );
}

#[test]
fn a_missed_reply_lengthens_the_pattern() {
    let mut user = User::trusted();
    let mut need = DelayedAck::PATTERN;
    for _ in 0..20 {
        user.disappoint();
        need = (need * 2).min(DelayedAck::MOST);
        assert_eq!(
            user.patience(),
            need + 1,
            "the reply that did not come counts as slow"
        );
    }
    // Until he has kept to it for a while.
    for _ in 0..need {
        assert!(user.run_after(REPLY));
    }
    user.disappoint();
    assert_eq!(user.patience(), DelayedAck::PATTERN * 2 + 1);
}

/// Two users who play ping-pong `rounds` times, `think` ns for each move, and then node 0
/// sends `alone` more messages, one by one, to somebody who does not answer any more. The
/// times that these took.
fn ping_pong(delayed_acks: bool, rounds: u32, think: u64, alone: u32) -> (World, Vec<u64>) {
    let nodes = [0, 1].map(|_| {
        let mut node = node();
        let mut attr = *node.send.attr();
        attr.dest = Qpn(9);
        attr.timeout = Some(Nanos(10_000_000));
        node.send.set_attr(attr);
        node.delayed_acks = delayed_acks.then(DelayedAcks::default);
        for wr_id in 0..u64::from(rounds + alone) {
            post_recv(&mut node, wr_id, 64);
        }
        node
    });
    let mut world = World::new(nodes, Weather::FINE, Rng::new(1));
    let mut moves = [0u32; 2];
    let mut times = Vec::new();
    let mut begun = None;
    // Script: 0 and 1, that node sends; 2 and 3, it waits for a message; 4, node 0 waits for
    // its completion. They look every 100 ns.
    world.script_at(1_000, 0);
    world.run(&mut |world, number| {
        let who = number as usize % 2;
        let now = world.now.0;
        match number {
            0 | 1 => {
                post(&mut world.nodes[who], send(), 8);
                moves[who] += 1;
                world.poll(who);
                let alone = moves[0] > rounds;
                begun = alone.then_some(now);
                world.script_at(now + 100, if alone { 4 } else { 3 - number });
            }
            2 | 3 => {
                let came = world.nodes[who].host.recv_cq.len() >= moves[1 - who] as usize;
                if !came {
                    world.script_at(now + 100, number);
                } else if who == 1 || moves[0] < rounds + alone {
                    world.script_at(now + think, number - 2);
                }
            }
            _ if world.nodes[0].host.send_cq.len() < moves[0] as usize => {
                world.script_at(now + 100, 4);
            }
            _ => {
                times.extend(begun.map(|at| now - at));
                if moves[0] < rounds + alone {
                    world.script_at(now + think, 0);
                }
            }
        }
    });
    for node in &world.nodes {
        assert_eq!(node.state, QpState::Rts);
        assert_eq!(node.send.next_deadline(), None, "all is acknowledged");
    }
    assert_eq!(world.nodes[0].host.send_cq.len(), (rounds + alone) as usize);
    assert_eq!(world.nodes[1].host.send_cq.len(), rounds as usize);
    (world, times)
}

#[test]
fn in_ping_pong_replies_carry_acknowledgements() {
    let (world, _) = ping_pong(true, 1_000, REPLY, 0);
    for node in &world.nodes {
        let delayed_acks = node.delayed_acks.as_ref().expect("there are");
        assert!(delayed_acks.taken >= 980, "{delayed_acks:?}");
        assert!(delayed_acks.late <= 1, "{delayed_acks:?}");
    }
}

#[test]
fn a_slow_responder_delays_no_acknowledgement() {
    let (world, _) = ping_pong(true, 100, DelayedAck::BOUND.0 * 2, 0);
    for node in &world.nodes {
        let delayed_acks = node.delayed_acks.as_ref().expect("there are");
        assert_eq!((delayed_acks.taken, delayed_acks.late), (0, 0));
    }
}

#[test]
fn when_replies_stop_one_acknowledgement_is_late() {
    let (_, plain) = ping_pong(false, 100, REPLY, 50);
    let (world, times) = ping_pong(true, 100, REPLY, 50);
    let late = world.nodes[1]
        .delayed_acks
        .as_ref()
        .expect("there are")
        .late;
    assert_eq!(late, 1);
    assert_eq!((times.len(), plain.len()), (50, 50));
    assert!(times[0] >= DelayedAck::BOUND.0, "{times:?}");
    assert!(times[0] <= DelayedAck::BOUND.0 * 4 + REPLY, "{times:?}");
    assert_eq!(times[1..], plain[1..], "the others are as fast as ever");
}

#[test]
fn a_change_of_state_sends_what_waits() {
    for state in [QpState::Err, QpState::Reset, QpState::Sqd] {
        let mut n = node();
        n.delayed_acks = Some(DelayedAcks::always());
        post_recv(&mut n, 0, 10);
        let datagram = request(&mut n);
        assert_eq!(n.receive(Nanos(0), &datagram), Some(Disposition::Done));
        assert_eq!(poll(&mut n, Nanos(0)), [], "it waits");
        n.modify(state).expect("allowed");
        assert_eq!(syndromes(&seen(&mut n)), [(0, AethSyndrome::ACK)]);
        assert_eq!(syndromes(&poll(&mut n, Nanos(0))), [], "once");
    }
}

#[test]
fn duplicates_are_acknowledged_at_once() {
    let mut n = node();
    n.delayed_acks = Some(DelayedAcks::always());
    post_recv(&mut n, 0, 10);
    let datagram = request(&mut n);
    assert_eq!(n.receive(Nanos(0), &datagram), Some(Disposition::Done));
    assert_eq!(poll(&mut n, Nanos(0)), [], "it waits");
    let again = n.receive(Nanos(0), &datagram);
    assert_eq!(again, Some(Disposition::Dropped(DropCause::Duplicate)));
    assert_eq!(syndromes(&poll(&mut n, Nanos(0))), [(0, AethSyndrome::ACK)]);
}

/// A message of the peer's, the first one: as a node like this one would send it.
fn request(_: &mut rxe_sim::node::Node) -> Vec<u8> {
    let mut peer = node();
    post(&mut peer, send(), 8);
    peer.poll(Nanos(0), 64);
    peer.host.out.remove(0)
}
