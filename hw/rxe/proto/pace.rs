// SPDX-License-Identifier: GPL-2.0

//! Pacing: how many packets may wait for the interface, where nobody acknowledges them.
//!
//! A sender of UC or UD that is faster than its interface would fill the interface's queue, and lose
//! packets there. So the number of its packets that have not left is limited to a *window*; a sender
//! that has filled it waits until half of them have left.
//!
//! * At first the window has [`Pace::LEAST`] packets, as in the C driver.
//! * If a sender that was limited finds that all its packets have left before its next turn, the
//!   interface has had nothing to send: the window is doubled, up to [`Pace::MOST`].
//! * If it has waited, and in its next turn at least a quarter of the window is still there, the window
//!   is larger than the interface needs: it is halved, down to [`Pace::LEAST`].
//! * If the interface's queue has dropped packets, it holds no more than are there: that is the window.
//! * A turn sends at most a quarter of the window, so that packets leave in as many steps: those of a
//!   train may all count as gone when its first one leaves.
//!
//! An interface that sends at once (a veth) thus limits nothing after two turns, and the queue of a
//! slow one has a window of [`Pace::LEAST`], and one train. Pure; the host counts packets.

/// What a sender that has used up its turn's share does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Full {
    /// It goes on in another turn.
    GoOn,
    /// It waits until at most this number of packets have not left.
    Wait(u32),
}

/// The window of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    window: u32,
    /// How the last turn ended.
    last: Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// There was nothing more to send.
    Done,
    /// It had used up its share.
    Limited,
    /// The window was full.
    Waited,
}

impl Pace {
    /// Lower bound of the window, in packets, where nothing is dropped: the C driver's limit.
    pub const LEAST: u32 = 64;
    /// Upper bound of the window, in packets.
    pub const MOST: u32 = 256;

    /// Parts of the window that are sent in one turn each.
    const PARTS: u32 = 4;

    /// Creates the window of a sender that has sent nothing.
    #[allow(clippy::new_without_default, reason = "only for a new sender")]
    pub const fn new() -> Self {
        Self {
            window: Self::LEAST,
            last: Last::Done,
        }
    }

    const fn part(&self) -> u32 {
        self.window / Self::PARTS
    }

    /// Returns the number of packets that a turn may send, at the beginning of which `unsent` have not
    /// left.
    #[inline]
    pub fn begin(&mut self, unsent: u32) -> u32 {
        if self.last != Last::Done {
            self.adapt(unsent);
        }
        self.part().min(self.window.saturating_sub(unsent))
    }

    fn adapt(&mut self, unsent: u32) {
        if unsent == 0 {
            self.window = self.window.saturating_mul(2).min(Self::MOST);
        } else if self.last == Last::Waited && unsent >= self.part() && self.window > Self::LEAST {
            self.window /= 2;
        }
        self.last = Last::Done;
    }

    /// The interface's queue has dropped packets of the turn; `unsent` are left.
    pub fn dropped(&mut self, unsent: u32) {
        // So that a part is one packet at least.
        self.window = unsent.clamp(Self::PARTS, Self::LEAST);
    }

    /// The turn has sent as many packets as it might, and has more; `unsent` have not left.
    pub fn used_up(&mut self, unsent: u32) -> Full {
        // Not for less than a part: trains would be short.
        if unsent.saturating_add(self.part()) <= self.window {
            self.last = Last::Limited;
            Full::GoOn
        } else {
            self.last = Last::Waited;
            Full::Wait(self.window / 2)
        }
    }
}
