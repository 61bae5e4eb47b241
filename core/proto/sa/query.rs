// SPDX-License-Identifier: GPL-2.0

//! Queries: their numbers, how often they are sent, and what becomes of one that is cancelled.

/// Numbers of queries. Users know the lower bits only, and so does the local service; a number
/// comes again to them when there have been very many others.
#[derive(Clone, Copy, Debug)]
pub struct Tickets {
    next: u64,
}

/// How many bits of a number users have: a negative one would be an error.
pub const ID_BITS: u32 = 31;
/// How many the local service has.
pub const SEQ_BITS: u32 = 32;

impl Tickets {
    /// None yet.
    pub const fn new() -> Self {
        Self { next: 1 }
    }

    /// The next one.
    pub fn issue(&mut self) -> u64 {
        let ticket = self.next;
        // It lasts for longer than machines.
        self.next = self.next.wrapping_add(1);
        ticket
    }

    /// The last one that has these lower bits.
    pub fn by_low(&self, low: u32, bits: u32) -> Option<u64> {
        let mask = 1_u64.checked_shl(bits)?.wrapping_sub(1);
        let last = self.next.checked_sub(1)?;
        let back = last.wrapping_sub(low.into()) & mask;
        last.checked_sub(back).filter(|ticket| *ticket != 0)
    }
}

impl Default for Tickets {
    fn default() -> Self {
        Self::new()
    }
}

/// How a query's time is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// How long each answer is awaited, in milliseconds.
    pub timeout_ms: i32,
    /// How often the query is sent again.
    pub retries: i32,
}

impl Tries {
    /// So many milliseconds in ten parts, or of one millisecond if there are too few.
    pub fn of(timeout_ms: u64) -> Self {
        const RETRIES: i32 = 10;
        let some = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
        match timeout_ms / 10 {
            0 => Self {
                timeout_ms: 1,
                retries: some(timeout_ms),
            },
            part => Self {
                timeout_ms: some(part),
                retries: RETRIES,
            },
        }
    }
}

/// Where a query is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The local service has been asked.
    Local,
    /// Somebody sends the datagram.
    Sending {
        /// And it was cancelled meanwhile.
        cancelled: bool,
    },
    /// The datagram is on its way; what becomes of it is told once.
    Sent,
}

/// What whoever cancels has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Complete the query, in a worker: nobody else will.
    Complete,
    /// Nothing: whoever sends it does.
    Nothing,
    /// Cancel the datagram.
    Datagram,
}

impl Phase {
    /// The query is cancelled.
    pub fn cancel(&mut self) -> Cancel {
        match self {
            // Nobody sends it, nor does anybody else complete it.
            Self::Local => Cancel::Complete,
            Self::Sending { cancelled } => {
                *cancelled = true;
                Cancel::Nothing
            }
            Self::Sent => Cancel::Datagram,
        }
    }

    /// The datagram was sent. Whether it is to be cancelled now.
    #[must_use]
    pub fn sent(&mut self) -> bool {
        let cancelled = *self == Self::Sending { cancelled: true };
        *self = Self::Sent;
        cancelled
    }
}
