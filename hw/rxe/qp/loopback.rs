// SPDX-License-Identifier: GPL-2.0

//! Loopback: queue pairs of one device exchange requests without packets. For datagrams, see
//! [`datagram`]; the rest of this text is about two connected queue pairs.
//!
//! Both engines work as over a wire, but packets are plain values. The requester's turn runs a turn
//! of the peer's receive half inside its own, a [`visit`], and passes its requests to it. The payload
//! is copied once, from buffer to buffer:
//!
//! ```text
//!   send turn of A                         receive turn of B, inside
//!     engine.poll -> emit ---- request --->  engine.on_request (copies)
//!          |  \------ emit ---- request --->  engine.on_request (copies)
//!          |                                 engine.poll -> emit
//!     engine.on_response <-- `Answers` <---------'
//! ```
//!
//! The visit ends when A's engine has sent all that it may send now, and earlier after a request that has
//! a response, or that was dropped. B's responses are then in A's `Answers`; the data of a read are copied
//! only when A's engine handles them. If there are more responses than fit, B keeps them, and A fetches them with
//! further such turns. B never sends to A by itself: if it has responses that nobody fetches, it
//! kicks A's send half.
//!
//! # When
//!
//! Loopback is used if the path leads to the device itself and the queue pair there is connected to
//! this one. A message that starts in this mode is split into segments of `PIECE` bytes, which
//! cannot be sent as packets: if the condition ceases to hold, they are lost, as on a broken path.
//! Nothing else is lost. On unreliable connections no packet may overtake those sent through a lane
//! (`net::local`), so these use loopback from their first packet on, or never.
//!
//! # Memory on demand
//!
//! If memory is absent, the request stays with the requester, or the response at the front of
//! `Answers`; the requester retries when the pages are present. Whose pages they are decides who
//! faults them in, since a fault may never end and counts for its user ([`crate::faults`]). The
//! requester's own work item faults in the pages that it sends from or reads into. The peer's work
//! item faults in the pages that a request accesses at the peer, also those that are read from only
//! when the response is handled, and then wakes the requester. A peer that ceases to receive
//! ([`Qp::hears_requests`]) wakes it, too; a response that still needs the peer's pages is lost then.
//! The requester arms no timer meanwhile.
//!
//! # Locks
//!
//! The peer's token is only tried, never waited for. A requester that finds it taken retries when
//! the token is released, or soon after. The nesting of turns is limited: a receive turn starts
//! only turns that flush.

mod answers;
mod datagram;
mod requester;
mod visit;

pub(super) use answers::answer;
pub(super) use answers::Answer;
pub(super) use answers::Answers;
pub(super) use visit::Visit;

use super::recv::RecvHalf;
use super::turn::bounded;
use super::turn::BUDGET;
use super::work;
use super::Qp;
use crate::counters::Counter;
use crate::counters::Counters;
use crate::mem::Fault;
use crate::mem::Fill;
use crate::proto;
use crate::proto::QpState;
use crate::queue::cqe::Network;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::rcu;
use kernel::sync::ArcBorrow;
use rdma::token::Kick;
use rdma::token::Turn;

/// Maximum payload of a loopback packet in bytes.
pub(super) const PIECE: u32 = 64 << 10;

/// Payload bytes that a send turn moves before it yields the CPU.
const BYTES: u32 = 4 * PIECE;

/// The requester's state of loopback; guarded by the send token.
pub(super) struct Link {
    answers: Answers,
    /// The peer has more responses to fetch.
    owed: bool,
    /// A packet was sent through a lane; later packets must not overtake it.
    on_lane: bool,
}

impl Link {
    pub(super) const NEW: Self = Self {
        answers: Answers::NONE,
        owed: false,
        on_lane: false,
    };

    /// Records that the peer has more responses to fetch.
    pub(super) fn note_owed(&mut self) {
        self.owed = true;
    }
}

/// Work that one send turn did by loopback.
#[derive(Default)]
pub(super) struct Spent {
    bytes: u32,
    packets: u32,
    answers: u32,
    /// The peer's token was taken by another runner.
    pub(super) busy: bool,
    /// A response waits for memory.
    pub(super) parked: bool,
    /// A request or a response waits for memory of the peer, which wakes this half when it is
    /// present.
    pub(super) peer_faults: bool,
    /// A response needs memory of a peer that does not receive any more.
    lost: bool,
}

impl Spent {
    fn all(&self) -> bool {
        self.bytes >= BYTES || self.packets >= BUDGET
    }

    /// Counts the packets that a wire would have carried, and their payload bytes.
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

/// A request on its way to the peer's receive half.
pub(super) struct Request<'a> {
    pub(super) packet: &'a proto::RxPacket,
    pub(super) network: Network,
    /// Network header that the receiver of a datagram sees.
    pub(super) grh: Option<&'a [u8; 40]>,
    pub(super) fill: Fill<'a>,
}

impl Request<'_> {
    /// Reborrows the request.
    fn borrow(&mut self) -> Request<'_> {
        Request {
            fill: &mut *self.fill,
            ..*self
        }
    }
}

/// What becomes of a response that needs absent memory of the peer.
enum Read {
    /// The peer faults the memory in, and then wakes the requester.
    Waits,
    /// The peer's receive half is busy; it wakes the requester when it is not.
    Busy,
    /// The memory could not be faulted in.
    Refused,
    /// The peer does not receive any more.
    Lost,
}

/// The peer of a turn, and the network properties that its completions report.
#[derive(Clone, Copy)]
pub(super) struct LoopbackPeer<'r> {
    qp: ArcBorrow<'r, Qp>,
    network: Network,
}

impl Qp {
    /// Returns the queue pair on this device to which this one is connected, if the connection is
    /// mutual; the path is not checked. Any context.
    fn loopback_peer<'a>(&'a self, rcu: &'a rcu::Guard) -> Option<ArcBorrow<'a, Qp>> {
        let peer = self.dev.qps.borrow(self.dest.load(Relaxed), rcu)?;
        (peer.kind == self.kind && peer.dest.load(Relaxed) == self.number).then_some(peer)
    }

    /// Returns whether the state allows requests to be received.
    fn hears_requests(&self) -> bool {
        match self.state() {
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => true,
            QpState::Reset | QpState::Init | QpState::Err => false,
        }
    }

    /// Kicks the requester on this device, so that it fetches the responses owed to it. Returns
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
        // Not in this context, which runs a half already.
        match requester
            .send
            .kick(work::FETCH, |_, bits| Turn::Later(bits))
        {
            Kick::Later => Self::pump_send(requester),
            Kick::Done | Kick::Busy | Kick::Closed => {}
        }
        true
    }

    /// Called when the receive token has been released: restarts a requester that found it taken.
    pub(super) fn recv_is_free(&self) {
        if self.recv_wanted.load(Relaxed) == 0 || self.recv_wanted.xchg(0, Full) == 0 {
            return;
        }
        let rcu = rcu::read_lock();
        if let Some(requester) = self.loopback_peer(&rcu) {
            Self::pump_send(requester);
        }
    }

    /// Has a requester on this device that waits for a page fault of this half restarted when the
    /// token is released: this half does not receive any more.
    pub(super) fn release_requester(&self, half: &mut RecvHalf) {
        if core::mem::take(&mut half.requester_waits) {
            self.recv_wanted.store(1, Relaxed);
        }
    }

    /// Has this queue pair fault in memory of its own that a response to the requester on this device
    /// is read from.
    fn fault_for_requester(this: ArcBorrow<'_, Self>, fault: Fault) -> Read {
        let mut read = None;
        let mut run = bounded(|half: &mut RecvHalf, bits| {
            if read.is_some() {
                return Self::recv_turn(this, half, bits, &mut None);
            }
            // The state changes only while the token is held, or whoever changes it wakes the
            // requester.
            read = Some(if !this.hears_requests() {
                Read::Lost
            } else if this.recv_parking.is_hopeful(Some(fault)) {
                half.requester_waits = true;
                Self::await_recv(this, fault);
                Read::Waits
            } else {
                Read::Refused
            });
            Turn::Done
        });
        let kick = this.recv_kick_idle(&mut run);
        drop(run);
        if let Some(kick) = kick {
            Self::after_recv(this, kick);
        }
        read.unwrap_or(Read::Busy)
    }

    /// Runs the receive half inside the requester's turn, if it is idle. Otherwise it restarts the
    /// requester when it is.
    fn recv_kick_idle(&self, mut run: impl FnMut(&mut RecvHalf, u32) -> Turn) -> Option<Kick> {
        self.recv.kick_idle(0, &mut run).or_else(|| {
            // The holder checks the flag after it releases the token, which may be now.
            let _: u32 = self.recv_wanted.xchg(1, Full);
            self.recv.kick_idle(0, &mut run)
        })
    }
}
