// SPDX-License-Identifier: GPL-2.0

//! How much may be outstanding: a window that follows what the path bears.
//!
//! It begins with [`START`] PSNs, which is what soft-RoCE has always had. Where that is too
//! little, because the path is long, it grows as long as the round trips stay what they
//! were; a longer round trip says that packets only wait in a queue. Below `START` it gets
//! only by news of trouble, and it comes back as acknowledgements do.
//!
//! | news | what becomes of the window |
//! |---|---|
//! | something is lost | half, at least [`LOSS_LEAST`]; at most once per round trip |
//! | it was not lost after all | what it was before |
//! | congestion ahead (CNP, CE) | less by a share that grows with their number, as DCQCN has it, at least [`MARK_LEAST`] |
//! | all is acknowledged that it allowed | as TCP's slow start up to its size after the last cut, then by [`STEP`] per round trip |
//! | round trips four times the shortest | less, at least `START` |
//!
//! Round trips are taken of one packet at a time, and none of those that were sent twice
//! (RFC 6298, Karn). They also say when to send a probe ([`Window::probe_timeout`]).
//!
//! Pure arithmetic; nothing here knows packets. Sources: RFC 5681, RFC 6298; "Congestion
//! Control for Large-Scale RDMA Deployments" (SIGCOMM 2015) for the share of a CNP.

use super::super::types::Nanos;

/// The window that a queue pair begins with, in PSNs.
pub const START: u32 = 128;
/// The largest window, in PSNs.
pub const MOST: u32 = 4096;
/// Loss makes it no smaller.
pub const LOSS_LEAST: u32 = 32;
/// Marks of congestion make it no smaller.
pub const MARK_LEAST: u32 = 2;
/// By how much it grows in a round trip once it has found its size.
const STEP: u32 = 8;
/// The same where packets are marked.
const MARKED_STEP: u32 = 2;
/// All of the path is congested; then a cut takes half the window.
const WHOLE: u32 = 1024;
/// The shortest wait before a probe, whatever the round trips are: a peer may be busy.
const SHORTEST: u64 = 2_000_000;

/// The window of one queue pair. See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    size: u32,
    /// What it begins with.
    start: u32,
    /// Up to here it grows fast.
    threshold: u32,
    /// Before the last loss: size and threshold.
    before: Option<(u32, u32)>,
    /// So many PSNs were outstanding when its end was last reached, and are not yet
    /// acknowledged. It grows by these only: what is not used proves nothing.
    limited: u32,
    /// Growth that does not make a PSN yet, in `size`ths of one.
    credit: u32,
    /// Nothing is cut again before this.
    calm_until: Nanos,
    /// How congested the path is, of [`WHOLE`].
    share: u32,
    marked_at: Option<Nanos>,
    /// Round trips in nanoseconds: smoothed, its deviation, the last, the shortest; zero
    /// before the first.
    smooth: u64,
    deviation: u64,
    last: u64,
    shortest: u64,
    /// What was learned from packets sent again.
    guess: u64,
}

impl Window {
    /// A window that begins with `start` PSNs.
    pub(super) const fn new(start: u32) -> Self {
        Self {
            size: start,
            start,
            threshold: MOST,
            before: None,
            limited: 0,
            credit: 0,
            calm_until: Nanos(0),
            share: WHOLE,
            marked_at: None,
            smooth: 0,
            deviation: 0,
            last: 0,
            shortest: 0,
            guess: 0,
        }
    }

    /// How many PSNs may be outstanding.
    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// Its end was reached.
    pub(super) fn is_full(&mut self) {
        self.limited = self.size;
    }

    /// A round trip took so long.
    pub(super) fn sample(&mut self, span: Nanos) {
        let span = span.0.max(1);
        self.last = span;
        if self.smooth == 0 {
            (self.smooth, self.deviation, self.shortest) = (span, span / 2, span);
            return;
        }
        self.shortest = self.shortest.min(span);
        let off = span.abs_diff(self.smooth);
        // No overflow: each is a mean of earlier ones, and a clock has 2^63 ns at most.
        self.deviation = (self.deviation / 4)
            .saturating_mul(3)
            .saturating_add(off / 4);
        self.smooth = (self.smooth / 8).saturating_mul(7).saturating_add(span / 8);
    }

    /// A packet that was sent again was answered after so long. That is a round trip, or
    /// less if it was for nothing; better than no idea at all.
    pub(super) fn guess(&mut self, span: Nanos) {
        self.guess = self.guess.max(span.0);
    }

    /// How long to wait for an answer before a probe is sent. As long as nobody knows
    /// round trips, a part of the queue pair's timeout.
    pub(super) fn probe_timeout(&self, timeout: Nanos) -> Nanos {
        if self.smooth == 0 {
            let wait = if self.guess == 0 {
                timeout.0 / 8
            } else {
                self.guess.saturating_mul(3)
            };
            return Nanos(wait.max(SHORTEST));
        }
        Nanos(self.longest().0.max(SHORTEST))
    }

    /// What a round trip takes at most, as far as is known; zero if that is nothing.
    pub(super) fn longest(&self) -> Nanos {
        Nanos(self.smooth.saturating_add(self.deviation.saturating_mul(4)))
    }

    /// The shortest round trip so far, or zero.
    pub(super) const fn shortest(&self) -> Nanos {
        Nanos(self.shortest)
    }

    /// `steps` more PSNs are acknowledged.
    pub(super) fn acknowledged(&mut self, steps: u32) {
        let steps = steps.min(self.limited);
        if steps == 0 {
            return;
        }
        self.limited = self.limited.saturating_sub(steps);

        let flat = self.last != 0 && self.last <= self.shortest.saturating_mul(2);
        if self.size >= self.start && !flat {
            if self.last > self.shortest.saturating_mul(4) {
                self.size = self.size.saturating_sub(self.size / 16).max(self.start);
            }
            return;
        }
        let most = if flat {
            MOST.max(self.start)
        } else {
            self.start
        };
        if self.size < self.threshold {
            self.size = self.size.saturating_add(steps).min(self.threshold);
        } else {
            let step = if self.size < self.start && self.marked_at.is_some() {
                MARKED_STEP
            } else {
                STEP
            };
            self.credit = self.credit.saturating_add(steps.saturating_mul(step));
            let more = self.credit.checked_div(self.size).unwrap_or(self.credit);
            self.credit = self.credit.saturating_sub(more.saturating_mul(self.size));
            self.size = self.size.saturating_add(more);
        }
        self.size = self.size.min(most);
    }

    /// Something is lost.
    pub(super) fn lost(&mut self, now: Nanos) {
        if now < self.calm_until {
            return;
        }
        self.calm(now);
        self.before.get_or_insert((self.size, self.threshold));
        // Marks may have made it smaller than that.
        let least = LOSS_LEAST.min(self.size);
        self.size = (self.size / 2).max(least).max(1);
        self.threshold = self.size.max(self.start / 2);
    }

    /// It was lost indeed.
    pub(super) fn was_lost(&mut self) {
        self.before = None;
    }

    /// What counted as lost had only been late.
    pub(super) fn not_lost(&mut self) {
        if let Some((size, threshold)) = self.before.take() {
            self.size = self.size.max(size);
            self.threshold = self.threshold.max(threshold);
        }
    }

    /// A packet met congestion on its way.
    pub(super) fn marked(&mut self, now: Nanos) {
        if now < self.calm_until {
            return;
        }
        // Without marks the share falls by a sixteenth in each round trip.
        if let Some(at) = self.marked_at.replace(now) {
            let quiet = now
                .0
                .saturating_sub(at.0)
                .checked_div(self.smooth.max(50_000))
                .unwrap_or(0);
            for _ in 1..quiet.min(100) {
                self.share = self.share.saturating_sub(self.share / 16);
            }
        }
        self.share = self
            .share
            .saturating_sub(self.share / 16)
            .saturating_add(WHOLE / 16);
        self.calm(now);
        self.before = None;
        let cut = self.size.saturating_mul(self.share) / (2 * WHOLE);
        self.size = self
            .size
            .saturating_sub(cut.max(1))
            .max(MARK_LEAST.min(self.start));
        self.threshold = self.size;
    }

    /// No news before the effect of this one can be seen.
    fn calm(&mut self, now: Nanos) {
        self.calm_until = now.after(Nanos(self.smooth.max(50_000)));
    }
}
