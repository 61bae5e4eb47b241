// SPDX-License-Identifier: GPL-2.0

//! Commands of the `rdma` tool: devices, links, resources, statistics, system.
//!
//! A netlink client with a handler for each command; [`handle`] and [`list`] dispatch them. No lock
//! of the core is held while a response is written: each object is kept alive by a reference. The
//! message formats are defined in [`crate::proto::nldev`].

use kernel::prelude::*;
use rdma::bindings;
use rdma::features::COMP_CNTR;

use self::request::Dump;
use self::request::Request;
use crate::device::Device;
use crate::device::Notice;
use crate::netlink;
use crate::netlink::DumpCall;
use crate::netlink::Handler;
use crate::netlink::Handlers;
use crate::netlink::Incoming;
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

/// Number of commands.
const OPS: usize = bindings::rdma_nldev_command_RDMA_NLDEV_NUM_OPS as usize;

/// The first attribute number that this kernel does not know.
const ATTRS: usize = bindings::rdma_nldev_attr_RDMA_NLDEV_ATTR_MAX as usize;

const _: () = assert!(ATTR_MAX == ATTRS + if COMP_CNTR { 0 } else { 1 });
const _: () = assert!(CLIENT as u32 == bindings::RDMA_NL_NLDEV);
const _: () = assert!(
    Command::FrmrPoolsSet as u32 == bindings::rdma_nldev_command_RDMA_NLDEV_CMD_FRMR_POOLS_SET
);

/// The handlers, indexed by command.
static HANDLERS: [Handler; OPS] = handlers();

const fn handlers() -> [Handler; OPS] {
    let mut handlers = [const { Handler::NONE }; OPS];
    let mut op = 0;
    while op < OPS {
        // CAST: `op` is below `OPS`, which is small.
        if let Some(command) = Command::from_type(CLIENT << 10 | op as u16) {
            let mut handler = Handler::NONE;
            if command.has_answer() {
                handler = handler.with_doit::<Nldev>();
            }
            if command.has_list() {
                handler = handler.with_dump::<Nldev>();
            }
            if command.needs_admin() {
                handler = handler.for_admin();
            }
            // INDEX: `op` is below the length; evaluated at compile time. OVERFLOW: Likewise.
            handlers[op] = handler;
        }
        op += 1;
    }
    handlers
}

/// The netlink client.
struct Nldev;

impl netlink::Doit for Nldev {
    fn doit(message: &Incoming<'_>) -> Result {
        handle(&Request::new(*message))
    }
}

impl netlink::Dump for Nldev {
    fn dump(call: DumpCall<'_>) -> Result {
        list(&mut Dump::new(call))
    }
}

/// Dispatches a command with a single response.
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

/// Dispatches a dump command.
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

/// Registration of the handlers of `RDMA_NL_NLDEV`.
pub(crate) struct Subsystem {
    _client: netlink::Registration,
}

impl Subsystem {
    /// Must be called once only. May sleep.
    pub(crate) fn new() -> Result<Self> {
        link::init();
        Ok(Self {
            _client: netlink::Registration::new(CLIENT.into(), Handlers::of(&HANDLERS)),
        })
    }
}

/// Notifies listeners of an event. May sleep.
pub(crate) fn notify(device: &Device, notice: Notice) {
    // A listener that does not read can cause this, so the message is rate limited.
    if event::tell(device, notice).is_err() && netlink::may_warn() {
        pr_warn!("{}: could not tell of {:?}\n", device.name(), notice);
    }
}
