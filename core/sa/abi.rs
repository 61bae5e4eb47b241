// SPDX-License-Identifier: GPL-2.0

//! What other modules call (`include/rdma/ib_sa.h`).

use core::ptr::NonNull;
use core::slice;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;

use super::convert::path_from_c;
use super::convert::path_to_c;
use super::convert::service_from_c;
use super::convert::service_to_c;
use super::convert::Form;
use super::path;
use super::user::User;
use crate::device::Device;
use crate::errno::eaddrnotavail;
use crate::proto::sa::path::Path;
use crate::proto::sa::record::Service;
use crate::proto::sa::wire::Record;

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

type PathDone = Option<
    unsafe extern "C" fn(
        status: c_int,
        rec: *mut bindings::sa_path_rec,
        num_paths: c_uint,
        context: *mut c_void,
    ),
>;
type ServiceDone = Option<
    unsafe extern "C" fn(
        status: c_int,
        rec: *mut bindings::sa_service_rec,
        num_services: c_uint,
        context: *mut c_void,
    ),
>;
type GuidInfoDone = Option<
    unsafe extern "C" fn(
        status: c_int,
        rec: *mut bindings::ib_sa_guidinfo_rec,
        context: *mut c_void,
    ),
>;
type JoinDone =
    Option<unsafe extern "C" fn(status: c_int, multicast: *mut bindings::ib_sa_multicast) -> c_int>;

/// No query is under way: no device has an administrator yet.
///
/// # Safety
///
/// None; C calls it.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_cancel_query(_id: c_int, _query: *mut bindings::ib_sa_query) {
}

/// `ENODEV`.
///
/// # Safety
///
/// None; C calls it.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_path_rec_get(
    _client: *mut bindings::ib_sa_client,
    _device: *mut bindings::ib_device,
    _port_num: u32,
    _rec: *mut bindings::sa_path_rec,
    _comp_mask: u64,
    _timeout_ms: c_ulong,
    _gfp_mask: bindings::gfp_t,
    _callback: PathDone,
    _context: *mut c_void,
    _query: *mut *mut bindings::ib_sa_query,
) -> c_int {
    ENODEV.to_errno()
}

/// `ENODEV`.
///
/// # Safety
///
/// None; C calls it.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_service_rec_get(
    _client: *mut bindings::ib_sa_client,
    _device: *mut bindings::ib_device,
    _port_num: u32,
    _rec: *mut bindings::sa_service_rec,
    _comp_mask: u64,
    _timeout_ms: c_ulong,
    _gfp_mask: bindings::gfp_t,
    _callback: ServiceDone,
    _context: *mut c_void,
    _query: *mut *mut bindings::ib_sa_query,
) -> c_int {
    ENODEV.to_errno()
}

/// `ENODEV`.
///
/// # Safety
///
/// None; C calls it.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_guid_info_rec_query(
    _client: *mut bindings::ib_sa_client,
    _device: *mut bindings::ib_device,
    _port_num: u32,
    _rec: *mut bindings::ib_sa_guidinfo_rec,
    _comp_mask: u64,
    _method: u8,
    _timeout_ms: c_ulong,
    _gfp_mask: bindings::gfp_t,
    _callback: GuidInfoDone,
    _context: *mut c_void,
    _query: *mut *mut bindings::ib_sa_query,
) -> c_int {
    ENODEV.to_errno()
}

/// `ENODEV`.
///
/// # Safety
///
/// None; C calls it.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_join_multicast(
    _client: *mut bindings::ib_sa_client,
    _device: *mut bindings::ib_device,
    _port_num: u32,
    _rec: *mut bindings::ib_sa_mcmember_rec,
    _comp_mask: u64,
    _gfp_mask: bindings::gfp_t,
    _callback: JoinDone,
    _context: *mut c_void,
) -> *mut bindings::ib_sa_multicast {
    ENODEV.to_ptr()
}

/// Nobody is a member.
///
/// # Safety
///
/// None; C calls it.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_free_multicast(_multicast: *mut bindings::ib_sa_multicast) {}

/// `EADDRNOTAVAIL`.
///
/// # Safety
///
/// None; C calls it.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_sa_get_mcmember_rec(
    _device: *mut bindings::ib_device,
    _port_num: u32,
    _mgid: *mut bindings::ib_gid,
    _rec: *mut bindings::ib_sa_mcmember_rec,
) -> c_int {
    eaddrnotavail().to_errno()
}
