// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0521 borrowed data escapes

//! A message that is kept beyond its handler: the key that it has invalidated may be used again then.

use rdma::ulp::Received;

/// Keeps something for ever.
pub fn keep<T: 'static>(_: T) {}

/// Looks at a message.
pub fn look(message: Received<'_>) {
    let len = message.len();
    #[cfg(wrong)]
    keep(message);
    keep(len);
}
