// SPDX-License-Identifier: GPL-2.0

//! Clients of the socket, and the way to them for what comes in.
//!
//! A client is a part of the subsystem with a table of handlers, one for each of its
//! operations. The lock of its place is held for reading around each handler, so that
//! whoever unregisters it waits for those that run (lock 1 of the plan of locks).

use core::ptr;
use kernel::error::from_result;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::net::Net;
use rdma::sync::ReadGuard;
use rdma::sync::RwSem;

use crate::proto::nla::MESSAGE_HEADER;

/// How many operations each client's number stands for; none where there is no client.
const OPS: [u32; bindings::RDMA_NL_NUM_CLIENTS as usize] = {
    let mut ops = [0; bindings::RDMA_NL_NUM_CLIENTS as usize];
    ops[bindings::RDMA_NL_IWCM as usize] = bindings::RDMA_NL_IWPM_NUM_OPS;
    ops[bindings::RDMA_NL_LS as usize] = bindings::RDMA_NL_LS_NUM_OPS;
    ops[bindings::RDMA_NL_NLDEV as usize] = bindings::rdma_nldev_command_RDMA_NLDEV_NUM_OPS;
    ops
};
const _: () = assert!(OPS.len() == 6, "a client that has no operations above");

/// A client's handlers.
///
/// # Invariants
///
/// Points to as many as [`OPS`] says for its number, until it is unregistered.
#[derive(Clone, Copy)]
struct Table(*const bindings::rdma_nl_cbs);

// SAFETY: Handlers are functions that any thread may call.
unsafe impl Send for Table {}
// SAFETY: As above.
unsafe impl Sync for Table {}

impl Table {
    /// A handler, if the client has one for the operation.
    fn handler(self, op: usize) -> Option<bindings::rdma_nl_cbs> {
        // SAFETY: By the type invariant; callers have checked `op` against `OPS`, and hold
        // the lock of the client's place.
        let handler = unsafe { self.0.add(op).read() };
        (handler.doit.is_some() || handler.dump.is_some()).then_some(handler)
    }
}

/// A place for each client.
static CLIENTS: [RwSem<Option<Table>>; OPS.len()] =
    // SAFETY: `init` is called before anything else here.
    [const { unsafe { RwSem::uninit(None) } }; OPS.len()];

/// Makes the table usable.
///
/// # Safety
///
/// It is called once, before anything else of this file.
pub(super) unsafe fn init() {
    for client in &CLIENTS {
        // SAFETY: By this function's duty.
        unsafe { client.init(c"NlClients::ops", kernel::static_lock_class!()) };
    }
}

/// Warns of clients that have not unregistered.
pub(super) fn check_none_left() {
    for client in &CLIENTS {
        kernel::warn_on!(client.read().is_some());
    }
}

/// Gives a client its place. May sleep. Warns, and does nothing, if the number is not one
/// of a client, or its place is taken.
///
/// # Safety
///
/// `table` has as many handlers as the client has operations, until [`unregister`]
/// returns.
pub(super) unsafe fn register(index: u32, table: *const bindings::rdma_nl_cbs) {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    let place = CLIENTS
        .get(index)
        .filter(|_| OPS.get(index).is_some_and(|ops| *ops != 0));
    let Some(place) = place else {
        kernel::warn_on!(true);
        return;
    };
    let mut place = place.write();
    if !kernel::warn_on!(place.is_some()) {
        // INVARIANT: By this function's duty.
        *place = Some(Table(table));
    }
}

/// Takes a client's place away, and waits for its handlers. May sleep.
pub(super) fn unregister(index: u32) {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    if let Some(place) = CLIENTS.get(index) {
        *place.write() = None;
    }
}

/// The table in a place. If there is none, the client's module is looked for once, with the
/// lock dropped meanwhile, since it takes the place when it loads.
fn find(
    index: usize,
    place: &'static RwSem<Option<Table>>,
) -> Option<(ReadGuard<'static, Option<Table>>, Table)> {
    let mut guard = place.read();
    if guard.is_none() {
        drop(guard);
        let number = u32::try_from(index).ok()?;
        // SAFETY: The format takes one unsigned number. The answer does not matter: whether
        // there is a client is looked up.
        let _: c_int = unsafe {
            bindings::__request_module(true, c"rdma-netlink-subsys-%u".as_ptr().cast(), number)
        };
        guard = place.read();
    }
    let table = (*guard)?;
    Some((guard, table))
}

/// `NLM_F_*` as they are in a header.
const fn flag(flag: u32) -> u16 {
    // CAST: These flags have 16 bits.
    flag as u16
}
const REQUEST: u16 = flag(bindings::NLM_F_REQUEST);
const ACK: u16 = flag(bindings::NLM_F_ACK);
const DUMP: u16 = flag(bindings::NLM_F_DUMP);

/// A message that came in, as its handlers get it.
struct Incoming {
    skb: *mut bindings::sk_buff,
    header: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
    client: usize,
    op: usize,
    flags: u16,
}

impl Incoming {
    /// Asks the handler.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is none, `EPERM` if the asker may not, or the handler's.
    fn handle(&self) -> Result {
        let known = OPS
            .get(self.client)
            .is_some_and(|ops| usize::try_from(*ops).is_ok_and(|ops| self.op < ops));
        let place = CLIENTS.get(self.client).filter(|_| known).ok_or(EINVAL)?;
        // CAST: A small number.
        let is = |client: u32| self.client == client as usize;

        // SAFETY: The buffer came by a socket, whose namespace is there.
        let net = unsafe { Net::from_raw(bindings::rdma_helper_sock_net((*self.skb).sk)) };
        // The other clients know one namespace only.
        if net != Net::init() && !is(bindings::RDMA_NL_NLDEV) {
            return Err(EINVAL);
        }

        let (_guard, table) = find(self.client, place).ok_or(EINVAL)?;
        let handler = table.handler(self.op).ok_or(EINVAL)?;
        // CAST: A flag of 8 bits.
        if handler.flags & bindings::rdma_nl_flags_RDMA_NL_ADMIN_PERM as u8 != 0
            // SAFETY: The buffer came by a netlink socket.
            && !unsafe { bindings::netlink_capable(self.skb, CAP_NET_ADMIN) }
        {
            return Err(EPERM);
        }

        // The local service's answers use a bit of `DUMP` for something else. The port
        // mapper's requests are dumps whether they say so or not.
        let dump =
            !is(bindings::RDMA_NL_LS) && (self.flags & DUMP != 0 || is(bindings::RDMA_NL_IWCM));
        if dump {
            let mut control = bindings::netlink_dump_control {
                dump: Some(handler.dump.ok_or(EINVAL)?),
                module: crate::THIS_MODULE.as_ptr(),
                ..Default::default()
            };
            // SAFETY: Buffer and header are those that C gave us; `control` is read before
            // this returns.
            return to_result(unsafe {
                bindings::__netlink_dump_start((*self.skb).sk, self.skb, self.header, &mut control)
            });
        }
        let doit = handler.doit.ok_or(EINVAL)?;
        // SAFETY: As above; the client stays, since the lock of its place is held.
        to_result(unsafe { doit(self.skb, self.header, self.extack) })
    }
}

// CAST: A small number.
const CAP_NET_ADMIN: c_int = bindings::CAP_NET_ADMIN as c_int;

/// Takes what came in by a socket: any number of messages.
///
/// # Safety
///
/// For C only, as `input` of a netlink socket: `skb` is a linear buffer that nobody else
/// uses.
pub(super) unsafe extern "C" fn receive(skb: *mut bindings::sk_buff) {
    let mut extack = bindings::netlink_ext_ack::default();
    loop {
        // SAFETY: By this function's duty.
        let (data, len) = unsafe { ((*skb).data, (*skb).len) };
        let len = usize::try_from(len).unwrap_or(0);
        if len < MESSAGE_HEADER {
            return;
        }
        let header: *mut bindings::nlmsghdr = data.cast();
        // SAFETY: There are as many bytes; the beginning is aligned, and each message goes
        // on at a multiple of four.
        let head = unsafe { *header };
        let of_message = usize::try_from(head.nlmsg_len).unwrap_or(usize::MAX);
        if of_message < MESSAGE_HEADER || of_message > len {
            return;
        }
        // SAFETY: Both are there until this returns.
        let done = unsafe { one(skb, header, head, &mut extack) };
        // Whoever was interrupted answers later, or not at all.
        if done != Err(EINTR) && (head.nlmsg_flags & ACK != 0 || done.is_err()) {
            let err = from_result(|| done.map(|()| 0));
            // SAFETY: Buffer and header are as C gave them to us.
            unsafe { bindings::netlink_ack(skb, header, err, &extack) };
        }
        let next = (of_message.saturating_add(3) & !3).min(len);
        // SAFETY: The buffer has so many bytes. CAST: Not more than `len`, which was u32.
        unsafe { bindings::skb_pull(skb, next as kernel::ffi::c_uint) };
    }
}

/// One message.
///
/// # Safety
///
/// `header` is that of a message which lies whole in the buffer, and `head` a copy of it.
unsafe fn one(
    skb: *mut bindings::sk_buff,
    header: *mut bindings::nlmsghdr,
    head: bindings::nlmsghdr,
    extack: &mut bindings::netlink_ext_ack,
) -> Result {
    let client = usize::from(head.nlmsg_type >> 10 & 0x3f);
    // Requests are answered. Only the local service is asked by the kernel, so that it
    // is answers which come in for it. CAST: A small number.
    let for_us = head.nlmsg_flags & REQUEST != 0 || client == bindings::RDMA_NL_LS as usize;
    // CAST: A small number.
    if !for_us || head.nlmsg_type < bindings::NLMSG_MIN_TYPE as u16 {
        return Ok(());
    }
    Incoming {
        skb,
        header,
        extack: ptr::from_mut(extack),
        client,
        op: usize::from(head.nlmsg_type & 0x3ff),
        flags: head.nlmsg_flags,
    }
    .handle()
}
