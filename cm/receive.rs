// SPDX-License-Identifier: GPL-2.0

//! Received messages: the connection is found, and steps, in the handler of the agent. Requests make
//! new connections.
//!
//! Context: work items of the port, which may sleep. What is rare is in functions of their own: its
//! variables must not take the stack of the others.

use crate::conn::Conn;
use crate::conn::Engine;
use crate::conn::Entered;
use crate::conn::Held;
use crate::conn::More;
use crate::edge::path;
use crate::edge::path::Roce;
use crate::edge::trace;
use crate::edge::trace::OfMessage;
use crate::index::Service;
use crate::port::Port;
use crate::proto::answer::Answer;
use crate::proto::answer::Ari;
use crate::proto::conn::Call;
use crate::proto::conn::Event;
use crate::proto::conn::LapPaths;
use crate::proto::conn::Path as Along;
use crate::proto::conn::Source;
use crate::proto::counters::Count;
use crate::proto::counters::Group;
use crate::proto::ids::Gid;
use crate::proto::path as paths;
use crate::proto::path::PathRecord;
use crate::proto::tables;
use crate::proto::tables::Claim;
use crate::proto::tables::Lookup;
use crate::proto::tables::PeerKeys;
use crate::proto::tables::SidrKey;
use crate::proto::wire::Body;
use crate::proto::wire::Kind;
use crate::proto::wire::Message;
use crate::proto::wire::Reason;
use crate::proto::wire::Req;
use crate::proto::wire::Transport;
use crate::way;
use crate::way::Ref;
use crate::way::Way;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::client::DeviceRef;
use rdma::edge::verbs::GidAttr;
use rdma::mad::Path;
use rdma::mad::Received;
use rdma::mad::Route;

/// An event that is to be queued: the state of its connection, still locked.
struct Waiting<'a> {
    entered: Entered<'a>,
    event: Event,
    more: Option<KBox<More>>,
}

/// Handles a received MAD.
pub(crate) fn received(port: &Arc<Port>, mad: Received<'_>) {
    let Some(message) = Message::parse(mad.mad().bytes()) else {
        return;
    };
    let kind = message.body.kind();
    port.counters.add(Group::Received, kind, 1);
    let cm = &port.cm;
    let mut conn = None;
    let waiting = match Lookup::of(&message) {
        // Without memory, or a way back, there is no answer; the peer repeats itself.
        Lookup::Request(keys) => request(port, &mad, &message, keys, &mut conn).unwrap_or(None),
        Lookup::SidrRequest => sidr_request(port, &mad, &message, &mut conn).unwrap_or(None),
        Lookup::Local(id) => {
            conn = cm.conns.get(id.0 ^ cm.scramble);
            found(port, &mad, &message, conn.as_ref())
        }
        Lookup::Peer(key) => {
            conn = cm.ids.get(&key);
            found(port, &mad, &message, conn.as_ref())
        }
        Lookup::Nobody => None,
    };
    if let Some(Waiting {
        entered,
        event,
        more,
    }) = waiting
    {
        entered.deliver(event, mad.into_mad(), more);
    }
}

/// Handles a message of a connection, if there is one.
fn found<'a>(
    port: &Arc<Port>,
    mad: &Received<'_>,
    message: &Message<'_>,
    conn: Option<&'a Arc<Conn>>,
) -> Option<Waiting<'a>> {
    match conn {
        Some(conn) => known(port, mad, message, conn),
        None => {
            stranger(port, mad, message);
            None
        }
    }
}

/// Handles a message of a connection.
#[inline(never)]
fn known<'a>(
    port: &Arc<Port>,
    mad: &Received<'_>,
    message: &Message<'_>,
    conn: &'a Arc<Conn>,
) -> Option<Waiting<'a>> {
    let cm = &port.cm;
    let (mut lap, mut more) = (None, None);
    if let Body::Lap(_) = &message.body {
        if let Ok((found, extra)) = lap_paths(port, mad, message, conn) {
            (lap, more) = (Some(found), Some(extra));
        }
    }
    let source = source(mad);
    let mut other = None;
    let done = conn.receive(port, mad, message, |state| {
        let claim = |keys: &PeerKeys| {
            let (claim, holder) = tables::claim(&cm.ids, &cm.qpns, keys, conn);
            if holder.as_ref().is_some_and(|it| Arc::ptr_eq(it, conn)) {
                // No memory: the message is dropped.
                return Claim::SameId;
            }
            if claim == Claim::SameId {
                trace::message(OfMessage::InsertFailed, conn.local_id().0, 0);
            }
            other = holder.filter(|_| claim == Claim::SameQpn);
            claim
        };
        state.engine.receive(message, &source, lap, cm.now(), claim)
    });
    if let Some((entered, event)) = done {
        return Some(Waiting {
            entered,
            event,
            more,
        });
    }
    if let Some(other) = other {
        trace::message(OfMessage::StaleConn, conn.local_id().0, 0);
        stale(&source, &other);
    }
    None
}

/// A REQ or a REP has the queue pair of another connection, which is disconnected.
#[inline(never)]
fn stale(source: &Source, other: &Arc<Conn>) {
    if other.look(|state| state.engine.is_from_peer(source)) {
        // It may be in any state.
        if other.call(&Call::Dreq { private: &[] }).is_err() {
            trace::id(trace::OfId::DreqSkipped, other.id());
        }
    }
}

/// Where a message came from.
fn source(mad: &Received<'_>) -> Source {
    Source {
        gid: mad.source_gid().map(Gid),
        slid: mad.slid(),
        sl: mad.sl(),
        dlid_path_bits: mad.path_bits(),
    }
}

/// Answers a message for an ID that does not exist.
#[inline(never)]
fn stranger(port: &Port, mad: &Received<'_>, message: &Message<'_>) {
    if let Body::Rep(rep) = &message.body {
        trace::message(OfMessage::RemoteNoId, rep.remote_id.0, 0);
    }
    if let Some(answer) = Answer::to_stranger(message) {
        port.counters.add(Group::Duplicates, message.body.kind(), 1);
        trace::message(OfMessage::NoId, answer.remote_id.0, answer.local_id.0);
        trace::message(OfMessage::IssueDrep, answer.remote_id.0, answer.local_id.0);
        way::answer(port, mad, &answer.message(&[]), Count::Answer);
    }
}

/// Rejects a message for which there is no state.
#[inline(never)]
fn reject(port: &Port, mad: &Received<'_>, message: &Message<'_>, reason: Reason, ari: Ari) {
    let answer = Answer::reject(message, reason, ari);
    if let Some(answer) = answer {
        trace::message(OfMessage::IssueRej, answer.remote_id.0, answer.local_id.0);
        way::answer(port, mad, &answer.message(&[]), Count::Message);
    }
}

/// The device of a port.
fn device(port: &Port) -> Result<DeviceRef> {
    let live = port.live();
    Ok(live.as_ref().ok_or(ENODEV)?.device.clone())
}

/// Keys of a new connection, which are given up on drop.
struct Claimed<'a> {
    conn: &'a Arc<Conn>,
    keys: Option<PeerKeys>,
    sidr: Option<SidrKey>,
}

impl Claimed<'_> {
    /// The connection's engine gives them up.
    fn keep(mut self) {
        (self.keys, self.sidr) = (None, None);
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        let cm = &self.conn.cm;
        if let Some(keys) = self.keys.take() {
            cm.ids.delete(&keys.id_key(), self.conn);
            cm.qpns.delete(&keys.qpn_key(), self.conn);
        }
        if let Some(key) = self.sidr.take() {
            cm.sidr.delete(&key, self.conn);
        }
    }
}

/// Holds the listener for a service of a device.
fn listener(port: &Port, device: &DeviceRef, service: u64) -> Option<Held> {
    let service = Service {
        device: device.raw().addr(),
        id: service,
    };
    port.cm.services.get(&service)?.hold()
}

/// The P_Key that a message came with; 0 if it is not in the table any more.
fn bth_pkey(device: &DeviceRef, port: &Port, mad: &Received<'_>) -> u16 {
    path::query_pkey(device, port.number, mad.pkey_index()).unwrap_or(0)
}

/// The paths of a REQ, primary and alternate.
type Paths = (Along<Ref>, Option<Along<Ref>>);

/// Whether a path is the route back to the sender of a message, which was looked up by IP: true of
/// RoCE v2, where a REQ usually comes from whom it is about. Then it is not looked up once more.
fn leads_back(path: &PathRecord, back: &Route) -> bool {
    back.gid().is_some_and(|gid| {
        gid.gid_type() == bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP
            && gid.gid() == path.sgid.0
            && back.dgid() == path.dgid.0
    })
}

/// Makes the paths of a REQ, and their records. May sleep.
///
/// # Errors
///
/// Reason and additional information of the rejection.
fn req_paths(
    port: &Arc<Port>,
    device: &DeviceRef,
    source: &Source,
    req: &Req<'_>,
    back: &Route,
    records: &mut [Option<Path>; 2],
) -> Result<Paths, (Reason, Ari)> {
    let roce = back.is_roce();
    let opa = path::is_opa(device, port.number);
    let (primary, alternate) = paths::from_req(req, source, opa, roce);
    let kind = |dmac, resolved| {
        let gid_type = back.gid().map(GidAttr::gid_type)?;
        roce.then_some(Roce {
            gid_type,
            dmac,
            resolved,
        })
    };
    let dmac = back.dmac().unwrap_or_default();
    let mut first = path::to_c(&primary, kind(dmac, leads_back(&primary, back)));
    first.set_hop_limit(back.hop_limit());
    let data_lid = if back.kind() == bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB {
        paths::data_lid(req, source)
    } else {
        0
    };
    let Ok(mut way) = along(port, device, &mut first, back.gid(), data_lid) else {
        let ari = match path::query_gid(device, port.number, 0) {
            Ok(gid) => Ari::Gid(gid),
            Err(_) => Ari::None,
        };
        return Err((Reason::INVALID_GID, ari));
    };
    if let Some(gid) = source.gid {
        way.peer = gid;
    }
    let mut second = alternate.map(|record| path::to_c(&record, kind([0; 6], false)));
    let other = match &mut second {
        Some(record) => match along(port, device, record, None, 0) {
            Ok(way) => Some(way),
            Err(_) => return Err((Reason::INVALID_ALT_GID, Ari::Gid(path::sgid(&first)))),
        },
        None => None,
    };
    if opa {
        // Consumers do not know GIDs that hold a LID.
        for record in [Some(&mut first), second.as_mut()].into_iter().flatten() {
            if path::sgid(record).is_opa() {
                if let Ok(gid) = path::query_gid(device, port.number, 0) {
                    path::set_sgid(record, gid);
                }
            }
        }
    }
    *records = [Some(first), second];
    Ok((way, other))
}

/// Finds the way along a path of a received message. May sleep.
fn along(
    port: &Arc<Port>,
    device: &DeviceRef,
    path: &mut Path,
    gid: Option<&GidAttr>,
    data_lid: u16,
) -> Result<Along<Ref>> {
    let port = match gid {
        Some(_) => port.clone(),
        None => {
            let number = path.port_of(device)?;
            if number == port.number {
                port.clone()
            } else {
                port.sibling(device, number).ok_or(EINVAL)?
            }
        }
    };
    Way::along(port, device, path, gid, data_lid)
}

/// Handles a REQ. May sleep.
#[inline(never)]
fn request<'a>(
    port: &Arc<Port>,
    mad: &Received<'_>,
    message: &Message<'_>,
    keys: PeerKeys,
    place: &'a mut Option<Arc<Conn>>,
) -> Result<Option<Waiting<'a>>> {
    let Body::Req(req) = &message.body else {
        return Err(EINVAL);
    };
    let cm = &port.cm;
    let device = device(port)?;
    let source = source(mad);
    let back = Route::back(mad, &device)?;
    let slot = cm.number()?;
    let conn = &*place.insert(Conn::unowned(cm, slot.id(), &device)?);
    match tables::claim(&cm.ids, &cm.qpns, &keys, conn) {
        (Claim::Granted, _) => {}
        (_, Some(holder)) if Arc::ptr_eq(&holder, conn) => return Err(ENOMEM),
        (Claim::SameId, Some(holder)) => {
            let entered = holder.receive(port, mad, message, |state| {
                state.engine.duplicate_req(message, &source)
            });
            // A duplicate has no event.
            if let Some((entered, _)) = entered {
                entered.leave();
            }
            return Ok(None);
        }
        (Claim::SameQpn, Some(holder)) => {
            reject(port, mad, message, Reason::STALE_CONN, Ari::None);
            stale(&source, &holder);
            return Ok(None);
        }
        (Claim::SameId | Claim::SameQpn, None) => return Ok(None),
    }
    let claimed = Claimed {
        conn,
        keys: Some(keys),
        sidr: None,
    };
    let Some(held) = listener(port, &device, req.service_id.0) else {
        trace::id(trace::OfId::NoListenerErr, conn.id());
        reject(port, mad, message, Reason::INVALID_SERVICE_ID, Ari::None);
        return Ok(None);
    };
    let more = More {
        port: 0,
        listener: None,
        bth_pkey: bth_pkey(&device, port, mad),
        paths: [None, None],
    };
    let mut more = KBox::new(more, GFP_KERNEL)?;
    let paths = req_paths(port, &device, &source, req, &back, &mut more.paths);
    let (primary, alternate) = match paths {
        Ok(paths) => paths,
        Err((reason, ari)) => {
            reject(port, mad, message, reason, ari);
            return Ok(None);
        }
    };
    more.port = primary.route.port.number;
    conn.id().inherit(held.conn().id());
    more.listener = Some(held);
    let way = primary.route.clone();
    let engine = Engine::from_req(conn.local_id(), message.tid, req, primary, alternate)
        .with_early_repeats(cm.early_repeats);
    // From here on nothing fails.
    claimed.keep();
    slot.publish(conn.clone());
    Ok(Some(Waiting {
        entered: conn.begin(engine, way, req.transport),
        event: Event::Received(Kind::Req),
        more: Some(more),
    }))
}

/// Handles a SIDR_REQ. May sleep.
#[inline(never)]
fn sidr_request<'a>(
    port: &Arc<Port>,
    mad: &Received<'_>,
    message: &Message<'_>,
    place: &'a mut Option<Arc<Conn>>,
) -> Result<Option<Waiting<'a>>> {
    let Body::SidrReq(req) = &message.body else {
        return Err(EINVAL);
    };
    let cm = &port.cm;
    let device = device(port)?;
    let source = source(mad);
    let key = SidrKey {
        gid: source.gid,
        slid: source.slid,
        id: req.request_id,
    };
    let way = Way {
        port: port.clone(),
        route: Route::back(mad, &device)?,
        data_lid: 0,
    };
    let way = Arc::new(way, GFP_KERNEL)?;
    let slot = cm.number()?;
    let conn = &*place.insert(Conn::unowned(cm, slot.id(), &device)?);
    if let Err(holder) = cm.sidr.add(&key, conn) {
        if !Arc::ptr_eq(&holder, conn) {
            port.counters.add(Group::Duplicates, Kind::SidrReq, 1);
        }
        return Ok(None);
    }
    let claimed = Claimed {
        conn,
        keys: None,
        sidr: Some(key),
    };
    let Some(held) = listener(port, &device, req.service_id.0) else {
        if let Some(answer) = Answer::sidr_unsupported(message) {
            way::answer(port, mad, &answer.message(&[]), Count::Message);
        }
        return Ok(None);
    };
    let mut more = KBox::new(
        More {
            port: port.number,
            listener: None,
            bth_pkey: bth_pkey(&device, port, mad),
            paths: [None, None],
        },
        GFP_KERNEL,
    )?;
    conn.id().inherit(held.conn().id());
    more.listener = Some(held);
    let engine = Engine::from_sidr_req(conn.local_id(), message.tid, req, key, way.clone());
    // From here on nothing fails.
    claimed.keep();
    slot.publish(conn.clone());
    Ok(Some(Waiting {
        entered: conn.begin(engine, way, Transport::Rc),
        event: Event::Received(Kind::SidrReq),
        more: Some(more),
    }))
}

/// Makes the paths of a LAP. May sleep.
///
/// # Errors
///
/// `EINVAL` if there is no connection, or the path cannot be used.
#[inline(never)]
fn lap_paths(
    port: &Arc<Port>,
    mad: &Received<'_>,
    message: &Message<'_>,
    conn: &Arc<Conn>,
) -> Result<(LapPaths<Ref>, KBox<More>)> {
    let Body::Lap(lap) = &message.body else {
        return Err(EINVAL);
    };
    let device = device(port)?;
    // There are none on RoCE.
    if conn.look(|state| state.way.as_ref().is_none_or(|way| way.route.is_roce())) {
        return Err(EINVAL);
    }
    let back = Route::back(mad, &device)?;
    let terms = conn
        .look(|state| state.engine.pkey_and_mtu())
        .ok_or(EINVAL)?;
    let record = paths::from_lap(lap, terms, path::is_opa(&device, port.number));
    let mut record = path::to_c(&record, None);
    let alternate = along(port, &device, &mut record, None, 0)?;
    let reply = Way {
        port: port.clone(),
        route: back,
        data_lid: 0,
    };
    let reply = Arc::new(reply, GFP_KERNEL)?;
    let more = More {
        listener: None,
        port: port.number,
        bth_pkey: 0,
        paths: [Some(record), None],
    };
    Ok((LapPaths { reply, alternate }, KBox::new(more, GFP_KERNEL)?))
}
