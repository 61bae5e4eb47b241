// SPDX-License-Identifier: GPL-2.0

//! What user programs answer to what the kernel asked them.

use super::edge::Incoming;
use kernel::prelude::*;
use rdma::bindings;

/// An answer.
pub(crate) struct Answer<'a> {
    message: Incoming<'a>,
}

impl<'a> Answer<'a> {
    /// # Errors
    ///
    /// `EPERM` for a request, or for what did not come by a user's socket.
    pub(crate) fn of(message: Incoming<'a>) -> Result<Self> {
        // CAST: A flag of 16 bits.
        let request = message.head().nlmsg_flags & bindings::NLM_F_REQUEST as u16 != 0;
        if request || !message.is_from_user() {
            return Err(EPERM);
        }
        Ok(Self { message })
    }

    /// The number of the question.
    pub(crate) fn seq(&self) -> u32 {
        self.message.head().nlmsg_seq
    }

    /// Its flags.
    pub(crate) fn flags(&self) -> u16 {
        self.message.head().nlmsg_flags
    }

    /// What follows the header.
    pub(crate) fn payload(&self) -> &[u8] {
        self.message.payload()
    }
}
