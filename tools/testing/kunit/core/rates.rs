// SPDX-License-Identifier: GPL-2.0

//! `core/proto/rates` against the loaded core.

use kernel::prelude::kunit_tests;

#[kunit_tests(core_rates)]
mod tests {
    use crate::peer;
    use crate::proto::rates;

    /// What the peer returns for an answer of ours.
    fn number(ours: Option<u32>) -> i32 {
        ours.and_then(|value| value.try_into().ok()).unwrap_or(-1)
    }

    #[test]
    fn every_rate() {
        for raw in 0..300 {
            assert_eq!(number(rates::mult(raw)), peer::rate_to_mult(raw));
            assert_eq!(number(rates::mbps(raw)), peer::rate_to_mbps(raw));
        }
    }

    #[test]
    fn every_multiple() {
        for mult in 0..1_000 {
            assert_eq!(rates::from_mult(mult), peer::mult_to_rate(mult));
        }
    }
}
