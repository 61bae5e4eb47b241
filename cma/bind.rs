// SPDX-License-Identifier: GPL-2.0

//! Local addresses: binding to an address and a device; resolution of destinations.

use crate::deliver;
use crate::deliver::Delivered;
use crate::device;
use crate::device::CmaDevice;
use crate::edge::args::Sock;
use crate::edge::core::caps;
use crate::edge::core::driver_id;
use crate::edge::core::find_pkey;
use crate::edge::core::gid_at;
use crate::edge::core::gids;
use crate::edge::core::is_active;
use crate::edge::core::may_access;
use crate::edge::core::pkey_at;
use crate::edge::core::v6_only;
use crate::edge::core::Gid;
use crate::edge::errno;
use crate::edge::event::Event;
use crate::edge::id::Id;
use crate::ports;
use crate::proto::addr::Address;
use crate::proto::addr::Family;
use crate::proto::addr::Ib;
use crate::proto::event::Status;
use crate::proto::link::ETHER;
use crate::proto::link::INFINIBAND;
use crate::proto::link::NO_HARDWARE;
use crate::proto::route;
use crate::proto::route::GidType;
use crate::proto::service::Space;
use crate::proto::state::Cause;
use crate::proto::state::State;
use crate::proto::Refusal;
use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::sync::Arc;
use rdma::bindings;

/// Binds an ID to a local address. May sleep.
pub(crate) fn bind(id: &Arc<Id>, addr: Option<Address>) -> Result {
    bind_to(id, addr.ok_or(errno(Refusal::Family))?, None, None)
}

/// Binds an ID, to an interface if the address alone does not tell it. If the state refuses that,
/// nothing is changed: the interface of an ID that is in use is part of the path to its peer.
fn bind_to(
    id: &Arc<Id>,
    addr: Address,
    destination: Option<Address>,
    interface: Option<u32>,
) -> Result {
    let interface = interface.map(i32::try_from).transpose()?;
    id.with(|inner| inner.life.bind()).map_err(errno)?;
    if let Some(interface) = interface {
        id.words().set_bound_dev_if(interface);
    }
    let result = try_bind(id, addr, destination);
    if result.is_err() {
        id.with(|inner| inner.life.bind_failed());
    }
    result
}

// Not inlined, as its caller's frame is large.
#[inline(never)]
fn try_bind(id: &Arc<Id>, addr: Address, destination: Option<Address>) -> Result {
    if let Some(interface) = addr.interface().map_err(errno)? {
        id.words()
            .set_bound_dev_if(i32::try_from(interface).map_err(|_| EINVAL)?);
    }
    id.set_source(addr);
    if !addr.is_any() {
        id.translate(&addr)?;
        acquire(id)?;
    }
    let default = v6_only(id);
    id.with(|inner| inner.afonly = inner.options.is_afonly(addr.family(), default));
    let destination = destination.filter(|to| to.family() == addr.family());
    id.set_destination(destination.unwrap_or(addr.family().unspecified()));
    if let Err(error) = ports::take(id) {
        device::detach(id);
        return Err(error);
    }
    if id.look(|inner| inner.life.state()) == State::Destroying {
        // The consumer has answered the device's removal by that.
        ports::release(id);
        device::detach(id);
        return Err(EINVAL);
    }
    if !addr.is_any() {
        // If it is being destroyed since then, that also releases the port and the device.
        id.track()?;
    }
    Ok(())
}

/// Attaches an ID to the device of its local address.
fn acquire(id: &Arc<Id>) -> Result {
    check_space(id)?;
    let node = id.look(|inner| inner.options.node);
    let found = device::find_map(|device| {
        if !node.allows(device.view().node_type()) {
            return None;
        }
        device.ports().find_map(|port| {
            let gid = validate(id, device, port, device.gid_type(port)).ok()?;
            Some((device.clone(), port, gid))
        })
    });
    let (device, port, gid) = found.ok_or(ENODEV)?;
    device::attach(id, &device, port, Some(gid))
}

/// Groups of IPoIB need its network devices.
pub(crate) fn check_space(id: &Id) -> Result {
    let ipoib = id.words().port_space() == Space::Ipoib.raw();
    if ipoib && id.dev_type() != INFINIBAND {
        return Err(EINVAL);
    }
    Ok(())
}

/// Returns the GID of an ID's local address, if the port has it. Does not sleep.
///
/// # Errors
///
/// `ENODEV`, `ENOENT`: it does not.
pub(crate) fn validate(id: &Id, device: &CmaDevice, port: u32, gid_type: GidType) -> Result<Gid> {
    let view = device.view();
    let caps = caps(view, port);
    let dev_type = id.dev_type();
    if !may_access(view, id) || (dev_type == INFINIBAND) != caps.ib() {
        return Err(ENODEV);
    }
    if caps.iwarp() {
        return validate_iwarp(id, device, port);
    }
    let interface = id.words().bound_dev_if();
    let rxe = driver_id(view) == bindings::rdma_driver_id_RDMA_DRIVER_RXE;
    let ethernet = dev_type == ETHER || (rxe && dev_type == NO_HARDWARE);
    let (source, _) = id.addrs();
    if caps.roce() && ethernet {
        let gid = source.gid().ok_or(ENODEV)?;
        let dev = id.net().device_by_index(interface).ok_or(ENODEV)?;
        return Gid::find(device.device(), port, gid, gid_type, Some(&dev));
    }
    let gid = match source.gid() {
        Some(gid) if caps.roce() => gid,
        _ => id.link().sgid(),
    };
    let gid_type = if rxe { gid_type } else { GidType::Ib };
    Gid::find(device.device(), port, gid, gid_type, None)
}

/// iWARP has one entry for each port, whose network device must be that of the address, or its VLAN
/// device, or the one below.
fn validate_iwarp(id: &Id, device: &CmaDevice, port: u32) -> Result<Gid> {
    let gid = Gid::first(device.device(), port)?;
    let own = gid.ndev().ok_or(ENODEV)?;
    let wanted = u32::try_from(id.words().bound_dev_if()).map_err(|_| ENODEV)?;
    let same_net = {
        let rcu = rcu::read_lock();
        let net: &rdma::net::Net = id.net();
        own.net(&rcu) == net
    };
    if !same_net {
        return Err(ENODEV);
    }
    if own.ifindex() == wanted {
        return Ok(gid);
    }
    let bound = id.net().device_by_index(id.words().bound_dev_if());
    let below_bound = bound
        .as_ref()
        .and_then(|bound| bound.vlan())
        .is_some_and(|(real, _)| real.ifindex() == own.ifindex());
    let below_own = own.vlan().is_some_and(|(real, _)| real.ifindex() == wanted);
    if below_bound || (bound.is_some() && below_own) {
        return Ok(gid);
    }
    Err(ENODEV)
}

/// Resolves the address of a destination; binds the ID before, if it is not. May sleep.
pub(crate) fn resolve(
    id: &Arc<Id>,
    source: Option<Sock>,
    destination: Option<Sock>,
    timeout_ms: usize,
) -> Result {
    let destination = destination.ok_or(EINVAL)?;
    let ticket = match id.with(|inner| inner.life.resolve_addr()) {
        Ok(ticket) => {
            if let Some(destination) = destination.addr {
                id.set_destination(destination);
            }
            ticket
        }
        Err(_) => {
            bind_for(id, source, &destination)?;
            id.with(|inner| inner.life.resolve_addr()).map_err(errno)?
        }
    };
    let result = try_resolve(id, &destination, timeout_ms);
    if result.is_err() {
        id.with(|inner| inner.life.resolve_addr_failed(ticket));
    }
    result
}

/// Binds an ID for a destination.
// Not inlined, as its caller's frame is large.
#[inline(never)]
fn bind_for(id: &Arc<Id>, source: Option<Sock>, destination: &Sock) -> Result {
    if let Some(source) = source.filter(|source| source.family != 0) {
        let source = source.addr.ok_or(errno(Refusal::Family))?;
        return bind_to(id, source, destination.addr, None);
    }
    let to = destination.addr.ok_or(errno(Refusal::Family))?;
    let (source, interface) = to.source_for();
    bind_to(id, source, Some(to), interface)
}

// Not inlined, as its caller's frame is large.
#[inline(never)]
fn try_resolve(id: &Arc<Id>, destination: &Sock, timeout_ms: usize) -> Result {
    let (source, _) = id.addrs();
    let to = destination.addr.ok_or(EINVAL)?;
    if source.family() != to.family() {
        return Err(EINVAL);
    }
    if to.is_any() {
        return resolve_loopback(id);
    }
    if let Address::Ib(to) = to {
        return resolve_ib(id, &to);
    }
    // A request that has answered with an error may not be over yet.
    if id.with(|inner| core::mem::replace(&mut inner.asked, true)) {
        id.cancel_resolve_ip();
    }
    Id::resolve_ip(id, &to, timeout_ms)?;
    if id.with(|inner| inner.life.state().is_over()) {
        // The device was removed before there was a request to cancel.
        id.cancel_resolve_ip();
    }
    Ok(())
}

/// The destination is this host.
#[inline(never)]
fn resolve_loopback(id: &Arc<Id>) -> Result {
    if !id.has_device() {
        bind_loopback(id)?;
    }
    let own = id.link().sgid();
    is_at(id, own)
}

/// The destination of an ID has this GID: tells the consumer.
fn is_at(id: &Arc<Id>, gid: [u8; 16]) -> Result {
    let mut link = id.link();
    link.set_dgid(gid);
    id.set_link(&link);
    let State::AddrQuery(ticket) = id.look(|inner| inner.life.state()) else {
        return Err(EINVAL);
    };
    deliver::result(id, Cause::Addr(ticket, true), Status::Ok);
    Ok(())
}

/// The destination is one of `AF_IB`, whose address is its GID.
fn resolve_ib(id: &Arc<Id>, to: &Ib) -> Result {
    if !id.has_device() {
        bind_ib(id, to)?;
    }
    is_at(id, to.addr)
}

/// Attaches an ID to the first port from which a destination of `AF_IB` is reached.
fn bind_ib(id: &Arc<Id>, to: &Ib) -> Result {
    for device in &device::all()? {
        let view = device.view();
        // The C module lets each namespace use each device here.
        if !may_access(view, id) {
            continue;
        }
        for port in device.ports() {
            if !caps(view, port).af_ib() || find_pkey(view, port, to.pkey).is_err() {
                continue;
            }
            let active = is_active(view, port);
            let found = gids(view, port).find(|gid| route::leads_to(gid, &to.addr, active));
            let Some(addr) = found else { continue };
            let (Address::Ib(source), _) = id.addrs() else {
                return Err(EINVAL);
            };
            let source = Address::Ib(Ib { addr, ..source });
            device::attach(id, device, port, None)?;
            id.track()?;
            id.set_source(source);
            return id.translate(&source);
        }
    }
    Err(ENODEV)
}

/// Attaches an ID to the first device with an active port, else to the first device.
#[inline(never)]
fn bind_loopback(id: &Arc<Id>) -> Result {
    let (source, _) = id.addrs();
    let devices = device::all()?;
    let usable = || {
        devices
            .iter()
            .filter(|device| source.family() != Family::Ib || caps(device.view(), 1).ib_cm())
    };
    let mut ports = usable().flat_map(|device| device.ports().map(move |port| (device, port)));
    let found = ports.find(|(device, port)| is_active(device.view(), *port));
    let first = usable().next().map(|device| (device, 1));
    let (device, port) = found.or(first).ok_or(ENODEV)?;
    let gid = gid_at(device.view(), port, 0)?;
    let pkey = pkey_at(device.view(), port, 0)?;
    let mut link = id.link();
    link.dev_type = if caps(device.view(), port).ib() {
        INFINIBAND
    } else {
        ETHER
    };
    link.set_sgid(gid);
    link.set_pkey(pkey);
    id.set_link(&link);
    device::attach(id, device, port, None)?;
    id.track()?;
    id.set_source(source.loopback());
    Ok(())
}

/// An address was resolved, or not: `source` is the local address then.
pub(crate) fn resolved(id: &Arc<Id>, source: Option<Address>, status: i32) {
    let guard = id.lock();
    let State::AddrQuery(ticket) = id.look(|inner| inner.life.state()) else {
        return;
    };
    let (old, _) = id.addrs();
    let mut status = status;
    if status == 0 {
        if let Some(source) = source {
            id.set_source(source);
        }
        if !id.has_device() {
            if let Err(error) = acquire(id).and_then(|()| id.track()) {
                status = error.to_errno();
            }
        }
    }
    if status != 0 {
        id.set_source(old);
    }
    let cause = Cause::Addr(ticket, status == 0);
    let status = Status::Reported(status);
    match deliver::deliver(guard, cause, &mut Event::new(), status) {
        Delivered::Kept(guard) => drop(guard),
        Delivered::Ended(_, end) => end.finish(id),
    }
}
