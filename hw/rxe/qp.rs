// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: the engine's two halves, each protected by a run token, and their inputs.
//!
//! [`Qp`] is the object of the data path. The verbs object owns an `Arc` of it; the table for
//! packet lookup, armed timers and queued work items hold references too. It may outlive the verbs
//! object, but is inactive then: both tokens are closed.
//!
//! # How work gets done
//!
//! A context that has work for a half (a packet, a doorbell, an expired timer) sets a bit and kicks
//! the token. If the half is idle, that context runs it at once, with bottom halves off. Otherwise
//! it returns, and the current runner sees the bit. A runner's turn is bounded; the rest is left to
//! the *pump*, a work item that runs in softirq. Posts of kernel users only start the pump, so that
//! a completion handler that posts is not called recursively.
//!
//! ```text
//!   packet ----> requests --+                       +--> skbs, completions
//!   doorbell ---------------+--> kick --> turn -----+--> timer (next deadline)
//!   timer, pump ------------+             (engine)  +--> pump (budget used up)
//! ```
//!
//! # Locks
//!
//! A runner holds no lock while it calls the engine; leaf locks (completion queue, shared receive
//! queue, fast region) are taken and released within host calls. A runner may kick the other half,
//! which never waits. `modify` (a mutex, taken by verbs only) is the outermost lock; under it both
//! tokens are taken, send first.

pub(crate) mod attr;
mod datagram;
mod delayed_ack;
mod doorbell;
mod early;
mod feed;
mod loopback;
mod notes;
mod park;
mod post;
mod recv;
mod send;
mod turn;
pub(crate) mod verbs;
mod wire;

use crate::counters::Counter;
use crate::counters::Counters;
use crate::cq::Cq;
use crate::cq::Told;
use crate::device::Dev;
use crate::mem::Batch;
use crate::mem::PdId;
use crate::mem::QpTag;
use crate::net::RxPacket;
use crate::net::RxQueue;
use crate::net::RxRun;
use crate::net::Stream;
use crate::proto::Nanos;
use crate::proto::QpEvent;
use crate::proto::QpState;
use crate::proto::QpType;
use crate::queue::cqe::Origin;
use crate::wire::Transport;
use attr::Attr;
use feed::Source;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::Mutex;
use kernel::time::Delta;
use kernel::workqueue;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use notes::Notes;
use park::Parked;
pub(crate) use park::Parking;
use post::Posts;
use rdma::features::smp_mb;
use rdma::hrtimer::Pause;
use rdma::hrtimer::PauseCallback;
use rdma::module::Resident;
use rdma::net::in_flight::Waiter;
use rdma::net::InFlight;
use rdma::provider::wc::QpToken;
use rdma::provider::QpEvent as UserEvent;
use rdma::provider::QpUpcall;
use rdma::sync::bh;
use rdma::sync::SpinLockIrq;
use rdma::timer::Timer;
use rdma::timer::TimerCallback;
use rdma::token::Kick;
use rdma::token::RunToken;
use recv::RecvHalf;
use send::SendHalf;

/// Work bits of the tokens.
mod work {
    /// There may be something to send or to flush.
    pub(super) const POLL: u32 = 1;
    /// Received packets are queued.
    pub(super) const PACKETS: u32 = 2;
    /// The timer expired.
    pub(super) const TIMER: u32 = 4;
    /// The queue pair went into error.
    pub(super) const ERROR: u32 = 8;
    /// A user rang the doorbell: there is work to send, but it may be held back.
    pub(super) const DOORBELL: u32 = 16;
    /// Requests have been held back for the maximum time.
    pub(super) const PAUSE: u32 = 32;
    /// An acknowledgment has been delayed for the maximum time.
    pub(super) const DELAYED_ACK: u32 = 128;
    /// The peer, on the same device, has responses to fetch.
    pub(super) const FETCH: u32 = 64;
}

/// Received packets that may be queued for a busy half. More are dropped, as a network interface
/// would.
const BACKLOG: u32 = 1024;
/// How often to look for receive requests that a user posts in the error state, for which there is
/// no doorbell.
const FLUSH_POLL: Delta = Delta::from_millis(50);

/// The part of a queue pair that the data path uses. See the module documentation.
#[pin_data]
pub(crate) struct Qp {
    pub(crate) dev: Arc<Dev>,
    /// QPN on the wire; 1 for the general services queue pair.
    pub(crate) number: u32,
    pub(crate) kind: QpType,
    /// Whether user space fills the rings.
    pub(crate) user: bool,
    pd: PdId,
    tag: QpTag,
    origin: Origin<QpToken>,
    state: Atomic<u32>,
    /// QPN of the peer; zero for a datagram queue pair. Written with both tokens held.
    dest: Atomic<u32>,
    /// Nonzero while a requester on this device waits for the receive token.
    recv_wanted: Atomic<u32>,
    /// Values that the receive path checks packets against.
    #[pin]
    peer: SpinLockIrq<attr::Peer>,
    #[pin]
    modify: Mutex<Attr>,
    #[pin]
    posts: SpinLockIrq<Posts>,
    send: RunToken<SendHalf>,
    recv: RunToken<RecvHalf>,
    responses: RxQueue,
    requests: RxQueue,
    /// Packets of requests that have not left. `None` for a reliable connection, whose window limits
    /// them.
    unsent: Option<Arc<InFlight>>,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    upcall: QpUpcall,
    #[pin]
    send_timer: Timer<Qp, 0>,
    #[pin]
    recv_timer: Timer<Qp, 1>,
    /// Limits the time for which requests are held back.
    #[pin]
    pause: Pause<Qp, 0>,
    /// Limits the delay of an acknowledgment.
    #[pin]
    ack_timeout: Pause<Qp, 1>,
    /// An acknowledgment is delayed; the send half piggybacks it on a request.
    ack_waits: Atomic<bool>,
    /// Whether the peer has sent requests since the last doorbell.
    heard: Atomic<bool>,
    /// Time of the first doorbell after requests of the peer.
    replied: Atomic<u64>,
    /// The task that rang the last doorbell, when that doorbell was handled, and the task's counts
    /// of voluntary and involuntary context switches by then.
    ringer: Atomic<u64>,
    rung: Atomic<u64>,
    slept: Atomic<u64>,
    preempted: Atomic<u64>,
    /// Time between the last two doorbells, if it is meaningful for the user's posting pattern.
    gap: Atomic<u64>,
    #[pin]
    send_pump: Work<Qp, 0>,
    #[pin]
    recv_pump: Work<Qp, 1>,
    #[pin]
    send_parking: Parked,
    #[pin]
    recv_parking: Parked,
    /// Runs the send half in process context, to send held requests without using another task's
    /// CPU time.
    #[pin]
    send_later: Work<Qp, 2>,
    /// For `send_later`. Dropped last.
    resident: Resident,
}

rdma::impl_has_timer! {
    impl HasTimer<0> for Qp { self.send_timer }
    impl HasTimer<1> for Qp { self.recv_timer }
}

rdma::impl_has_pause! {
    impl HasPause<0> for Qp { self.pause }
    impl HasPause<1> for Qp { self.ack_timeout }
}

kernel::impl_has_work! {
    impl HasWork<Qp, 0> for Qp { self.send_pump }
    impl HasWork<Qp, 1> for Qp { self.recv_pump }
    impl HasWork<Qp, 2> for Qp { self.send_later }
}

impl TimerCallback<0> for Qp {
    fn run(this: ArcBorrow<'_, Self>) {
        Qp::kick_send(this, work::TIMER);
    }
}

impl TimerCallback<1> for Qp {
    fn run(this: ArcBorrow<'_, Self>) {
        Qp::kick_recv(this, work::TIMER);
    }
}

impl PauseCallback<0> for Qp {
    fn run(this: ArcBorrow<'_, Self>) {
        Qp::kick_send(this, work::PAUSE);
    }
}

impl PauseCallback<1> for Qp {
    fn run(this: ArcBorrow<'_, Self>) {
        Qp::kick_recv(this, work::DELAYED_ACK);
    }
}

impl Waiter for Qp {
    fn go_on(self: Arc<Self>) {
        Qp::kick_send(self.as_arc_borrow(), work::POLL);
    }
}

impl WorkItem<0> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        Qp::kick_send(this.as_arc_borrow(), work::POLL);
    }
}

impl WorkItem<1> for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        Qp::kick_recv(this.as_arc_borrow(), work::POLL);
    }
}

impl Qp {
    /// Returns the current state.
    #[inline]
    pub(crate) fn state(&self) -> QpState {
        QpState::from_code(self.state.load(Acquire)).unwrap_or(QpState::Err)
    }

    /// Returns whether [`work::ERROR`] is among `bits` and still valid. A reset between the failure
    /// and this turn invalidates it.
    #[inline]
    fn has_failed(&self, bits: u32) -> bool {
        bits & work::ERROR != 0 && self.state() == QpState::Err
    }

    fn set_state(&self, state: QpState) {
        self.state.store(u32::from(state.code()), Release);
        if state == QpState::Err {
            // Orders the new state before the search for posted requests: a kernel user posts a
            // receive request first and checks the state afterwards.
            smp_mb();
        }
    }

    /// Delivers packets to this queue pair: at most `most` of `stream` from the front of `run`. The
    /// caller has examined the first. Softirq.
    ///
    /// An idle half processes them at once, in one turn; for a busy half they are queued.
    pub(crate) fn receive(
        this: ArcBorrow<'_, Self>,
        stream: Stream,
        run: &mut RxRun<'_>,
        most: u32,
    ) {
        let mut source = Some(Source {
            stream,
            run,
            most,
            looked_at: true,
        });
        if stream.is_request() {
            let turn = turn::bounded(|half, bits| Self::recv_turn(this, half, bits, &mut source));
            if let Some(kick) = this.recv.kick_idle(0, turn) {
                Self::after_recv(this, kick);
            }
            if source.is_some_and(|source| source.leave(&this.requests)) {
                Self::kick_recv(this, work::PACKETS);
            }
        } else {
            let turn = turn::bounded(|half, bits| Self::send_turn(this, half, bits, &mut source));
            if let Some(kick) = this.send.kick_idle(0, turn) {
                Self::after_send(this, kick);
            }
            if source.is_some_and(|source| source.leave(&this.responses)) {
                Self::kick_send(this, work::PACKETS);
            }
        }
    }

    /// Schedules the send half in softirq. Any context.
    fn pump_send(this: ArcBorrow<'_, Self>) {
        // A work item that is already queued suffices.
        let _ = workqueue::system_bh().enqueue::<Arc<Qp>, 0>(this.into());
    }

    /// Schedules the receive half in softirq. Any context.
    fn pump_recv(this: ArcBorrow<'_, Self>) {
        // A work item that is already queued suffices.
        let _ = workqueue::system_bh().enqueue::<Arc<Qp>, 1>(this.into());
    }

    fn kick_send(this: ArcBorrow<'_, Self>, bits: u32) {
        let _bh = bh::disable();
        let turn = turn::bounded(|half, bits| Self::send_turn(this, half, bits, &mut None));
        Self::after_send(this, this.send.kick(bits, turn));
    }

    fn kick_recv(this: ArcBorrow<'_, Self>, bits: u32) {
        let _bh = bh::disable();
        let turn = turn::bounded(|half, bits| Self::recv_turn(this, half, bits, &mut None));
        Self::after_recv(this, this.recv.kick(bits, turn));
    }

    fn after_send(this: ArcBorrow<'_, Self>, kick: Kick) {
        if this.is_deferred(kick) {
            Self::pump_send(this);
        }
    }

    fn after_recv(this: ArcBorrow<'_, Self>, kick: Kick) {
        this.recv_is_free();
        if this.is_deferred(kick) {
            Self::pump_recv(this);
        }
    }

    /// Returns whether the runner left work that a pump has to continue.
    #[inline]
    fn is_deferred(&self, kick: Kick) -> bool {
        match kick {
            Kick::Later => {
                self.counters().inc(Counter::Deferred);
                true
            }
            Kick::Done | Kick::Busy | Kick::Closed => false,
        }
    }

    /// Runs at the end of each turn of the receive half.
    fn after_recv_turn(this: ArcBorrow<'_, Self>, notes: &Notes) {
        if let Some(fault) = notes.fault {
            Self::await_recv(this, fault);
        }
        Self::heed(this, &this.recv_cq, notes);
        if this.state() == QpState::Err {
            Self::watch_receives(this);
        }
    }

    /// Arms a timer to look for receive requests that a user posts in the error state. Any context.
    fn watch_receives(this: ArcBorrow<'_, Self>) {
        if this.user {
            let at = rdma::timer::after(FLUSH_POLL);
            Timer::<Qp, 1>::arm_if_earlier(this, at);
        }
    }

    /// Acts on the notes of a turn. The runner still holds its token, but no lock.
    #[inline]
    fn heed(this: ArcBorrow<'_, Self>, cq: &Cq, notes: &Notes) {
        cq.tell(notes.told);
        match notes.told {
            Told::Overflow | Told::Dead => Self::fail(this),
            Told::Nothing | Told::Completed => {}
        }
        if notes.has_events() {
            Self::raise(this, notes);
        }
    }

    /// Reports the events that a turn noted.
    #[cold]
    fn raise(this: ArcBorrow<'_, Self>, notes: &Notes) {
        for event in notes.events() {
            match event {
                QpEvent::SqDrained => {
                    if this.peer.lock().drain_notify {
                        this.upcall.event(UserEvent::SendQueueDrained);
                    }
                }
                QpEvent::AccessError => this.upcall.event(UserEvent::AccessError),
                QpEvent::RequestError => this.upcall.event(UserEvent::RequestError),
                QpEvent::SendFailed if this.kind != QpType::Rc => this.fail_sending(),
                QpEvent::SendFailed | QpEvent::RecvFailed => Self::fail(this),
                QpEvent::LastRecv => {
                    if this.has_srq() {
                        this.upcall.event(UserEvent::LastWqeReached);
                    }
                }
            }
        }
    }

    /// Moves the queue pair into the error state after a failure. Softirq or bottom halves off,
    /// possibly as the runner of a half: never waits.
    fn fail(this: ArcBorrow<'_, Self>) {
        if this.state() == QpState::Err {
            return;
        }
        // In this order: `work::ERROR` counts only in this state, see `has_failed`.
        this.set_state(QpState::Err);
        // The requester on this device may wait for a fault of this queue pair.
        this.recv_wanted.store(1, Relaxed);
        Self::kick_send(this, work::ERROR);
        Self::kick_recv(this, work::ERROR);
    }

    /// Moves the send side of an unreliable queue pair into the SQE state after a failure; it
    /// flushes its requests by itself. The receive side continues (IBTA 10.3.1.7). The caller runs
    /// the send half, so that no modification is in progress, but the receive side may fail at any
    /// time.
    fn fail_sending(&self) {
        let sqe = u32::from(QpState::Sqe.code());
        for was in [QpState::Rts, QpState::Sqd] {
            // Any other state takes precedence.
            let _: Result<u32, u32> = self.state.cmpxchg(u32::from(was.code()), sqe, Full);
        }
    }

    fn has_srq(&self) -> bool {
        self.peer.lock().has_srq
    }

    /// Stops the queue pair permanently. May sleep. No completions or events of this queue pair are
    /// posted afterwards.
    pub(crate) fn shutdown(this: &Arc<Self>) {
        // Nobody runs the halves any more, so their memory can be freed. It is freed here, in
        // process context, because a packet in softirq may hold the last reference.
        let rings = {
            let _bh = bh::disable();
            let mut send = this.send.close(core::hint::spin_loop);
            let mut recv = this.recv.close(core::hint::spin_loop);
            this.settle(&mut recv);
            this.release_requester(&mut recv);
            send.io.early.clear(&this.dev);
            recv.io.early.clear(&this.dev);
            (send.io.queue.take_memory(), recv.io.source.take_memory())
        };
        let ends = {
            let mut posts = this.posts.lock();
            (posts.send.take(), posts.recv.take())
        };
        drop((rings, ends));
        Timer::<Qp, 0>::shutdown(this);
        Timer::<Qp, 1>::shutdown(this);
        Pause::<Qp, 0>::shutdown(this);
        Pause::<Qp, 1>::shutdown(this);
        this.send_cq.let_go(this.number);
        this.recv_cq.let_go(this.number);
        this.dev.holders.let_go(this.pd, this.number);
        if let Some(unsent) = &this.unsent {
            unsent.detach();
        }
        rdma::workqueue::disable::<Qp, 0>(this);
        rdma::workqueue::disable::<Qp, 1>(this);
        rdma::workqueue::disable::<Qp, 2>(this);
        {
            let _bh = bh::disable();
            this.recv_is_free();
        }
        drop(this.send_parking.replace(None));
        drop(this.recv_parking.replace(None));
        // Queued packets will never be processed, and they hold packet buffers.
        drop(this.responses.take_all());
        drop(this.requests.take_all());
    }

    fn counters(&self) -> &Counters {
        &self.dev.counters
    }

    /// Returns access to registered memory for one turn.
    fn batch(&self) -> Batch<'_> {
        Batch::new(&self.dev.memory, self.pd, self.tag)
    }

    /// Returns the Q_Key of this queue pair. Any context.
    fn own_qkey(&self) -> u32 {
        self.peer.lock().qkey
    }

    /// Returns whether a packet's transport and the queue pair's state allow it. The half itself
    /// checks that the peer sent it. Softirq.
    pub(crate) fn admits(&self, packet: &RxPacket) -> bool {
        let opcode = packet.start().opcode();
        let transport = opcode.transport();
        let transport_fits = match self.kind {
            QpType::Rc => matches!(transport, Transport::Rc | Transport::Cnp),
            QpType::Uc => transport == Transport::Uc,
            QpType::Ud | QpType::Gsi => transport == Transport::Ud,
        };
        if !transport_fits {
            return false;
        }
        match self.state() {
            QpState::Reset | QpState::Init | QpState::Err => false,
            // A responder receives congestion notifications, too.
            QpState::Rtr => opcode.is_request() || opcode.transport() == Transport::Cnp,
            QpState::Rts | QpState::Sqd | QpState::Sqe => true,
        }
    }
}

/// Clock of the engine.
fn now() -> Nanos {
    Nanos(rdma::timer::monotonic_nanos())
}

/// Returns the time from `now` until `at`; zero if `at` is past.
fn span(now: Nanos, at: Nanos) -> Delta {
    Delta::from_nanos(i64::try_from(at.0.saturating_sub(now.0)).unwrap_or(i64::MAX))
}
