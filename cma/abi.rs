// SPDX-License-Identifier: GPL-2.0

//! Exported functions (`include/rdma/rdma_cm.h`, `include/rdma/rdma_cm_ib.h`).

use crate::bind;
use crate::connect;
use crate::deliver;
use crate::edge::args::ConnAt;
use crate::edge::args::DataAt;
use crate::edge::args::DataLen;
use crate::edge::args::EceAt;
use crate::edge::args::NetAt;
use crate::edge::args::ServiceAt;
use crate::edge::args::SockAt;
use crate::edge::args::SockIn;
use crate::edge::core::ibcm_text;
use crate::edge::core::iwcm_text;
use crate::edge::core::GidOut;
use crate::edge::core::LenOut;
use crate::edge::core::PathAt;
use crate::edge::core::RejectedAt;
use crate::edge::errno;
use crate::edge::id::Given;
use crate::edge::id::Handler;
use crate::edge::id::Id;
use crate::edge::id::Kind;
use crate::edge::id::Locked;
use crate::edge::id::Make;
use crate::edge::iw;
use crate::edge::qp;
use crate::edge::qp::AttrAt;
use crate::edge::qp::MakeAt;
use crate::edge::qp::MaskAt;
use crate::edge::transport::Used;
use crate::listen;
use crate::mcast;
use crate::proto::event;
use crate::proto::service;
use crate::route;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::verbs::Pd;
use rdma::edge::Passed;
use rdma::net::CountedNet;

fn create_kernel(
    net: NetAt,
    handler: Handler,
    context: Passed<c_void>,
    port_space: u32,
    qp_type: u32,
    caller: Option<&'static CStr>,
) -> Result<Given> {
    let made_by = (Kind::Plain, caller);
    Make::create(handler, context, net.0, port_space, qp_type, made_by)
}

fn create_user(
    handler: Handler,
    context: Passed<c_void>,
    port_space: u32,
    qp_type: u32,
) -> Result<Given> {
    let net = CountedNet::current().ok_or(EINVAL)?;
    let made_by = (Kind::Program, None);
    Make::create(handler, context, net, port_space, qp_type, made_by)
}

fn destroy(id: &Id) {
    deliver::destroy(&id.counted());
}

fn restrict(id: &Id, node_type: u8) -> Result {
    id.with(|inner| inner.options.restrict(inner.life.state(), node_type))
        .map_err(errno)
}

fn bind_addr(id: &Id, addr: SockAt) -> Result {
    bind::bind(&id.counted(), addr.0.ok_or(EINVAL)?.addr)
}

fn resolve_addr(id: &Id, source: SockAt, destination: SockIn, timeout_ms: usize) -> Result {
    bind::resolve(&id.counted(), source.0, destination.0, timeout_ms)
}

fn resolve_route(id: &Id, timeout_ms: usize) -> Result {
    route::resolve(&id.counted(), timeout_ms)
}

fn resolve_service(id: &Id, service: ServiceAt) -> Result {
    route::resolve_service(&id.counted(), &service.0)
}

fn set_ib_path(id: &Id, path: PathAt) -> Result {
    route::set(id, path.0)
}

fn create_qp(id: &Id, pd: &Pd, make: MakeAt<'_>) -> Result {
    qp::create(id, pd, make)
}

fn init_qp_attr(id: &Id, attr: AttrAt<'_>, mask: MaskAt<'_>) -> Result {
    qp::init_attr(id, attr, mask)
}

fn connect(id: &Id, conn: ConnAt<'_>) -> Result {
    let id = id.counted();
    let _guard = id.lock();
    connect::connect(&id, &conn.0.ok_or(EINVAL)?)
}

fn connect_locked(id: Locked<'_>, conn: ConnAt<'_>) -> Result {
    connect::connect(&id.id().counted(), &conn.0.ok_or(EINVAL)?)
}

fn connect_ece(id: &Id, conn: ConnAt<'_>, ece: EceAt) -> Result {
    id.with(|inner| inner.ece = ece.0);
    connect(id, conn)
}

fn listen(id: &Id, backlog: c_int) -> Result {
    listen::listen(&id.counted(), backlog)
}

fn accept(id: Locked<'_>, conn: ConnAt<'_>) -> Result {
    connect::accept(id.id(), conn.0.as_ref())
}

fn accept_ece(id: Locked<'_>, conn: ConnAt<'_>, ece: EceAt) -> Result {
    id.id().with(|inner| inner.ece = ece.0);
    accept(id, conn)
}

fn lock(id: &Id) {
    id.lock_for_consumer();
}

fn unlock(id: Locked<'_>) {
    id.unlock();
}

fn notify(id: &Id, event: u32) -> Result {
    connect::notify(id, event)
}

fn reject(id: &Id, data: DataAt<'_>, len: DataLen, reason: u8) -> Result {
    connect::reject(id, data.with(len), reason)
}

fn disconnect(id: &Id) -> Result {
    connect::disconnect(id)
}

fn join(id: &Id, addr: SockAt, join_state: u8, context: Passed<c_void>) -> Result {
    let addr = addr.0.ok_or(EINVAL)?.addr;
    mcast::join(&id.counted(), addr, join_state, context)
}

fn leave(id: &Id, addr: SockAt) {
    mcast::leave(id, addr.0.and_then(|addr| addr.addr));
}

fn set_service_type(id: &Id, tos: c_int) {
    // CAST: A byte counts, as in the C module.
    let tos = tos as u8;
    id.with(|inner| inner.options.tos = Some(tos));
    id.mirror_tos(tos);
}

fn set_reuseaddr(id: &Id, reuse: c_int) -> Result {
    id.with(|inner| inner.options.set_reuse(inner.life.state(), reuse))
        .map_err(errno)
}

fn set_afonly(id: &Id, afonly: c_int) -> Result {
    id.with(|inner| {
        inner.options.set_afonly(inner.life.state(), afonly)?;
        inner.afonly = inner.options.afonly == Some(true);
        Ok(())
    })
    .map_err(errno)
}

fn set_ack_timeout(id: &Id, timeout: u8) -> Result {
    let qp_type = id.qp_type();
    id.with(|inner| inner.options.set_ack_timeout(qp_type, timeout))
        .map_err(errno)
}

fn set_min_rnr_timer(id: &Id, timer: u8) -> Result {
    let qp_type = id.qp_type();
    id.with(|inner| inner.options.set_min_rnr_timer(qp_type, timer))
        .map_err(errno)
}

fn service_id(id: &Id, addr: SockAt) -> u64 {
    let space = id.words().port_space();
    addr.0
        .and_then(|addr| addr.addr)
        // CAST: Widens.
        .map_or(u64::from(space) << 16, |addr| service::id(space, &addr))
        .to_be()
}

fn event_text(event: u32) -> *const c_char {
    event::text(event).as_char_ptr()
}

fn reject_text(id: &Id, reason: c_int) -> *const c_char {
    let caps = id.port().map(|(caps, _)| caps);
    match caps {
        Some(caps) if caps.ib() || caps.roce() => ibcm_text(reason),
        Some(caps) if caps.iwarp() => iwcm_text(reason),
        Some(_) | None => c"unrecognized transport".as_char_ptr(),
    }
}

fn consumer_data(id: &Id, event: RejectedAt<'_>, mut len: LenOut<'_>) -> *const c_void {
    let caps = id.port().map(|(caps, _)| caps);
    let reason = match caps {
        Some(caps) if caps.ib() || caps.roce() => 28,
        // ECONNREFUSED
        _ => -111,
    };
    let (data, size) = if event.status() == reason {
        event.data()
    } else {
        (core::ptr::null(), 0)
    };
    len.set(size);
    data
}

fn read_gids(id: &Id, sgid: GidOut<'_>, dgid: GidOut<'_>) {
    let Some((caps, _)) = id.port() else {
        sgid.set([0; 16]);
        dgid.set([0; 16]);
        return;
    };
    if caps.roce() {
        let (source, destination) = id.addrs();
        sgid.set(source.gid().unwrap_or_default());
        dgid.set(destination.gid().unwrap_or_default());
        return;
    }
    let link = id.link();
    sgid.set(link.sgid());
    dgid.set(link.dgid());
}

fn iw_cm_id(id: &Id) -> *mut bindings::iw_cm_id {
    match id.transport() {
        Some(Used::Iw(iw)) => iw.as_raw(),
        Some(Used::Ib(_)) | None => iw::none(),
    }
}

rdma::export! { in rdma::bindings;
    /// Creates an ID for a module. May sleep.
    fn __rdma_create_kernel_id(
        net: NetAt, handler: Handler, context: Passed<c_void>, port_space: u32, qp_type: u32,
        caller: Option<&'static CStr>,
    ) -> Result<Given> = create_kernel;
    /// Creates an ID for a program, in its namespace. May sleep.
    fn rdma_create_user_id(
        handler: Handler, context: Passed<c_void>, port_space: u32, qp_type: u32,
    ) -> Result<Given> = create_user;
    /// Destroys an ID. May sleep; not from its callback.
    fn rdma_destroy_id(id: &Id) = destroy;
    /// Restricts the devices that an ID may be bound to.
    fn rdma_restrict_node_type(id: &Id, node_type: u8) -> Result = restrict;
    /// Binds an ID to a local address. May sleep.
    fn rdma_bind_addr(id: &Id, addr: SockAt) -> Result = bind_addr;
    /// Resolves the address of a destination. May sleep.
    fn rdma_resolve_addr(
        id: &Id, source: SockAt, destination: SockIn, timeout_ms: usize,
    ) -> Result = resolve_addr;
    /// Resolves the path to a destination. May sleep.
    fn rdma_resolve_route(id: &Id, timeout_ms: usize) -> Result = resolve_route;
    /// Resolves the service records of a service. May sleep.
    fn rdma_resolve_ib_service(
        id: &Id, service: ServiceAt,
    ) -> Result = resolve_service;
    /// Creates the queue pair of an ID. May sleep.
    fn rdma_create_qp(id: &Id, pd: &Pd, make: MakeAt<'_>) -> Result = create_qp;
    /// Destroys the queue pair of an ID. May sleep.
    fn rdma_destroy_qp(id: &Id) = qp::destroy;
    /// Returns the attributes that a queue pair needs for a state.
    fn rdma_init_qp_attr(id: &Id, attr: AttrAt<'_>, mask: MaskAt<'_>) -> Result = init_qp_attr;
    /// Connects. May sleep.
    fn rdma_connect(id: &Id, conn: ConnAt<'_>) -> Result = connect;
    /// Connects, from a callback. May sleep.
    fn rdma_connect_locked(id: Locked<'_>, conn: ConnAt<'_>) -> Result = connect_locked;
    /// Connects, with enhanced connection establishment. May sleep.
    fn rdma_connect_ece(id: &Id, conn: ConnAt<'_>, ece: EceAt) -> Result = connect_ece;
    /// Listens. May sleep.
    fn rdma_listen(id: &Id, backlog: c_int) -> Result = listen;
    /// Accepts a request or reply, under the lock of callbacks. May sleep.
    fn rdma_accept(id: Locked<'_>, conn: ConnAt<'_>) -> Result = accept;
    /// As [`rdma_accept`], with enhanced connection establishment. May sleep.
    fn rdma_accept_ece(id: Locked<'_>, conn: ConnAt<'_>, ece: EceAt) -> Result = accept_ece;
    /// Takes the lock of callbacks. May sleep.
    fn rdma_lock_handler(id: &Id) = lock;
    /// Releases the lock of callbacks.
    fn rdma_unlock_handler(id: Locked<'_>) = unlock;
    /// Reports an event of the queue pair. Any context.
    fn rdma_notify(id: &Id, event: u32) -> Result = notify;
    /// Refuses a request or reply. May sleep.
    fn rdma_reject(id: &Id, data: DataAt<'_>, len: DataLen, reason: u8) -> Result = reject;
    /// Disconnects. May sleep.
    fn rdma_disconnect(id: &Id) -> Result = disconnect;
    /// Joins a multicast group. May sleep.
    fn rdma_join_multicast(
        id: &Id, addr: SockAt, join_state: u8, context: Passed<c_void>,
    ) -> Result = join;
    /// Leaves a multicast group. May sleep.
    fn rdma_leave_multicast(id: &Id, addr: SockAt) = leave;
    /// Sets the type of service.
    fn rdma_set_service_type(id: &Id, tos: c_int) = set_service_type;
    /// Sets whether the port may be shared.
    fn rdma_set_reuseaddr(id: &Id, reuse: c_int) -> Result = set_reuseaddr;
    /// Sets whether a listener leaves the other address family alone.
    fn rdma_set_afonly(id: &Id, afonly: c_int) -> Result = set_afonly;
    /// Sets the timeout of acknowledgements.
    fn rdma_set_ack_timeout(id: &Id, timeout: u8) -> Result = set_ack_timeout;
    /// Sets the shortest time until a peer repeats itself.
    fn rdma_set_min_rnr_timer(id: &Id, timer: u8) -> Result = set_min_rnr_timer;
    /// Returns the service ID of an address. Any context.
    fn rdma_get_service_id(id: &Id, addr: SockAt) -> u64 = service_id;
    /// Returns the text of an event. Any context.
    fn rdma_event_msg(event: u32) -> *const c_char = event_text;
    /// Returns the text of a reason. Any context.
    fn rdma_reject_msg(id: &Id, reason: c_int) -> *const c_char = reject_text;
    /// Returns the private data of a consumer's refusal. Any context.
    fn rdma_consumer_reject_data(
        id: &Id, event: RejectedAt<'_>, len: LenOut<'_>,
    ) -> *const c_void = consumer_data;
    /// Returns the GIDs of both ends. Any context.
    fn rdma_read_gids(id: &Id, sgid: GidOut<'_>, dgid: GidOut<'_>) = read_gids;
    /// Returns the ID of `iw_cm`. Any context.
    fn rdma_iw_cm_id(id: &Id) -> *mut bindings::iw_cm_id = iw_cm_id;
    /// Takes a path that the consumer knows. May sleep.
    fn rdma_set_ib_path(id: &Id, path: PathAt) -> Result = set_ib_path;
}
