// SPDX-License-Identifier: GPL-2.0

//! FFI for packing: field tables, structures and buffers of C callers, and `struct ib_ud_header`.
//!
//! Must match `include/rdma/ib_pack.h`.

use crate::gid::edge as gid;
use crate::proto::gid::Gid;
use crate::proto::pack;
use crate::proto::pack::BadField;
use crate::proto::pack::Field;
use crate::proto::ud_header;
use crate::proto::ud_header::Header;
use crate::proto::ud_header::Network;
use crate::proto::ud_header::Shape;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::bindings::ib_field;
use rdma::edge::IntoC;
use rdma::edge::Lent;
use rdma::edge::Passed;
use rdma::edge::Tied;

/// Tag of the arguments of one call of `ib_pack` or `ib_unpack`: the table has as many entries as
/// the length says, if that is positive. The structure and the buffer contain all fields of the
/// table, and do not overlap.
pub(super) enum OfTable {}
/// As [`OfTable`], for the structure argument.
pub(super) enum InStructure {}
/// The field table.
pub(super) type TableArg<'a> = Tied<'a, OfTable, *const ib_field>;
/// Number of table entries.
pub(super) type LenArg<'a> = Tied<'a, OfTable, c_int>;
/// The structure.
pub(super) type StructureArg<'a> = Tied<'a, InStructure, Passed<c_void>>;
/// The buffer.
pub(super) type BufferArg<'a> = Tied<'a, OfTable, Passed<c_void>>;

/// Direction of a conversion.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    /// From the structure to the buffer.
    Pack,
    /// From the buffer to the structure.
    Unpack,
}

/// Arguments of a call of `ib_pack` or `ib_unpack`.
///
/// # Invariants
///
/// The guarantees of [`OfTable`] hold.
pub(super) struct Call<'a> {
    entries: &'a [ib_field],
    structure: StructureArg<'a>,
    buffer: BufferArg<'a>,
}

/// Returns `len` bytes at `ptr`, which may be invalid if `len` is 0.
fn bytes(ptr: *mut c_void, len: usize) -> NonNull<[u8]> {
    let first = NonNull::new(ptr.cast()).unwrap_or(NonNull::dangling());
    NonNull::slice_from_raw_parts(first, len)
}

/// Converts a table entry; `None` if a number is negative.
fn place(entry: &ib_field) -> Option<Field> {
    Some(Field {
        struct_offset: entry.struct_offset_bytes,
        struct_size: entry.struct_size_bytes,
        word: usize::try_from(entry.offset_words).ok()?,
        bit: usize::try_from(entry.offset_bits).ok()?,
        bits: usize::try_from(entry.size_bits).ok()?,
    })
}

impl<'a> Call<'a> {
    /// Takes the arguments of one call.
    pub(super) fn new(
        table: TableArg<'a>,
        len: LenArg<'a>,
        structure: StructureArg<'a>,
        buffer: BufferArg<'a>,
    ) -> Self {
        let (table, len) = (table.get(), usize::try_from(len.get()).unwrap_or(0));
        let entries: &'a [ib_field] = if len == 0 {
            &[]
        } else {
            // SAFETY: The table has `len` entries during the call ([`OfTable`]).
            unsafe { core::slice::from_raw_parts(table, len) }
        };
        // INVARIANT: By the tags of the arguments.
        Self {
            entries,
            structure,
            buffer,
        }
    }

    /// Converts the structure to the buffer, or the reverse. Converts nothing if the table has an
    /// invalid field.
    ///
    /// # Errors
    ///
    /// `BadField` if the table has an invalid field.
    pub(super) fn convert(self, direction: Direction) -> Result<(), BadField> {
        if self.entries.iter().any(|entry| place(entry).is_none()) {
            return Err(BadField);
        }
        let fields = self.entries.iter().filter_map(place);
        let extent = pack::extent(fields.clone())?;
        let structure = bytes(self.structure.get().into_c(), extent.structure);
        let packed = bytes(self.buffer.get().into_c(), extent.packed);
        let (from, to) = match direction {
            Direction::Pack => (structure, packed),
            Direction::Unpack => (packed, structure),
        };
        // SAFETY: Structure and buffer contain all fields of the table, and do not overlap (type
        // invariant).
        let (from, to) = unsafe { (from.as_ref(), { to }.as_mut()) };
        match direction {
            Direction::Pack => pack::pack(fields, from, to),
            Direction::Unpack => pack::unpack(fields, from, to),
        }
    }
}

/// Tag of the arguments of one call of `ib_ud_header_pack`: the buffer has room for the headers
/// that are present.
pub(super) enum OfHeaders {}
/// The headers.
pub(super) type HeaderArg<'a> = Tied<'a, OfHeaders, Lent<'a, bindings::ib_ud_header>>;
/// The buffer.
pub(super) type RoomArg<'a> = Tied<'a, OfHeaders, Passed<c_void>>;

/// Packs the headers. Returns their size in bytes. Any context.
pub(super) fn pack_headers(headers: HeaderArg<'_>, room: RoomArg<'_>) -> c_int {
    let mut packed = [0; ud_header::MAX];
    let len = from_c(headers.get().0).pack(&mut packed).unwrap_or(0);
    let room: *mut c_void = room.get().into_c();
    // SAFETY: The buffer has room for `len` bytes ([`OfHeaders`]), and `packed` has at least `len`
    // bytes.
    unsafe { core::ptr::copy_nonoverlapping(packed.as_ptr(), room.cast(), len) };
    // CAST: At most `MAX`.
    len as c_int
}

/// Converts a flag to C.
fn flag(set: bool) -> c_int {
    set.into()
}

/// Converts the headers to C.
pub(super) fn to_c(header: &Header) -> bindings::ib_ud_header {
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
    let mut c = bindings::ib_ud_header {
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
        ..bindings::ib_ud_header::default()
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
    c.grh.source_gid = gid::raw(grh.sgid);
    c.grh.destination_gid = gid::raw(grh.dgid);
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

/// Converts the IPv4 header from C.
pub(super) fn ip4_from_c(c: &bindings::ib_ud_header) -> ud_header::Ipv4 {
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

/// Converts the headers from C.
pub(super) fn from_c(c: &bindings::ib_ud_header) -> Header {
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
    // SAFETY: Every member of the union is 16 bytes of plain data.
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
