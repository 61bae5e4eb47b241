// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0505 guard

//! A list is changed after its lock was released.

use rdma::edge::chain::Chain;
use rdma::edge::object::Owned;
use rdma::edge::verbs::Mr;
use rdma::sync::SpinLockIrq;

/// Adds a region.
///
/// # Safety
///
/// `lock` protects `list`.
pub unsafe fn add(lock: &SpinLockIrq<()>, list: &Chain<Mr>, mr: Owned<Mr>) {
    let mut guard = lock.lock();
    // SAFETY: The contract of this function.
    let mut list = unsafe { list.locked_by(&mut guard) };
    #[cfg(wrong)]
    drop(guard);
    list.push_back(mr);
}
