// SPDX-License-Identifier: GPL-2.0

//! Selection of the bond port that a path uses.
//!
//! A bond distributes packets by a hash of their headers. A RoCEv2 path with a flow label has a UDP
//! source port of its own. For such a path, a sample packet is built and the bond is asked for its
//! transmit port. Some hardware binds the path to that port.

use super::edge::Sample;
use super::netdev_of_gid;
use crate::device::Device;
use crate::object::Filled;
use crate::proto::roce;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use rdma::bindings;
use rdma::net::skb::PROTOCOL_IPV4;
use rdma::net::skb::PROTOCOL_IPV6;
use rdma::net::AddrPair;
use rdma::net::NetDevice;

/// UDP destination port of RoCEv2.
const ROCE_PORT: u16 = 4791;
/// IP protocol number of UDP.
const UDP: u8 = 17;
const ETHERNET: usize = 14;
const UDP_HEADER: u16 = 8;

/// Headers of a sample packet, as far as the bond's hash reads them.
struct Headers {
    bytes: KVec<u8>,
    ip_at: usize,
    udp_at: usize,
    is_v4: bool,
}

fn headers(path: &Filled<'_>, may_sleep: bool) -> Result<Headers> {
    let flags = if may_sleep { GFP_KERNEL } else { GFP_ATOMIC };
    let gid = path.gid().ok_or(EINVAL)?;
    let from = gid.gid().0;
    let smac = gid
        .ndev_rcu(&rcu::read_lock())
        .map_or([0; 6], NetDevice::mac);
    let (to, label, dmac) = (path.destination(), path.flow_label(), path.mac());
    let pair = AddrPair::from_gids(&from, &to).ok_or(EINVAL)?;

    // OVERFLOW: the sum of three constant header sizes.
    let mut out = KVec::with_capacity(ETHERNET + 40 + usize::from(UDP_HEADER), flags)?;
    out.extend_from_slice(&dmac, flags)?;
    out.extend_from_slice(&smac, flags)?;
    match pair {
        AddrPair::V4 { src, dst } => {
            out.extend_from_slice(&PROTOCOL_IPV4.to_be_bytes(), flags)?;
            let length = 20 + UDP_HEADER;
            let [h, l] = length.to_be_bytes();
            out.extend_from_slice(&[0x45, 0, h, l, 0, 0, 0, 0, 0, UDP, 0, 0], flags)?;
            out.extend_from_slice(&src.octets(), flags)?;
            out.extend_from_slice(&dst.octets(), flags)?;
        }
        AddrPair::V6 { src, dst } => {
            out.extend_from_slice(&PROTOCOL_IPV6.to_be_bytes(), flags)?;
            let word = 6 << 28 | label & 0x000f_ffff;
            out.extend_from_slice(&word.to_be_bytes(), flags)?;
            let [h, l] = UDP_HEADER.to_be_bytes();
            out.extend_from_slice(&[h, l, UDP, 0], flags)?;
            out.extend_from_slice(&src.octets(), flags)?;
            out.extend_from_slice(&dst.octets(), flags)?;
        }
    }
    let udp_at = out.len();
    for field in [roce::source_port(label), ROCE_PORT, UDP_HEADER, 0] {
        out.extend_from_slice(&field.to_be_bytes(), flags)?;
    }
    Ok(Headers {
        bytes: out,
        ip_at: ETHERNET,
        udp_at,
        is_v4: !pair.is_v6(),
    })
}

/// Returns the port of a bond that packets of a RoCEv2 path with a flow label leave by; `None` for
/// other paths and without a bond. Any context unless `may_sleep`.
///
/// # Errors
///
/// `ENODEV` if the network device of the local GID is gone; `EINVAL` for GIDs of different
/// families; `ENOMEM`.
pub(crate) fn slave_of(
    device: &Device,
    path: &Filled<'_>,
    may_sleep: bool,
) -> Result<Option<ARef<NetDevice>>> {
    if !path.is_roce() || path.flow_label() == 0 {
        return Ok(None);
    }
    let Some(gid) = path.gid() else {
        return Ok(None);
    };
    if gid.attr().gid_type() != bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP {
        return Ok(None);
    }
    let master = netdev_of_gid(gid.attr())?;
    if !master.is_bond_master() {
        return Ok(None);
    }
    let headers = headers(path, may_sleep)?;
    let protocol = if headers.is_v4 {
        PROTOCOL_IPV4
    } else {
        PROTOCOL_IPV6
    };
    let (bytes, network, transport) = (&headers.bytes, headers.ip_at, headers.udp_at);
    let sample = Sample::new(&master, bytes, protocol, network, transport, may_sleep)?;
    let all = bindings::rdma_lag_flags_RDMA_LAG_FLAGS_HASH_ALL_SLAVES & device.lag_flags() != 0;
    let rcu = rcu::read_lock();
    Ok(sample.port(all, &rcu).map(NetDevice::hold))
}
