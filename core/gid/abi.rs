// SPDX-License-Identifier: GPL-2.0

//! Exported functions of GIDs.
//!
//! None of those that read sleeps. `EINVAL` and `ENOENT` are told apart as the C core has
//! always done it, function by function.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::rcu;

use super::entry::ndev_id;
use super::entry::Entry;
use super::entry::Held;
use super::port::Kind;
use super::port::Port;
use crate::device::Device;
use crate::private::exported_private;
use crate::proto::gid::Gid;
use crate::proto::gid::GidType;
use crate::proto::gid_table::Ndev;
use crate::proto::gid_table::Refusal;
use rdma::bindings;
use rdma::bindings::ib_device;
use rdma::bindings::ib_gid;
use rdma::bindings::ib_gid_attr;
use rdma::bindings::ib_gid_type;
use rdma::bindings::net_device;
use rdma::net::NetDevice;

/// The GID that no port has.
#[no_mangle]
#[allow(non_upper_case_globals)]
pub static zgid: ib_gid = ib_gid {
    raw: ManuallyDrop::new([0; 16]),
};

/// # Safety
///
/// For `'a`, `device` is a device that fulfils the invariant of [`Device`].
unsafe fn port_of<'a>(device: *mut ib_device, port: u32) -> Option<&'a Port> {
    // SAFETY: By this function's duty.
    unsafe { Device::from_raw(device) }
        .slot::<super::Tables>()
        .port(port)
}

/// # Safety
///
/// `gid` is a GID.
unsafe fn read_gid(gid: *const ib_gid) -> Gid {
    // SAFETY: By this function's duty; it may be part of a packet.
    Gid(unsafe { gid.cast::<[u8; 16]>().read_unaligned() })
}

/// # Safety
///
/// `to` is writable for a GID.
unsafe fn write_gid(to: *mut ib_gid, gid: Gid) {
    // SAFETY: By this function's duty.
    unsafe { to.cast::<[u8; 16]>().write_unaligned(gid.0) };
}

fn gid_type(raw: ib_gid_type) -> Option<GidType> {
    match raw {
        bindings::ib_gid_type_IB_GID_TYPE_IB => Some(GidType::Ib),
        bindings::ib_gid_type_IB_GID_TYPE_ROCE => Some(GidType::RoceV1),
        bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP => Some(GidType::RoceV2),
        _ => None,
    }
}

fn wanted_ndev(ndev: *const net_device) -> Option<Ndev> {
    (!ndev.is_null()).then(|| ndev_id(ndev))
}

fn to_c(found: Result<Held>) -> *const ib_gid_attr {
    match found {
        Ok(held) => held.into_raw(),
        Err(error) => error.to_ptr(),
    }
}

/// The GID of an index. `EINVAL` if there is no such port or index, `ENOENT` if it is empty.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_query_gid(
    device: *mut ib_device,
    port_num: u32,
    index: c_int,
    gid: *mut ib_gid,
) -> c_int {
    // SAFETY: By this function's duty.
    let port = unsafe { port_of(device, port_num) };
    let (Some(port), Ok(index)) = (port, usize::try_from(index)) else {
        return EINVAL.to_errno();
    };
    match port.read(|table| table.get(index).map(|entry| entry.gid)) {
        Ok(found) => {
            // SAFETY: By this function's duty.
            unsafe { write_gid(gid, found) };
            0
        }
        Err(Refusal::Empty) => ENOENT.to_errno(),
        Err(_) => EINVAL.to_errno(),
    }
}

/// The entry of an index, held. `EINVAL` as above, `ENODATA` if it is empty.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_get_gid_attr(
    device: *mut ib_device,
    port_num: u32,
    index: c_int,
) -> *const ib_gid_attr {
    // SAFETY: By this function's duty.
    let port = unsafe { port_of(device, port_num) };
    let (Some(port), Ok(index)) = (port, usize::try_from(index)) else {
        return EINVAL.to_ptr();
    };
    match port.get(index) {
        Ok(held) => held.into_raw(),
        // Most of a table is empty, and programs ask for all of it.
        // CAST: an error's pointer is its number.
        Err(refusal) => core::ptr::without_provenance(refusal.errno().to_ret() as isize as usize),
    }
}

/// One more hold of an entry that is held.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_hold_gid_attr(attr: *const ib_gid_attr) {
    // SAFETY: The caller holds the entry.
    unsafe { Entry::from_attr(attr) }.hold();
}

/// Gives back a hold.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_put_gid_attr(attr: *const ib_gid_attr) {
    // SAFETY: The caller gives back a hold that it has.
    unsafe { Entry::put(NonNull::from(Entry::from_attr(attr))) };
}

/// The first entry with this GID and type on any port, held. `ENOENT`.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_find_gid(
    device: *mut ib_device,
    gid: *const ib_gid,
    gid_type_: ib_gid_type,
    ndev: *mut net_device,
) -> *const ib_gid_attr {
    // SAFETY: By this function's duty.
    let (device, gid) = unsafe { (Device::from_raw(device), read_gid(gid)) };
    let found = gid_type(gid_type_).and_then(|gid_type| {
        let mut ports = device.slot::<super::Tables>().ports();
        ports.find_map(|port| port.find(&gid, gid_type, wanted_ndev(ndev)).ok())
    });
    to_c(found.ok_or(ENOENT))
}

/// The first entry with this GID and type on a port, held. `ENOENT`.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_find_gid_by_port(
    device: *mut ib_device,
    gid: *const ib_gid,
    gid_type_: ib_gid_type,
    port: u32,
    ndev: *mut net_device,
) -> *const ib_gid_attr {
    // SAFETY: By this function's duty.
    let (port, gid) = unsafe { (port_of(device, port), read_gid(gid)) };
    to_c(match (port, gid_type(gid_type_)) {
        (Some(port), Some(gid_type)) => port
            .find(&gid, gid_type, wanted_ndev(ndev))
            .map_err(|_| ENOENT),
        _ => Err(ENOENT),
    })
}

/// The first entry with this GID that the filter likes, held. The filter runs with
/// interrupts off and may not ask for GIDs. `ENOENT`, or `EINVAL` if there is no such port.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_find_gid_by_filter(
    device: *mut ib_device,
    gid: *const ib_gid,
    port_num: u32,
    filter: Option<unsafe extern "C" fn(*const ib_gid, *const ib_gid_attr, *mut c_void) -> bool>,
    context: *mut c_void,
) -> *const ib_gid_attr {
    // SAFETY: By this function's duty.
    let (port, wanted) = unsafe { (port_of(device, port_num), read_gid(gid)) };
    let (Some(port), Some(filter)) = (port, filter) else {
        return EINVAL.to_ptr();
    };
    let found = port.find_entry(|entry| {
        // SAFETY: The caller's filter, called as it wants to be.
        let liked = entry.engine().gid == wanted && unsafe { filter(gid, entry.attr(), context) };
        liked.then(|| Held::new(entry))
    });
    to_c(found.ok_or(ENOENT))
}

/// All entries of all ports, up to a number. `EINVAL` if there are more.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_query_gid_table(
    device: *mut ib_device,
    entries: *mut bindings::ib_uverbs_gid_entry,
    max_entries: usize,
) -> isize {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    let mut count = 0_usize;
    for port in device.slot::<super::Tables>().ports() {
        let too_many = port.find_entry(|entry| {
            if count >= max_entries {
                return Some(());
            }
            // SAFETY: The caller's array has room for `max_entries`. The entry is valid, so
            // that its network device, if any, is there until the slots' lock is dropped.
            unsafe {
                let attr = entry.attr();
                let out = entries.add(count);
                write_gid((&raw mut (*out).gid).cast(), entry.engine().gid);
                (*out).gid_index = u32::from(entry.index());
                (*out).port_num = entry.port();
                (*out).gid_type = (*attr).gid_type;
                let ndev = entry.ndev();
                if !ndev.is_null() {
                    (*out).netdev_ifindex = NetDevice::from_raw(ndev).ifindex();
                }
            }
            count += 1;
            None
        });
        if too_many.is_some() {
            return EINVAL.to_errno() as isize;
        }
    }
    // CAST: there are far fewer.
    count as isize
}

/// The network device of a held entry. `ENODEV` if it has none, `EINVAL` if it was deleted.
///
/// # Safety
///
/// As the header has it: RCU is held.
#[no_mangle]
pub unsafe extern "C" fn rdma_read_gid_attr_ndev_rcu(attr: *const ib_gid_attr) -> *mut net_device {
    // SAFETY: The caller holds the entry.
    let entry = unsafe { Entry::from_attr(attr) };
    if !entry.is_valid() {
        return EINVAL.to_ptr();
    }
    match entry.ndev() {
        ndev if ndev.is_null() => ENODEV.to_ptr(),
        ndev => ndev,
    }
}

/// VLAN number (0xffff: none) and MAC address for a held entry; either may not be asked for.
/// `ENODEV` if it has no network device any more.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_read_gid_l2_fields(
    attr: *const ib_gid_attr,
    vlan_id: *mut u16,
    smac: *mut u8,
) -> c_int {
    let rcu = rcu::read_lock();
    // SAFETY: The caller holds the entry.
    let ndev = unsafe { Entry::from_attr(attr) }.ndev();
    if ndev.is_null() {
        return ENODEV.to_errno();
    }
    // SAFETY: RCU protects it.
    let ndev = unsafe { NetDevice::from_raw(ndev) };
    if !smac.is_null() {
        // SAFETY: The caller has room for an Ethernet address.
        unsafe { smac.cast::<[u8; 6]>().write_unaligned(ndev.mac()) };
    }
    if !vlan_id.is_null() {
        // A device on a VLAN, a macvlan for instance, sends with that VLAN's number.
        let vlan = ndev
            .vlan()
            .or_else(|| ndev.first_lower(&rcu).and_then(NetDevice::vlan));
        // SAFETY: The caller has room for it.
        unsafe { vlan_id.write(vlan.map_or(0xffff, |(_, id)| id)) };
    }
    0
}

/// What the driver keeps of a held entry.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_read_gid_hw_context(attr: *const ib_gid_attr) -> *mut c_void {
    // SAFETY: The caller holds the entry, whose context the driver wrote when it came.
    unsafe { *Entry::from_attr(attr).context() }
}

/// Whether it is the GID that no port has.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_is_zero_gid(gid: *const ib_gid) -> bool {
    // SAFETY: By this function's duty.
    unsafe { read_gid(gid) }.is_zero()
}

/// The two names that users know; those of IB and RoCE version 1 are the same.
const TYPE_NAMES: [(ib_gid_type, &CStr); 3] = [
    (bindings::ib_gid_type_IB_GID_TYPE_IB, c"IB/RoCE v1"),
    (bindings::ib_gid_type_IB_GID_TYPE_ROCE, c"IB/RoCE v1"),
    (bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP, c"RoCE v2"),
];

/// The name of a type.
///
/// # Safety
///
/// None is needed; the header's functions are all like this.
#[no_mangle]
pub unsafe extern "C" fn ib_cache_gid_type_str(gid_type: ib_gid_type) -> *const c_char {
    TYPE_NAMES
        .iter()
        .find(|(each, _)| *each == gid_type)
        .map_or(c"Invalid GID type", |(_, name)| *name)
        .as_char_ptr()
}

/// The first type of this name, which may end with a newline. `EINVAL`.
///
/// # Safety
///
/// `buf` is a string.
#[no_mangle]
pub unsafe extern "C" fn ib_cache_gid_parse_type_str(buf: *const c_char) -> c_int {
    // SAFETY: By this function's duty.
    let name = unsafe { CStr::from_char_ptr(buf) }.to_bytes();
    let name = name.strip_suffix(b"\n").unwrap_or(name);
    TYPE_NAMES
        .iter()
        .find(|(_, each)| each.to_bytes() == name)
        // CAST: small.
        .map_or(EINVAL.to_errno(), |(gid_type, _)| *gid_type as c_int)
}

/// The types that a port knows, as bits.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn roce_gid_type_mask_support(ib_dev: *mut ib_device, port: u32) -> c_ulong {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(ib_dev) };
    match Kind::of(device, port) {
        Kind::Roce { types, .. } => types.iter().map(|t| 1 << t as u8).sum(),
        Kind::Iwarp | Kind::Ib => 1 << bindings::ib_gid_type_IB_GID_TYPE_IB,
    }
}

/// Brings all ports' GIDs up to date before it returns. May sleep.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_roce_rescan_device(ib_dev: *mut ib_device) {
    // SAFETY: By this function's duty.
    super::rescan(unsafe { Device::from_raw(ib_dev) });
}

/// As [`rdma_roce_rescan_device`], for the sake of one port.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn rdma_roce_rescan_port(ib_dev: *mut ib_device, _port: u32) {
    // SAFETY: By this function's duty.
    super::rescan(unsafe { Device::from_raw(ib_dev) });
}

/// Deletes the GIDs that a port has from a network device. May sleep.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn roce_del_all_netdev_gids(
    ib_dev: *mut ib_device,
    port: u32,
    ndev: *mut net_device,
) {
    if !ndev.is_null() {
        // SAFETY: By this function's duty.
        unsafe { super::del_ndev(Device::from_raw(ib_dev), port, NetDevice::from_raw(ndev)) };
    }
}

rdma::exported!(
    rdma_query_gid,
    rdma_get_gid_attr,
    rdma_hold_gid_attr,
    rdma_put_gid_attr,
    rdma_find_gid,
    rdma_find_gid_by_port,
    rdma_find_gid_by_filter,
    rdma_query_gid_table,
    rdma_read_gid_attr_ndev_rcu,
    rdma_read_gid_l2_fields,
    rdma_read_gid_hw_context,
    rdma_is_zero_gid,
    rdma_roce_rescan_device,
    rdma_roce_rescan_port,
    roce_del_all_netdev_gids,
);

exported_private!(
    ib_cache_gid_type_str,
    ib_cache_gid_parse_type_str,
    roce_gid_type_mask_support,
);
