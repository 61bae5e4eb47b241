// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs) that a driver processes itself.
//!
//! C headers: `include/rdma/ib_mad.h`, `include/rdma/ib_verbs.h` (`process_mad`); IBTA 13.4.

use super::attr::Gid;
use crate::bindings;

/// Length of a MAD in bytes.
pub const MAD_LEN: usize = 256;

/// A received MAD, and space for the response.
pub struct Mad<'a> {
    /// Completion of the receive; `None` for a MAD of this node.
    pub wc: Option<&'a bindings::ib_wc>,
    /// Source GID, if the MAD has a GRH.
    pub source: Option<Gid>,
    /// The received MAD.
    pub request: &'a [u8; MAD_LEN],
    /// The response.
    pub reply: &'a mut [u8; MAD_LEN],
    /// `IB_MAD_IGNORE_*`.
    pub flags: u32,
}

/// Result of processing a MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadResult {
    /// The MAD could not be processed.
    Failure,
    /// The MAD does not concern the driver; the core continues processing.
    Success,
    /// The MAD was processed, and [`Mad::reply`] is to be sent.
    Reply,
    /// The MAD was processed, there is no response, and the core must not process it further.
    Consumed,
}

impl MadResult {
    /// Returns the C flags, the result of `process_mad`.
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
        // CAST: Three low bits.
        flags as i32
    }
}
