// SPDX-License-Identifier: GPL-2.0

//! Packed forms of structures, and the headers of datagrams that drivers build: the C side
//! of [`crate::proto::pack`] and [`crate::proto::ud_header`].
//!
//! C header: `include/rdma/ib_pack.h`.

use crate::proto::gid::Gid;
use crate::proto::pack;
use crate::proto::pack::BadField;
use crate::proto::pack::Field;
use crate::proto::ud_header;
use crate::proto::ud_header::Header;
use crate::proto::ud_header::Network;
use crate::proto::ud_header::Shape;
use bindings::ib_field;
use bindings::ib_ud_header;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::error::from_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;

/// A table as C has it.
///
/// # Safety
///
/// `desc` has `len` entries, if that is positive, for `'a`.
unsafe fn table<'a>(
    desc: *const ib_field,
    len: c_int,
) -> Result<impl Iterator<Item = Field> + Clone + 'a, BadField> {
    let len = usize::try_from(len).unwrap_or(0);
    let entries: &'a [ib_field] = if len == 0 {
        &[]
    } else {
        // SAFETY: By this function's duty.
        unsafe { core::slice::from_raw_parts(desc, len) }
    };
    let place = |entry: &ib_field| {
        Some(Field {
            struct_offset: entry.struct_offset_bytes,
            struct_size: entry.struct_size_bytes,
            word: usize::try_from(entry.offset_words).ok()?,
            bit: usize::try_from(entry.offset_bits).ok()?,
            bits: usize::try_from(entry.size_bits).ok()?,
        })
    };
    if entries.iter().any(|entry| place(entry).is_none()) {
        return Err(BadField);
    }
    Ok(entries.iter().filter_map(place))
}

/// The first `len` bytes at `ptr`, which may be anything if there are none.
fn bytes(ptr: *mut c_void, len: usize) -> NonNull<[u8]> {
    let first = NonNull::new(ptr.cast()).unwrap_or(NonNull::dangling());
    NonNull::slice_from_raw_parts(first, len)
}

/// Packs a structure as a table says. Nothing is packed by a table that cannot be. Any context.
///
/// # Safety
///
/// The table has `desc_len` entries; the structure and the buffer, which do not overlap, have
/// what they name.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_pack(
    desc: *const ib_field,
    desc_len: c_int,
    structure: *mut c_void,
    buf: *mut c_void,
) {
    // SAFETY: By this function's duty.
    let packed = unsafe { table(desc, desc_len) }.and_then(|fields| {
        let extent = pack::extent(fields.clone())?;
        // SAFETY: By this function's duty both have what the table touches.
        let (from, to) = unsafe {
            (
                bytes(structure, extent.structure).as_ref(),
                bytes(buf, extent.packed).as_mut(),
            )
        };
        pack::pack(fields, from, to)
    });
    if packed.is_err() {
        pr_warn!("ib_pack: the table has a field that cannot be packed\n");
    }
}

/// Unpacks a structure as a table says. Any context.
///
/// # Safety
///
/// That of [`ib_pack`].
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_unpack(
    desc: *const ib_field,
    desc_len: c_int,
    buf: *mut c_void,
    structure: *mut c_void,
) {
    // SAFETY: By this function's duty.
    let unpacked = unsafe { table(desc, desc_len) }.and_then(|fields| {
        let extent = pack::extent(fields.clone())?;
        // SAFETY: By this function's duty both have what the table touches.
        let (from, to) = unsafe {
            (
                bytes(buf, extent.packed).as_ref(),
                bytes(structure, extent.structure).as_mut(),
            )
        };
        pack::unpack(fields, from, to)
    });
    if unpacked.is_err() {
        pr_warn!("ib_unpack: the table has a field that cannot be unpacked\n");
    }
}

/// C's flag.
fn flag(set: bool) -> c_int {
    set.into()
}

/// The headers as C has them.
fn to_c(header: &Header) -> ib_ud_header {
    let Header {
        shape,
        lrh,
        eth,
        grh,
        ip4,
        udp,
        bth,
        deth,
        immediate,
    } = header;
    let network = shape.network;
    let is_ip4 = matches!(network, Network::Ipv4 { .. });
    let mut c = ib_ud_header {
        lrh_present: flag(shape.lrh),
        eth_present: flag(shape.eth),
        vlan_present: flag(shape.vlan),
        grh_present: flag(matches!(network, Network::Grh | Network::Ipv6 { .. })),
        ipv4_present: flag(is_ip4),
        udp_present: flag(matches!(
            network,
            Network::Ipv4 { udp: true } | Network::Ipv6 { udp: true }
        )),
        immediate_present: flag(shape.immediate),
        immediate_data: u32::from_ne_bytes(*immediate),
        ..ib_ud_header::default()
    };
    c.lrh.virtual_lane = lrh.virtual_lane;
    c.lrh.link_version = lrh.link_version;
    c.lrh.service_level = lrh.service_level;
    c.lrh.link_next_header = lrh.next_header;
    c.lrh.destination_lid = lrh.dlid.to_be();
    c.lrh.packet_length = lrh.packet_length.to_be();
    c.lrh.source_lid = lrh.slid.to_be();
    let [d0, d1, d2, d3, d4, d5] = eth.dmac;
    let [s0, s1, s2, s3, s4, s5] = eth.smac;
    (c.eth.dmac_h, c.eth.dmac_l) = ([d0, d1, d2, d3], [d4, d5]);
    (c.eth.smac_h, c.eth.smac_l) = ([s0, s1], [s2, s3, s4, s5]);
    c.eth.type_ = eth.ether_type.to_be();
    c.vlan.tag = eth.vlan_tag.to_be();
    c.vlan.type_ = eth.vlan_type.to_be();
    c.grh.ip_version = grh.ip_version;
    c.grh.traffic_class = grh.traffic_class;
    c.grh.flow_label = grh.flow_label.to_be();
    c.grh.payload_length = grh.payload_length.to_be();
    c.grh.next_header = grh.next_header;
    c.grh.hop_limit = grh.hop_limit;
    c.grh.source_gid.raw = ManuallyDrop::new(grh.sgid.0);
    c.grh.destination_gid.raw = ManuallyDrop::new(grh.dgid.0);
    if is_ip4 {
        c.ip4.ver = 4;
        c.ip4.hdr_len = 5;
    }
    c.ip4.tos = ip4.tos;
    c.ip4.tot_len = ip4.total_length.to_be();
    c.ip4.id = ip4.id.to_be();
    c.ip4.frag_off = ip4.frag_off.to_be();
    c.ip4.ttl = ip4.ttl;
    c.ip4.protocol = ip4.protocol;
    c.ip4.check = ip4.check.to_be();
    c.ip4.saddr = u32::from_ne_bytes(ip4.saddr);
    c.ip4.daddr = u32::from_ne_bytes(ip4.daddr);
    c.udp.sport = udp.sport.to_be();
    c.udp.dport = udp.dport.to_be();
    c.udp.length = udp.length.to_be();
    c.udp.csum = udp.csum.to_be();
    c.bth.opcode = bth.opcode;
    c.bth.solicited_event = bth.solicited.into();
    c.bth.mig_req = bth.mig_req.into();
    c.bth.pad_count = bth.pad_count;
    c.bth.transport_header_version = bth.version;
    c.bth.pkey = bth.pkey.to_be();
    c.bth.destination_qpn = bth.dqpn.to_be();
    c.bth.ack_req = bth.ack_req.into();
    c.bth.psn = bth.psn.to_be();
    c.deth.qkey = deth.qkey.to_be();
    c.deth.source_qpn = deth.sqpn.to_be();
    c
}

/// IPv4's part.
fn ip4_from_c(c: &ib_ud_header) -> ud_header::Ipv4 {
    ud_header::Ipv4 {
        tos: c.ip4.tos,
        total_length: u16::from_be(c.ip4.tot_len),
        id: u16::from_be(c.ip4.id),
        frag_off: u16::from_be(c.ip4.frag_off),
        ttl: c.ip4.ttl,
        protocol: c.ip4.protocol,
        check: u16::from_be(c.ip4.check),
        saddr: c.ip4.saddr.to_ne_bytes(),
        daddr: c.ip4.daddr.to_ne_bytes(),
    }
}

/// The headers from those that C has filled in.
fn from_c(c: &ib_ud_header) -> Header {
    let udp = c.udp_present != 0;
    let network = if c.ipv4_present != 0 {
        Network::Ipv4 { udp }
    } else if c.grh_present == 0 {
        Network::None
    } else if udp {
        Network::Ipv6 { udp }
    } else {
        Network::Grh
    };
    let ([d0, d1, d2, d3], [d4, d5]) = (c.eth.dmac_h, c.eth.dmac_l);
    let ([s0, s1], [s2, s3, s4, s5]) = (c.eth.smac_h, c.eth.smac_l);
    // SAFETY: Both halves of the union are plain bytes.
    let (sgid, dgid) = unsafe { (*c.grh.source_gid.raw, *c.grh.destination_gid.raw) };
    Header {
        shape: Shape {
            lrh: c.lrh_present != 0,
            eth: c.eth_present != 0,
            vlan: c.vlan_present != 0,
            network,
            immediate: c.immediate_present != 0,
        },
        lrh: ud_header::Lrh {
            virtual_lane: c.lrh.virtual_lane,
            link_version: c.lrh.link_version,
            service_level: c.lrh.service_level,
            next_header: c.lrh.link_next_header,
            dlid: u16::from_be(c.lrh.destination_lid),
            packet_length: u16::from_be(c.lrh.packet_length),
            slid: u16::from_be(c.lrh.source_lid),
        },
        eth: ud_header::Eth {
            dmac: [d0, d1, d2, d3, d4, d5],
            smac: [s0, s1, s2, s3, s4, s5],
            ether_type: u16::from_be(c.eth.type_),
            vlan_tag: u16::from_be(c.vlan.tag),
            vlan_type: u16::from_be(c.vlan.type_),
        },
        grh: ud_header::Grh {
            ip_version: c.grh.ip_version,
            traffic_class: c.grh.traffic_class,
            flow_label: u32::from_be(c.grh.flow_label),
            payload_length: u16::from_be(c.grh.payload_length),
            next_header: c.grh.next_header,
            hop_limit: c.grh.hop_limit,
            sgid: Gid(sgid),
            dgid: Gid(dgid),
        },
        ip4: ip4_from_c(c),
        udp: ud_header::Udp {
            sport: u16::from_be(c.udp.sport),
            dport: u16::from_be(c.udp.dport),
            length: u16::from_be(c.udp.length),
            csum: u16::from_be(c.udp.csum),
        },
        bth: ud_header::Bth {
            opcode: c.bth.opcode,
            solicited: c.bth.solicited_event & 1 != 0,
            mig_req: c.bth.mig_req & 1 != 0,
            pad_count: c.bth.pad_count,
            version: c.bth.transport_header_version,
            pkey: u16::from_be(c.bth.pkey),
            dqpn: u32::from_be(c.bth.destination_qpn),
            ack_req: c.bth.ack_req & 1 != 0,
            psn: u32::from_be(c.bth.psn),
        },
        deth: ud_header::Deth {
            qkey: u32::from_be(c.deth.qkey),
            sqpn: u32::from_be(c.deth.source_qpn),
        },
        immediate: c.immediate_data.to_ne_bytes(),
    }
}

/// Fills in the headers of so many bytes of payload: their lengths, and what follows what.
/// 0, or `-EINVAL` for UDP without IP, or more payload than lengths can say. Any context.
///
/// # Safety
///
/// `header` is ours to fill in.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_ud_header_init(
    payload_bytes: c_int,
    lrh_present: c_int,
    eth_present: c_int,
    vlan_present: c_int,
    grh_present: c_int,
    ip_version: c_int,
    udp_present: c_int,
    immediate_present: c_int,
    header: *mut ib_ud_header,
) -> c_int {
    from_result(|| {
        // What a caller finds after an error is nothing.
        // SAFETY: By this function's duty.
        unsafe { *header = ib_ud_header::default() };
        let version = u32::try_from(ip_version).unwrap_or(u32::MAX);
        let network = Network::from_args(grh_present != 0, version, udp_present != 0);
        let shape = Shape {
            lrh: lrh_present != 0,
            eth: eth_present != 0,
            vlan: vlan_present != 0,
            network: network.map_err(|_| EINVAL)?,
            immediate: immediate_present != 0,
        };
        let payload = u32::try_from(payload_bytes).map_err(|_| EINVAL)?;
        let made = Header::new(payload, shape).map_err(|_| EINVAL)?;
        // SAFETY: By this function's duty.
        unsafe { *header = to_c(&made) };
        Ok(0)
    })
}

/// Writes the headers; answers how many bytes they are. Any context.
///
/// # Safety
///
/// The header is whole; the buffer has room for those that are present.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_ud_header_pack(
    header: *mut ib_ud_header,
    buf: *mut c_void,
) -> c_int {
    let mut packed = [0; ud_header::MAX];
    // SAFETY: By this function's duty.
    let len = from_c(unsafe { &*header }).pack(&mut packed).unwrap_or(0);
    // CAST: at most `MAX`.
    // SAFETY: By this function's duty there is room for as many.
    unsafe { core::ptr::copy_nonoverlapping(packed.as_ptr(), buf.cast(), len) };
    len as c_int
}

/// The checksum of the IPv4 header, as on the wire. Any context.
///
/// # Safety
///
/// The header is whole.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_ud_ip4_csum(header: *mut ib_ud_header) -> bindings::__sum16 {
    // SAFETY: By this function's duty.
    ip4_from_c(unsafe { &*header }).checksum().to_be()
}

rdma::exported!(
    ib_pack,
    ib_unpack,
    ib_ud_header_init,
    ib_ud_header_pack,
    ib_ud_ip4_csum,
);
