// SPDX-License-Identifier: GPL-2.0

//! Queries: ids, retries and cancellation.

/// Allocator of query numbers. Users and the local service see only the lower bits; these repeat
/// only after very many other queries.
#[derive(Clone, Copy, Debug)]
pub struct Tickets {
    next: u64,
}

/// Number of bits that users see: a negative id would be an error code.
pub const ID_BITS: u32 = 31;
/// Number of bits that the local service sees.
pub const SEQ_BITS: u32 = 32;

impl Tickets {
    /// No numbers issued yet.
    pub const fn new() -> Self {
        Self { next: 1 }
    }

    /// Issues the next number.
    pub fn issue(&mut self) -> u64 {
        let ticket = self.next;
        // 64 bits do not wrap in practice.
        self.next = self.next.wrapping_add(1);
        ticket
    }

    /// The latest number with these lower bits.
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

/// Timeout and retries of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    /// Timeout of each try, in milliseconds.
    pub timeout_ms: i32,
    /// Number of retransmissions.
    pub retries: i32,
}

impl Tries {
    /// Divides `timeout_ms` milliseconds into ten parts, but of at least one millisecond each.
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

/// Phase of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The local service was asked.
    Local,
    /// A task is sending the datagram.
    Sending {
        /// Whether the query was cancelled meanwhile.
        cancelled: bool,
    },
    /// The datagram was sent; its completion is reported once.
    Sent,
}

/// What the canceller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// Complete the query, in a worker: nothing else will.
    Complete,
    /// Nothing: the sender will complete it.
    Nothing,
    /// Cancel the datagram.
    Datagram,
}

impl Phase {
    /// Cancels the query.
    pub fn cancel(&mut self) -> Cancel {
        match self {
            // No task sends it, and nothing else completes it.
            Self::Local => Cancel::Complete,
            Self::Sending { cancelled } => {
                *cancelled = true;
                Cancel::Nothing
            }
            Self::Sent => Cancel::Datagram,
        }
    }

    /// Records that the datagram was sent. Returns whether it must be cancelled now.
    #[must_use]
    pub fn sent(&mut self) -> bool {
        let cancelled = *self == Self::Sending { cancelled: true };
        *self = Self::Sent;
        cancelled
    }
}
