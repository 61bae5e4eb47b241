// SPDX-License-Identifier: GPL-2.0

//! Doorbells of users: each is served at once, or held until the next one.
//!
//! [`crate::proto::cork`] decides which; this file carries it out. While a doorbell is held, a
//! timer (`Qp::pause`) limits the delay, and the completion queues ([`crate::cq::Cq::hold`]) end it
//! when the user waits for completions.
//!
//! Context: the doorbell itself in task context, the rest by the runner of the send half.

use super::now;
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
use rdma::task::Switches;
use rdma::task::TaskId;

/// The time between two doorbells is what the clock says.
const GAP_OPEN: u64 = 1;

impl Qp {
    /// A user's doorbell. Task context.
    pub(crate) fn doorbell(this: ArcBorrow<'_, Self>) {
        let Switches { slept, preempted } = Switches::now();
        let gap = if slept != this.slept.load(Relaxed) {
            // It waited for something in between.
            u64::MAX
        } else if preempted != this.preempted.load(Relaxed) {
            // The time was another task's.
            0
        } else {
            // It is for the turn to say how much time.
            GAP_OPEN
        };
        this.slept.store(slept, Relaxed);
        this.preempted.store(preempted, Relaxed);
        this.gap.store(gap, Relaxed);
        this.ringer
            .store(TaskId::current().map_or(0, TaskId::as_u64), Relaxed);
        Self::kick_send(this, work::DOORBELL);
        this.rung.store(now().0, Relaxed);
        if this.state() == QpState::Err {
            Self::kick_recv(this, work::POLL);
        }
    }

    /// Serves the requests that wait for company. Any context that a half may run in.
    pub(crate) fn uncork(this: ArcBorrow<'_, Self>) {
        Self::kick_send(this, work::POLL);
    }

    /// Whether this is the time of a program that has nothing to do with the last doorbell: it
    /// was interrupted. Any context.
    fn is_strangers_time(&self) -> bool {
        TaskId::current().is_some_and(|task| task.as_u64() != self.ringer.load(Relaxed))
    }

    /// Whether this turn of the send half ends at once, because the doorbell that asks
    /// for it can wait for the next one.
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
                    // Full: before this turn looks at `ack_waits`, see `delay_ack`.
                    let _: bool = this.heard.xchg(false, Full);
                }
                let gap = match this.gap.load(Relaxed) {
                    GAP_OPEN => now.0.saturating_sub(this.rung.load(Relaxed)),
                    gap => gap,
                };
                // After a longer gap it does not matter, and to ask takes a lock.
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
            Ring::Hold(None) => return true,
            Ring::Hold(Some(span)) => Some(span),
        };
        match first {
            // Datagrams and queue pairs that do not send go the plain way, and so does
            // who shares a completion queue with another that waits.
            Some(span)
                if !this.kind.is_datagram()
                    && this.state() == QpState::Rts
                    && this.send_cq.hold(this.number)
                    && this.recv_cq.hold(this.number) =>
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
