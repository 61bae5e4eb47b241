// SPDX-License-Identifier: GPL-2.0

//! Loopback: two connected queue pairs of one device exchange requests without packets.
//!
//! Both engines work as over a wire, with packets that are plain values. The requester's turn
//! hands a request to the peer's receive half, as a turn of that half inside its own, and the
//! payload is copied once, from buffer to buffer:
//!
//! ```text
//!   send turn of A                         receive turn of B, inside
//!     engine.poll -> emit ---- request --->  engine.on_request (copies)
//!          |                                 engine.poll -> emit
//!     engine.on_response <-- `Answers` <---------'
//! ```
//!
//! B's responses are kept in A's `Answers` until A's engine has returned; the data of a read
//! are copied only then. If there are more responses than fit, B keeps them, and A fetches them
//! by more such turns. B never sends to A by itself: if it owes responses and nobody fetches
//! them, it pokes A.
//!
//! # When
//!
//! Loopback is used if the path leads to the device itself and the queue pair there is connected
//! to ours. A message that begins in this mode is cut into pieces of `PIECE` bytes, which cannot
//! be sent in packets: if the condition ceases to hold, they are lost, as on a broken path.
//! Nothing else is lost. On unreliable connections nothing may overtake packets that took the
//! lane ([`crate::net`]), so these use loopback from their first packet on, or never.
//!
//! # Memory on demand
//!
//! If memory is absent, the request stays with the requester, which tries again when the pages
//! are present. Its own work item brings in the pages that it sends from, and those that a
//! response touches; the response waits in `Answers` before all others. Pages that a request
//! touches at the peer are brought in by the peer's work item, which then wakes the requester.
//!
//! # Locks
//!
//! The peer's token is only tried, never waited for. A requester that finds it taken tries again
//! when the token is released, or soon after. Turns nest no deeper than this: a receive turn
//! starts only turns that flush.

mod answers;
mod requester;

pub(super) use answers::answer;
pub(super) use answers::Answer;
pub(super) use answers::Answers;

use super::recv::RecvHalf;
use super::turn::bounded;
use super::turn::BUDGET;
use super::work;
use super::Notes;
use super::Qp;
use crate::counters::Counter;
use crate::counters::Counters;
use crate::mem::Fill;
use crate::proto;
use crate::proto::Disposition;
use crate::proto::Progress;
use crate::proto::QpState;
use crate::queue::cqe::Network;
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
    /// An answer waits for memory.
    pub(super) parked: bool,
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

/// What became of a visit to the peer.
#[derive(Clone, Copy)]
struct Visit {
    /// The peer has more to answer.
    owed: bool,
    /// The request has to be brought again: it needs memory that is not there.
    parked: bool,
}

/// The peer that a turn talks to, and what its completions say of the network.
#[derive(Clone, Copy)]
pub(super) struct LoopbackPeer<'r> {
    qp: ArcBorrow<'r, Qp>,
    network: Network,
}

impl Qp {
    /// The queue pair on this device that this one and no other is connected to, whatever
    /// the path is. Any context.
    fn loopback_peer<'a>(&'a self, rcu: &'a rcu::Guard) -> Option<ArcBorrow<'a, Qp>> {
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

    /// Tells the requester on this device that we owe it answers, which it fetches soon.
    /// `false` if there is none. Bottom halves are off.
    pub(super) fn poke(&self) -> bool {
        let rcu = rcu::read_lock();
        let Some(requester) = self.loopback_peer(&rcu) else {
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
        if let Some(requester) = self.loopback_peer(&rcu) {
            Self::pump_send(requester);
        }
    }

    /// A turn of the receive half inside the requester's, for a request or only to
    /// fetch answers. `None` if the half is taken.
    fn visit(
        this: ArcBorrow<'_, Self>,
        mut request: Option<Request<'_>>,
        answers: &mut Answers,
    ) -> Option<Visit> {
        let mut visit = Visit {
            owed: false,
            parked: false,
        };
        let mut visited = false;
        let mut run = bounded(|half: &mut RecvHalf, bits| {
            if visited {
                return Self::recv_turn(this, half, bits, &mut None);
            }
            visited = true;
            let (turn, became) = Self::visited(this, half, request.take(), answers);
            visit = became;
            turn
        });
        let kick = this.recv.kick_idle(0, &mut run).or_else(|| {
            // Who has it looks at the note after giving it back, which may be now.
            let _: u32 = this.recv_wanted.xchg(1, Full);
            this.recv.kick_idle(0, &mut run)
        })?;
        drop(run);
        Self::after_recv(this, kick);
        Some(visit)
    }

    /// The turn itself.
    fn visited(
        this: ArcBorrow<'_, Self>,
        half: &mut RecvHalf,
        request: Option<Request<'_>>,
        answers: &mut Answers,
    ) -> (Turn, Visit) {
        let RecvHalf {
            engine,
            io,
            backlog: _,
            delayed_ack: _,
            parked: before,
        } = half;
        let known = match (&request, io.sender.as_ref()) {
            (Some(request), Some(to)) => to.path().addrs().is_answered_by(request.from),
            (Some(_), None) => false,
            (None, _) => true,
        };
        let mut request = request.filter(|_| known);
        let mut packet = request.as_ref().map(|request| request.packet);
        if packet.is_some() {
            // Who sends now may be answering.
            this.heard.store(true, Relaxed);
        }
        // Nothing overtakes what came by another way and waits for memory.
        let mut parked = packet.is_some() && before.is_some();
        if parked {
            packet = None;
        }
        let request = request.as_mut().map(Request::borrow);
        let mut notes = Notes::NONE;
        let mut host = io.host_loopback(&this, request, answers, &mut notes);
        if let Some(packet) = packet {
            // What else became of it is counted by the engine where it matters.
            parked = engine.on_request(packet, &mut host) == Disposition::Parked;
        }
        host.drop_packet();
        let progress = engine.poll(&mut host, BUDGET);
        host.finish();
        drop(host);
        Self::after_recv_turn(this, &notes);
        let (turn, owed) = match progress {
            Progress::Idle => (Turn::Done, false),
            Progress::Blocked => (Turn::Done, true),
            // It flushes.
            Progress::More => (Turn::Later(work::POLL), false),
        };
        (turn, Visit { owed, parked })
    }
}
