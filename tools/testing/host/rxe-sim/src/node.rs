// SPDX-License-Identifier: GPL-2.0

//! One queue pair with its host, as the glue would tie them together.

use std::collections::VecDeque;
use std::ops::Deref;
use std::ops::DerefMut;

use crate::host::Host;
use crate::proto::delayed_ack::DelayedAck;
use crate::proto::delayed_ack::Look;
use crate::proto::host::Disposition;
use crate::proto::host::Progress;
use crate::proto::host::RecvHost;
use crate::proto::packet::RxPacket;
use crate::proto::qp::transition;
use crate::proto::qp::NoWay;
use crate::proto::qp::QpState;
use crate::proto::recv::RecvAttr;
use crate::proto::recv::RecvSide;
use crate::proto::recv::Resource;
use crate::proto::send::SendAttr;
use crate::proto::send::SendSide;
use crate::proto::send::Slot;
use crate::proto::send::Slots;
use crate::proto::types::Nanos;
use crate::proto::QpEvent;
use crate::wire;

/// The send side's slots, of which exist those that were used.
#[derive(Debug)]
pub struct Requests {
    made: Vec<Slot>,
    room: usize,
}

impl Requests {
    /// Room for this many requests.
    fn new(room: usize) -> Self {
        let made = Vec::new();
        Self { made, room }
    }
}

impl Deref for Requests {
    type Target = [Slot];

    fn deref(&self) -> &[Slot] {
        &self.made
    }
}

impl DerefMut for Requests {
    fn deref_mut(&mut self) -> &mut [Slot] {
        &mut self.made
    }
}

impl Slots for Requests {
    fn room(&self) -> u32 {
        u32::try_from(self.room).expect("a test's queue is short")
    }

    fn put(&mut self, index: u32, slot: Slot) {
        let index = usize::try_from(index).expect("as above");
        assert!(
            index <= self.made.len() && index < self.room,
            "slot {index} used out of order"
        );
        if index == self.made.len() {
            self.made.push(slot);
        } else {
            self.made[index] = slot;
        }
    }
}

/// Acknowledgements that wait for a request of the node's own to leave with.
#[derive(Debug, Default)]
pub struct DelayedAcks {
    /// The rule.
    pub rule: DelayedAck,
    /// Whatever may wait does, whether or not the user answers.
    pub always: bool,
    /// How many left with a request.
    pub taken: u64,
    /// How many were late.
    pub late: u64,
    /// Requests have come since the node last sent some.
    heard: bool,
    /// When it first did after that.
    replied: Nanos,
    /// Requests have come since the last poll; and all of them, and nothing else, were
    /// executed in order.
    run: Option<bool>,
}

impl DelayedAcks {
    /// Whatever may wait does.
    pub fn always() -> Self {
        Self {
            always: true,
            ..Self::default()
        }
    }
}

/// A node.
#[derive(Debug)]
pub struct Node {
    /// Its send side.
    pub send: SendSide<Requests>,
    /// Its receive side.
    pub recv: RecvSide<Vec<Resource>>,
    /// The rest of it.
    pub host: Host,
    /// Its state.
    pub state: QpState,
    /// Whether it goes on by itself when its send queue has drained.
    pub resume: bool,
    /// Whether acknowledgements wait for company, and what became of them.
    pub delayed_acks: Option<DelayedAcks>,
    /// How many events have been seen by [`Node::obey`].
    heard: usize,
    /// Responses and requests that wait for memory: the first is parked, the others came
    /// later.
    parked: [VecDeque<Vec<u8>>; 2],
}

impl Node {
    /// A node in the reset state, with room for this many requests.
    pub fn new(send: SendAttr, recv: RecvAttr, slots: usize, resources: usize) -> Self {
        Self {
            send: SendSide::new(Requests::new(slots), send),
            recv: RecvSide::new(vec![Resource::EMPTY; resources], recv),
            host: Host::new(slots, send.mtu),
            state: QpState::Reset,
            resume: false,
            delayed_acks: None,
            heard: 0,
            parked: Default::default(),
        }
    }

    /// Changes the state.
    pub fn modify(&mut self, new: QpState) -> Result<(), NoWay> {
        let change = transition(self.state, new, self.send.is_draining())?;
        self.settle();
        change.apply_send(&mut self.send, &mut self.host)?;
        change.apply_recv(&mut self.recv);
        if new == QpState::Reset {
            self.host.clear_rings();
            self.parked = Default::default();
            for side in 0..2 {
                while self.host.early[side].pop().is_some() {}
            }
        }
        self.state = new;
        Ok(())
    }

    /// From reset to ready.
    pub fn ready(&mut self, sq_psn: u32, rq_psn: u32) {
        self.modify(QpState::Init).expect("init");
        self.recv.set_psn(wire::Psn::new(rq_psn));
        self.modify(QpState::Rtr).expect("rtr");
        assert!(self.send.set_psn(wire::Psn::new(sq_psn)));
        self.modify(QpState::Rts).expect("rts");
    }

    /// A datagram arrives.
    pub fn receive(&mut self, now: Nanos, datagram: &[u8]) -> Option<Disposition> {
        let packet = wire::Packet::parse(datagram).ok()?;
        let side = usize::from(packet.header().bth.opcode.is_request());
        let owed = self.recv.owes();
        let done = if self.parked[side].is_empty() {
            self.handle(now, datagram)?
        } else {
            Disposition::Parked
        };
        if done == Disposition::Parked {
            self.parked[side].push_back(datagram.to_vec());
        } else {
            self.hand_in(now, side);
        }
        if let (1, Some(delayed_acks)) = (side, &mut self.delayed_acks) {
            let clean = done == Disposition::Done && !(owed && delayed_acks.run.is_none());
            delayed_acks.run = Some(delayed_acks.run.unwrap_or(true) && clean);
        }
        Some(done)
    }

    /// Whether the acknowledgement of what came since the last poll waits, or still does.
    fn waits(&mut self, now: Nanos) -> bool {
        let Some(delayed_acks) = &mut self.delayed_acks else {
            return false;
        };
        let Some(clean) = delayed_acks.run.take() else {
            return delayed_acks.rule.holds();
        };
        let trusted = if std::mem::replace(&mut delayed_acks.heard, true) {
            delayed_acks.rule.unanswered();
            false
        } else {
            delayed_acks.rule.answered(now, delayed_acks.replied)
        };
        let none_kept = self.parked[1].is_empty() && self.host.early[1].first().is_none();
        if clean && (trusted || delayed_acks.always) && none_kept && self.recv.ack_may_wait() {
            // The rule does not know when what it does not trust came.
            let _: bool = delayed_acks.rule.answered(now, now);
            let _: Nanos = delayed_acks.rule.hold();
        } else {
            delayed_acks.rule.sent();
        }
        delayed_acks.rule.holds()
    }

    /// When the acknowledgement that waits is late.
    pub fn late_at(&self, now: Nanos) -> Option<u64> {
        let mut rule = self.delayed_acks.as_ref()?.rule;
        match rule.look(now) {
            Look::Nothing => None,
            Look::Wait(left) => Some(now.0 + left.0),
            Look::Late => Some(now.0),
        }
    }

    /// It is late: the next poll sends it.
    pub fn late(&mut self, now: Nanos) {
        if let Some(delayed_acks) = &mut self.delayed_acks {
            if delayed_acks.rule.look(now) == Look::Late {
                delayed_acks.late += 1;
                delayed_acks.rule.sent();
            }
        }
    }

    /// The node has sent requests.
    fn replied(&mut self, now: Nanos) {
        let Some(delayed_acks) = &mut self.delayed_acks else {
            return;
        };
        if std::mem::take(&mut delayed_acks.heard) {
            delayed_acks.replied = now;
        }
        if delayed_acks.rule.holds() {
            let host = &mut self.host;
            if self.recv.send_ack_by(|ack| RecvHost::emit(host, ack)) {
                delayed_acks.taken += 1;
                delayed_acks.rule.sent();
            }
        }
    }

    /// The acknowledgement that waits leaves at once.
    fn settle(&mut self) {
        if let Some(delayed_acks) = &mut self.delayed_acks {
            if delayed_acks.rule.holds() {
                let host = &mut self.host;
                let _: bool = self.recv.send_ack_by(|ack| RecvHost::emit(host, ack));
                delayed_acks.rule.sent();
            }
        }
    }

    /// The packet that just arrived met congestion on its way.
    pub fn marked(&mut self, now: Nanos, datagram: &[u8]) {
        let Ok(packet) = wire::Packet::parse(datagram) else {
            return;
        };
        if packet.header().bth.opcode.is_request() {
            self.recv.on_mark(now, &mut self.host);
        } else {
            self.send.on_mark(now, &mut self.host);
        }
    }

    /// Hands early packets in whose turn it is now.
    fn hand_in(&mut self, now: Nanos, side: usize) {
        while self.parked[side].is_empty() {
            let Some(first) = self.host.early[side].first() else {
                return;
            };
            let due = match side {
                0 => self.send.is_due(first),
                _ => self.recv.is_due(first),
            };
            if !due {
                return;
            }
            if let Some((_, datagram)) = self.host.early[side].pop() {
                match self.handle(now, &datagram) {
                    Some(Disposition::Parked) => self.parked[side].push_front(datagram),
                    Some(Disposition::Early) => panic!("early, though due"),
                    Some(_) | None => {}
                }
            }
        }
    }

    /// Memory has come: parked datagrams may go on.
    pub fn unpark(&mut self, now: Nanos) {
        for side in 0..2 {
            while let Some(datagram) = self.parked[side].pop_front() {
                if self.handle(now, &datagram) == Some(Disposition::Parked) {
                    self.parked[side].push_front(datagram);
                    break;
                }
            }
            self.hand_in(now, side);
        }
    }

    fn handle(&mut self, now: Nanos, datagram: &[u8]) -> Option<Disposition> {
        let packet = wire::Packet::parse(datagram).ok()?;
        self.host.payload = packet.payload.to_vec();
        let rx = RxPacket::from(&packet.header());
        if rx.opcode.is_request() {
            self.host.beside.answering = false;
        }
        let done = if rx.opcode.is_request() {
            self.recv.on_request(&rx, &mut self.host)
        } else {
            self.send.on_response(now, &rx, &mut self.host)
        };
        if done == Disposition::Early {
            let side = usize::from(rx.opcode.is_request());
            // What there is no room for is lost.
            let _ = self.host.early[side].insert(rx.psn, datagram.to_vec());
        }
        Some(done)
    }

    /// A peer beside this node brings a request, or only fetches answers: these, and
    /// whether there are more. A request that waits for memory is given back.
    #[expect(clippy::type_complexity, reason = "packets with their payload")]
    pub fn visit(
        &mut self,
        request: Option<(RxPacket, Vec<u8>)>,
        budget: u32,
    ) -> (Vec<(RxPacket, Vec<u8>)>, bool, Option<(RxPacket, Vec<u8>)>) {
        self.host.beside.answering = true;
        self.host.beside.fetching = true;
        let mut back = None;
        if let Some((packet, payload)) = request {
            self.host.payload = payload.clone();
            if self.recv.on_request(&packet, &mut self.host) == Disposition::Parked {
                back = Some((packet, payload));
            }
        }
        let progress = self.recv.poll(&mut self.host, budget);
        self.host.beside.fetching = false;
        self.host.beside.poked = false;
        (
            std::mem::take(&mut self.host.beside.answers),
            progress != Progress::Idle,
            back,
        )
    }

    /// What a visit to the peer brought back.
    pub fn hear(&mut self, now: Nanos, answers: Vec<(RxPacket, Vec<u8>)>) {
        for (packet, payload) in answers {
            self.host.payload = payload;
            // Memory that is not there comes; the others wait behind it.
            while self.send.on_response(now, &packet, &mut self.host) == Disposition::Parked {}
        }
    }

    /// Whether the peer's requests are welcome.
    pub fn hears_requests(&self) -> bool {
        matches!(
            self.state,
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe
        )
    }

    /// Runs both halves until neither has anything to do.
    pub fn poll(&mut self, now: Nanos, budget: u32) {
        let waits = self.waits(now);
        for _ in 0..100_000 {
            let recv = if waits {
                Progress::Idle
            } else {
                self.recv.poll(&mut self.host, budget)
            };
            let before = self.host.out.len();
            let send = self.send.poll(now, &mut self.host, budget);
            if self.host.out.len() != before {
                self.replied(now);
            }
            let moved = self.obey();
            // The host wants no more requests for the peer beside it before that has
            // heard these.
            let full = self.host.beside.is_full();
            if recv != Progress::More && (send != Progress::More || full) && !moved {
                return;
            }
        }
        panic!("polling does not end");
    }

    /// Does what events tell the host to do. Whether anything was to do.
    fn obey(&mut self) -> bool {
        let mut moved = false;
        while let Some(&event) = self.host.events.get(self.heard) {
            self.heard += 1;
            match event {
                QpEvent::SendFailed | QpEvent::RecvFailed => {
                    moved |= self.modify(QpState::Err).is_ok();
                }
                QpEvent::SqDrained if self.resume => {
                    moved |= self.modify(QpState::Rts).is_ok();
                }
                QpEvent::SqDrained
                | QpEvent::AccessError
                | QpEvent::RequestError
                | QpEvent::LastRecv => {}
            }
        }
        moved
    }
}
