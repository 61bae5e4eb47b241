// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0133 ucontext

//! The context of an open file, borrowed without the lock or the section that keeps it: the removal
//! of the device frees it.

use rdma::edge::uverbs::UFile;

pub fn look(file: &UFile) -> bool {
    #[cfg(not(wrong))]
    let found = file.has_ucontext();
    #[cfg(wrong)]
    let found = file.ucontext().is_some();
    found
}
