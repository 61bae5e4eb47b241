// SPDX-License-Identifier: GPL-2.0

//! Delayed acknowledgments: when one waits for a reply to be piggybacked on.
//!
//! If a user replies to each message (remote procedure calls, ping-pong), two packets go to the
//! same peer within microseconds: the acknowledgment and the reply. In one buffer, the second costs
//! little more than its bytes. The acknowledgment of such a message is therefore delayed until the
//! reply. IBTA 9.7.5.1 permits this: a responder may acknowledge several requests with one packet,
//! at a time of its choice. The peer's timeout is in the order of milliseconds.
//!
//! A user that does not reply must not delay the peer. Therefore:
//!
//! * an acknowledgment is delayed only if each of the last [`DelayedAck::PATTERN`] runs of requests
//!   was followed by a post of the user within [`DelayedAck::BOUND`];
//! * it is delayed for at most [`DelayedAck::BOUND`], or four times that if the last
//!   [`DelayedAck::LONG`] runs were replied to in time: then one late acknowledgment costs little
//!   compared with the gain, and timers fire less often. After a late one, or if the peer sent more
//!   before it left, the pattern must be observed anew, and for twice as many runs
//!   ([`DelayedAck::MOST`] at most) until the user has kept to it for a while. So a peer that gets
//!   no more replies sees one late acknowledgment, and one that gets them irregularly sees few;
//! * only the acknowledgment of complete messages that arrived once and in order is delayed
//!   ([`ack_may_wait`]), and nothing else is delayed with it: anything else that the responder
//!   sends to the peer, and any change of state, includes it or sends it first.
//!
//! Acknowledgments are cumulative: one that leaves after a later response is redundant and ignored.
//! Pure; the host supplies the time.
//!
//! [`ack_may_wait`]: super::recv::RecvSide::ack_may_wait

use super::types::Nanos;

/// Result of the check of a delayed acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Look {
    /// No acknowledgment is delayed.
    Nothing,
    /// It may be delayed for this much longer.
    Wait(Nanos),
    /// It is overdue: send it.
    Late,
}

/// State of delayed acknowledgments of one queue pair. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// Arrival time of the last run of requests.
    came: Nanos,
    /// Number of consecutive runs that were replied to in time.
    answered: u32,
    /// Number of such runs that is required.
    need: u32,
    /// Time since which an acknowledgment is delayed.
    since: Option<Nanos>,
}

impl DelayedAck {
    /// Number of runs that must have been replied to in time before an acknowledgment is delayed.
    pub const PATTERN: u32 = 8;
    /// Maximum of that number, after late acknowledgments.
    pub const MOST: u32 = 4096;
    /// Number of runs after which an acknowledgment is delayed longer.
    pub const LONG: u32 = 64;
    /// Time within which a reply counts, and the maximum delay of an acknowledgment.
    pub const BOUND: Nanos = Nanos(100_000);

    /// Creates a state without history and without a delayed acknowledgment.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            came: Nanos(0),
            answered: 0,
            need: Self::PATTERN,
            since: None,
        }
    }

    /// Records a run of requests after a reply; `reply` is the time of the user's first post since
    /// the previous run. Returns whether the pattern permits delaying the acknowledgment.
    #[must_use]
    pub fn answered(&mut self, now: Nanos, reply: Nanos) -> bool {
        // The clock of another CPU may be slightly behind.
        let prompt = reply.0.saturating_sub(self.came.0) <= Self::BOUND.0;
        self.came = now;
        if !prompt {
            self.answered = 0;
            return false;
        }
        self.answered = self.answered.saturating_add(1);
        if self.answered >= self.need.saturating_mul(2) {
            self.need = Self::PATTERN;
        }
        self.answered >= self.need
    }

    /// Records a run of requests when the previous one was not replied to.
    #[inline]
    pub fn unanswered(&mut self) {
        if self.since.is_some() {
            self.disappoint();
        }
        self.answered = 0;
        // The arrival time of this run is not recorded, so a reply to it does not count.
        self.came = Nanos(0);
    }

    /// Delays the acknowledgment of the last run. Returns the maximum delay.
    pub fn hold(&mut self) -> Nanos {
        self.since = Some(self.came);
        self.bound()
    }

    fn bound(&self) -> Nanos {
        if self.answered >= Self::LONG {
            Nanos(Self::BOUND.0 * 4)
        } else {
            Self::BOUND
        }
    }

    /// The delay did not pay off.
    fn disappoint(&mut self) {
        self.answered = 0;
        self.need = self.need.saturating_mul(2).min(Self::MOST);
    }

    /// Returns whether an acknowledgment is delayed.
    #[must_use]
    #[inline]
    pub fn holds(&self) -> bool {
        self.since.is_some()
    }

    /// Ends the delay: the acknowledgment was sent, or there is no peer.
    #[inline]
    pub fn sent(&mut self) {
        self.since = None;
    }

    /// Checks whether a delayed acknowledgment is overdue.
    pub fn look(&mut self, now: Nanos) -> Look {
        let Some(since) = self.since else {
            return Look::Nothing;
        };
        let end = since.after(self.bound());
        match end.0.checked_sub(now.0) {
            Some(left) if left != 0 => Look::Wait(Nanos(left)),
            Some(_) | None => {
                self.disappoint();
                Look::Late
            }
        }
    }
}

impl Default for DelayedAck {
    fn default() -> Self {
        Self::new()
    }
}
