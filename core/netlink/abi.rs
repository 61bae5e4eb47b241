// SPDX-License-Identifier: GPL-2.0

//! Netlink for the other modules of the core (`include/rdma/rdma_netlink.h`).

use core::ptr::NonNull;
use core::slice;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::net::Net;

use super::client;
use super::skb::Tail;
use super::socket;
use crate::proto::nla::Sink;
use crate::proto::nla::MESSAGE_HEADER;

/// Gives a client its handlers. May sleep.
///
/// # Safety
///
/// `table` has as many handlers as the client has operations (`rdma/rdma_netlink.h`), until
/// [`rdma_nl_unregister`] returns.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_register(
    index: c_uint,
    table: *const bindings::rdma_nl_cbs,
) {
    // SAFETY: By this function's duty.
    unsafe { client::register(index, table) };
}

/// Takes a client's handlers back, and waits for those that run. May sleep.
///
/// # Safety
///
/// None; C calls it.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_unregister(index: c_uint) {
    client::unregister(index);
}

/// Begins a message in a buffer, with `len` bytes of payload, zeroed, to which it answers
/// a pointer; null if they do not fit. `nlh` is where the header lies.
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
    // SAFETY: By this function's duty.
    unsafe { *nlh = core::ptr::null_mut() };
    let (Some(skb), Ok(payload)) = (NonNull::new(skb), usize::try_from(len)) else {
        return core::ptr::null_mut();
    };
    // SAFETY: By this function's duty.
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
        nlmsg_type: (client << 10).wrapping_add(op) as u16,
        nlmsg_flags: flags as u16,
        nlmsg_seq: seq as u32,
        nlmsg_pid: 0,
    };
    // SAFETY: There are as many bytes and more, at a multiple of four.
    unsafe {
        start.cast::<bindings::nlmsghdr>().write(header);
        *nlh = start.cast();
        start.add(MESSAGE_HEADER).cast()
    }
}

/// Adds an attribute to the message that begins at `nlh`; if it does not fit, the message
/// is taken out of the buffer: `EMSGSIZE`.
///
/// # Safety
///
/// As of [`ibnl_put_msg`], whose `nlh` it is; there are `len` bytes at `data`.
#[no_mangle]
pub(crate) unsafe extern "C" fn ibnl_put_attr(
    skb: *mut bindings::sk_buff,
    nlh: *mut bindings::nlmsghdr,
    len: c_int,
    data: *mut c_void,
    attr: c_int,
) -> c_int {
    let put = || -> Result {
        let skb = NonNull::new(skb).ok_or(EMSGSIZE)?;
        let len = usize::try_from(len).map_err(|_| EMSGSIZE)?;
        let attr = u16::try_from(attr).map_err(|_| EMSGSIZE)?;
        let payload = match len {
            0 => &[][..],
            // SAFETY: By this function's duty.
            len => unsafe { slice::from_raw_parts(data.cast::<u8>(), len) },
        };
        // SAFETY: By this function's duty.
        Ok(unsafe { Tail::new(skb) }.writer().put(attr, payload)?)
    };
    match put() {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: The message began in this buffer, so it lies behind `data`.
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

/// Sends a message without waiting; it is taken over in any case.
///
/// # Safety
///
/// `net` is a namespace that is there; `skb` is the caller's to give away.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_unicast(
    net: *mut bindings::net,
    skb: *mut bindings::sk_buff,
    port: u32,
) -> c_int {
    // SAFETY: By this function's duty. CAST: A flag.
    unsafe { send(net, skb, port, bindings::MSG_DONTWAIT as c_int) }
}

/// As [`rdma_nl_unicast`], but waits for a full reader, ten seconds at most.
///
/// # Safety
///
/// As of [`rdma_nl_unicast`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_unicast_wait(
    net: *mut bindings::net,
    skb: *mut bindings::sk_buff,
    port: u32,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe { send(net, skb, port, 0) }
}

/// # Safety
///
/// As of [`rdma_nl_unicast`].
unsafe fn send(
    net: *mut bindings::net,
    skb: *mut bindings::sk_buff,
    port: u32,
    flags: c_int,
) -> c_int {
    // SAFETY: By this function's duty.
    let sock = unsafe { socket(Net::from_raw(net)) }.0.as_ptr();
    // SAFETY: By this function's duty. It answers a length, which is no news.
    unsafe { bindings::netlink_unicast(sock, skb, port, flags) }.min(0)
}

/// Sends a message to a group; it is taken over in any case. Sleeps as `flags` say.
///
/// # Safety
///
/// As of [`rdma_nl_unicast`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_multicast(
    net: *mut bindings::net,
    skb: *mut bindings::sk_buff,
    group: c_uint,
    flags: bindings::gfp_t,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        let sock = socket(Net::from_raw(net)).0.as_ptr();
        bindings::rdma_helper_nlmsg_multicast(sock, skb, 0, group, flags)
    }
}

/// Whether somebody in the first namespace listens to a group. Any context.
///
/// # Safety
///
/// None; C calls it.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_chk_listeners(group: c_uint) -> bool {
    super::has_listeners(group)
}

rdma::exported!(
    ibnl_put_attr,
    ibnl_put_msg,
    rdma_nl_chk_listeners,
    rdma_nl_multicast,
    rdma_nl_register,
    rdma_nl_unicast,
    rdma_nl_unicast_wait,
    rdma_nl_unregister,
);
