// SPDX-License-Identifier: GPL-2.0

//! Acknowledgements that leave with a reply: what [`crate::proto::ride`] decides, done.
//!
//! The receive half holds an acknowledgement back by not polling its engine, which goes on
//! owing it. So whatever polls next sends it, if nothing has taken it along before: the
//! send half does, at the end of a turn in which requests leave, if it gets the receive
//! token at once; and a pause sees to it that somebody polls. That is not moved for each
//! acknowledgement: it ends when it ends, and goes on if the present one is younger.

use super::feed::Source;
use super::now;
use super::send::SendWorld;
use super::work;
use super::Notes;
use super::Qp;
use super::RecvHalf;
use crate::proto::ride::Look;
use crate::proto::ride::Ride;
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
    pub(super) fn hear(&self, ride: &mut Ride, source: &mut Option<Source<'_, '_>>) -> bool {
        // Who sends now may be answering.
        if self.heard.load(Relaxed) {
            ride.unanswered();
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
        ride.answered(now, Nanos(self.replied.load(Relaxed)))
    }

    /// Leaves the acknowledgement to a reply, unless that has left already: who polls his
    /// completion queue on another CPU may be faster than the turn. Runner of the receive
    /// half.
    pub(super) fn await_ride(this: ArcBorrow<'_, Self>, ride: &mut Ride) -> bool {
        let span = ride.hold();
        // Either the reply's turn sees this, or it is seen here that there was a reply.
        let _: bool = this.rides.xchg(true, Full);
        if !this.heard.load(Relaxed) {
            return false;
        }
        Self::start_ride_end(this, span);
        true
    }

    fn start_ride_end(this: ArcBorrow<'_, Self>, span: Nanos) {
        let span = Delta::from_nanos(i64::try_from(span.0).unwrap_or(0));
        Pause::<Qp, 1>::start(this, span);
    }

    /// No acknowledgement waits for a reply any more. Runner of the receive half.
    pub(super) fn end_ride(&self, ride: &mut Ride) {
        ride.sent();
        self.rides.store(false, Relaxed);
    }

    /// The pause is over: whether no acknowledgement has waited for too long. Runner of the
    /// receive half.
    #[cold]
    pub(super) fn ride_goes_on(this: ArcBorrow<'_, Self>, half: &mut RecvHalf) -> bool {
        match half.ride.look(now()) {
            Look::Nothing => true,
            Look::Wait(left) => {
                Self::start_ride_end(this, left);
                true
            }
            Look::Late => false,
        }
    }

    /// Has the acknowledgement that waits, if it still does, leave with the requests that
    /// `host` is about to send. Runner of the send half.
    #[cold]
    pub(super) fn give_ride(this: ArcBorrow<'_, Self>, host: &mut SendWorld<'_>) {
        let kick = this.recv.kick_idle(work::RIDE, |half, bits| {
            if bits != work::RIDE {
                // Something else came meanwhile.
                return Turn::Later(bits);
            }
            if half.engine.send_ack_by(|ack| host.carry(ack)) {
                this.end_ride(&mut half.ride);
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
        if !half.ride.holds() {
            return;
        }
        let RecvHalf {
            engine, io, ride, ..
        } = half;
        // There will be nothing in it but whether the way is congested.
        let mut notes = Notes::NONE;
        let mut host = io.host(self, &mut notes);
        // Without memory it is as if it were lost on the way.
        let _: bool = engine.send_ack_by(|ack| host.emit(ack));
        host.finish();
        drop(host);
        self.end_ride(ride);
    }
}
