// SPDX-License-Identifier: GPL-2.0

//! What a port can do, how fast it is, and virtual functions behind it.

use super::object::code;
use super::object::method;
use super::object::outcome;
use crate::device::Device;
use crate::proto::rates;
use core::ptr::NonNull;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_uchar;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::net::rtnl;
use rdma::net::NetDevice;

/// What a port can do: `core_cap_flags` of its immutable data.
#[derive(Clone, Copy)]
pub(crate) struct Caps(u32);

impl Caps {
    /// Those of a port; none, if there is no such port. Any context.
    pub(crate) fn of(device: &Device, port: u32) -> Self {
        if !device.has_port(port) {
            return Self(0);
        }
        // SAFETY: Written before the device can have objects, by the port's number; not
        // changed after.
        Self(unsafe {
            let ports = (*device.as_raw()).port_data;
            if ports.is_null() {
                0
            } else {
                (*ports.add(port as usize)).immutable.core_cap_flags
            }
        })
    }

    const fn has(self, any_of: u32) -> bool {
        self.0 & any_of != 0
    }

    /// InfiniBand itself.
    pub(crate) const fn is_ib(self) -> bool {
        self.has(bindings::RDMA_CORE_CAP_PROT_IB)
    }

    /// Omni-Path's addresses.
    pub(crate) const fn is_opa(self) -> bool {
        self.has(bindings::RDMA_CORE_CAP_OPA_AH)
    }

    /// A subnet administrator.
    pub(crate) const fn has_sa(self) -> bool {
        self.has(bindings::RDMA_CORE_CAP_IB_SA)
    }

    /// RoCE of any version.
    pub(crate) const fn is_roce(self) -> bool {
        self.has(bindings::RDMA_CORE_CAP_PROT_ROCE | bindings::RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP)
    }

    /// Address vectors have Ethernet addresses.
    pub(crate) const fn has_eth_ah(self) -> bool {
        self.has(bindings::RDMA_CORE_CAP_ETH_AH)
    }

    /// Every address vector has a global route.
    pub(crate) const fn needs_grh(self) -> bool {
        self.is_roce() || self.has(bindings::RDMA_CORE_CAP_IB_GRH_REQUIRED)
    }

    /// The kind of address vectors of a port of this device.
    pub(crate) fn ah_type(self, device: &Device) -> bindings::rdma_ah_attr_type {
        // SAFETY: Written before the device is registered.
        let device_type = unsafe { (*device.as_raw()).type_ };
        if self.is_roce() {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE
        } else if self.is_ib() && self.has(bindings::RDMA_CORE_CAP_OPA_AH) {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA
        } else if self.is_ib() || device_type == bindings::rdma_nl_dev_type_RDMA_DEVICE_TYPE_SMI {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB
        } else {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_UNDEFINED
        }
    }
}

/// The transport of a type of node (`enum rdma_node_type`).
fn transport(node_type: c_uint) -> bindings::rdma_transport_type {
    match node_type {
        bindings::RDMA_NODE_USNIC => bindings::rdma_transport_type_RDMA_TRANSPORT_USNIC,
        bindings::RDMA_NODE_USNIC_UDP => bindings::rdma_transport_type_RDMA_TRANSPORT_USNIC_UDP,
        bindings::RDMA_NODE_RNIC => bindings::rdma_transport_type_RDMA_TRANSPORT_IWARP,
        bindings::RDMA_NODE_UNSPECIFIED => bindings::rdma_transport_type_RDMA_TRANSPORT_UNSPECIFIED,
        _ => bindings::rdma_transport_type_RDMA_TRANSPORT_IB,
    }
}

/// The link layer of a port: what the driver says, or else what the type of node says.
pub(crate) fn link_layer(device: &Device, port: u32) -> bindings::rdma_link_layer {
    if let Some(get) = device.ops().get_link_layer {
        // SAFETY: The device is alive; the method is the driver's own.
        return unsafe { get(device.as_raw(), port) };
    }
    // SAFETY: Written before the device is registered.
    let node_type = unsafe { (*device.as_raw()).node_type };
    if transport(c_uint::from(node_type)) == bindings::rdma_transport_type_RDMA_TRANSPORT_IB {
        bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND
    } else {
        bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET
    }
}

/// What is taken for the speed of a link that does not say, in Mb/s.
const UNKNOWN_IS: u32 = 1000;

/// Speed in Mb/s and lanes of a network device. Takes RTNL.
fn link_speed(netdev: &NetDevice) -> Result<(u32, u32)> {
    /// `SPEED_UNKNOWN` of `ethtool.h`.
    const UNKNOWN: u32 = u32::MAX;
    let (mut mbps, mut lanes) = (0, 0);
    let rtnl = rtnl::lock();
    // SAFETY: The device is held, RTNL is ours while it is asked.
    let asked = unsafe {
        if bindings::rdma_helper_netdev_is_registered(netdev.as_raw()) {
            Some(bindings::rdma_helper_link_settings(
                netdev.as_raw(),
                &mut mbps,
                &mut lanes,
            ))
        } else {
            None
        }
    };
    drop(rtnl);
    match asked {
        None => Err(ENODEV),
        Some(0) if mbps != UNKNOWN => Ok((mbps, lanes)),
        Some(0) => Ok((UNKNOWN_IS, lanes)),
        Some(_) => {
            pr_warn!(
                "{} speed is unknown, defaulting to {UNKNOWN_IS}\n",
                netdev.name()
            );
            Ok((UNKNOWN_IS, lanes))
        }
    }
}

/// Speed and width, in InfiniBand's words, of the network device under a port. May sleep;
/// takes RTNL.
///
/// # Errors
///
/// `EINVAL` for a port that is not of Ethernet; `ENODEV` without a network device.
pub(crate) fn eth_speed(device: &Device, port: u32) -> Result<(rates::Speed, rates::Width)> {
    if link_layer(device, port) != bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET {
        return Err(EINVAL);
    }
    // SAFETY: The device lives.
    let netdev = unsafe { bindings::ib_device_get_netdev(device.as_raw(), port) };
    let netdev = NonNull::new(netdev).ok_or(ENODEV)?;
    // SAFETY: The reference that came with it is ours.
    let netdev = unsafe { ARef::<NetDevice>::from_raw(netdev.cast()) };
    let (mbps, lanes) = link_speed(&netdev)?;
    Ok(rates::of_ethernet(mbps, lanes))
}

/// How a speed is called, and what a lane of it carries in units of 100 Mb/s.
fn lane(speed: u32) -> (&'static CStr, i32) {
    match speed {
        bindings::ib_port_speed_IB_SPEED_DDR => (c" DDR", 50),
        bindings::ib_port_speed_IB_SPEED_QDR => (c" QDR", 100),
        bindings::ib_port_speed_IB_SPEED_FDR10 => (c" FDR10", 100),
        bindings::ib_port_speed_IB_SPEED_FDR => (c" FDR", 140),
        bindings::ib_port_speed_IB_SPEED_EDR => (c" EDR", 250),
        bindings::ib_port_speed_IB_SPEED_HDR => (c" HDR", 500),
        bindings::ib_port_speed_IB_SPEED_NDR => (c" NDR", 1000),
        bindings::ib_port_speed_IB_SPEED_XDR => (c" XDR", 2000),
        // What no standard knows is taken for the lowest.
        _ => (c" SDR", 25),
    }
}

fn rate_or_none(rate: Option<u32>) -> c_int {
    rate.and_then(|rate| c_int::try_from(rate).ok())
        .unwrap_or(-1)
}

// What other modules call.

rdma::exported!(
    ib_rate_to_mult,
    mult_to_ib_rate,
    ib_rate_to_mbps,
    ib_port_attr_to_speed_info,
    rdma_node_get_transport,
    rdma_port_get_link_layer,
    ib_get_eth_speed,
    ib_set_vf_link_state,
    ib_get_vf_config,
    ib_get_vf_stats,
    ib_set_vf_guid,
    ib_get_vf_guid,
    rdma_alloc_netdev,
    rdma_init_netdev,
);

/// A rate in units of 2.5 Gb/s; -1 for what is no rate.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_rate_to_mult(rate: bindings::ib_rate) -> c_int {
    rate_or_none(rates::mult(rate))
}

/// The rate of so many units of 2.5 Gb/s, or `IB_RATE_PORT_CURRENT`.
#[no_mangle]
pub(crate) unsafe extern "C" fn mult_to_ib_rate(mult: c_int) -> bindings::ib_rate {
    u32::try_from(mult).map_or(rates::PORT_CURRENT, rates::from_mult)
}

/// A rate in Mb/s; -1 for what is no rate.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_rate_to_mbps(rate: bindings::ib_rate) -> c_int {
    rate_or_none(rates::mbps(rate))
}

/// The name of a port's speed, and the rate in units of 100 Mb/s.
///
/// # Safety
///
/// Both are valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_port_attr_to_speed_info(
    attr: *mut bindings::ib_port_attr,
    info: *mut bindings::ib_port_speed_info,
) -> c_int {
    // SAFETY: By this function's duty.
    let (attr, info) = unsafe { (&*attr, &mut *info) };
    let (name, per_lane) = lane(u32::from(attr.active_speed));
    let lanes = rates::Width::from_raw(u32::from(attr.active_width)).map_or(-1, |width| {
        // Twelve at most.
        width.lanes() as i32
    });
    info.str_ = name.as_char_ptr();
    info.rate = per_lane.saturating_mul(lanes);
    if info.rate < 0 {
        return EINVAL.to_errno();
    }
    0
}

/// See [`transport`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_node_get_transport(
    node_type: c_uint,
) -> bindings::rdma_transport_type {
    transport(node_type)
}

/// See [`link_layer`].
///
/// # Safety
///
/// `device` is alive.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_port_get_link_layer(
    device: *mut bindings::ib_device,
    port: u32,
) -> bindings::rdma_link_layer {
    // SAFETY: By this function's duty.
    link_layer(unsafe { Device::from_raw(device) }, port)
}

/// See [`eth_speed`].
///
/// # Safety
///
/// `device` is alive, and the places are valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_get_eth_speed(
    device: *mut bindings::ib_device,
    port: u32,
    speed: *mut u16,
    width: *mut u8,
) -> c_int {
    // SAFETY: By this function's duty.
    code(
        eth_speed(unsafe { Device::from_raw(device) }, port).map(|(s, w)| {
            // SAFETY: By this function's duty.
            unsafe {
                *speed = s as u16;
                *width = w as u8;
            }
        }),
    )
}

/// Hands a call to the driver's optional method of the same arguments.
macro_rules! hand_on {
    ($(
        $(#[$doc:meta])*
        $name:ident, $method:ident($($arg:ident: $type:ty),*);
    )*) => { $(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// `device` is alive, and what the method writes to is valid.
        #[no_mangle]
        pub(crate) unsafe extern "C" fn $name(device: *mut bindings::ib_device $(, $arg: $type)*) -> c_int {
            // SAFETY: By this function's duty.
            let ops = unsafe { Device::from_raw(device) }.ops();
            code(method(ops.$method).and_then(|method| {
                // SAFETY: By this function's duty; the method is the driver's own.
                outcome(unsafe { method(device $(, $arg)*) })
            }))
        }
    )* };
}

hand_on! {
    /// Sets the state of a virtual function's link. May sleep.
    ib_set_vf_link_state, set_vf_link_state(vf: c_int, port: u32, state: c_int);
    /// Reads what a virtual function is set to. May sleep.
    ib_get_vf_config, get_vf_config(vf: c_int, port: u32, info: *mut bindings::ifla_vf_info);
    /// Reads a virtual function's counters. May sleep.
    ib_get_vf_stats, get_vf_stats(vf: c_int, port: u32, stats: *mut bindings::ifla_vf_stats);
    /// Sets a virtual function's GUID. May sleep.
    ib_set_vf_guid, set_vf_guid(vf: c_int, port: u32, guid: u64, kind: c_int);
    /// Reads a virtual function's GUIDs. May sleep.
    ib_get_vf_guid, get_vf_guid(
        vf: c_int, port: u32,
        node: *mut bindings::ifla_vf_guid, of_port: *mut bindings::ifla_vf_guid
    );
}

type Setup = Option<unsafe extern "C" fn(*mut bindings::net_device)>;

/// What the driver wants for a network device of its own on a port.
fn netdev_params(
    device: &Device,
    port: u32,
    kind: bindings::rdma_netdev_t,
) -> Result<bindings::rdma_netdev_alloc_params> {
    let get = method(device.ops().rdma_netdev_get_params)?;
    let mut params = bindings::rdma_netdev_alloc_params::default();
    // SAFETY: The device is alive; the method is the driver's own and fills in the structure.
    outcome(unsafe { get(device.as_raw(), port, kind, &mut params) })?;
    Ok(params)
}

/// Allocates a network device for a port, such as the driver wants it. May sleep.
///
/// # Safety
///
/// `device` is alive, `name` a string, `setup` fit for `alloc_netdev_mqs`.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_alloc_netdev(
    device: *mut bindings::ib_device,
    port: u32,
    kind: bindings::rdma_netdev_t,
    name: *const c_char,
    name_assign_type: c_uchar,
    setup: Setup,
) -> *mut bindings::net_device {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    let made = netdev_params(device, port, kind).and_then(|params| {
        // SAFETY: By this function's duty.
        let netdev = unsafe {
            bindings::rdma_helper_alloc_netdev(
                params.sizeof_priv,
                name,
                name_assign_type,
                setup,
                params.txqs,
                params.rxqs,
            )
        };
        NonNull::new(netdev).ok_or(ENOMEM)
    });
    super::object::pointer(made)
}

/// Lets the driver set up a network device that [`rdma_alloc_netdev`] made. May sleep.
///
/// # Safety
///
/// `device` is alive, and `netdev` such a device.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_init_netdev(
    device: *mut bindings::ib_device,
    port: u32,
    kind: bindings::rdma_netdev_t,
    _name: *const c_char,
    _name_assign_type: c_uchar,
    _setup: Setup,
    netdev: *mut bindings::net_device,
) -> c_int {
    // SAFETY: By this function's duty.
    let this = unsafe { Device::from_raw(device) };
    code(netdev_params(this, port, kind).and_then(|params| {
        let init = method(params.initialize_rdma_netdev)?;
        // SAFETY: By this function's duty; method and parameter are the driver's own.
        outcome(unsafe { init(device, port, netdev, params.param) })
    }))
}
