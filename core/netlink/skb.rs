// SPDX-License-Identifier: GPL-2.0

//! Messages under construction.
//!
//! Drivers write attributes into the buffer themselves. So a [`Writer`] here writes
//! straight to the buffer's end, and not to a slice that would be copied.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::slice;
use kernel::prelude::*;
use rdma::bindings;

use crate::proto::nla::Align64;
use crate::proto::nla::Full;
use crate::proto::nla::Sink;
use crate::proto::nla::Writer;

impl From<Full> for Error {
    fn from(_: Full) -> Self {
        EMSGSIZE
    }
}

/// How this machine wants 64-bit values.
const ALIGN64: Align64 = if cfg!(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) {
    Align64::Packed
} else {
    Align64::Aligned
};

/// The end of a message buffer, where it grows.
///
/// # Invariants
///
/// For `'a`, `skb` is a linear buffer that only this changes, and those that it is lent to
/// by [`raw`](Self::raw).
pub(crate) struct Tail<'a> {
    skb: NonNull<bindings::sk_buff>,
    _skb: PhantomData<&'a mut bindings::sk_buff>,
}

impl<'a> Tail<'a> {
    /// # Safety
    ///
    /// For `'a`, `skb` is as the type invariant says.
    pub(crate) unsafe fn new(skb: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: By this function's duty.
        Self {
            skb,
            _skb: PhantomData,
        }
    }

    /// A writer that goes on at the end.
    pub(crate) fn writer(self) -> Writer<Self> {
        Writer::over(self, ALIGN64)
    }

    /// The buffer, to be lent to C that writes attributes at its end.
    pub(crate) fn raw(&mut self) -> *mut bindings::sk_buff {
        self.skb.as_ptr()
    }
}

impl Sink for Tail<'_> {
    fn len(&self) -> usize {
        // SAFETY: By the type invariant.
        usize::try_from(unsafe { (*self.skb.as_ptr()).len }).unwrap_or(usize::MAX)
    }

    fn grow(&mut self, len: usize) -> Option<&mut [u8]> {
        let count = u32::try_from(len).ok()?;
        // SAFETY: By the type invariant.
        let start = unsafe { bindings::rdma_helper_skb_put(self.skb.as_ptr(), count) };
        let start: NonNull<u8> = NonNull::new(start.cast())?;
        // SAFETY: So many new bytes of the buffer, which are nobody else's.
        unsafe {
            start.as_ptr().write_bytes(0, len);
            Some(slice::from_raw_parts_mut(start.as_ptr(), len))
        }
    }

    fn cut(&mut self, len: usize) {
        if let Ok(len) = u32::try_from(len) {
            // SAFETY: By the type invariant; it makes nothing longer.
            unsafe { bindings::skb_trim(self.skb.as_ptr(), len) };
        }
    }

    fn written_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        // SAFETY: By the type invariant there are so many bytes behind `data`, all of them
        // written by us or by those that the buffer was lent to.
        unsafe { slice::from_raw_parts_mut((*self.skb.as_ptr()).data, len) }
    }
}

/// A buffer for one message of the usual size, which is freed if it is not sent.
///
/// # Invariants
///
/// Nobody else has the buffer, and it is linear.
pub(crate) struct Message(NonNull<bindings::sk_buff>);

impl Message {
    /// An empty buffer. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Self::with_flags(bindings::GFP_KERNEL)
    }

    /// An empty buffer. Sleeps as `flags` say.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn with_flags(flags: bindings::gfp_t) -> Result<Self> {
        // SAFETY: It only allocates.
        let skb = unsafe { bindings::rdma_helper_nlmsg_new_default(flags) };
        // INVARIANT: It is new.
        NonNull::new(skb).map(Self).ok_or(ENOMEM)
    }

    /// Writes to it.
    pub(crate) fn writer(&mut self) -> Writer<Tail<'_>> {
        // SAFETY: By the type invariant; the message is borrowed.
        unsafe { Tail::new(self.0) }.writer()
    }

    /// Gives the buffer to C.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::rdma_helper_kfree_skb(self.0.as_ptr()) };
    }
}
