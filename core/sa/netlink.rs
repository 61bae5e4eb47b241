// SPDX-License-Identifier: GPL-2.0

//! The local service (`RDMA_NL_LS`): a program that knows paths and addresses.

use core::slice;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::net::Net;

use super::answer::Answer;
use super::query::Query;
use super::state;
use crate::addr::ib_nl_handle_ip_res_resp;
use crate::netlink;
use crate::netlink::Message;
use crate::proto::nla::MESSAGE_HEADER;
use crate::proto::sa::local;
use crate::proto::sa::path::Path;

/// How many operations there are.
const OPS: usize = bindings::RDMA_NL_LS_NUM_OPS as usize;

/// `NLM_F_REQUEST`.
const REQUEST: u16 = bindings::NLM_F_REQUEST as u16;

/// Handlers for the operations, in their order: only the administrator of the machine may be
/// the service.
static HANDLERS: [bindings::rdma_nl_cbs; OPS] = [
    handler(resolved),
    handler(set_timeout),
    handler(ib_nl_handle_ip_res_resp),
];
const _: () = assert!(bindings::RDMA_NL_LS_OP_RESOLVE == 0);
const _: () = assert!(bindings::RDMA_NL_LS_OP_SET_TIMEOUT == 1);
const _: () = assert!(bindings::RDMA_NL_LS_OP_IP_RESOLVE == 2);

type Handler = unsafe extern "C" fn(
    *mut bindings::sk_buff,
    *mut bindings::nlmsghdr,
    *mut bindings::netlink_ext_ack,
) -> c_int;

const fn handler(doit: Handler) -> bindings::rdma_nl_cbs {
    bindings::rdma_nl_cbs {
        doit: Some(doit),
        dump: None,
        // CAST: A flag of 8 bits.
        flags: bindings::rdma_nl_flags_RDMA_NL_ADMIN_PERM as u8,
    }
}

/// The registration with netlink.
pub(super) struct Service(());

impl Service {
    /// May sleep. One at a time.
    pub(super) fn register() -> Self {
        // SAFETY: There are as many handlers as operations, for good.
        unsafe { bindings::rdma_nl_register(bindings::RDMA_NL_LS, HANDLERS.as_ptr()) };
        Self(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // SAFETY: It is registered.
        unsafe { bindings::rdma_nl_unregister(bindings::RDMA_NL_LS) };
    }
}

/// Whether there is a service. Any context.
pub(super) fn somebody_listens() -> bool {
    // SAFETY: The sockets are there as long as the module.
    unsafe { bindings::rdma_nl_chk_listeners(bindings::RDMA_NL_GROUP_LS) }
}

/// Asks the service for a query's path. Sleeps as `flags` say.
///
/// # Errors
///
/// `ENOMEM`, `EMSGSIZE`, and those of netlink.
pub(super) fn ask(query: &Arc<Query>, path: &Path, mask: u64, flags: bindings::gfp_t) -> Result {
    let name = query.port().device().name();
    let request = local::Request {
        seq: state::seq(query.ticket()),
        device: name.as_bytes(),
        // CAST: The message has 8 bits for it.
        port: query.port().number() as u8,
        path,
        mask,
    };
    let mut message = Message::with_flags(flags)?;
    request.write(&mut message.writer())?;
    netlink::multicast_with(Net::init(), message, bindings::RDMA_NL_GROUP_LS, flags)
}

/// Flags, number and payload of a message.
///
/// # Safety
///
/// `header` is that of a message that is whole for `'a`.
unsafe fn parts<'a>(header: *const bindings::nlmsghdr) -> (u16, u32, &'a [u8]) {
    // SAFETY: By this function's duty.
    unsafe {
        let head = header.read();
        let len = usize::try_from(head.nlmsg_len).unwrap_or(0);
        let payload = slice::from_raw_parts(
            header.cast::<u8>().add(MESSAGE_HEADER),
            len.saturating_sub(MESSAGE_HEADER),
        );
        (head.nlmsg_flags, head.nlmsg_seq, payload)
    }
}

/// The service answers. Answers that nobody waits for, any more, are passed over.
///
/// # Safety
///
/// For netlink only.
unsafe extern "C" fn resolved(
    _skb: *mut bindings::sk_buff,
    header: *mut bindings::nlmsghdr,
    _extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    // SAFETY: By this function's duty.
    let (flags, seq, payload) = unsafe { parts(header) };
    from_result(|| {
        if flags & REQUEST != 0 {
            return Err(EPERM);
        }
        let answer = local::Answer::read(flags, payload);
        if let Some(query) = state::answered(seq, answer.is_some()) {
            match answer {
                Some(answer) => query.complete(Ok(Answer::Local(answer))),
                None => query.send_or_complete(EIO),
            }
        }
        Ok(0)
    })
}

/// The service says how long it is to be waited for.
///
/// # Safety
///
/// For netlink only.
unsafe extern "C" fn set_timeout(
    _skb: *mut bindings::sk_buff,
    header: *mut bindings::nlmsghdr,
    _extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    // SAFETY: By this function's duty.
    let (flags, _, payload) = unsafe { parts(header) };
    if flags & REQUEST == 0 {
        return EPERM.to_errno();
    }
    if let Some(patience) = local::timeout(payload) {
        state::set_patience(patience);
    }
    0
}
