// SPDX-License-Identifier: GPL-2.0

//! What a client sends and expects.

use kernel::prelude::*;

/// The messages of a client: so many, of such a size, with bytes that depend on their number.
pub(crate) struct Job {
    count: u32,
    size: usize,
    sent: u32,
    received: u32,
}

/// What follows after a message came back.
pub(crate) enum Next {
    More,
    Done,
}

fn byte(message: u32, at: usize) -> u8 {
    // The low bytes are enough of a pattern.
    let [low, next, ..] = message.to_le_bytes();
    let [at, ..] = at.to_le_bytes();
    low.wrapping_mul(31).wrapping_add(next).wrapping_add(at)
}

impl Job {
    /// Creates a job.
    ///
    /// # Errors
    ///
    /// `EINVAL` for none, or for messages without bytes or larger than the service takes.
    pub(crate) fn new(count: u32, size: u32) -> Result<Self> {
        let size = usize::try_from(size).map_err(|_| EINVAL)?;
        if count == 0 || size == 0 || size > crate::peer::SIZE {
            return Err(EINVAL);
        }
        Ok(Self {
            count,
            size,
            sent: 0,
            received: 0,
        })
    }

    /// Returns the bytes of a message.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Writes the next message, if there is one. Returns its size.
    pub(crate) fn write(&mut self, to: &mut [u8]) -> Option<usize> {
        if self.sent == self.count {
            return None;
        }
        for (at, to) in (0..self.size).zip(to) {
            *to = byte(self.sent, at);
        }
        self.sent = self.sent.saturating_add(1);
        Some(self.size)
    }

    /// Checks a message that came back.
    ///
    /// # Errors
    ///
    /// `EIO` if it is not the expected one.
    pub(crate) fn check(&mut self, message: &[u8]) -> Result<Next> {
        let expected = |(at, is): (usize, &u8)| *is == byte(self.received, at);
        if message.len() != self.size || !(0..self.size).zip(message).all(expected) {
            return Err(EIO);
        }
        self.received = self.received.saturating_add(1);
        Ok(if self.received == self.count {
            Next::Done
        } else {
            Next::More
        })
    }
}
