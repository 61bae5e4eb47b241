// SPDX-License-Identifier: GPL-2.0

//! Turns of the two halves: what the runner of a half does each time it is called.
//!
//! Both begin in the same way ([`take_packets`]) and end in the same way ([`verdict`]); what is
//! between is the half's own. A turn is bounded by [`BUDGET`], a kick by [`TURNS`].
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

/// Packets, or requests to flush, that one turn handles before the pump goes on.
// CAST: widens.
pub(super) const BUDGET: u32 = TRAIN_PACKETS as u32;
/// Turns of one kick, so that a half under constant load leaves the CPU to others.
const TURNS: u32 = 4;
/// How long to wait for room on the wire.
const BLOCKED_RETRY: Delta = Delta::from_millis(1);

/// `turn`, [`TURNS`] times at most; then the rest is left to the pump.
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

/// A half in its turn: the engine and its host.
trait Half {
    type Host: Keeper;

    /// The host.
    fn host(&mut self) -> &mut Self::Host;

    /// Hands a packet to the engine, if it is for this queue pair. It becomes the host's
    /// present packet.
    fn handle(&mut self, packet: RxPacket) -> Option<Disposition>;

    /// Tells the engine that the packet just handled met congestion.
    fn on_mark(&mut self);

    /// Hands the kept packets to the engine whose turn it is now. Answers whether one is to be
    /// parked, which is the present one then.
    fn hand_in_early(&mut self) -> bool;
}

/// Hands the packets of a turn to the engine: the one that is `parked`, and those of `feed`. One
/// that waits for memory is parked, and ends this. Answers whether another turn must follow.
#[inline(always)]
fn take_packets(
    half: &mut impl Half,
    feed: &mut Feed<'_, '_, '_>,
    parked: &mut Option<RxPacket>,
    kind: QpType,
) -> bool {
    let mut next = None;
    // Rarely; and then only it is moved.
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
                // What else became of it is counted by the engine where it matters.
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

/// How a turn ends. `retry_later` arms the half's timer for the given time from now.
#[inline(always)]
fn verdict(progress: Progress, more: bool, notes: &Notes, retry_later: impl FnOnce(Delta)) -> Turn {
    if more {
        return Turn::Later(work::PACKETS | work::POLL);
    }
    match progress {
        Progress::Idle => Turn::Done,
        Progress::More if !notes.congested => Turn::Later(work::POLL),
        // Memory wakes the half when it is there.
        Progress::Blocked if notes.fault.is_some() => Turn::Done,
        Progress::More | Progress::Blocked => {
            retry_later(BLOCKED_RETRY);
            Turn::Done
        }
    }
}

/// The send half in its turn.
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

/// The receive half in its turn.
struct Receiving<'a, 'w> {
    qp: &'a Qp,
    engine: &'a mut RecvSide<KVec<proto::Resource>>,
    host: &'a mut RecvWorld<'w>,
    /// Whether the acknowledgement may wait for a reply.
    may_wait: bool,
}

impl<'w> Half for Receiving<'_, 'w> {
    type Host = RecvWorld<'w>;

    #[inline(always)]
    fn host(&mut self) -> &mut RecvWorld<'w> {
        self.host
    }

    #[inline(always)]
    fn handle(&mut self, packet: RxPacket) -> Option<Disposition> {
        self.host.set_packet(packet);
        let header = self.host.header()?;
        let disposition = self.engine.on_request(&header, self.host);
        if let Disposition::Dropped(cause) = disposition {
            self.may_wait = false;
            if cause == DropCause::Qkey {
                let _: u32 = self.qp.dev.bad_qkeys.fetch_add(1u32, Relaxed);
            }
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
    /// One turn of the send half, which begins with the packets of `source`.
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
        // Who posts says so; packets and answers tell nothing of that.
        if bits & !(work::PACKETS | work::FETCH) != 0 {
            half.io.sq_empty = false;
        }
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
            // An answer is here; that it has to wait is nobody's fault.
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
        // Memory is let go before anybody hears of anything.
        drop(host);
        *completed |= notes.completed;
        if let Some(fault) = notes.fault {
            Self::await_send(this, fault);
        }
        // It is not put off when the deadline moves: it fires early, once, for nothing.
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

    /// One turn of the receive half, which begins with the packets of `source`.
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
        } = half;
        let mut notes = Notes::NONE;
        let mut host = io.host(&this, &mut notes);
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
        // Memory is let go before anybody hears of anything.
        drop(host);
        Self::after_recv_turn(this, &notes);
        verdict(progress, more, &notes, |span| {
            Timer::<Qp, 1>::arm_if_earlier(this, rdma::timer::after(span));
        })
    }
}
