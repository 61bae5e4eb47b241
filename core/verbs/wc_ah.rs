// SPDX-License-Identifier: GPL-2.0

//! The way back: address vectors from the headers of a packet that was received
//! ([`crate::proto::roce`]).

use super::ah;
use super::ah_attr::rdma_destroy_ah_attr;
use super::ah_attr::rdma_move_grh_sgid_attr;
use super::ah_attr::Filled;
use super::ah_attr::GidRef;
use super::object::code;
use super::object::Object;
use super::object::Pd;
use super::port::Caps;
use super::tables::AhAttr;
use crate::addr;
use crate::device::Device;
use crate::errno::eprototype;
use crate::proto::gid::Gid;
use crate::proto::roce;
use crate::proto::roce::Header;
use crate::proto::roce::AREA;
use core::mem::ManuallyDrop;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::View;

/// The ends of a packet that came by a kind of network.
///
/// # Errors
///
/// `EINVAL` for a kind of network that has no such headers.
fn ends(area: &[u8; AREA], network: bindings::rdma_network_type) -> Result<roce::Ends> {
    match network {
        bindings::rdma_network_type_RDMA_NETWORK_IPV4 => Ok(roce::ends(area, Header::Ipv4)),
        bindings::rdma_network_type_RDMA_NETWORK_IPV6
        | bindings::rdma_network_type_RDMA_NETWORK_IB
        | bindings::rdma_network_type_RDMA_NETWORK_ROCE_V1 => Ok(roce::ends(area, Header::Ipv6)),
        _ => Err(EINVAL),
    }
}

/// What network a packet of an Ethernet port came by.
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

/// A GID as C has it.
fn raw(gid: Gid) -> bindings::ib_gid {
    bindings::ib_gid {
        raw: ManuallyDrop::new(gid.0),
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

impl Draft<'_> {
    fn attr(&self) -> &AhAttr {
        // SAFETY: It is valid, and holds the GID that is in it.
        unsafe { AhAttr::view(core::ptr::from_ref(&*self.0).cast_mut()) }
    }
}

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
    let ends = ends(&area, network)?;
    let (mut source, destination) = (raw(ends.source), raw(ends.destination));
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
                &destination,
                port,
                Some(is_wanted),
                core::ptr::from_mut(&mut wanted).cast(),
            ))
        }?
    } else {
        // SAFETY: All members of the union are plain bytes.
        let guid = u64::from_be(unsafe { destination.global.interface_id });
        if guid == WELL_KNOWN_GUID {
            GidRef::get(device, port, 0)?
        } else {
            // SAFETY: The device lives.
            unsafe {
                GidRef::from_result(bindings::rdma_find_gid_by_port(
                    device.as_raw(),
                    &destination,
                    bindings::ib_gid_type_IB_GID_TYPE_IB,
                    port,
                    core::ptr::null_mut(),
                ))
            }?
        }
    };
    let (class, label) = roce::class_and_label(&area);
    // SAFETY: Both are valid; the vector takes the reference over.
    unsafe {
        rdma_move_grh_sgid_attr(
            attr,
            &mut source,
            label,
            0xff,
            class,
            local.into_owned().into_raw().as_ptr(),
        );
    }
    let draft = Draft(attr);
    if caps.is_roce() {
        addr::resolve_unicast(&mut Filled::new(device, draft.attr())?)?;
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

/// The version of the IP header before a datagram: 4, 6, or 0 for neither.
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
    match roce::header(&area) {
        Some(Header::Ipv4) => 4,
        Some(Header::Ipv6) => 6,
        None => 0,
    }
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
            *sgid = raw(ends.source);
            *dgid = raw(ends.destination);
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
            draft.attr(),
            bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE,
        )
    };
    rdma::edge::Answer::answer(create())
}
