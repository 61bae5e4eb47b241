// SPDX-License-Identifier: GPL-2.0

//! The target `packets`: two queue pairs that talk, and an enemy on the wire.
//!
//! The enemy loses, repeats, swaps, corrupts and cuts what they say, and adds packets of
//! his own. The users post what they like; memory comes and goes, rights and regions too.
//! The hosts (`rxe_sim::host`) assert that the engines keep their contract: order of
//! retirement, ranges, no access to memory that was not granted.

use std::collections::VecDeque;

use rxe_sim::host::PostedRecv;
use rxe_sim::host::Region;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::rng::Rng;
use rxe_sim::wire::*;

use crate::bytes::Bytes;
use crate::forge;

/// Things that happen in one run, at most: more would make the fuzzer slow.
const STEPS: usize = 400;

struct Scene {
    nodes: [Node; 2],
    /// What is on its way to each.
    wire: [VecDeque<Vec<u8>>; 2],
    now: Nanos,
    posted: [usize; 2],
    mtu: u32,
    datagrams: bool,
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
    }
    scene.end();
}

impl Scene {
    fn new(from: &mut Bytes<'_>) -> Self {
        let kind = from.pick(&[
            QpType::Rc,
            QpType::Rc,
            QpType::Rc,
            QpType::Rc,
            QpType::Uc,
            QpType::Ud,
            QpType::Gsi,
        ]);
        let what = from.u8();
        let mtu = if what & 1 != 0 { 64 } else { 256 };
        let psns = [from.u16(), from.u16()].map(|n| Psn::new(u32::from(n)) - 0x8000);
        let mut node = |i: usize| {
            let mut send = SendAttr::new(kind, Qpn(7 + i as u32));
            send.dest = Qpn(8 - i as u32);
            send.mtu = mtu;
            send.timeout = (what & 2 == 0).then_some(Nanos(1000));
            send.retry = RetryLimit::from_retry_cnt(what >> 2 & 7);
            send.rnr_retry = RetryLimit::from_rnr_retry(what >> 5);
            send.max_rd_atomic = from.below(4);
            send.window = from.pick(&[128, 5, 1]);
            let mut recv = RecvAttr::new(kind);
            recv.dest = send.dest;
            recv.mtu = mtu;
            recv.access = AccessFlags(!0);
            recv.qkey = 1;
            let slots = from.below(9) as usize;
            let mut node = Node::new(send, recv, slots, from.below(4) as usize);
            for (key, access) in [(1, AccessFlags(!0)), (2, AccessFlags::REMOTE_READ)] {
                node.host.regions.push(Region {
                    key: Key(key),
                    base: 0x1000,
                    bytes: vec![key as u8; 2048],
                    access,
                    valid: true,
                });
            }
            node.ready(psns[i].get(), psns[1 - i].get());
            node
        };
        Self {
            nodes: [node(0), node(1)],
            wire: Default::default(),
            now: Nanos(0),
            posted: [0; 2],
            mtu,
            datagrams: kind.is_datagram(),
        }
    }

    fn deliver(&mut self, who: usize, bytes: &[u8]) {
        let _ = self.nodes[who].receive(self.now, bytes);
    }

    /// What `who` has to say goes on the wire.
    fn listen(&mut self, who: usize) {
        let out = std::mem::take(&mut self.nodes[who].host.out);
        self.wire[1 - who].extend(out);
        // The wire is only so long; what is beyond is lost.
        self.wire[1 - who].truncate(64);
    }

    fn poll(&mut self, who: usize, budget: u32) {
        let (now, node) = (self.now, &mut self.nodes[who]);
        let _ = node.send.poll(now, &mut node.host, budget);
        let _ = node.recv.poll(&mut node.host, budget);
        self.listen(who);
    }

    fn step(&mut self, from: &mut Bytes<'_>) {
        let what = from.u8();
        let who = usize::from(what >> 7);
        match what & 31 {
            0..=4 => {
                if let Some(bytes) = self.wire[who].pop_front() {
                    self.deliver(who, &bytes);
                }
                if what & 64 != 0 {
                    self.poll(who, 64);
                }
            }
            5 => drop(self.wire[who].pop_front()),
            6 => {
                if let Some(bytes) = self.wire[who].front().cloned() {
                    self.deliver(who, &bytes);
                }
            }
            7 => {
                let last = self.wire[who].len().saturating_sub(1);
                let at = from.below(8) as usize;
                if at <= last && !self.wire[who].is_empty() {
                    self.wire[who].swap(0, at.min(last));
                }
            }
            8 | 9 => self.corrupt(who, from),
            10..=13 => self.forge(who, from),
            14 => {
                let mut bytes = from.slice(12).to_vec();
                let more = from.u8();
                bytes.extend(from.slice(usize::from(more)));
                self.deliver(who, &bytes);
            }
            15..=18 => {
                if !self.nodes[who].host.slots.is_empty() {
                    self.posted[who] += 1;
                    let request = forge::request(from, self.datagrams);
                    self.nodes[who].host.sq.push_back(request);
                }
            }
            19 | 20 => {
                let capacity = from.pick(&[0, 1, 40, 64, 100, 300, 500]);
                self.nodes[who].host.rq.push_back(PostedRecv {
                    wr_id: u64::from(what),
                    good: from.u8() < 240,
                    buf: vec![0; capacity],
                });
            }
            21 => {
                self.now = Nanos(self.now.0.saturating_add(u64::from(from.u16())));
                for node in &mut self.nodes {
                    node.send.on_timer(self.now, &mut node.host);
                }
                self.listen(0);
                self.listen(1);
            }
            22 => {
                let room = from.u8();
                self.nodes[who].host.room = (room < 8).then(|| u32::from(room));
            }
            23 => {
                let absent = from.u8();
                let chance = Rng::new(u64::from(absent));
                let absent = (absent & 1 != 0).then(|| (u32::from(absent) * 4, chance));
                self.nodes[who].host.absent = absent;
                self.nodes[who].unpark(self.now);
            }
            24 => {
                let region = &mut self.nodes[who].host.regions[usize::from(what >> 6 & 1)];
                region.valid = !region.valid;
            }
            25 => self.modify(who, from),
            26 => {
                // The next one met congestion.
                if let Some(bytes) = self.wire[who].pop_front() {
                    self.deliver(who, &bytes);
                    self.nodes[who].marked(self.now, &bytes);
                    self.poll(who, 64);
                }
            }
            _ => self.poll(who, from.below(70)),
        }
    }

    /// Changes the first datagram on its way.
    fn corrupt(&mut self, who: usize, from: &mut Bytes<'_>) {
        let (at, with) = (from.u8(), from.u8());
        let Some(bytes) = self.wire[who].front_mut() else {
            return;
        };
        if at == 255 {
            bytes.truncate(usize::from(with));
        } else if let Some(byte) = bytes.get_mut(usize::from(at)) {
            *byte ^= with;
        }
    }

    fn forge(&mut self, who: usize, from: &mut Bytes<'_>) {
        let node = &self.nodes[who];
        let near = [node.recv.psn(), node.send.psn() - from.below(4)];
        if let Some(bytes) = forge::datagram(from, near, self.mtu) {
            self.deliver(who, &bytes);
        }
    }

    fn modify(&mut self, who: usize, from: &mut Bytes<'_>) {
        let node = &mut self.nodes[who];
        match from.below(6) {
            0 | 1 => {
                if let Some(state) = QpState::from_code(from.below(8)) {
                    let _ = node.modify(state);
                }
            }
            2 => {
                // Lengths that no longer fit are what the peer must bear.
                node.host.mtu = None;
                let mut attr = *node.send.attr();
                attr.mtu = from.pick(&[0, 1, 16, 64, 64, 256, u32::MAX]);
                attr.timeout =
                    from.pick(&[None, Some(Nanos(0)), Some(Nanos(900)), Some(Nanos(!0))]);
                attr.retry = RetryLimit::from_retry_cnt(from.u8() & 7);
                attr.max_rd_atomic = from.pick(&[0, 1, 4, u32::MAX]);
                attr.window = from.pick(&[0, 1, 5, 128, u32::MAX]);
                node.send.set_attr(attr);
            }
            3 => {
                node.host.mtu = None;
                let mut attr = *node.recv.attr();
                attr.mtu = from.pick(&[0, 1, 16, 64, 64, 256, u32::MAX]);
                attr.access = AccessFlags(from.pick(&[0, !0, !0, 0x6]));
                attr.qkey = from.below(2);
                node.recv.set_attr(attr);
                let resources = from.below(4) as usize;
                drop(node.recv.set_resources(vec![Resource::EMPTY; resources]));
            }
            4 => node.recv.set_psn(Psn::new(from.u32())),
            _ => {
                let _ = node.send.set_psn(Psn::new(from.u32()));
            }
        }
    }

    /// Whatever state they are in, both can be brought to an end.
    fn end(mut self) {
        for (who, node) in self.nodes.iter_mut().enumerate() {
            assert!(node.host.sent.len() + node.host.in_queue() <= self.posted[who]);
            node.host.absent = None;
            node.host.room = None;
            if node.state != QpState::Reset {
                node.modify(QpState::Err).expect("any state leads to Err");
                node.poll(self.now, 50);
                assert_eq!(node.host.in_queue(), 0);
                assert!(node.host.rq.is_empty() && node.host.current.is_none());
                assert_eq!(node.send.next_deadline(), None);
            }
            node.modify(QpState::Reset)
                .expect("any state leads to Reset");
        }
    }
}
