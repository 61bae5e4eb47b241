// SPDX-License-Identifier: GPL-2.0

//! What other modules call (`include/rdma/ib_sa.h`).

use core::ptr::NonNull;
use core::slice;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;

use super::answer::Callback;
use super::answer::GuidInfoDone;
use super::answer::Kind;
use super::answer::PathDone;
use super::answer::PathForm;
use super::answer::ServiceDone;
use super::convert::gid;
use super::convert::guids_from_c;
use super::convert::member_from_c;
use super::convert::member_to_c;
use super::convert::path_from_c;
use super::convert::path_to_c;
use super::convert::service_from_c;
use super::convert::service_to_c;
use super::convert::Form;
use super::group;
use super::group::JoinDone;
use super::group::Wish;
use super::path;
use super::port::Port;
use super::query;
use super::query::Query;
use super::query::Question;
use super::user::User;
use crate::device::Device;
use crate::proto::sa::datagram::Attribute;
use crate::proto::sa::datagram::Fabric;
use crate::proto::sa::datagram::Method;
use crate::proto::sa::path::Path;
use crate::proto::sa::record::Service;
use crate::proto::sa::wire::Record;
use crate::proto::sa::MULTICAST_LIDS;

rdma::exported!(
    ib_init_ah_attr_from_path,
    ib_init_ah_from_mcmember,
    ib_sa_cancel_query,
    ib_sa_free_multicast,
    ib_sa_get_mcmember_rec,
    ib_sa_guid_info_rec_query,
    ib_sa_join_multicast,
    ib_sa_pack_path,
    ib_sa_pack_service,
    ib_sa_path_rec_get,
    ib_sa_register_client,
    ib_sa_service_rec_get,
    ib_sa_unpack_path,
    ib_sa_unpack_service,
    ib_sa_unregister_client,
);

/// Begins the use of this part: queries and memberships are counted for the client. Any
/// context.
///
/// # Safety
///
/// `client` is valid, and not in use.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_register_client(client: *mut bindings::ib_sa_client) {
    // SAFETY: By this function's duty.
    unsafe { User::register(client) };
}

/// Waits until all queries and memberships of the client have ended. May sleep.
///
/// # Safety
///
/// The client is registered, begins nothing any more, and this is called once.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_unregister_client(client: *mut bindings::ib_sa_client) {
    // SAFETY: By this function's duty.
    unsafe { User::unregister(client) };
}

/// Packs a path in InfiniBand's form. Any context.
///
/// # Safety
///
/// The record is valid; there is room for 64 bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_pack_path(
    rec: *mut bindings::sa_path_rec,
    attribute: *mut c_void,
) {
    // SAFETY: By this function's duty.
    let (rec, to) = unsafe {
        (
            &*rec,
            slice::from_raw_parts_mut(attribute.cast(), Path::LEN),
        )
    };
    path_from_c(rec, Form::Ib).pack(to);
}

/// Unpacks a path in InfiniBand's form; type and flags stay. Any context.
///
/// # Safety
///
/// The record is valid; there are 64 bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_unpack_path(
    attribute: *mut c_void,
    rec: *mut bindings::sa_path_rec,
) {
    // SAFETY: By this function's duty.
    let (from, rec) = unsafe {
        (
            slice::from_raw_parts(attribute.cast(), Path::LEN),
            &mut *rec,
        )
    };
    path_to_c(&Path::unpack(from), rec);
}

/// Packs a service. Any context.
///
/// # Safety
///
/// The record is valid; there is room for 176 bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_pack_service(
    rec: *mut bindings::sa_service_rec,
    attribute: *mut c_void,
) {
    // SAFETY: By this function's duty.
    let (rec, to) = unsafe {
        (
            &*rec,
            slice::from_raw_parts_mut(attribute.cast(), Service::LEN),
        )
    };
    service_from_c(rec).pack(to);
}

/// Unpacks a service. Any context.
///
/// # Safety
///
/// The record is valid; there are 176 bytes.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_unpack_service(
    attribute: *mut c_void,
    rec: *mut bindings::sa_service_rec,
) {
    // SAFETY: By this function's duty.
    let (from, rec) = unsafe {
        (
            slice::from_raw_parts(attribute.cast(), Service::LEN),
            &mut *rec,
        )
    };
    service_to_c(&Service::unpack(from), rec);
}

/// The address vector of a path. If it succeeds, `rdma_destroy_ah_attr` gives up what the
/// vector may hold. Sleeps for paths of RoCE.
///
/// Errors: see [`path::init_from_path`].
///
/// # Safety
///
/// The device is registered; record and vector are valid; the GID's entry is held, or null.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_init_ah_attr_from_path(
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::sa_path_rec,
    ah_attr: *mut bindings::rdma_ah_attr,
    gid_attr: *const bindings::ib_gid_attr,
) -> c_int {
    let entry = NonNull::new(gid_attr.cast_mut());
    // SAFETY: By this function's duty.
    let (device, rec, attr) = unsafe { (Device::from_raw(device), &mut *rec, &mut *ah_attr) };
    from_result(|| path::init_from_path(device, port_num, rec, attr, entry).map(|()| 0))
}

/// The address vector of a multicast group. If it succeeds, `rdma_destroy_ah_attr` gives up
/// what the vector holds. Any context.
///
/// Errors: see [`path::init_from_member`].
///
/// # Safety
///
/// The device is registered; record and vector are valid; the network device is there, or null.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_init_ah_from_mcmember(
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::ib_sa_mcmember_rec,
    ndev: *mut bindings::net_device,
    gid_type: bindings::ib_gid_type,
    ah_attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By this function's duty.
    let (device, rec, attr) = unsafe { (Device::from_raw(device), &mut *rec, &mut *ah_attr) };
    from_result(|| path::init_from_member(device, port_num, rec, ndev, gid_type, attr).map(|()| 0))
}

/// Who asks, and where.
struct Asker {
    port: Arc<Port>,
    user: User,
}

impl Asker {
    /// # Errors
    ///
    /// `ENODEV` if the port has no administrator; `EINVAL` without a client.
    ///
    /// # Safety
    ///
    /// Device and client are registered, and stay until the query is complete.
    unsafe fn new(
        client: *mut bindings::ib_sa_client,
        device: *mut bindings::ib_device,
        port: u32,
    ) -> Result<Self> {
        let client = NonNull::new(client).ok_or(EINVAL)?;
        // SAFETY: By this function's duty.
        unsafe {
            Ok(Self {
                port: super::port(Device::from_raw(device), port)?,
                user: User::enter(client),
            })
        }
    }

    /// Asks. The user's handle is written before anybody may be told.
    ///
    /// # Safety
    ///
    /// `handle` may be written.
    unsafe fn ask<R: Record>(
        self,
        question: Question<R>,
        kind: Kind,
        gfp: bindings::gfp_t,
        handle: *mut *mut bindings::ib_sa_query,
    ) -> Result<c_int> {
        let query = Query::new(self.port, question, Some(self.user), kind, gfp)?;
        // SAFETY: By this function's duty.
        unsafe { *handle = query::handle(&query) };
        query.start(gfp).inspect_err(|_| {
            // SAFETY: By this function's duty.
            unsafe { *handle = query::NONE };
        })
    }
}

/// Cancels a query: if it is not complete, its user is told `EINTR` soon. Nothing happens if
/// number and handle do not belong together any more. Any context.
///
/// # Safety
///
/// None; the handle is only compared.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_cancel_query(id: c_int, query: *mut bindings::ib_sa_query) {
    query::cancel(id, query);
}

/// Milliseconds.
fn millis(millis: c_ulong) -> u64 {
    millis.try_into().unwrap_or(u64::MAX)
}

/// In what form a path is asked for.
///
/// # Errors
///
/// `EINVAL` if it cannot be.
fn path_form(port: &Port, rec: &bindings::sa_path_rec) -> Result<PathForm> {
    match path::Fabric::of(rec) {
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

/// Asks for a path: the local service, if there is one, or the administrator. The number of
/// the query, with which it is cancelled. The user is told by a worker: the path, or
/// `ETIMEDOUT`, `EINTR` if cancelled, `EINVAL` if there is none, `EIO`. Sleeps as `gfp_mask`
/// says, and for a path of Omni-Path.
///
/// Errors: `ENODEV` if the port has no administrator; `EINVAL` for another type of path;
/// `EAGAIN` while the administrator is not known; `ENOMEM`; those of datagrams.
///
/// # Safety
///
/// Client and device are registered and stay; the record is valid; the handle may be written.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_path_rec_get(
    client: *mut bindings::ib_sa_client,
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::sa_path_rec,
    comp_mask: u64,
    timeout_ms: c_ulong,
    gfp_mask: bindings::gfp_t,
    callback: PathDone,
    context: *mut c_void,
    sa_query: *mut *mut bindings::ib_sa_query,
) -> c_int {
    from_result(|| {
        // SAFETY: By this function's duty.
        let (asker, rec) = unsafe { (Asker::new(client, device, port_num)?, &*rec) };
        let form = path_form(&asker.port, rec)?;
        let asked = match form {
            PathForm::Ib => path_from_c(rec, Form::Ib),
            PathForm::Opa => path_from_c(rec, Form::Opa),
            PathForm::OpaByIb => path_from_c(rec, Form::Opa).to_ib(),
        };
        let mask = u64::from_be(comp_mask);
        let question = Question {
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
            user: Callback {
                done: callback,
                context,
            },
            form,
            asked,
            mask,
        };
        // SAFETY: By this function's duty.
        unsafe { asker.ask(question, kind, gfp_mask, sa_query) }
    })
}

/// Asks for services. Otherwise as [`ib_sa_path_rec_get`]; `ENODATA` is told if there are none.
///
/// # Safety
///
/// As of [`ib_sa_path_rec_get`].
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_service_rec_get(
    client: *mut bindings::ib_sa_client,
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::sa_service_rec,
    comp_mask: u64,
    timeout_ms: c_ulong,
    gfp_mask: bindings::gfp_t,
    callback: ServiceDone,
    context: *mut c_void,
    sa_query: *mut *mut bindings::ib_sa_query,
) -> c_int {
    from_result(|| {
        // SAFETY: By this function's duty.
        let (asker, rec) = unsafe { (Asker::new(client, device, port_num)?, &*rec) };
        let question = Question {
            fabric: Fabric::Ib,
            method: Method::GetTable,
            attribute: Attribute::Service,
            mask: u64::from_be(comp_mask),
            record: service_from_c(rec),
            timeout_ms: millis(timeout_ms),
        };
        let kind = Kind::Service(Callback {
            done: callback,
            context,
        });
        // SAFETY: By this function's duty.
        unsafe { asker.ask(question, kind, gfp_mask, sa_query) }
    })
}

/// Asks for GUIDs, sets or deletes them. Otherwise as [`ib_sa_path_rec_get`]; `EINVAL` for
/// another method.
///
/// # Safety
///
/// As of [`ib_sa_path_rec_get`].
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_guid_info_rec_query(
    client: *mut bindings::ib_sa_client,
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::ib_sa_guidinfo_rec,
    comp_mask: u64,
    method: u8,
    timeout_ms: c_ulong,
    gfp_mask: bindings::gfp_t,
    callback: GuidInfoDone,
    context: *mut c_void,
    sa_query: *mut *mut bindings::ib_sa_query,
) -> c_int {
    from_result(|| {
        // SAFETY: By this function's duty.
        let (asker, rec) = unsafe { (Asker::new(client, device, port_num)?, &*rec) };
        let question = Question {
            fabric: Fabric::Ib,
            method: Method::of_guids(method).ok_or(EINVAL)?,
            attribute: Attribute::GuidInfo,
            mask: u64::from_be(comp_mask),
            record: guids_from_c(rec),
            timeout_ms: millis(timeout_ms),
        };
        let kind = Kind::GuidInfo(Callback {
            done: callback,
            context,
        });
        // SAFETY: By this function's duty.
        unsafe { asker.ask(question, kind, gfp_mask, sa_query) }
    })
}

/// Asks to be a member of a multicast group. The owner is told by a worker: that he is one;
/// later `ENETRESET` if he is not any more; or why he is not. If he does not return zero, the
/// membership ends. Sleeps as `gfp_mask` says.
///
/// Errors: `ENODEV` if the port has no administrator; `ENOMEM`.
///
/// # Safety
///
/// Client and device are registered and stay until the membership ends; the record is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_join_multicast(
    client: *mut bindings::ib_sa_client,
    device: *mut bindings::ib_device,
    port_num: u32,
    rec: *mut bindings::ib_sa_mcmember_rec,
    comp_mask: u64,
    gfp_mask: bindings::gfp_t,
    callback: JoinDone,
    context: *mut c_void,
) -> *mut bindings::ib_sa_multicast {
    let join = || {
        let client = NonNull::new(client).ok_or(EINVAL)?;
        // SAFETY: By this function's duty.
        let (device, rec) = unsafe { (Device::from_raw(device), &*rec) };
        let port = super::group_port(device, port_num)?;
        // SAFETY: By this function's duty.
        let user = unsafe { User::enter(client) };
        let wish = Wish {
            asked: member_from_c(rec),
            mask: u64::from_be(comp_mask),
            done: callback,
            context,
        };
        group::Port::join(&port, wish, user, query::flags(gfp_mask))
    };
    join().unwrap_or_else(|error: Error| error.to_ptr())
}

/// Ends a membership, and waits for a call of its owner; not from there. May sleep.
///
/// # Safety
///
/// It came from [`ib_sa_join_multicast`], and has not ended.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_free_multicast(multicast: *mut bindings::ib_sa_multicast) {
    // SAFETY: By this function's duty.
    group::Member::free(unsafe { group::Member::take_over(multicast) });
}

/// What is known of a multicast group that somebody here has asked for. Any context.
///
/// Errors: `ENODEV`, `EADDRNOTAVAIL`.
///
/// # Safety
///
/// The device is registered; GID and record are valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_get_mcmember_rec(
    device: *mut bindings::ib_device,
    port_num: u32,
    mgid: *mut bindings::ib_gid,
    rec: *mut bindings::ib_sa_mcmember_rec,
) -> c_int {
    from_result(|| {
        // SAFETY: By this function's duty.
        let (device, mgid) = unsafe { (Device::from_raw(device), gid(&*mgid)) };
        let record = super::group_port(device, port_num)?.record(mgid)?;
        // SAFETY: By this function's duty.
        unsafe { rec.write(member_to_c(&record)) };
        Ok(0)
    })
}
