// SPDX-License-Identifier: GPL-2.0

//! The local service (`RDMA_NL_LS`): a user-space program that resolves paths and addresses.

use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::net::Net;

use super::answer::Answer;
use super::query::Query;
use super::state;
use crate::addr::GatewayGid;
use crate::netlink;
use crate::netlink::Doit;
use crate::netlink::Handler;
use crate::netlink::Handlers;
use crate::netlink::Incoming;
use crate::netlink::Message;
use crate::proto::sa::local;
use crate::proto::sa::path::Path;

/// Number of operations.
const OPS: usize = bindings::RDMA_NL_LS_NUM_OPS as usize;

/// `NLM_F_REQUEST`.
// CAST: Netlink flags have 16 bits.
const REQUEST: u16 = bindings::NLM_F_REQUEST as u16;

/// The handlers, by operation. Only senders with `CAP_NET_ADMIN` may be the service.
static HANDLERS: [Handler; OPS] = [
    handler::<Resolved>(),
    handler::<SetTimeout>(),
    handler::<GatewayGid>(),
];
const _: () = assert!(bindings::RDMA_NL_LS_OP_RESOLVE == 0);
const _: () = assert!(bindings::RDMA_NL_LS_OP_SET_TIMEOUT == 1);
const _: () = assert!(bindings::RDMA_NL_LS_OP_IP_RESOLVE == 2);

const fn handler<T: Doit>() -> Handler {
    Handler::NONE.with_doit::<T>().for_admin()
}

/// Registers with netlink. May sleep.
pub(super) fn register() -> netlink::Registration {
    netlink::Registration::new(bindings::RDMA_NL_LS, Handlers::of(&HANDLERS))
}

/// Returns whether a service listens. Any context.
pub(super) fn somebody_listens() -> bool {
    netlink::has_listeners(bindings::RDMA_NL_GROUP_LS)
}

/// Asks the service for a query's path. May sleep as `flags` permit.
///
/// # Errors
///
/// `ENOMEM`, `EMSGSIZE`, and those of netlink.
pub(super) fn ask(query: &Arc<Query>, path: &Path, mask: u64, flags: bindings::gfp_t) -> Result {
    let name = query.port().device().name();
    let request = local::Request {
        seq: state::seq(query.ticket()),
        device: name.as_bytes(),
        // CAST: The message has 8 bits for the port number.
        port: query.port().number() as u8,
        path,
        mask,
    };
    let mut message = Message::with_flags(flags)?;
    request.write(&mut message.writer())?;
    netlink::multicast_with(Net::init(), message, bindings::RDMA_NL_GROUP_LS, flags)
}

/// Response of the service (`RDMA_NL_LS_OP_RESOLVE`). Ignored if no query waits for it.
struct Resolved;

impl Doit for Resolved {
    fn doit(message: &Incoming<'_>) -> Result {
        let head = message.head();
        if head.nlmsg_flags & REQUEST != 0 {
            return Err(EPERM);
        }
        let answer = local::Answer::read(head.nlmsg_flags, message.payload());
        if let Some(query) = state::answered(head.nlmsg_seq, answer.is_some()) {
            match answer {
                Some(answer) => query.complete(Ok(Answer::Local(answer))),
                None => query.send_or_complete(EIO),
            }
        }
        Ok(())
    }
}

/// Request of the service to change its timeout (`RDMA_NL_LS_OP_SET_TIMEOUT`).
struct SetTimeout;

impl Doit for SetTimeout {
    fn doit(message: &Incoming<'_>) -> Result {
        if message.head().nlmsg_flags & REQUEST == 0 {
            return Err(EPERM);
        }
        if let Some(patience) = local::timeout(message.payload()) {
            state::set_patience(patience);
        }
        Ok(())
    }
}
