// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0599 sgid_attr

//! The reference to the local GID that an event of a datagram identifier owns, taken by the consumer:
//! the connection manager would put it once more, or none.

use rdma::cm::CmEvent;
use rdma::cm::Params;

/// Returns the service level of the peer's address.
pub fn level(event: &CmEvent<'_>) -> Option<u8> {
    let Params::Ud(ud, _) = event.params() else {
        return None;
    };
    #[cfg(wrong)]
    drop(ud.vector().sgid_attr().put(None));
    Some(ud.vector().sl())
}
