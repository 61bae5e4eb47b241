// SPDX-License-Identifier: GPL-2.0

//! Packing of structures, and UD headers that drivers build: exports of [`crate::proto::pack`] and
//! [`crate::proto::ud_header`].
//!
//! C header: `include/rdma/ib_pack.h`.

mod edge;

use self::edge::BufferArg;
use self::edge::Call;
use self::edge::Direction;
use self::edge::HeaderArg;
use self::edge::LenArg;
use self::edge::RoomArg;
use self::edge::StructureArg;
use self::edge::TableArg;
use crate::proto::ud_header::Header;
use crate::proto::ud_header::Network;
use crate::proto::ud_header::Shape;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings::ib_ud_header;
use rdma::edge::Lent;
use rdma::edge::OutParam;

/// Packs a structure according to a table. Packs nothing if the table has an invalid field. Any
/// context.
fn pack(table: TableArg<'_>, len: LenArg<'_>, structure: StructureArg<'_>, buffer: BufferArg<'_>) {
    let call = Call::new(table, len, structure, buffer);
    if call.convert(Direction::Pack).is_err() {
        pr_warn!("ib_pack: the table has a field that cannot be packed\n");
    }
}

/// Unpacks a structure according to a table. Unpacks nothing if the table has an invalid field. Any
/// context.
fn unpack(
    table: TableArg<'_>,
    len: LenArg<'_>,
    buffer: BufferArg<'_>,
    structure: StructureArg<'_>,
) {
    let call = Call::new(table, len, structure, buffer);
    if call.convert(Direction::Unpack).is_err() {
        pr_warn!("ib_unpack: the table has a field that cannot be unpacked\n");
    }
}

/// Initialises the headers of a packet with `payload_bytes` bytes of payload: length and
/// next-header fields. `EINVAL` for UDP without IP, or if the payload exceeds the range of a length
/// field. Any context.
#[expect(clippy::too_many_arguments, reason = "those of C")]
fn init_headers(
    payload_bytes: c_int,
    lrh_present: c_int,
    eth_present: c_int,
    vlan_present: c_int,
    grh_present: c_int,
    ip_version: c_int,
    udp_present: c_int,
    immediate_present: c_int,
    mut header: OutParam<'_, ib_ud_header>,
) -> Result {
    // On failure the headers are all zeros.
    header.set(ib_ud_header::default());
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
    header.set(edge::to_c(&made));
    Ok(())
}

/// Returns the checksum of the IPv4 header in network byte order. Any context.
fn ip4_checksum(header: Lent<'_, ib_ud_header>) -> u16 {
    edge::ip4_from_c(header.0).checksum().to_be()
}

rdma::export! {
    in rdma::bindings;

    /// See [`pack`].
    fn ib_pack(
        table: TableArg<'_>, len: LenArg<'_>, structure: StructureArg<'_>, buffer: BufferArg<'_>,
    ) = pack;
    /// See [`unpack`].
    fn ib_unpack(
        table: TableArg<'_>, len: LenArg<'_>, buffer: BufferArg<'_>, structure: StructureArg<'_>,
    ) = unpack;
    /// See [`init_headers`].
    fn ib_ud_header_init(
        payload_bytes: c_int, lrh_present: c_int, eth_present: c_int, vlan_present: c_int,
        grh_present: c_int, ip_version: c_int, udp_present: c_int, immediate_present: c_int,
        header: OutParam<'_, ib_ud_header>,
    ) -> Result = init_headers;
    /// See [`edge::pack_headers`].
    fn ib_ud_header_pack(header: HeaderArg<'_>, room: RoomArg<'_>) -> c_int = edge::pack_headers;
    /// See [`ip4_checksum`].
    fn ib_ud_ip4_csum(header: Lent<'_, ib_ud_header>) -> u16 = ip4_checksum;
}
