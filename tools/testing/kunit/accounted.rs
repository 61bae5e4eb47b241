// SPDX-License-Identifier: GPL-2.0

//! `rdma::accounted`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_accounted)]
mod tests {
    use kernel::prelude::*;
    use rdma::accounted::from_elem;
    use rdma::accounted::zeros;

    /// Lengths around the pieces in which values are written.
    #[test]
    fn all_values_are_written() -> Result {
        for count in [0, 1, (1 << 14) - 1, 1 << 14, (1 << 14) + 1, 100_000] {
            let bytes = from_elem(7_u8, count)?;
            assert_eq!(bytes.len(), count);
            assert!(bytes.iter().all(|byte| *byte == 7));
            let words = from_elem(Some(0x1234_5678_9abc_def0_u64), count)?;
            assert_eq!(words.len(), count);
            assert!(words
                .iter()
                .all(|word| *word == Some(0x1234_5678_9abc_def0)));
        }
        Ok(())
    }

    #[test]
    fn zeros_are_zeros() -> Result {
        for len in [1, 200, 256, 4096, 5000] {
            let bytes = zeros(len)?;
            assert_eq!(bytes.len(), len);
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
        Ok(())
    }
}
