// SPDX-License-Identifier: GPL-2.0

//! Network devices and network namespaces.
//!
//! Both are counted by C; hold them in an `ARef`. A namespace whose count may have gone is a
//! [`Net`], one that is counted a [`CountedNet`]. Attributes that others may change at any time
//! are returned by value.
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

/// A network namespace (`struct net`), of which one knows that its memory is there.
///
/// Its count may have gone, and its subsystems with it. Who wants more than to compare it or to
/// look for routes needs a [`CountedNet`], by [`Net::try_hold`].
///
/// # Invariants
///
/// The namespace is counted, or RCU protects it, for as long as a Rust reference to it exists.
/// (When its last count has gone, it waits for RCU before it takes its subsystems down.)
#[repr(transparent)]
pub struct Net(Opaque<bindings::net>);

// SAFETY: Transparent over the structure.
unsafe impl crate::edge::View for Net {
    type C = bindings::net;
}

// SAFETY: `struct net` is made for use from any thread.
unsafe impl Send for Net {}
// SAFETY: As for `Send`.
unsafe impl Sync for Net {}

impl Net {
    /// The namespace that a C pointer refers to.
    ///
    /// # Safety
    ///
    /// `ptr` must be a valid namespace and keep the invariant of [`Net`] for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::net) -> &'a Self {
        // SAFETY: The caller promises a valid object; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The C object.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::net {
        self.0.get()
    }

    /// A count of one's own, unless the namespace is going.
    #[inline]
    pub fn try_hold(&self) -> Option<ARef<CountedNet>> {
        // SAFETY: By the type invariant, the object is there, and its count may be zero.
        let net = unsafe { bindings::rdma_helper_maybe_get_net(self.as_raw()) };
        // SAFETY: If there is one, it was counted for us; the type is transparent.
        NonNull::new(net).map(|net| unsafe { ARef::from_raw(net.cast()) })
    }

    /// The device of this number, held. Any context.
    pub fn device_by_index(&self, ifindex: i32) -> Option<ARef<NetDevice>> {
        // SAFETY: The namespace is there (type invariant). What is found is counted for us; the type
        // is transparent.
        unsafe {
            NonNull::new(bindings::rdma_helper_dev_get_by_index(
                self.as_raw(),
                ifindex,
            ))
            .map(|dev| ARef::from_raw(dev.cast()))
        }
    }

    /// A device of the namespace that has this address. Any context.
    pub fn device_with<'a>(&'a self, ip: IpAddr, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        // SAFETY: The namespace is there (type invariant). RCU protects its list of devices and
        // what is found, and the address is read during the call.
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

    /// The namespace of the first process. It never goes away.
    #[inline]
    pub fn init() -> &'static CountedNet {
        // SAFETY: `init_net` is a static object of the kernel, whose count never goes.
        unsafe { CountedNet::from_raw(bindings::rdma_helper_init_net()) }
    }
}

/// A network namespace that stays: with its sockets, its devices, and what [`Pernet`] keeps in it.
///
/// [`Pernet`]: super::pernet::Pernet
///
/// # Invariants
///
/// Somebody has a count of the namespace for as long as a Rust reference to it exists.
#[repr(transparent)]
pub struct CountedNet(Net);

// SAFETY: `get_net` and `put_net` count the namespace, which lives while it is counted.
unsafe impl AlwaysRefCounted for CountedNet {
    #[inline]
    fn inc_ref(&self) {
        // SAFETY: By the type invariant, the count is not zero.
        let _: *mut bindings::net = unsafe { bindings::rdma_helper_get_net(self.as_raw()) };
    }

    #[inline]
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference that it owns.
        unsafe { bindings::rdma_helper_put_net(obj.cast().as_ptr()) };
    }
}

impl CountedNet {
    /// The namespace that a C pointer refers to.
    ///
    /// # Safety
    ///
    /// `ptr` must be a namespace of which somebody has a count for `'a`: a task that is in it, a
    /// socket of a user, a reference of the caller's.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::net) -> &'a Self {
        // SAFETY: The caller promises a counted namespace; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The namespace of the current task.
    pub fn current() -> ARef<Self> {
        // SAFETY: The task has a count of its namespace until it enters another, which only it
        // does: not before this function returns.
        unsafe { Self::from_raw(bindings::rdma_helper_current_net()) }.into()
    }

    /// The namespace of an open file of the current task. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `get_net_ns_by_fd`.
    pub fn of_file(fd: i32) -> Result<ARef<Self>> {
        // SAFETY: It takes any number.
        let net = from_err_ptr(unsafe { bindings::rdma_helper_net_by_fd(fd) })?;
        let net = NonNull::new(net).ok_or(EINVAL)?;
        // SAFETY: The namespace was counted for us; the type is transparent.
        Ok(unsafe { ARef::from_raw(net.cast()) })
    }

    /// Whether the current task has a capability (`CAP_*`) in the namespace.
    pub fn capable(&self, capability: u32) -> bool {
        // CAST: A small number.
        let capability = capability as kernel::ffi::c_int;
        // SAFETY: The namespace is counted.
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
/// The device has a reference (or RCU protects it) for as long as a Rust reference
/// to it exists.
#[repr(transparent)]
pub struct NetDevice(Opaque<bindings::net_device>);

// SAFETY: Transparent over the structure.
unsafe impl crate::edge::View for NetDevice {
    type C = bindings::net_device;
}

/// For C functions that return a network device with a reference for the caller, or null.
impl crate::edge::Answer for Option<ARef<NetDevice>> {
    type C = *mut bindings::net_device;

    #[inline]
    fn answer(self) -> Self::C {
        self.map_or(core::ptr::null_mut(), |device| {
            ARef::into_raw(device).as_ptr().cast()
        })
    }
}

// SAFETY: `struct net_device` is made for use from any thread.
unsafe impl Send for NetDevice {}
// SAFETY: See `Send`.
unsafe impl Sync for NetDevice {}

// SAFETY: `dev_hold` and `dev_put` count the device, which lives while it is counted.
unsafe impl AlwaysRefCounted for NetDevice {
    #[inline]
    fn inc_ref(&self) {
        // SAFETY: By the reference, the device is alive.
        unsafe { bindings::rdma_helper_dev_hold(self.as_raw()) };
    }

    #[inline]
    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up a reference that it owns.
        unsafe { bindings::rdma_helper_dev_put(obj.cast().as_ptr()) };
    }
}

crate::import! {
    in crate::bindings;

    /// Attributes of a device that is alive, which others may change at any time.
    fn netdev_mtu(device: &NetDevice) -> u32 = rdma_helper_netdev_mtu;
    fn netdev_ifindex(device: &NetDevice) -> i32 = rdma_helper_netdev_ifindex;
    fn netdev_type(device: &NetDevice) -> u16 = rdma_helper_netdev_type;
    fn netdev_addr_len(device: &NetDevice) -> u8 = rdma_helper_netdev_addr_len;
    fn netdev_flags(device: &NetDevice) -> u32 = rdma_helper_netdev_flags;
    fn netif_running(device: &NetDevice) -> bool = rdma_helper_netif_running;
    fn netif_carrier_ok(device: &NetDevice) -> bool = rdma_helper_netif_carrier_ok;
    fn netif_is_lag(device: &NetDevice) -> bool = rdma_helper_netif_is_lag;
    fn netdev_ll_reserved(device: &NetDevice) -> u32 = rdma_helper_netdev_ll_reserved;
    fn is_vlan_dev(device: &NetDevice) -> bool = rdma_helper_is_vlan_dev;
}

impl NetDevice {
    /// The device that a C pointer refers to.
    ///
    /// # Safety
    ///
    /// `ptr` must be a valid device that is referenced, or protected by an RCU
    /// read-side section, for `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::net_device) -> &'a Self {
        // SAFETY: The caller promises a valid object; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The C object.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    /// A reference of one's own.
    #[inline]
    pub fn hold(&self) -> ARef<Self> {
        self.into()
    }

    /// The name, as it is now.
    pub fn name(&self) -> DeviceName {
        let mut name = DeviceName([0; DeviceName::LEN]);
        // SAFETY: The device is alive; its name is a terminated string.
        let mut src = unsafe { bindings::rdma_helper_netdev_name(self.as_raw()) }.cast::<u8>();
        // The last byte stays zero: a name that changes meanwhile is garbled at worst.
        for byte in name.0.iter_mut().take(DeviceName::LEN - 1) {
            // SAFETY: No terminator was seen yet, so the string goes on here.
            *byte = unsafe { src.read_volatile() };
            if *byte == 0 {
                break;
            }
            // SAFETY: As above; at most one past the byte that was read.
            src = unsafe { src.add(1) };
        }
        name
    }

    /// Largest packet in bytes, headers of the link layer not counted.
    #[inline]
    pub fn mtu(&self) -> u32 {
        netdev_mtu(self)
    }

    /// Number of the device, unique in its namespace.
    #[inline]
    pub fn ifindex(&self) -> u32 {
        let index = netdev_ifindex(self);
        // The kernel gives numbers from 1 to `i32::MAX`.
        index.unsigned_abs()
    }

    /// Kind of hardware address: `ARPHRD_*`.
    #[inline]
    pub fn hardware_type(&self) -> u16 {
        netdev_type(self)
    }

    /// Bytes in the hardware address.
    #[inline]
    pub fn addr_len(&self) -> u8 {
        netdev_addr_len(self)
    }

    /// The first six bytes of the hardware address: all of it on Ethernet, zeros
    /// where there is none.
    #[inline]
    pub fn mac(&self) -> [u8; 6] {
        // SAFETY: The device is alive (type invariant). Its address has `MAX_ADDR_LEN` bytes, 32; it
        // may change meanwhile, which bytes tolerate.
        unsafe {
            bindings::rdma_helper_netdev_addr(self.as_raw())
                .cast::<[u8; 6]>()
                .read_volatile()
        }
    }

    /// The hardware address.
    pub fn hardware_addr(&self) -> HardwareAddr {
        // SAFETY: As in `mac`.
        unsafe {
            bindings::rdma_helper_netdev_addr(self.as_raw())
                .cast::<HardwareAddr>()
                .read_volatile()
        }
    }

    /// The hardware address of all devices on its link.
    pub fn broadcast_addr(&self) -> HardwareAddr {
        // SAFETY: The device is alive (type invariant). The array has `MAX_ADDR_LEN` bytes, 32; it
        // may change meanwhile, which bytes tolerate.
        unsafe {
            bindings::rdma_helper_netdev_broadcast(self.as_raw())
                .cast::<HardwareAddr>()
                .read_volatile()
        }
    }

    /// `IFF_*` flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        netdev_flags(self)
    }

    /// Whether the device is up and has a carrier: then an RDMA port on it is active.
    #[inline]
    pub fn is_active(&self) -> bool {
        netif_running(self) && netif_carrier_ok(self)
    }

    /// Whether the device has a carrier.
    #[inline]
    pub fn has_carrier(&self) -> bool {
        netif_carrier_ok(self)
    }

    /// Whether the device is administratively up.
    #[inline]
    pub fn is_up(&self) -> bool {
        netif_running(self)
    }

    /// Whether it is a bond, or a port of one.
    #[inline]
    pub fn is_lag(&self) -> bool {
        netif_is_lag(self)
    }

    /// Whether it has an IPv4 address.
    pub fn has_ipv4(&self, _rcu: &rcu::Guard) -> bool {
        // SAFETY: By the type invariant, the device is alive, and RCU is held.
        unsafe { bindings::rdma_helper_netdev_has_ipv4(self.as_raw()) }
    }

    /// Bytes to keep free around a packet for link layer headers and trailers.
    #[inline]
    pub fn link_room(&self) -> u32 {
        netdev_ll_reserved(self)
    }

    /// Speed in Mb/s and lanes of the link; the lanes alone in place of an error of the driver's;
    /// none if the device is not registered. May sleep.
    pub fn link_settings(&self, _rtnl: &RtnlGuard) -> Option<Result<(u32, u32), u32>> {
        let (mut mbps, mut lanes) = (0, 0);
        // SAFETY: By the type invariant, the device is alive. RTNL is held, so a registered device
        // stays that.
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

    /// The device below and the VLAN number, if this is a VLAN device.
    #[inline]
    pub fn vlan(&self) -> Option<(&NetDevice, u16)> {
        if !is_vlan_dev(self) {
            return None;
        }
        // SAFETY: This is a VLAN device, which holds a reference to the device below it.
        Some(unsafe {
            (
                NetDevice::from_raw(bindings::rdma_helper_vlan_real_dev(self.as_raw())),
                bindings::rdma_helper_vlan_id(self.as_raw()),
            )
        })
    }

    /// Makes the device a member of a multicast group: packets to it are received, and
    /// routers hear of it (IGMP, MLD). Memberships are counted. May sleep; takes the
    /// RTNL lock.
    ///
    /// # Errors
    ///
    /// `ENODEV` or `EINVAL` if the device has nothing to do with that family, `ENOMEM`.
    pub fn join_group(&self, group: IpAddr) -> Result {
        to_result(match group {
            // SAFETY: By the type invariant, the device is alive.
            IpAddr::V4(group) => unsafe {
                bindings::rdma_helper_join4(self.as_raw(), u32::from(group).to_be())
            },
            IpAddr::V6(group) => {
                let group = group.octets();
                // SAFETY: As above; the address is 16 bytes.
                unsafe { bindings::rdma_helper_join6(self.as_raw(), group.as_ptr().cast()) }
            }
        })
    }

    /// Ends one [`Self::join_group`]. May sleep; takes the RTNL lock.
    pub fn leave_group(&self, group: IpAddr) {
        match group {
            // SAFETY: By the type invariant, the device is alive.
            IpAddr::V4(group) => unsafe {
                bindings::rdma_helper_leave4(self.as_raw(), u32::from(group).to_be())
            },
            IpAddr::V6(group) => {
                let group = group.octets();
                // SAFETY: As above; the address is 16 bytes.
                unsafe { bindings::rdma_helper_leave6(self.as_raw(), group.as_ptr().cast()) }
            }
        }
    }

    /// The namespace in which the device is. A device that is held may be moved out of it,
    /// which then may end: whoever moves it waits for RCU, and so does a namespace that ends.
    #[inline]
    pub fn net<'a>(&'a self, _rcu: &'a rcu::Guard) -> &'a Net {
        // SAFETY: By the type invariant, the device is alive, so it has a namespace, which
        // RCU protects while the guard lives, even if the device leaves it.
        unsafe { Net::from_raw(bindings::rdma_helper_dev_net_rcu(self.as_raw())) }
    }

    /// Whether the device is in that namespace, now.
    #[inline]
    pub fn is_in(&self, net: &Net) -> bool {
        self.net(&rcu::read_lock()) == net
    }
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
    /// Bytes in the longest name, terminator included (`IFNAMSIZ`).
    pub const LEN: usize = 16;

    /// The name without its terminator.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or(&[])
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(BStr::from_bytes(self.as_bytes()), f)
    }
}
