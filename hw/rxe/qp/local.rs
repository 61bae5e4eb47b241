// SPDX-License-Identifier: GPL-2.0

//! The way between two connected queue pairs of one device: no packet is ever built.
//!
//! Both engines do what they do over a wire, with packets that are plain values. The
//! requester's turn hands a request to the peer's receive half, as a turn of that half
//! inside its own, and the payload goes from buffer to buffer in one copy:
//!
//! ```text
//!   send turn of A                         receive turn of B, inside
//!     engine.poll -> emit ---- request --->  engine.on_request (copies)
//!          |                                 engine.poll -> emit
//!     engine.on_response <-- [`Answers`] <---------'
//! ```
//!
//! What B answers waits in A's [`Answers`] until A's engine has returned; data of a read
//! are copied only then. If there are more answers than fit, B keeps them, and A fetches
//! them by more such turns. B never sends by itself to one who sends this way: if it owes
//! something when nobody fetches it, it pokes A.
//!
//! # When
//!
//! If the path leads to the device itself and the queue pair there has ours as its peer.
//! A message that begins while that holds is cut into pieces of [`PIECE`] bytes, which no
//! other way carries: if it ceases to hold, they are lost, as on a path that broke.
//! Nothing else is lost here. On unreliable connections nothing may overtake what went by
//! the lane ([`crate::net`]), so they use this way from their first packet on or never.
//!
//! # Locks
//!
//! The peer's token is only ever tried. Who finds it taken tries again when it is given
//! back, or soon. Turns nest no deeper than this: a receive turn starts none but those
//! that flush.

use super::recv::RecvHalf;
use super::send::SendIo;
use super::send::SendWorld;
use super::work;
use super::Qp;
use super::BUDGET;
use super::TURNS;
use crate::counters::Counter;
use crate::counters::Counters;
use crate::mem::Batch;
use crate::mem::Fill;
use crate::mem::MemError;
use crate::mem::PdId;
use crate::mem::QpTag;
use crate::mem::Room;
use crate::proto;
use crate::proto::Nanos;
use crate::proto::Payload;
use crate::proto::Progress;
use crate::proto::QpState;
use crate::proto::QpType;
use crate::proto::SendSide;
use crate::proto::TxError;
use crate::proto::TxPacket;
use crate::proto::WcStatus;
use crate::queue::cqe::Network;
use crate::wire::AethSyndrome;
use crate::wire::Ext;
use crate::wire::Opcode;
use kernel::prelude::*;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::rcu;
use kernel::sync::ArcBorrow;
use rdma::net::AddrPair;
use rdma::token::Kick;
use rdma::token::Turn;

/// Payload bytes of one packet on this way. What one receive turn copies.
pub(super) const PIECE: u32 = 64 << 10;

/// Payload bytes that a send turn moves before others may have the CPU.
const BYTES: u32 = 4 * PIECE;

/// Answers that wait for the requester at a time. Acknowledgements count as one.
const ANSWERS: usize = 8;

/// A packet of the responder.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) packet: proto::RxPacket,
    payload: Payload,
    /// Whose memory a read is answered from.
    pd: PdId,
    tag: QpTag,
}

/// What waits for the requester's engine, oldest first.
pub(super) struct Answers {
    ring: [Option<Answer>; ANSWERS],
    first: usize,
    count: usize,
}

impl Answers {
    pub(super) const NONE: Self = Self {
        ring: [const { None }; ANSWERS],
        first: 0,
        count: 0,
    };

    /// Adds what `qp` answers. `false` if there is no room.
    fn push(&mut self, qp: &Qp, packet: &TxPacket) -> bool {
        let answer = Answer {
            packet: received(packet),
            payload: packet.payload,
            pd: qp.pd,
            tag: qp.tag,
        };
        // An acknowledgement stands for those before it.
        if is_ack(&answer.packet) {
            if let Some(Some(last)) = self.place(self.count.wrapping_sub(1)) {
                if is_ack(&last.packet) {
                    *last = answer;
                    return true;
                }
            }
        }
        if self.count >= ANSWERS {
            return false;
        }
        if let Some(place) = self.place(self.count) {
            *place = Some(answer);
            self.count = self.count.saturating_add(1);
        }
        true
    }

    fn pop(&mut self) -> Option<Answer> {
        if self.count == 0 {
            return None;
        }
        let answer = self.place(0)?.take();
        self.first = self.first.wrapping_add(1) % ANSWERS;
        self.count = self.count.saturating_sub(1);
        answer
    }

    /// The place `k` after the oldest; of the one before the oldest, `None`.
    fn place(&mut self, k: usize) -> Option<&mut Option<Answer>> {
        if k > ANSWERS {
            return None;
        }
        self.ring.get_mut(self.first.wrapping_add(k) % ANSWERS)
    }
}

/// What the requester knows of this way; the send token guards it.
pub(super) struct Link {
    answers: Answers,
    /// The peer has more to answer.
    owed: bool,
    /// A packet went by the lane, which the next ones must not overtake.
    on_lane: bool,
}

impl Link {
    pub(super) const NEW: Self = Self {
        answers: Answers::NONE,
        owed: false,
        on_lane: false,
    };

    /// The peer says that it has more to answer.
    pub(super) fn note_owed(&mut self) {
        self.owed = true;
    }
}

/// What one send turn did on this way.
#[derive(Default)]
pub(super) struct Spent {
    bytes: u32,
    packets: u32,
    answers: u32,
    /// The peer's token was taken.
    pub(super) busy: bool,
}

impl Spent {
    fn all(&self) -> bool {
        self.bytes >= BYTES || self.packets >= BUDGET
    }

    /// Counts the packets that would have been on a wire, and the bytes in them.
    pub(super) fn count(&self, counters: &Counters) {
        let packets = i64::from(self.packets.saturating_add(self.answers));
        if packets != 0 {
            counters.add(Counter::SentPackets, packets);
            counters.add(Counter::ReceivedPackets, packets);
            counters.add(Counter::SentBytes, i64::from(self.bytes));
            counters.add(Counter::ReceivedBytes, i64::from(self.bytes));
        }
    }

    fn add(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.packets = self.packets.saturating_add(1);
    }
}

/// A request on its way into the receive half of the peer.
pub(super) struct Request<'a> {
    pub(super) packet: &'a proto::RxPacket,
    /// The addresses that it would have on a wire.
    from: &'a AddrPair,
    pub(super) network: Network,
    pub(super) fill: Fill<'a>,
}

impl Request<'_> {
    /// The same for a shorter time.
    fn borrow(&mut self) -> Request<'_> {
        Request {
            fill: &mut *self.fill,
            ..*self
        }
    }
}

/// The peer that a turn talks to, and what its completions say of the network.
#[derive(Clone, Copy)]
pub(super) struct Neighbour<'r> {
    qp: ArcBorrow<'r, Qp>,
    network: Network,
}

/// A packet as its receiver's engine sees it.
fn received(packet: &TxPacket) -> proto::RxPacket {
    proto::RxPacket {
        opcode: packet.opcode,
        psn: packet.psn,
        ack_req: packet.ack_req,
        solicited: packet.solicited,
        ext: packet.ext,
        len: packet.payload.len(),
        mtu: Some(packet.mtu),
    }
}

fn is_ack(packet: &proto::RxPacket) -> bool {
    packet.opcode == Opcode::RcAck
        && match packet.ext {
            Ext::Aeth(aeth) => matches!(aeth.syndrome, AethSyndrome::Ack { credit: _ }),
            _ => false,
        }
}

impl Qp {
    /// The queue pair beside us that this one and no other is connected to, whatever
    /// the path is. Any context.
    fn beside<'a>(&'a self, rcu: &'a rcu::Guard) -> Option<ArcBorrow<'a, Qp>> {
        let peer = self.dev.qps.borrow(self.dest.load(Relaxed), rcu)?;
        (peer.kind == self.kind && peer.dest.load(Relaxed) == self.number).then_some(peer)
    }

    /// Whether requests are welcome.
    fn hears_requests(&self) -> bool {
        match self.state() {
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => true,
            QpState::Reset | QpState::Init | QpState::Err => false,
        }
    }

    /// Tells the requester beside us that we owe it answers, which it fetches soon.
    /// `false` if there is none. Bottom halves are off.
    pub(super) fn poke(&self) -> bool {
        let rcu = rcu::read_lock();
        let Some(requester) = self.beside(&rcu) else {
            return false;
        };
        match requester.state() {
            QpState::Rts | QpState::Sqd => {}
            QpState::Reset | QpState::Init | QpState::Rtr | QpState::Sqe | QpState::Err => {
                return false;
            }
        }
        // Not here: we are the runner of a half ourselves.
        match requester
            .send
            .kick(work::FETCH, |_, bits| Turn::Later(bits))
        {
            Kick::Later => Self::pump_send(requester),
            Kick::Done | Kick::Busy | Kick::Closed => {}
        }
        true
    }

    /// The receive token is free again: has the requester go on who found it taken.
    pub(super) fn recv_is_free(&self) {
        if self.recv_wanted.load(Relaxed) == 0 || self.recv_wanted.xchg(0, Full) == 0 {
            return;
        }
        let rcu = rcu::read_lock();
        if let Some(requester) = self.beside(&rcu) {
            Self::pump_send(requester);
        }
    }

    /// A turn of the receive half inside the requester's, for a request or only to
    /// fetch answers. Says whether there are more of these; `None` if the half is taken.
    fn visit(
        this: ArcBorrow<'_, Self>,
        mut request: Option<Request<'_>>,
        answers: &mut Answers,
    ) -> Option<bool> {
        let mut owes = false;
        let mut turns = 0;
        let mut run = |half: &mut RecvHalf, bits| {
            turns += 1;
            match turns {
                1 => {
                    let (turn, more) = Self::visited(this, half, request.take(), answers);
                    owes = more;
                    turn
                }
                ..=TURNS => Self::recv_turn(this, half, bits, &mut None),
                _ => Turn::Later(bits),
            }
        };
        let kick = this.recv.kick_idle(0, &mut run).or_else(|| {
            // Who has it looks at the note after giving it back, which may be now.
            let _: u32 = this.recv_wanted.xchg(1, Full);
            this.recv.kick_idle(0, &mut run)
        })?;
        Self::after_recv(this, kick);
        Some(owes)
    }

    /// The turn itself, and whether more answers are owed.
    fn visited(
        this: ArcBorrow<'_, Self>,
        half: &mut RecvHalf,
        request: Option<Request<'_>>,
        answers: &mut Answers,
    ) -> (Turn, bool) {
        let RecvHalf {
            engine,
            io,
            backlog: _,
        } = half;
        let known = match (&request, io.sender.as_ref()) {
            (Some(request), Some(to)) => to.path().addrs().is_answered_by(request.from),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let mut request = request.filter(|_| known);
        let packet = request.as_ref().map(|request| request.packet);
        let request = request.as_mut().map(Request::borrow);
        let mut host = io.host_beside(&this, request, answers);
        if let Some(packet) = packet {
            // What became of it is counted by the engine where it matters.
            let _ = engine.on_request(packet, &mut host);
        }
        host.drop_packet();
        let progress = engine.poll(&mut host, BUDGET);
        let notes = host.finish();
        Self::after_recv_turn(this, &notes);
        match progress {
            Progress::Idle => (Turn::Done, false),
            Progress::Blocked => (Turn::Done, true),
            // It flushes.
            Progress::More => (Turn::Later(work::POLL), false),
        }
    }

    /// Sends, hears the answers of a peer beside us, and sends what they allow, up to
    /// the budget of a turn.
    pub(super) fn converse(
        engine: &mut SendSide<KVVec<proto::Slot>>,
        host: &mut SendWorld<'_>,
        at: Nanos,
        left: u32,
    ) -> Progress {
        loop {
            let progress = engine.poll(at, host, left);
            let heard = host.hear(engine, at);
            if heard && !host.spent.busy && !engine.has_unsent() && progress == Progress::Idle {
                // Whoever posts meanwhile kicks.
                return progress;
            }
            if host.spent.all() || (host.io.link.owed && !host.spent.busy) {
                return Progress::More;
            } else if host.spent.busy {
                return Progress::Blocked;
            } else if !heard {
                return progress;
            }
        }
    }
}

/// Says that `qp` answers a requester beside it.
///
/// # Errors
///
/// `Blocked` until it has fetched others; `BadPayload` if it cannot have what it reads.
pub(super) fn answer(
    qp: &Qp,
    answers: &mut Answers,
    batch: &mut Batch<'_>,
    packet: &TxPacket,
) -> Result<(), TxError> {
    if let Payload::Remote { key, va, len } = packet.payload {
        // It is read a little later, and checked again.
        batch
            .check_remote(key, va, len, proto::AccessFlags::REMOTE_READ.0)
            .map_err(|_| TxError::BadPayload(WcStatus::RemOp))?;
    }
    if answers.push(qp, packet) {
        Ok(())
    } else {
        Err(TxError::Blocked)
    }
}

impl<'a> SendWorld<'a> {
    /// The peer, if this way leads there now.
    fn neighbour(&mut self) -> Option<Neighbour<'a>> {
        let found = match self.neighbour {
            Some(found) => found,
            None => {
                let found = self.find_neighbour();
                *self.neighbour.insert(found)
            }
        };
        // It may have failed, or gone, since the turn began.
        found.filter(|there| {
            there.qp.hears_requests() && there.qp.dest.load(Relaxed) == self.qp.number
        })
    }

    fn find_neighbour(&mut self) -> Option<Neighbour<'a>> {
        if self.qp.kind.is_datagram() || (self.qp.kind == QpType::Uc && self.io.link.on_lane) {
            return None;
        }
        let network = self.io.sender.as_mut()?.to_ourselves(&self.qp.dev)?;
        let qp = self.qp.beside(self.rcu)?;
        Some(Neighbour { qp, network })
    }

    /// Into pieces of how many bytes a message is cut that begins now.
    pub(super) fn cut_beside(&mut self, mtu: u32) -> u32 {
        match self.neighbour() {
            Some(_) => PIECE,
            None => mtu,
        }
    }

    /// Hands a request to a peer beside us; `None` if it has to go another way.
    pub(super) fn emit_beside(&mut self, packet: &TxPacket) -> Option<Result<(), TxError>> {
        let Some(neighbour) = self.neighbour() else {
            if packet.mtu == PIECE {
                // The path broke under it.
                self.qp.counters().inc(Counter::SendError);
                return Some(Ok(()));
            }
            if self.qp.kind == QpType::Uc {
                self.io.link.on_lane = true;
                self.neighbour = Some(None);
            }
            return None;
        };
        if self.spent.all() {
            return Some(Err(TxError::Enough));
        }
        Some(self.hand_over(neighbour, packet))
    }

    fn hand_over(
        &mut self,
        neighbour: Neighbour<'_>,
        packet: &TxPacket,
    ) -> Result<(), TxError> {
        let SendIo {
            queue,
            sender,
            link,
            ..
        } = &mut *self.io;
        let batch = &mut self.batch;
        // The peer shall not suffer from what is wrong here.
        let len = packet.payload.len();
        if let Payload::Slot { slot, offset, .. } = packet.payload {
            queue
                .check_gather(slot, offset, len, batch)
                .map_err(|error| TxError::BadPayload(error.wc_status()))?;
        }
        let mut fill = |at: usize, room: Room<'_>| match packet.payload {
            Payload::Slot { slot, offset, .. } => {
                let at = u32::try_from(at).ok().and_then(|at| offset.checked_add(at));
                queue.gather(slot, at.ok_or(MemError::ListTooShort)?, room, batch)
            }
            Payload::Bytes(bytes) => bytes
                .get(at..)
                .and_then(|bytes| room.fill(bytes))
                .ok_or(MemError::ListTooShort),
            Payload::None | Payload::Remote { .. } => Err(MemError::ListTooShort),
        };
        let from = sender.as_ref().map(|sender| sender.path().addrs());
        let request = Request {
            packet: &received(packet),
            from: from.ok_or(TxError::BadPayload(WcStatus::LocQpOp))?,
            network: neighbour.network,
            fill: &mut fill,
        };
        match Qp::visit(neighbour.qp, Some(request), &mut link.answers) {
            Some(owed) => link.owed = owed,
            None => {
                self.spent.busy = true;
                return Err(TxError::Blocked);
            }
        }
        self.spent.add(len);
        Ok(())
    }

    /// Has the engine hear what the peer answered, and fetches what more it owes. Says
    /// whether there was anything.
    pub(super) fn hear(&mut self, engine: &mut SendSide<KVVec<proto::Slot>>, now: Nanos) -> bool {
        let mut heard = false;
        loop {
            while let Some(answer) = self.io.link.answers.pop() {
                heard = true;
                self.spent.bytes = self.spent.bytes.saturating_add(answer.packet.len);
                self.spent.answers = self.spent.answers.saturating_add(1);
                let packet = answer.packet;
                self.set_answer(answer);
                // What became of it is counted by the engine where it matters.
                let _ = engine.on_response(now, &packet, self);
            }
            self.drop_packet();
            if !self.io.link.owed || self.spent.all() || self.spent.busy {
                return heard;
            }
            self.fetch();
        }
    }

    /// Fetches answers that the peer owes.
    fn fetch(&mut self) {
        let link = &mut self.io.link;
        let peer = match self.qp.state() {
            QpState::Rts | QpState::Sqd => self.qp.beside(self.rcu),
            QpState::Reset | QpState::Init | QpState::Rtr | QpState::Sqe | QpState::Err => None,
        };
        let Some(peer) = peer else {
            link.owed = false;
            return;
        };
        match Qp::visit(peer, None, &mut link.answers) {
            // It keeps some only if it has filled what room there is.
            Some(owed) => link.owed = owed && link.answers.count != 0,
            None => self.spent.busy = true,
        }
    }

    /// Copies data that the peer answered with into the buffers of a request.
    ///
    /// # Errors
    ///
    /// How the request fails over it.
    pub(super) fn scatter_answer(
        &mut self,
        answer: &Answer,
        slot: u32,
        offset: u32,
    ) -> Result<(), WcStatus> {
        let Payload::Remote { key, va, len } = answer.payload else {
            return Err(WcStatus::LocQpOp);
        };
        let mut theirs = Batch::new(&self.qp.dev.memory, answer.pd, answer.tag);
        let mut gone = false;
        let mut fill = |at: usize, room: Room<'_>| {
            let at = u64::try_from(at).ok().and_then(|at| va.checked_add(at));
            let read = theirs.read_remote(key, at.ok_or(MemError::Range)?, room);
            gone |= read.is_err();
            read
        };
        let batch = &mut self.batch;
        let done = self
            .io
            .queue
            .scatter_by(slot, offset, len as usize, &mut fill, batch);
        match done {
            // It was there when the peer answered, a moment ago.
            Err(_) if gone => Err(WcStatus::RemAccess),
            other => other.map_err(MemError::wc_status),
        }
    }
}
