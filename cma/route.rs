// SPDX-License-Identifier: GPL-2.0

//! Paths to resolved destinations. RoCE makes them locally; iWARP needs none.

use crate::edge::core::caps;
use crate::edge::core::gid_types;
use crate::edge::core::roce_path;
use crate::edge::core::service_level;
use crate::edge::core::set_roce;
use crate::edge::errno;
use crate::edge::id::Id;
use crate::edge::sa;
use crate::news;
use crate::proto::event::Status;
use crate::proto::route;
use crate::proto::route::Network;
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
    let (device, port) = id.device().ok_or(EINVAL)?;
    let caps = caps(device.view(), port);
    if caps.ib_sa() {
        let query = sa::ask(id, &device, port, ticket, timeout_ms)?;
        id.with(|inner| inner.query = Some(query));
        return Ok(());
    }
    if caps.roce() {
        resolve_roce(id)?;
    } else if !caps.iwarp() {
        return Err(enosys());
    }
    Id::queue(id, Cause::Route(ticket, true), Status::Ok);
    Ok(())
}

/// The subnet administrator has answered, or not. May sleep.
pub(crate) fn answered(
    id: &Arc<Id>,
    ticket: Ticket,
    path: core::result::Result<bindings::sa_path_rec, i32>,
) {
    let asked = id.with(|inner| match inner.life.state() {
        State::RouteQuery(of, _) => of == ticket,
        _ => false,
    });
    if !asked {
        return;
    }
    let result = path.and_then(|path| {
        let mut paths = KVec::new();
        paths
            .push(path, GFP_KERNEL)
            .map_err(|_| ENOMEM.to_errno())?;
        id.set_paths(paths);
        Ok(())
    });
    let status = match result {
        Ok(()) => Status::Ok,
        Err(errno) => Status::Reported(errno),
    };
    Id::queue(id, Cause::Route(ticket, result.is_ok()), status);
}

fn resolve_roce(id: &Arc<Id>) -> Result {
    let attached = id.attached().ok_or(EINVAL)?;
    let view = attached.device.view();
    let options = id.with(|inner| inner.options);
    let (source, destination) = id.addrs();
    let dev = bound_device(id)?;
    // The device's default, which configfs sets, is 0.
    let tos = options.tos.unwrap_or(0);
    let path = route::path(&route::From {
        source: &source,
        destination: &destination,
        tos,
        sl: service_level(&dev, tos),
        // CAST: Hop limits have eight bits.
        hop_limit: id.words().hop_limit() as u8,
        mtu: dev.mtu(),
        ack_timeout: options.ack_timeout,
        udp: caps(view, attached.port).roce_udp(),
    })
    .ok_or(EINVAL)?;
    set_path(id, roce_path(&path))?;
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
fn set_path(id: &Id, mut path: bindings::sa_path_rec) -> Result {
    let attached = id.attached().ok_or(EINVAL)?;
    let view = attached.device.view();
    if caps(view, attached.port).roce() {
        let _dev = bound_device(id)?;
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
    let result = set_path(id, path);
    if result.is_err() {
        id.with(|inner| inner.life.set_path_failed());
    }
    result
}
