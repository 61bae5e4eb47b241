// SPDX-License-Identifier: GPL-2.0

//! Delayed acknowledgements: when one waits for a reply, to leave with it (piggyback).
//!
//! A user that answers each message by one of its own (remote procedure calls, ping-pong)
//! makes us send two packets to the same peer within microseconds: the acknowledgement and
//! the reply. In one buffer the second costs little more than its bytes. So the
//! acknowledgement of such a message waits for the reply. IBTA 9.7.5.1 permits that: a
//! responder may acknowledge several requests by one packet, at a time of its choice. The
//! peer's timeout is in the order of milliseconds.
//!
//! A user that does not answer must not delay the peer. Therefore:
//!
//! * an acknowledgement waits only if each of the last [`DelayedAck::PATTERN`] runs of requests
//!   was answered by a post of the user's within [`DelayedAck::BOUND`];
//! * it waits for [`DelayedAck::BOUND`] at most, or four times that if the last
//!   [`DelayedAck::LONG`] runs were answered in time: then one late acknowledgement costs little
//!   of what was gained, and timers fire less often. After a late one, or if the peer sent more
//!   before it left, the pattern must be seen anew, and for twice as many runs
//!   ([`DelayedAck::MOST`] at most) until the user has kept to it for a while. So a peer that is
//!   no longer answered sees one late acknowledgement, and one that is answered now and then
//!   sees few;
//! * only the acknowledgement of whole messages that came in order, once, waits
//!   ([`ack_may_wait`]), and nothing waits for it: whatever else the responder sends to the
//!   peer, and any change of state, takes it along or sends it first.
//!
//! Acknowledgements are cumulative: one that leaves after a later answer says nothing new and
//! is ignored. Pure; the host supplies the time.
//!
//! [`ack_may_wait`]: super::recv::RecvSide::ack_may_wait

use super::types::Nanos;

/// What to do when a waiting acknowledgement may be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Look {
    /// No acknowledgement waits.
    Nothing,
    /// It may wait for this much longer.
    Wait(Nanos),
    /// It is late: send it.
    Late,
}

/// Whether acknowledgements of one queue pair wait. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// When the last run of requests came.
    came: Nanos,
    /// How many runs in a row were answered in time.
    answered: u32,
    /// How many must be.
    need: u32,
    /// Since when an acknowledgement waits.
    since: Option<Nanos>,
}

impl DelayedAck {
    /// How many runs of requests must have been answered in time before one is trusted.
    pub const PATTERN: u32 = 8;
    /// How many must have been, after acknowledgements were late.
    pub const MOST: u32 = 4096;
    /// How many must have been for an acknowledgement to wait longer.
    pub const LONG: u32 = 64;
    /// Within what time a reply counts, and how long an acknowledgement waits at most.
    pub const BOUND: Nanos = Nanos(100_000);

    /// Nothing is known of the user, and nothing waits.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            came: Nanos(0),
            answered: 0,
            need: Self::PATTERN,
            since: None,
        }
    }

    /// A run of requests came, and the user had posted at `reply`, the first time since the
    /// run before. Answers whether the acknowledgement may wait, as far as the user goes.
    #[must_use]
    pub fn answered(&mut self, now: Nanos, reply: Nanos) -> bool {
        // A clock of another CPU may be a little behind.
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

    /// A run of requests came, and the one before was not answered.
    #[inline]
    pub fn unanswered(&mut self) {
        if self.since.is_some() {
            self.disappoint();
        }
        self.answered = 0;
        // When it came is not known, so a reply to it does not count.
        self.came = Nanos(0);
    }

    /// The acknowledgement of the run that came last waits, for as long as is returned.
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

    /// It waited in vain.
    fn disappoint(&mut self) {
        self.answered = 0;
        self.need = self.need.saturating_mul(2).min(Self::MOST);
    }

    /// Whether one waits.
    #[must_use]
    #[inline]
    pub fn holds(&self) -> bool {
        self.since.is_some()
    }

    /// None waits any more: it is sent, or there is no peer to tell.
    #[inline]
    pub fn sent(&mut self) {
        self.since = None;
    }

    /// Some time has passed.
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
