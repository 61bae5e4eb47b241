// SPDX-License-Identifier: GPL-2.0

//! Two nodes over a wire that loses, repeats, swaps, delays and forges, in virtual time.
//!
//! A run is decided by its seed. Consumers call at random, also what they may not; a third node
//! sends messages with numbers that it has seen; messages of earlier connections come once more;
//! some messages cannot be posted; a device may be removed. Checked are the invariants:
//!
//! 1. if both sides are established, their queue pairs, PSNs, ids and depths mirror each other;
//! 2. the events of an identifier are in order, with at most one final answer to a REQ, and none
//!    after its end;
//! 3. every exchange ends in time, and in the end nothing is left in tables, timers or sends;
//! 4. keys of peers are unique among live connections, and the tables hold exactly these;
//! 5. no message changes a state that does not accept it;
//! 6. every message that is sent can be parsed;
//! 7. a forged message leaves nothing behind.

mod check;
mod consumer;
mod wire;

use super::rules::Map;
use rdma_cm_engine::proto::conn::Actions;
use rdma_cm_engine::proto::conn::Conn;
use rdma_cm_engine::proto::conn::Destroy;
use rdma_cm_engine::proto::conn::Event;
use rdma_cm_engine::proto::conn::Keep;
use rdma_cm_engine::proto::conn::Path;
use rdma_cm_engine::proto::conn::Route;
use rdma_cm_engine::proto::conn::SendEnd;
use rdma_cm_engine::proto::conn::StateName;
use rdma_cm_engine::proto::conn::To;
use rdma_cm_engine::proto::ids::CommId;
use rdma_cm_engine::proto::ids::Gid;
use rdma_cm_engine::proto::ids::Guid;
use rdma_cm_engine::proto::ids::Instant;
use rdma_cm_engine::proto::ids::SendId;
use rdma_cm_engine::proto::ids::ServiceId;
use rdma_cm_engine::proto::tables::release;
use rdma_cm_engine::proto::tables::IdKey;
use rdma_cm_engine::proto::tables::QpnKey;
use rdma_cm_engine::proto::tables::SidrKey;
use rdma_cm_engine::proto::tables::Table;
use rdma_cm_engine::proto::wire::Kind;
use rdma_cm_engine::proto::wire::MAD;
use rdma_cm_engine::rng::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;

const FORGER: u8 = 2;
const SERVICE: ServiceId = ServiceId(0x0106_0001);
const NOBODY_LISTENS: ServiceId = ServiceId(0x0106_0002);
/// Completion status of a send that was not answered.
const TIMED_OUT: u32 = 12;
/// Local ids are numbers XOR this.
const RANDOM: u32 = 0x9d2c_5680;

fn gid(node: u8) -> Gid {
    Gid([0xf0 + node; 16])
}

fn node_of(gid: Gid) -> Option<usize> {
    let node = usize::from(gid.0[0].wrapping_sub(0xf0));
    (node < 2).then_some(node)
}

/// A route from a node to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rt {
    from: u8,
    to: Gid,
}

impl Route for Rt {
    fn hi_tid(&self) -> u32 {
        u32::from(self.from) + 1
    }
    fn node_guid(&self) -> Guid {
        Guid(0x1000 + u64::from(self.from))
    }
    fn ack_delay(&self) -> u8 {
        self.from + 3
    }
}

/// What the consumer knows of its identifier, from its calls and events alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Idle,
    Asked,
    Replied,
    Offered,
    Accepted,
    Connected,
    Disconnecting,
    AskedToDisconnect,
    Waiting,
    SidrAsked,
    SidrOffered,
    Over,
}

/// A send that is not over.
#[derive(Clone, Copy, Debug)]
struct Tracked {
    id: SendId,
    mad: u32,
    to: Gid,
    timeout: u64,
    left: u8,
    /// Its next repetition or its end.
    at: u64,
    /// Latest time of its end.
    limit: u64,
    cancelled: bool,
}

#[derive(Debug)]
struct Slot {
    conn: Conn<Rt>,
    alive: bool,
    view: View,
    sends: Vec<Tracked>,
    kept: Vec<u8>,
    timer: Option<u64>,
    events: VecDeque<Event>,
    /// Its consumer said that it is established, which need not be true.
    claimed: bool,
    /// How many requests it was used for.
    uses: u32,
}

#[derive(Debug, Default)]
struct Node {
    slots: Vec<Slot>,
    ids: Map<IdKey, u32>,
    qpns: Map<QpnKey, u32>,
    sidr: Map<SidrKey, u32>,
    gone: bool,
    duplicates: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ev {
    Arrive { mad: u32 },
    Retry { node: u8, slot: u32, send: u32 },
    Complete { node: u8, slot: u32, send: u32 },
    Timer { node: u8, slot: u32 },
    Deliver { node: u8, slot: u32 },
    Act,
}

struct Mad {
    bytes: [u8; MAD],
    from: Gid,
    to: usize,
}

struct Config {
    loss: u32,
    twice: u32,
    delay: usize,
    late: u32,
    forge: u32,
    replay: u32,
    not_posted: u32,
    removal: u32,
    /// Messages are repeated early, and have timeouts of seconds.
    early: bool,
    grh: bool,
    has_lid: bool,
    wild: u32,
}

/// What happened in all runs, to see that the test reaches what it should.
#[derive(Debug, Default)]
struct Tally {
    events: [u64; 20],
    mirrored: u64,
    forged: u64,
    replayed: u64,
    stale: u64,
    strangers: u64,
    refused: u64,
    not_posted: u64,
    removals: u64,
    sent: u64,
    early: u64,
    duplicates: u64,
    steps: u64,
}

struct World<'t> {
    now: u64,
    seq: u32,
    heap: BinaryHeap<Reverse<(u64, u32, Ev)>>,
    mads: Vec<Mad>,
    nodes: [Node; 2],
    rng: Rng,
    cfg: Config,
    tally: &'t mut Tally,
    /// Whether to tell what happens.
    trace: bool,
}

/// Invariant 5: states that accept a kind of message, and the states that follow.
fn may_follow(kind: Kind, from: StateName, to: StateName) -> bool {
    use StateName::*;
    let asked = matches!(from, ReqSent | MraReqRcvd);
    let offered = matches!(from, ReqRcvd | MraReqSent);
    let replied = matches!(from, RepSent | MraRepRcvd);
    let got_reply = matches!(from, RepRcvd | MraRepSent);
    from == to
        || match (kind, to) {
            (Kind::Rep, RepRcvd) => asked,
            (Kind::Rtu, Established) => replied,
            (Kind::Mra, MraReqRcvd) => from == ReqSent,
            (Kind::Mra, MraRepRcvd) => from == RepSent,
            (Kind::Rej, Idle) => asked || offered || replied,
            (Kind::Rej, Timewait) => {
                asked || offered || replied || got_reply || matches!(from, Established | DreqSent)
            }
            (Kind::Dreq, DreqRcvd) => replied || matches!(from, Established | DreqSent),
            (Kind::Drep, Timewait) => matches!(from, DreqSent | DreqRcvd),
            (Kind::SidrRep, Idle) => from == SidrReqSent,
            _ => false,
        }
}

impl World<'_> {
    fn at(&mut self, time: u64, ev: Ev) {
        self.seq += 1;
        self.heap.push(Reverse((time, self.seq, ev)));
    }

    fn slot(&mut self, node: u8, slot: u32) -> &mut Slot {
        &mut self.nodes[usize::from(node)].slots[slot as usize]
    }

    /// A response timeout: 4 to 64 ms, or, with early repeats, also 4 seconds.
    fn response_timeout(&mut self) -> u8 {
        if self.cfg.early && self.rng.per_mille(700) {
            20
        } else {
            10 + self.rng.below(5) as u8
        }
    }

    fn now(&self) -> Instant {
        Instant(self.now)
    }

    fn new_slot(&mut self, node: u8, conn: impl FnOnce(CommId) -> Conn<Rt>, view: View) -> u32 {
        let slots = &mut self.nodes[usize::from(node)].slots;
        let slot = slots.len() as u32;
        let id = CommId((u32::from(node) << 16 | (slot + 1)) ^ RANDOM);
        slots.push(Slot {
            conn: conn(id),
            alive: true,
            view,
            sends: Vec::new(),
            kept: Vec::new(),
            timer: None,
            events: VecDeque::new(),
            claimed: false,
            uses: u32::from(view != View::Idle),
        });
        slot
    }

    /// The identifier with a local id. One that is destroyed may be found still.
    fn find(&mut self, node: u8, id: CommId) -> Option<u32> {
        let number = id.0 ^ RANDOM;
        let slot = (number & 0xffff).checked_sub(1)?;
        let is_late = self.rng.per_mille(100);
        let here = number >> 16 == u32::from(node);
        let found = self.nodes[usize::from(node)].slots.get(slot as usize)?;
        (here && (found.alive || is_late)).then_some(slot)
    }

    /// Carries out the actions of a step. `source`: who sent the message of the step.
    fn run(&mut self, node: u8, slot: u32, actions: Actions<Rt>, source: Gid) {
        let now = self.now;
        let index = usize::from(node);
        let Actions {
            cancel,
            extend,
            release: keys,
            release_sidr,
            keep,
            again,
            send,
            duplicate,
            dropped: _,
            event,
        } = actions;
        if let Some(id) = cancel {
            let late = now + self.rng.below(3) as u64;
            let sends = &mut self.slot(node, slot).sends;
            // It may be over already, and its completion on its way.
            if let Some(send) = sends.iter_mut().find(|send| send.id == id) {
                send.cancelled = true;
                let send = id.to_raw();
                self.at(late, Ev::Complete { node, slot, send });
            }
        }
        if let Some((id, ms)) = extend {
            let mut next = None;
            let sends = &mut self.slot(node, slot).sends;
            if let Some(send) = sends.iter_mut().find(|s| s.id == id && !s.cancelled) {
                send.timeout = u64::from(ms);
                send.at = now + send.timeout;
                send.limit = send.at + send.timeout * u64::from(send.left) + 1;
                next = Some(send.at);
            }
            if let Some(time) = next {
                let send = id.to_raw();
                self.at(time, Ev::Retry { node, slot, send });
            }
        }
        if let Some(keys) = keys {
            let tables = &self.nodes[index];
            release(&tables.ids, &tables.qpns, &keys, &slot);
        }
        if let Some(key) = release_sidr {
            self.nodes[index].sidr.remove(&key, &slot);
        }
        if keep == Some(Keep::Nothing) {
            self.slot(node, slot).kept.clear();
        }
        if let Some((id, route)) = again {
            assert_eq!(route.from, node);
            let sends = &self.slot(node, slot).sends;
            let send = sends.iter().find(|s| s.id == id && !s.cancelled);
            if let Some((mad, _)) = send
                .map(|s| (s.mad, s.to))
                .filter(|s| node_of(s.1).is_some())
            {
                self.tally.early += 1;
                self.transmit(mad);
            }
        }
        if let Some(send) = send {
            let to = match send.to {
                To::Route(route) => {
                    assert_eq!(route.from, node);
                    route.to
                }
                To::Sender | To::Stranger => source,
            };
            let kept = self.slot(node, slot).kept.clone();
            self.send_once(node, &send.answer.message(&kept), to);
        }
        let it = self.slot(node, slot);
        let deadline = it.conn.deadline().map(|at| at.0);
        if it.timer != deadline {
            it.timer = deadline;
            if let Some(until) = deadline {
                // It may be early.
                let early = self.rng.below(2) as u64;
                self.at(until.max(now + 1) - early, Ev::Timer { node, slot });
            }
        }
        if duplicate.is_some() {
            self.nodes[index].duplicates += 1;
            self.tally.duplicates += 1;
        }
        if let Some(event) = event {
            let late = now + self.rng.below(3) as u64;
            let it = self.slot(node, slot);
            assert!(it.alive, "an event after the end");
            it.events.push_back(event);
            self.at(late, Ev::Deliver { node, slot });
        }
        self.check(node, slot);
    }

    fn path(&self, from: u8, to: Gid) -> Path<Rt> {
        Path {
            route: Rt { from, to },
            peer: to,
            timeout: 9,
            has_lid: self.cfg.has_lid,
        }
    }

    fn retry(&mut self, node: u8, slot: u32, raw: u32) {
        let now = self.now;
        let sends = &mut self.slot(node, slot).sends;
        let Some(send) = sends
            .iter_mut()
            .find(|s| s.id.to_raw() == raw && s.at == now && !s.cancelled)
        else {
            return;
        };
        if send.left == 0 {
            // Its failure is reported a little later.
            let late = now + self.rng.below(3) as u64;
            let send = raw;
            return self.at(late, Ev::Complete { node, slot, send });
        }
        send.left -= 1;
        send.at = now + send.timeout;
        let (mad, time) = (send.mad, send.at);
        let is_foreign = node_of(send.to).is_none();
        self.at(
            time,
            Ev::Retry {
                node,
                slot,
                send: raw,
            },
        );
        if !is_foreign {
            self.transmit(mad);
        }
    }

    fn complete(&mut self, node: u8, slot: u32, raw: u32) {
        let now = self.now();
        let it = self.slot(node, slot);
        let Some(at) = it.sends.iter().position(|s| s.id.to_raw() == raw) else {
            return;
        };
        let send = it.sends.swap_remove(at);
        // Invariant 3.
        assert!(send.cancelled || now.0 <= send.limit + 3, "a late end");
        let end = if send.cancelled {
            SendEnd::Ended
        } else {
            SendEnd::Failed(TIMED_OUT)
        };
        let actions = it.conn.send_ended(send.id, end, now);
        self.run(node, slot, actions, gid(FORGER));
    }

    fn timer(&mut self, node: u8, slot: u32) {
        let now = self.now();
        let it = self.slot(node, slot);
        let actions = it.conn.timer(now);
        let deadline = it.timer.take();
        if actions.event.is_some() || actions.again.is_some() {
            assert!(deadline.is_some_and(|until| until <= now.0));
        }
        self.run(node, slot, actions, gid(FORGER));
    }

    fn destroy(&mut self, node: u8, slot: u32, why: Destroy) {
        let it = self.slot(node, slot);
        if !it.alive {
            return;
        }
        let was = it.conn.state();
        let actions = it.conn.destroy(why);
        if self.trace {
            let now = self.now;
            eprintln!("{now} node {node} id {slot}: destroyed in {was:?}");
        }
        assert_eq!(actions.event, None);
        if why == Destroy::NoMemory && was == StateName::ReqRcvd {
            assert_eq!(actions.send, None);
        }
        self.run(node, slot, actions, gid(FORGER));
        let it = self.slot(node, slot);
        it.alive = false;
        it.view = View::Over;
        it.events.clear();
        it.timer = None;
        assert_eq!(it.conn.state(), StateName::Idle);
        assert_eq!(it.conn.keys(), None);
        assert!(it.kept.is_empty());
        self.check_tables();
    }

    fn remove_device(&mut self) {
        let node = self.rng.below(2) as u8;
        self.tally.removals += 1;
        for slot in 0..self.nodes[usize::from(node)].slots.len() as u32 {
            let it = self.slot(node, slot);
            if !it.alive {
                continue;
            }
            let actions = it.conn.device_gone();
            assert_eq!((actions.event, actions.send), (None, None));
            self.run(node, slot, actions, gid(FORGER));
            let it = self.slot(node, slot);
            // Consumers destroy their identifiers when they learn of it.
            it.view = View::Over;
            it.events.clear();
            it.timer = None;
            assert_eq!(it.conn.keys(), None);
        }
        self.nodes[usize::from(node)].gone = true;
        self.check_tables();
    }

    fn until_quiet(&mut self, disturbed: bool) {
        while let Some(Reverse((time, _, ev))) = self.heap.pop() {
            assert!(time >= self.now);
            self.now = time;
            self.tally.steps += 1;
            match ev {
                Ev::Arrive { mad } => self.arrive(mad),
                Ev::Retry { node, slot, send } => self.retry(node, slot, send),
                Ev::Complete { node, slot, send } => self.complete(node, slot, send),
                Ev::Timer { node, slot } => self.timer(node, slot),
                Ev::Deliver { node, slot } => self.deliver(node, slot),
                Ev::Act => {
                    self.act();
                    self.check_tables();
                    if disturbed {
                        self.disturb();
                    }
                }
            }
        }
    }

    fn run_all(&mut self) {
        let acts = 4 + self.rng.below(14);
        let span = 20 + self.rng.below(1500);
        for _ in 0..acts {
            let time = self.rng.below(span) as u64;
            self.at(time, Ev::Act);
        }
        self.until_quiet(true);
        self.check_quiet();
        if self.rng.per_mille(self.cfg.removal) {
            // In the midst of what a few more acts begin.
            for _ in 0..4 {
                self.act();
            }
            self.remove_device();
            self.until_quiet(false);
            self.check_quiet();
        }
        for node in 0..2 {
            for slot in 0..self.nodes[usize::from(node)].slots.len() as u32 {
                self.destroy(node, slot, Destroy::Consumer);
            }
        }
        self.until_quiet(false);
        self.check_quiet();
        for node in &self.nodes {
            // What came late from earlier connections may have made new ones.
            let all_over = node.slots.iter().all(|it| !it.alive);
            if all_over {
                assert!(node.ids.0.borrow().is_empty());
                assert!(node.qpns.0.borrow().is_empty());
                assert!(node.sidr.0.borrow().is_empty());
            }
        }
    }
}

fn config(rng: &mut Rng) -> Config {
    let pick = |rng: &mut Rng, from: &[u32]| from[rng.below(from.len())];
    Config {
        loss: pick(rng, &[0, 0, 10, 100, 400, 900]),
        twice: pick(rng, &[0, 10, 200]),
        delay: [1, 3, 30, 200][rng.below(4)],
        late: pick(rng, &[0, 5, 50]),
        forge: pick(rng, &[0, 100, 700]),
        replay: pick(rng, &[0, 100, 500]),
        not_posted: pick(rng, &[0, 0, 20, 200]),
        removal: pick(rng, &[0, 0, 500]),
        early: rng.per_mille(400),
        grh: !rng.per_mille(250),
        has_lid: rng.per_mille(500),
        wild: pick(rng, &[0, 50, 300]),
    }
}

fn run(seed: u64, trace: bool, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let cfg = config(&mut rng);
    let mut world = World {
        now: 0,
        seq: 0,
        heap: BinaryHeap::new(),
        mads: Vec::new(),
        nodes: [Node::default(), Node::default()],
        rng,
        cfg,
        tally,
        trace,
    };
    world.run_all();
}

/// A seed that fails, if any.
fn failing(seeds: std::ops::Range<u64>, tally: &mut Tally) -> Option<u64> {
    seeds.into_iter().find(|&seed| {
        let run = std::panic::AssertUnwindSafe(|| run(seed, false, tally));
        std::panic::catch_unwind(run).is_err()
    })
}

#[test]
fn two_nodes() {
    let mut tally = Tally::default();
    let runs = 100_000;
    let start = std::time::Instant::now();
    if let Some(seed) = failing(0..runs, &mut tally) {
        panic!("seed {seed} fails: CM_SEED={seed} repeats it alone");
    }
    println!("{runs} runs in {:?}: {tally:?}", start.elapsed());
    // All was reached.
    for number in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17] {
        assert!(tally.events[number] > 100, "event {number}");
    }
    assert!(tally.mirrored > 10_000);
    assert!(tally.forged > 10_000);
    assert!(tally.stale > 100);
    assert!(tally.strangers > 100);
    assert!(tally.removals > 1000);
    assert!(tally.early > 1000);
}

/// Repeats one run: `CM_SEED=n cargo test -p rdma-cm-engine one_seed -- --nocapture`.
#[test]
fn one_seed() {
    if let Some(seed) = std::env::var("CM_SEED").ok().and_then(|s| s.parse().ok()) {
        run(seed, true, &mut Tally::default());
    }
}
