// SPDX-License-Identifier: GPL-2.0

//! Netlink clients, and dispatch of incoming messages to them.
//!
//! A client is a part of the subsystem with a table of handlers, one for each of its operations.
//! The lock of the client's slot is held for reading while a handler runs, so that unregistration
//! waits for running handlers (lock 1 in `core_locking.md`).

use super::edge::request_client;
use super::edge::Batch;
use super::edge::Handlers;
use super::edge::Incoming;
use kernel::prelude::*;
use rdma::bindings;
use rdma::net::Net;
use rdma::sync::ReadGuard;
use rdma::sync::StaticRwSem;

/// Number of operations of each client, by client index; 0 if there is no such client.
const OPS: [u32; bindings::RDMA_NL_NUM_CLIENTS as usize] = {
    let mut ops = [0; bindings::RDMA_NL_NUM_CLIENTS as usize];
    // INDEX: Client indices; evaluated at compile time.
    ops[bindings::RDMA_NL_IWCM as usize] = bindings::RDMA_NL_IWPM_NUM_OPS;
    ops[bindings::RDMA_NL_LS as usize] = bindings::RDMA_NL_LS_NUM_OPS;
    ops[bindings::RDMA_NL_NLDEV as usize] = bindings::rdma_nldev_command_RDMA_NLDEV_NUM_OPS;
    ops
};
const _: () = assert!(OPS.len() == 6, "a client that has no operations above");

type Slot = StaticRwSem<Option<Handlers>>;

/// One slot per client.
static CLIENTS: [Slot; OPS.len()] = [const { StaticRwSem::new(None) }; OPS.len()];

/// Initialises the locks of the table.
pub(super) fn init() {
    for client in &CLIENTS {
        client.init(c"NlClients::ops", kernel::static_lock_class!());
    }
}

/// Warns about clients that are still registered.
pub(super) fn check_none_left() {
    for client in &CLIENTS {
        kernel::warn_on!(client.read().is_some_and(|handlers| handlers.is_some()));
    }
}

/// Number of operations of a client; 0 if there is no such client.
pub(super) fn operations(index: u32) -> usize {
    let operations = usize::try_from(index).ok().and_then(|index| OPS.get(index));
    operations
        .and_then(|operations| usize::try_from(*operations).ok())
        .unwrap_or(0)
}

fn slot(index: u32) -> Option<&'static Slot> {
    CLIENTS.get(usize::try_from(index).ok()?)
}

/// Registers a client. May sleep. Warns, and does nothing, if there is no such client, if it is
/// registered already, or if it has too few handlers.
pub(super) fn register(index: u32, handlers: Handlers) {
    let operations = operations(index);
    let slot = slot(index).filter(|_| operations != 0 && handlers.count() >= operations);
    let Some(mut slot) = slot.and_then(Slot::write) else {
        kernel::warn_on!(true);
        return;
    };
    if !kernel::warn_on!(slot.is_some()) {
        *slot = Some(handlers);
    }
}

/// Unregisters a client, and waits for its running handlers. May sleep.
pub(super) fn unregister(index: u32) {
    if let Some(mut slot) = slot(index).and_then(Slot::write) {
        *slot = None;
    }
}

/// Registration of a client of this module. Dropping this unregisters the client.
pub(crate) struct Registration(u32);

impl Registration {
    /// Registers a client. See [`register`]. May sleep.
    pub(crate) fn new(index: u32, handlers: Handlers) -> Self {
        register(index, handlers);
        Self(index)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        unregister(self.0);
    }
}

/// Returns the locked slot of a client. If the client is not registered, its module is requested
/// once, without the lock, since the module registers the client when it loads.
fn find(client: u32) -> Option<ReadGuard<'static, Option<Handlers>>> {
    let slot = slot(client)?;
    let guard = slot.read()?;
    if guard.is_some() {
        return Some(guard);
    }
    drop(guard);
    request_client(client);
    slot.read()
}

/// Converts `NLM_F_*` to the type of the header's flags.
const fn flag(flag: u32) -> u16 {
    // CAST: These flags have 16 bits.
    flag as u16
}
const REQUEST: u16 = flag(bindings::NLM_F_REQUEST);
const ACK: u16 = flag(bindings::NLM_F_ACK);
const DUMP: u16 = flag(bindings::NLM_F_DUMP);

/// Returns the client and the operation that a message is for.
fn target(message: &Incoming<'_>) -> (u32, usize) {
    let number = message.head().nlmsg_type;
    (u32::from(number >> 10 & 0x3f), usize::from(number & 0x3ff))
}

/// Calls the handler of a message.
///
/// # Errors
///
/// `EINVAL` if there is no handler, `EPERM` if the sender lacks permission; errors of the handler.
fn handle(message: &Incoming<'_>) -> Result {
    let (client, op) = target(message);
    if op >= operations(client) {
        return Err(EINVAL);
    }
    // All clients except `nldev` support only the initial namespace.
    if message.net() != Net::init() && client != bindings::RDMA_NL_NLDEV {
        return Err(EINVAL);
    }

    let guard = find(client).ok_or(EINVAL)?;
    let handler = guard.as_ref().and_then(|handlers| handlers.get(op));
    let handler = handler.ok_or(EINVAL)?;
    if handler.needs_admin() && !message.is_capable(bindings::CAP_NET_ADMIN) {
        return Err(EPERM);
    }

    // Responses of the local service use a bit of `DUMP` with another meaning. Requests of the port
    // mapper are always dumps, whatever their flags.
    let dump = client != bindings::RDMA_NL_LS
        && (message.head().nlmsg_flags & DUMP != 0 || client == bindings::RDMA_NL_IWCM);
    if dump {
        handler.start_dump(message)
    } else {
        handler.call_doit(message)
    }
    .unwrap_or(Err(EINVAL))
}

/// Handles the messages of a received buffer.
pub(super) fn receive(mut batch: Batch<'_>) {
    while let Some(message) = batch.first() {
        let done = one(&message);
        let head = message.head();
        // An interrupted handler responds later, or not at all.
        if done != Err(EINTR) && (head.nlmsg_flags & ACK != 0 || done.is_err()) {
            batch.acknowledge(&message, done);
        }
        batch.skip(head.nlmsg_len.saturating_add(3) & !3);
    }
}

/// Handles one message. Ignores control messages and those that are not requests.
fn one(message: &Incoming<'_>) -> Result {
    let (client, _) = target(message);
    let head = message.head();
    // Of responses, only those of the local service are handled: no other client receives requests
    // of the kernel.
    let for_us = head.nlmsg_flags & REQUEST != 0 || client == bindings::RDMA_NL_LS;
    // CAST: The constant fits.
    if !for_us || head.nlmsg_type < bindings::NLMSG_MIN_TYPE as u16 {
        return Ok(());
    }
    handle(message)
}
