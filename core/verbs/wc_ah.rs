// SPDX-License-Identifier: GPL-2.0

//! The way back: address vectors from the headers of a packet that was received.
//!
//! Of a datagram the first 40 bytes of the buffer are the global routing header, or what
//! stands for it in RoCE: an IPv6 header, or an IPv4 header in the last 20 of them, with
//! garbage before it.

use super::ah;
use super::ah_attr::rdma_destroy_ah_attr;
use super::ah_attr::rdma_move_grh_sgid_attr;
use super::ah_attr::Filled;
use super::ah_attr::GidRef;
use super::object::code;
use super::object::pointer;
use super::object::Object;
use super::object::Pd;
use super::port::Caps;
use crate::addr;
use crate::device::Device;
use crate::errno::eprototype;
use core::mem::ManuallyDrop;
use core::net::IpAddr;
use core::net::Ipv4Addr;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::net::addr::ip_to_gid;

/// Bytes before the payload of a datagram.
const AREA: usize = 40;
/// Where an IPv4 header begins in them.
const V4_AT: usize = 20;

/// Source and destination of a packet, as GIDs.
struct Ends {
    source: bindings::ib_gid,
    destination: bindings::ib_gid,
}

/// One's complement sum over a header of 20 bytes, checksum included: all ones if it is right.
fn ipv4_sum(header: &[u8; 20]) -> u16 {
    let mut sum = 0u32;
    for pair in header.chunks_exact(2) {
        if let [high, low] = pair {
            sum += u32::from(u16::from_be_bytes([*high, *low]));
        }
    }
    // Ten words: two rounds fold every carry.
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    // Below 1 << 16 now.
    sum as u16
}

/// The IPv4 header in the area, if there were one.
fn ipv4_header(area: &[u8; AREA]) -> [u8; 20] {
    let mut header = [0; 20];
    for (to, from) in header.iter_mut().zip(area.iter().skip(V4_AT)) {
        *to = *from;
    }
    header
}

/// The IP version of the header in the area, or none. Where either might be, the checksum
/// of the IPv4 header decides.
fn version(area: &[u8; AREA]) -> Option<u8> {
    let v4 = ipv4_header(area);
    if area[0] >> 4 != 6 {
        return (v4[0] >> 4 == 4).then_some(4);
    }
    // RoCE allows no options.
    if v4[0] & 0xf != 5 {
        return Some(6);
    }
    Some(if ipv4_sum(&v4) == 0xffff { 4 } else { 6 })
}

/// # Errors
///
/// `EINVAL` for a kind of network that has no such headers.
fn ends(area: &[u8; AREA], network: bindings::rdma_network_type) -> Result<Ends> {
    let gid = |raw: [u8; 16]| bindings::ib_gid {
        raw: ManuallyDrop::new(raw),
    };
    match network {
        bindings::rdma_network_type_RDMA_NETWORK_IPV4 => {
            let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *area;
            let v4 = |a, b, c, d| gid(ip_to_gid(IpAddr::V4(Ipv4Addr::new(a, b, c, d))));
            Ok(Ends {
                source: v4(s0, s1, s2, s3),
                destination: v4(d0, d1, d2, d3),
            })
        }
        bindings::rdma_network_type_RDMA_NETWORK_IPV6
        | bindings::rdma_network_type_RDMA_NETWORK_IB
        | bindings::rdma_network_type_RDMA_NETWORK_ROCE_V1 => {
            let (mut source, mut destination) = ([0; 16], [0; 16]);
            for (to, from) in source.iter_mut().zip(area.iter().skip(8)) {
                *to = *from;
            }
            for (to, from) in destination.iter_mut().zip(area.iter().skip(24)) {
                *to = *from;
            }
            Ok(Ends {
                source: gid(source),
                destination: gid(destination),
            })
        }
        _ => Err(EINVAL),
    }
}

/// What network a packet of an Ethernet port came by.
fn network_of(caps: Caps, area: &[u8; AREA]) -> bindings::rdma_network_type {
    const UDP: u8 = 17;
    if caps.is_ib() {
        bindings::rdma_network_type_RDMA_NETWORK_IB
    } else if version(area) == Some(4) {
        bindings::rdma_network_type_RDMA_NETWORK_IPV4
    } else if area[6] == UDP {
        bindings::rdma_network_type_RDMA_NETWORK_IPV6
    } else {
        bindings::rdma_network_type_RDMA_NETWORK_ROCE_V1
    }
}

/// Which GID of a RoCE port a packet was for.
struct Wanted {
    vlan: u16,
    gid_type: bindings::ib_gid_type,
}

/// # Safety
///
/// For `rdma_find_gid_by_filter` only: `entry` is held, `context` a [`Wanted`].
unsafe extern "C" fn is_wanted(
    _gid: *const bindings::ib_gid,
    entry: *const bindings::ib_gid_attr,
    context: *mut c_void,
) -> bool {
    // SAFETY: By this function's duty.
    let (entry, wanted) = unsafe { (&*entry, &*context.cast::<Wanted>()) };
    let mut vlan = addr::NO_VLAN;
    // SAFETY: The entry is held.
    let read =
        unsafe { bindings::rdma_read_gid_l2_fields(entry, &mut vlan, core::ptr::null_mut()) };
    entry.gid_type == wanted.gid_type && read == 0 && vlan == wanted.vlan
}

/// The GID's type of packets of a kind of network.
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

/// A vector that is being made, and gives up what it holds unless it is finished.
struct Draft<'a>(&'a mut bindings::rdma_ah_attr);

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // SAFETY: It is valid.
        unsafe { rdma_destroy_ah_attr(self.0) };
    }
}

/// Makes the vector that leads back to where a packet came from. Resolves the link layer's
/// address for RoCE, which may take a second. May sleep.
///
/// # Errors
///
/// `EPROTOTYPE` for a RoCE packet without a global route; those of finding the GID and the
/// address.
///
/// # Safety
///
/// `grh` is valid if the completion says that there is one, or if the port is of RoCE.
unsafe fn init_from_wc(
    device: &Device,
    port: u32,
    wc: &bindings::ib_wc,
    grh: *const bindings::ib_grh,
    attr: &mut bindings::rdma_ah_attr,
) -> Result {
    const WELL_KNOWN_GUID: u64 = 1 << 57 | 2;
    let flags = wc.wc_flags as u32;
    let has = |flag| flags & flag != 0;
    let has_grh = has(bindings::ib_wc_flags_IB_WC_GRH);
    let caps = Caps::of(device, port);
    *attr = bindings::rdma_ah_attr::default();
    attr.type_ = caps.ah_type(device);
    attr.sl = wc.sl;
    attr.port_num = port;
    if caps.is_roce() && !has_grh {
        return Err(eprototype());
    }
    if !caps.is_roce() {
        match attr.type_ {
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_IB => {
                attr.__bindgen_anon_1.ib = ManuallyDrop::new(bindings::ib_ah_attr {
                    // A LID of the small address space.
                    dlid: wc.slid as u16,
                    src_path_bits: wc.dlid_path_bits,
                });
            }
            bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_OPA => {
                attr.__bindgen_anon_1.opa = ManuallyDrop::new(bindings::opa_ah_attr {
                    dlid: wc.slid,
                    src_path_bits: wc.dlid_path_bits,
                    ..Default::default()
                });
            }
            _ => {}
        }
        if !has_grh {
            return Ok(());
        }
    }
    // SAFETY: By this function's duty; the structure has as many bytes.
    let area: [u8; AREA] = unsafe { grh.cast::<[u8; AREA]>().read_unaligned() };
    let network = if !caps.has_eth_ah() {
        bindings::rdma_network_type_RDMA_NETWORK_IB
    } else if has(bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE) {
        u32::from(wc.network_hdr_type)
    } else {
        network_of(caps, &area)
    };
    let mut ends = ends(&area, network)?;
    let local = if caps.is_roce() {
        let mut wanted = Wanted {
            vlan: if has(bindings::ib_wc_flags_IB_WC_WITH_VLAN) {
                wc.vlan_id
            } else {
                addr::NO_VLAN
            },
            gid_type: gid_type(network),
        };
        // SAFETY: The device lives; the filter gets what it wants.
        unsafe {
            GidRef::from_result(bindings::rdma_find_gid_by_filter(
                device.as_raw(),
                &ends.destination,
                port,
                Some(is_wanted),
                core::ptr::from_mut(&mut wanted).cast(),
            ))
        }?
    } else {
        // SAFETY: All members of the union are plain bytes.
        let guid = u64::from_be(unsafe { ends.destination.global.interface_id });
        if guid == WELL_KNOWN_GUID {
            GidRef::get(device, port, 0)?
        } else {
            // SAFETY: The device lives.
            unsafe {
                GidRef::from_result(bindings::rdma_find_gid_by_port(
                    device.as_raw(),
                    &ends.destination,
                    bindings::ib_gid_type_IB_GID_TYPE_IB,
                    port,
                    core::ptr::null_mut(),
                ))
            }?
        }
    };
    let [_, b1, b2, b3, ..] = area;
    let class = (area[0] << 4) | (b1 >> 4);
    let label = u32::from_be_bytes([0, b1 & 0xf, b2, b3]);
    // SAFETY: Both are valid; the vector takes the reference over.
    unsafe {
        rdma_move_grh_sgid_attr(attr, &mut ends.source, label, 0xff, class, local.into_raw());
    }
    let draft = Draft(attr);
    if caps.is_roce() {
        addr::resolve_unicast(&mut Filled::new(device, draft.0)?)?;
    }
    core::mem::forget(draft);
    Ok(())
}

rdma::exported!(
    ib_get_rdma_header_version,
    ib_get_gids_from_rdma_hdr,
    ib_init_ah_attr_from_wc,
    ib_create_ah_from_wc,
);

/// See [`version`]; 0 for neither.
///
/// # Safety
///
/// `hdr` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_get_rdma_header_version(
    hdr: *const bindings::rdma_network_hdr,
) -> c_int {
    // SAFETY: By this function's duty; the union has as many bytes.
    let area = unsafe { hdr.cast::<[u8; AREA]>().read_unaligned() };
    version(&area).map_or(0, c_int::from)
}

/// The GIDs of a packet's ends.
///
/// # Safety
///
/// `hdr` is valid; the places are valid or null.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_get_gids_from_rdma_hdr(
    hdr: *const bindings::rdma_network_hdr,
    network: bindings::rdma_network_type,
    sgid: *mut bindings::ib_gid,
    dgid: *mut bindings::ib_gid,
) -> c_int {
    if sgid.is_null() || dgid.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: By this function's duty; the union has as many bytes.
    let area = unsafe { hdr.cast::<[u8; AREA]>().read_unaligned() };
    code(ends(&area, network).map(|ends| {
        // SAFETY: By this function's duty.
        unsafe {
            *sgid = ends.source;
            *dgid = ends.destination;
        }
    }))
}

/// See [`init_from_wc`].
///
/// # Safety
///
/// As there; the device is registered, and the rest valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_init_ah_attr_from_wc(
    device: *mut bindings::ib_device,
    port: u32,
    wc: *const bindings::ib_wc,
    grh: *const bindings::ib_grh,
    attr: *mut bindings::rdma_ah_attr,
) -> c_int {
    // SAFETY: By this function's duty.
    code(unsafe { init_from_wc(Device::from_raw(device), port, &*wc, grh, &mut *attr) })
}

/// Makes a handle that leads back to where a packet came from. May sleep.
///
/// # Safety
///
/// As for [`init_from_wc`]; `pd` lives and the rest is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_create_ah_from_wc(
    pd: *mut bindings::ib_pd,
    wc: *const bindings::ib_wc,
    grh: *const bindings::ib_grh,
    port: u32,
) -> *mut bindings::ib_ah {
    let create = || {
        // SAFETY: By this function's duty.
        let (pd, wc) = unsafe { (Pd::from_raw(pd), &*wc) };
        let mut attr = bindings::rdma_ah_attr::default();
        // SAFETY: By this function's duty.
        unsafe { init_from_wc(pd.device(), port, wc, grh, &mut attr) }?;
        let draft = Draft(&mut attr);
        ah::create(
            pd,
            draft.0,
            bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE,
        )
    };
    pointer(create())
}
