// SPDX-License-Identifier: GPL-2.0

//! Two RC queue pairs, random requests, and a wire that does its worst.
//!
//! The oracle is a model that carries out the requests in order, once each, at the
//! moment they are invented. Whatever the wire does, both nodes must end up there.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rxe_sim::host::PostedRecv;
use rxe_sim::host::PostedSend;
use rxe_sim::host::Region;
use rxe_sim::node::DelayedAcks;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::rng::Rng;
use rxe_sim::wire::RnrTimer;
use rxe_sim::world::Weather;
use rxe_sim::world::World;

/// Seeds per test.
const RUNS: u64 = 10_000;

const WRITE_KEY: Key = Key(0x100);
const READ_KEY: Key = Key(0x200);
const CELL_KEY: Key = Key(0x300);
const CELLS: u64 = 6;

/// One direction of traffic: requests of one node, and what they must come to.
#[derive(Default)]
struct Traffic {
    sends: VecDeque<PostedSend>,
    recvs: VecDeque<PostedRecv>,
    /// What each request's buffer must hold in the end.
    bufs: Vec<Vec<u8>>,
    wqes: Vec<SendWqe>,
    received: Vec<(RecvCompletion, Vec<u8>)>,
    /// What the peer's memory must hold in the end.
    written: Vec<u8>,
    cells: Vec<u64>,
    cells_at_start: Vec<u64>,
    constant: Vec<u8>,
    messages: u32,
    atomics: u32,
    /// How many receives and written bytes there were before each request.
    before: Vec<(usize, usize)>,
}

struct Inventor<'a> {
    rng: &'a mut Rng,
    t: Traffic,
    base: u64,
    mtu: u32,
}

impl Inventor<'_> {
    fn len(&mut self) -> u32 {
        let mtu = self.mtu;
        match self.rng.below(8) {
            0 => 0,
            1 => mtu,
            2 => mtu * self.rng.below(5),
            3 => mtu * (1 + self.rng.below(4)) + 1,
            4 => 1,
            _ => self.rng.below(mtu * 6),
        }
    }

    fn recv(&mut self, opcode: WcOpcode, data: &[u8], imm: Option<[u8; 4]>, inv: Option<Key>) {
        let wr_id = self.t.received.len() as u64;
        let takes = if opcode == WcOpcode::Recv { data } else { &[] };
        let mut buf = vec![0x55; takes.len() + self.rng.below(9) as usize];
        self.t.recvs.push_back(PostedRecv {
            wr_id,
            good: true,
            buf: buf.clone(),
        });
        buf[..takes.len()].copy_from_slice(takes);
        let completion = RecvCompletion {
            wr_id,
            status: WcStatus::Success,
            opcode,
            byte_len: data.len() as u32,
            imm,
            invalidated: inv,
            src_qpn: None,
            solicited: false,
        };
        self.t.received.push((completion, buf));
    }

    /// Room in the peer's write area, used once.
    fn write(&mut self, data: &[u8]) -> u64 {
        let va = self.base + self.t.written.len() as u64;
        self.t.written.extend(data);
        va
    }

    fn push(&mut self, op: SendOp, length: u32, buf: Vec<u8>, end: Vec<u8>, recvs: usize) {
        let flags = SendFlags {
            signaled: !self.rng.one_in(3),
            solicited: self.rng.one_in(4),
            fence: self.rng.one_in(5),
        };
        let wqe = SendWqe {
            wr_id: self.t.wqes.len() as u64,
            op,
            flags,
            length,
            ud: None,
        };
        if let Some((completion, _)) = self.t.received.get_mut(recvs) {
            completion.solicited = flags.solicited;
        }
        self.t.wqes.push(wqe);
        self.t.bufs.push(end);
        self.t.sends.push_back(PostedSend { wqe: Ok(wqe), buf });
    }

    fn invent(&mut self) {
        let recvs = self.t.received.len();
        self.t.before.push((recvs, self.t.written.len()));
        let imm = self
            .rng
            .one_in(2)
            .then_some([1, 2, 3, self.t.wqes.len() as u8]);
        let cell = self.rng.below(CELLS as u32) as usize;
        let va = self.base + 8 * cell as u64;
        let found = self.t.cells[cell];
        self.t.messages += 1;
        match self.rng.below(11) {
            0..=2 => {
                let len = self.len();
                let data = self.rng.bytes(len);
                self.recv(WcOpcode::Recv, &data, imm, None);
                self.push(
                    SendOp::Send { imm },
                    data.len() as u32,
                    data.clone(),
                    data,
                    recvs,
                );
            }
            3 => {
                let len = self.len();
                let data = self.rng.bytes(len);
                let key = Key(1 + self.rng.below(99));
                self.recv(WcOpcode::Recv, &data, None, Some(key));
                self.push(
                    SendOp::SendInv { key },
                    data.len() as u32,
                    data.clone(),
                    data,
                    recvs,
                );
            }
            4..=5 => {
                let len = self.len();
                let data = self.rng.bytes(len);
                let (va, key) = if data.is_empty() {
                    // C9-88: an empty write names nothing.
                    (self.rng.any(), Key(self.rng.any32()))
                } else {
                    (self.write(&data), WRITE_KEY)
                };
                if imm.is_some() {
                    self.recv(WcOpcode::RecvRdmaWithImm, &data, imm, None);
                }
                let op = SendOp::Write { va, key, imm };
                self.push(op, data.len() as u32, data.clone(), data, recvs);
            }
            6..=7 => {
                let (from, key) = if self.rng.one_in(2) {
                    (&self.t.constant, READ_KEY)
                } else {
                    (&self.t.written, WRITE_KEY)
                };
                let from = from.clone();
                let len = self.len().min(from.len() as u32);
                let start = self.rng.below(from.len() as u32 - len + 1) as usize;
                let want = from[start..start + len as usize].to_vec();
                let va = self.base + start as u64;
                let op = SendOp::Read { va, key };
                self.push(op, len, vec![0xaa; len as usize], want, recvs);
            }
            8 => {
                let add = self.rng.any();
                self.t.cells[cell] = found.wrapping_add(add);
                self.t.atomics += 1;
                let op = SendOp::FetchAdd {
                    va,
                    key: CELL_KEY,
                    add,
                };
                self.push(op, 8, vec![0; 8], found.to_ne_bytes().to_vec(), recvs);
            }
            9 => {
                let compare = if self.rng.one_in(3) {
                    self.rng.any()
                } else {
                    found
                };
                let swap = self.rng.any();
                if compare == found {
                    self.t.cells[cell] = swap;
                }
                self.t.atomics += 1;
                let op = SendOp::CompareSwap {
                    va,
                    key: CELL_KEY,
                    compare,
                    swap,
                };
                self.push(op, 8, vec![0; 8], found.to_ne_bytes().to_vec(), recvs);
            }
            _ => match self.rng.below(4) {
                0 => {
                    let value = self.rng.any();
                    self.t.cells[cell] = value;
                    let value = value.to_ne_bytes();
                    let op = SendOp::AtomicWrite {
                        va,
                        key: CELL_KEY,
                        value,
                    };
                    self.push(op, 8, vec![], vec![], recvs);
                }
                1 => {
                    let level = self.rng.below(2) as u8;
                    let (va, key, length) = (self.base, READ_KEY, 16);
                    let op = SendOp::Flush {
                        va,
                        key,
                        length,
                        kind: 1,
                        level,
                    };
                    self.push(op, 0, vec![], vec![], recvs);
                }
                _ => {
                    self.t.messages -= 1;
                    let op = self.rng.pick(&[
                        SendOp::LocalInv { key: Key(7) },
                        SendOp::RegMr,
                        SendOp::BindMw,
                    ]);
                    self.push(op, 0, vec![], vec![], recvs);
                }
            },
        }
    }
}

fn traffic(rng: &mut Rng, count: u32, base: u64, mtu: u32) -> Traffic {
    let mut t = Traffic {
        constant: rng.bytes(mtu * 7),
        ..Traffic::default()
    };
    t.cells = (0..CELLS).map(|_| rng.any()).collect();
    t.cells_at_start = t.cells.clone();
    let mut inventor = Inventor { rng, t, base, mtu };
    for _ in 0..count {
        inventor.invent();
    }
    inventor.t
}

fn cell_bytes(cells: &[u64]) -> Vec<u8> {
    cells.iter().flat_map(|cell| cell.to_ne_bytes()).collect()
}

/// What the regions hold before `t`.
fn regions(t: &Traffic, base: u64) -> Vec<Region> {
    let all = AccessFlags::REMOTE_READ
        .with(AccessFlags::REMOTE_WRITE)
        .with(AccessFlags::REMOTE_ATOMIC)
        .with(AccessFlags::FLUSH_GLOBAL);
    let region = |key, bytes| Region {
        key,
        base,
        bytes,
        access: all,
        valid: true,
    };
    vec![
        region(WRITE_KEY, vec![0; t.written.len()]),
        region(READ_KEY, t.constant.clone()),
        region(CELL_KEY, cell_bytes(&t.cells_at_start)),
    ]
}

fn attrs(rng: &mut Rng, mtu: u32) -> (SendAttr, RecvAttr) {
    let mut send = SendAttr::new(QpType::Rc, Qpn(17));
    send.dest = Qpn(18);
    send.mtu = mtu;
    send.timeout = Some(Nanos(20_000 + rng.any() % 100_000));
    send.retry = RetryLimit::Endless;
    send.rnr_retry = RetryLimit::Endless;
    send.max_rd_atomic = 1 + rng.below(4);
    send.window = 1 + rng.below(40);
    let mut recv = RecvAttr::new(QpType::Rc);
    recv.dest = Qpn(18);
    recv.mtu = mtu;
    recv.access = AccessFlags(!0);
    recv.rnr_timer = RnrTimer::new(1 + rng.below(4) as u8);
    (send, recv)
}

fn weather(rng: &mut Rng) -> Weather {
    if rng.one_in(8) {
        return Weather::FINE;
    }
    Weather {
        loss: rng.pick(&[0, 10, 100, 250]),
        duplicate: rng.pick(&[0, 10, 100]),
        late: rng.pick(&[0, 10, 100, 300]),
        blocked: rng.pick(&[0, 0, 50, 300]),
        absent: rng.pick(&[0, 0, 50, 300]),
        delay: 200 + rng.any() % 2000,
        lateness: rng.pick(&[500, 5_000, 200_000]),
    }
}

/// Whether the two nodes are on one machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Never,
    Always,
    /// It comes and goes, for each node by itself.
    Sometimes,
}

/// Two nodes, node `i` sending `ts[i]`, of which the receive requests and some of the
/// send requests come over time.
fn world(mut rng: Rng, ts: &[Traffic; 2], mtu: u32, base: u64, beside: Beside) -> World {
    let psns = [0, 1].map(|_| {
        if rng.one_in(2) {
            0x00ff_ffff - rng.below(60)
        } else {
            rng.any32()
        }
    });
    let nodes = [0, 1].map(|i| {
        let (send, recv) = attrs(&mut rng, mtu);
        // As many as the peer may ask, whatever that is.
        let mut node = Node::new(send, recv, 1 + rng.below(20) as usize, 4);
        node.host.regions = regions(&ts[1 - i], base);
        node.ready(psns[i], psns[1 - i]);
        node
    });
    let weather = weather(&mut rng);
    let mut world = World::new(nodes, weather, rng);
    for (node, is) in world.nodes.iter_mut().zip(&mut world.beside) {
        node.host.beside.piece = world.rng.pick(&[1, 2, 8]) * mtu * 3 / 2;
        node.host.beside.most = 1 + world.rng.below(9) as usize;
        *is = beside == Beside::Always || (beside == Beside::Sometimes && world.rng.one_in(2));
    }
    if weather.loss + weather.late == 0 && beside != Beside::Sometimes {
        // When nothing is lost, nothing may need the timer.
        for node in &mut world.nodes {
            let mut attr = *node.send.attr();
            attr.timeout = None;
            node.send.set_attr(attr);
        }
    }
    world.budget = 1 + world.rng.below(70);
    for (i, t) in ts.iter().enumerate() {
        let slow = world.rng.pick(&[1, 2_000, 40_000]);
        for _ in 0..t.recvs.len() {
            let at = world.rng.any() % slow;
            world.script_at(at, 2 + i as u32);
        }
        for _ in 0..t.sends.len() {
            let at = world.rng.any() % 20_000;
            world.script_at(at, i as u32);
        }
        for _ in 0..world.rng.pick(&[0, 0, 0, 1, 4]) {
            let at = world.rng.any() % 50_000;
            world.script_at(at, 4 + i as u32);
        }
        if beside == Beside::Sometimes {
            for _ in 0..world.rng.below(9) {
                let at = world.rng.any() % 50_000;
                world.script_at(at, 6 + i as u32);
            }
            world.script_at(60_000, 8 + i as u32);
        }
    }
    world
}

/// Script: 0 and 1 post one send at that node, 2 and 3 one receive for its traffic;
/// 4 and 5 drain its send queue, which goes on when it is drained; 6 and 7 open or close
/// the way to a peer beside it, 8 and 9 open it.
fn post(world: &mut World, ts: &mut [Traffic; 2], number: u32) {
    let i = (number % 2) as usize;
    if number < 2 {
        world.nodes[i].host.sq.extend(ts[i].sends.pop_front());
        world.poll(i);
    } else if number >= 6 {
        world.beside[i] = number >= 8 || !world.beside[i];
        world.poll(i);
    } else if number >= 4 {
        world.nodes[i].resume = true;
        let _ = world.nodes[i].modify(QpState::Sqd);
        world.poll(i);
    } else {
        // A receive queue has no doorbell.
        world.nodes[1 - i].host.rq.extend(ts[i].recvs.pop_front());
    }
}

fn check(world: &World, ts: &[Traffic; 2]) {
    for (i, t) in ts.iter().enumerate() {
        let (from, to) = (&world.nodes[i], &world.nodes[1 - i]);
        assert_eq!(from.host.in_queue(), 0, "not all sent");
        assert_eq!(from.state, QpState::Rts);
        assert!(
            from.host.events.iter().all(|e| *e == QpEvent::SqDrained),
            "events"
        );
        let bufs: Vec<_> = from.host.sent.iter().map(|p| &p.buf).collect();
        for (k, (got, want)) in bufs.iter().zip(&t.bufs).enumerate() {
            if want.len() == got.len() {
                assert_eq!(*got, want, "buffer of request {k}: {:?}", t.wqes[k]);
            }
        }
        assert_eq!(bufs.len(), t.wqes.len());
        let done: Vec<_> = from
            .host
            .send_cq
            .iter()
            .map(|c| (c.wr_id, c.status))
            .collect();
        let want: Vec<_> = (t.wqes.iter().filter(|w| w.flags.signaled))
            .map(|w| (w.wr_id, WcStatus::Success))
            .collect();
        assert_eq!(done, want, "completions");
        assert_eq!(to.host.recv_cq, t.received, "receives");
        assert_eq!(to.host.regions[0].bytes, t.written, "memory");
        assert_eq!(to.host.regions[2].bytes, cell_bytes(&t.cells), "cells");
        assert_eq!(to.host.atomics_run, t.atomics, "an atomic ran twice");
        assert_eq!(from.send.psn(), to.recv.psn(), "PSNs");
        assert_eq!(to.recv.msn().get(), t.messages, "MSN");
        assert_eq!(from.send.next_deadline(), None, "a timer is left");
    }
}

/// Runs each seed, and names the one that fails. `RUNS=n` in the environment asks for
/// more or fewer of them, `SEED=n` for one alone.
fn for_seeds(name: &str, run: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let number = |name| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RUNS").unwrap_or(RUNS),
    };
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("{name}: seed {seed} fails; run it alone with SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Everything that can work works, both ways at once, whatever the wire does.
#[test]
fn all_arrives_once_in_order() {
    all_arrives("all_arrives_once_in_order", Beside::Never);
}

/// The same between two nodes on one machine. Nothing touches the wire then.
#[test]
fn all_arrives_beside() {
    all_arrives("all_arrives_beside", Beside::Always);
}

/// The same if the way comes and goes.
#[test]
fn all_arrives_one_way_or_the_other() {
    all_arrives("all_arrives_one_way_or_the_other", Beside::Sometimes);
}

/// The same if acknowledgements wait for company wherever they may, whoever answers or not.
/// None is lost: where nothing is lost on the wire, no timer but theirs is needed.
#[test]
fn all_arrives_though_acknowledgements_wait() {
    let (taken, late) = (AtomicU64::new(0), AtomicU64::new(0));
    arrives(
        "all_arrives_though_acknowledgements_wait",
        Beside::Never,
        |world| {
            for node in &mut world.nodes {
                node.delayed_acks = Some(DelayedAcks::always());
            }
        },
        |world| {
            for delayed_acks in world
                .nodes
                .iter()
                .filter_map(|node| node.delayed_acks.as_ref())
            {
                assert!(!delayed_acks.rule.holds(), "one waits for ever");
                taken.fetch_add(delayed_acks.taken, Relaxed);
                late.fetch_add(delayed_acks.late, Relaxed);
            }
        },
    );
    let (taken, late) = (taken.into_inner(), late.into_inner());
    assert!(taken > 0 && late > 0, "{taken} taken, {late} late");
}

fn all_arrives(name: &str, beside: Beside) {
    arrives(name, beside, |_| {}, |_| {});
}

fn arrives(
    name: &str,
    beside: Beside,
    prepare: impl Fn(&mut World) + std::panic::RefUnwindSafe,
    look: impl Fn(&World) + std::panic::RefUnwindSafe,
) {
    for_seeds(name, |seed| {
        let mut rng = Rng::new(seed);
        let (mtu, base) = (
            rng.pick(&[4, 16, 16, 60, 256]),
            rng.any() & 0xffff_ffff_fff8,
        );
        let mut ts = [0, 1].map(|_| {
            let count = rng.below(40);
            traffic(&mut rng, count, base, mtu)
        });
        let mut world = world(rng, &ts, mtu, base, beside);
        prepare(&mut world);
        world.run(&mut |world, number| post(world, &mut ts, number));
        check(&world, &ts);
        look(&world);
        match beside {
            Beside::Never => assert_eq!(world.visits, 0),
            Beside::Always => assert_eq!(world.carried, 0),
            Beside::Sometimes => {}
        }
    });
}

/// How a request of our making must fail.
struct Trap {
    status: WcStatus,
    /// The peer notices it, not we.
    remote: bool,
    /// It fails when its response comes, and later requests may have worked by then.
    late: bool,
}

/// Adds a request that must fail.
fn set_trap(inventor: &mut Inventor<'_>) -> Trap {
    let recvs = inventor.t.received.len();
    inventor.t.before.push((recvs, inventor.t.written.len()));
    let base = inventor.base;
    let mtu = inventor.mtu;
    let data = inventor.rng.bytes(2 * mtu + 1);
    let len = data.len() as u32;
    let remote = |status| Trap {
        status,
        remote: true,
        late: false,
    };
    let local = |status| Trap {
        status,
        remote: false,
        late: false,
    };
    let no_key = Key(0x999);
    match inventor.rng.below(10) {
        0 => {
            let op = SendOp::Write {
                va: base,
                key: no_key,
                imm: None,
            };
            inventor.push(op, len, data, vec![], recvs);
            remote(WcStatus::RemAccess)
        }
        1 => {
            let op = SendOp::Read {
                va: base + 1,
                key: READ_KEY,
            };
            let len = inventor.t.constant.len() as u32;
            inventor.push(op, len, vec![0; len as usize], vec![], recvs);
            remote(WcStatus::RemAccess)
        }
        2 => {
            let op = SendOp::FetchAdd {
                va: base + 4,
                key: CELL_KEY,
                add: 1,
            };
            inventor.push(op, 8, vec![0; 8], vec![], recvs);
            remote(WcStatus::RemInvReq)
        }
        3 => {
            inventor.recv(WcOpcode::Recv, &data[..1], None, None);
            inventor
                .t
                .recvs
                .back_mut()
                .expect("just made")
                .buf
                .truncate(3);
            let op = SendOp::Send { imm: None };
            inventor.push(op, len, data, vec![], recvs);
            remote(WcStatus::RemInvReq)
        }
        4 => {
            inventor.recv(WcOpcode::Recv, &data, None, None);
            let op = SendOp::Send { imm: None };
            // Half of it cannot be read.
            inventor.push(op, len, data[..mtu as usize].to_vec(), vec![], recvs);
            local(WcStatus::LocProt)
        }
        5 => {
            inventor.push(SendOp::RegMr, 0, vec![], vec![], recvs);
            let bad = Err((inventor.t.wqes.len() as u64 - 1, WcStatus::LocQpOp));
            inventor.t.sends.back_mut().expect("just made").wqe = bad;
            local(WcStatus::LocQpOp)
        }
        6 => {
            inventor.recv(WcOpcode::Recv, &data, None, None);
            let op = SendOp::SendInv { key: Key(0) };
            inventor.push(op, len, data, vec![], recvs);
            remote(WcStatus::RemAccess)
        }
        7 => {
            let op = SendOp::Read {
                va: base,
                key: READ_KEY,
            };
            inventor.push(op, 2 * mtu, vec![0; mtu as usize], vec![], recvs);
            Trap {
                late: true,
                ..local(WcStatus::LocProt)
            }
        }
        8 => {
            let op = SendOp::LocalInv { key: Key(0) };
            inventor.push(op, 0, vec![], vec![], recvs);
            local(WcStatus::LocQpOp)
        }
        _ => {
            inventor.recv(WcOpcode::Recv, &data, None, None);
            inventor.t.recvs.back_mut().expect("just made").good = false;
            let op = SendOp::Send { imm: None };
            inventor.push(op, len, data, vec![], recvs);
            remote(WcStatus::RemOp)
        }
    }
}

/// One request fails. Those before it work, those after it are flushed, and nothing
/// of them touches memory.
#[test]
fn an_error_ends_it_all() {
    an_error_ends("an_error_ends_it_all", Beside::Never);
}

/// The same between two nodes on one machine, where the peer always hears of it.
#[test]
fn an_error_beside_ends_it_all() {
    an_error_ends("an_error_beside_ends_it_all", Beside::Always);
}

fn an_error_ends(name: &str, beside: Beside) {
    for_seeds(name, |seed| {
        let mut rng = Rng::new(seed ^ 0xe44);
        let (mtu, base) = (rng.pick(&[4, 16, 60]), rng.any() & 0xffff_ffff_fff8);
        let good = rng.below(12) as usize;
        let mut inventor = Inventor {
            t: traffic(&mut rng.clone(), 0, base, mtu),
            rng: &mut rng,
            base,
            mtu,
        };
        for _ in 0..good {
            inventor.invent();
        }
        let cells_then = inventor.t.cells.clone();
        let trap = set_trap(&mut inventor);
        for _ in 0..inventor.rng.below(9) {
            inventor.invent();
        }
        let t = inventor.t;
        let mut ts = [t, traffic(&mut rng, 0, base, mtu)];
        let mut world = world(rng, &ts, mtu, base, beside);
        for node in &mut world.nodes {
            let mut attr = *node.send.attr();
            attr.retry = RetryLimit::from_retry_cnt(7);
            node.send.set_attr(attr);
        }
        world.run(&mut |world, number| post(world, &mut ts, number));
        // What is posted into the error state is flushed as well.
        world.nodes[1].poll(world.now, 3);

        let t = &ts[0];
        let [from, to] = &world.nodes;
        assert_eq!(from.host.in_queue(), 0);
        assert_eq!(from.state, QpState::Err);
        let first = from
            .host
            .send_cq
            .iter()
            .position(|c| c.status != WcStatus::Success);
        let first = first.expect("an error");
        let failed = from.host.send_cq[first];
        let index = failed.wr_id as usize;
        if index == good {
            // A dead peer, or bad weather all too long.
            let bad = trap.remote || world.weather.loss + world.weather.late != 0;
            let gave_up = bad && failed.status == WcStatus::RetryExc;
            assert!(
                failed.status == trap.status || gave_up,
                "{failed:?} {:?}",
                trap.status
            );
        } else {
            // The peer had failed and fallen silent before its answers came through.
            assert!(index < good, "beyond the trap");
            assert_eq!(failed.status, WcStatus::RetryExc);
            assert_ne!(world.weather.loss + world.weather.late, 0);
        }
        // Completions are in order; before the error only the signalled ones.
        let mut ids = from.host.send_cq.iter().map(|c| c.wr_id as usize);
        let signalled = |k: &usize| t.wqes[*k].flags.signaled;
        assert!(ids.by_ref().take(first).eq((0..index).filter(signalled)));
        assert!(ids.eq(index..t.wqes.len()));
        let flushed = &from.host.send_cq[first + 1..];
        assert!(flushed.iter().all(|c| c.status == WcStatus::WrFlush));

        // What the peer received and was written is what came before the trap.
        let (recvs, written) = t.before[good.min(t.before.len() - 1)];
        let ok = |c: &&(RecvCompletion, Vec<u8>)| c.0.status == WcStatus::Success;
        let done: Vec<_> = to.host.recv_cq.iter().take_while(ok).cloned().collect();
        assert!(t.received.starts_with(&done), "receives");
        let memory = &to.host.regions[0].bytes;
        if trap.late {
            if index == good {
                assert!(done.len() >= recvs);
                assert_eq!(memory[..written], t.written[..written]);
            }
            return;
        }
        assert!(done.len() <= recvs);
        assert!(
            memory[written..].iter().all(|&b| b == 0),
            "written beyond the trap"
        );
        if index == good {
            assert_eq!(done.len(), recvs);
            assert_eq!(memory[..written], t.written[..written]);
            assert_eq!(to.host.regions[2].bytes, cell_bytes(&cells_then));
        }
        if trap.remote && to.state == QpState::Err {
            assert!(to.host.rq.is_empty(), "receives are flushed");
        }
    });
}
