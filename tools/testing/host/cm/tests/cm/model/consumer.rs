// SPDX-License-Identifier: GPL-2.0

//! The consumers: their handlers, and what they do of their own accord.

use super::gid;
use super::Ev;
use super::Rt;
use super::Tracked;
use super::View;
use super::World;
use super::FORGER;
use super::NOBODY_LISTENS;
use super::SERVICE;
use super::TIMED_OUT;
use rdma_cm_engine::proto::conn::Call;
use rdma_cm_engine::proto::conn::CallError;
use rdma_cm_engine::proto::conn::Conn;
use rdma_cm_engine::proto::conn::Destroy;
use rdma_cm_engine::proto::conn::Event;
use rdma_cm_engine::proto::conn::Keep;
use rdma_cm_engine::proto::conn::Policy;
use rdma_cm_engine::proto::conn::RepCall;
use rdma_cm_engine::proto::conn::ReqCall;
use rdma_cm_engine::proto::conn::SidrRepCall;
use rdma_cm_engine::proto::conn::SidrReqCall;
use rdma_cm_engine::proto::conn::StateName;
use rdma_cm_engine::proto::ids::CommId;
use rdma_cm_engine::proto::ids::Ece;
use rdma_cm_engine::proto::ids::Guid;
use rdma_cm_engine::proto::ids::Psn;
use rdma_cm_engine::proto::ids::Qpn;
use rdma_cm_engine::proto::wire::Kind;
use rdma_cm_engine::proto::wire::Message;
use rdma_cm_engine::proto::wire::Reason;
use rdma_cm_engine::proto::wire::Req;
use rdma_cm_engine::proto::wire::Transport;
use rdma_cm_engine::proto::wire::WirePath;

impl World<'_> {
    /// The consumer calls.
    pub(super) fn call(&mut self, node: u8, slot: u32, call: Call<'_, Rt>) -> bool {
        let now = self.now();
        let gone = self.nodes[usize::from(node)].gone;
        let fails = gone || self.rng.per_mille(self.cfg.not_posted);
        let mut posting = None;
        let private: &[u8] = match &call {
            Call::Rtu { private } | Call::Drep { private } => private,
            _ => &[],
        };
        let index = usize::from(node);
        let mut conn = self.nodes[index].slots[slot as usize].conn;
        let before = conn;
        let (result, actions) = conn.call(&call, now, |p| {
            if fails {
                return Err(());
            }
            posting = Some((self.put(p.message, p.to.from, p.to.to), p.policy, p.to.to));
            Ok(())
        });
        match result {
            Ok(()) => {}
            Err(CallError::Refused(_)) => {
                self.tally.refused += 1;
                assert_eq!(conn.state(), before.state());
                assert_eq!(conn.keys(), before.keys());
            }
            Err(CallError::NotPosted(())) => self.tally.not_posted += 1,
        }
        if self.trace {
            let (now, old, new) = (self.now, before.state(), conn.state());
            eprintln!("{now} node {node} id {slot}: call, {old:?} to {new:?}, {result:?}");
            if let Some((Some(mad), ..)) = posting {
                let mad = self.mads[mad as usize].bytes;
                eprintln!("    posts {:x?}", Message::parse(&mad).unwrap().body.kind());
            }
        }
        self.slot(node, slot).conn = conn;
        if actions.keep == Some(Keep::Private) {
            self.slot(node, slot).kept = private.to_vec();
        }
        if let Some((mad, policy, to)) = posting {
            if let Policy::Tracked {
                id,
                timeout_ms,
                retries,
            } = policy
            {
                let timeout = u64::from(timeout_ms);
                let at = self.now + timeout;
                let it = self.slot(node, slot);
                assert!(it.sends.iter().all(|send| send.id != id));
                assert!(it.sends.iter().all(|send| send.cancelled), "two sends");
                it.sends.push(Tracked {
                    id,
                    mad: mad.unwrap_or(u32::MAX),
                    to,
                    timeout,
                    left: retries,
                    at,
                    limit: at + timeout * u64::from(retries) + 1,
                    cancelled: false,
                });
                let send = id.to_raw();
                self.at(at, Ev::Retry { node, slot, send });
            }
            if let Some(mad) = mad {
                self.transmit(mad);
            }
        }
        self.run(node, slot, actions, gid(FORGER));
        result.is_ok()
    }

    /// The handler of the consumer.
    pub(super) fn deliver(&mut self, node: u8, slot: u32) {
        let it = self.slot(node, slot);
        let Some(event) = it.events.pop_front() else {
            return;
        };
        assert!(it.alive);
        let view = it.view;
        // Invariant 2.
        let next = match (event, view) {
            (Event::Received(Kind::Req), View::Offered) => View::Offered,
            (Event::Received(Kind::SidrReq), View::SidrOffered) => View::SidrOffered,
            (Event::Received(Kind::Mra), View::Asked | View::Accepted) => view,
            (Event::Received(Kind::Rep), View::Asked) => View::Replied,
            (Event::Failed(Kind::Req, TIMED_OUT), View::Asked)
            | (Event::Failed(Kind::Rep, TIMED_OUT), View::Accepted) => View::Idle,
            (Event::Received(Kind::Rtu) | Event::UserEstablished, View::Accepted) => {
                View::Connected
            }
            (Event::Received(Kind::Rej), View::Asked | View::Offered | View::Accepted) => {
                View::Waiting
            }
            (Event::Received(Kind::Rej), View::Replied | View::Connected | View::Disconnecting) => {
                View::Waiting
            }
            (
                Event::Received(Kind::Dreq),
                View::Accepted | View::Connected | View::Disconnecting,
            ) => View::AskedToDisconnect,
            (Event::Received(Kind::Drep), View::Disconnecting | View::AskedToDisconnect)
            | (Event::Failed(Kind::Dreq, TIMED_OUT), View::Disconnecting) => View::Waiting,
            (Event::TimewaitExit, View::Waiting) => View::Idle,
            (Event::Received(Kind::Lap), View::Connected) => View::Connected,
            (Event::Received(Kind::SidrRep), View::SidrAsked)
            | (Event::Failed(Kind::SidrReq, TIMED_OUT), View::SidrAsked) => View::Idle,
            (event, view) => panic!("{event:?} in {view:?}"),
        };
        it.view = next;
        self.tally.events[event.number() as usize] += 1;
        let luck = self.rng.below(100);
        match event {
            Event::Received(Kind::Req) => match luck {
                0..=69 => self.accept(node, slot),
                70..=79 => {
                    self.call(node, slot, Call::PrepareMra);
                }
                80..=89 => self.refuse(node, slot),
                90..=94 => self.destroy(node, slot, Destroy::NoMemory),
                _ => self.destroy(node, slot, Destroy::Consumer),
            },
            Event::Received(Kind::Rep) => match luck {
                0..=79 => self.ready(node, slot),
                80..=89 => {
                    self.call(node, slot, Call::PrepareMra);
                }
                90..=94 => self.refuse(node, slot),
                _ => self.destroy(node, slot, Destroy::Consumer),
            },
            Event::Received(Kind::Dreq) => match luck {
                0..=79 => self.disconnected(node, slot),
                80..=89 => self.destroy(node, slot, Destroy::Consumer),
                _ => {}
            },
            Event::Received(Kind::SidrReq) => match luck {
                0..=69 => self.sidr_answer(node, slot),
                70..=89 => self.destroy(node, slot, Destroy::Consumer),
                _ => {}
            },
            _ if luck < 10 => self.destroy(node, slot, Destroy::Consumer),
            _ => {}
        }
    }

    pub(super) fn qpn(&mut self) -> Qpn {
        // Few, so that they are soon used again.
        Qpn::new(1 + self.rng.below(12) as u32)
    }

    pub(super) fn accept(&mut self, node: u8, slot: u32) {
        let depth = (self.rng.byte() & 7, self.rng.byte() & 7);
        let call = RepCall {
            qpn: self.qpn(),
            psn: Psn::new(self.rng.word()),
            responder_resources: depth.0,
            initiator_depth: depth.1,
            rnr_retry_count: 7,
            private: b"reply",
            ..RepCall::default()
        };
        if self.call(node, slot, Call::Rep(call)) {
            self.slot(node, slot).view = View::Accepted;
        }
    }

    pub(super) fn ready(&mut self, node: u8, slot: u32) {
        if self.call(node, slot, Call::Rtu { private: b"ready" }) {
            self.slot(node, slot).view = View::Connected;
        }
    }

    pub(super) fn refuse(&mut self, node: u8, slot: u32) {
        let call = Call::Rej {
            reason: Reason(28),
            ari: b"why",
            private: b"no",
        };
        let was = self.slot(node, slot).conn.state();
        self.call(node, slot, call);
        self.left(node, slot, was);
    }

    pub(super) fn disconnected(&mut self, node: u8, slot: u32) {
        let was = self.slot(node, slot).conn.state();
        self.call(node, slot, Call::Drep { private: b"bye" });
        self.left(node, slot, was);
    }

    /// A call that ends the connection even if its message could not be posted.
    pub(super) fn left(&mut self, node: u8, slot: u32, was: StateName) {
        let it = self.slot(node, slot);
        if it.conn.state() != was {
            it.view = match it.conn.state() {
                StateName::Timewait => View::Waiting,
                _ => View::Idle,
            };
            // Events that were on their way are of the connection that is over.
            it.events.clear();
        }
    }

    pub(super) fn sidr_answer(&mut self, node: u8, slot: u32) {
        let call = SidrRepCall {
            qpn: self.qpn(),
            qkey: 1,
            info: b"info",
            private: b"here",
            ..SidrRepCall::default()
        };
        if self.call(node, slot, Call::SidrRep(call)) {
            self.slot(node, slot).view = View::Idle;
        }
    }

    pub(super) fn connect(&mut self, node: u8, slot: u32) {
        let to = gid(1 - node);
        let service_id = if self.rng.per_mille(950) {
            SERVICE
        } else {
            NOBODY_LISTENS
        };
        let wire = WirePath {
            local_lid: 1,
            ..WirePath::default()
        };
        let alternate = self.rng.per_mille(300).then_some(wire);
        let req = Req {
            local_id: CommId::NONE,
            service_id,
            ca_guid: Guid(0),
            qkey: 0,
            qpn: self.qpn(),
            responder_resources: self.rng.byte() & 7,
            initiator_depth: self.rng.byte() & 7,
            // 4 to 64 ms.
            remote_response_timeout: self.response_timeout(),
            transport: Transport::Rc,
            flow_control: true,
            psn: Psn::new(self.rng.word()),
            local_response_timeout: self.response_timeout(),
            retry_count: 7,
            pkey: 0xffff,
            mtu: 1 + self.rng.below(5) as u8,
            rnr_retry_count: 7,
            max_cm_retries: self.rng.below(6) as u8,
            srq: false,
            primary: wire,
            alternate,
            ece: Ece::default(),
            private: b"hello",
        };
        let call = ReqCall {
            primary: self.path(node, to),
            alternate: alternate.map(|_| self.path(node, to)),
            life_time: 9,
            req,
        };
        if self.call(node, slot, Call::Req(call)) {
            let it = self.slot(node, slot);
            it.view = View::Asked;
            it.uses += 1;
            // Of the connection before.
            it.events.clear();
        }
    }

    pub(super) fn ask(&mut self, node: u8, slot: u32) {
        let call = SidrReqCall {
            path: self.path(node, gid(1 - node)),
            service_id: if self.rng.per_mille(900) {
                SERVICE
            } else {
                NOBODY_LISTENS
            },
            pkey: 0xffff,
            timeout_ms: 4 + self.rng.below(60) as u32,
            max_cm_retries: self.rng.below(6) as u8,
            private: b"who",
        };
        if self.call(node, slot, Call::SidrReq(call)) {
            let it = self.slot(node, slot);
            it.view = View::SidrAsked;
            it.uses += 1;
            it.events.clear();
        }
    }

    /// Somebody does something.
    pub(super) fn act(&mut self) {
        let node = self.rng.below(2) as u8;
        let index = usize::from(node);
        let live = self.nodes[index].slots.len();
        let is_new = live == 0 || self.rng.per_mille(250);
        if is_new {
            let view = View::Idle;
            let early = self.cfg.early;
            let conn = |id| Conn::new(id).with_early_repeats(early);
            let slot = self.new_slot(node, conn, view);
            return if self.rng.per_mille(850) {
                self.connect(node, slot);
            } else {
                self.ask(node, slot);
            };
        }
        let slot = self.rng.below(live) as u32;
        if !self.slot(node, slot).alive {
            return;
        }
        let wild = self.rng.per_mille(self.cfg.wild);
        let view = self.slot(node, slot).view;
        // Events that are on their way are seen before the consumer acts on what it knows.
        let waits = !self.slot(node, slot).events.is_empty();
        if waits && !wild {
            return;
        }
        if wild {
            return self.wild(node, slot);
        }
        match view {
            View::Idle => match self.rng.below(4) {
                0 | 1 => self.connect(node, slot),
                2 => self.ask(node, slot),
                _ => self.destroy(node, slot, Destroy::Consumer),
            },
            View::Offered => self.accept(node, slot),
            View::Replied => self.ready(node, slot),
            View::Connected if self.rng.per_mille(700) => self.disconnect(node, slot),
            View::AskedToDisconnect => self.disconnected(node, slot),
            View::SidrOffered => self.sidr_answer(node, slot),
            View::Connected
            | View::Asked
            | View::Accepted
            | View::Disconnecting
            | View::Waiting
            | View::SidrAsked
            | View::Over => {
                if self.rng.per_mille(200) {
                    self.destroy(node, slot, Destroy::Consumer);
                }
            }
        }
    }

    pub(super) fn disconnect(&mut self, node: u8, slot: u32) {
        let was = self.slot(node, slot).conn.state();
        if self.call(node, slot, Call::Dreq { private: b"end" }) {
            self.slot(node, slot).view = View::Disconnecting;
        } else {
            self.left(node, slot, was);
        }
    }

    /// Any call at any time. What it changes is what the consumer then knows.
    pub(super) fn wild(&mut self, node: u8, slot: u32) {
        let waits = !self.slot(node, slot).events.is_empty();
        match self.rng.below(11) {
            0 => self.connect(node, slot),
            1 => self.ask(node, slot),
            2 if !waits => self.accept(node, slot),
            3 if !waits => self.ready(node, slot),
            4 => self.refuse(node, slot),
            5 if !waits => self.disconnect(node, slot),
            6 => self.disconnected(node, slot),
            7 => {
                self.call(node, slot, Call::PrepareMra);
            }
            8 if !waits => {
                // The event follows.
                self.slot(node, slot).claimed = true;
                self.call(node, slot, Call::Established);
            }
            9 => {
                self.call(node, slot, Call::Migrated);
            }
            _ => self.destroy(node, slot, Destroy::Consumer),
        }
    }
}
