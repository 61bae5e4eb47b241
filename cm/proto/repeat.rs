// SPDX-License-Identifier: GPL-2.0

//! Early repeats: a message that waits for its answer is sent once more after a second.
//!
//! The MAD layer repeats a REQ, a REP and a DREQ after the time that [`times`](super::times) computes,
//! 4 to 5 seconds with the parameters that `rdma_cm` uses, so a single loss delays a connection by that
//! time. An early repeat is one more copy, between the message and its first repetition. The
//! repetitions are sent at the same times as without it, so it delays no exchange, and ends none
//! earlier.
//!
//! It must not make a peer slower, either:
//!
//! * A port sends no more than [`BURST`] early repeats at once, and [`RATE`] in a second
//!   ([`Budget`]). A network that loses one message in a hundred needs fewer; an overloaded peer, which
//!   leaves hundreds of messages unanswered for a second, does not get hundreds more.
//! * None is sent while more messages wait for answers than the MAD layer lets out at a time
//!   ([`WINDOW`]): the message itself may not have been sent yet.
//! * A peer whose consumer needs time may answer a copy with an MRA, which delays repetitions by a
//!   minute. Without the early repeat it would not have been asked yet. So the first MRA within
//!   [`ANSWER_MS`] of an early repeat is ignored; the peer sends it again when it gets the repetition.
//!   A copy provokes one MRA, which its node sends at once, so another or a later MRA was sent unasked
//!   and counts.
//!
//! Owner: [`Conn`](super::conn::Conn) has the state of the present send, a port its budget.

use super::ids::Instant;
use super::ids::SendId;

/// Milliseconds from a message to its early repeat.
pub const AFTER_MS: u32 = 1000;
/// Early repeats that a port may send at once.
pub const BURST: u32 = 32;
/// Early repeats that a port may send in a second.
pub const RATE: u32 = 32;
/// Milliseconds after an early repeat in which its answer comes.
pub const ANSWER_MS: u32 = 1000;
/// Messages of an agent that may wait for answers: a quarter of the MAD layer's receive queue, which has
/// 512 entries by default (`recv_queue_size` of `ib_core`). Others are not sent before one of these ends.
pub const WINDOW: u32 = 128;

/// The early repeat of a send of a connection. That of a send that has ended means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Early {
    /// There are no early repeats.
    Off,
    /// There is no send, or its early repeat is over.
    None,
    /// It will be sent.
    Due { send: SendId, at: Instant },
    /// It was sent. An MRA may be its answer until then.
    Sent { send: SendId, until: Instant },
}

impl Early {
    /// Of a message that is sent now, and repeated each `timeout_ms`, `retries` times.
    pub(super) const fn of(self, send: SendId, now: Instant, timeout_ms: u32, retries: u8) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::None | Self::Due { .. } | Self::Sent { .. } => {
                // It is worth a message only if it comes much earlier.
                if retries == 0 || timeout_ms / 2 < AFTER_MS {
                    return Self::None;
                }
                Self::Due {
                    send,
                    at: now.after(AFTER_MS),
                }
            }
        }
    }

    /// When it is over.
    pub(super) const fn over(self) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::None | Self::Due { .. } | Self::Sent { .. } => Self::None,
        }
    }

    /// When it is to be sent. `current` is the present send.
    pub(super) fn due(self, current: Option<SendId>) -> Option<Instant> {
        match self {
            Self::Due { send, at } if current == Some(send) => Some(at),
            Self::Off | Self::None | Self::Due { .. } | Self::Sent { .. } => None,
        }
    }

    /// Whether an MRA that comes now may be the answer to the early repeat. `current` is the present send.
    pub(super) fn provoked(self, current: SendId, now: Instant) -> bool {
        match self {
            Self::Sent { send, until } => current == send && now < until,
            Self::Off | Self::None | Self::Due { .. } => false,
        }
    }
}

/// How many early repeats a port may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Thousandths of a message.
    left: u64,
    at: Instant,
}

impl Budget {
    const UNIT: u64 = 1000;

    /// A full budget.
    pub const fn new(now: Instant) -> Self {
        Self {
            // CAST: widens. OVERFLOW: of two small constants.
            left: BURST as u64 * Self::UNIT,
            at: now,
        }
    }

    /// Takes one message, if there is one. `waiting` is the number of messages that wait for answers, that
    /// which is repeated among them.
    pub fn take(&mut self, now: Instant, waiting: u32) -> bool {
        if waiting > WINDOW {
            return false;
        }
        let elapsed = now.0.saturating_sub(self.at.0);
        let more = elapsed.saturating_mul(RATE.into());
        let most = u64::from(BURST).saturating_mul(Self::UNIT);
        self.left = self.left.saturating_add(more).min(most);
        self.at = self.at.max(now);
        match self.left.checked_sub(Self::UNIT) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}
