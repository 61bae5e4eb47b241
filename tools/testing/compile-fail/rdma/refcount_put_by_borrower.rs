// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0133 put

//! A reference to an open file, dropped by a function that only borrows the file: its owner uses
//! freed memory.

use rdma::edge::uverbs::UFile;

pub fn look(file: &UFile) -> bool {
    #[cfg(not(wrong))]
    let done = file.refs().inc_not_zero();
    #[cfg(wrong)]
    let done = file.refs().put();
    done
}
