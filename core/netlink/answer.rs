// SPDX-License-Identifier: GPL-2.0

//! Responses of user programs to requests of the kernel.

use super::edge::Incoming;
use kernel::prelude::*;
use rdma::bindings;

/// A response.
pub(crate) struct Answer<'a> {
    message: Incoming<'a>,
}

impl<'a> Answer<'a> {
    /// # Errors
    ///
    /// `EPERM` for a request, or for a message that was not sent by a user socket.
    pub(crate) fn of(message: Incoming<'a>) -> Result<Self> {
        // CAST: The flag has 16 bits.
        let request = message.head().nlmsg_flags & bindings::NLM_F_REQUEST as u16 != 0;
        if request || !message.is_from_user() {
            return Err(EPERM);
        }
        Ok(Self { message })
    }

    /// Sequence number of the request.
    pub(crate) fn seq(&self) -> u32 {
        self.message.head().nlmsg_seq
    }

    /// Flags of the response.
    pub(crate) fn flags(&self) -> u16 {
        self.message.head().nlmsg_flags
    }

    /// The bytes after the header.
    pub(crate) fn payload(&self) -> &[u8] {
        self.message.payload()
    }
}
