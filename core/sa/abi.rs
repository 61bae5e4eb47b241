// SPDX-License-Identifier: GPL-2.0

//! Exported functions (`include/rdma/ib_sa.h`).

use core::mem::take;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::edge::verbs::AhAttr;
use rdma::edge::verbs::GidAttr;
use rdma::edge::In;
use rdma::edge::Lent;
use rdma::edge::OutParam;
use rdma::edge::Passed;

use super::answer::Kind;
use super::answer::PathForm;
use super::convert::guids_from_c;
use super::convert::member_from_c;
use super::convert::member_to_c;
use super::convert::path_from_c;
use super::convert::path_to_c;
use super::convert::service_from_c;
use super::convert::service_to_c;
use super::convert::Form;
use super::edge::member::Freed;
use super::edge::member::JoinDone;
use super::edge::member::Joined;
use super::edge::user::Callback;
use super::edge::user::Client;
use super::edge::user::ContextArg;
use super::edge::user::DoneArg;
use super::edge::user::GuidInfoDone;
use super::edge::user::LeavingClient;
use super::edge::user::NewClient;
use super::edge::user::PathDone;
use super::edge::user::ServiceDone;
use super::edge::user::User;
use super::edge::LentRecord;
use super::edge::Packed;
use super::edge::QueryId;
use super::edge::Room;
use super::group;
use super::group::Wish;
use super::path;
use super::port::Port;
use super::query;
use super::query::Query;
use super::query::QueryAttr;
use crate::device::Device;
use crate::gid::edge::MutGid;
use crate::object::Out;
use crate::proto::sa::datagram::Attribute;
use crate::proto::sa::datagram::Fabric;
use crate::proto::sa::datagram::Method;
use crate::proto::sa::path::Path;
use crate::proto::sa::record::Service;
use crate::proto::sa::wire::Record;
use crate::proto::sa::MULTICAST_LIDS;

/// Registers a client, which counts its queries and memberships. Any context.
fn register_client(client: NewClient<'_>) {
    client.register();
}

/// Waits until all queries and memberships of the client have ended. May sleep.
fn unregister_client(client: LeavingClient<'_>) {
    client.unregister();
}

/// Packs a path record in InfiniBand format. Any context.
fn pack_path(rec: LentRecord<'_, bindings::sa_path_rec>, to: Room<'_, { Path::LEN }>) {
    path_from_c(rec.read(), Form::Ib).pack(to.0);
}

/// Unpacks a path record in InfiniBand format. Type and flags of `rec` are kept. Any context.
fn unpack_path(from: Packed<'_, { Path::LEN }>, Lent(rec): Lent<'_, bindings::sa_path_rec>) {
    *rec = path_to_c(&Path::unpack(from.0), take(rec));
}

/// Packs a service record. Any context.
fn pack_service(rec: LentRecord<'_, bindings::sa_service_rec>, to: Room<'_, { Service::LEN }>) {
    service_from_c(rec.read()).pack(to.0);
}

/// Unpacks a service record. Any context.
fn unpack_service(
    from: Packed<'_, { Service::LEN }>,
    Lent(rec): Lent<'_, bindings::sa_service_rec>,
) {
    *rec = service_to_c(&Service::unpack(from.0), take(rec));
}

/// Initialises the address vector of a path. On success, the caller must pass the vector to
/// `rdma_destroy_ah_attr`, since it may hold a GID reference. May sleep for RoCE paths; any context
/// otherwise.
///
/// # Errors
///
/// See [`path::init_from_path`].
fn init_from_path(
    device: &Device,
    port: u32,
    rec: Lent<'_, bindings::sa_path_rec>,
    attr: Out<'_, AhAttr>,
    entry: Option<In<'_, GidAttr>>,
) -> Result {
    path::init_from_path(device, port, rec, &attr, entry.map(|entry| entry.0))
}

/// Initialises the address vector of a multicast group. On success, the caller must pass the vector
/// to `rdma_destroy_ah_attr`, since it holds a GID reference. Any context.
///
/// # Errors
///
/// See [`path::init_from_member`].
fn init_from_member(
    device: &Device,
    port: u32,
    rec: LentRecord<'_, bindings::ib_sa_mcmember_rec>,
    ndev: Passed<bindings::net_device>,
    gid_type: bindings::ib_gid_type,
    attr: Out<'_, AhAttr>,
) -> Result {
    path::init_from_member(device, port, rec, ndev, gid_type, &attr)
}

/// The port and the client of a new query.
struct Asker {
    port: Arc<Port>,
    user: User,
}

impl Asker {
    /// # Errors
    ///
    /// `ENODEV` if the port has no SA; `EINVAL` without a client.
    fn new(client: Option<&Client>, device: &Device, port: u32) -> Result<Self> {
        let client = client.ok_or(EINVAL)?;
        Ok(Self {
            port: super::port(device, port)?,
            user: User::enter(client),
        })
    }

    /// Starts the query. Writes the caller's handle before the callback may run.
    fn ask<R: Record>(
        self,
        attr: QueryAttr<R>,
        kind: Kind,
        gfp: bindings::gfp_t,
        mut handle: Handle<'_>,
    ) -> Result<QueryId> {
        let query = Query::new(self.port, attr, Some(self.user), kind, gfp)?;
        handle.set(query::handle(&query));
        let id = query.start(gfp).inspect_err(|_| handle.set(query::NONE))?;
        Ok(QueryId(id))
    }
}

/// Output parameter for the handle of a query, written before the callback may run.
type Handle<'a> = OutParam<'a, *mut bindings::ib_sa_query>;

/// Cancels a query. If it is not complete, its callback is called with `EINTR`. Ignored if `id` and
/// `query` do not match an active query. Any context.
fn cancel_query(id: c_int, query: Passed<bindings::ib_sa_query>) {
    query::cancel(id, query.as_ptr());
}

/// Converts a timeout in milliseconds.
fn millis(millis: c_ulong) -> u64 {
    millis.try_into().unwrap_or(u64::MAX)
}

/// Record format of a path query.
///
/// # Errors
///
/// `EINVAL` for a path type that cannot be queried.
fn path_form(port: &Port, rec_type: bindings::sa_path_rec_type) -> Result<PathForm> {
    match path::Fabric::of(rec_type) {
        Some(path::Fabric::Ib) => Ok(PathForm::Ib),
        Some(path::Fabric::Opa) => {
            let lid = port
                .device()
                .query_port(port.number())
                .map_err(|_| EINVAL)?;
            if port.knows_opa_paths() {
                Ok(PathForm::Opa)
            } else if lid.lid < MULTICAST_LIDS {
                Ok(PathForm::OpaByIb)
            } else {
                Err(EINVAL)
            }
        }
        Some(path::Fabric::RoceV1 | path::Fabric::RoceV2) | None => Err(EINVAL),
    }
}

/// Queries a path from the local service, if one listens, or from the SA. Returns the id for
/// [`cancel_query`]. A worker calls the callback with the path or with an error: `ETIMEDOUT`,
/// `EINTR` if cancelled, `EINVAL` if there is no path, `EIO`. May sleep as `gfp_mask` permits, and
/// always for Omni-Path paths.
///
/// # Errors
///
/// `ENODEV` if the port has no SA; `EINVAL` for another path type; `EAGAIN` while the SA is not
/// known; `ENOMEM`; those of the MAD agent.
#[allow(clippy::too_many_arguments, reason = "as the C function has them")]
fn get_path(
    client: Option<&Client>,
    device: &Device,
    port: u32,
    rec: LentRecord<'_, bindings::sa_path_rec>,
    comp_mask: u64,
    timeout_ms: c_ulong,
    gfp_mask: bindings::gfp_t,
    callback: DoneArg<'_, PathDone>,
    context: ContextArg<'_>,
    handle: Handle<'_>,
) -> Result<QueryId> {
    let asker = Asker::new(client, device, port)?;
    let rec = rec.read();
    let form = path_form(&asker.port, rec.rec_type)?;
    let asked = match form {
        PathForm::Ib => path_from_c(rec, Form::Ib),
        PathForm::Opa => path_from_c(rec, Form::Opa),
        PathForm::OpaByIb => path_from_c(rec, Form::Opa).to_ib(),
    };
    let mask = u64::from_be(comp_mask);
    let attr = QueryAttr {
        fabric: match form {
            PathForm::Ib | PathForm::OpaByIb => Fabric::Ib,
            PathForm::Opa => Fabric::Opa,
        },
        method: Method::Get,
        attribute: Attribute::Path,
        mask,
        record: asked,
        timeout_ms: millis(timeout_ms),
    };
    let kind = Kind::Path {
        user: Callback::new(callback, context),
        form,
        asked,
        mask,
    };
    asker.ask(attr, kind, gfp_mask, handle)
}

/// Queries services. Like [`get_path`]; the callback gets `ENODATA` if there are none.
#[allow(clippy::too_many_arguments, reason = "as the C function has them")]
fn get_service(
    client: Option<&Client>,
    device: &Device,
    port: u32,
    rec: LentRecord<'_, bindings::sa_service_rec>,
    comp_mask: u64,
    timeout_ms: c_ulong,
    gfp_mask: bindings::gfp_t,
    callback: DoneArg<'_, ServiceDone>,
    context: ContextArg<'_>,
    handle: Handle<'_>,
) -> Result<QueryId> {
    let asker = Asker::new(client, device, port)?;
    let attr = QueryAttr {
        fabric: Fabric::Ib,
        method: Method::GetTable,
        attribute: Attribute::Service,
        mask: u64::from_be(comp_mask),
        record: service_from_c(rec.read()),
        timeout_ms: millis(timeout_ms),
    };
    let kind = Kind::Service(Callback::new(callback, context));
    asker.ask(attr, kind, gfp_mask, handle)
}

/// Gets, sets or deletes GUIDs. Like [`get_path`]; `EINVAL` for another method.
#[allow(clippy::too_many_arguments, reason = "as the C function has them")]
fn query_guids(
    client: Option<&Client>,
    device: &Device,
    port: u32,
    rec: LentRecord<'_, bindings::ib_sa_guidinfo_rec>,
    comp_mask: u64,
    method: u8,
    timeout_ms: c_ulong,
    gfp_mask: bindings::gfp_t,
    callback: DoneArg<'_, GuidInfoDone>,
    context: ContextArg<'_>,
    handle: Handle<'_>,
) -> Result<QueryId> {
    let asker = Asker::new(client, device, port)?;
    let attr = QueryAttr {
        fabric: Fabric::Ib,
        method: Method::of_guids(method).ok_or(EINVAL)?,
        attribute: Attribute::GuidInfo,
        mask: u64::from_be(comp_mask),
        record: guids_from_c(rec.read()),
        timeout_ms: millis(timeout_ms),
    };
    let kind = Kind::GuidInfo(Callback::new(callback, context));
    asker.ask(attr, kind, gfp_mask, handle)
}

/// Joins a multicast group. A worker calls the callback with status 0 or the error of the join, and
/// later with `ENETRESET` if the membership is lost. If the callback returns a value other than
/// zero, the membership ends. May sleep as `gfp_mask` permits.
///
/// # Errors
///
/// `ENODEV` if the port has no SA; `EINVAL` without a client; `ENOMEM`.
#[allow(clippy::too_many_arguments, reason = "as the C function has them")]
fn join(
    client: Option<&Client>,
    device: &Device,
    port: u32,
    rec: LentRecord<'_, bindings::ib_sa_mcmember_rec>,
    comp_mask: u64,
    gfp_mask: bindings::gfp_t,
    callback: DoneArg<'_, JoinDone>,
    context: ContextArg<'_>,
) -> Result<Joined> {
    let client = client.ok_or(EINVAL)?;
    let port = super::group_port(device, port)?;
    let user = User::enter(client);
    let wish = Wish {
        asked: member_from_c(rec.read()),
        mask: u64::from_be(comp_mask),
        done: Callback::new(callback, context),
    };
    group::Port::join(&port, wish, user, query::flags(gfp_mask))
}

/// Ends a membership and waits for a running callback. Must not be called from the callback. May
/// sleep.
fn free_multicast(member: Freed) {
    group::Member::free(member.0);
}

/// Copies the record of a multicast group that has members on this host. Any context.
///
/// # Errors
///
/// `ENODEV` if the port has no SA; `EADDRNOTAVAIL` if there is no such group.
fn member_record(
    device: &Device,
    port: u32,
    MutGid(mgid): MutGid,
    mut rec: OutParam<'_, bindings::ib_sa_mcmember_rec>,
) -> Result {
    let record = super::group_port(device, port)?.record(mgid)?;
    rec.set(member_to_c(&record));
    Ok(())
}

rdma::export! {
    in rdma::bindings;

    /// See [`register_client`].
    fn ib_sa_register_client(client: NewClient<'_>) = register_client;
    /// See [`unregister_client`].
    fn ib_sa_unregister_client(client: LeavingClient<'_>) = unregister_client;
    /// See [`pack_path`].
    fn ib_sa_pack_path(
        rec: LentRecord<'_, bindings::sa_path_rec>, to: Room<'_, { Path::LEN }>,
    ) = pack_path;
    /// See [`unpack_path`].
    fn ib_sa_unpack_path(
        from: Packed<'_, { Path::LEN }>, rec: Lent<'_, bindings::sa_path_rec>,
    ) = unpack_path;
    /// See [`pack_service`].
    fn ib_sa_pack_service(
        rec: LentRecord<'_, bindings::sa_service_rec>, to: Room<'_, { Service::LEN }>,
    ) = pack_service;
    /// See [`unpack_service`].
    fn ib_sa_unpack_service(
        from: Packed<'_, { Service::LEN }>, rec: Lent<'_, bindings::sa_service_rec>,
    ) = unpack_service;
    /// See [`init_from_path`].
    fn ib_init_ah_attr_from_path(
        device: &Device, port: u32, rec: Lent<'_, bindings::sa_path_rec>,
        attr: Out<'_, AhAttr>, entry: Option<In<'_, GidAttr>>,
    ) -> Result = init_from_path;
    /// See [`init_from_member`].
    fn ib_init_ah_from_mcmember(
        device: &Device, port: u32, rec: LentRecord<'_, bindings::ib_sa_mcmember_rec>,
        ndev: Passed<bindings::net_device>, gid_type: bindings::ib_gid_type,
        attr: Out<'_, AhAttr>,
    ) -> Result = init_from_member;
    /// See [`cancel_query`].
    fn ib_sa_cancel_query(id: c_int, query: Passed<bindings::ib_sa_query>) = cancel_query;
    /// See [`get_path`].
    fn ib_sa_path_rec_get(
        client: Option<&Client>, device: &Device, port: u32,
        rec: LentRecord<'_, bindings::sa_path_rec>, comp_mask: u64, timeout_ms: c_ulong,
        gfp_mask: bindings::gfp_t, callback: DoneArg<'_, PathDone>, context: ContextArg<'_>,
        handle: Handle<'_>,
    ) -> Result<QueryId> = get_path;
    /// See [`get_service`].
    fn ib_sa_service_rec_get(
        client: Option<&Client>, device: &Device, port: u32,
        rec: LentRecord<'_, bindings::sa_service_rec>, comp_mask: u64, timeout_ms: c_ulong,
        gfp_mask: bindings::gfp_t, callback: DoneArg<'_, ServiceDone>, context: ContextArg<'_>,
        handle: Handle<'_>,
    ) -> Result<QueryId> = get_service;
    /// See [`query_guids`].
    fn ib_sa_guid_info_rec_query(
        client: Option<&Client>, device: &Device, port: u32,
        rec: LentRecord<'_, bindings::ib_sa_guidinfo_rec>, comp_mask: u64, method: u8,
        timeout_ms: c_ulong, gfp_mask: bindings::gfp_t, callback: DoneArg<'_, GuidInfoDone>,
        context: ContextArg<'_>, handle: Handle<'_>,
    ) -> Result<QueryId> = query_guids;
    /// See [`join`].
    fn ib_sa_join_multicast(
        client: Option<&Client>, device: &Device, port: u32,
        rec: LentRecord<'_, bindings::ib_sa_mcmember_rec>, comp_mask: u64,
        gfp_mask: bindings::gfp_t, callback: DoneArg<'_, JoinDone>, context: ContextArg<'_>,
    ) -> Result<Joined> = join;
    /// See [`free_multicast`].
    fn ib_sa_free_multicast(member: Freed) = free_multicast;
    /// See [`member_record`].
    fn ib_sa_get_mcmember_rec(
        device: &Device, port: u32, mgid: MutGid,
        rec: OutParam<'_, bindings::ib_sa_mcmember_rec>,
    ) -> Result = member_record;
}
