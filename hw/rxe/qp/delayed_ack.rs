// SPDX-License-Identifier: GPL-2.0

//! Delayed acknowledgements: carries out what [`crate::proto::delayed_ack`] decides.
//!
//! The receive half delays an acknowledgement by not polling its engine, which goes on owing
//! it. So whatever polls the engine next sends it, unless the send half has sent it before: at
//! the end of a turn in which requests leave, the send half takes it along if it gets the
//! receive token at once. A timer makes sure that somebody polls. The timer is not restarted
//! for each acknowledgement: when it expires and the present one is younger, it is started
//! again for the rest.
//!
//! Context: the runner of a half; softirq, or bottom halves off.

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
    /// Requests of the peer have come. Whether their acknowledgement may wait, as far as
    /// the user goes. Runner of the receive half.
    #[inline]
    pub(super) fn hear(
        &self,
        delayed_ack: &mut DelayedAck,
        source: &mut Option<Source<'_, '_>>,
    ) -> bool {
        // Who sends now may be answering.
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

    /// Leaves the acknowledgement to a reply, unless that has left already: who polls his
    /// completion queue on another CPU may be faster than the turn. Runner of the receive
    /// half.
    pub(super) fn delay_ack(this: ArcBorrow<'_, Self>, delayed_ack: &mut DelayedAck) -> bool {
        let span = delayed_ack.hold();
        // Either the reply's turn sees this, or it is seen here that there was a reply.
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

    /// No acknowledgement waits for a reply any more. Runner of the receive half.
    pub(super) fn end_ack_delay(&self, delayed_ack: &mut DelayedAck) {
        delayed_ack.sent();
        self.ack_waits.store(false, Relaxed);
    }

    /// The pause is over: whether no acknowledgement has waited for too long. Runner of the
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

    /// Has the acknowledgement that waits, if it still does, leave with the requests that
    /// `host` is about to send. Runner of the send half.
    #[cold]
    pub(super) fn piggyback_ack(this: ArcBorrow<'_, Self>, host: &mut SendWorld<'_>) {
        let kick = this.recv.kick_idle(work::DELAYED_ACK, |half, bits| {
            if bits != work::DELAYED_ACK {
                // Something else came meanwhile.
                return Turn::Later(bits);
            }
            if half.engine.send_ack_by(|ack| host.carry(ack)) {
                this.end_ack_delay(&mut half.delayed_ack);
            }
            Turn::Done
        });
        match kick {
            Some(kick) => Self::after_recv(this, kick),
            // There may be no other reply for it: who has the half sends it.
            None => Self::kick_recv(this, work::POLL),
        }
    }

    /// Sends the acknowledgement that waits at once, since the half is about to change. For
    /// who has the receive half to himself; bottom halves are off.
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
        // There will be nothing in it but whether the way is congested.
        let mut notes = Notes::NONE;
        let mut host = io.host(self, &mut notes);
        // Without memory it is as if it were lost on the way.
        let _: bool = engine.send_ack_by(|ack| host.emit(ack));
        host.finish();
        drop(host);
        self.end_ack_delay(delayed_ack);
    }
}
