// SPDX-License-Identifier: GPL-2.0

//! Limit of outstanding PSNs: a window that adapts to the path.
//!
//! It starts with [`START`] PSNs, the fixed window of the C driver. Where that is too small,
//! because the path is long, it grows as long as the round-trip times stay constant; a longer round
//! trip means that packets only wait in a queue. It shrinks below `START` only on loss or
//! congestion, and recovers with acknowledgments.
//!
//! | event | effect on the window |
//! |---|---|
//! | loss | halved, at least [`LOSS_LEAST`]; at most once per round trip |
//! | spurious loss | restored to the previous size |
//! | congestion mark (CNP, CE) | reduced by a share, see below; at least [`MARK_LEAST`] |
//! | all of a full window is acknowledged | slow start up to the threshold, then [`STEP`] more |
//! | round-trip times four times the shortest | reduced, at least `START` |
//!
//! The share grows with the number of marks, as in DCQCN. The threshold is the size after the last
//! reduction. [`STEP`] is per round trip.
//!
//! Round-trip times are measured for one packet at a time, and never for retransmitted ones (RFC
//! 6298, Karn). They also determine when to send a probe ([`Window::probe_timeout`]).
//!
//! Pure arithmetic, independent of packets. Sources: RFC 5681, RFC 6298; "Congestion Control for
//! Large-Scale RDMA Deployments" (SIGCOMM 2015) for the share of a CNP.

use super::super::types::Nanos;

/// Initial window of a queue pair, in PSNs.
pub const START: u32 = 128;
/// Maximum window, in PSNs.
pub const MOST: u32 = 4096;
/// Minimum window after loss, in PSNs.
pub const LOSS_LEAST: u32 = 32;
/// Minimum window after congestion marks, in PSNs.
pub const MARK_LEAST: u32 = 2;
/// Growth per round trip in congestion avoidance, in PSNs.
const STEP: u32 = 8;
/// The same on paths with congestion marks.
const MARKED_STEP: u32 = 2;
/// Share that means that the whole path is congested; a reduction then halves the window.
const WHOLE: u32 = 1024;
/// Minimum time before a probe in nanoseconds, whatever the round-trip times: the peer may be busy.
const SHORTEST: u64 = 2_000_000;

/// The window of one queue pair. See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    size: u32,
    /// Initial size.
    start: u32,
    /// Slow start threshold.
    threshold: u32,
    /// Size and threshold before the last loss.
    before: Option<(u32, u32)>,
    /// Number of PSNs that were outstanding when the limit was last reached and are not
    /// acknowledged yet. Only these make the window grow: an unused window proves nothing.
    limited: u32,
    /// Growth of less than one PSN, in units of 1/`size`.
    credit: u32,
    /// No further reduction before this time.
    calm_until: Nanos,
    /// Estimated congestion of the path, out of [`WHOLE`].
    share: u32,
    marked_at: Option<Nanos>,
    /// Round-trip times in nanoseconds: smoothed, mean deviation, last, shortest; zero before the
    /// first sample.
    smooth: u64,
    deviation: u64,
    last: u64,
    shortest: u64,
    /// Estimate of the round-trip time from retransmitted packets.
    guess: u64,
}

impl Window {
    /// Creates a window that starts with `start` PSNs.
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

    /// Returns the maximum number of outstanding PSNs.
    pub(super) const fn size(&self) -> u32 {
        self.size
    }

    /// Records that the limit was reached.
    pub(super) fn is_full(&mut self) {
        self.limited = self.size;
    }

    /// Adds a sample of the round-trip time.
    pub(super) fn sample(&mut self, span: Nanos) {
        let span = span.0.max(1);
        self.last = span;
        if self.smooth == 0 {
            (self.smooth, self.deviation, self.shortest) = (span, span / 2, span);
            return;
        }
        self.shortest = self.shortest.min(span);
        let off = span.abs_diff(self.smooth);
        // No overflow: each is a mean of earlier values, and a clock value is at most 2^63 ns.
        self.deviation = (self.deviation / 4)
            .saturating_mul(3)
            .saturating_add(off / 4);
        self.smooth = (self.smooth / 8).saturating_mul(7).saturating_add(span / 8);
    }

    /// Records the response time of a retransmitted packet. This is a round-trip time, or less if
    /// the retransmission was spurious; it is used only while there are no samples.
    pub(super) fn guess(&mut self, span: Nanos) {
        self.guess = self.guess.max(span.0);
    }

    /// Returns how long to wait for a response before a probe is sent. Before the first sample this
    /// is a fraction of the queue pair's timeout.
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

    /// Returns an upper bound of the round-trip time; zero if it is unknown.
    pub(super) fn longest(&self) -> Nanos {
        Nanos(self.smooth.saturating_add(self.deviation.saturating_mul(4)))
    }

    /// Returns the shortest round-trip time so far, or zero.
    pub(super) const fn shortest(&self) -> Nanos {
        Nanos(self.shortest)
    }

    /// Records that `steps` more PSNs were acknowledged.
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

    /// Reduces the window after a loss.
    pub(super) fn lost(&mut self, now: Nanos) {
        if now < self.calm_until {
            return;
        }
        self.calm(now);
        self.before.get_or_insert((self.size, self.threshold));
        // Congestion marks may have reduced it below that already.
        let least = LOSS_LEAST.min(self.size);
        self.size = (self.size / 2).max(least).max(1);
        self.threshold = self.size.max(self.start / 2);
    }

    /// Confirms the last loss.
    pub(super) fn was_lost(&mut self) {
        self.before = None;
    }

    /// Undoes the reduction: the packet counted as lost was only late.
    pub(super) fn not_lost(&mut self) {
        if let Some((size, threshold)) = self.before.take() {
            self.size = self.size.max(size);
            self.threshold = self.threshold.max(threshold);
        }
    }

    /// Reduces the window after a congestion mark.
    pub(super) fn marked(&mut self, now: Nanos) {
        if now < self.calm_until {
            return;
        }
        // Without marks the share decays by a sixteenth per round trip.
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

    /// Blocks further reductions until the effect of this one is visible.
    fn calm(&mut self, now: Nanos) {
        self.calm_until = now.after(Nanos(self.smooth.max(50_000)));
    }
}
