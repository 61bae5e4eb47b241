// SPDX-License-Identifier: GPL-2.0

//! What programs write: a command, with the address of the answer.
//!
//! The order of refusals is that of the C module: the opener (`EACCES`), lengths, the copy, the
//! fields, the context, the device, and then those of the connection manager.

use crate::context::Context;
use crate::context::Event;
use crate::context::Kind;
use crate::edge;
use crate::file::File;
use crate::file::UcmFiles;
use crate::handler;
use crate::joins;
use crate::proto::command;
use crate::proto::command::Command;
use crate::proto::command::Header;
use crate::proto::command::Named;
use crate::proto::command::Op;
use crate::proto::command::Param;
use crate::proto::command::QpType;
use crate::proto::command::HEADER;
use crate::proto::command::IB;
use crate::proto::command::LONGEST;
use crate::proto::command::OPS;
use crate::proto::command::SHORT;
use crate::proto::event;
use crate::proto::event::Body;
use crate::proto::life::Lost;
use crate::proto::option::Setting;
use crate::proto::Wrong;
use crate::query;
use crate::query::Answer;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::uaccess::UserPtr;
use kernel::uaccess::UserSlice;
use rdma::accounted;
use rdma::bindings;
use rdma::cm::CmId;
use rdma::cm::ConnParam;
use rdma::cm::Ece;
use rdma::cm::SocketAddress;
use rdma::misc::Call;
use rdma::misc::NoPeer;
use rdma::nospec;

/// Returns the error for a command that is refused.
pub(crate) fn wrong(why: Wrong) -> Error {
    match why {
        Wrong::Invalid => EINVAL,
        Wrong::NoRoom => ENOSPC,
        // CAST, OVERFLOW: The value is below 200.
        Wrong::Unknown => rdma::errno::enosys(),
    }
}

/// Memory of the program at an address in a field of 64 bits.
fn user(address: u64, len: usize) -> UserSlice {
    // CAST: 64-bit kernels; on others the upper half is ignored, as in C (`u64_to_user_ptr`).
    UserSlice::new(UserPtr::from_addr(address as usize), len)
}

/// Copies an answer.
fn put(address: u64, bytes: &[u8]) -> Result {
    if bytes.is_empty() {
        return Ok(());
    }
    user(address, bytes.len()).writer().write_slice(bytes)
}

fn param<'a>(from: &Param<'a>, family: u16) -> ConnParam<'a> {
    ConnParam {
        private: from.private,
        responder_resources: from.responder_resources,
        initiator_depth: from.initiator_depth,
        flow_control: from.flow_control,
        retry_count: from.retry_count,
        rnr_retry_count: from.rnr_retry_count,
        srq: from.srq,
        qp_num: from.qp_num,
        qkey: if family == IB { from.qkey } else { 0 },
    }
}

fn ece(from: command::Ece) -> Ece {
    (from.vendor_id, from.attr_mod)
}

/// Handles a write. Returns the number of bytes.
pub(crate) fn write(file: ArcBorrow<'_, File>, call: &Call<'_, UcmFiles>) -> Result<usize> {
    if call.opener_changed() {
        kernel::pr_err_once!(
            "process {} changed security contexts after opening file descriptor, this is not allowed.\n",
            kernel::current!().pid(),
        );
        return Err(EACCES);
    }
    if call.len < HEADER {
        return Err(EINVAL);
    }
    // Most commands are read at once.
    let mut start = [0; HEADER + SHORT];
    let mut have = call.len.min(start.len());
    if read(call.from, start.get_mut(..have).ok_or(EINVAL)?).is_err() {
        // What is behind the header may not be needed.
        have = HEADER;
        read(call.from, start.get_mut(..have).ok_or(EINVAL)?)?;
    }
    let header = Header::parse(start.first_chunk().ok_or(EINVAL)?);
    let number = usize::try_from(header.number)?;
    let op = *nospec::get(&OPS, number).ok_or(EINVAL)?;
    let len = header.admit(op, call.len).map_err(wrong)?;
    let read = start.get(HEADER..have).and_then(|rest| rest.get(..len));
    match read {
        Some(bytes) => carry_out(file, call, (op, bytes), header.room)?,
        None => copy(file, call, (op, len), header.room)?,
    }
    Ok(call.len)
}

/// Copies bytes that the program has written.
fn read(from: usize, to: &mut [u8]) -> Result {
    UserSlice::new(UserPtr::from_addr(from), to.len())
        .reader()
        .read_slice(to)
}

/// Copies the structure of a command that is long, or longer than what the program has written, and
/// carries the command out.
#[inline(never)]
fn copy(
    file: ArcBorrow<'_, File>,
    call: &Call<'_, UcmFiles>,
    (op, len): (Op, usize),
    room: u16,
) -> Result {
    let from = UserPtr::from_addr(call.from.wrapping_add(HEADER));
    edge::copied::<LONGEST>(UserSlice::new(from, len), |bytes| {
        carry_out(file, call, (op, bytes), room)
    })
}

/// Carries out a command, given the bytes of its structure.
fn carry_out(
    file: ArcBorrow<'_, File>,
    call: &Call<'_, UcmFiles>,
    (op, bytes): (Op, &[u8]),
    room: u16,
) -> Result {
    match &Command::parse(op, bytes, room) {
        Ok(command) => run(file, call, command, room),
        Err(why) => Err(wrong(*why)),
    }
}

fn run(
    file: ArcBorrow<'_, File>,
    call: &Call<'_, UcmFiles>,
    command: &Command<'_>,
    room: u16,
) -> Result {
    match *command {
        Command::Create {
            uid,
            response,
            space,
            qp,
        } => create(file, uid, response, space, qp),
        Command::Destroy { response, id } => {
            let context = file.shared.contexts.get(id).ok_or(ENOENT)?;
            context.win(&file)?;
            put(response, &context.end().to_ne_bytes())
        }
        Command::Bind { id, address } => bind(&*Context::find(&file, id)?, address),
        Command::ResolveAddr {
            id,
            from,
            to,
            timeout_ms,
        } => resolve_addr(&*Context::find(&file, id)?, from, to, timeout_ms),
        Command::ResolveRoute { id, timeout_ms } => {
            Context::find(&file, id)?.ask(|cm| cm.resolve_route(timeout_ms))
        }
        Command::QueryRoute { response, id } => query_route(&file, response, id, room),
        Command::Query {
            response,
            id,
            option,
        } => query(&file, response, id, option, room),
        Command::Connect {
            id,
            param: ref from,
            ece: extra,
        } => connect(&*Context::find(&file, id)?, from, extra),
        Command::Listen { id, backlog } => {
            let context = Context::find(&file, id)?;
            let max = crate::max_backlog();
            // Requests may come before the call returns.
            let backlog = context.queue.lock().backlog.set(backlog, max);
            context.with_cm(|cm| cm.listen(backlog))
        }
        Command::Accept {
            uid,
            id,
            ref param,
            ece,
        } => accept(&*Context::find(&file, id)?, uid, param.as_ref(), ece),
        Command::Reject {
            id,
            reason,
            private,
        } => Context::find(&file, id)?.with_cm(|cm| cm.reject(private, reason)),
        Command::Disconnect { id } => Context::find(&file, id)?.with_cm(CmId::disconnect),
        Command::InitQpAttr {
            response,
            id,
            state,
        } => qp_attr(&file, response, id, state),
        Command::GetEvent { response } => get_event(&file, call, response, room),
        Command::SetOption {
            value,
            id,
            level,
            name,
            len,
        } => {
            let context = Context::find(&file, id)?;
            let len = usize::try_from(len)?;
            let value = accounted::from_user(&[], &mut user(value, len).reader(), len)?;
            let setting = Setting::parse(level, name, &value).map_err(wrong)?;
            set(&context, setting)
        }
        Command::Notify { id, event } => Context::find(&file, id)?.with_cm(|cm| cm.notify(event)),
        Command::Join(ref wanted) => {
            joins::join(&file, wanted, |id| put(wanted.response, &id.to_ne_bytes()))
        }
        Command::Leave { response, id } => {
            let reported = joins::leave(&file, id)?;
            put(response, &reported.to_ne_bytes())
        }
        Command::Migrate { response, id, fd } => {
            let peer = call.peer(fd).map_err(|why| match why {
                NoPeer::Closed => ENOENT,
                NoPeer::Foreign => EINVAL,
            })?;
            let reported = migrate(&file.into(), &peer.open(), id)?;
            put(response, &reported.to_ne_bytes())
        }
        Command::ResolveIbService { id, service } => {
            let service = edge::service(service);
            Context::find(&file, id)?.ask(|cm| cm.resolve_service(service))
        }
        Command::WriteEvent {
            id,
            event,
            status,
            arg,
        } => write_event(&Context::find(&file, id)?, event, status, arg),
    }
}

// Each command is a function of its own: what is below some of them needs much of the stack, which
// the variables of all the others must not take.

#[inline(never)]
fn query_route(file: &File, response: u64, id: u32, room: u16) -> Result {
    let mut answer = Answer::new();
    query::route(&*Context::find(file, id)?, room.into(), &mut answer)?;
    put(response, answer.bytes())
}

#[inline(never)]
fn query(file: &File, response: u64, id: u32, option: u32, room: u16) -> Result {
    let mut answer = Answer::new();
    query::query(&*Context::find(file, id)?, option, room, &mut answer)?;
    put(response, answer.bytes())
}

#[inline(never)]
fn bind(context: &Context, address: Named<'_>) -> Result {
    context.with_cm(|cm| cm.bind(SocketAddress(address.whole().0)))
}

#[inline(never)]
fn resolve_addr(context: &Context, from: Named<'_>, to: Named<'_>, timeout_ms: u32) -> Result {
    let (from, to) = (from.whole(), to.whole());
    context.ask(|cm| cm.resolve_addr(SocketAddress(from.0), SocketAddress(to.0), timeout_ms))
}

#[inline(never)]
fn connect(context: &Context, from: &Param<'_>, extra: command::Ece) -> Result {
    context.with_cm(|cm| {
        let family = cm.lock()?.source_family();
        cm.connect(&param(from, family), ece(extra))
    })
}

#[inline(never)]
fn qp_attr(file: &File, response: u64, id: u32, state: u32) -> Result {
    let mut answer = edge::QpAttr::default();
    Context::find(file, id)?.with_cm(|cm| answer.fill(cm, state))?;
    put(response, answer.bytes())
}

#[inline(never)]
fn create(file: ArcBorrow<'_, File>, uid: u64, response: u64, space: u16, qp: QpType) -> Result {
    let flags = GFP_KERNEL_ACCOUNT;
    let slot = crate::number(&file.shared.contexts, flags)?;
    let id = slot.id();
    let own = Context::new(id, file.into(), uid, flags)?;
    let context = own.clone_arc();
    let qp_type = match qp {
        QpType::Rc => bindings::ib_qp_type_IB_QPT_RC,
        QpType::Ud => bindings::ib_qp_type_IB_QPT_UD,
        QpType::Other(number) => number.into(),
    };
    let cm = CmId::create_for_program(context.clone(), space.into(), qp_type)?;
    // The program may have another thread use the number as soon as it is copied, but it finds
    // nothing before it is published.
    if let Err(error) = put(response, &id.to_ne_bytes()) {
        // Not by a work item, for which there may be no memory.
        let _: Result = cm.end_and_wait();
        return Err(error);
    }
    *context.cm.lock() = Some(cm);
    context.place.lock().life.publish();
    file.add(own, || {
        let _: u32 = slot.publish(context);
    });
    Ok(())
}

#[inline(never)]
fn accept(context: &Context, uid: u64, from: Option<&Param<'_>>, extra: command::Ece) -> Result {
    context.with_cm(|cm| {
        let locked = cm.lock()?;
        let family = locked.source_family();
        let param = from.map(|from| param(from, family));
        locked.accept(param.as_ref(), ece(extra))?;
        if from.is_some() {
            // Under the lock: the next event has it.
            context.uid.store(uid, Relaxed);
        }
        Ok(())
    })
}

#[inline(never)]
fn get_event(file: &File, call: &Call<'_, UcmFiles>, response: u64, room: u16) -> Result {
    let event = file.take(call.nonblock())?;
    let len = command::response(room, (event::SIZE, event::OLD)).map_err(wrong)?;
    let bytes = event.bytes.get(..len).unwrap_or_default();
    // The event counts as read already: a program that destroys the context meanwhile is told so,
    // and waits for it.
    if let Err(e) = put(response, bytes) {
        File::put_back(event);
        return Err(e);
    }
    if let Kind::Request(_) = event.kind {
        event.context.queue.lock().backlog.give();
    }
    Ok(())
}

#[inline(never)]
fn set(context: &Arc<Context>, setting: Setting) -> Result {
    context.with_cm(|cm| match setting {
        Setting::Tos(tos) => {
            cm.set_service_type(tos);
            Ok(())
        }
        Setting::ReuseAddr(reuse) => cm.set_reuseaddr(reuse),
        Setting::AfOnly(only) => cm.set_afonly(only),
        Setting::AckTimeout(timeout) => cm.set_ack_timeout(timeout),
        Setting::Path(record) => {
            cm.set_path(record)?;
            let cm = cm.lock()?;
            let uid = context.uid.load(Relaxed);
            let event = event::Event {
                uid,
                id: context.id,
                event: bindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED,
                status: 0,
                body: Body::Empty,
                ece: command::Ece::default(),
            };
            // As for an event of the connection manager: without memory there is none.
            if uid != 0 {
                let _: Result = handler::queue(context, &event, GFP_KERNEL_ACCOUNT);
            }
            drop(cm);
            Ok(())
        }
    })
}

#[inline(never)]
fn write_event(context: &Arc<Context>, kind: u32, status: u32, arg: u64) -> Result {
    context.with_cm(|cm| {
        let cm = cm.lock()?;
        let uid = context.uid.load(Relaxed);
        if uid == 0 {
            return Err(EINVAL);
        }
        let told = event::Event {
            uid,
            id: context.id,
            event: kind,
            status,
            body: Body::Arg(arg),
            ece: command::Ece::default(),
        };
        let event = Event::new(context, Kind::Written, &told, GFP_KERNEL_ACCOUNT)?;
        let result = File::push_written(context, event);
        drop(cm);
        result
    })
}

/// Moves a context from one file to another. Returns the number of its events that the program has
/// read.
#[inline(never)]
fn migrate(to: &Arc<File>, from: &File, id: u32) -> Result<u32> {
    let context = Context::find(from, id)?;
    context.with_cm(|cm| {
        let cm = cm.lock()?;
        if core::ptr::eq(&**to, from) {
            // It stays, and so do its events.
            context.check(from).map_err(|_| ENOENT)?;
            return Ok(context.queue.lock().reported);
        }
        let moving = from.give(&context, to).map_err(|lost| match lost {
            Lost::None | Lost::Foreign | Lost::Closing => ENOENT,
        })?;
        let reported = to.receive(&context, moving);
        drop(cm);
        Ok(reported)
    })
}
