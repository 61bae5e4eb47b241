// SPDX-License-Identifier: GPL-2.0

//! User doorbells: each is served at once or held until the next one.
//!
//! [`crate::proto::cork`] decides; this file implements the decision. While a doorbell is held, a
//! timer (`Qp::pause`) limits the delay, and arming a completion queue ([`crate::cq::Cq::hold`])
//! ends it, because the user is then waiting for completions. Destroying an address handle ends it, too
//! ([`crate::ah::Holders`]): held datagrams may name that handle.
//!
//! Context: the doorbell itself in task context, everything else by the runner of the send half.

use super::now;
use super::turn::bounded;
use super::work;
use super::Qp;
use super::SendHalf;
use crate::proto::cork::Cork;
use crate::proto::cork::Doorbell;
use crate::proto::cork::Queued;
use crate::proto::cork::Ring;
use crate::proto::Nanos;
use crate::proto::QpState;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::ArcBorrow;
use kernel::time::Delta;
use rdma::hrtimer::Pause;
use rdma::sync::bh;
use rdma::task::Switches;
use rdma::task::TaskId;
use rdma::token::Kick;

/// Value of `Qp::gap`: the gap is the elapsed time, which the turn computes.
const GAP_OPEN: u64 = 1;
/// Value of `Qp::gap`: the doorbell was held, and the turn has recorded its time.
const GAP_RECORDED: u64 = 2;
/// Turns in which requests that are held back are sent before what they name goes: as many as fill the
/// smallest window of datagrams.
const HELD_TURNS: u32 = 4;

impl Qp {
    /// Handles a user's doorbell. Task context.
    pub(crate) fn doorbell(this: ArcBorrow<'_, Self>) {
        let Switches { slept, preempted } = Switches::now();
        let gap = if slept != this.slept.load(Relaxed) {
            // The task slept in between.
            u64::MAX
        } else if preempted != this.preempted.load(Relaxed) {
            // The task was preempted: the time does not count.
            0
        } else {
            // The turn computes the gap.
            GAP_OPEN
        };
        this.slept.store(slept, Relaxed);
        this.preempted.store(preempted, Relaxed);
        this.gap.store(gap, Relaxed);
        this.ringer
            .store(TaskId::current().map_or(0, TaskId::as_u64), Relaxed);
        Self::kick_send(this, work::DOORBELL);
        if this.gap.load(Relaxed) != GAP_RECORDED {
            this.rung.store(now().0, Relaxed);
        }
        if this.state() == QpState::Err {
            Self::kick_recv(this, work::POLL);
        }
    }

    /// Serves the requests that are held back. Any context that a half may run in.
    pub(crate) fn uncork(this: ArcBorrow<'_, Self>) {
        Self::kick_send(this, work::POLL);
    }

    /// Serves the requests that are held back, and returns after that: another CPU may be serving
    /// them already. Process context.
    pub(crate) fn uncork_entirely(this: ArcBorrow<'_, Self>) {
        let _bh = bh::disable();
        let mut kick = Kick::Later;
        // A turn of datagrams sends a part of them.
        for _ in 0..HELD_TURNS {
            let turn = bounded(|half, bits| Self::send_turn(this, half, bits, &mut None));
            kick = match this.send.kick(work::POLL, turn) {
                Kick::Busy => {
                    let turn = bounded(|half, bits| Self::send_turn(this, half, bits, &mut None));
                    this.send.exclusive(core::hint::spin_loop).finish(turn)
                }
                kick @ (Kick::Done | Kick::Later | Kick::Closed) => kick,
            };
            if !matches!(kick, Kick::Later) {
                break;
            }
        }
        Self::after_send(this, kick);
    }

    /// Records that requests are held back that may name address handles. Returns `false` if that
    /// is not possible now. The turn that serves them removes the record at its end.
    #[inline]
    fn holds_handles(&self) -> bool {
        !self.kind.is_datagram() || self.dev.holders.hold(self.pd, self.number)
    }

    /// Returns whether the current task is not the one that rang the last doorbell, that is,
    /// whether the timer interrupted an unrelated program. Any context.
    fn is_strangers_time(&self) -> bool {
        TaskId::current().is_some_and(|task| task.as_u64() != self.ringer.load(Relaxed))
    }

    /// Returns whether this turn of the send half ends at once because its doorbell can wait for
    /// the next one.
    #[inline]
    pub(super) fn held(
        this: ArcBorrow<'_, Self>,
        half: &mut SendHalf,
        bits: u32,
        now: Nanos,
    ) -> bool {
        let ring = match bits {
            work::DOORBELL => {
                let mut answered = this.heard.load(Relaxed);
                if answered {
                    this.replied.store(now.0, Relaxed);
                    // Full ordering: before this turn reads `ack_waits`, see `delay_ack`.
                    let _: bool = this.heard.xchg(false, Full);
                }
                let gap = match this.gap.load(Relaxed) {
                    GAP_OPEN | GAP_RECORDED => now.0.saturating_sub(this.rung.load(Relaxed)),
                    gap => gap,
                };
                // After a longer gap the result does not matter, and the query takes a lock.
                if core::mem::take(&mut half.completed) && !answered && gap <= Cork::CLOSE.0 {
                    answered = this.send_cq.waiting() == 0;
                }
                let doorbell = Doorbell {
                    now,
                    gap: Nanos(gap),
                    answered,
                };
                let queue = &half.io.queue;
                half.cork.ring(doorbell, || {
                    let (waiting, bytes) = queue.waiting();
                    Queued { waiting, bytes }
                })
            }
            work::PAUSE => {
                let ring = half.cork.look(now);
                if ring == Ring::Serve && this.is_strangers_time() {
                    Self::serve_later(this);
                    return true;
                }
                ring
            }
            _ => Ring::Serve,
        };
        let first = match ring {
            Ring::Serve => None,
            Ring::Hold(None) => {
                // Nothing else is done for it, so the clock need not be read again.
                this.rung.store(now.0, Relaxed);
                this.gap.store(GAP_RECORDED, Relaxed);
                return true;
            }
            Ring::Hold(Some(span)) => Some(span),
        };
        match first {
            // Requests are not held back for queue pairs that may not send, or if another queue
            // pair that holds requests back uses the same completion queue, or, for datagrams, the
            // same address handles.
            Some(span)
                if this.state() == QpState::Rts
                    && this.send_cq.hold(this.number)
                    && this.recv_cq.hold(this.number)
                    && this.holds_handles() =>
            {
                let span = i64::try_from(span.0).unwrap_or(0);
                Pause::<Qp, 0>::start(this, Delta::from_nanos(span));
                true
            }
            Some(_) | None => {
                if half.cork.holds() {
                    half.cork.served();
                    this.send_cq.let_go(this.number);
                    this.recv_cq.let_go(this.number);
                }
                false
            }
        }
    }
}
