// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0505

//! Data under another object's lock, accessed after that lock was released: somebody else may
//! change it meanwhile.

use rdma::sync::Key;
use rdma::sync::Keyed;
use rdma::sync::SpinLockIrq;

pub fn set(data: &Keyed<u32>, lock: &SpinLockIrq<Key>) {
    let mut key = lock.lock();
    let Some(value) = data.access_mut(&mut key) else {
        return;
    };
    #[cfg(wrong)]
    drop(key);
    *value = 1;
}
