// SPDX-License-Identifier: GPL-2.0

//! Address vectors of replies, from the headers of a received packet ([`crate::proto::roce`]).

use super::ah;
use super::edge::GrhArg;
use super::edge::Headers;
use super::edge::Received;
use super::edge::WcArg;
use crate::addr;
use crate::device::Caps;
use crate::device::Device;
use crate::gid;
use crate::gid::edge::raw;
use crate::gid::GidRef;
use crate::object::ah_attr::set_route;
use crate::object::ah_attr::Replace;
use crate::object::tables::Ah;
use crate::object::tables::AhAttr;
use crate::object::Filled;
use crate::object::Object;
use crate::object::Out;
use crate::object::Owned;
use crate::object::Pd;
use crate::proto::gid::Gid;
use crate::proto::roce;
use crate::proto::roce::Header;
use crate::proto::roce::AREA;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::wc::Wc;
use rdma::edge::OutParam;
use rdma::edge::Passed;
use rdma::errno::eprototype;

/// Source and destination GID of a packet with this network type.
///
/// # Errors
///
/// `EINVAL` for a network type without such headers.
fn ends(area: &[u8; AREA], network: bindings::rdma_network_type) -> Result<roce::Ends> {
    match network {
        bindings::rdma_network_type_RDMA_NETWORK_IPV4 => Ok(roce::ends(area, Header::Ipv4)),
        bindings::rdma_network_type_RDMA_NETWORK_IPV6
        | bindings::rdma_network_type_RDMA_NETWORK_IB
        | bindings::rdma_network_type_RDMA_NETWORK_ROCE_V1 => Ok(roce::ends(area, Header::Ipv6)),
        _ => Err(EINVAL),
    }
}

/// Network type of a received packet.
fn network_of(caps: Caps, area: &[u8; AREA]) -> bindings::rdma_network_type {
    if caps.is_ib() {
        bindings::rdma_network_type_RDMA_NETWORK_IB
    } else if roce::header(area) == Some(Header::Ipv4) {
        bindings::rdma_network_type_RDMA_NETWORK_IPV4
    } else if roce::is_udp(area) {
        bindings::rdma_network_type_RDMA_NETWORK_IPV6
    } else {
        bindings::rdma_network_type_RDMA_NETWORK_ROCE_V1
    }
}

/// GID type for packets with this network type.
const fn gid_type(network: bindings::rdma_network_type) -> bindings::ib_gid_type {
    match network {
        bindings::rdma_network_type_RDMA_NETWORK_IPV4
        | bindings::rdma_network_type_RDMA_NETWORK_IPV6 => {
            bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP
        }
        bindings::rdma_network_type_RDMA_NETWORK_ROCE_V1 => bindings::ib_gid_type_IB_GID_TYPE_ROCE,
        _ => bindings::ib_gid_type_IB_GID_TYPE_IB,
    }
}

/// A vector under construction. Releases its GID reference unless it is completed.
struct Draft<'a>(&'a AhAttr);

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        self.0.sgid_attr().replace(None);
    }
}

/// Looks up the local GID that a packet was addressed to.
///
/// # Errors
///
/// Those of the GID lookup.
fn local_gid(
    device: &Device,
    port: u32,
    caps: Caps,
    wc: &Wc,
    network: u32,
    to: Gid,
) -> Result<GidRef> {
    const WELL_KNOWN_GUID: [u8; 8] = (1u64 << 57 | 2).to_be_bytes();
    if caps.is_roce() {
        let vlan = if wc.has(bindings::ib_wc_flags_IB_WC_WITH_VLAN) {
            wc.vlan_id()
        } else {
            addr::NO_VLAN
        };
        let gid_type = gid_type(network);
        return gid::find_by(device, to, port, |entry| {
            entry.gid_type() == gid_type && entry.vlan_id() == Ok(vlan)
        });
    }
    if to.0.ends_with(&WELL_KNOWN_GUID) {
        gid::get_ref(device, port, 0)
    } else {
        let kind = bindings::ib_gid_type_IB_GID_TYPE_IB;
        gid::find_by_port(device, to, kind, port, Passed::NULL)
    }
}

/// Initialises the address vector for a reply to a received packet. For RoCE, this resolves the
/// link-layer address, which may take a second. May sleep. `attr` must not hold a GID reference; on
/// success, it may.
///
/// # Errors
///
/// `EPROTOTYPE` for a RoCE packet without a GRH; those of the GID lookup and the address
/// resolution.
fn init_from_wc(device: &Device, port: u32, packet: &Received<'_>, attr: &AhAttr) -> Result {
    let wc = packet.wc();
    let caps = Caps::of(device, port);
    attr.assign(&AhAttr::default());
    attr.set_kind(caps.ah_type(device));
    attr.set_sl(wc.sl());
    attr.set_port_num(port);
    let headers = packet.headers();
    if caps.is_roce() && headers.is_none() {
        return Err(eprototype());
    }
    if !caps.is_roce() {
        match attr.kind() {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB => {
                // CAST: InfiniBand LIDs have 16 bits.
                attr.set_ib(wc.slid() as u16, wc.dlid_path_bits());
            }
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA => {
                attr.set_opa(wc.slid(), wc.dlid_path_bits(), false);
            }
            _ => {}
        }
    }
    let Some(area) = headers else {
        return Ok(());
    };
    let network = if !caps.has_eth_ah() {
        bindings::rdma_network_type_RDMA_NETWORK_IB
    } else if wc.has(bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE) {
        u32::from(wc.network_hdr_type())
    } else {
        network_of(caps, &area)
    };
    let ends = ends(&area, network)?;
    let local = local_gid(device, port, caps, wc, network, ends.destination)?;
    let (class, label) = roce::class_and_label(&area);
    set_route(attr, Some(ends.source), label, 0xff, class, local);
    let draft = Draft(attr);
    if caps.is_roce() {
        addr::resolve_unicast(&mut Filled::new(device, draft.0)?)?;
    }
    core::mem::forget(draft);
    Ok(())
}

fn init_ah_attr(
    device: &Device,
    port: u32,
    wc: WcArg<'_>,
    grh: GrhArg<'_>,
    attr: Out<'_, AhAttr>,
) -> Result {
    init_from_wc(device, port, &Received::of_call(wc, grh), &attr)
}

/// Creates a handle for replies to a received packet, whose buffer begins with `area`. May sleep.
///
/// # Errors
///
/// `ENOMEM`; errors of address resolution; errors of the driver.
pub(crate) fn create_reply(pd: &Pd, wc: &Wc, area: &[u8; AREA], port: u32) -> Result<Owned<Ah>> {
    create(pd, &Received::new(wc, area), port)
}

fn create_ah(pd: &Pd, wc: WcArg<'_>, grh: GrhArg<'_>, port: u32) -> Result<Owned<Ah>> {
    create(pd, &Received::of_call(wc, grh), port)
}

fn create(pd: &Pd, packet: &Received<'_>, port: u32) -> Result<Owned<Ah>> {
    let attr = AhAttr::default();
    init_from_wc(pd.device(), port, packet, &attr)?;
    let draft = Draft(&attr);
    let flags = bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE;
    ah::create(pd, draft.0, flags)
}

fn header_version(headers: Headers) -> c_int {
    match roce::header(&headers.0) {
        Some(Header::Ipv4) => 4,
        Some(Header::Ipv6) => 6,
        None => 0,
    }
}

fn gids(
    headers: Headers,
    network: u32,
    source: Option<OutParam<'_, bindings::ib_gid>>,
    destination: Option<OutParam<'_, bindings::ib_gid>>,
) -> Result {
    let (Some(mut source), Some(mut destination)) = (source, destination) else {
        return Err(EINVAL);
    };
    let ends = ends(&headers.0, network)?;
    source.set(raw(ends.source));
    destination.set(raw(ends.destination));
    Ok(())
}

rdma::export! { in rdma::bindings;
    /// Returns the version of the IP header of a datagram: 4, 6, or 0 for neither.
    fn ib_get_rdma_header_version(headers: Headers) -> c_int = header_version;
    /// Returns the source and destination GID of a packet. Errors: `EINVAL` for a network type
    /// without such headers.
    fn ib_get_gids_from_rdma_hdr(
        headers: Headers, network: u32, sgid: Option<OutParam<'_, bindings::ib_gid>>,
        dgid: Option<OutParam<'_, bindings::ib_gid>>,
    ) -> Result = gids;
    /// See [`init_from_wc`].
    fn ib_init_ah_attr_from_wc(
        device: &Device, port: u32, wc: WcArg<'_>, grh: GrhArg<'_>, attr: Out<'_, AhAttr>,
    ) -> Result = init_ah_attr;
    /// Creates a handle for replies to a received packet. May sleep.
    fn ib_create_ah_from_wc(pd: &Pd, wc: WcArg<'_>, grh: GrhArg<'_>, port: u32)
        -> Result<Owned<Ah>> = create_ah;
}
