// SPDX-License-Identifier: GPL-2.0

//! Netlink messages from and to the port mapper. Must match `include/rdma/rdma_netlink.h`.
//!
//! The client's messages are dumps, so the sender gets their result with an `NLMSG_DONE`. The core
//! accepts a message only if the sender has `CAP_NET_ADMIN`, and calls the handler in its context: at
//! once, or, if the sender's receive buffer is full, when it reads. A sender that reads only after
//! this module was unloaded would call freed code: netlink pins `ib_core`, whose dump it is.

use crate::mapper;
use crate::proto::message::Op;
use core::ptr::NonNull;
use core::slice;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::Answer;
use rdma::module::Resident;
use rdma::net::Net;

/// Handles a message of the operation `op`.
///
/// # Safety
///
/// `callback` is that of a dump, with a complete message.
unsafe fn handle(op: Op, callback: *mut bindings::netlink_callback) -> c_int {
    // SAFETY: The callback is valid (contract of this function). The message is in the received
    // buffer with its whole length, which the core has checked, and nobody changes it.
    let message = unsafe {
        let header = (*callback).nlh;
        let len = usize::try_from((*header).nlmsg_len).unwrap_or(0);
        slice::from_raw_parts(header.cast::<u8>(), len)
    };
    mapper::received(op, message).answer()
}

macro_rules! dumps {
    ($($name:ident = $op:ident;)*) => { $(
        /// Handler of this operation.
        ///
        /// # Safety
        ///
        /// For netlink only, as `dump`: `callback` is that of a dump, with a complete message.
        unsafe extern "C" fn $name(
            _reply: *mut bindings::sk_buff,
            callback: *mut bindings::netlink_callback,
        ) -> c_int {
            // SAFETY: The contract of this function is that of `handle`.
            unsafe { handle(Op::$op, callback) }
        }
    )* };
}

dumps! {
    register_pid = RegisterPid;
    add_mapping = AddMapping;
    query_mapping = QueryMapping;
    remote_info = RemoteInfo;
    handle_error = HandleError;
    map_info = MapInfo;
    map_info_num = MapInfoNum;
    hello = Hello;
}

/// Number of operations.
const OPS: usize = bindings::RDMA_NL_IWPM_NUM_OPS as usize;

/// Type of a handler.
type Dump = unsafe extern "C" fn(*mut bindings::sk_buff, *mut bindings::netlink_callback) -> c_int;

const fn handler(dump: Dump) -> bindings::rdma_nl_cbs {
    bindings::rdma_nl_cbs {
        doit: None,
        dump: Some(dump),
        // CAST: The flag has 8 bits.
        flags: bindings::rdma_nl_flags_RDMA_NL_ADMIN_PERM as u8,
    }
}

const NONE: bindings::rdma_nl_cbs = bindings::rdma_nl_cbs {
    doit: None,
    dump: None,
    flags: 0,
};

/// The handlers, by operation. The kernel alone removes mappings.
static HANDLERS: [bindings::rdma_nl_cbs; OPS] = [
    handler(register_pid),
    handler(add_mapping),
    handler(query_mapping),
    NONE,
    handler(remote_info),
    handler(handle_error),
    handler(map_info),
    handler(map_info_num),
    handler(hello),
];

/// Registration of the client. Drop waits for handlers that the core is calling.
pub(crate) struct Client {
    _resident: Resident,
}

impl Client {
    /// Registers the client. Only one may exist. May sleep.
    pub(crate) fn register(resident: Resident) -> Self {
        // SAFETY: The table is static and has a handler for each operation; the module is not
        // unloaded while there is a resident.
        unsafe { bindings::rdma_nl_register(bindings::RDMA_NL_IWCM, HANDLERS.as_ptr()) };
        Self {
            _resident: resident,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: Registered by `register`.
        unsafe { bindings::rdma_nl_unregister(bindings::RDMA_NL_IWCM) };
    }
}

/// Whether a sender waits for room in the receiver's buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocking {
    /// Up to ten seconds.
    Yes,
    /// For a handler: the receiver is the task that runs it.
    No,
}

fn buffer(bytes: &[u8]) -> Result<NonNull<bindings::sk_buff>> {
    let len = u32::try_from(bytes.len()).map_err(|_| EMSGSIZE)?;
    // SAFETY: `bytes` has that length, and is copied.
    let skb = unsafe { bindings::rdma_helper_skb_copy_of(bytes.as_ptr().cast(), len) };
    NonNull::new(skb).ok_or(ENOMEM)
}

/// Sends a message to the socket with this port ID, in the initial namespace. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `ECONNREFUSED` if there is no such socket; `EAGAIN` if it is full.
pub(crate) fn unicast(bytes: &[u8], pid: u32, blocking: Blocking) -> Result {
    let (net, skb) = (Net::init().as_raw(), buffer(bytes)?.as_ptr());
    // SAFETY: The initial namespace always exists. The buffer is a linear one, and is consumed.
    to_result(unsafe {
        match blocking {
            Blocking::Yes => bindings::rdma_nl_unicast_wait(net, skb, pid),
            Blocking::No => bindings::rdma_nl_unicast(net, skb, pid),
        }
    })
}

/// Sends a message to the group of port mappers, in the initial namespace. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `ESRCH` if nobody listens.
pub(crate) fn multicast(bytes: &[u8]) -> Result {
    let (net, skb) = (Net::init().as_raw(), buffer(bytes)?.as_ptr());
    let group = bindings::RDMA_NL_GROUP_IWPM;
    // SAFETY: The initial namespace always exists. The buffer is a linear one, and is consumed.
    to_result(unsafe { bindings::rdma_nl_multicast(net, skb, group, bindings::GFP_KERNEL) })
}

rdma::import! {
    in rdma::bindings;

    /// Returns a random number.
    pub(crate) fn random() -> u32 = get_random_u32;
}
