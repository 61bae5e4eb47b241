// SPDX-License-Identifier: GPL-2.0

//! Corking: when a doorbell may be held until the next one.
//!
//! A user that posts small messages one by one rings the doorbell for each. Sent one by one, each
//! costs a pass through the stack, an acknowledgment and a wakeup of the receiver. While the user
//! streams, requests are therefore held for a few microseconds, to be sent together. This must not
//! delay users that wait for a reply, so the rule must distinguish a stream from everything else:
//!
//! * a doorbell belongs to a *burst* if it comes within [`Cork::CLOSE`] of the end of the previous
//!   one (too short for a round trip; time in which the user's thread was preempted does not count,
//!   but it must not have slept), if no request of the peer arrived in between, and if the user has
//!   not collected the completions of the previous doorbell at once, since then it was waiting for
//!   them;
//! * the first [`Cork::FREE`] doorbells of a burst are served at once;
//! * a later one is held until [`Cork::COUNT`] requests are held or one more of the same length
//!   would make them [`Cork::BYTES`], until that number would have been reached at the pace of this
//!   burst (but at most [`Cork::HOLD`]), until a packet or a timer gives the send half a turn, or
//!   until the user arms one of the queue pair's completion queues, which precedes sleeping.
//!
//! So only the last requests of a long burst may be late, if the sender polls for their effects: by
//! a few microseconds for a user that posts twice per microsecond, by [`Cork::HOLD`] for one that
//! takes two microseconds per post. If the hold time ends while another program has the CPU, the
//! held requests are sent by a task that competes with that program, instead of in its CPU time.
//! Pure; the host supplies the time.

use super::types::Nanos;

/// What to do with a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Ring {
    /// Serve it.
    Serve,
    /// Hold it. If it is the first one held, call [`Cork::look`] after this time.
    Hold(Option<Nanos>),
}

/// State at the time of a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doorbell {
    /// The current time.
    pub now: Nanos,
    /// Time since the previous doorbell was handled, except time in which the user was preempted;
    /// infinite if it slept.
    pub gap: Nanos,
    /// Whether, since the previous doorbell, the peer sent a request or the user collected
    /// completions as soon as they were posted.
    pub answered: bool,
}

/// Posted requests at the time of a doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Number of requests.
    pub waiting: u32,
    /// Length in bytes of the last of them.
    pub bytes: u32,
}

/// Whether doorbells of one queue pair are held. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cork {
    /// Number of doorbells of this burst so far.
    burst: u32,
    /// Time since which requests are held.
    since: Option<Nanos>,
    /// Approximate number of bytes held.
    bytes: u32,
    /// Time between two doorbells of the user.
    pace: Nanos,
    /// How long the first request may be held.
    hold: Nanos,
}

impl Cork {
    /// Maximum time between doorbells of a burst.
    pub const CLOSE: Nanos = Nanos(5_000);
    /// Number of doorbells of a burst that are served at once.
    pub const FREE: u32 = 4;
    /// Maximum time for which the first request is held.
    pub const HOLD: Nanos = Nanos(40_000);
    /// Minimum time for which it is held, unless something else ends the hold: a shorter one is not
    /// worth a timer.
    pub const LEAST: Nanos = Nanos(5_000);
    /// Maximum number of requests held.
    pub const COUNT: u32 = 16;
    /// Maximum number of bytes held: those of a train, with headers.
    pub const BYTES: u32 = 64 << 10;
    /// Minimum number of held requests that are sent before the next one would exceed a train. Fewer
    /// requests with so many bytes are large: each fills a train of its own.
    pub const FEW: u32 = 4;

    /// Creates a state without held requests and without a burst.
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

    /// Handles a doorbell. `queued` is called only if its result matters.
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
        let held = self.bytes.saturating_add(bytes);
        // Another request of this length would not fit into the train, and would be sent alone.
        let is_train = waiting >= Self::FEW && held.saturating_add(bytes) >= Self::BYTES;
        if waiting == 0 || waiting >= Self::COUNT || held >= Self::BYTES || is_train {
            return Ring::Serve;
        }
        self.bytes = held;
        match self.since {
            None => {
                self.since = Some(doorbell.now);
                // The doorbell itself takes time too: add a quarter.
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

    /// Called when the hold time is over. Newer requests may be held a little longer.
    pub fn look(&self, now: Nanos) -> Ring {
        match self.since {
            Some(since) if now.0 < since.after(self.hold).0 => {
                Ring::Hold(Some(Nanos(since.after(self.hold).0.saturating_sub(now.0))))
            }
            Some(_) | None => Ring::Serve,
        }
    }

    /// Called when all held requests are being served, for any reason.
    pub fn served(&mut self) {
        self.since = None;
        self.bytes = 0;
    }

    /// Returns whether requests are held.
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
