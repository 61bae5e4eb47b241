// SPDX-License-Identifier: GPL-2.0

//! Which device of a bond a path leaves by.
//!
//! A bond spreads packets by their headers. For a RoCEv2 path with a flow label, and so a
//! source port of its own, the bond is shown a packet such as the path will send, and
//! asked. Some hardware binds the path to that device.

use super::bytes;
use super::netdev_of_gid;
use crate::device::Device;
use crate::object::Filled;
use crate::proto::roce;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;
use rdma::bindings;
use rdma::net::AddrPair;
use rdma::net::NetDevice;

/// UDP's number of RoCEv2.
const ROCE_PORT: u16 = 4791;
/// UDP's protocol number.
const UDP: u8 = 17;
const ETHERNET: usize = 14;
const UDP_HEADER: u16 = 8;

/// The headers of a packet on a path, as a bond looks at them.
struct Headers {
    bytes: KVec<u8>,
    ip_at: usize,
    udp_at: usize,
    is_v4: bool,
}

fn headers(path: &Filled<'_>, may_sleep: bool) -> Result<Headers> {
    let flags = if may_sleep { GFP_KERNEL } else { GFP_ATOMIC };
    let gid = path.gid_entry().ok_or(EINVAL)?;
    let from = bytes(&gid.gid);
    let mut smac = [0u8; 6];
    // SAFETY: The entry is held; the place has room for an Ethernet address.
    let _: i32 =
        unsafe { bindings::rdma_read_gid_l2_fields(gid, core::ptr::null_mut(), smac.as_mut_ptr()) };
    let (to, label, dmac) = (path.destination(), path.flow_label(), path.mac());
    let pair = AddrPair::from_gids(&from, &to).ok_or(EINVAL)?;

    let mut out = KVec::with_capacity(ETHERNET + 40 + usize::from(UDP_HEADER), flags)?;
    out.extend_from_slice(&dmac, flags)?;
    out.extend_from_slice(&smac, flags)?;
    match pair {
        AddrPair::V4 { src, dst } => {
            out.extend_from_slice(&0x0800u16.to_be_bytes(), flags)?;
            let length = 20 + UDP_HEADER;
            let [h, l] = length.to_be_bytes();
            out.extend_from_slice(&[0x45, 0, h, l, 0, 0, 0, 0, 0, UDP, 0, 0], flags)?;
            out.extend_from_slice(&src.octets(), flags)?;
            out.extend_from_slice(&dst.octets(), flags)?;
        }
        AddrPair::V6 { src, dst } => {
            out.extend_from_slice(&0x86ddu16.to_be_bytes(), flags)?;
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

/// A packet of these headers and nothing else, for `master`. Freed on drop.
struct Sample(NonNull<bindings::sk_buff>);

impl Sample {
    fn new(master: &NetDevice, headers: &Headers, may_sleep: bool) -> Result<Self> {
        let flags = if may_sleep {
            bindings::GFP_KERNEL
        } else {
            bindings::GFP_ATOMIC
        };
        let size = u32::try_from(headers.bytes.len()).map_err(|_| EINVAL)?;
        // Offsets of headers are below a hundred.
        let (ip_at, udp_at) = (headers.ip_at as i32, headers.udp_at as i32);
        let protocol: u16 = if headers.is_v4 { 0x0800 } else { 0x86dd };
        // SAFETY: The buffer is new and has room for the bytes that are put into it; all
        // headers are within them.
        unsafe {
            let skb = bindings::__alloc_skb(size, flags, 0, bindings::NUMA_NO_NODE);
            let sample = Self(NonNull::new(skb).ok_or(ENOMEM)?);
            let data: *mut u8 = bindings::skb_put(skb, size).cast();
            core::ptr::copy_nonoverlapping(headers.bytes.as_ptr(), data, headers.bytes.len());
            bindings::rdma_helper_skb_reset_mac_header(skb);
            bindings::rdma_helper_skb_set_headers(skb, protocol.to_be(), ip_at, udp_at);
            bindings::rdma_helper_skb_set_dev(skb, master.as_raw());
            Ok(sample)
        }
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        // SAFETY: The buffer is ours.
        unsafe { bindings::rdma_helper_kfree_skb(self.0.as_ptr()) };
    }
}

/// The device of a bond that packets on a RoCEv2 path with a flow label leave by; none for
/// other paths, or where there is no bond. Any context, if it may not sleep.
///
/// # Errors
///
/// `ENODEV` if the local GID's network device has gone; `EINVAL` for GIDs of different
/// families; `ENOMEM`.
pub(crate) fn slave_of(
    device: &Device,
    path: &Filled<'_>,
    may_sleep: bool,
) -> Result<Option<ARef<NetDevice>>> {
    if !path.is_roce() || path.flow_label() == 0 {
        return Ok(None);
    }
    let Some(gid) = path.gid_entry() else {
        return Ok(None);
    };
    if gid.gid_type != bindings::ib_gid_type_IB_GID_TYPE_ROCE_UDP_ENCAP {
        return Ok(None);
    }
    let master = netdev_of_gid(gid)?;
    // SAFETY: The device is held.
    if !unsafe { bindings::rdma_helper_is_bond_master(master.as_raw()) } {
        return Ok(None);
    }
    let sample = Sample::new(&master, &headers(path, may_sleep)?, may_sleep)?;
    // SAFETY: Written before the device is registered.
    let flags = unsafe { (*device.as_raw()).lag_flags };
    let all = flags & bindings::rdma_lag_flags_RDMA_LAG_FLAGS_HASH_ALL_SLAVES != 0;
    let guard = rcu::read_lock();
    // SAFETY: The device is held, the packet ours; RCU protects what is found.
    let slave = unsafe {
        let slave = bindings::rdma_helper_xmit_slave(master.as_raw(), sample.0.as_ptr(), all);
        NonNull::new(slave).map(|slave| NetDevice::from_raw(slave.as_ptr()).hold())
    };
    drop(guard);
    Ok(slave)
}
