// SPDX-License-Identifier: GPL-2.0

//! The target `rings`: a user who writes what he likes, when he likes, into the queues
//! that he shares with the kernel.
//!
//! Entries that are called valid must keep their bounds, whatever their bytes become
//! while they are read; the engine then carries them out, and the rings' own order must
//! survive. Bytes are found through the list of buffers as a naive reading finds them.

use std::collections::VecDeque;

use rxe_mem::mem::map::Shape;
use rxe_mem::mem::sge::{Cursor, Sge, Walk};
use rxe_mem::parse_send;
use rxe_mem::queue::cq::{Arm, Cq, Posted};
use rxe_mem::queue::cqe::{Cqe, Origin, USER_CQE};
use rxe_mem::queue::layout::{Layout, CONSUMER_INDEX, PRODUCER_INDEX, SLOTS};
use rxe_mem::queue::ring::{Consumer, Producer};
use rxe_mem::queue::wqe::{
    parse_recv, BadSend, Buffers, SendCaps, SendRequest, RECV_HEAD, SEND_HEAD,
};
use rxe_sim::host::{PostedRecv, PostedSend};
use rxe_sim::node::Node;
use rxe_sim::proto::types::MAX_MESSAGE;
use rxe_sim::proto::*;
use rxe_sim::wire::Opcode;

use crate::bytes::Bytes;
use crate::forge;
use crate::memory::Shared;

/// Things that happen in one run, at most.
const STEPS: usize = 300;
/// Bytes per packet.
const MTU: u32 = 256;
/// Bytes of a message that are looked at.
const LOOK: u32 = 4096;

/// A region of the user's: bytes at `base`, in blocks that lie anywhere.
struct Region {
    lkey: u32,
    base: u64,
    shape: Shape,
    shift: u32,
    first: u64,
    blocks: Vec<usize>,
}

impl Region {
    fn new(lkey: u32, base: u64, shift: u32, len: u64) -> Self {
        let first = base & ((1 << shift) - 1);
        let shape = Shape::new(shift, first, len).expect("a plausible shape");
        let blocks = (0..shape.blocks() as usize).map(|n| (n ^ 1) << 20 | 1 << 30);
        Self {
            lkey,
            base,
            shape,
            shift,
            first,
            blocks: blocks.collect(),
        }
    }

    /// Where a byte lies, by the letter.
    fn byte(&self, offset: u64) -> Option<usize> {
        if offset >= self.shape.bytes() {
            return None;
        }
        let at = self.first + offset;
        let block = self.blocks.get((at >> self.shift) as usize)?;
        Some(block + (at & ((1 << self.shift) - 1)) as usize)
    }

    /// Where bytes lie; `None` if they are not all inside.
    fn find(&self, addr: u64, len: usize) -> Option<Vec<usize>> {
        let offset = addr.wrapping_sub(self.base);
        let pieces = self.shape.walk(&self.blocks, offset, len)?;
        let found: Vec<usize> = pieces
            .flat_map(|piece| (0..piece.len).map(move |n| piece.at.as_ptr().addr() + n))
            .collect();
        assert_eq!(found.len(), len);
        Some(found)
    }
}

/// A queue that the user fills.
struct Ring {
    mem: Shared,
    layout: Layout,
    end: Consumer<Shared>,
}

impl Ring {
    fn new(entries: u32, entry: usize) -> Self {
        let layout = Layout::new(entries, entry).expect("a plausible queue");
        let mem = Shared::new(&layout);
        let end = Consumer::new(mem.clone(), layout);
        Self { mem, layout, end }
    }

    /// What must hold, whatever the user did.
    fn check(&self) {
        let (waiting, in_work) = (self.end.waiting(), self.end.in_work());
        assert!(waiting + in_work <= self.layout.capacity());
    }

    fn resize(&mut self, entries: u32) {
        let layout = Layout::new(entries, self.layout.entry()).expect("a plausible queue");
        let mem = Shared::new(&layout);
        self.mem.look_once();
        let idle = self.end.in_work() == 0;
        if self.end.move_to(mem.clone(), layout).is_ok() {
            assert!(idle, "nothing in work was lost");
            (self.mem, self.layout) = (mem, layout);
        }
    }
}

struct Scene {
    caps: SendCaps,
    store: Vec<Sge>,
    max_sge: usize,
    regions: [Region; 3],
    sq: Ring,
    rq: Ring,
    cq: Cq<Shared, Vec<Option<Cqe<()>>>>,
    cq_mem: Shared,
    cq_layout: Layout,
    node: Node,
    now: Nanos,
    /// The slots that the send queue gave out, and how many are retired.
    given: VecDeque<u32>,
    retired: usize,
    completed: usize,
}

/// Runs an input.
pub fn run(input: &[u8]) {
    let mut from = Bytes::new(input);
    let mut scene = Scene::new(&mut from);
    for _ in 0..STEPS {
        if from.is_empty() {
            break;
        }
        scene.step(&mut from);
        scene.sq.check();
        scene.rq.check();
    }
}

impl Scene {
    fn new(from: &mut Bytes<'_>) -> Self {
        let qp_type = from.pick(&[QpType::Rc, QpType::Rc, QpType::Rc, QpType::Uc, QpType::Ud]);
        let what = from.u8();
        let caps = SendCaps {
            qp_type,
            user: what & 1 == 0,
            signal_all: what & 2 != 0,
            max_inline: u32::from(from.u16() % 513),
        };
        let max_sge = from.below(33) as usize;
        let share = max_sge.max(caps.max_inline.div_ceil(16) as usize);
        let entry = SEND_HEAD + (max_sge * 16).max(caps.max_inline as usize);
        let sq = Ring::new(from.below(9), entry);
        let rq = Ring::new(from.below(9), RECV_HEAD + max_sge * 16);
        let cq_layout = Layout::new(from.below(9), USER_CQE).expect("a plausible queue");
        let cq_mem = Shared::new(&cq_layout);
        let mut send = SendAttr::new(qp_type, Qpn(7));
        send.mtu = MTU;
        send.timeout = Some(Nanos(1000));
        send.retry = RetryLimit::from_retry_cnt(2);
        send.max_rd_atomic = 2;
        let mut recv = RecvAttr::new(qp_type);
        recv.mtu = MTU;
        let mut node = Node::new(send, recv, sq.layout.slots() as usize, 2);
        node.ready(0xff_fff0, 5);
        Self {
            caps,
            store: vec![Sge::default(); share],
            max_sge,
            regions: [
                Region::new(1, 0x1000, 12, 0x3000),
                Region::new(2, 0x1234, 6, 500),
                Region::new(3, u64::MAX - 4095, 12, 4096),
            ],
            cq: Cq::user(Producer::new(cq_mem.clone(), cq_layout)),
            sq,
            rq,
            cq_mem,
            cq_layout,
            node,
            now: Nanos(0),
            given: VecDeque::new(),
            retired: 0,
            completed: 0,
        }
    }

    fn step(&mut self, from: &mut Bytes<'_>) {
        let what = from.u8();
        match what & 15 {
            0 | 1 => self.write_send(from),
            2 => self.write_recv(from),
            3 => {
                let ring = if what & 16 == 0 { &self.sq } else { &self.rq };
                let at = usize::from(from.u16()) % (ring.layout.size() + 8);
                let len = usize::from(from.u8() & 31);
                ring.mem.poke(at, from.slice(len));
            }
            4 => {
                let index = from.number32();
                let (mem, at) = match what >> 4 & 3 {
                    0 => (&self.sq.mem, PRODUCER_INDEX),
                    1 => (&self.rq.mem, PRODUCER_INDEX),
                    2 => (&self.cq_mem, CONSUMER_INDEX),
                    _ => (&self.cq_mem, PRODUCER_INDEX),
                };
                mem.poke(at, &index.to_ne_bytes());
            }
            5 => {
                let unrest = from.slice(usize::from(what >> 4 & 3));
                self.sq.mem.disturb(unrest);
                self.rq.mem.disturb(unrest);
            }
            6..=8 => self.take_send(from),
            9 => self.take_recv(from),
            10 | 11 => self.run_engine(from),
            12 => match what >> 4 & 3 {
                0 => self.rq.resize(from.below(12)),
                1 => {
                    let layout = Layout::new(from.below(12), USER_CQE).expect("plausible");
                    let mem = Shared::new(&layout);
                    self.cq_mem.look_once();
                    if self.cq.resize(mem.clone(), layout).is_ok() {
                        (self.cq_mem, self.cq_layout) = (mem, layout);
                    }
                }
                2 => {
                    let consumed = self.cq_mem.word(PRODUCER_INDEX);
                    self.cq_mem.poke(CONSUMER_INDEX, &consumed.to_ne_bytes());
                }
                _ => self.reset(),
            },
            13 => {
                let arm = if what & 16 == 0 {
                    Arm::Next
                } else {
                    Arm::Solicited
                };
                let _ = self.cq.arm(arm);
            }
            14 => self.answer(from),
            _ => {
                self.now = Nanos(self.now.0 + u64::from(from.u16()));
                self.node.send.on_timer(self.now, &mut self.node.host);
            }
        }
    }

    /// An entry as librxe writes it, with fields that may be wrong.
    fn write_send(&mut self, from: &mut Bytes<'_>) {
        let mut entry = [0; SEND_HEAD];
        let mut put = |at: usize, bytes: &[u8]| entry[at..at + bytes.len()].copy_from_slice(bytes);
        let opcodes = [2, 0, 4, 1, 3, 5, 6, 7, 8, 9, 14, 15, 0x20, 10, 16, u32::MAX];
        put(0, &[from.u8()]);
        put(12, &from.pick(&opcodes).to_ne_bytes());
        put(16, &from.u8().to_ne_bytes());
        put(20, &forge::key(from).0.to_ne_bytes());
        put(24, &from.number().to_ne_bytes());
        put(32, &from.number().to_ne_bytes());
        put(40, &from.number32().to_ne_bytes());
        put(48, &forge::key(from).0.to_ne_bytes());
        put(184, &from.number32().to_ne_bytes());
        let count = from.number32();
        put(196, &count.to_ne_bytes());
        let at = self.sq.mem.word(PRODUCER_INDEX);
        let slot = self.sq.layout.slot(at);
        self.sq.mem.poke(slot, &entry);
        write_list(&self.sq.mem, slot + SEND_HEAD, count, from);
        let next = self.sq.layout.advance(at, 1);
        self.sq.mem.poke(PRODUCER_INDEX, &next.to_ne_bytes());
    }

    fn write_recv(&mut self, from: &mut Bytes<'_>) {
        let count = from.number32();
        let at = self.rq.mem.word(PRODUCER_INDEX);
        let slot = self.rq.layout.slot(at);
        self.rq.mem.poke(slot + 28, &count.to_ne_bytes());
        write_list(&self.rq.mem, slot + RECV_HEAD, count, from);
        let next = self.rq.layout.advance(at, 1);
        self.rq.mem.poke(PRODUCER_INDEX, &next.to_ne_bytes());
    }

    /// As `fetch` of the kernel's send queue.
    fn take_send(&mut self, from: &mut Bytes<'_>) {
        self.sq.mem.look_once();
        let Some(entry) = self.sq.end.peek() else {
            return;
        };
        let parsed = parse_send(&entry, &self.caps, &mut self.store[..]);
        let slot = self.sq.end.take();
        if let Some(&last) = self.given.back() {
            assert_eq!(self.sq.layout.advance(last, 1), slot, "slots in order");
        }
        assert!(slot < self.sq.layout.slots() && !self.given.contains(&slot));
        self.given.push_back(slot);
        let posted = match parsed {
            Ok(request) => {
                self.check_send(&request);
                PostedSend {
                    wqe: Ok(request.wqe),
                    buf: self.gather(&request, from),
                }
            }
            Err(BadSend { wr_id, status }) => PostedSend {
                wqe: Err((wr_id, status)),
                buf: Vec::new(),
            },
        };
        self.node.host.sq.push_back(posted);
    }

    fn check_send(&self, request: &SendRequest) {
        let SendRequest {
            wqe,
            buffers,
            route,
            local,
        } = request;
        assert!(wqe.length <= MAX_MESSAGE);
        assert!(wqe.flags.signaled || !self.caps.signal_all);
        match *buffers {
            Buffers::Sges(count) => {
                let list = self
                    .store
                    .get(..count)
                    .expect("as many as there is room for");
                let sum: u64 = list.iter().map(|sge| u64::from(sge.length)).sum();
                match wqe.op {
                    SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => assert!(sum >= 8),
                    SendOp::AtomicWrite { .. } => assert_eq!((count, wqe.length), (0, 8)),
                    _ => assert_eq!(sum, u64::from(wqe.length)),
                }
            }
            Buffers::Inline(len) => {
                assert!(len == wqe.length as usize && len <= self.caps.max_inline as usize);
            }
        }
        assert!(wqe.op != SendOp::RegMr || !self.caps.user);
        assert_eq!(route.is_some(), self.caps.qp_type.is_datagram());
        assert_eq!(route.is_some(), wqe.ud.is_some());
        let is_local = matches!(wqe.op, SendOp::BindMw | SendOp::RegMr);
        assert_eq!(local.is_some(), is_local);
    }

    /// Collects the beginning of a message, in pieces as packets do, and compares with
    /// what the list says byte by byte.
    fn gather(&self, request: &SendRequest, from: &mut Bytes<'_>) -> Vec<u8> {
        let length = request.wqe.length.min(LOOK);
        let count = match request.buffers {
            Buffers::Inline(len) => return vec![1; len],
            // An atomic write's bytes are not here.
            Buffers::Sges(0) => return vec![1; length as usize],
            Buffers::Sges(count) => count,
        };
        let list = &self.store[..count];
        let mut cursor = Cursor::START;
        let step = 1 + u32::from(from.u8()) * 3;
        let mut found = Vec::new();
        while found.len() < length as usize {
            let at = found.len() as u32;
            let len = step.min(length - at) as usize;
            match self.collect(list, &mut cursor, at, len) {
                Some(bytes) => found.extend(bytes),
                None => break,
            }
        }
        for (k, at) in found.iter().enumerate() {
            assert_eq!(Some(*at), self.by_the_letter(list, k as u64), "byte {k}");
        }
        if found.len() < length as usize {
            let next = found.len() as u64..(found.len() as u64 + u64::from(step));
            let missing = next.clone().any(|k| self.by_the_letter(list, k).is_none());
            assert!(missing, "{next:?} could have been found");
        }
        // Again from the middle: the cursor goes back.
        if let Some(&at) = found.get(found.len() / 2) {
            let again = self.collect(list, &mut cursor, (found.len() / 2) as u32, 1);
            assert_eq!(again, Some(vec![at]));
        }
        vec![1; found.len()]
    }

    fn collect(
        &self,
        list: &[Sge],
        cursor: &mut Cursor,
        at: u32,
        len: usize,
    ) -> Option<Vec<usize>> {
        let mut found = Vec::new();
        for piece in Walk::new(list, cursor, at, len) {
            let piece = piece.ok()?;
            let region = self.regions.iter().find(|r| r.lkey == piece.lkey)?;
            found.extend(region.find(piece.addr, piece.len)?);
        }
        assert_eq!(found.len(), len);
        Some(found)
    }

    fn by_the_letter(&self, list: &[Sge], mut k: u64) -> Option<usize> {
        for sge in list {
            if k < u64::from(sge.length) {
                let region = self.regions.iter().find(|r| r.lkey == sge.lkey)?;
                return region.byte(sge.addr.wrapping_add(k).wrapping_sub(region.base));
            }
            k -= u64::from(sge.length);
        }
        None
    }

    /// As `take` of the kernel's receive queue.
    fn take_recv(&mut self, from: &mut Bytes<'_>) {
        self.rq.mem.look_once();
        let Some(entry) = self.rq.end.peek() else {
            return;
        };
        let room = self.max_sge;
        let parsed = parse_recv(&entry, &mut self.store[..room]);
        self.rq.end.take();
        self.rq.end.retire(1);
        if let Ok((wqe, count)) = parsed {
            assert!(count <= room && wqe.capacity <= MAX_MESSAGE);
            self.node.host.rq.push_back(PostedRecv {
                wr_id: wqe.wr_id,
                good: from.u8() != 255,
                buf: vec![0; wqe.capacity.min(LOOK) as usize],
            });
        }
    }

    fn run_engine(&mut self, from: &mut Bytes<'_>) {
        let budget = from.below(40);
        let _ = self.node.send.poll(self.now, &mut self.node.host, budget);
        let _ = self.node.recv.poll(&mut self.node.host, budget);
        self.node.host.out.clear();
        let done = self.node.host.sent.len() - self.retired;
        self.retired += done;
        self.given.drain(..done);
        self.sq.end.retire(done as u32);
        let first = self.given.front().copied();
        let in_ring = self.sq.mem.word(CONSUMER_INDEX);
        assert!(first.is_none_or(|first| done == 0 || first == in_ring));
        let completions: Vec<_> = self.node.host.send_cq[self.completed..].to_vec();
        self.completed += completions.len();
        for completion in &completions {
            let before = self.cq.used();
            self.cq_mem.look_once();
            let cqe = Cqe::of_send(
                completion,
                Origin {
                    qpn: 7,
                    port: 1,
                    qp: (),
                },
            );
            match self.cq.post(&cqe) {
                Posted::Quiet | Posted::Notify => {
                    assert!(before < self.cq_layout.capacity());
                    assert_eq!(self.cq.used(), before + 1);
                }
                Posted::Overflow => assert_eq!(before, self.cq_layout.capacity()),
                Posted::Dead => {}
            }
        }
    }

    /// The peer says something, mostly an acknowledgement of the last packet.
    fn answer(&mut self, from: &mut Bytes<'_>) {
        let near = [self.node.recv.psn(), self.node.send.psn() - 1];
        let bytes = if from.flip() {
            forge::datagram(from, near, MTU)
        } else {
            // Opcode, flags, PSN, syndrome: a good one.
            let ack = Opcode::ALL.iter().position(|&op| op == Opcode::RcAck);
            let ack = [ack.expect("it exists") as u8, 0, 0, 0x1f];
            forge::datagram(&mut Bytes::new(&ack), near, MTU)
        };
        if let Some(bytes) = bytes {
            let _ = self.node.receive(self.now, &bytes);
        }
    }

    /// The queue pair is reset and made ready again.
    fn reset(&mut self) {
        self.node
            .modify(QpState::Reset)
            .expect("any state leads to Reset");
        self.node.ready(1, 2);
        self.given.clear();
        self.retired = self.node.host.sent.len();
        self.sq.end.reset();
        self.rq.end.reset();
        assert_eq!(self.sq.end.in_work(), 0);
        // The user may have moved on meanwhile, but not by an unrest that stopped.
        self.sq.mem.disturb(&[]);
        self.rq.mem.disturb(&[]);
    }
}

/// Scatter-gather entries that mostly name a region.
fn write_list(mem: &Shared, at: usize, count: u32, from: &mut Bytes<'_>) {
    for n in 0..count.min(6) as usize {
        let at = at + n * 16;
        mem.poke(at, &from.number().to_ne_bytes());
        mem.poke(at + 8, &from.number32().to_ne_bytes());
        mem.poke(at + 12, &u32::from(from.u8() & 3).to_ne_bytes());
    }
}

/// Slots begin behind the header; the constants here say so too.
const _: () = assert!(SLOTS == 384);
