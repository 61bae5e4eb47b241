// SPDX-License-Identifier: GPL-2.0

//! `rdma::nospec`.

use kernel::prelude::kunit_tests;

#[kunit_tests(rdma_nospec)]
mod tests {
    use rdma::nospec::get;
    use rdma::nospec::get_mut;

    #[test]
    fn elements_and_bounds() {
        let mut array = [10, 11, 12];
        assert_eq!(get(&array, 0), Some(&10));
        assert_eq!(get(&array, 2), Some(&12));
        for index in [
            3,
            4,
            1 << 31,
            usize::MAX / 2,
            usize::MAX / 2 + 1,
            usize::MAX,
        ] {
            assert_eq!(get(&array, index), None);
            assert_eq!(get_mut(&mut array, index), None);
        }
        assert_eq!(get::<i32>(&[], 0), None);
        *get_mut(&mut array, 1).unwrap() = 7;
        assert_eq!(array, [10, 7, 12]);
    }
}
