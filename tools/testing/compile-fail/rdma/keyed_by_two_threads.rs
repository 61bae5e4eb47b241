// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0277 Cell

//! A key that two threads borrow at a time: both would access data that is not `Sync`.

use rdma::sync::Key;

fn send<T: Send>(_value: T) {}

pub fn right(key: Key) {
    send(key);
}

#[cfg(wrong)]
pub fn wrong(key: &Key) {
    send(key);
}
