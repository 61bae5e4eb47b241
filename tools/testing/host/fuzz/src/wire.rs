// SPDX-License-Identifier: GPL-2.0

//! The target `wire`: what is parsed is written back as it was, and lies nowhere.

use rdma_wire::icrc::{finish, icrc, Framing};
use rdma_wire::*;

/// Runs an input: a selector, then a datagram with what precedes it.
pub fn run(input: &[u8]) {
    let Some((&what, rest)) = input.split_first() else {
        return;
    };
    match what % 4 {
        0 | 1 => datagram(rest),
        2 => headers(rest, usize::from(what) << 2),
        _ => network(rest, what >> 2),
    }
}

/// A datagram that lies in one piece.
fn datagram(bytes: &[u8]) {
    let Ok(packet) = Packet::parse(bytes) else {
        return;
    };
    let header = packet.header();
    let at = header.payload_offset();
    let end = at + packet.payload.len();
    assert_eq!(&bytes[at..end], packet.payload);
    assert_eq!(
        end + usize::from(packet.bth.pad) + ICRC_LEN,
        bytes.len(),
        "nothing is left over"
    );
    assert!(packet.bth.dest_qpn <= 0xff_ffff && packet.bth.psn.get() <= 0xff_ffff);
    let rule = packet.bth.opcode.payload_rule();
    assert!(rule.permits_on_any_path(packet.payload.len()));
    written_back(&header, bytes);
}

/// The beginning of a longer one.
fn headers(bytes: &[u8], more: usize) {
    let total = bytes.len() + more;
    if let Ok(header) = Header::parse(bytes, total) {
        assert!(header.payload_offset() <= bytes.len());
        assert!(header.payload_offset() + header.payload_len <= total);
        written_back(&header, bytes);
    }
}

/// Headers come back as they were, but for reserved bits, which are lost once.
fn written_back(header: &Header, bytes: &[u8]) {
    assert_eq!(header.ext.layout(), header.bth.opcode.layout());
    let mut first = [0xee; MAX_HEADER_LEN];
    let len = write_headers(&mut first, &header.bth, &header.ext).expect("they fit");
    assert_eq!(len, header.payload_offset());
    assert!(first[len..].iter().all(|&byte| byte == 0xee));
    for (i, (was, is)) in bytes.iter().zip(&first[..len]).enumerate() {
        // Reserved bits are written as zeros, so none is ever added.
        assert_eq!(was & is, *is, "byte {i} of {header:?}");
    }
    let total = len + header.payload_len + usize::from(header.bth.pad) + ICRC_LEN;
    let again = Header::parse(&first[..len], total).expect("it was a packet");
    assert_eq!(again, *header);
    for short in 0..len {
        let room = &mut [0; MAX_HEADER_LEN][..short];
        assert_eq!(write_headers(room, &header.bth, &header.ext), None);
        assert!(Header::parse(&first[..short], total).is_err());
    }
}

/// CRC-32 of Ethernet, bit by bit.
fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 }
        })
    })
}

/// What precedes the BTH, and the ICRC over both.
fn network(bytes: &[u8], which: u8) {
    if let Some(grh) = Grh::parse(bytes) {
        let mut back = [0; Grh::LEN];
        assert_eq!(grh.write(&mut back), Some(Grh::LEN));
        assert_eq!(back, bytes[..Grh::LEN]);
    }
    let framings = [Framing::Ipv4, Framing::Ipv6, Framing::Grh, Framing::Lrh];
    let framing = framings[usize::from(which) % framings.len()];
    let mut masked = bytes.to_vec();
    let Some(value) = icrc(framing, bytes, crc32) else {
        assert_eq!(framing.mask(&mut masked), None);
        assert_eq!(masked, bytes, "nothing changed");
        return;
    };
    framing.mask(&mut masked).expect("the same header");
    assert_eq!(
        masked[framing.masked_len()..],
        bytes[framing.masked_len()..]
    );
    for (was, is) in bytes.iter().zip(&masked) {
        assert_eq!(was | is, *is, "masking only sets bits");
    }
    let whole = finish(crc32(framing.seed(), &masked));
    assert_eq!(whole, value, "in one call or in two");
    // What a router may change does not matter; anything else does.
    let at = usize::from(which) * 7 % bytes.len();
    let mut changed = bytes.to_vec();
    changed[at] ^= 1;
    if let Some(other) = icrc(framing, &changed, crc32) {
        framing.mask(&mut changed).expect("it has an ICRC");
        assert_eq!(other != value, changed != masked, "byte {at}");
    }
}
