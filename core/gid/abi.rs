// SPDX-License-Identifier: GPL-2.0

//! Exported functions for GIDs.
//!
//! Functions that only read do not sleep. Each function returns `EINVAL` or `ENOENT` in the same
//! cases as its C counterpart.

use core::mem::ManuallyDrop;

use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;

use super::edge;
use super::edge::entry::ndev_id;
use super::edge::entry::Entry;
use super::edge::entry::GidRef;
use super::edge::Filter;
use super::edge::FilterFn;
use super::edge::MutGid;
use super::edge::OutMac;
use super::edge::Rows;
use super::edge::RowsAt;
use super::edge::RowsMax;
use super::port::Kind;
use super::port::Port;
use super::Tables;
use crate::device::errno;
use crate::device::port::Protocol;
use crate::device::Device;
use crate::proto::gid::Gid;
use crate::proto::gid::GidType;
use crate::proto::gid_table::Ndev;
use crate::proto::gid_table::Refusal;
use rdma::bindings;
use rdma::bindings::ib_gid;
use rdma::bindings::ib_gid_type;
use rdma::bindings::net_device;
use rdma::edge::verbs::GidAttr;
use rdma::edge::In;
use rdma::edge::OutParam;
use rdma::edge::Passed;
use rdma::net::NetDevice;

/// The all-zero GID, which no port has.
#[no_mangle]
#[allow(non_upper_case_globals)]
pub static zgid: ib_gid = ib_gid {
    raw: ManuallyDrop::new([0; 16]),
};

fn gid_type(raw: ib_gid_type) -> Option<GidType> {
    match raw {
        bindings::ib_gid_type_IB_GID_TYPE_IB => Some(GidType::Ib),
        bindings::ib_gid_type_IB_GID_TYPE_ROCE => Some(GidType::RoceV1),
        bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP => Some(GidType::RoceV2),
        _ => None,
    }
}

fn wanted_ndev(ndev: Passed<net_device>) -> Option<Ndev> {
    (!ndev.as_ptr().is_null()).then(|| ndev_id(ndev.as_ptr()))
}

fn port_of(device: &Device, port: u32) -> Option<&Port> {
    device.slot::<Tables>().port(port)
}

fn query_gid(device: &Device, port: u32, index: c_int, mut gid: OutParam<'_, ib_gid>) -> Result {
    gid.set(edge::raw(get(device, port, index)?));
    Ok(())
}

fn get(device: &Device, port: u32, index: c_int) -> Result<Gid> {
    let port = port_of(device, port).ok_or(EINVAL)?;
    let index = usize::try_from(index).map_err(|_| EINVAL)?;
    match port.read(|table| table.get(index).map(|entry| entry.gid)) {
        Ok(found) => Ok(found),
        Err(Refusal::Empty) => Err(ENOENT),
        Err(_) => Err(EINVAL),
    }
}

fn get_attr(device: &Device, port: u32, index: c_int) -> Result<GidRef> {
    get_ref(device, port, usize::try_from(index).map_err(|_| EINVAL)?)
}

/// Returns a reference to the entry of an index. Any context.
///
/// # Errors
///
/// `EINVAL` if there is no such port or index, `ENODATA` if the entry is empty.
pub(crate) fn get_ref(device: &Device, port: u32, index: usize) -> Result<GidRef> {
    let port = port_of(device, port).ok_or(EINVAL)?;
    port.get(index).map_err(|refusal| errno(refusal.errno()))
}

fn find(device: &Device, gid: Gid, kind: ib_gid_type, ndev: Passed<net_device>) -> Result<GidRef> {
    let kind = gid_type(kind).ok_or(ENOENT)?;
    let mut ports = device.slot::<Tables>().ports();
    ports
        .find_map(|port| port.find(&gid, kind, wanted_ndev(ndev)).ok())
        .ok_or(ENOENT)
}

/// Returns a reference to the first entry with this GID and type on a port. If `ndev` is not null,
/// the entry must be of that network device; the pointer is only compared. Any context.
///
/// # Errors
///
/// `ENOENT`.
pub(crate) fn find_by_port(
    device: &Device,
    gid: Gid,
    kind: ib_gid_type,
    port: u32,
    ndev: Passed<net_device>,
) -> Result<GidRef> {
    let kind = gid_type(kind).ok_or(ENOENT)?;
    let port = port_of(device, port).ok_or(ENOENT)?;
    port.find(&gid, kind, wanted_ndev(ndev)).map_err(|_| ENOENT)
}

/// Returns a reference to the first entry with this GID on a port that `likes` accepts. `likes`
/// must neither sleep nor look up GIDs. Any context.
///
/// # Errors
///
/// `ENOENT`, or `EINVAL` if there is no such port.
pub(crate) fn find_by(
    device: &Device,
    wanted: Gid,
    port: u32,
    likes: impl Fn(&Entry) -> bool,
) -> Result<GidRef> {
    let port = port_of(device, port).ok_or(EINVAL)?;
    let found = port.find_entry(|entry| {
        let liked = entry.engine().gid == wanted && likes(entry);
        liked.then(|| GidRef::new(entry))
    });
    found.ok_or(ENOENT)
}

fn find_by_filter(
    device: &Device,
    wanted: Gid,
    port: u32,
    filter: FilterFn,
    context: Passed<c_void>,
) -> Result<GidRef> {
    let filter = Filter::new(filter, wanted, context)?;
    find_by(device, wanted, port, |entry| filter.likes(entry))
}

fn query_table(device: &Device, entries: RowsAt<'_>, max_entries: RowsMax<'_>) -> isize {
    let mut rows = Rows::new(entries, max_entries);
    for port in device.slot::<Tables>().ports() {
        let too_many = port.find_entry(|entry| rows.push(entry).is_err().then_some(()));
        if too_many.is_some() {
            // CAST: An errno fits.
            return EINVAL.to_errno() as isize;
        }
    }
    // CAST: The number of rows is far below `isize::MAX`.
    rows.len() as isize
}

fn read_ndev(entry: In<'_, GidAttr>) -> *mut net_device {
    let entry = Entry::of(&entry);
    if !entry.is_valid() {
        return EINVAL.to_ptr();
    }
    match entry.ndev() {
        ndev if ndev.is_null() => ENODEV.to_ptr(),
        ndev => ndev,
    }
}

/// Returns the VLAN ID that a network device sends with; 0xffff for none. A device on top of a VLAN
/// device, a macvlan for instance, uses that device's VLAN ID.
fn vlan_of(ndev: &NetDevice, rcu: &rcu::Guard) -> u16 {
    let vlan = ndev
        .vlan()
        .or_else(|| ndev.first_lower(rcu).and_then(NetDevice::vlan));
    vlan.map_or(0xffff, |(_, id)| id)
}

impl Entry {
    /// Returns a reference to the network device of the entry. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the entry has been deleted; `ENODEV` if it has no network device.
    pub(crate) fn netdev(&self) -> Result<ARef<NetDevice>> {
        let rcu = rcu::read_lock();
        if !self.is_valid() {
            return Err(EINVAL);
        }
        self.ndev_rcu(&rcu).map(NetDevice::hold).ok_or(ENODEV)
    }

    /// Returns the VLAN ID of the entry's network device; 0xffff for none. Any context.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the entry has no network device any more.
    pub(crate) fn vlan_id(&self) -> Result<u16> {
        let rcu = rcu::read_lock();
        self.ndev_rcu(&rcu)
            .map(|ndev| vlan_of(ndev, &rcu))
            .ok_or(ENODEV)
    }
}

fn read_l2_fields(
    entry: In<'_, GidAttr>,
    vlan_id: Option<OutParam<'_, u16>>,
    mut smac: OutMac<'_>,
) -> Result {
    let rcu = rcu::read_lock();
    let ndev = Entry::of(&entry).ndev_rcu(&rcu).ok_or(ENODEV)?;
    smac.set(ndev.mac());
    if let Some(mut vlan_id) = vlan_id {
        vlan_id.set(vlan_of(ndev, &rcu));
    }
    Ok(())
}

fn hold(entry: In<'_, GidAttr>) {
    Entry::of(&entry).hold();
}

fn hw_context(entry: In<'_, GidAttr>) -> Passed<c_void> {
    Entry::of(&entry).driver_context()
}

fn is_zero(gid: Gid) -> bool {
    gid.is_zero()
}

/// Names of GID types in the user ABI. IB and RoCE v1 share a name.
const TYPE_NAMES: [(ib_gid_type, &CStr); 3] = [
    (bindings::ib_gid_type_IB_GID_TYPE_IB, c"IB/RoCE v1"),
    (bindings::ib_gid_type_IB_GID_TYPE_ROCE, c"IB/RoCE v1"),
    (bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP, c"RoCE v2"),
];

pub(crate) fn type_name(gid_type: ib_gid_type) -> &'static CStr {
    TYPE_NAMES
        .iter()
        .find(|(each, _)| *each == gid_type)
        .map_or(c"Invalid GID type", |(_, name)| *name)
}

fn type_str(gid_type: ib_gid_type) -> *const c_char {
    type_name(gid_type).as_char_ptr()
}

fn parse_type(name: &CStr) -> c_int {
    let name = name.to_bytes();
    let name = name.strip_suffix(b"\n").unwrap_or(name);
    TYPE_NAMES
        .iter()
        .find(|(_, each)| each.to_bytes() == name)
        // CAST: The values are small.
        .map_or(EINVAL.to_errno(), |(gid_type, _)| *gid_type as c_int)
}

fn type_mask(device: &Device, port: u32) -> c_ulong {
    match Kind::of(device, port) {
        Kind::Roce { types, .. } => types.iter().map(|t| 1 << t as u8).sum(),
        Kind::Iwarp | Kind::Ib => 1 << bindings::ib_gid_type_IB_GID_TYPE_IB,
    }
}

fn rescan_port(device: &Device, _port: u32) {
    super::rescan(device);
}

fn del_all(device: &Device, port: u32, ndev: Option<&NetDevice>) {
    if let Some(ndev) = ndev {
        super::del_ndev(device, port, ndev);
    }
}

/// Finds port and index of a GID, on InfiniBand ports only.
fn find_ib(
    device: &Device,
    MutGid(wanted): MutGid,
    mut port: OutParam<'_, u32>,
    index: Option<OutParam<'_, u16>>,
) -> Result {
    for number in device.ports() {
        if !device.port_speaks(number, Protocol::Ib) {
            continue;
        }
        let len = device.immutable(number).map_or(0, |port| port.gid_tbl_len);
        let found = (0..len).find(|place| get(device, number, *place) == Ok(wanted));
        if let Some(place) = found {
            port.set(number);
            if let Some(mut index) = index {
                // CAST: A table has at most 65536 entries.
                index.set(place as u16);
            }
            return Ok(());
        }
    }
    Err(ENOENT)
}

rdma::export! { in rdma::bindings;
    /// Returns the GID of an index. `EINVAL` if there is no such port or index, `ENOENT` if the
    /// entry is empty.
    fn rdma_query_gid(device: &Device, port_num: u32, index: c_int, gid: OutParam<'_, ib_gid>) -> Result
        = query_gid;
    /// Returns a reference to the entry of an index. `EINVAL` if there is no such port or index,
    /// `ENODATA` if the entry is empty.
    fn rdma_get_gid_attr(device: &Device, port_num: u32, index: c_int) -> Result<GidRef>
        = get_attr;
    /// Takes another reference to an entry that the caller holds.
    fn rdma_hold_gid_attr(attr: In<'_, GidAttr>) = hold;
    /// Drops a reference to an entry.
    fn rdma_put_gid_attr(attr: GidRef) = core::mem::drop;
    /// Returns a reference to the first entry with this GID and type on any port. `ENOENT`.
    fn rdma_find_gid(
        device: &Device, gid: Gid, gid_type: ib_gid_type, ndev: Passed<net_device>,
    ) -> Result<GidRef> = find;
    /// Returns a reference to the first entry with this GID and type on a port. `ENOENT`.
    fn rdma_find_gid_by_port(
        device: &Device, gid: Gid, gid_type: ib_gid_type, port: u32, ndev: Passed<net_device>,
    ) -> Result<GidRef> = find_by_port;
    /// Returns a reference to the first entry with this GID that the filter accepts. The filter
    /// runs with interrupts disabled and must not look up GIDs. `ENOENT`, or `EINVAL` if there is
    /// no such port or no filter.
    fn rdma_find_gid_by_filter(
        device: &Device, gid: Gid, port_num: u32, filter: FilterFn,
        context: Passed<c_void>,
    ) -> Result<GidRef> = find_by_filter;
    /// Copies all entries of all ports. `EINVAL` if there are more than `max_entries`.
    fn rdma_query_gid_table(device: &Device, entries: RowsAt<'_>, max_entries: RowsMax<'_>) -> isize
        = query_table;
    /// Returns the network device of a held entry. The caller must hold the RCU read lock. `ENODEV`
    /// if the entry has none, `EINVAL` if the entry was deleted.
    fn rdma_read_gid_attr_ndev_rcu(attr: In<'_, GidAttr>) -> *mut net_device = read_ndev;
    /// Returns VLAN ID (0xffff for none) and MAC address of a held entry; either pointer may be
    /// null. `ENODEV` if the entry has no network device any more.
    fn rdma_read_gid_l2_fields(
        attr: In<'_, GidAttr>, vlan_id: Option<OutParam<'_, u16>>, smac: OutMac<'_>,
    ) -> Result = read_l2_fields;
    /// Returns the driver data of a held entry.
    fn rdma_read_gid_hw_context(attr: In<'_, GidAttr>) -> Passed<c_void> = hw_context;
    /// Returns whether the GID is all zeros.
    fn rdma_is_zero_gid(gid: Gid) -> bool = is_zero;
    /// Syncs the GIDs of all ports before it returns. May sleep.
    fn rdma_roce_rescan_device(device: &Device) = super::rescan;
    /// As `rdma_roce_rescan_device`: syncs all ports of the device.
    fn rdma_roce_rescan_port(device: &Device, port: u32) = rescan_port;
    /// Deletes the GIDs of a network device from a port. May sleep.
    fn roce_del_all_netdev_gids(device: &Device, port: u32, ndev: Option<&NetDevice>) = del_all;
    /// Finds port and index of a GID, on InfiniBand ports only. May sleep. `ENOENT`.
    fn ib_find_gid(
        device: &Device, gid: MutGid, port: OutParam<'_, u32>, index: Option<OutParam<'_, u16>>,
    ) -> Result = find_ib;
}

rdma::export! { in crate::private;
    /// Returns the name of a GID type.
    fn ib_cache_gid_type_str(gid_type: ib_gid_type) -> *const c_char = type_str;
    /// Returns the first GID type with this name, which may end with a newline. `EINVAL`.
    fn ib_cache_gid_parse_type_str(name: &CStr) -> c_int = parse_type;
    /// Returns the GID types that a port supports, as a bit mask.
    fn roce_gid_type_mask_support(device: &Device, port: u32) -> c_ulong = type_mask;
}
