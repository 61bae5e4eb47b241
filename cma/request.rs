// SPDX-License-Identifier: GPL-2.0

//! Requests of peers: the listener that one is for, and the ID that its consumer gets.
//!
//! Locks: the listener's lock of callbacks, then that of the new ID.

use crate::bind::check_space;
use crate::bind::validate;
use crate::bind::INFINIBAND;
use crate::deliver;
use crate::deliver::Delivered;
use crate::device;
use crate::edge::core::address_of;
use crate::edge::core::leaves_by;
use crate::edge::event::Event;
use crate::edge::ib::Request;
use crate::edge::id::Id;
use crate::edge::id::Kind;
use crate::edge::id::Transport;
use crate::edge::iw::Incoming;
use crate::ports;
use crate::proto::addr::Address;
use crate::proto::event::Status;
use crate::proto::header;
use crate::proto::header::Header;
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
use rdma::net::NetDevice;

/// `IFF_UP`.
const UP: u32 = 1;

/// An owner of a port.
struct Candidate {
    source: Address,
    afonly: bool,
    places: KVec<(Place<usize, usize>, Arc<Id>)>,
}

impl Owner<usize, usize> for &Candidate {
    type Id = Arc<Id>;

    fn source(&self) -> &Address {
        &self.source
    }

    fn afonly(&self) -> bool {
        self.afonly
    }

    fn places(&self) -> impl Iterator<Item = (Place<usize, usize>, Arc<Id>)> {
        self.places.iter().map(|(place, id)| (*place, id.clone()))
    }
}

/// The address of a namespace, for comparisons.
fn net_address(net: &CountedNet) -> usize {
    net.as_raw().addr()
}

impl Candidate {
    fn of(id: &Arc<Id>) -> Result<Self> {
        let (source, _) = id.addrs();
        let mut places = KVec::new();
        place(id, &mut places)?;
        for child in &id.children.lock().ids {
            place(child, &mut places)?;
        }
        Ok(Self {
            source,
            afonly: id.with(|inner| inner.afonly),
            places,
        })
    }
}

/// Where an ID is, if it is on a device.
fn place(id: &Arc<Id>, places: &mut KVec<(Place<usize, usize>, Arc<Id>)>) -> Result {
    let Some(attached) = id.attached() else {
        return Ok(());
    };
    let place = Place {
        device: address_of(attached.device.device()),
        port: attached.port,
        net: net_address(id.net()),
        ifindex: u32::try_from(id.words().bound_dev_if()).unwrap_or(0),
    };
    places.push((place, id.clone()), GFP_KERNEL)?;
    Ok(())
}

/// What a request is for.
struct Found {
    listener: Arc<Id>,
    header: Header,
    dev: ARef<NetDevice>,
}

fn find(request: &Request<'_>) -> Result<Found> {
    let service_id = request.service_id();
    let number = service::port(service_id);
    // Requests of `AF_IB` are not supported yet.
    let header = Header::parse(request.data()).map_err(|_| EINVAL)?;
    let dev = if request.is_roce() {
        request.net_device()
    } else {
        request.ib_net_device(&header.local(number))
    }
    .ok_or(ENODEV)?;
    if dev.flags() & UP == 0 || !leaves_by(&dev, &header.local(number), &header.remote()) {
        return Err(ehostunreach());
    }
    let net = {
        let rcu = rcu::read_lock();
        dev.net(&rcu).try_hold().ok_or(ehostunreach())?
    };
    let space = service::space(service_id).ok_or(EINVAL)?;
    let mut owners = KVec::new();
    let mut full = Ok(());
    let _: Option<()> = ports::find(&net, (space, number), |id| {
        full = owners.push(id.clone(), GFP_KERNEL);
        full.is_err().then_some(())
    });
    full?;
    let mut candidates = KVec::new();
    for owner in &owners {
        candidates.push(Candidate::of(owner)?, GFP_KERNEL)?;
    }
    let wanted = listener::Request {
        device: request.device(),
        port: request.port(),
        via: Via::Ip {
            header,
            net: net_address(&net),
            ifindex: dev.ifindex(),
        },
    };
    let listener = listener::choose(&candidates, &wanted).ok_or(EINVAL)?;
    Ok(Found {
        listener,
        header,
        dev,
    })
}

/// The ID whose consumer gets the requests of a listener.
fn consumers(listener: &Arc<Id>) -> &Arc<Id> {
    match &listener.kind {
        Kind::Internal(parent) => parent,
        Kind::Plain | Kind::Request => listener,
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
    if !listener.with(|inner| inner.life.is_listening()) {
        return Err(econnaborted());
    }
    // The peer repeats its request, as there is no memory.
    let id = new_ib(request, &found).map_err(|_| ENOMEM)?;
    let guard = id.lock();
    let ready = acquire_ib(request, &found, &id).and_then(|()| {
        id.track();
        request.adopt(&id)
    });
    let ib = match ready {
        Ok(ib) => ib,
        Err(error) => {
            drop(guard);
            drop(listening);
            deliver::destroy(&id);
            return Err(error);
        }
    };
    id.with(|inner| inner.transport = Some(Transport::Ib(ib.clone())));
    let offset = header::offset(found.header.local(0).family());
    let mut event = request.event(offset);
    let _consumer_knows_it = Id::give(id.clone());
    let delivered = deliver::deliver(&id, guard, Cause::Request, &mut event, Status::Ok);
    let (answer, end) = match delivered {
        Delivered::Kept(guard) => {
            let connecting = id.with(|inner| inner.life.state()) == State::Connect;
            if connecting && id.qp_type() != QpType::Ud {
                ib.prepare_mra(&id);
            }
            drop(guard);
            return Ok(0);
        }
        Delivered::Ended(answer, end) => (answer, end),
    };
    deliver::give_up_transport(&id);
    drop(ib);
    drop(listening);
    end.finish(&id);
    Ok(answer)
}

fn new_ib(request: &Request<'_>, found: &Found) -> Result<Arc<Id>> {
    let space = found.listener.words().port_space();
    let id = new_id(&found.listener, space, request.qp_type())?;
    let number = service::port(request.service_id());
    id.set_source(found.header.local(number));
    id.set_destination(found.header.remote());
    id.copy_device(&found.dev);
    let (paths, dgid) = request.paths()?;
    id.set_paths(paths);
    if !request.is_datagrams() {
        let [source, mut destination, broadcast] = id.hardware();
        let skip = if id.dev_type() == INFINIBAND { 4 } else { 0 };
        for (to, from) in destination.iter_mut().skip(skip).zip(dgid) {
            *to = from;
        }
        id.set_hardware([source, destination, broadcast]);
    }
    Ok(id)
}

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
    if !listener.with(|inner| inner.life.is_listening()) {
        return Err(econnaborted());
    }
    let space = service::Space::Tcp.raw();
    let id = new_id(listener, space, bindings::ib_qp_type_IB_QPT_RC).map_err(|_| ENOMEM)?;
    let guard = id.lock();
    let ready = acquire_iw(listener, incoming, &id).and_then(|()| {
        id.track();
        incoming.adopt(&id)
    });
    let iw = match ready {
        Ok(iw) => iw,
        Err(error) => {
            drop(guard);
            drop(listening);
            deliver::destroy(&id);
            return Err(error);
        }
    };
    id.with(|inner| inner.transport = Some(Transport::Iw(iw)));
    let mut event: Event = incoming.for_consumer(true);
    let _consumer_knows_it = Id::give(id.clone());
    let delivered = deliver::deliver(&id, guard, Cause::Request, &mut event, Status::Ok);
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

fn acquire_iw(listener: &Id, incoming: &Incoming<'_>, id: &Arc<Id>) -> Result {
    let (local, remote) = incoming.addrs();
    let (local, remote) = (local.ok_or(EINVAL)?, remote.ok_or(EINVAL)?);
    id.translate(&local)?;
    id.set_source(local);
    id.set_destination(remote);
    check_space(id)?;
    let own = listener.attached().ok_or(ENODEV)?;
    if own.port != 0 {
        if let Ok(gid) = validate(id, &own.device, own.port, own.gid_type) {
            return device::attach(id, &own.device, own.port, Some(gid));
        }
    }
    for device in &device::all()? {
        for port in device.ports() {
            if let Ok(gid) = validate(id, device, port, device.gid_type(port)) {
                return device::attach(id, device, port, Some(gid));
            }
        }
    }
    Err(ENODEV)
}
