// SPDX-License-Identifier: GPL-2.0

//! What `rdma` asks: devices, links, resources, statistics, system.
//!
//! One client of netlink with a handler for each command; all of them come by [`handle`]
//! or [`list`]. No lock of the core is held while an answer is written: each object is held
//! by a count. Messages and requests are those of [`crate::proto::nldev`].

use core::ptr::NonNull;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

use self::request::Dump;
use self::request::Request;
use crate::device::Device;
use crate::device::Notice;
use crate::proto::nldev::Command;
use crate::proto::nldev::ATTR_MAX;
use crate::proto::nldev::CLIENT;
use crate::restrack::Kind;

mod dev;
mod driver;
mod edge;
mod event;
mod frmr;
mod link;
mod lookup;
mod object;
mod request;
mod res;
mod stat;

/// How many commands there are.
const OPS: usize = bindings::rdma_nldev_command_RDMA_NLDEV_NUM_OPS as usize;

const _: () = assert!(ATTR_MAX == bindings::rdma_nldev_attr_RDMA_NLDEV_ATTR_MAX as usize);
const _: () = assert!(CLIENT as u32 == bindings::RDMA_NL_NLDEV);
const _: () = assert!(
    Command::FrmrPoolsSet as u32 == bindings::rdma_nldev_command_RDMA_NLDEV_CMD_FRMR_POOLS_SET
);

/// The handlers, as netlink calls them.
static HANDLERS: [bindings::rdma_nl_cbs; OPS] = handlers();

const fn handlers() -> [bindings::rdma_nl_cbs; OPS] {
    let mut handlers = [const {
        bindings::rdma_nl_cbs {
            doit: None,
            dump: None,
            flags: 0,
        }
    }; OPS];
    let mut op = 0;
    while op < OPS {
        // CAST: There are few.
        if let Some(command) = Command::from_type(CLIENT << 10 | op as u16) {
            if command.has_answer() {
                handlers[op].doit = Some(doit);
            }
            if command.has_list() {
                handlers[op].dump = Some(dump);
            }
            if command.needs_admin() {
                // CAST: A flag of 8 bits.
                handlers[op].flags = bindings::rdma_nl_flags_RDMA_NL_ADMIN_PERM as u8;
            }
        }
        op += 1;
    }
    handlers
}

/// Answers one request.
///
/// # Safety
///
/// For netlink only: a buffer that came by a socket, and a message in it.
unsafe extern "C" fn doit(
    skb: *mut bindings::sk_buff,
    header: *mut bindings::nlmsghdr,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    from_result(|| {
        let skb = NonNull::new(skb).ok_or(EINVAL)?;
        // SAFETY: By this function's duty.
        handle(&unsafe { Request::new(skb, header, extack) })?;
        Ok(0)
    })
}

/// Writes the next messages of a list. It has ended when there are none.
///
/// # Safety
///
/// For netlink only: an empty buffer, and the dump that it is for.
unsafe extern "C" fn dump(
    skb: *mut bindings::sk_buff,
    callback: *mut bindings::netlink_callback,
) -> c_int {
    from_result(|| {
        let reply = NonNull::new(skb).ok_or(EINVAL)?;
        // SAFETY: By this function's duty.
        list(&mut unsafe { Dump::new(reply, callback) }.ok_or(EINVAL)?)?;
        // SAFETY: By this function's duty.
        Ok(c_int::try_from(unsafe { (*skb).len })?)
    })
}

/// Every command that is answered at once.
fn handle(request: &Request<'_>) -> Result {
    use self::res::Form::Plain;
    use self::res::Form::Raw;
    match request.command().ok_or(EINVAL)? {
        Command::Get => dev::get(request),
        Command::Set => dev::set(request),
        Command::NewLink => link::new(request),
        Command::DelLink => link::delete(request),
        Command::PortGet => dev::port_get(request),
        Command::SysGet => dev::sys_get(request),
        Command::SysSet => dev::sys_set(request),
        Command::ResGet => res::summary(request),
        Command::ResQpGet => res::get(request, Kind::Qp, Plain),
        Command::ResCmIdGet => res::get(request, Kind::CmId, Plain),
        Command::ResCqGet => res::get(request, Kind::Cq, Plain),
        Command::ResMrGet => res::get(request, Kind::Mr, Plain),
        Command::ResPdGet => res::get(request, Kind::Pd, Plain),
        Command::ResCtxGet => res::get(request, Kind::Ctx, Plain),
        Command::ResSrqGet => res::get(request, Kind::Srq, Plain),
        Command::ResQpGetRaw => res::get(request, Kind::Qp, Raw),
        Command::ResCqGetRaw => res::get(request, Kind::Cq, Raw),
        Command::ResMrGetRaw => res::get(request, Kind::Mr, Raw),
        Command::ResSrqGetRaw => res::get(request, Kind::Srq, Raw),
        Command::GetChardev => event::get_chardev(request),
        Command::StatSet => stat::set(request),
        Command::StatGet => stat::get(request),
        Command::StatDel => stat::delete(request),
        Command::StatGetStatus => stat::get_status(request),
        Command::NewDev => dev::new_sub(request),
        Command::DelDev => dev::delete_sub(request),
        Command::FrmrPoolsSet => frmr::set(request),
        Command::Monitor | Command::FrmrPoolsGet => Err(EINVAL),
    }
}

/// Every command that is answered by a list.
fn list(dump: &mut Dump<'_>) -> Result {
    use self::res::Form::Plain;
    use self::res::Form::Raw;
    match dump.request.command().ok_or(EINVAL)? {
        Command::Get => dev::list(dump),
        Command::PortGet => dev::port_list(dump),
        Command::ResGet => res::summaries(dump),
        Command::ResQpGet => res::list(dump, Kind::Qp, Plain),
        Command::ResCmIdGet => res::list(dump, Kind::CmId, Plain),
        Command::ResCqGet => res::list(dump, Kind::Cq, Plain),
        Command::ResMrGet => res::list(dump, Kind::Mr, Plain),
        Command::ResPdGet => res::list(dump, Kind::Pd, Plain),
        Command::ResCtxGet => res::list(dump, Kind::Ctx, Plain),
        Command::ResSrqGet => res::list(dump, Kind::Srq, Plain),
        Command::ResQpGetRaw => res::list(dump, Kind::Qp, Raw),
        Command::ResCqGetRaw => res::list(dump, Kind::Cq, Raw),
        Command::ResMrGetRaw => res::list(dump, Kind::Mr, Raw),
        Command::ResSrqGetRaw => res::list(dump, Kind::Srq, Raw),
        Command::StatGet => stat::list(dump),
        Command::FrmrPoolsGet => frmr::list(dump),
        Command::Set
        | Command::NewLink
        | Command::DelLink
        | Command::SysGet
        | Command::SysSet
        | Command::GetChardev
        | Command::StatSet
        | Command::StatDel
        | Command::StatGetStatus
        | Command::NewDev
        | Command::DelDev
        | Command::Monitor
        | Command::FrmrPoolsSet => Err(EINVAL),
    }
}

/// The handlers of `RDMA_NL_NLDEV`, registered.
pub(crate) struct Subsystem;

impl Subsystem {
    /// May sleep. Once.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The module calls this once; nobody asks anything before.
        unsafe { link::init() };
        // SAFETY: There are as many handlers as commands, and they are static.
        unsafe { bindings::rdma_nl_register(CLIENT.into(), HANDLERS.as_ptr()) };
        Ok(Self)
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`.
        unsafe { bindings::rdma_nl_unregister(CLIENT.into()) };
    }
}

/// Tells listeners of an event. May sleep.
pub(crate) fn notify(device: &Device, notice: Notice) {
    // Any listener who does not read can bring this about, so it is said now and then only.
    // SAFETY: It has no requirement.
    if event::tell(device, notice).is_err() && unsafe { bindings::net_ratelimit() } != 0 {
        pr_warn!("{}: could not tell of {:?}\n", device.name(), notice);
    }
}
