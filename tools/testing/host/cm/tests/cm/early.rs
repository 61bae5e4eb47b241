// SPDX-License-Identifier: GPL-2.0

//! Early repeats: connections over a wire that loses, with and without them, in virtual time. A side
//! without them is also what a C peer does with the same messages.

use super::bed::mra;
use super::bed::rep_call;
use super::bed::req_call;
use super::bed::C;
use super::bed::FROM_PEER;
use super::bed::LOCAL;
use super::bed::PEER_TID;
use super::bed::PRIMARY;
use super::bed::REMOTE;
use rdma_cm_engine::proto::conn::Actions;
use rdma_cm_engine::proto::conn::Call;
use rdma_cm_engine::proto::conn::Conn;
use rdma_cm_engine::proto::conn::Event;
use rdma_cm_engine::proto::conn::Policy;
use rdma_cm_engine::proto::conn::Posting;
use rdma_cm_engine::proto::conn::SendEnd;
use rdma_cm_engine::proto::conn::Source;
use rdma_cm_engine::proto::conn::StateName;
use rdma_cm_engine::proto::ids::Instant;
use rdma_cm_engine::proto::ids::SendId;
use rdma_cm_engine::proto::repeat::Budget;
use rdma_cm_engine::proto::repeat::AFTER_MS;
use rdma_cm_engine::proto::repeat::ANSWER_MS;
use rdma_cm_engine::proto::repeat::BURST;
use rdma_cm_engine::proto::repeat::RATE;
use rdma_cm_engine::proto::repeat::WINDOW;
use rdma_cm_engine::proto::tables::Claim;
use rdma_cm_engine::proto::wire::About;
use rdma_cm_engine::proto::wire::Body;
use rdma_cm_engine::proto::wire::Kind;
use rdma_cm_engine::proto::wire::Message;
use rdma_cm_engine::proto::wire::Transport;
use rdma_cm_engine::proto::wire::MAD;
use rdma_cm_engine::rng::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The time from one side to the other.
const WAY: u64 = 1;
const ACTIVE: usize = 0;
const PASSIVE: usize = 1;
/// `IB_WC_RESP_TIMEOUT_ERR`.
const TIMED_OUT: u32 = 13;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ev {
    Arrive { to: usize, mad: usize },
    Retry { side: usize, send: u32 },
    Timer { side: usize },
    Accept,
}

struct Tracked {
    id: SendId,
    mad: usize,
    timeout: u64,
    left: u8,
    at: u64,
}

struct Side {
    conn: C,
    send: Option<Tracked>,
    timer: Option<u64>,
    connected: Option<u64>,
    failed: Option<u64>,
}

impl Side {
    fn new(conn: C) -> Self {
        Self {
            conn,
            send: None,
            timer: None,
            connected: None,
            failed: None,
        }
    }
}

/// What happens to messages, and how the passive side's consumer is.
#[derive(Clone, Copy)]
struct Setting {
    /// Messages of a thousand that are lost.
    loss: u32,
    /// Early repeats of either side.
    early: [bool; 2],
    /// Milliseconds until the consumer accepts; `None` if it is dead.
    accept: Option<u64>,
    /// Everything is lost from the start on, and again from some time on.
    dead: bool,
}

struct World {
    now: u64,
    seq: u32,
    heap: BinaryHeap<Reverse<(u64, u32, Ev)>>,
    mads: Vec<[u8; MAD]>,
    sides: Vec<Side>,
    setting: Setting,
    seed: u64,
    /// Times at which the active side has sent its REQ.
    reqs: Vec<u64>,
    mras: u32,
}

impl World {
    fn new(seed: u64, setting: Setting) -> Self {
        let active = Conn::new(LOCAL).with_early_repeats(setting.early[ACTIVE]);
        Self {
            now: 0,
            seq: 0,
            heap: BinaryHeap::new(),
            mads: Vec::new(),
            sides: vec![Side::new(active)],
            setting,
            seed,
            reqs: Vec::new(),
            mras: 0,
        }
    }

    fn at(&mut self, time: u64, ev: Ev) {
        self.seq += 1;
        self.heap.push(Reverse((time, self.seq, ev)));
    }

    /// Whether a message that a side sends now is lost: the same one, with and without early repeats.
    fn lost(&self, from: usize, kind: Kind) -> bool {
        let what = self.now << 8 | (from as u64) << 4 | kind as u64;
        self.setting.dead || Rng::new(self.seed ^ what << 20).per_mille(self.setting.loss)
    }

    fn transmit(&mut self, from: usize, mad: usize) {
        let kind = Message::parse(&self.mads[mad]).unwrap().body.kind();
        if kind == Kind::Req {
            self.reqs.push(self.now);
        }
        if !self.lost(from, kind) {
            let to = 1 - from;
            self.at(self.now + WAY, Ev::Arrive { to, mad });
        }
    }

    fn write(&mut self, message: &Message<'_>) -> usize {
        let mut bytes = [0; MAD];
        message.write(&mut bytes).unwrap();
        self.mads.push(bytes);
        self.mads.len() - 1
    }

    fn call(&mut self, side: usize, call: Call<'_, super::bed::Rt>) {
        let now = Instant(self.now);
        let mut posted = None;
        let mut conn = self.sides[side].conn;
        let (result, actions) = conn.call(&call, now, |posting: Posting<'_, _>| {
            let mut bytes = [0; MAD];
            posting.message.write(&mut bytes).unwrap();
            posted = Some((bytes, posting.policy));
            Ok::<(), ()>(())
        });
        self.sides[side].conn = conn;
        if result.is_ok() {
            if let Some((bytes, policy)) = posted {
                self.mads.push(bytes);
                let mad = self.mads.len() - 1;
                if let Policy::Tracked {
                    id,
                    timeout_ms,
                    retries,
                } = policy
                {
                    let timeout = u64::from(timeout_ms);
                    let at = self.now + timeout;
                    self.sides[side].send = Some(Tracked {
                        id,
                        mad,
                        timeout,
                        left: retries,
                        at,
                    });
                    let send = id.to_raw();
                    self.at(at, Ev::Retry { side, send });
                }
                self.transmit(side, mad);
            }
        }
        self.act(side, actions);
    }

    fn act(&mut self, side: usize, actions: Actions<super::bed::Rt>) {
        let now = self.now;
        if let Some(id) = actions.cancel {
            self.sides[side].send.take_if(|send| send.id == id);
        }
        if let Some((id, ms)) = actions.extend {
            if let Some(send) = self.sides[side].send.as_mut().filter(|s| s.id == id) {
                send.timeout = ms.into();
                send.at = now + send.timeout;
                let (at, send) = (send.at, id.to_raw());
                self.at(at, Ev::Retry { side, send });
            }
        }
        if let Some((id, _)) = actions.again {
            let send = self.sides[side].send.as_ref().filter(|s| s.id == id);
            if let Some(mad) = send.map(|s| s.mad) {
                self.transmit(side, mad);
            }
        }
        if let Some(send) = actions.send {
            let mad = self.write(&send.answer.message(&[]));
            self.transmit(side, mad);
        }
        let deadline = self.sides[side].conn.deadline().map(|at| at.0);
        if self.sides[side].timer != deadline {
            self.sides[side].timer = deadline;
            if let Some(until) = deadline {
                self.at(until.max(now), Ev::Timer { side });
            }
        }
        match actions.event {
            Some(Event::Received(Kind::Rep)) => {
                // As `rdma_cm` does for a consumer that has a queue pair.
                self.call(side, Call::PrepareMra);
                self.call(side, Call::Rtu { private: &[] });
                self.sides[side].connected = Some(now);
            }
            Some(Event::Received(Kind::Rtu)) => self.sides[side].connected = Some(now),
            Some(Event::Received(Kind::Mra)) => self.mras += 1,
            Some(Event::Failed(..) | Event::Received(Kind::Rej)) => {
                self.sides[side].failed = Some(now);
            }
            _ => {}
        }
    }

    fn arrive(&mut self, to: usize, mad: usize) {
        let bytes = self.mads[mad];
        let message = Message::parse(&bytes).unwrap();
        let source = Source::default();
        let now = Instant(self.now);
        if let Body::Req(req) = &message.body {
            if self.sides.len() == 1 {
                let conn = Conn::from_req(REMOTE, message.tid, req, PRIMARY, None)
                    .with_early_repeats(self.setting.early[PASSIVE]);
                self.sides.push(Side::new(conn));
                self.call(PASSIVE, Call::PrepareMra);
                if let Some(after) = self.setting.accept {
                    self.at(self.now + after, Ev::Accept);
                }
            } else {
                let actions = self.sides[PASSIVE].conn.duplicate_req(&message, &source);
                self.act(PASSIVE, actions);
            }
            return;
        }
        let Some(side) = self.sides.get_mut(to) else {
            return;
        };
        let actions = side
            .conn
            .receive(&message, &source, None, now, |_| Claim::Granted);
        self.act(to, actions);
    }

    fn retry(&mut self, side: usize, raw: u32) {
        let now = self.now;
        let it = &mut self.sides[side];
        let Some(send) = it
            .send
            .as_mut()
            .filter(|s| s.id.to_raw() == raw && s.at == now)
        else {
            return;
        };
        if send.left == 0 {
            let id = send.id;
            it.send = None;
            let actions = it
                .conn
                .send_ended(id, SendEnd::Failed(TIMED_OUT), Instant(now));
            return self.act(side, actions);
        }
        send.left -= 1;
        send.at += send.timeout;
        let (mad, at) = (send.mad, send.at);
        self.at(at, Ev::Retry { side, send: raw });
        self.transmit(side, mad);
    }

    /// Connects, until both sides are or one has failed.
    fn run(&mut self) {
        let mut call = req_call(Transport::Rc);
        call.req.local_response_timeout = 20;
        self.call(ACTIVE, Call::Req(call));
        while let Some(Reverse((time, _, ev))) = self.heap.pop() {
            self.now = time;
            match ev {
                Ev::Arrive { to, mad } => self.arrive(to, mad),
                Ev::Retry { side, send } => self.retry(side, send),
                Ev::Accept => {
                    let conn = &self.sides[PASSIVE].conn;
                    if matches!(conn.state(), StateName::ReqRcvd | StateName::MraReqSent) {
                        self.call(PASSIVE, Call::Rep(rep_call()));
                    }
                }
                Ev::Timer { side } => {
                    if self.sides[side].timer.take_if(|at| *at <= time).is_some() {
                        let actions = self.sides[side].conn.timer(Instant(time));
                        self.act(side, actions);
                    }
                }
            }
            if self.sides.len() == 2 && self.sides.iter().all(|side| side.connected.is_some()) {
                return;
            }
        }
    }
}

/// Times in which connections are established at both sides, sorted; one that fails counts as an hour.
fn times(runs: u64, setting: Setting) -> Vec<u64> {
    let mut times: Vec<u64> = (0..runs)
        .map(|seed| {
            let mut world = World::new(seed, setting);
            world.run();
            let all = world.sides.iter().map(|side| side.connected);
            let both = all.collect::<Option<Vec<_>>>();
            match both {
                Some(both) if both.len() == 2 => both.into_iter().max().unwrap(),
                _ => 3_600_000,
            }
        })
        .collect();
    times.sort_unstable();
    times
}

fn quantile(times: &[u64], of_1000: usize) -> u64 {
    times[(times.len() * of_1000 / 1000).min(times.len() - 1)]
}

const SETTING: Setting = Setting {
    loss: 10,
    early: [true, true],
    accept: Some(0),
    dead: false,
};

#[test]
fn a_thousand_connections() {
    let plain = times(
        1000,
        Setting {
            early: [false, false],
            ..SETTING
        },
    );
    let early = times(1000, SETTING);
    println!(
        "p99 at 1 % loss: {} ms, {} ms",
        quantile(&plain, 990),
        quantile(&early, 990)
    );
    assert!(quantile(&plain, 990) > 4000);
    assert!(quantile(&early, 990) < 1500);
    // The active side alone, with a peer that has none, which waits for four seconds when a REP or an RTU
    // is lost: 2 % of all.
    let quick = |early| {
        let all = times(20_000, Setting { early, ..SETTING });
        quantile(&all, 975) < 1500
    };
    assert!(quick([true, false]) && !quick([false, false]));
}

#[test]
fn never_slower() {
    for loss in [0, 1, 10, 50, 200, 300] {
        for accept in [0, 700, 1500, 4000, 8000, 30_000, 70_000] {
            let setting = |early| Setting {
                loss,
                early,
                accept: Some(accept),
                dead: false,
            };
            let plain = times(4000, setting([false, false]));
            for early in [[true, true], [true, false], [false, true]] {
                let with = times(4000, setting(early));
                for of_1000 in [500, 900, 990, 999] {
                    let (a, b) = (quantile(&with, of_1000), quantile(&plain, of_1000));
                    // Where both have the same losses to wait for, chance decides by milliseconds.
                    assert!(
                        a <= b + b / 50 + 10,
                        "{loss} {accept} {early:?} {of_1000}: {a} > {b}"
                    );
                }
                let mean = |times: &[u64]| times.iter().sum::<u64>() / times.len() as u64;
                assert!(mean(&with) <= mean(&plain) + 5, "{loss} {accept} {early:?}");
            }
        }
    }
}

#[test]
fn one_message_more() {
    let dead = |early| {
        let mut world = World::new(
            1,
            Setting {
                dead: true,
                early,
                ..SETTING
            },
        );
        world.run();
        (world.reqs, world.sides[ACTIVE].failed)
    };
    let (plain, failed) = dead([false, false]);
    let (mut with, failed_with) = dead([true, true]);
    assert_eq!(plain.len(), 16);
    assert_eq!(with.remove(1), u64::from(AFTER_MS));
    // All others at the same times, and no earlier end.
    assert_eq!(with, plain);
    assert_eq!(failed_with, failed);
    assert!(failed.is_some());
}

/// A consumer that dies after its node has answered a copy with an MRA is noticed as soon as without.
#[test]
fn no_minute_for_a_copy() {
    let hung = |early| {
        let mut world = World::new(
            1,
            Setting {
                loss: 0,
                early,
                accept: None,
                dead: false,
            },
        );
        let mut call = req_call(Transport::Rc);
        call.req.max_cm_retries = 15;
        world.call(ACTIVE, Call::Req(call));
        // The node goes before the first repetition.
        while let Some(Reverse((time, _, ev))) = world.heap.pop() {
            world.now = time;
            world.setting.dead = time > 4000;
            match ev {
                Ev::Arrive { to, mad } => world.arrive(to, mad),
                Ev::Retry { side, send } => world.retry(side, send),
                Ev::Timer { side } => {
                    if world.sides[side].timer.take_if(|at| *at <= time).is_some() {
                        let actions = world.sides[side].conn.timer(Instant(time));
                        world.act(side, actions);
                    }
                }
                Ev::Accept => {}
            }
        }
        (world.sides[ACTIVE].failed, world.mras, world.reqs.len())
    };
    let (plain, with) = (hung([false, false]), hung([true, false]));
    assert_eq!((plain.1, plain.2), (0, 16));
    assert_eq!((with.0, with.1, with.2), (plain.0, 0, 17));
}

#[test]
fn off_by_default() {
    let mut world = World::new(
        1,
        Setting {
            dead: true,
            ..SETTING
        },
    );
    world.sides[ACTIVE].conn = Conn::new(LOCAL);
    world.run();
    assert_eq!(world.reqs.len(), 16);
}

#[test]
fn only_where_it_is_worth_it() {
    for (response, retries, more) in [(20, 15, 1), (20, 0, 0), (18, 15, 0), (19, 15, 1)] {
        let mut world = World::new(
            1,
            Setting {
                dead: true,
                ..SETTING
            },
        );
        let mut call = req_call(Transport::Rc);
        call.life_time = 8;
        call.req.remote_response_timeout = response;
        call.req.max_cm_retries = retries;
        world.call(ACTIVE, Call::Req(call));
        let has = world.sides[ACTIVE].timer.is_some();
        assert_eq!(has, more == 1, "{response} {retries}");
    }
}

#[test]
fn budget() {
    let mut budget = Budget::new(Instant(0));
    let mut rng = Rng::new(7);
    let mut granted = Vec::new();
    let mut now = 0;
    for _ in 0..100_000 {
        now += rng.pick(&[0, 0, 0, 1, 5, 40, 2000]);
        if budget.take(Instant(now), 1) {
            granted.push(now);
        }
    }
    // In no time more than a burst and what the time gives.
    for (i, from) in granted.iter().enumerate() {
        for (count, to) in granted[i..].iter().take(500).enumerate() {
            let time = to - from;
            assert!(count as u64 <= u64::from(BURST) + time * u64::from(RATE) / 1000);
        }
    }
    // And no less.
    let mut budget = Budget::new(Instant(0));
    assert_eq!(
        (0..1000).filter(|_| budget.take(Instant(0), 1)).count(),
        BURST as usize
    );
    assert_eq!(
        (0..1000).filter(|_| budget.take(Instant(1000), 1)).count(),
        RATE as usize
    );
    // A clock that goes back gives nothing.
    assert!(!budget.take(Instant(0), 1));
    assert!(!budget.take(Instant(1000), 1));
}

/// Of the MRAs after an early repeat, only the one that it provokes is ignored.
#[test]
fn unasked_mra() {
    // The events of MRAs that come at these times after the early repeat. One that is not about the message
    // comes before all of them.
    let events = |times: &[u64]| {
        let mut conn = Conn::new(LOCAL).with_early_repeats(true);
        let call = Call::Req(req_call(Transport::Rc));
        let _ = conn.call(&call, Instant(0), |_| Ok::<(), ()>(()));
        let sent = u64::from(AFTER_MS);
        assert_eq!(conn.deadline(), Some(Instant(sent)));
        assert!(conn.timer(Instant(sent)).again.is_some());
        assert_eq!(conn.deadline(), None);
        let unrelated = [(0, About::Rep)].into_iter();
        let all = unrelated.chain(times.iter().map(|after| (*after, About::Req)));
        let events = all.map(|(after, about)| {
            let message = Message {
                tid: PEER_TID,
                body: mra(about),
            };
            let now = Instant(sent + after);
            let actions = conn.receive(&message, &FROM_PEER, None, now, |_| Claim::Granted);
            assert_eq!(actions.event.is_some(), actions.extend.is_some());
            actions.event.is_some()
        });
        events.skip(1).collect::<Vec<_>>()
    };
    let late = u64::from(ANSWER_MS);
    assert_eq!(events(&[1]), [false]);
    assert_eq!(events(&[late - 1]), [false]);
    assert_eq!(events(&[late]), [true]);
    // The regular repetition, whose answer counts, comes later.
    assert_eq!(events(&[3000]), [true]);
    assert_eq!(events(&[1, 2]), [false, true]);
    // The third one is a duplicate.
    assert_eq!(events(&[1, 2, 3]), [false, true, false]);
}

/// An MRA before the early repeat is due makes it needless.
#[test]
fn mra_before_the_repeat() {
    let mut conn = Conn::new(LOCAL).with_early_repeats(true);
    let call = Call::Req(req_call(Transport::Rc));
    let _ = conn.call(&call, Instant(0), |_| Ok::<(), ()>(()));
    let message = Message {
        tid: PEER_TID,
        body: mra(About::Req),
    };
    let actions = conn.receive(&message, &FROM_PEER, None, Instant(10), |_| Claim::Granted);
    assert!(actions.event.is_some());
    assert_eq!(conn.deadline(), None);
    assert_eq!(conn.timer(Instant(2000)), Actions::default());
}

/// A port that waits for the answers of dead peers sends no early repeat of a message that the MAD layer
/// has not sent yet.
#[test]
fn nothing_before_the_message() {
    for dead in [0, 1, 64, 127, 128, 129, 1000] {
        let mut budget = Budget::new(Instant(0));
        // Its early repeats are over.
        for _ in 0..dead {
            budget.take(Instant(1000), dead);
        }
        // The next message is sent if it is among the first ones.
        let waiting = dead + 1;
        let sent = waiting <= WINDOW;
        assert_eq!(budget.take(Instant(60_000), waiting), sent, "{dead}");
    }
}
