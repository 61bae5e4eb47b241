// SPDX-License-Identifier: GPL-2.0

//! Paths to resolved destinations. On InfiniBand the subnet administrator is asked; RoCE makes them
//! locally; iWARP needs none. Service records, which stand for a destination, too.

use crate::deliver;
use crate::device::Attached;
use crate::edge::core::caps;
use crate::edge::core::gid_types;
use crate::edge::core::roce_path;
use crate::edge::core::service_level;
use crate::edge::core::set_roce;
use crate::edge::errno;
use crate::edge::id::Id;
use crate::edge::sa;
use crate::edge::sa::Record;
use crate::news;
use crate::proto::addr::Address;
use crate::proto::addr::Family;
use crate::proto::addr::Ib;
use crate::proto::event::Status;
use crate::proto::route;
use crate::proto::route::Network;
use crate::proto::route::Use;
use crate::proto::service::Wanted;
use crate::proto::state::Cause;
use crate::proto::state::State;
use crate::proto::state::Ticket;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::errno::enosys;
use rdma::net::NetDevice;

/// Resolves the path of an ID. May sleep.
pub(crate) fn resolve(id: &Arc<Id>, timeout_ms: usize) -> Result {
    if timeout_ms == 0 {
        return Err(EINVAL);
    }
    let ticket = id.with(|inner| inner.life.resolve_route()).map_err(errno)?;
    let result = try_resolve(id, ticket, timeout_ms);
    if result.is_err() {
        id.with(|inner| inner.life.resolve_route_failed(ticket));
    }
    result
}

fn try_resolve(id: &Arc<Id>, ticket: Ticket, timeout_ms: usize) -> Result {
    let (caps, _) = id.port().ok_or(EINVAL)?;
    if caps.ib_sa() {
        let (device, port) = id.device().ok_or(EINVAL)?;
        // Others read the path without locks, so its place is known before the answer.
        id.reserve_path()?;
        let query = sa::ask(id, &device, port, ticket, timeout_ms)?;
        id.with(|inner| {
            if matches!(inner.life.state(), State::RouteQuery(of, _) if of == ticket) {
                inner.query = Some(query);
            }
        });
        return Ok(());
    }
    if caps.roce() {
        resolve_roce(id)?;
    } else if !caps.iwarp() {
        return Err(enosys());
    }
    deliver::result(id, Cause::Route(ticket, true), Status::Ok);
    Ok(())
}

/// What the subnet administrator has answered: records, or an errno.
type Answer<'a, T> = core::result::Result<&'a [T], i32>;

/// The subnet administrator has answered with paths, or not. May sleep.
pub(crate) fn answered(id: &Arc<Id>, ticket: Ticket, paths: Answer<'_, bindings::sa_path_rec>) {
    let asked = id.with(|inner| match inner.life.state() {
        State::RouteQuery(of, _) => of == ticket,
        _ => false,
    });
    if !asked {
        return;
    }
    let result = paths.and_then(|paths| take(id, paths).map_err(|error| error.to_errno()));
    let (found, status) = status_of(result);
    Id::queue(id, Cause::Route(ticket, found), status);
}

fn status_of(result: core::result::Result<(), i32>) -> (bool, Status) {
    match result {
        Ok(()) => (true, Status::Ok),
        Err(errno) => (false, Status::Reported(errno)),
    }
}

/// Takes the paths of an answer.
///
/// # Errors
///
/// `EINVAL`: one is of no use, or none is for messages of the connection manager; `ENOMEM`.
fn take(id: &Id, paths: &[bindings::sa_path_rec]) -> Result {
    let mut primary = None;
    let [mut inbound, mut outbound] = [None, None];
    for path in paths {
        match Use::of(path.flags).ok_or(EINVAL)? {
            Use::Primary => primary = Some(path),
            Use::Inbound => inbound = Some(KBox::new(path.copy(), GFP_KERNEL)?),
            Use::Outbound => outbound = Some(KBox::new(path.copy(), GFP_KERNEL)?),
        }
    }
    let primary = primary.ok_or(EINVAL)?;
    id.set_one_way_paths([inbound, outbound]);
    id.fill_path(primary.copy())
}

/// Asks for service records of an ID that is bound to a device. May sleep.
///
/// # Errors
///
/// `EINVAL`: it is not; `EOPNOTSUPP`: the device is not one of InfiniBand; `ENOMEM`, `ENODEV`,
/// `EAGAIN`.
pub(crate) fn resolve_service(id: &Arc<Id>, wanted: &Wanted) -> Result {
    let on_device = id.device().is_some();
    let ticket = id
        .with(|inner| inner.life.resolve_service(on_device))
        .map_err(errno)?;
    let result = ask_service(id, ticket, wanted);
    if result.is_err() {
        id.with(|inner| inner.life.resolve_service_failed(ticket));
    }
    result
}

fn ask_service(id: &Arc<Id>, ticket: Ticket, wanted: &Wanted) -> Result {
    let (device, port) = id.device().ok_or(EINVAL)?;
    if !caps(device.view(), port).ib_sa() {
        return Err(rdma::provider::unsupported());
    }
    let query = sa::ask_service(id, &device, port, ticket, wanted)?;
    id.with(|inner| {
        if inner.life.state() == State::AddrinfoQuery(ticket) {
            inner.query = Some(query);
        }
    });
    Ok(())
}

/// The subnet administrator has answered with service records, or not: the first one is the
/// destination. May sleep.
pub(crate) fn service_answered(
    id: &Arc<Id>,
    ticket: Ticket,
    recs: Answer<'_, bindings::sa_service_rec>,
) {
    if id.with(|inner| inner.life.state()) != State::AddrinfoQuery(ticket) {
        return;
    }
    let result = recs.and_then(|recs| take_service(id, recs).map_err(|error| error.to_errno()));
    let (found, status) = status_of(result);
    Id::queue(id, Cause::Service(ticket, found), status);
}

/// Takes the service records of an answer.
///
/// # Errors
///
/// `ENOENT`: there is none; `EALREADY`: the ID has some; `ENOMEM`.
fn take_service(id: &Id, recs: &[bindings::sa_service_rec]) -> Result {
    let first = recs.first().ok_or(ENOENT)?;
    let (addr, pkey) = (first.gid, u16::from_be(first.pkey));
    let sid = u64::from_be(first.id);
    let mut all = KVec::with_capacity(recs.len(), GFP_KERNEL)?;
    for rec in recs {
        all.push(rec.copy(), GFP_KERNEL)?;
    }
    id.set_service_recs(all)?;
    if let Address::Ib(nowhere) = Family::Ib.unspecified() {
        id.set_destination(Address::Ib(Ib {
            addr,
            pkey,
            sid,
            ..nowhere
        }));
    }
    let mut link = id.link();
    link.set_dgid(addr);
    link.set_pkey(pkey);
    id.set_link(&link);
    Ok(())
}

fn resolve_roce(id: &Arc<Id>) -> Result {
    let attached = id.attached().ok_or(EINVAL)?;
    let options = id.look(|inner| inner.options);
    let (source, destination) = id.addrs();
    let dev = bound_device(id)?;
    let tos = options
        .tos
        .unwrap_or_else(|| attached.device.tos(attached.port));
    let path = route::path(&route::PathRequest {
        source: &source,
        destination: &destination,
        tos,
        sl: service_level(&dev, tos),
        // CAST: Hop limits have eight bits.
        hop_limit: id.words().hop_limit() as u8,
        mtu: dev.mtu(),
        ack_timeout: options.ack_timeout,
        udp: attached.caps.roce_udp(),
    })
    .ok_or(EINVAL)?;
    set_path(id, &attached, roce_path(&path))?;
    news::add(id)
}

/// The network device of an ID's local address.
fn bound_device(id: &Id) -> Result<ARef<NetDevice>> {
    match id.words().bound_dev_if() {
        0 => Err(ENODEV),
        interface => id.net().device_by_index(interface).ok_or(ENODEV),
    }
}

/// Makes a path that of an ID; on RoCE, with the resolved MAC address.
fn set_path(id: &Id, attached: &Attached, mut path: bindings::sa_path_rec) -> Result {
    if attached.caps.roce() {
        let view = attached.device.view();
        let gid_type = route::gid_type(
            Network::from_raw(id.words().network()),
            gid_types(view, attached.port),
            attached.gid_type,
        );
        let [_, destination, _] = id.hardware();
        let [a, b, c, d, e, f, ..] = destination;
        set_roce(&mut path, gid_type, [a, b, c, d, e, f]);
    }
    let mut paths = KVec::new();
    paths.push(path, GFP_KERNEL)?;
    id.set_paths(paths);
    Ok(())
}

/// Takes a path that the consumer knows.
pub(crate) fn set(id: &Id, path: bindings::sa_path_rec) -> Result {
    id.with(|inner| inner.life.set_path()).map_err(errno)?;
    let result = try_set(id, path);
    if result.is_err() {
        id.with(|inner| inner.life.set_path_failed());
    }
    result
}

fn try_set(id: &Id, path: bindings::sa_path_rec) -> Result {
    let attached = id.attached().ok_or(EINVAL)?;
    if attached.caps.roce() {
        let _dev = bound_device(id)?;
    }
    set_path(id, &attached, path)
}
