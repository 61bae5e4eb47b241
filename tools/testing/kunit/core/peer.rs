// SPDX-License-Identifier: GPL-2.0

//! The loaded `ib_core`, and chance that a seed decides.

use super::proto::modify_qp::Attrs;
use super::proto::modify_qp::QpState;
use super::proto::modify_qp::QpType;
use super::proto::pack::Field;
use kernel::prelude::*;

/// `ib_modify_qp_is_ok` of the loaded core.
pub(crate) fn modify_qp_is_ok(from: QpState, to: QpState, qp_type: QpType, attrs: Attrs) -> bool {
    // SAFETY: It reads a constant table. The states and the type index it, and all
    // values of ours are inside: `QpState::ALL` and `QpType::ALL` end with the last
    // index that the table has.
    unsafe { rdma::bindings::ib_modify_qp_is_ok(from.raw(), to.raw(), qp_type.raw(), attrs.0) }
}

/// A small generator (xorshift64*).
pub(crate) struct Rng(u64);

impl Rng {
    /// One that this seed decides.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Any number.
    pub(crate) fn any(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }
}

/// `ib_rate_to_mult` of the loaded core.
pub(crate) fn rate_to_mult(raw: u32) -> i32 {
    // SAFETY: It computes with the number and takes nothing else.
    unsafe { rdma::bindings::ib_rate_to_mult(raw) }
}

/// `ib_rate_to_mbps` of the loaded core.
pub(crate) fn rate_to_mbps(raw: u32) -> i32 {
    // SAFETY: As above.
    unsafe { rdma::bindings::ib_rate_to_mbps(raw) }
}

/// `mult_to_ib_rate` of the loaded core.
pub(crate) fn mult_to_rate(mult: u32) -> u32 {
    // SAFETY: As above.
    unsafe { rdma::bindings::mult_to_ib_rate(mult as i32) }
}

/// Room for either side of a packing, and aligned for every access of the peer's.
#[derive(Clone, Default, PartialEq)]
#[repr(C, align(8))]
pub(crate) struct Buffer([[u8; 32]; 4]);

impl Buffer {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_flattened()
    }

    /// Its bytes, to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_flattened_mut()
    }
}

fn c_field(field: Field) -> rdma::bindings::ib_field {
    rdma::bindings::ib_field {
        struct_offset_bytes: field.struct_offset,
        struct_size_bytes: field.struct_size,
        offset_words: field.word as i32,
        offset_bits: field.bit as i32,
        size_bits: field.bits as i32,
        field_name: core::ptr::null_mut(),
    }
}

/// `ib_pack` of the loaded core. The field is inside [`Buffer`] on both sides.
pub(crate) fn pack(field: Field, structure: &Buffer, packed: &mut Buffer) {
    let from = structure.bytes().as_ptr().cast_mut().cast();
    let to = packed.bytes_mut().as_mut_ptr().cast();
    // SAFETY: The table has one field, which the suite keeps inside both buffers
    // and in its words; `ib_pack` only reads the structure.
    unsafe { rdma::bindings::ib_pack(&c_field(field), 1, from, to) }
}

/// `ib_unpack` of the loaded core.
pub(crate) fn unpack(field: Field, packed: &Buffer, structure: &mut Buffer) {
    let from = packed.bytes().as_ptr().cast_mut().cast();
    let to = structure.bytes_mut().as_mut_ptr().cast();
    // SAFETY: As above; `ib_unpack` only reads the packed form.
    unsafe { rdma::bindings::ib_unpack(&c_field(field), 1, from, to) }
}

/// What a datagram's headers are made of.
pub(crate) struct UdArgs {
    pub(crate) payload: u32,
    pub(crate) lrh: bool,
    pub(crate) eth: bool,
    pub(crate) vlan: bool,
    pub(crate) grh: bool,
    pub(crate) udp: bool,
    pub(crate) immediate: bool,
    pub(crate) ip_version: u32,
    /// For several fields.
    pub(crate) bits: u32,
}

/// `ib_ud_header_init`, `ib_ud_ip4_csum` and `ib_ud_header_pack` of the loaded core.
pub(crate) fn ud_header(args: &UdArgs, packed: &mut Buffer) -> Result<usize> {
    let mut header = rdma::bindings::ib_ud_header::default();
    let be = args.bits.to_be();
    // SAFETY: The header is ours alone, and the init writes nothing else.
    kernel::error::to_result(unsafe {
        rdma::bindings::ib_ud_header_init(
            args.payload as i32,
            args.lrh.into(),
            args.eth.into(),
            args.vlan.into(),
            args.grh.into(),
            args.ip_version as i32,
            args.udp.into(),
            args.immediate.into(),
            &mut header,
        )
    })?;
    header.grh.flow_label = be;
    header.bth.destination_qpn = be;
    header.bth.psn = be;
    header.deth.qkey = be;
    header.deth.source_qpn = be;
    header.lrh.destination_lid = (args.bits as u16).to_be();
    header.ip4.saddr = be;
    // SAFETY: It reads the header.
    header.ip4.check = unsafe { rdma::bindings::ib_ud_ip4_csum(&mut header) };
    let to = packed.bytes_mut().as_mut_ptr().cast();
    // SAFETY: It reads the header and writes at most `ud_header::MAX` bytes, for
    // which the buffer has room.
    let len = unsafe { rdma::bindings::ib_ud_header_pack(&mut header, to) };
    usize::try_from(len).map_err(|_| EINVAL)
}

/// `ib_get_rdma_header_version` of the loaded core.
pub(crate) fn header_version(area: &[u8; 40]) -> i32 {
    // SAFETY: The union has as many bytes, and is only read. The peer reads words of it, which
    // need no alignment where the kernel's checksum does not.
    unsafe { rdma::bindings::ib_get_rdma_header_version(area.as_ptr().cast()) }
}

/// `ib_get_gids_from_rdma_hdr` of the loaded core: source and destination.
pub(crate) fn gids(area: &[u8; 40], network: u32) -> Result<([u8; 16], [u8; 16])> {
    let mut source = rdma::bindings::ib_gid::default();
    let mut destination = rdma::bindings::ib_gid::default();
    // SAFETY: As above; both places are valid, and all members of the unions are bytes.
    unsafe {
        kernel::error::to_result(rdma::bindings::ib_get_gids_from_rdma_hdr(
            area.as_ptr().cast(),
            network,
            &mut source,
            &mut destination,
        ))?;
        Ok((*source.raw, *destination.raw))
    }
}

/// What `ib_sg_to_pages` of the loaded core makes of a list: entries, offset, length and pages.
pub(crate) fn sg_to_pages(
    list: &[(u64, u32)],
    offset: u32,
    page_size: u32,
) -> Result<(i32, u32, u64, KVec<u64>)> {
    /// Collects pages, by way of a field of the region that nobody else uses here.
    ///
    /// # Safety
    ///
    /// The region's `dm` is a `KVec<u64>`.
    unsafe extern "C" fn set_page(mr: *mut rdma::bindings::ib_mr, page: u64) -> i32 {
        // SAFETY: By this function's duty.
        let pages: &mut KVec<u64> = unsafe { &mut *(*mr).dm.cast() };
        match pages.push(page, GFP_KERNEL) {
            Ok(()) => 0,
            Err(_) => ENOMEM.to_errno(),
        }
    }
    let mut entries = KVec::new();
    for &(addr, len) in list {
        entries.push(
            kernel::bindings::scatterlist {
                length: len,
                dma_address: addr,
                #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
                dma_length: len,
                ..Default::default()
            },
            GFP_KERNEL,
        )?;
    }
    // Who walks a list looks at the entry after the last.
    entries.push(Default::default(), GFP_KERNEL)?;
    let mut pages: KVec<u64> = KVec::new();
    let mut mr = rdma::bindings::ib_mr {
        page_size,
        dm: core::ptr::from_mut(&mut pages).cast(),
        ..Default::default()
    };
    let mut offset = offset;
    // SAFETY: The list has as many entries, one after the other; the region is ours alone.
    let taken = unsafe {
        rdma::bindings::ib_sg_to_pages(
            &mut mr,
            entries.as_mut_ptr(),
            list.len() as i32,
            &mut offset,
            Some(set_page),
        )
    };
    Ok((taken, offset, mr.length, pages))
}
