// SPDX-License-Identifier: GPL-2.0

//! Management datagrams that a driver answers itself.
//!
//! C headers: `include/rdma/ib_mad.h`, `include/rdma/ib_verbs.h` (`process_mad`); IBA 13.4.

use super::attr::Gid;
use crate::bindings;

/// Length of a management datagram in bytes.
pub const MAD_LEN: usize = 256;

/// A datagram that came in, and room for the answer.
pub struct Mad<'a> {
    /// Where it came from; `None` if it was made on this host.
    pub wc: Option<&'a bindings::ib_wc>,
    /// Whether it had a global route, and then the GID of its source.
    pub source: Option<Gid>,
    /// The datagram.
    pub request: &'a [u8; MAD_LEN],
    /// The answer.
    pub reply: &'a mut [u8; MAD_LEN],
    /// `IB_MAD_IGNORE_*`.
    pub flags: u32,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadResult {
    /// It could not be handled.
    Failure,
    /// It is of no concern to the driver; others may look at it.
    Success,
    /// It was handled and [`Mad::reply`] is the answer to send.
    Reply,
    /// It was handled, there is nothing to send, and nobody else shall look at it.
    Consumed,
}

impl MadResult {
    /// The C flags, as `process_mad` returns them.
    pub(super) fn as_c(self) -> i32 {
        let flags = match self {
            Self::Failure => bindings::ib_mad_result_IB_MAD_RESULT_FAILURE,
            Self::Success => bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS,
            Self::Reply => {
                bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS
                    | bindings::ib_mad_result_IB_MAD_RESULT_REPLY
            }
            Self::Consumed => {
                bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS
                    | bindings::ib_mad_result_IB_MAD_RESULT_CONSUMED
            }
        };
        // CAST: three low bits.
        flags as i32
    }
}
