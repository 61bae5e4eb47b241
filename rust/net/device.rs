// SPDX-License-Identifier: GPL-2.0

//! Network devices and network namespaces.
//!
//! Both are counted by C; hold them in an `ARef`. A namespace whose count may be zero is a [`Net`],
//! one that is counted a [`CountedNet`]. Attributes that others may change at any time are returned
//! by value.
//!
//! C headers: `include/linux/netdevice.h`, `include/net/net_namespace.h`.

use core::net::IpAddr;
use core::ops::Deref;
use core::ptr::NonNull;

use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::BStr;
use kernel::sync::aref::ARef;
use kernel::sync::aref::AlwaysRefCounted;
use kernel::sync::rcu;
use kernel::types::Opaque;

use super::neighbour::HardwareAddr;
use super::rtnl::RtnlGuard;
use crate::bindings;
use crate::edge::FromC;

/// A network namespace (`struct net`) whose memory is valid.
///
/// Its count may be zero, and it may be in removal. Anything except comparisons and route lookups
/// requires a [`CountedNet`]; see [`Net::try_hold`].
///
/// # Invariants
///
/// The namespace is counted, or RCU keeps it, as long as a Rust reference to it exists. (After its
/// count has become zero, it waits for RCU before it is removed.)
#[repr(transparent)]
pub struct Net(Opaque<bindings::net>);

// SAFETY: The type is transparent over the structure.
unsafe impl crate::edge::View for Net {
    type C = bindings::net;
}

// SAFETY: `struct net` may be used from any thread.
unsafe impl Send for Net {}
// SAFETY: As for `Send`: `struct net` may be used from any thread.
unsafe impl Sync for Net {}

impl Net {
    /// Converts a C pointer.
    ///
    /// # Safety
    ///
    /// `ptr` must be a valid namespace and fulfil the invariant of [`Net`] for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::net) -> &'a Self {
        // SAFETY: A valid namespace (contract of this function); the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Returns the C structure, which exists as long as `self`.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::net {
        self.0.get()
    }

    /// Takes a reference, unless the namespace is being removed.
    #[inline]
    pub fn try_hold(&self) -> Option<ARef<CountedNet>> {
        // SAFETY: The namespace is valid (type invariant); its count may be zero.
        let net = unsafe { bindings::rdma_helper_maybe_get_net(self.as_raw()) };
        // SAFETY: The function returned null or a reference; the type is transparent.
        NonNull::new(net).map(|net| unsafe { ARef::from_raw(net.cast()) })
    }

    /// Looks up a device by its index, and takes a reference. Any context.
    pub fn device_by_index(&self, ifindex: i32) -> Option<ARef<NetDevice>> {
        // SAFETY: The namespace is valid (type invariant). The function returns null or a
        // reference; the type is transparent.
        unsafe {
            NonNull::new(bindings::rdma_helper_dev_get_by_index(
                self.as_raw(),
                ifindex,
            ))
            .map(|dev| ARef::from_raw(dev.cast()))
        }
    }

    /// Returns a device of the namespace that has this address. Any context.
    pub fn device_with<'a>(&'a self, ip: IpAddr, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        // SAFETY: The namespace is valid (type invariant). RCU keeps its list of devices and the
        // result, and the address outlives the call.
        unsafe {
            let dev = match ip {
                IpAddr::V4(ip) => {
                    let ip = u32::from_ne_bytes(ip.octets());
                    bindings::rdma_helper_dev_of_ip4(self.as_raw(), ip)
                }
                IpAddr::V6(ip) => {
                    let ip = ip.octets();
                    let ip = ip.as_ptr().cast();
                    let mut dev = bindings::rdma_helper_first_netdev_rcu(self.as_raw());
                    while !dev.is_null()
                        && !bindings::rdma_helper_dev_has_ip6(self.as_raw(), ip, dev)
                    {
                        dev = bindings::rdma_helper_next_netdev_rcu(dev);
                    }
                    dev
                }
            };
            Option::from_c(dev)
        }
    }

    /// Returns a number that distinguishes the namespace from others that exist.
    #[inline]
    pub fn identity(&self) -> usize {
        self.as_raw().addr()
    }

    /// Returns the initial namespace, which is never removed.
    #[inline]
    pub fn init() -> &'static CountedNet {
        // SAFETY: `init_net` is a static object of the kernel, whose count is never zero.
        unsafe { CountedNet::from_raw(bindings::rdma_helper_init_net()) }
    }
}

/// A network namespace that is not removed: its sockets, its devices, and its [`Pernet`] data
/// exist.
///
/// [`Pernet`]: super::pernet::Pernet
///
/// # Invariants
///
/// A reference to the namespace is counted as long as a Rust reference to it exists.
#[repr(transparent)]
pub struct CountedNet(Net);

// SAFETY: `get_net` and `put_net` count references to the namespace, which exists while there are
// any.
unsafe impl AlwaysRefCounted for CountedNet {
    #[inline]
    fn inc_ref(&self) {
        // SAFETY: The count is not zero (type invariant).
        let _: *mut bindings::net = unsafe { bindings::rdma_helper_get_net(self.as_raw()) };
    }

    #[inline]
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller passes a reference that it owns.
        unsafe { bindings::rdma_helper_put_net(obj.cast().as_ptr()) };
    }
}

impl CountedNet {
    /// Converts a C pointer.
    ///
    /// # Safety
    ///
    /// `ptr` must be a namespace to which a reference is counted for `'a`: that of a task in it, of
    /// a user's socket, or of the caller.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::net) -> &'a Self {
        // SAFETY: A counted namespace (contract of this function); the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Returns the namespace of the current task; `None` if the task is exiting and has given it
    /// up. Any context.
    pub fn current() -> Option<ARef<Self>> {
        // SAFETY: The function has no precondition.
        let net = NonNull::new(unsafe { bindings::rdma_helper_current_net() })?;
        // SAFETY: The task has a reference to its namespace until it enters another one or exits,
        // which only the task itself can do, so not before this function returns.
        Some(unsafe { Self::from_raw(net.as_ptr()) }.into())
    }

    /// Returns the namespace of an open file of the current task. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `get_net_ns_by_fd`.
    pub fn of_file(fd: i32) -> Result<ARef<Self>> {
        // SAFETY: The function accepts any number.
        let net = from_err_ptr(unsafe { bindings::rdma_helper_net_by_fd(fd) })?;
        let net = NonNull::new(net).ok_or(EINVAL)?;
        // SAFETY: The function returned a reference; the type is transparent.
        Ok(unsafe { ARef::from_raw(net.cast()) })
    }

    /// Returns whether the current task has a capability (`CAP_*`) in the namespace.
    pub fn capable(&self, capability: u32) -> bool {
        // CAST: A small number.
        let capability = capability as kernel::ffi::c_int;
        // SAFETY: The namespace is counted (type invariant).
        unsafe { bindings::rdma_helper_net_capable(self.as_raw(), capability) }
    }
}

impl Deref for CountedNet {
    type Target = Net;

    #[inline]
    fn deref(&self) -> &Net {
        &self.0
    }
}

impl PartialEq for CountedNet {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl PartialEq for Net {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for Net {}

impl PartialEq<CountedNet> for Net {
    fn eq(&self, other: &CountedNet) -> bool {
        *self == **other
    }
}

/// A network device (`struct net_device`).
///
/// # Invariants
///
/// A reference to the device is counted, or RCU keeps it, as long as a Rust reference to it exists.
#[repr(transparent)]
pub struct NetDevice(Opaque<bindings::net_device>);

// SAFETY: The type is transparent over the structure.
unsafe impl crate::edge::View for NetDevice {
    type C = bindings::net_device;
}

/// Result of C functions that return a network device with a reference for the caller, or null.
impl crate::edge::Answer for Option<ARef<NetDevice>> {
    type C = *mut bindings::net_device;

    #[inline]
    fn answer(self) -> Self::C {
        self.map_or(core::ptr::null_mut(), |device| {
            ARef::into_raw(device).as_ptr().cast()
        })
    }
}

// SAFETY: `struct net_device` may be used from any thread.
unsafe impl Send for NetDevice {}
// SAFETY: As for `Send`.
unsafe impl Sync for NetDevice {}

// SAFETY: `dev_hold` and `dev_put` count references to the device, which exists while there are
// any.
unsafe impl AlwaysRefCounted for NetDevice {
    #[inline]
    fn inc_ref(&self) {
        // SAFETY: The device is valid (type invariant).
        unsafe { bindings::rdma_helper_dev_hold(self.as_raw()) };
    }

    #[inline]
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller passes a reference that it owns.
        unsafe { bindings::rdma_helper_dev_put(obj.cast().as_ptr()) };
    }
}

crate::import! {
    in crate::bindings;

    /// Attributes of a valid device, which others may change at any time.
    fn netdev_mtu(device: &NetDevice) -> u32 = rdma_helper_netdev_mtu;
    fn netdev_ifindex(device: &NetDevice) -> i32 = rdma_helper_netdev_ifindex;
    fn netdev_type(device: &NetDevice) -> u16 = rdma_helper_netdev_type;
    fn netdev_addr_len(device: &NetDevice) -> u8 = rdma_helper_netdev_addr_len;
    fn netdev_flags(device: &NetDevice) -> u32 = rdma_helper_netdev_flags;
    fn netif_running(device: &NetDevice) -> bool = rdma_helper_netif_running;
    fn netif_carrier_ok(device: &NetDevice) -> bool = rdma_helper_netif_carrier_ok;
    fn netif_is_lag(device: &NetDevice) -> bool = rdma_helper_netif_is_lag;
    fn netdev_leaving(device: &NetDevice) -> bool = rdma_helper_netdev_leaving;
    fn netdev_is_unregistered(device: &NetDevice) -> bool = rdma_helper_netdev_is_unregistered;
    fn netdev_ll_reserved(device: &NetDevice) -> u32 = rdma_helper_netdev_ll_reserved;
    fn is_vlan_dev(device: &NetDevice) -> bool = rdma_helper_is_vlan_dev;
}

impl NetDevice {
    /// Converts a C pointer.
    ///
    /// # Safety
    ///
    /// `ptr` must be a valid device that is referenced, or kept by RCU, for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::net_device) -> &'a Self {
        // SAFETY: A valid device (contract of this function); the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// Returns the C structure, which exists as long as `self`.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// Takes a reference.
    #[inline]
    pub fn hold(&self) -> ARef<Self> {
        self.into()
    }

    /// Returns the current name.
    pub fn name(&self) -> DeviceName {
        let mut name = DeviceName([0; DeviceName::LEN]);
        // SAFETY: The device is valid (type invariant); its name is a NUL-terminated string.
        let mut src = unsafe { bindings::rdma_helper_netdev_name(self.as_raw()) }.cast::<u8>();
        // The last byte stays zero. A name that is changed concurrently is at worst a mixture of
        // both.
        for byte in name.0.iter_mut().take(DeviceName::LEN - 1) {
            // SAFETY: No NUL was read yet, so the string continues here.
            *byte = unsafe { src.read_volatile() };
            if *byte == 0 {
                break;
            }
            // SAFETY: At most one byte past the byte that was read, which is not the end of the
            // array.
            src = unsafe { src.add(1) };
        }
        name
    }

    /// Returns the MTU: the largest packet in bytes, without link-layer headers.
    #[inline]
    pub fn mtu(&self) -> u32 {
        netdev_mtu(self)
    }

    /// Returns the interface index, which is unique in the device's namespace.
    #[inline]
    pub fn ifindex(&self) -> u32 {
        let index = netdev_ifindex(self);
        // Interface indices are from 1 to `i32::MAX`.
        index.unsigned_abs()
    }

    /// Returns the type of hardware address: `ARPHRD_*`.
    #[inline]
    pub fn hardware_type(&self) -> u16 {
        netdev_type(self)
    }

    /// Returns the length of the hardware address in bytes.
    #[inline]
    pub fn addr_len(&self) -> u8 {
        netdev_addr_len(self)
    }

    /// Returns the first six bytes of the hardware address: the whole address on Ethernet, zeros if
    /// there is none.
    #[inline]
    pub fn mac(&self) -> [u8; 6] {
        // SAFETY: The device is valid (type invariant). Its address has `MAX_ADDR_LEN` bytes, 32,
        // and may change concurrently, which reads of bytes permit.
        unsafe {
            bindings::rdma_helper_netdev_addr(self.as_raw())
                .cast::<[u8; 6]>()
                .read_volatile()
        }
    }

    /// Returns the hardware address.
    pub fn hardware_addr(&self) -> HardwareAddr {
        // SAFETY: The device is valid (type invariant). Its address has `MAX_ADDR_LEN` bytes, 32.
        unsafe { read_address(bindings::rdma_helper_netdev_addr(self.as_raw()).cast()) }
    }

    /// Returns the broadcast address of the link.
    pub fn broadcast_addr(&self) -> HardwareAddr {
        // SAFETY: The device is valid (type invariant). The array has `MAX_ADDR_LEN` bytes, 32.
        unsafe { read_address(bindings::rdma_helper_netdev_broadcast(self.as_raw()).cast()) }
    }

    /// Returns the `IFF_*` flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        netdev_flags(self)
    }

    /// Returns whether the device is up and has a carrier, so that an RDMA port on it is active.
    #[inline]
    pub fn is_active(&self) -> bool {
        netif_running(self) && netif_carrier_ok(self)
    }

    /// Returns whether the device has a carrier.
    #[inline]
    pub fn has_carrier(&self) -> bool {
        netif_carrier_ok(self)
    }

    /// Returns whether the device is administratively up.
    #[inline]
    pub fn is_up(&self) -> bool {
        netif_running(self)
    }

    /// Returns whether the device is being unregistered, or has been. Under RTNL: the first event of
    /// that has been sent.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        netdev_leaving(self)
    }

    /// Returns whether the device has been unregistered: its index is free, and the event of that is
    /// repeated as long as there are references to the device.
    #[inline]
    pub fn is_unregistered(&self) -> bool {
        netdev_is_unregistered(self)
    }

    /// Returns whether the device is a bond or a slave of one.
    #[inline]
    pub fn is_lag(&self) -> bool {
        netif_is_lag(self)
    }

    /// Returns whether the device has an IPv4 address.
    pub fn has_ipv4(&self, _rcu: &rcu::Guard) -> bool {
        // SAFETY: The device is valid (type invariant), and RCU is held.
        unsafe { bindings::rdma_helper_netdev_has_ipv4(self.as_raw()) }
    }

    /// Returns the space that link-layer headers and trailers need around a packet, in bytes.
    #[inline]
    pub fn link_room(&self) -> u32 {
        netdev_ll_reserved(self)
    }

    /// Returns the speed in Mb/s and the number of lanes of the link; only the number of lanes if
    /// the driver reports an error; `None` if the device is not registered. May sleep.
    pub fn link_settings(&self, _rtnl: &RtnlGuard) -> Option<Result<(u32, u32), u32>> {
        let (mut mbps, mut lanes) = (0, 0);
        // SAFETY: The device is valid (type invariant). RTNL is held, so a registered device stays
        // registered.
        let answer = unsafe {
            if !bindings::rdma_helper_netdev_is_registered(self.as_raw()) {
                return None;
            }
            bindings::rdma_helper_link_settings(self.as_raw(), &mut mbps, &mut lanes)
        };
        Some(if answer == 0 {
            Ok((mbps, lanes))
        } else {
            Err(lanes)
        })
    }

    /// Returns the lower device and the VLAN ID, if this is a VLAN device.
    #[inline]
    pub fn vlan(&self) -> Option<(&NetDevice, u16)> {
        if !is_vlan_dev(self) {
            return None;
        }
        // SAFETY: This is a VLAN device, as checked, which holds a reference to its lower device.
        Some(unsafe {
            (
                NetDevice::from_raw(bindings::rdma_helper_vlan_real_dev(self.as_raw())),
                bindings::rdma_helper_vlan_id(self.as_raw()),
            )
        })
    }

    /// Adds the device to a multicast group: it receives packets to the group, and reports the
    /// membership to routers (IGMP, MLD). Memberships are counted. May sleep; takes the RTNL lock.
    ///
    /// # Errors
    ///
    /// `ENODEV` or `EINVAL` if the device does not support the family; `ENOMEM`.
    pub fn join_group(&self, group: IpAddr) -> Result {
        to_result(match group {
            // SAFETY: The device is valid (type invariant).
            IpAddr::V4(group) => unsafe {
                bindings::rdma_helper_join4(self.as_raw(), u32::from(group).to_be())
            },
            IpAddr::V6(group) => {
                let group = group.octets();
                // SAFETY: The device is valid (type invariant); the address has 16 bytes.
                unsafe { bindings::rdma_helper_join6(self.as_raw(), group.as_ptr().cast()) }
            }
        })
    }

    /// Undoes one [`Self::join_group`]. May sleep; takes the RTNL lock.
    pub fn leave_group(&self, group: IpAddr) {
        match group {
            // SAFETY: The device is valid (type invariant).
            IpAddr::V4(group) => unsafe {
                bindings::rdma_helper_leave4(self.as_raw(), u32::from(group).to_be())
            },
            IpAddr::V6(group) => {
                let group = group.octets();
                // SAFETY: The device is valid (type invariant); the address has 16 bytes.
                unsafe { bindings::rdma_helper_leave6(self.as_raw(), group.as_ptr().cast()) }
            }
        }
    }

    /// Returns the namespace of the device. A device that is referenced may be moved to another
    /// namespace, and the old one removed; both wait for RCU.
    #[inline]
    pub fn net<'a>(&'a self, _rcu: &'a rcu::Guard) -> &'a Net {
        // SAFETY: The device is valid (type invariant), so it has a namespace, which RCU keeps
        // while the guard exists, even if the device leaves it.
        unsafe { Net::from_raw(bindings::rdma_helper_dev_net_rcu(self.as_raw())) }
    }

    /// Returns whether the device currently is in this namespace.
    #[inline]
    pub fn is_in(&self, net: &Net) -> bool {
        self.net(&rcu::read_lock()) == net
    }
}

/// Reads a hardware address by words: read one by one, its bytes are two instructions each in every
/// caller.
///
/// # Safety
///
/// `at` must point to 32 bytes that are valid for reads. Others may change them meanwhile.
#[inline(always)]
unsafe fn read_address(at: *const u8) -> HardwareAddr {
    /// Words with the alignment of bytes.
    #[derive(Clone, Copy)]
    #[repr(C, packed)]
    struct Words([u64; 4]);

    // SAFETY: The bytes are valid (contract of this function); any bytes are words of this alignment.
    unsafe { core::mem::transmute::<Words, HardwareAddr>(at.cast::<Words>().read_volatile()) }
}

impl PartialEq for NetDevice {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for NetDevice {}

/// The name of a network device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DeviceName([u8; DeviceName::LEN]);

impl DeviceName {
    /// Maximum length of a name in bytes, including the NUL (`IFNAMSIZ`).
    pub const LEN: usize = 16;

    /// Returns the name without the NUL.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or(&[])
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(BStr::from_bytes(self.as_bytes()), f)
    }
}
