// SPDX-License-Identifier: GPL-2.0

//! Functions of `ib_core` and of the IP stack: ports of devices, GIDs, addresses, routes.

use super::event::Event;
use super::ib::DatagramEvent;
use super::id::Id;
use crate::ports::Ports;
use crate::proto::addr::Address;
use crate::proto::port::Range;
use crate::proto::route;
use crate::proto::route::GidType;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::client::DeviceRef;
use rdma::edge::device::Device;
use rdma::edge::View;
use rdma::net::NetDevice;

/// What a port can do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caps(u32);

impl Caps {
    const fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 != 0
    }

    /// Connections by `ib_cm`.
    pub(crate) const fn ib_cm(self) -> bool {
        self.has(0)
    }

    /// Connections by `iw_cm`.
    pub(crate) const fn iw_cm(self) -> bool {
        self.has(1)
    }

    /// RoCE.
    pub(crate) const fn roce(self) -> bool {
        self.has(2)
    }

    /// RoCE version 2.
    pub(crate) const fn roce_udp(self) -> bool {
        self.has(3)
    }

    /// InfiniBand.
    pub(crate) const fn ib(self) -> bool {
        self.has(4)
    }

    /// iWARP.
    pub(crate) const fn iwarp(self) -> bool {
        self.has(5)
    }

    /// Paths by the subnet administrator.
    pub(crate) const fn ib_sa(self) -> bool {
        self.has(6)
    }

    /// Multicast groups by the subnet administrator.
    pub(crate) const fn ib_mcast(self) -> bool {
        self.has(7)
    }

    /// Addresses of `AF_IB`.
    pub(crate) const fn af_ib(self) -> bool {
        self.has(9)
    }

    /// Addresses are those of Omni-Path.
    pub(crate) const fn opa(self) -> bool {
        self.has(10)
    }

    /// Addresses are those of Ethernet.
    pub(crate) const fn eth_ah(self) -> bool {
        self.has(8)
    }
}

/// What a port of a device can do; nothing if there is no such port.
pub(crate) fn caps(device: &Device, port: u32) -> Caps {
    // SAFETY: The device exists (guarantee of a reference); the helper checks the port.
    Caps(unsafe { bindings::rdma_helper_cma_port(device.raw(), port) })
}

/// The GID types that a port supports, as a mask.
pub(crate) fn gid_types(device: &Device, port: u32) -> u64 {
    // SAFETY: The device exists; callers pass ports that it has.
    unsafe { crate::private::roce_gid_type_mask_support(device.raw(), port) as u64 }
}

/// Whether the port is active.
pub(crate) fn is_active(device: &Device, port: u32) -> bool {
    let mut state = 0;
    // SAFETY: The device exists; the function checks the port.
    let result = unsafe { bindings::ib_get_cached_port_state(device.raw(), port, &mut state) };
    result == 0 && state == bindings::ib_port_state_IB_PORT_ACTIVE
}

/// The P_Key at an index of the port's table.
pub(crate) fn pkey_at(device: &Device, port: u32, index: i32) -> Result<u16> {
    let mut pkey = 0;
    // SAFETY: The device exists; the function checks port and index.
    to_result(unsafe { bindings::ib_get_cached_pkey(device.raw(), port, index, &mut pkey) })?;
    Ok(pkey)
}

/// The index of a P_Key in the port's table.
pub(crate) fn find_pkey(device: &Device, port: u32, pkey: u16) -> Result<u16> {
    let mut index = 0;
    // SAFETY: The device exists; the function checks the port.
    to_result(unsafe { bindings::ib_find_cached_pkey(device.raw(), port, pkey, &mut index) })?;
    Ok(index)
}

/// The GID at an index of the port's table.
pub(crate) fn gid_at(device: &Device, port: u32, index: i32) -> Result<[u8; 16]> {
    let mut gid = bindings::ib_gid {
        raw: ManuallyDrop::new([0; 16]),
    };
    // SAFETY: The device exists; the function checks port and index. All bytes are valid GIDs.
    unsafe {
        to_result(bindings::rdma_query_gid(
            device.raw(),
            port,
            index,
            &mut gid,
        ))?;
        Ok(*gid.raw)
    }
}

/// The valid GIDs of a port's table.
pub(crate) fn gids(device: &Device, port: u32) -> impl Iterator<Item = [u8; 16]> + '_ {
    (0..i32::MAX)
        .map(move |index| gid_at(device, port, index))
        // An entry without a GID is skipped; an index beyond the table is another error.
        .take_while(|gid| !matches!(gid, Err(error) if *error != ENOENT))
        .flatten()
}

/// A reference to an entry of a device's GID table.
///
/// # Invariants
///
/// It is counted. The device outlives it, by the reference here.
pub(crate) struct Gid(NonNull<bindings::ib_gid_attr>, DeviceRef);

// SAFETY: References are counted atomically; entries do not change but for their network device.
unsafe impl Send for Gid {}
// SAFETY: As for `Send`.
unsafe impl Sync for Gid {}

impl Clone for Gid {
    fn clone(&self) -> Self {
        // SAFETY: A reference is counted (type invariant).
        unsafe { bindings::rdma_hold_gid_attr(self.0.as_ptr()) };
        // INVARIANT: Counted above.
        Self(self.0, self.1.clone())
    }
}

impl Drop for Gid {
    fn drop(&mut self) {
        // SAFETY: The reference is counted (type invariant).
        unsafe { bindings::rdma_put_gid_attr(self.0.as_ptr()) };
    }
}

impl Gid {
    fn made(attr: *const bindings::ib_gid_attr, device: &DeviceRef) -> Result<Self> {
        let attr = NonNull::new(from_err_ptr(attr.cast_mut())?).ok_or(ENODEV)?;
        // INVARIANT: The functions that return entries count a reference.
        Ok(Self(attr, device.clone()))
    }

    /// The first entry of a port.
    pub(crate) fn first(device: &DeviceRef, port: u32) -> Result<Self> {
        // SAFETY: The device exists; the function checks the port.
        let attr = unsafe { bindings::rdma_get_gid_attr(device.raw(), port, 0) };
        Self::made(attr, device)
    }

    /// The entry with a GID.
    pub(crate) fn find(
        device: &DeviceRef,
        port: u32,
        gid: [u8; 16],
        gid_type: GidType,
        dev: Option<&NetDevice>,
    ) -> Result<Self> {
        let gid = bindings::ib_gid {
            raw: ManuallyDrop::new(gid),
        };
        let dev = dev.map_or(ptr::null_mut(), NetDevice::as_raw);
        // SAFETY: The device exists; the function checks the port, and copies the GID.
        let attr = unsafe {
            bindings::rdma_find_gid_by_port(device.raw(), &gid, gid_type.raw(), port, dev)
        };
        Self::made(attr, device)
    }

    /// Returns the C structure.
    pub(crate) fn as_raw(&self) -> *const bindings::ib_gid_attr {
        self.0.as_ptr()
    }

    /// Returns the entry's network device, if it has one.
    pub(crate) fn ndev(&self) -> Option<ARef<NetDevice>> {
        // SAFETY: The entry exists (type invariant).
        unsafe { ndev_of(self.as_raw()) }
    }
}

/// The network device of a GID entry, if there is an entry and it has one.
///
/// # Safety
///
/// `attr` is null, or an entry to which a reference is counted.
pub(super) unsafe fn ndev_of(attr: *const bindings::ib_gid_attr) -> Option<ARef<NetDevice>> {
    if attr.is_null() {
        return None;
    }
    let _rcu = rcu::read_lock();
    // SAFETY: The entry exists (contract of this function), and RCU is held.
    let dev = from_err_ptr(unsafe { bindings::rdma_read_gid_attr_ndev_rcu(attr) }).ok()?;
    if dev.is_null() {
        return None;
    }
    // SAFETY: RCU keeps the device until it is held here.
    Some(unsafe { NetDevice::from_raw(dev) }.hold())
}

/// The number of the device's driver (`enum rdma_driver_id`).
pub(crate) fn driver_id(device: &Device) -> u32 {
    device.ops().driver_id
}

/// Whether the namespace of an ID may use a device.
pub(crate) fn may_access(device: &Device, id: &Id) -> bool {
    // SAFETY: Device and namespace exist.
    unsafe { bindings::rdma_dev_access_netns(device.raw(), id.net().as_raw()) }
}

/// The transport of a device (`enum rdma_transport_type`).
pub(crate) fn transport(device: &Device) -> u32 {
    // SAFETY: The function takes any number.
    unsafe { bindings::rdma_node_get_transport(device.node_type().into()) }
}

impl Id {
    pub(super) fn dev_addr(&self) -> *mut bindings::rdma_dev_addr {
        // SAFETY: Part of the ID; only the address is taken.
        unsafe { &raw mut (*self.c()).id.route.addr.dev_addr }
    }

    /// Finds the network device of a local address: fills in hardware addresses and interface.
    /// `AF_IB` has none: fills in its GID and P_Key.
    ///
    /// # Errors
    ///
    /// `ENODEV` and others: there is none.
    pub(crate) fn translate(&self, addr: &Address) -> Result {
        if let Address::Ib(ib) = addr {
            let mut link = self.link();
            link.set_ib_source(ib);
            self.set_link(&link);
            return Ok(());
        }
        let bytes = Bytes::new(addr);
        // SAFETY: The address is read during the call; `dev_addr` has its namespace (type
        // invariant).
        to_result(unsafe { bindings::rdma_translate_ip(bytes.as_ptr(), self.dev_addr()) })
    }

    /// Takes the hardware addresses and the interface of a network device.
    pub(crate) fn copy_device(&self, dev: &NetDevice) {
        // SAFETY: Both exist.
        unsafe { crate::private::rdma_copy_src_l2_addr(self.dev_addr(), dev.as_raw()) };
    }

    /// Begins to resolve an address. The answer comes to [`crate::bind::resolved`].
    ///
    /// # Errors
    ///
    /// Those of routing; there is no answer then.
    #[inline(never)]
    pub(crate) fn resolve_ip(this: &Arc<Self>, to: &Address, timeout_ms: usize) -> Result {
        let (source, _) = this.addrs();
        let (mut from, to) = (Bytes::new(&source), Bytes::new(to));
        let old = this.with(|inner| inner.resolving.replace(this.clone()));
        drop(old);
        // SAFETY: The addresses are copied. `dev_addr` and the context are those of the ID, to which
        // the request has a reference, until its callback is called or it is cancelled.
        let result = to_result(unsafe {
            bindings::rdma_resolve_ip(
                from.as_mut_ptr(),
                to.as_ptr(),
                this.dev_addr(),
                timeout_ms,
                Some(resolved),
                false,
                super::id::context(this),
            )
        });
        if result.is_err() {
            this.resolving_ends();
        }
        result
    }

    /// The request to resolve an address is over.
    fn resolving_ends(&self) {
        let old = self.with(|inner| inner.resolving.take());
        drop(old);
    }

    /// Cancels [`resolve_ip`](Self::resolve_ip); waits for its callback. May sleep; not under the
    /// lock of callbacks.
    pub(crate) fn cancel_resolve_ip(&self) {
        // SAFETY: The function takes any address, and looks for a request with it.
        unsafe { bindings::rdma_addr_cancel(self.dev_addr()) };
        self.resolving_ends();
    }
}

/// Bytes that C reads as a socket address.
#[repr(C, align(8))]
pub(super) struct Bytes([u8; 128]);

impl Bytes {
    pub(super) fn new(addr: &Address) -> Self {
        Self(addr.to_bytes())
    }

    pub(super) fn as_ptr(&self) -> *const bindings::sockaddr {
        self.0.as_ptr().cast()
    }

    fn as_mut_ptr(&mut self) -> *mut bindings::sockaddr {
        self.0.as_mut_ptr().cast()
    }
}

/// The callback of [`Id::resolve_ip`].
///
/// # Safety
///
/// For the core only, with the context of a request.
unsafe extern "C" fn resolved(
    status: c_int,
    source: *mut bindings::sockaddr,
    _addr: *mut bindings::rdma_dev_addr,
    context: *mut c_void,
) {
    // SAFETY: The ID exists until the request is over (see `resolve_ip`). The core passes the
    // resolved source address.
    let (id, source) = unsafe {
        let source = super::args::Sock::read(source.cast_const().cast());
        (super::id::of_context(context), source)
    };
    if let Some(id) = id {
        id.resolving_ends();
        crate::bind::resolved(&id, source.addr, status);
    }
}

/// The range of automatic ports of a namespace.
pub(crate) fn port_range(id: &Id) -> Range {
    let (mut low, mut high) = (0, 0);
    // SAFETY: The namespace exists.
    unsafe {
        bindings::rdma_helper_cma_port_range(id.net().as_raw(), &mut low, &mut high);
    }
    let port = |number: i32| u16::try_from(number).unwrap_or(u16::MAX);
    Range {
        low: port(low),
        high: port(high).max(port(low)),
    }
}

/// A number from the range, for the start of a search.
pub(crate) fn random_port(range: Range) -> u16 {
    let width = u32::from(range.high.saturating_sub(range.low)).saturating_add(1);
    // SAFETY: The function has no preconditions.
    let random = unsafe { bindings::get_random_u32() }
        .checked_rem(width)
        .unwrap_or(0);
    // CAST: Below the width, which is at most 2^16.
    range.low.saturating_add(random as u16)
}

/// Whether the task may take privileged ports.
pub(crate) fn may_bind_privileged() -> bool {
    // CAST: A small number.
    // SAFETY: The function takes any capability.
    unsafe { bindings::rdma_helper_cma_capable(bindings::CAP_NET_BIND_SERVICE as c_int) }
}

/// Whether listeners on IPv6 leave IPv4 alone by default.
pub(crate) fn v6_only(id: &Id) -> bool {
    // SAFETY: The namespace exists.
    unsafe { bindings::rdma_helper_cma_v6_only(id.net().as_raw()) }
}

/// Whether packets between these addresses leave by the network device.
pub(crate) fn leaves_by(dev: &NetDevice, local: &Address, remote: &Address) -> bool {
    match (local, remote) {
        (Address::V4(local), Address::V4(remote)) => {
            let refused = |addr: [u8; 4]| {
                let broadcast = addr == [255; 4];
                addr[0] == 0 || addr[0] == 127 || broadcast
            };
            let multicast = local.addr[0] >> 4 == 0xe;
            if refused(local.addr) || refused(remote.addr) || multicast {
                return false;
            }
            let be = |addr: [u8; 4]| u32::from_ne_bytes(addr);
            let _rcu = rcu::read_lock();
            // The way back: from the peer's address to ours.
            // SAFETY: The device exists, and RCU is held.
            unsafe {
                bindings::rdma_helper_cma_route4(dev.as_raw(), be(local.addr), be(remote.addr))
            }
        }
        (Address::V6(local), Address::V6(remote)) => {
            let _rcu = rcu::read_lock();
            // SAFETY: The device exists, and RCU is held; the addresses are read during the call.
            unsafe {
                bindings::rdma_helper_cma_route6(
                    dev.as_raw(),
                    local.addr.as_ptr().cast(),
                    remote.addr.as_ptr().cast(),
                )
            }
        }
        (Address::V4(_) | Address::V6(_) | Address::Ib(_), _) => false,
    }
}

/// The service level that a network device gives to a type of service.
pub(crate) fn service_level(dev: &NetDevice, tos: u8) -> u8 {
    let priority = u32::from(route::priority(tos));
    // SAFETY: The device exists while borrowed.
    let class = |dev: &NetDevice| unsafe { bindings::rdma_helper_cma_tc(dev.as_raw(), priority) };
    let of_vlan = |vlan: &NetDevice, real: &NetDevice| match class(real) {
        // SAFETY: A VLAN device, which exists while borrowed.
        -1 => unsafe { bindings::rdma_helper_cma_vlan_prio(vlan.as_raw(), priority) as i32 },
        class => class,
    };
    let level = if let Some((real, _)) = dev.vlan() {
        of_vlan(dev, real)
    } else {
        let rcu = rcu::read_lock();
        match dev.first_lower(&rcu) {
            Some(lower) => match lower.vlan() {
                Some((real, _)) => of_vlan(lower, real),
                None => class(lower).max(0),
            },
            None => class(dev).max(0),
        }
    };
    // CAST: Classes and priorities are below 16.
    level as u8
}

/// The path record of RoCE.
pub(crate) fn roce_path(path: &route::Path) -> bindings::sa_path_rec {
    let gid = |raw: [u8; 16]| bindings::ib_gid {
        raw: ManuallyDrop::new(raw),
    };
    bindings::sa_path_rec {
        sgid: gid(path.sgid),
        dgid: gid(path.dgid),
        flow_label: path.flow_label.to_be(),
        hop_limit: path.hop_limit,
        traffic_class: path.traffic_class,
        reversible: 1,
        pkey: 0xffff,
        sl: path.sl,
        // CAST: A small number.
        mtu_selector: bindings::ib_sa_selector_IB_SA_EQ as u8,
        mtu: path.mtu,
        // CAST: A small number.
        rate_selector: bindings::ib_sa_selector_IB_SA_EQ as u8,
        rate: bindings::ib_rate_IB_RATE_PORT_CURRENT as u8,
        packet_life_time_selector: bindings::ib_sa_selector_IB_SA_EQ as u8,
        packet_life_time: path.life_time,
        ..Default::default()
    }
}

/// Makes a path one of RoCE to a MAC address.
pub(crate) fn set_roce(path: &mut bindings::sa_path_rec, gid_type: GidType, dmac: [u8; 6]) {
    path.rec_type = match gid_type {
        GidType::Ib => bindings::sa_path_rec_type_SA_PATH_REC_TYPE_IB,
        GidType::Roce => bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V1,
        GidType::RoceUdp => bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2,
    };
    path.__bindgen_anon_1.roce = ManuallyDrop::new(bindings::sa_path_rec_roce {
        route_resolved: true,
        dmac,
    });
}

/// A path that a consumer passed.
pub(crate) struct PathAt(pub(crate) bindings::sa_path_rec);

// SAFETY: `from_c`'s contract: a path record.
unsafe impl rdma::edge::FromC for PathAt {
    type C = *mut bindings::sa_path_rec;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A path record (contract of this function), which consists of numbers.
        Self(unsafe { c.read() })
    }
}
// SAFETY: The type contains no reference.
unsafe impl rdma::edge::Within<'_> for PathAt {}

/// Where the GIDs of an ID go.
pub(crate) struct GidOut<'a>(Option<NonNull<[u8; 16]>>, PhantomData<&'a ()>);

// SAFETY: `from_c`'s contract: null, or a place for a GID that only the callee uses.
unsafe impl rdma::edge::FromC for GidOut<'_> {
    type C = *mut bindings::ib_gid;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(NonNull::new(c.cast()), PhantomData)
    }
}
// SAFETY: The place exists for the call.
unsafe impl<'a> rdma::edge::Within<'a> for GidOut<'a> {}

impl GidOut<'_> {
    /// Writes the GID.
    pub(crate) fn set(self, gid: [u8; 16]) {
        if let Some(place) = self.0 {
            // SAFETY: A place for a GID (contract of `from_c`).
            unsafe { place.write_unaligned(gid) };
        }
    }
}

/// A device that two IDs or functions compare.
pub(crate) fn address_of(device: &DeviceRef) -> usize {
    device.raw().addr()
}

/// The event argument of `rdma_consumer_reject_data`.
pub(crate) struct RejectedAt<'a> {
    status: c_int,
    data: *const c_void,
    len: u8,
    _of_call: PhantomData<&'a ()>,
}

// SAFETY: `from_c`'s contract: an event of a refused connection.
unsafe impl rdma::edge::FromC for RejectedAt<'_> {
    type C = *mut bindings::rdma_cm_event;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: An event of a connection (contract of this function).
        unsafe {
            Self {
                status: (*c).status,
                data: (*(*c).param.conn).private_data,
                len: (*(*c).param.conn).private_data_len,
                _of_call: PhantomData,
            }
        }
    }
}
// SAFETY: The event exists for the call.
unsafe impl<'a> rdma::edge::Within<'a> for RejectedAt<'a> {}

impl RejectedAt<'_> {
    /// The reason.
    pub(crate) fn status(&self) -> c_int {
        self.status
    }

    /// The private data and its length.
    pub(crate) fn data(&self) -> (*const c_void, u8) {
        (self.data, self.len)
    }
}

/// Where the length of private data goes.
pub(crate) type LenOut<'a> = rdma::edge::OutParam<'a, u8>;

/// The text of a reason of `ib_cm`.
pub(crate) fn ibcm_text(reason: c_int) -> *const kernel::ffi::c_char {
    // SAFETY: The function takes any number.
    unsafe { bindings::ibcm_reject_msg(reason) }
}

/// The text of a reason of `iw_cm`.
pub(crate) fn iwcm_text(reason: c_int) -> *const kernel::ffi::c_char {
    // SAFETY: The function takes any number.
    unsafe { bindings::iwcm_reject_msg(reason) }
}

/// The ports of a namespace. The module registers them for as long as there are IDs.
pub(crate) fn pernet(net: &rdma::net::CountedNet) -> Option<Pin<&Ports>> {
    // SAFETY: Registered in the module's initialisation; dropped in its exit, before which all IDs
    // and handlers of transports are gone.
    unsafe { rdma::net::Pernet::<Ports>::get(net) }
}

/// A multicast group of RoCE.
pub(crate) struct Group {
    pub(crate) mgid: [u8; 16],
    pub(crate) port_gid: [u8; 16],
    pub(crate) mtu: u8,
    pub(crate) hop_limit: u8,
}

impl Group {
    /// The record that the subnet administrator would have of it.
    pub(crate) fn record(&self) -> bindings::ib_sa_mcmember_rec {
        let gid = |raw: [u8; 16]| bindings::ib_gid {
            raw: ManuallyDrop::new(raw),
        };
        bindings::ib_sa_mcmember_rec {
            mgid: gid(self.mgid),
            port_gid: gid(self.port_gid),
            pkey: 0xffff,
            // CAST: A small number.
            rate: bindings::ib_rate_IB_RATE_PORT_CURRENT as u8,
            hop_limit: self.hop_limit,
            mtu: self.mtu,
            ..Default::default()
        }
    }
}

/// The consumer's context of a group. It is only passed back.
pub(crate) struct GroupContext(pub(super) *const c_void);

// SAFETY: The pointer is only passed back to the consumer.
unsafe impl Send for GroupContext {}
// SAFETY: As for `Send`: only passed back.
unsafe impl Sync for GroupContext {}

impl GroupContext {
    /// The context that the consumer gave.
    pub(crate) fn new(context: rdma::edge::Passed<c_void>) -> Self {
        Self(context.as_ptr())
    }
}

/// The event of a group that was joined: how datagrams reach it. `None`: there is no way.
pub(crate) fn multicast_event(
    id: &Id,
    mut rec: bindings::ib_sa_mcmember_rec,
    gid_type: GidType,
    context: &GroupContext,
) -> Option<DatagramEvent> {
    /// The number that addresses all members of a group.
    const MULTICAST_QPN: u32 = 0x00ff_ffff;
    let (device, port) = id.device()?;
    let dev = id.net().device_by_index(id.words().bound_dev_if());
    if dev.is_none() && caps(device.view(), port).roce() {
        return None;
    }
    let dev = dev.as_deref().map_or(ptr::null_mut(), NetDevice::as_raw);
    let mut event = Event::for_group(context);
    // SAFETY: Device and network device exist, or the latter is null, as InfiniBand does not look
    // at it; the attributes are zeros, and get a reference that the event's owner drops.
    let result = unsafe {
        bindings::ib_init_ah_from_mcmember(
            device.raw(),
            port,
            &mut rec,
            dev,
            gid_type.raw(),
            event.ah_attr(),
        )
    };
    if result != 0 {
        return None;
    }
    event.set_target(MULTICAST_QPN, id.with(|inner| inner.qkey));
    Some(event.into())
}
