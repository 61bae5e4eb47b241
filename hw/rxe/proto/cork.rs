// SPDX-License-Identifier: GPL-2.0

//! When a doorbell may wait for the next: the cork.
//!
//! A user who posts small messages one by one rings the doorbell for each. Sent one by
//! one, each costs a walk through the stack, an acknowledgement and a wakeup of the
//! receiver. While the user streams, requests therefore wait a few microseconds for
//! company. Nobody who waits for an answer may be made to wait longer, so the rule must
//! tell a stream from everything else:
//!
//! * a doorbell belongs to a *burst* if it comes within [`Cork::CLOSE`] of the end of the
//!   one before (nothing travels to a peer and back in that time; time that the user's
//!   thread spent preempted does not count, but it must not have slept), if no request
//!   of the peer came in between, and if the user has not at once collected the
//!   completions that the one before brought: then it was waiting for them;
//! * the first [`Cork::FREE`] doorbells of a burst are served at once;
//! * a later one waits, until [`Cork::COUNT`] requests or [`Cork::BYTES`] wait, until
//!   so many would have come at the pace of this burst (but [`Cork::HOLD`] at most), until
//!   a packet or a timer gives the send half a turn, or until the user arms one of the
//!   queue pair's completion queues, as everybody does who is about to sleep.
//!
//! So the last of a long burst may be late by that pause if the sender polls for its
//! effects, and nothing else is ever late: by some microseconds for a user who posts
//! twice a microsecond, by [`Cork::HOLD`] for one who takes two for each. If the pause ends
//! while another program has the CPU, what waited goes out as a task, in turn with that
//! program, and not in its time. Pure; the host brings the clock.

use super::types::Nanos;

/// What is to be done about a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ring {
    /// Serve it.
    Serve,
    /// Let it wait. If it is the first that waits, look again after this time.
    Hold(Option<Nanos>),
}

/// What is known when the doorbell rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doorbell {
    /// The time.
    pub now: Nanos,
    /// How long ago the doorbell before this one was done with, without time in which the
    /// user could not run; for ever, if it waited for something.
    pub gap: Nanos,
    /// Since the last one, the peer sent a request, or the user collected completions
    /// as soon as there were any.
    pub answered: bool,
}

/// What waits in the queue when the doorbell rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// How many requests.
    pub waiting: u32,
    /// How many bytes the last of them has.
    pub bytes: u32,
}

/// Whether doorbells of one queue pair wait. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cork {
    /// Doorbells of this burst so far.
    burst: u32,
    /// Since when requests wait.
    since: Option<Nanos>,
    /// Bytes that wait, about.
    bytes: u32,
    /// What the user takes from one doorbell to the next.
    pace: Nanos,
    /// How long the first one that waits may do so.
    hold: Nanos,
}

impl Cork {
    /// The time between doorbells of a burst.
    pub const CLOSE: Nanos = Nanos(5_000);
    /// How many of a burst are served at once.
    pub const FREE: u32 = 4;
    /// How long the first one waits at most.
    pub const HOLD: Nanos = Nanos(40_000);
    /// How long it waits at least, unless something else ends it: less is not worth a timer.
    pub const LEAST: Nanos = Nanos(5_000);
    /// How many requests wait at most.
    pub const COUNT: u32 = 16;
    /// How many bytes wait at most.
    pub const BYTES: u32 = 64 << 10;

    /// Nothing waits, and no burst is known.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            burst: 0,
            since: None,
            bytes: 0,
            pace: Self::CLOSE,
            hold: Self::HOLD,
        }
    }

    /// The doorbell rings. What is `queued` is looked up only if it matters.
    #[inline]
    pub fn ring(&mut self, doorbell: Doorbell, queued: impl FnOnce() -> Queued) -> Ring {
        self.burst = if doorbell.answered || doorbell.gap.0 > Self::CLOSE.0 {
            1
        } else {
            self.burst.saturating_add(1)
        };
        if doorbell.gap.0 != 0 && doorbell.gap.0 <= Self::CLOSE.0 {
            self.pace = doorbell.gap;
        }
        if self.burst <= Self::FREE {
            return Ring::Serve;
        }
        let Queued { waiting, bytes } = queued();
        let bytes = self.bytes.saturating_add(bytes);
        if waiting == 0 || waiting >= Self::COUNT || bytes >= Self::BYTES {
            return Ring::Serve;
        }
        self.bytes = bytes;
        match self.since {
            None => {
                self.since = Some(doorbell.now);
                // The doorbell itself takes time, too: a quarter on top.
                let span = self
                    .pace
                    .0
                    .saturating_mul(const { Self::COUNT as u64 * 5 / 4 });
                self.hold = Nanos(span.clamp(Self::LEAST.0, Self::HOLD.0));
                Ring::Hold(Some(self.hold))
            }
            Some(_) => Ring::Hold(None),
        }
    }

    /// The pause is over. Requests may wait for a little longer, if they came since.
    pub fn look(&self, now: Nanos) -> Ring {
        match self.since {
            Some(since) if now.0 < since.after(self.hold).0 => {
                Ring::Hold(Some(Nanos(since.after(self.hold).0.saturating_sub(now.0))))
            }
            Some(_) | None => Ring::Serve,
        }
    }

    /// All that waits is being served, for whatever reason.
    pub fn served(&mut self) {
        self.since = None;
        self.bytes = 0;
    }

    /// Whether requests wait.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.since.is_some()
    }
}

impl Default for Cork {
    fn default() -> Self {
        Self::new()
    }
}
