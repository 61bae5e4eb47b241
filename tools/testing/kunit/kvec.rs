// SPDX-License-Identifier: GPL-2.0

//! `rdma::kvec`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_kvec)]
mod tests {
    use kernel::prelude::*;
    use rdma::kvec::retain;

    /// The elements for which `keep` answers true, of 0 to 4.
    fn kept(keep: impl Fn(i32) -> bool) -> Result<KVec<i32>> {
        let mut vec = kernel::kvec![0, 1, 2, 3, 4]?;
        retain(&mut vec, |n| keep(*n));
        Ok(vec)
    }

    #[test]
    fn retain_keeps_the_order() -> Result {
        assert_eq!(kept(|_| true)?.as_slice(), [0, 1, 2, 3, 4]);
        assert_eq!(kept(|n| n % 2 == 0)?.as_slice(), [0, 2, 4]);
        assert_eq!(kept(|n| n % 2 == 1)?.as_slice(), [1, 3]);
        assert_eq!(kept(|n| n == 4)?.as_slice(), [4]);
        assert_eq!(kept(|n| n == 0)?.as_slice(), [0]);
        assert!(kept(|_| false)?.is_empty());
        Ok(())
    }
}
