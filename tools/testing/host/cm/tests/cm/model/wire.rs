// SPDX-License-Identifier: GPL-2.0

//! The wire, the third node on it, and what a node does with a message that arrives.

use super::gid;
use super::may_follow;
use super::node_of;
use super::Ev;
use super::Mad;
use super::Rt;
use super::View;
use super::World;
use super::FORGER;
use super::RANDOM;
use super::SERVICE;
use rdma_cm_engine::proto::answer::Answer;
use rdma_cm_engine::proto::answer::Ari;
use rdma_cm_engine::proto::conn::Actions;
use rdma_cm_engine::proto::conn::Call;
use rdma_cm_engine::proto::conn::Conn;
use rdma_cm_engine::proto::conn::Event;
use rdma_cm_engine::proto::conn::LapPaths;
use rdma_cm_engine::proto::conn::Source;
use rdma_cm_engine::proto::conn::StateName;
use rdma_cm_engine::proto::ids::Gid;
use rdma_cm_engine::proto::tables::claim;
use rdma_cm_engine::proto::tables::release;
use rdma_cm_engine::proto::tables::Claim;
use rdma_cm_engine::proto::tables::Lookup;
use rdma_cm_engine::proto::tables::PeerKeys;
use rdma_cm_engine::proto::tables::SidrKey;
use rdma_cm_engine::proto::tables::Table;
use rdma_cm_engine::proto::wire::Body;
use rdma_cm_engine::proto::wire::Kind;
use rdma_cm_engine::proto::wire::Message;
use rdma_cm_engine::proto::wire::Reason;
use rdma_cm_engine::proto::wire::MAD;

impl World<'_> {
    /// Puts a MAD on the wire.
    pub(super) fn transmit(&mut self, mad: u32) {
        self.tally.sent += 1;
        let copies = if self.rng.per_mille(self.cfg.loss) {
            0
        } else if self.rng.per_mille(self.cfg.twice) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let delay = if self.rng.per_mille(self.cfg.late) {
                // Long after its connection.
                self.rng.below(20_000)
            } else {
                1 + self.rng.below(self.cfg.delay)
            };
            let time = self.now + delay as u64;
            self.at(time, Ev::Arrive { mad });
        }
    }

    /// Writes a message, and checks that it is one (invariant 6). `None` if it is for nobody.
    pub(super) fn put(&mut self, message: &Message<'_>, from: u8, to: Gid) -> Option<u32> {
        let mut bytes = [0xa5; MAD];
        message.write(&mut bytes).expect("a message that fits");
        let parsed = Message::parse(&bytes).expect("a message");
        assert_eq!(parsed.body.kind(), message.body.kind());
        assert_eq!(parsed.tid, message.tid);
        let private = message.body.private();
        assert_eq!(&parsed.body.private()[..private.len()], private);
        let to = node_of(to)?;
        self.mads.push(Mad {
            bytes,
            from: gid(from),
            to,
        });
        Some(self.mads.len() as u32 - 1)
    }

    pub(super) fn send_once(&mut self, node: u8, message: &Message<'_>, to: Gid) {
        let gone = self.nodes[usize::from(node)].gone;
        if gone || self.rng.per_mille(self.cfg.not_posted) {
            return;
        }
        if let Some(mad) = self.put(message, node, to) {
            self.transmit(mad);
        }
    }

    /// A message arrives.
    pub(super) fn arrive(&mut self, mad: u32) {
        let Mad { bytes, from, to } = &self.mads[mad as usize];
        let (bytes, from, node) = (*bytes, *from, *to as u8);
        let index = usize::from(node);
        if self.nodes[index].gone {
            return;
        }
        let message = Message::parse(&bytes).expect("a message");
        let source = Source {
            gid: self.cfg.grh.then_some(from),
            slid: u32::from(from.0[0]),
            ..Source::default()
        };
        let found = match Lookup::of(&message) {
            Lookup::Request(keys) => return self.on_req(node, &message, &source, from, keys),
            Lookup::SidrRequest => return self.on_sidr_req(node, &message, &source, from),
            Lookup::Local(id) => self.find(node, id),
            Lookup::Peer(key) => self.nodes[index].ids.0.borrow().get(&key).copied(),
            Lookup::Nobody => None,
        };
        let Some(slot) = found else {
            if let Some(answer) = Answer::to_stranger(&message) {
                self.tally.strangers += 1;
                self.nodes[index].duplicates += 1;
                self.send_once(node, &answer.message(&[]), from);
            }
            return;
        };
        let lap = self.rng.per_mille(900).then(|| LapPaths {
            reply: Rt {
                from: node,
                to: from,
            },
            alternate: self.path(node, from),
        });
        let now = self.now();
        let mut conn = self.nodes[index].slots[slot as usize].conn;
        let before = conn;
        let tables = &self.nodes[index];
        let mut stale = None;
        let actions = conn.receive(&message, &source, lap, now, |keys| {
            let (granted, other) = claim(&tables.ids, &tables.qpns, keys, &slot);
            if granted == Claim::SameQpn {
                stale = other;
            }
            granted
        });
        // Invariant 5.
        let kind = message.body.kind();
        let (old, new) = (before.state(), conn.state());
        if self.trace {
            let (now, from) = (self.now, from.0[0]);
            eprintln!("{now} node {node} id {slot}: {kind:?} from {from:x}, {old:?} to {new:?}");
        }
        assert!(may_follow(kind, old, new), "{kind:?}: {old:?} to {new:?}");
        // The MRA that an early repeat may have provoked is ignored once, which is remembered.
        let ignored_once = self.cfg.early && kind == Kind::Mra;
        if old == new && actions.event.is_none() && !ignored_once {
            assert_eq!(conn, before, "{kind:?} in {old:?}");
        }
        if self.cfg.grh && from == gid(FORGER) {
            let real = self.nodes[index].slots[slot as usize]
                .conn
                .is_from_peer(&source);
            assert!(real || conn == before, "a forgery works");
        }
        self.slot(node, slot).conn = conn;
        self.run(node, slot, actions, from);
        if let Some(other) = stale {
            self.disconnect_stale(node, other, &source);
        }
    }

    pub(super) fn disconnect_stale(&mut self, node: u8, other: u32, source: &Source) {
        self.tally.stale += 1;
        // What its consumer knows is then up to date.
        while !self.slot(node, other).events.is_empty() {
            self.deliver(node, other);
        }
        if self.slot(node, other).conn.is_from_peer(source) {
            let was = self.slot(node, other).conn.state();
            self.call(node, other, Call::Dreq { private: &[] });
            let it = self.slot(node, other);
            if was == StateName::Established {
                it.view = match it.conn.state() {
                    StateName::Timewait => View::Waiting,
                    _ => View::Disconnecting,
                };
            }
        }
    }

    pub(super) fn on_req(
        &mut self,
        node: u8,
        message: &Message<'_>,
        source: &Source,
        from: Gid,
        keys: PeerKeys,
    ) {
        let Body::Req(req) = &message.body else {
            unreachable!()
        };
        let index = usize::from(node);
        let slot = self.nodes[index].slots.len() as u32;
        let tables = &self.nodes[index];
        let (granted, other) = claim(&tables.ids, &tables.qpns, &keys, &slot);
        match (granted, other) {
            (Claim::SameId, Some(other)) => {
                let it = self.slot(node, other);
                let before = it.conn;
                let actions = it.conn.duplicate_req(message, source);
                assert_eq!(it.conn, before);
                return self.run(node, other, actions, from);
            }
            (Claim::SameQpn, Some(other)) => {
                let reason = Reason::STALE_CONN;
                let answer = Answer::reject(message, reason, Ari::None).unwrap();
                self.send_once(node, &answer.message(&[]), from);
                return self.disconnect_stale(node, other, source);
            }
            (Claim::Granted, None) => {}
            _ => unreachable!(),
        }
        if req.service_id != SERVICE || self.rng.per_mille(20) {
            // Nobody listens, or the path cannot be used, or there is no memory.
            release(&tables.ids, &tables.qpns, &keys, &slot);
            if !self.rng.per_mille(300) {
                let reason = Reason::INVALID_SERVICE_ID;
                let answer = Answer::reject(message, reason, Ari::None).unwrap();
                self.send_once(node, &answer.message(&[]), from);
            }
            return;
        }
        let primary = self.path(node, from);
        let alternate = req.alternate.map(|_| self.path(node, from));
        let tid = message.tid;
        let early = self.cfg.early;
        let conn = |id| Conn::from_req(id, tid, req, primary, alternate).with_early_repeats(early);
        if self.trace {
            let (now, from, id) = (self.now, from.0[0], req.local_id.0 ^ RANDOM);
            eprintln!("{now} node {node} id {slot}: made for REQ of {id:x} from {from:x}");
        }
        let new = self.new_slot(node, conn, View::Offered);
        assert_eq!(new, slot);
        let actions = Actions {
            event: Some(Event::Received(Kind::Req)),
            ..Actions::default()
        };
        self.run(node, slot, actions, from);
    }

    pub(super) fn on_sidr_req(
        &mut self,
        node: u8,
        message: &Message<'_>,
        source: &Source,
        from: Gid,
    ) {
        let Body::SidrReq(req) = &message.body else {
            unreachable!()
        };
        let index = usize::from(node);
        let slot = self.nodes[index].slots.len() as u32;
        let key = SidrKey {
            gid: source.gid,
            slid: source.slid,
            id: req.request_id,
        };
        if self.nodes[index].sidr.insert(key, slot).is_err() {
            self.nodes[index].duplicates += 1;
            return;
        }
        if req.service_id != SERVICE {
            self.nodes[index].sidr.remove(&key, &slot);
            let answer = Answer::sidr_unsupported(message).unwrap();
            return self.send_once(node, &answer.message(&[]), from);
        }
        let route = Rt {
            from: node,
            to: from,
        };
        let tid = message.tid;
        let conn = |id| Conn::from_sidr_req(id, tid, req, key, route);
        self.new_slot(node, conn, View::SidrOffered);
        let actions = Actions {
            event: Some(Event::Received(Kind::SidrReq)),
            ..Actions::default()
        };
        self.run(node, slot, actions, from);
    }

    /// The third node, and the past.
    pub(super) fn disturb(&mut self) {
        let count = self.mads.len();
        if count == 0 {
            return;
        }
        if self.rng.per_mille(self.cfg.replay) {
            self.tally.replayed += 1;
            let mad = self.rng.below(count) as u32;
            let time = self.now + 1;
            self.at(time, Ev::Arrive { mad });
        }
        // Without GRHs, nobody could tell.
        if self.cfg.grh && self.rng.per_mille(self.cfg.forge) {
            self.forge(count);
        }
    }

    pub(super) fn forge(&mut self, count: usize) {
        self.tally.forged += 1;
        let model = &self.mads[self.rng.below(count)];
        let (mut bytes, to) = (model.bytes, model.to);
        // A field or two: another reason, id, adapter, queue pair, or kind of message.
        for _ in 0..self.rng.below(3) {
            match self.rng.below(6) {
                0 => bytes[17] = 0x10 + self.rng.below(11) as u8,
                1 => self.rng.fill(&mut bytes[8..16]),
                2 => bytes[24 + 16 + self.rng.below(8)] ^= 1,
                3 => bytes[24 + 8 + self.rng.below(8)] ^= 1 << self.rng.below(8),
                4 => bytes[24 + self.rng.below(8)] ^= 1 << self.rng.below(8),
                _ => bytes[24 + 10..24 + 12].copy_from_slice(&[0, 4]),
            }
        }
        self.mads.push(Mad {
            bytes,
            from: gid(FORGER),
            to,
        });
        let mad = self.mads.len() as u32 - 1;
        let time = self.now + 1;
        self.at(time, Ev::Arrive { mad });
    }
}
