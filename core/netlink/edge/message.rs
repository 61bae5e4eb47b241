// SPDX-License-Identifier: GPL-2.0

//! Netlink messages under construction (`struct sk_buff`).
//!
//! Drivers also write attributes to the buffer. So a [`Writer`] appends directly to the buffer,
//! without an intermediate slice.

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

/// Alignment of 64-bit attributes on this architecture.
const ALIGN64: Align64 = if cfg!(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) {
    Align64::Packed
} else {
    Align64::Aligned
};

/// The end of a message buffer, for appending.
///
/// # Invariants
///
/// For `'a`, `skb` is a linear buffer that is only changed through `self`, or by C code that got it
/// from [`raw`](Self::raw).
pub(crate) struct Tail<'a> {
    skb: NonNull<bindings::sk_buff>,
    _skb: PhantomData<&'a mut bindings::sk_buff>,
}

impl<'a> Tail<'a> {
    /// # Safety
    ///
    /// For `'a`, `skb` is as in the type invariant.
    pub(super) unsafe fn new(skb: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: By the contract of this function.
        Self {
            skb,
            _skb: PhantomData,
        }
    }

    /// Returns a writer that appends.
    pub(crate) fn writer(self) -> Writer<Self> {
        Writer::over(self, ALIGN64)
    }

    /// Returns the buffer, for C code that appends attributes.
    pub(crate) fn raw(&mut self) -> *mut bindings::sk_buff {
        self.skb.as_ptr()
    }
}

/// A buffer that C passes for the duration of a call, or null.
pub(crate) struct Lent<'a>(pub(crate) Option<Tail<'a>>);

rdma::argument! {
    /// Null, or a linear buffer that only the caller uses (`rdma_netlink.h`).
    impl<'a> Lent<'a> = |skb: Option<NonNull<bindings::sk_buff>>| {
        Lent(skb.map(|skb| Tail { skb, _skb: PhantomData }))
    };
}

impl Sink for Tail<'_> {
    fn len(&self) -> usize {
        // SAFETY: The buffer is valid, and nobody else changes it (type invariant).
        usize::try_from(unsafe { (*self.skb.as_ptr()).len }).unwrap_or(usize::MAX)
    }

    fn grow(&mut self, len: usize) -> Option<&mut [u8]> {
        let count = u32::try_from(len).ok()?;
        // SAFETY: The buffer is linear (type invariant).
        let start = unsafe { bindings::rdma_helper_skb_put(self.skb.as_ptr(), count) };
        let start: NonNull<u8> = NonNull::new(start.cast())?;
        // SAFETY: `start` points to `len` new bytes of the buffer, which nobody else uses.
        unsafe {
            start.as_ptr().write_bytes(0, len);
            Some(slice::from_raw_parts_mut(start.as_ptr(), len))
        }
    }

    fn cut(&mut self, len: usize) {
        if let Ok(len) = u32::try_from(len) {
            // SAFETY: The buffer is linear (type invariant); `skb_trim` never extends it.
            unsafe { bindings::skb_trim(self.skb.as_ptr(), len) };
        }
    }

    fn written_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        // SAFETY: The buffer is linear (type invariant), so it has `len` bytes at `data`. All of
        // them were written, by `grow` or by C code that got the buffer from `raw`.
        unsafe { slice::from_raw_parts_mut((*self.skb.as_ptr()).data, len) }
    }
}

/// A buffer for one message of the default size. Dropping it frees the buffer.
///
/// # Invariants
///
/// The buffer is linear, and nobody else uses it.
pub(crate) struct Message(NonNull<bindings::sk_buff>);

impl Message {
    /// Allocates an empty buffer. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Self::with_flags(bindings::GFP_KERNEL)
    }

    /// Allocates an empty buffer. May sleep as `flags` permit.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn with_flags(flags: bindings::gfp_t) -> Result<Self> {
        // SAFETY: The function only allocates.
        let skb = unsafe { bindings::rdma_helper_nlmsg_new_default(flags) };
        // INVARIANT: The buffer is new.
        NonNull::new(skb).map(Self).ok_or(ENOMEM)
    }

    /// Returns a writer that appends to the message.
    pub(crate) fn writer(&mut self) -> Writer<Tail<'_>> {
        // SAFETY: The buffer is linear, nobody else uses it (type invariant), and it is borrowed.
        unsafe { Tail::new(self.0) }.writer()
    }

    /// Passes the buffer to C.
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // SAFETY: Nobody else uses the buffer (type invariant).
        unsafe { bindings::rdma_helper_kfree_skb(self.0.as_ptr()) };
    }
}

rdma::argument! {
    /// A linear buffer whose ownership passes from the caller to the function (`rdma_netlink.h`).
    impl Message = |skb: NonNull<bindings::sk_buff>| Message(skb);
}

/// A network namespace that C passes for the duration of a call.
pub(in crate::netlink) struct NetArg<'a>(pub(in crate::netlink) &'a CountedNet);

// SAFETY: Callers keep the namespace alive during the call (`rdma_netlink.h`): it is the initial
// one, or that of a user socket, which holds a reference to it.
unsafe impl FromC for NetArg<'_> {
    type C = *mut bindings::net;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: The namespace is valid (contract of this function).
        Self(unsafe { CountedNet::from_raw(c) })
    }
}

// SAFETY: Its reference is limited to `'a`.
unsafe impl<'a> Within<'a> for NetArg<'a> {}

/// Starts a message in a buffer, with `len` bytes of zeroed payload. Returns a pointer to the
/// payload, or null if the message does not fit. Sets `*nlh` to the header, or to null.
///
/// # Safety
///
/// `skb` is null, or a linear buffer that only the caller uses; `nlh` is writable.
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
    // SAFETY: `nlh` is writable (contract of this function).
    unsafe { *nlh = core::ptr::null_mut() };
    let (Some(skb), Ok(payload)) = (NonNull::new(skb), usize::try_from(len)) else {
        return core::ptr::null_mut();
    };
    // SAFETY: The buffer is linear, and only the caller uses it (contract of this function).
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
        // CAST: Client and operation together have 16 bits, as have the flags; the sequence number
        // is unsigned in the header.
        nlmsg_type: client.wrapping_shl(10).wrapping_add(op) as u16,
        nlmsg_flags: flags as u16,
        nlmsg_seq: seq as u32,
        nlmsg_pid: 0,
    };
    // SAFETY: `start` points to at least `whole` bytes, and is a multiple of four. `nlh` is
    // writable (contract of this function).
    unsafe {
        start.cast::<bindings::nlmsghdr>().write(header);
        *nlh = start.cast();
        start.add(MESSAGE_HEADER).cast()
    }
}

/// Adds an attribute to the message that starts at `nlh`. If it does not fit, removes the message
/// from the buffer and returns `EMSGSIZE`.
///
/// # Safety
///
/// `skb` is null, or a linear buffer that only the caller uses. [`ibnl_put_msg`] set `nlh` for this
/// buffer. `data` points to `len` bytes.
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
    // SAFETY: The buffer is linear, and only the caller uses it (contract of this function).
    let tail = unsafe { Tail::new(buffer) };
    let put = || -> Result {
        let len = usize::try_from(len).map_err(|_| EMSGSIZE)?;
        let attr = u16::try_from(attr).map_err(|_| EMSGSIZE)?;
        let payload = match len {
            0 => &[][..],
            // SAFETY: `data` points to `len` bytes (contract of this function).
            len => unsafe { slice::from_raw_parts(data.cast::<u8>(), len) },
        };
        Ok(tail.writer().put(attr, payload)?)
    };
    match put() {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: The message starts in this buffer, so `nlh` is not below its `data` (contract
            // of this function).
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
