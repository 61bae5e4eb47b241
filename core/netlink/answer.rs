// SPDX-License-Identifier: GPL-2.0

//! What user programs answer to what the kernel asked them.

use core::ptr::NonNull;
use core::slice;
use kernel::prelude::*;
use rdma::bindings;

use crate::proto::nla::MESSAGE_HEADER;

/// An answer.
pub(crate) struct Answer<'a> {
    head: bindings::nlmsghdr,
    payload: &'a [u8],
}

impl Answer<'_> {
    /// # Errors
    ///
    /// `EPERM` for a request, or for what did not come by a user's socket.
    ///
    /// # Safety
    ///
    /// For `'a`, `skb` is a buffer that came to netlink, and `header` that of a message which
    /// lies whole in there.
    pub(crate) unsafe fn new(
        skb: *mut bindings::sk_buff,
        header: *const bindings::nlmsghdr,
    ) -> Result<Self> {
        // SAFETY: By this function's duty; a buffer that came to netlink has such parameters in
        // its scratch space, which is aligned for them.
        let (head, payload, sock) = unsafe {
            let head = *header;
            let len = usize::try_from(head.nlmsg_len).unwrap_or(0);
            let start = header.cast::<u8>().add(MESSAGE_HEADER);
            let payload = slice::from_raw_parts(start, len.saturating_sub(MESSAGE_HEADER));
            let parms = (&raw const (*skb).cb).cast::<bindings::netlink_skb_parms>();
            (head, payload, NonNull::new((*parms).sk))
        };
        // CAST: A flag of 16 bits.
        if head.nlmsg_flags & bindings::NLM_F_REQUEST as u16 != 0 || sock.is_none() {
            return Err(EPERM);
        }
        Ok(Self { head, payload })
    }

    /// The number of the question.
    pub(crate) fn seq(&self) -> u32 {
        self.head.nlmsg_seq
    }

    /// Its flags.
    pub(crate) fn flags(&self) -> u16 {
        self.head.nlmsg_flags
    }

    /// What follows the header.
    pub(crate) fn payload(&self) -> &[u8] {
        self.payload
    }
}
