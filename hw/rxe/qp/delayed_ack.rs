// SPDX-License-Identifier: GPL-2.0

//! Delayed acknowledgments: implements the decisions of [`crate::proto::delayed_ack`].
//!
//! The receive half delays an acknowledgment by not polling its engine, which still owes it.
//! Whatever polls the engine next sends it, unless the send half has done so before: at the end of
//! a turn in which requests are sent, the send half piggybacks it if it gets the receive token at
//! once. A timer guarantees a poll. The timer is not restarted for each acknowledgment: if it
//! expires and the current acknowledgment is younger, it is started again for the remaining time.
//!
//! Context: called by the runner of a half; softirq, or bottom halves off.

use super::feed::Source;
use super::now;
use super::send::SendWorld;
use super::work;
use super::Notes;
use super::Qp;
use super::RecvHalf;
use crate::proto::delayed_ack::DelayedAck;
use crate::proto::delayed_ack::Look;
use crate::proto::Nanos;
use crate::proto::QpType;
use crate::proto::RecvHost;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::ArcBorrow;
use kernel::time::Delta;
use rdma::hrtimer::Pause;
use rdma::token::Turn;

impl Qp {
    /// Notes that requests of the peer have arrived. Returns whether the user's behaviour permits
    /// delaying their acknowledgment. Runner of the receive half.
    #[inline]
    pub(super) fn hear(
        &self,
        delayed_ack: &mut DelayedAck,
        source: &mut Option<Source<'_, '_>>,
    ) -> bool {
        // The next request that the user sends may be a reply.
        if self.heard.load(Relaxed) {
            delayed_ack.unanswered();
            return false;
        }
        self.heard.store(true, Relaxed);
        if self.kind != QpType::Rc {
            return false;
        }
        let now = match source {
            Some(source) => source.run.now(),
            None => now(),
        };
        delayed_ack.answered(now, Nanos(self.replied.load(Relaxed)))
    }

    /// Starts to delay the acknowledgment. Returns `false` if the reply has been sent already: a
    /// user that polls its completion queue on another CPU may be faster than this turn. Runner of
    /// the receive half.
    pub(super) fn delay_ack(this: ArcBorrow<'_, Self>, delayed_ack: &mut DelayedAck) -> bool {
        let span = delayed_ack.hold();
        // Full ordering: either the reply's turn sees `ack_waits`, or the reply is seen here.
        let _: bool = this.ack_waits.xchg(true, Full);
        if !this.heard.load(Relaxed) {
            return false;
        }
        Self::start_ack_timeout(this, span);
        true
    }

    fn start_ack_timeout(this: ArcBorrow<'_, Self>, span: Nanos) {
        let span = Delta::from_nanos(i64::try_from(span.0).unwrap_or(0));
        Pause::<Qp, 1>::start(this, span);
    }

    /// Records that no acknowledgment is delayed any more. Runner of the receive half.
    pub(super) fn end_ack_delay(&self, delayed_ack: &mut DelayedAck) {
        delayed_ack.sent();
        self.ack_waits.store(false, Relaxed);
    }

    /// Handles the expired timer. Returns whether no acknowledgment is overdue. Runner of the
    /// receive half.
    #[cold]
    pub(super) fn ack_delay_goes_on(this: ArcBorrow<'_, Self>, half: &mut RecvHalf) -> bool {
        match half.delayed_ack.look(now()) {
            Look::Nothing => true,
            Look::Wait(left) => {
                Self::start_ack_timeout(this, left);
                true
            }
            Look::Late => false,
        }
    }

    /// Sends a delayed acknowledgment, if there still is one, with the requests that `host` is
    /// about to send. Runner of the send half.
    #[cold]
    pub(super) fn piggyback_ack(this: ArcBorrow<'_, Self>, host: &mut SendWorld<'_>) {
        let kick = this.recv.kick_idle(work::DELAYED_ACK, |half, bits| {
            if bits != work::DELAYED_ACK {
                // Other work has arrived meanwhile.
                return Turn::Later(bits);
            }
            if half.engine.send_ack_by(|ack| host.carry(ack)) {
                this.end_ack_delay(&mut half.delayed_ack);
            }
            Turn::Done
        });
        match kick {
            Some(kick) => Self::after_recv(this, kick),
            // No other reply may follow, so the current runner of the half sends it.
            None => Self::kick_recv(this, work::POLL),
        }
    }

    /// Sends a delayed acknowledgment at once, since the half is about to change. The caller must
    /// hold the receive half exclusively, with bottom halves off.
    pub(super) fn settle(&self, half: &mut RecvHalf) {
        if !half.delayed_ack.holds() {
            return;
        }
        let RecvHalf {
            engine,
            io,
            delayed_ack,
            ..
        } = half;
        // The only possible note is congestion.
        let mut notes = Notes::NONE;
        let mut batch = self.batch();
        let mut host = io.host(self, &mut batch, &mut notes);
        // Without memory, the acknowledgment counts as lost on the network.
        let _: bool = engine.send_ack_by(|ack| host.emit(ack));
        host.finish();
        drop(host);
        self.end_ack_delay(delayed_ack);
    }
}
