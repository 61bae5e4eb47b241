// SPDX-License-Identifier: GPL-2.0

//! Link layer, rate and speed of a port, and its virtual functions.

use super::edge::NetdevParams;
use super::edge::Setup;
use crate::device::Device;
use crate::proto::rates;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_uchar;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::Lent;
use rdma::edge::OutParam;
use rdma::edge::Passed;
use rdma::errno::eopnotsupp;
use rdma::net::rtnl;
use rdma::net::NetDevice;

/// Transport of a node type (`enum rdma_node_type`).
fn transport(node_type: u32) -> bindings::rdma_transport_type {
    match node_type {
        bindings::RDMA_NODE_USNIC => bindings::rdma_transport_type_RDMA_TRANSPORT_USNIC,
        bindings::RDMA_NODE_USNIC_UDP => bindings::rdma_transport_type_RDMA_TRANSPORT_USNIC_UDP,
        bindings::RDMA_NODE_RNIC => bindings::rdma_transport_type_RDMA_TRANSPORT_IWARP,
        bindings::RDMA_NODE_UNSPECIFIED => bindings::rdma_transport_type_RDMA_TRANSPORT_UNSPECIFIED,
        _ => bindings::rdma_transport_type_RDMA_TRANSPORT_IB,
    }
}

/// Link layer of a port, from the driver or derived from the node type.
pub(crate) fn link_layer(device: &Device, port: u32) -> bindings::rdma_link_layer {
    if let Some(layer) = device.driver().get_link_layer(port) {
        return layer;
    }
    let transport = transport(u32::from(device.node_type()));
    if transport == bindings::rdma_transport_type_RDMA_TRANSPORT_IB {
        bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND
    } else {
        bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET
    }
}

/// Assumed speed of a link that does not report one, in Mb/s.
const UNKNOWN_IS: u32 = 1000;

/// Speed in Mb/s and number of lanes of a network device. Takes RTNL.
fn link_speed(netdev: &NetDevice) -> Result<(u32, u32)> {
    /// `SPEED_UNKNOWN` of `ethtool.h`.
    const UNKNOWN: u32 = u32::MAX;
    let rtnl = rtnl::lock();
    let asked = netdev.link_settings(&rtnl);
    drop(rtnl);
    match asked.ok_or(ENODEV)? {
        Ok((mbps, lanes)) if mbps != UNKNOWN => Ok((mbps, lanes)),
        Ok((_, lanes)) => Ok((UNKNOWN_IS, lanes)),
        Err(lanes) => {
            pr_warn!(
                "{} speed is unknown, defaulting to {UNKNOWN_IS}\n",
                netdev.name()
            );
            Ok((UNKNOWN_IS, lanes))
        }
    }
}

/// Speed and width of a port's network device, in InfiniBand encoding. May sleep; takes RTNL.
///
/// # Errors
///
/// `EINVAL` for a port that is not Ethernet; `ENODEV` without a network device.
fn eth_speed(device: &Device, port: u32) -> Result<(rates::Speed, rates::Width)> {
    if link_layer(device, port) != bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET {
        return Err(EINVAL);
    }
    let netdev = device.netdev(port).ok_or(ENODEV)?;
    let (mbps, lanes) = link_speed(&netdev)?;
    Ok(rates::of_ethernet(mbps, lanes))
}

/// Name of a speed, and data rate per lane in units of 100 Mb/s.
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
        // Unknown speeds count as the lowest.
        _ => (c" SDR", 25),
    }
}

/// Rate of a port.
pub(crate) struct Rate {
    /// Name of the speed.
    pub(crate) name: &'static CStr,
    /// Rate in units of 100 Mb/s; negative for an invalid width.
    pub(crate) rate: c_int,
}

impl Rate {
    /// Computes the rate from `speed` and `width` in InfiniBand encoding.
    pub(crate) fn of(speed: u16, width: u8) -> Self {
        let (name, per_lane) = lane(u32::from(speed));
        let lanes = rates::Width::from_raw(u32::from(width)).map_or(-1, |width| {
            // CAST: At most twelve.
            width.lanes() as i32
        });
        Self {
            name,
            rate: per_lane.saturating_mul(lanes),
        }
    }
}

fn rate_or_none(rate: Option<u32>) -> c_int {
    rate.and_then(|rate| c_int::try_from(rate).ok())
        .unwrap_or(-1)
}

fn rate_to_mult(rate: bindings::ib_rate) -> c_int {
    rate_or_none(rates::mult(rate))
}

fn mult_to_rate(mult: c_int) -> bindings::ib_rate {
    u32::try_from(mult).map_or(rates::PORT_CURRENT, rates::from_mult)
}

fn rate_to_mbps(rate: bindings::ib_rate) -> c_int {
    rate_or_none(rates::mbps(rate))
}

fn speed_info(
    attr: Lent<'_, bindings::ib_port_attr>,
    mut info: OutParam<'_, bindings::ib_port_speed_info>,
) -> Result {
    let rate = Rate::of(attr.0.active_speed, attr.0.active_width);
    info.set(bindings::ib_port_speed_info {
        str_: rate.name.as_char_ptr(),
        rate: rate.rate,
    });
    if rate.rate < 0 {
        return Err(EINVAL);
    }
    Ok(())
}

fn get_eth_speed(
    device: &Device,
    port: u32,
    mut speed: OutParam<'_, u16>,
    mut width: OutParam<'_, u8>,
) -> Result {
    let (s, w) = eth_speed(device, port)?;
    speed.set(s as u16);
    width.set(w as u8);
    Ok(())
}

fn set_vf_link_state(device: &Device, vf: c_int, port: u32, state: c_int) -> Result {
    device.driver().set_vf_link_state(vf, port, state)
}

fn get_vf_config(
    device: &Device,
    vf: c_int,
    port: u32,
    info: Passed<bindings::ifla_vf_info>,
) -> Result {
    device.driver().get_vf_config(vf, port, info)
}

fn get_vf_stats(
    device: &Device,
    vf: c_int,
    port: u32,
    stats: Passed<bindings::ifla_vf_stats>,
) -> Result {
    device.driver().get_vf_stats(vf, port, stats)
}

fn set_vf_guid(device: &Device, vf: c_int, port: u32, guid: u64, kind: c_int) -> Result {
    device.driver().set_vf_guid(vf, port, guid, kind)
}

fn get_vf_guid(
    device: &Device,
    vf: c_int,
    port: u32,
    node: Passed<bindings::ifla_vf_guid>,
    of_port: Passed<bindings::ifla_vf_guid>,
) -> Result {
    device.driver().get_vf_guid(vf, port, node, of_port)
}

fn alloc_netdev(
    device: &Device,
    port: u32,
    kind: bindings::rdma_netdev_t,
    name: &CStr,
    name_assign_type: c_uchar,
    setup: Setup,
) -> Result<Owned<NetDevice>> {
    NetdevParams::of(device, port, kind)?.alloc(name, name_assign_type, setup)
}

fn init_netdev(
    device: &Device,
    port: u32,
    kind: bindings::rdma_netdev_t,
    _name: *const c_char,
    _name_assign_type: c_uchar,
    _setup: Setup,
    netdev: &NetDevice,
) -> Result {
    let params = NetdevParams::of(device, port, kind)?;
    params
        .initialize(netdev)
        .unwrap_or_else(|| Err(eopnotsupp()))
}

rdma::export! { in rdma::bindings;
    /// Converts a rate to a multiple of 2.5 Gb/s; -1 for an invalid rate.
    fn ib_rate_to_mult(rate: u32) -> c_int = rate_to_mult;
    /// Converts a multiple of 2.5 Gb/s to a rate; `IB_RATE_PORT_CURRENT` if there is none.
    fn mult_to_ib_rate(mult: c_int) -> u32 = mult_to_rate;
    /// Converts a rate to Mb/s; -1 for an invalid rate.
    fn ib_rate_to_mbps(rate: u32) -> c_int = rate_to_mbps;
    /// Returns the name of a port's speed, and its rate in units of 100 Mb/s. Errors: `EINVAL` for
    /// an invalid width.
    fn ib_port_attr_to_speed_info(
        attr: Lent<'_, bindings::ib_port_attr>, info: OutParam<'_, bindings::ib_port_speed_info>,
    ) -> Result = speed_info;
    /// See [`transport`].
    fn rdma_node_get_transport(node_type: u32) -> u32 = transport;
    /// See [`link_layer`].
    fn rdma_port_get_link_layer(device: &Device, port: u32) -> u32 = link_layer;
    /// See [`eth_speed`].
    fn ib_get_eth_speed(
        device: &Device, port: u32, speed: OutParam<'_, u16>, width: OutParam<'_, u8>,
    ) -> Result = get_eth_speed;
    /// Sets the link state of a virtual function. May sleep.
    fn ib_set_vf_link_state(device: &Device, vf: c_int, port: u32, state: c_int)
        -> Result = set_vf_link_state;
    /// Reads the configuration of a virtual function. May sleep.
    fn ib_get_vf_config(
        device: &Device, vf: c_int, port: u32, info: Passed<bindings::ifla_vf_info>,
    ) -> Result = get_vf_config;
    /// Reads the counters of a virtual function. May sleep.
    fn ib_get_vf_stats(
        device: &Device, vf: c_int, port: u32, stats: Passed<bindings::ifla_vf_stats>,
    ) -> Result = get_vf_stats;
    /// Sets the GUID of a virtual function. May sleep.
    fn ib_set_vf_guid(device: &Device, vf: c_int, port: u32, guid: u64, kind: c_int)
        -> Result = set_vf_guid;
    /// Reads the GUIDs of a virtual function. May sleep.
    fn ib_get_vf_guid(
        device: &Device, vf: c_int, port: u32, node: Passed<bindings::ifla_vf_guid>,
        of_port: Passed<bindings::ifla_vf_guid>,
    ) -> Result = get_vf_guid;
    /// Allocates a network device with the driver's parameters for a port. May sleep.
    fn rdma_alloc_netdev(
        device: &Device, port: u32, kind: u32, name: &CStr, name_assign_type: c_uchar,
        setup: Setup,
    ) -> Result<Owned<NetDevice>> = alloc_netdev;
    /// Has the driver initialise a network device from [`rdma_alloc_netdev`]. May sleep.
    fn rdma_init_netdev(
        device: &Device, port: u32, kind: u32, name: *const c_char, name_assign_type: c_uchar,
        setup: Setup, netdev: &NetDevice,
    ) -> Result = init_netdev;
}
