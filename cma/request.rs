// SPDX-License-Identifier: GPL-2.0

//! Requests of peers: the listener that one is for, and the ID that its consumer gets.
//!
//! Locks: the listener's lock of callbacks, then that of the new ID.

use crate::bind::check_space;
use crate::bind::validate;
use crate::deliver;
use crate::deliver::Delivered;
use crate::device;
use crate::edge::core::address_of;
use crate::edge::core::caps;
use crate::edge::core::leaves_by;
use crate::edge::event::Event;
use crate::edge::ib::Request;
use crate::edge::id::HandlerGuard;
use crate::edge::id::Id;
use crate::edge::id::Kind;
use crate::edge::iw::Incoming;
use crate::edge::transport::Transport;
use crate::edge::transport::Used;
use crate::listen;
use crate::ports;
use crate::proto::addr::Address;
use crate::proto::event::Status;
use crate::proto::header;
use crate::proto::header::Header;
use crate::proto::header::NoHeader;
use crate::proto::link::INFINIBAND;
use crate::proto::listener;
use crate::proto::listener::Owner;
use crate::proto::listener::Place;
use crate::proto::listener::Via;
use crate::proto::option::QpType;
use crate::proto::service;
use crate::proto::state::Cause;
use crate::proto::state::State;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::errno::econnaborted;
use rdma::errno::ehostunreach;
use rdma::net::CountedNet;
use rdma::net::Net;
use rdma::net::NetDevice;

/// `IFF_UP`.
const UP: u32 = 1;

/// A place of a listener.
type Placed = (Place<usize, usize>, Arc<Id>);

/// An owner of a port.
struct Candidate {
    source: Address,
    afonly: bool,
    own: Option<Placed>,
    /// Those of internal IDs.
    others: KVec<Placed>,
}

impl Owner<usize, usize> for Candidate {
    type Id = Arc<Id>;

    fn source(&self) -> &Address {
        &self.source
    }

    fn afonly(&self) -> bool {
        self.afonly
    }

    fn places(&self) -> impl Iterator<Item = Placed> {
        let all = Iterator::chain(self.own.iter(), &self.others);
        all.map(|(place, id)| (*place, id.clone()))
    }
}

/// The address of a namespace, for comparisons.
fn net_address(net: &CountedNet) -> usize {
    net.as_raw().addr()
}

impl Candidate {
    fn of(id: &Arc<Id>) -> Result<Self> {
        let (source, _) = id.addrs();
        let mut others = KVec::new();
        let children = id.children.lock();
        for child in &*children {
            if let Some(placed) = place(child) {
                others.push(placed, GFP_KERNEL)?;
            }
        }
        drop(children);
        Ok(Self {
            source,
            afonly: id.look(|inner| inner.afonly),
            own: place(id),
            others,
        })
    }
}

/// Where an ID is, if it is on a device.
fn place(id: &Arc<Id>) -> Option<Placed> {
    let attached = id.attached()?;
    let place = Place {
        device: address_of(attached.device.device()),
        port: attached.port,
        net: net_address(id.net()),
        ifindex: u32::try_from(id.words().bound_dev_if()).unwrap_or(0),
    };
    Some((place, id.clone()))
}

/// What a request is for.
struct Found {
    listener: Arc<Id>,
    /// How it was sent by IP; `None` for `AF_IB`.
    ip: Option<Ip>,
}

/// How a request was sent by IP.
struct Ip {
    header: Header,
    dev: ARef<NetDevice>,
    /// The namespace of `dev`.
    net: ARef<CountedNet>,
}

// Not inlined, as its caller's frame is large.
#[inline(never)]
fn find(request: &Request<'_>) -> Result<Found> {
    let service_id = request.service_id();
    let number = service::port(service_id);
    let ip = match Header::parse(request.data()) {
        Ok(header) => Some(find_ip(request, header, number)?),
        Err(NoHeader::NotIp) => None,
        Err(NoHeader::Invalid) => return Err(EINVAL),
    };
    let (net, via) = match &ip {
        Some(Ip { header, dev, net }) => {
            let via = Via::Ip {
                header: *header,
                net: net_address(net),
                ifindex: dev.ifindex(),
            };
            (&**net, via)
        }
        // Listeners of `AF_IB` are in the first namespace.
        None => (Net::init(), Via::Ib),
    };
    let space = service::space(service_id).ok_or(EINVAL)?;
    let mut owners = KVec::new();
    let mut full = Ok(());
    let _: Option<()> = ports::find(net, (space, number), |id| {
        full = owners.push(id.clone(), GFP_KERNEL);
        full.is_err().then_some(())
    });
    full?;
    let wanted = listener::Request {
        device: request.device(),
        port: request.port(),
        via,
    };
    let mut done = Ok(());
    let candidates = owners.iter().map_while(|owner| {
        let candidate = Candidate::of(owner);
        candidate.map_err(|error| done = Err(error)).ok()
    });
    let listener = listener::choose(candidates, &wanted);
    done?;
    let listener = listener.ok_or(EINVAL)?;
    Ok(Found { listener, ip })
}

/// The network device that a request was sent to, by its header.
#[inline(never)]
fn find_ip(request: &Request<'_>, header: Header, number: u16) -> Result<Ip> {
    let local = header.local(number);
    let dev = if request.is_roce() {
        request.net_device()
    } else {
        request.ib_net_device(&local)
    }
    .ok_or(ENODEV)?;
    let net = {
        // One section, so that the route is one of the namespace.
        let rcu = rcu::read_lock();
        if dev.flags() & UP == 0 || !leaves_by(&dev, &local, &header.remote()) {
            return Err(ehostunreach());
        }
        dev.net(&rcu).try_hold().ok_or(ehostunreach())?
    };
    Ok(Ip { header, dev, net })
}

/// The ID whose consumer gets the requests of a listener.
fn consumers(listener: &Arc<Id>) -> &Arc<Id> {
    match &listener.kind {
        Kind::Internal(parent) => parent,
        Kind::Plain | Kind::Program | Kind::Request => listener,
    }
}

/// Creates the ID for a request.
fn new_id(listener: &Arc<Id>, port_space: u32, qp_type: u32) -> Result<Arc<Id>> {
    let consumer = consumers(listener).consumer();
    let net = listener.net_ref();
    let id = Id::new(net, consumer, Kind::Request, port_space, qp_type)?;
    id.name_from(listener);
    Ok(id)
}

/// A request of `ib_cm`. Returns what its handler returns.
pub(crate) fn ib(request: &Request<'_>) -> c_int {
    match try_ib(request) {
        Ok(answer) => answer,
        Err(error) => error.to_errno(),
    }
}

fn try_ib(request: &Request<'_>) -> Result<c_int> {
    let found = find(request)?;
    let listener = &found.listener;
    request.trace(listener);
    let qp_type = listener.words().qp_type();
    if qp_type != 0 && qp_type != request.qp_type() {
        return Err(EINVAL);
    }
    let listening = listener.lock();
    if !listener.look(|inner| inner.life.is_listening()) {
        return Err(econnaborted());
    }
    if !listen::is_open(listener) {
        // A REQ gets no answer, so the peer repeats it. A request for datagrams is rejected by `ib_cm`.
        return Err(ENOMEM);
    }
    // The peer repeats its request, as there is no memory.
    let id = new_ib(request, &found).map_err(|_| ENOMEM)?;
    let guard = id.lock();
    let ready = acquire_ib(request, &found, &id).and_then(|()| {
        id.track()?;
        set_adopted(&id, Transport::Ib(request.adopt(&id)?))
    });
    if let Err(error) = ready {
        fail(&id, guard, listening);
        return Err(error);
    }
    let (own, _) = listener.addrs();
    let offset = header::offset(own.family());
    let mut event = request.event(offset);
    let _consumer_knows_it = Id::give(id.clone());
    let delivered = deliver::deliver(guard, Cause::Request, &mut event, Status::Ok);
    let (answer, end) = match delivered {
        Delivered::Kept(guard) => {
            let connecting = id.look(|inner| inner.life.state()) == State::Connect;
            if connecting && id.qp_type() != QpType::Ud {
                if let Some(Used::Ib(ib)) = id.transport() {
                    ib.prepare_mra(&id);
                }
            }
            drop(guard);
            return Ok(0);
        }
        Delivered::Ended(answer, end) => (answer, end),
    };
    deliver::give_up_transport(&id);
    drop(listening);
    end.finish(&id);
    Ok(answer)
}

/// Gives the ID for a request that of the transport.
///
/// # Errors
///
/// `EINVAL`: it is being destroyed. The transport's ID is given up, so the handler must fail.
fn set_adopted(id: &Id, transport: Transport) -> Result {
    id.set_transport(transport).map_err(|refused| {
        refused.give_up();
        EINVAL
    })
}

/// Ends an ID of which no consumer knows.
fn fail(id: &Arc<Id>, guard: HandlerGuard<'_>, listening: HandlerGuard<'_>) {
    let end = deliver::begin_end(&guard);
    drop(guard);
    drop(listening);
    if let Some(end) = end {
        end.finish(id);
    }
}

// Not inlined, as its caller's frame is large.
#[inline(never)]
fn new_ib(request: &Request<'_>, found: &Found) -> Result<Arc<Id>> {
    let space = found.listener.words().port_space();
    let (paths, ends) = request.paths()?;
    let number = service::port(request.service_id());
    let (listening, _) = found.listener.addrs();
    let (source, destination) = match (request.ib_addrs(&listening), &found.ip) {
        // As the listener says, however the request was sent.
        (Some(addrs), _) => addrs,
        (None, Some(ip)) => (ip.header.local(number), ip.header.remote()),
        (None, None) => return Err(EINVAL),
    };
    let id = new_id(&found.listener, space, request.qp_type())?;
    id.set_source(source);
    id.set_destination(destination);
    id.set_paths(paths);
    match &found.ip {
        Some(ip) => id.copy_device(&ip.dev),
        None if !source.is_any() => {
            let translated = id.translate(&source);
            // It refers to the listener's task since it was made.
            translated.inspect_err(|_| id.untrack())?;
        }
        None => {}
    }
    if let Some((sgid, dgid, pkey)) = ends {
        let mut link = id.link();
        if found.ip.is_none() && source.is_any() && !request.is_roce() {
            link.dev_type = INFINIBAND;
            link.set_sgid(sgid);
            link.set_pkey(pkey);
        }
        link.set_dgid(dgid);
        id.set_link(&link);
    }
    Ok(id)
}

#[inline(never)]
fn acquire_ib(request: &Request<'_>, found: &Found, id: &Arc<Id>) -> Result {
    check_space(id)?;
    let listening = found.listener.attached().ok_or(ENODEV)?;
    let port = request.port();
    let gid_type = listening.device.gid_type(port);
    let gid = validate(id, &listening.device, port, gid_type)?;
    device::attach(id, &listening.device, port, Some(gid))
}

/// A request of `iw_cm` for a listener. Returns what its handler returns.
pub(crate) fn iw(listener: &Arc<Id>, incoming: &Incoming<'_>) -> c_int {
    match try_iw(listener, incoming) {
        Ok(answer) => answer,
        Err(error) => error.to_errno(),
    }
}

fn try_iw(listener: &Arc<Id>, incoming: &Incoming<'_>) -> Result<c_int> {
    let listening = listener.lock();
    if !listener.look(|inner| inner.life.is_listening()) || !listen::is_open(listener) {
        return Err(econnaborted());
    }
    let space = service::Space::Tcp.raw();
    let id = new_id(listener, space, bindings::ib_qp_type_IB_QPT_RC).map_err(|_| ENOMEM)?;
    let guard = id.lock();
    let ready = acquire_iw(listener, incoming, &id).and_then(|()| {
        id.track()?;
        set_adopted(&id, Transport::Iw(incoming.adopt(&id)?))
    });
    if let Err(error) = ready {
        fail(&id, guard, listening);
        return Err(error);
    }
    let mut event: Event = incoming.for_consumer(true);
    let _consumer_knows_it = Id::give(id.clone());
    let delivered = deliver::deliver(guard, Cause::Request, &mut event, Status::Ok);
    let (answer, end) = match delivered {
        Delivered::Kept(guard) => {
            drop(guard);
            return Ok(0);
        }
        Delivered::Ended(answer, end) => (answer, end),
    };
    deliver::give_up_transport(&id);
    drop(listening);
    end.finish(&id);
    Ok(answer)
}

/// Attaches a request of iWARP to the device that received it, which is the listener's. The GID of
/// a local address may also be one of a device of RoCE, with which the transport's ID has nothing to
/// do.
#[inline(never)]
fn acquire_iw(listener: &Id, incoming: &Incoming<'_>, id: &Arc<Id>) -> Result {
    let (local, remote) = incoming.addrs();
    // A listener on all addresses of IPv6 is one for IPv4, too, by a socket of IPv6: such a driver names
    // an IPv4 peer by mapped addresses, which no interface and no GID table has. Consumers get the
    // addresses that they get over RoCE.
    let (local, remote) = (
        local.ok_or(EINVAL)?.unmapped(),
        remote.ok_or(EINVAL)?.unmapped(),
    );
    id.translate(&local)?;
    id.set_source(local);
    id.set_destination(remote);
    check_space(id)?;
    let own = listener.attached().ok_or(ENODEV)?;
    let device = &own.device;
    // The port of a listener with an address first.
    for port in Iterator::chain(core::iter::once(own.port), device.ports()) {
        if port == 0 || !caps(device.view(), port).iwarp() {
            continue;
        }
        if let Ok(gid) = validate(id, device, port, device.gid_type(port)) {
            return device::attach(id, device, port, Some(gid));
        }
    }
    Err(ENODEV)
}
