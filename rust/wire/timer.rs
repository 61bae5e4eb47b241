// SPDX-License-Identifier: GPL-2.0

//! The coded times of the transport, in nanoseconds.
//!
//! Source: IBTA volume 1, table "Encoding for RNR NAK Timer Field" (9.7.5.2)
//! and "Local ACK Timeout" (chapters 9.9 and 12.7). The C names of the codes are in
//! `enum ib_rnr_timeout` of `include/rdma/ib_verbs.h`.

/// How long a requester waits after a "receiver not ready" NAK: a 5-bit code.
///
/// # Invariants
///
/// The code is less than 32.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RnrTimer(u8);

/// Times of the 32 codes in hundredths of a millisecond, as the standard prints
/// them. Code 0 is the longest.
const RNR_CENTI_MS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

impl RnrTimer {
    /// Makes a timer from the low five bits of `code`; the rest is ignored.
    #[inline]
    pub const fn new(code: u8) -> Self {
        // INVARIANT: the mask leaves five bits.
        Self(code & 0x1f)
    }

    /// The code as it stands in an AETH and in `ib_qp_attr.min_rnr_timer`.
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The time to wait, in nanoseconds: 10 us (code 1) to 655.36 ms (code 0).
    #[inline]
    pub fn nanos(self) -> u64 {
        // The mask repeats the type's invariant and spares the bounds check.
        let hundredths = RNR_CENTI_MS.get(usize::from(self.0 & 0x1f));
        // OVERFLOW: at most 65536 hundredths of a millisecond.
        u64::from(hundredths.copied().unwrap_or(0)).wrapping_mul(10_000)
    }
}

/// Time in nanoseconds that a local ACK timeout code stands for, 4.096 us * 2^code;
/// `None` for code 0, which means "no timeout". Only the low five bits count.
#[inline]
pub const fn ack_timeout_ns(code: u8) -> Option<u64> {
    match code & 0x1f {
        0 => None,
        n => Some(4096 << n),
    }
}
