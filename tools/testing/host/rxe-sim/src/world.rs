// SPDX-License-Identifier: GPL-2.0

//! Two nodes, a bad wire between them, and virtual time.

use std::collections::BTreeMap;

use crate::node::Node;
use crate::proto::types::Nanos;
use crate::rng::Rng;

/// How bad the wire is; chances are in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Lost.
    pub loss: u32,
    /// Delivered twice.
    pub duplicate: u32,
    /// Held back so that later ones overtake.
    pub late: u32,
    /// Handed over while the wire has no room, once in a while.
    pub blocked: u32,
    /// Memory that a node wants and has to wait for.
    pub absent: u32,
    /// Least time on the wire.
    pub delay: u64,
    /// Extra time of a late one, at most.
    pub lateness: u64,
}

impl Weather {
    /// Nothing ever goes wrong.
    pub const FINE: Weather = Weather {
        loss: 0,
        duplicate: 0,
        late: 0,
        blocked: 0,
        absent: 0,
        delay: 1000,
        lateness: 0,
    };
}

/// A switch on the way whose line is slower than what it is fed with.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck {
    /// What one packet takes.
    pub each: u64,
    /// Packets that wait before those that come are marked.
    pub mark: u64,
    /// Packets that wait before those that come are dropped.
    pub limit: u64,
    /// When its line is free again.
    pub free: u64,
    /// The most packets that waited.
    pub longest: u64,
    /// Packets dropped.
    pub dropped: u64,
}

/// Something that will happen.
#[derive(Clone, Debug)]
enum Event {
    /// A datagram arrives at this node.
    Arrive(usize, Vec<u8>),
    /// It met congestion.
    ArriveMarked(usize, Vec<u8>),
    /// The wire takes datagrams of this node again.
    Room(usize),
    /// Memory is there for this node, at least this time.
    Memory(usize),
    /// The test does something: the number is the test's.
    Script(u32),
}

/// Two nodes and what is between them.
#[derive(Debug)]
pub struct World {
    /// The nodes.
    pub nodes: [Node; 2],
    /// The time.
    pub now: Nanos,
    /// Chance.
    pub rng: Rng,
    /// How bad the wire is.
    pub weather: Weather,
    /// On the way from node 0 to node 1.
    pub bottleneck: Option<Bottleneck>,
    /// How much one poll may do.
    pub budget: u32,
    /// Datagrams handed to the wire so far.
    pub carried: u64,
    /// Whether the nodes are on one machine, each as the other sees it.
    pub beside: [bool; 2],
    /// Requests and answers that went beside the wire so far.
    pub visits: u64,
    future: BTreeMap<(u64, u64), Event>,
    serial: u64,
}

impl World {
    /// A world with these nodes.
    pub fn new(nodes: [Node; 2], weather: Weather, rng: Rng) -> Self {
        Self {
            nodes,
            now: Nanos(0),
            rng,
            weather,
            bottleneck: None,
            budget: 64,
            carried: 0,
            beside: [false; 2],
            visits: 0,
            future: BTreeMap::new(),
            serial: 0,
        }
        .with_memory()
    }

    /// Gives the nodes memory that comes and goes.
    fn with_memory(mut self) -> Self {
        for node in &mut self.nodes {
            let rng = Rng::new(self.rng.any());
            node.host.absent = (self.weather.absent != 0).then_some((self.weather.absent, rng));
        }
        self
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.serial += 1;
        self.future.insert((at, self.serial), event);
    }

    /// Has the script called with this number at that time.
    pub fn script_at(&mut self, at: u64, number: u32) {
        self.plan(at, Event::Script(number));
    }

    /// Polls a node, and has it talk with the other if that is beside it.
    pub fn poll(&mut self, who: usize) {
        self.poll_one(who);
        for _ in 0..100_000 {
            if !self.talk(who) && !self.talk(1 - who) {
                return;
            }
        }
        panic!("talking does not end");
    }

    /// A turn of what `who` has for the other node, and the answers. Whether there was
    /// anything.
    fn talk(&mut self, who: usize) -> bool {
        let requests = std::mem::take(&mut self.nodes[who].host.beside.requests);
        let poked = std::mem::take(&mut self.nodes[1 - who].host.beside.poked);
        if requests.is_empty() && !poked {
            return false;
        }
        let mut requests = requests.into_iter();
        let mut answers = Vec::new();
        let mut owed = poked;
        let mut back = None;
        loop {
            let request = back.take().or_else(|| requests.next());
            if request.is_none() && !owed {
                break;
            }
            let (some, more, again) = self.nodes[1 - who].visit(request, self.budget);
            back = again;
            self.visits += 1;
            answers.extend(some);
            owed = more;
            if self.rng.one_in(2) {
                self.nodes[who].hear(self.now, std::mem::take(&mut answers));
            }
        }
        self.nodes[who].hear(self.now, answers);
        self.poll_one(1 - who);
        self.poll_one(who);
        true
    }

    /// Polls a node and puts what it sends on the wire.
    fn poll_one(&mut self, who: usize) {
        let open = self.beside[who] && self.nodes[1 - who].hears_requests();
        self.nodes[who].host.beside.open = open;
        if self.nodes[who].host.room.is_none() && self.rng.permille(self.weather.blocked) {
            self.nodes[who].host.room = Some(self.rng.below(4));
            let at = self.now.0 + u64::from(self.rng.below(5000));
            self.plan(at, Event::Room(who));
        }
        self.nodes[who].poll(self.now, self.budget);
        if std::mem::take(&mut self.nodes[who].host.faulted) {
            let at = self.now.0 + u64::from(self.rng.below(3000));
            self.plan(at, Event::Memory(who));
        }
        for datagram in std::mem::take(&mut self.nodes[who].host.out) {
            self.carried += 1;
            if self.rng.permille(self.weather.loss) {
                continue;
            }
            if let (0, Some(way)) = (who, &mut self.bottleneck) {
                let now = self.now.0;
                way.free = way.free.max(now);
                let waiting = (way.free - now) / way.each;
                way.longest = way.longest.max(waiting);
                if waiting >= way.limit {
                    way.dropped += 1;
                    continue;
                }
                way.free += way.each;
                let at = way.free + self.weather.delay;
                let event = if waiting >= way.mark {
                    Event::ArriveMarked(1, datagram)
                } else {
                    Event::Arrive(1, datagram)
                };
                self.plan(at, event);
                continue;
            }
            let copies = if self.rng.permille(self.weather.duplicate) {
                2
            } else {
                1
            };
            for _ in 0..copies {
                let mut at = self.now.0 + self.weather.delay;
                if self.rng.permille(self.weather.late) {
                    at += 1 + self.rng.any() % self.weather.lateness.max(1);
                }
                self.plan(at, Event::Arrive(1 - who, datagram.clone()));
            }
        }
    }

    /// Goes on to the next event: a planned one, or a node's deadline. `false` if
    /// there is none.
    pub fn step(&mut self, script: &mut impl FnMut(&mut World, u32)) -> bool {
        let planned = self.future.keys().next().map(|&(at, _)| at);
        let due = (0..2)
            .filter_map(|who| Some((self.nodes[who].send.next_deadline()?.0, who)))
            .min();
        let late = (0..2)
            .filter_map(|who| Some((self.nodes[who].late_at(self.now)?, who)))
            .min();
        if let Some((at, who)) = late {
            let others = [planned, due.map(|(at, _)| at)];
            if others.into_iter().flatten().all(|other| at < other) {
                self.now = Nanos(self.now.0.max(at));
                self.nodes[who].late(self.now);
                self.poll(who);
                return true;
            }
        }
        match (planned, due) {
            (None, None) => return false,
            (planned, Some((at, who))) if planned.is_none_or(|planned| at < planned) => {
                self.now = Nanos(self.now.0.max(at));
                let node = &mut self.nodes[who];
                node.send.on_timer(self.now, &mut node.host);
                self.poll(who);
            }
            (_, _) => {
                let ((at, _), event) = self.future.pop_first().expect("a planned event");
                self.now = Nanos(self.now.0.max(at));
                self.happen(event, script);
            }
        }
        true
    }

    fn happen(&mut self, event: Event, script: &mut impl FnMut(&mut World, u32)) {
        match event {
            Event::Arrive(who, datagram) => {
                let _ = self.nodes[who].receive(self.now, &datagram);
                // Sometimes a run of packets is handled before polling.
                while self.rng.one_in(2) {
                    let Some(entry) = self.future.first_entry() else {
                        break;
                    };
                    match entry.get() {
                        Event::Arrive(to, _) if *to == who && entry.key().0 <= self.now.0 => {
                            let Event::Arrive(_, datagram) = entry.remove() else {
                                break;
                            };
                            let _ = self.nodes[who].receive(self.now, &datagram);
                        }
                        _ => break,
                    }
                }
                self.poll(who);
            }
            Event::ArriveMarked(who, datagram) => {
                let _ = self.nodes[who].receive(self.now, &datagram);
                self.nodes[who].marked(self.now, &datagram);
                self.poll(who);
            }
            Event::Room(who) => {
                self.nodes[who].host.room = None;
                self.poll(who);
            }
            Event::Memory(who) => {
                self.nodes[who].unpark(self.now);
                self.poll(who);
            }
            Event::Script(number) => script(self, number),
        }
    }

    /// Runs until nothing is left to happen. Panics if that takes too long.
    pub fn run(&mut self, script: &mut impl FnMut(&mut World, u32)) {
        self.poll(0);
        self.poll(1);
        for _ in 0..1_000_000 {
            if !self.step(script) {
                return;
            }
        }
        panic!("the world does not come to rest");
    }
}
