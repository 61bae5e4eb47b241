// SPDX-License-Identifier: GPL-2.0

//! Messages under construction (`struct sk_buff`).
//!
//! Drivers write attributes into the buffer themselves. So a [`Writer`] here writes straight to the
//! buffer's end, and not to a slice that would be copied.

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::slice;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::Within;
use rdma::net::CountedNet;

use crate::proto::nla::Align64;
use crate::proto::nla::Sink;
use crate::proto::nla::Writer;
use crate::proto::nla::MESSAGE_HEADER;

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
    pub(super) unsafe fn new(skb: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: Contract of this function.
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

/// A buffer that C passes for a call, or none.
pub(crate) struct Lent<'a>(pub(crate) Option<Tail<'a>>);

rdma::argument! {
    /// Null, or a linear buffer of the caller's (`rdma_netlink.h`).
    impl<'a> Lent<'a> = |skb: Option<NonNull<bindings::sk_buff>>| {
        Lent(skb.map(|skb| Tail { skb, _skb: PhantomData }))
    };
}

impl Sink for Tail<'_> {
    fn len(&self) -> usize {
        // SAFETY: The buffer is there and nobody else changes it: type invariant.
        usize::try_from(unsafe { (*self.skb.as_ptr()).len }).unwrap_or(usize::MAX)
    }

    fn grow(&mut self, len: usize) -> Option<&mut [u8]> {
        let count = u32::try_from(len).ok()?;
        // SAFETY: A linear buffer, by the type invariant.
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
            // SAFETY: A linear buffer, by the type invariant; nothing becomes longer.
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
        // SAFETY: Nobody else has the linear buffer, by the type invariant; it is borrowed.
        unsafe { Tail::new(self.0) }.writer()
    }

    /// Gives the buffer to C.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: Nobody else has the buffer: type invariant.
        unsafe { bindings::rdma_helper_kfree_skb(self.0.as_ptr()) };
    }
}

rdma::argument! {
    /// A linear buffer of the caller's, which the function takes over (`rdma_netlink.h`).
    impl Message = |skb: NonNull<bindings::sk_buff>| Message(skb);
}

/// A namespace that C passes for a call.
pub(in crate::netlink) struct NetArg<'a>(pub(in crate::netlink) &'a CountedNet);

// SAFETY: `rdma_netlink.h`: callers hold the namespace during the call; it is the first, or that of
// a user's socket, which counts it.
unsafe impl FromC for NetArg<'_> {
    type C = *mut bindings::net;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A namespace that is there: contract of this function.
        Self(unsafe { CountedNet::from_raw(c) })
    }
}

// SAFETY: The reference is of `'a`.
unsafe impl<'a> Within<'a> for NetArg<'a> {}

/// Begins a message in a buffer, with `len` bytes of payload, zeroed, to which it returns a pointer;
/// null if they do not fit. `nlh` is set to where the header lies.
///
/// # Safety
///
/// `skb` is a linear buffer of the caller's; `nlh` may be written.
#[no_mangle]
pub(crate) unsafe extern "C" fn ibnl_put_msg(
    skb: *mut bindings::sk_buff,
    nlh: *mut *mut bindings::nlmsghdr,
    seq: c_int,
    len: c_int,
    client: c_int,
    op: c_int,
    flags: c_int,
) -> *mut c_void {
    // SAFETY: `nlh` may be written: contract of this function.
    unsafe { *nlh = core::ptr::null_mut() };
    let (Some(skb), Ok(payload)) = (NonNull::new(skb), usize::try_from(len)) else {
        return core::ptr::null_mut();
    };
    // SAFETY: A linear buffer of the caller's: contract of this function.
    let mut tail = unsafe { Tail::new(skb) };
    let room = payload
        .checked_add(MESSAGE_HEADER)
        .and_then(|whole| Some((whole, whole.checked_add(3)? & !3)));
    let Some((whole, start)) = room.and_then(|(whole, aligned)| {
        Some((u32::try_from(whole).ok()?, tail.grow(aligned)?.as_mut_ptr()))
    }) else {
        return core::ptr::null_mut();
    };
    let header = bindings::nlmsghdr {
        nlmsg_len: whole,
        // CAST: Client and operation make 16 bits, flags have as many, and a sequence
        // number has no sign in the header.
        nlmsg_type: client.wrapping_shl(10).wrapping_add(op) as u16,
        nlmsg_flags: flags as u16,
        nlmsg_seq: seq as u32,
        nlmsg_pid: 0,
    };
    // SAFETY: There are as many bytes and more, at a multiple of four. `nlh` may be written.
    unsafe {
        start.cast::<bindings::nlmsghdr>().write(header);
        *nlh = start.cast();
        start.add(MESSAGE_HEADER).cast()
    }
}

/// Adds an attribute to the message that begins at `nlh`; if it does not fit, the message is taken
/// out of the buffer: `EMSGSIZE`.
///
/// # Safety
///
/// `skb` is a linear buffer of the caller's, or null, and `nlh` what [`ibnl_put_msg`] set for it;
/// there are `len` bytes at `data`.
#[no_mangle]
pub(crate) unsafe extern "C" fn ibnl_put_attr(
    skb: *mut bindings::sk_buff,
    nlh: *mut bindings::nlmsghdr,
    len: c_int,
    data: *mut c_void,
    attr: c_int,
) -> c_int {
    let Some(buffer) = NonNull::new(skb) else {
        return EMSGSIZE.to_errno();
    };
    // SAFETY: A linear buffer of the caller's: contract of this function.
    let tail = unsafe { Tail::new(buffer) };
    let put = || -> Result {
        let len = usize::try_from(len).map_err(|_| EMSGSIZE)?;
        let attr = u16::try_from(attr).map_err(|_| EMSGSIZE)?;
        let payload = match len {
            0 => &[][..],
            // SAFETY: There are as many bytes: contract of this function.
            len => unsafe { slice::from_raw_parts(data.cast::<u8>(), len) },
        };
        Ok(tail.writer().put(attr, payload)?)
    };
    match put() {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: The message began in this buffer, so it lies behind `data`: contract of this
            // function.
            unsafe {
                let start = nlh.cast::<u8>().offset_from((*skb).data);
                if let Ok(start) = u32::try_from(start) {
                    bindings::skb_trim(skb, start);
                }
            }
            error.to_errno()
        }
    }
}

rdma::exported!(ibnl_put_attr, ibnl_put_msg);
