// SPDX-License-Identifier: GPL-2.0

//! Turns of the two halves: what the runner of a half does each time it is called.
//!
//! Turns of both halves start with [`take_packets`] and end with [`verdict`]; the part in between
//! differs. A turn is bounded by [`BUDGET`], a kick by [`TURNS`].
//!
//! Context: softirq, or bottom halves off; the runner of the half, which holds no lock.

use super::early::Keeper;
use super::feed::Feed;
use super::feed::Source;
use super::now;
use super::recv::RecvHalf;
use super::recv::RecvWorld;
use super::send::SendHalf;
use super::send::SendWorld;
use super::span;
use super::work;
use super::Notes;
use super::Qp;
use crate::net::RxPacket;
use crate::net::TRAIN_PACKETS;
use crate::proto;
use crate::proto::pace::Full;
use crate::proto::pace::Pace;
use crate::proto::Disposition;
use crate::proto::DropCause;
use crate::proto::Nanos;
use crate::proto::Progress;
use crate::proto::QpType;
use crate::proto::RecvSide;
use crate::proto::SendSide;
use crate::queue::lazy::LazyVec;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::rcu;
use kernel::sync::ArcBorrow;
use kernel::time::Delta;
use rdma::timer::Timer;
use rdma::token::Turn;

/// Maximum number of packets, or of requests to flush, that one turn handles.
// CAST: the constant fits `u32`.
pub(super) const BUDGET: u32 = TRAIN_PACKETS as u32;
/// Maximum number of turns of one kick, so that a half under constant load yields the CPU.
const TURNS: u32 = 4;
/// Delay before a blocked half retries.
const BLOCKED_RETRY: Delta = Delta::from_millis(1);

/// Runs `turn` at most [`TURNS`] times; the rest is left to the pump.
#[inline(always)]
pub(super) fn bounded<H>(
    mut turn: impl FnMut(&mut H, u32) -> Turn,
) -> impl FnMut(&mut H, u32) -> Turn {
    let mut left = TURNS;
    move |half, bits| match left.checked_sub(1) {
        Some(less) => {
            left = less;
            turn(half, bits)
        }
        None => Turn::Later(bits),
    }
}

/// A half during its turn: the engine and its host.
trait Half {
    type Host: Keeper;

    /// Returns the host.
    fn host(&mut self) -> &mut Self::Host;

    /// Passes a packet to the engine, if it is for this queue pair. It becomes the host's current
    /// packet.
    fn handle(&mut self, packet: RxPacket) -> Option<Disposition>;

    /// Tells the engine that the packet just handled carried a congestion mark.
    fn on_mark(&mut self);

    /// Passes kept packets that are now due to the engine. Returns whether the host's current
    /// packet must be parked.
    fn hand_in_early(&mut self) -> bool;
}

/// Passes the packets of a turn to the engine: the one that is `parked`, then those of `feed`. A
/// packet that waits for memory is parked and ends the loop. Returns whether another turn must
/// follow.
#[inline(always)]
fn take_packets(
    half: &mut impl Half,
    feed: &mut Feed<'_, '_, '_>,
    parked: &mut Option<RxPacket>,
    kind: QpType,
) -> bool {
    let mut next = None;
    // Rare; move the packet only if there is one.
    if parked.is_some() {
        next = parked.take();
    }
    while let Some(packet) = next.or_else(|| feed.next()) {
        let marked = kind == QpType::Rc && packet.is_marked();
        if let Some(disposition) = half.handle(packet) {
            match disposition {
                Disposition::Parked => {
                    *parked = half.host().take_packet();
                    break;
                }
                Disposition::Early => half.host().keep_packet(),
                // The engine counts other dispositions where they matter.
                Disposition::Done | Disposition::Dropped(_) => {}
            }
            if marked {
                half.on_mark();
            }
        }
        if half.host().has_early() && half.hand_in_early() {
            *parked = half.host().take_packet();
            break;
        }
        next = None;
    }
    feed.has_more() && parked.is_none()
}

/// Determines how a turn ends. `retry_later` arms the half's timer for the given time from now.
#[inline(always)]
fn verdict(progress: Progress, more: bool, notes: &Notes, retry_later: impl FnOnce(Delta)) -> Turn {
    if more {
        return Turn::Later(work::PACKETS | work::POLL);
    }
    match progress {
        Progress::Idle => Turn::Done,
        Progress::More if !notes.congested => Turn::Later(work::POLL),
        // The half is woken when the memory is present, when the peer gives up, or when packets have
        // left.
        Progress::Blocked if notes.fault.is_some() || notes.peer_faults || notes.waits => {
            Turn::Done
        }
        Progress::Blocked if notes.full && !notes.congested => Turn::Later(work::POLL),
        Progress::More | Progress::Blocked => {
            retry_later(BLOCKED_RETRY);
            Turn::Done
        }
    }
}

/// The send half during its turn.
struct Sending<'a, 'w> {
    engine: &'a mut SendSide<LazyVec<proto::Slot>>,
    host: &'a mut SendWorld<'w>,
    now: Nanos,
}

impl<'w> Half for Sending<'_, 'w> {
    type Host = SendWorld<'w>;

    #[inline(always)]
    fn host(&mut self) -> &mut SendWorld<'w> {
        self.host
    }

    #[inline(always)]
    fn handle(&mut self, packet: RxPacket) -> Option<Disposition> {
        self.host.set_packet(packet);
        let header = self.host.header()?;
        Some(self.engine.on_response(self.now, &header, self.host))
    }

    #[inline(always)]
    fn on_mark(&mut self) {
        self.engine.on_mark(self.now, self.host);
    }

    #[inline(always)]
    fn hand_in_early(&mut self) -> bool {
        self.host.hand_in_early(self.engine, self.now)
    }
}

/// The receive half during its turn.
struct Receiving<'a, 'w, 'm> {
    qp: &'a Qp,
    engine: &'a mut RecvSide<KVec<proto::Resource>>,
    host: &'a mut RecvWorld<'w, 'm>,
    /// Whether the acknowledgment may be delayed.
    may_wait: bool,
}

impl<'w, 'm> Half for Receiving<'_, 'w, 'm> {
    type Host = RecvWorld<'w, 'm>;

    #[inline(always)]
    fn host(&mut self) -> &mut RecvWorld<'w, 'm> {
        self.host
    }

    #[inline(always)]
    fn handle(&mut self, packet: RxPacket) -> Option<Disposition> {
        self.host.set_packet(packet);
        let header = self.host.header()?;
        let disposition = self.engine.on_request(&header, self.host);
        if let Disposition::Dropped(_) = disposition {
            self.may_wait = false;
            self.qp.count_dropped(disposition);
        }
        Some(disposition)
    }

    #[inline(always)]
    fn on_mark(&mut self) {
        self.engine.on_mark(now(), self.host);
    }

    #[inline(always)]
    fn hand_in_early(&mut self) -> bool {
        self.host.hand_in_early(self.engine)
    }
}

impl Qp {
    /// Counts a request that was dropped for a reason that the port reports.
    #[inline]
    pub(super) fn count_dropped(&self, disposition: Disposition) {
        if disposition == Disposition::Dropped(DropCause::Qkey) {
            let _: u32 = self.dev.bad_qkeys.fetch_add(1u32, Relaxed);
        }
    }

    /// Determines whether the send half, which has sent as many packets as its turn might, or some
    /// that were dropped, has to wait for packets to leave. If so, they wake it.
    #[cold]
    fn waits_to_leave(&self, pace: &mut Pace, notes: &Notes) -> bool {
        let Some(unsent) = &self.unsent else {
            return false;
        };
        let Some(count) = unsent.count() else {
            // It waits already.
            return true;
        };
        if notes.congested {
            pace.dropped(count);
        }
        match notes.full.then(|| pace.used_up(count)) {
            Some(Full::Wait(mark)) => unsent.wait(mark),
            Some(Full::GoOn) | None => false,
        }
    }

    /// Runs one turn of the send half, which also handles the packets of `source`.
    #[inline]
    pub(super) fn send_turn(
        this: ArcBorrow<'_, Self>,
        half: &mut SendHalf,
        bits: u32,
        source: &mut Option<Source<'_, '_>>,
    ) -> Turn {
        let now = match source {
            Some(source) => source.run.now(),
            None => now(),
        };
        // Posting sets other bits; packets and responses do not imply new requests.
        if bits & !(work::PACKETS | work::FETCH) != 0 {
            half.io.sq_empty = false;
        }
        let were_held = half.cork.holds();
        if Self::held(this, half, bits, now) {
            return Turn::Done;
        }
        let failed = this.has_failed(bits);
        let mut left = BUDGET;
        let SendHalf {
            engine,
            io,
            backlog,
            parked,
            armed,
            cork: _,
            completed,
        } = half;
        let rcu = rcu::read_lock();
        let mut notes = Notes::NONE;
        // The end of the block drops the host, which releases memory before consumers are notified.
        // `drop` would move its 440 bytes.
        let (more, progress, waits) = {
            let mut host = io.host(&this, &rcu, &mut notes);
            if failed {
                engine.set_error();
            }
            if bits & work::FETCH != 0 {
                host.fetch_soon();
            }
            let mut feed = Feed {
                queue: &this.responses,
                more: bits & work::PACKETS != 0,
                backlog,
                source,
                left: &mut left,
            };
            feed.begin(parked.is_some());
            let mut sending = Sending {
                engine: &mut *engine,
                host: &mut host,
                now,
            };
            let more = take_packets(&mut sending, &mut feed, parked, this.kind);
            host.drop_packet();
            if failed {
                host.forget_early();
            }
            if bits & work::TIMER != 0 {
                *armed = None;
                // A response has arrived; it waits for local memory, so this is not a timeout.
                if parked.is_none() && !host.has_answers() {
                    engine.on_timer(now, &mut host);
                }
            }
            let progress = if host.is_quiet() && engine.is_idle() {
                Progress::Idle
            } else {
                Self::converse(engine, &mut host, now, left.max(1))
            };
            let waits = parked.is_some() || host.has_answers();
            if this.ack_waits.load(Relaxed) && host.has_company() {
                Self::piggyback_ack(this, &mut host);
            }
            host.finish();
            (more, progress, waits)
        };
        if were_held && this.kind.is_datagram() {
            // Not before the requests are served: their address handles may then go.
            this.dev.holders.let_go(this.pd, this.number);
        }
        *completed |= notes.completed;
        if notes.full || notes.congested {
            notes.waits = this.waits_to_leave(&mut io.pace, &notes);
        }
        if let Some(fault) = notes.fault {
            Self::await_send(this, fault);
        }
        // The timer is not postponed when the deadline moves; it then fires early once.
        match engine.next_deadline() {
            Some(at) if !waits && armed.is_none_or(|armed| at < armed) => {
                *armed = Some(at);
                Timer::<Qp, 0>::arm_if_earlier(this, rdma::timer::after(span(now, at)));
            }
            Some(_) | None => {}
        }
        Self::heed(this, &this.send_cq, &notes);
        verdict(progress, more, &notes, |span| {
            Timer::<Qp, 0>::arm_if_earlier(this, rdma::timer::after(span));
        })
    }

    /// Runs one turn of the receive half, which also handles the packets of `source`.
    #[inline]
    pub(super) fn recv_turn(
        this: ArcBorrow<'_, Self>,
        half: &mut RecvHalf,
        bits: u32,
        source: &mut Option<Source<'_, '_>>,
    ) -> Turn {
        if bits & work::DELAYED_ACK != 0
            && Self::ack_delay_goes_on(this, half)
            && bits == work::DELAYED_ACK
        {
            return Turn::Done;
        }
        let failed = this.has_failed(bits);
        if failed {
            this.settle(half);
        }
        let mut left = BUDGET;
        let RecvHalf {
            engine,
            io,
            backlog,
            parked,
            delayed_ack,
            requester_waits: _,
        } = half;
        let mut notes = Notes::NONE;
        let mut batch = this.batch();
        let mut host = io.host(&this, &mut batch, &mut notes);
        if failed {
            engine.set_error();
        }
        let mut feed = Feed {
            queue: &this.requests,
            more: bits & work::PACKETS != 0,
            backlog,
            source,
            left: &mut left,
        };
        feed.begin(parked.is_some());
        let may_wait = (parked.is_some() || feed.has_any())
            && this.hear(delayed_ack, feed.source)
            && !engine.owes();
        let mut receiving = Receiving {
            qp: &this,
            engine: &mut *engine,
            host: &mut host,
            may_wait,
        };
        let more = take_packets(&mut receiving, &mut feed, parked, this.kind);
        let may_wait = receiving.may_wait;
        host.drop_packet();
        if failed {
            host.forget_early();
        }
        let may_wait = may_wait
            && !more
            && parked.is_none()
            && !host.has_early()
            && !host.is_loopback()
            && engine.ack_may_wait();
        let progress = if may_wait && Self::delay_ack(this, delayed_ack) {
            Progress::Idle
        } else {
            if delayed_ack.holds() {
                this.end_ack_delay(delayed_ack);
            }
            engine.poll(&mut host, left.max(1))
        };
        host.finish();
        // Release memory before consumers are notified.
        drop(host);
        drop(batch);
        Self::after_recv_turn(this, &notes);
        verdict(progress, more || notes.flushes, &notes, |span| {
            Timer::<Qp, 1>::arm_if_earlier(this, rdma::timer::after(span));
        })
    }
}
