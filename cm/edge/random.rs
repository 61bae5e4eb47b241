// SPDX-License-Identifier: GPL-2.0

//! Random numbers.

rdma::import! { in rdma::bindings;
    /// Returns a random number. Any context.
    fn get() -> u64 = get_random_u64;
}

/// Returns a random number. Any context.
pub(crate) fn random() -> u64 {
    get()
}
