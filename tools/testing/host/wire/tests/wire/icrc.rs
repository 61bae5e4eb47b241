// SPDX-License-Identifier: GPL-2.0

//! ICRC framing against packets whose ICRC others have made.

use proptest::collection::vec;
use proptest::prelude::*;
use rdma_wire::icrc::{finish, icrc, icrc_of_c_flush, Framing, Masked};
use rdma_wire::{Packet, ICRC_LEN};

/// CRC-32 of Ethernet, least significant bit first, neither preset nor inverted:
/// bit by bit, so that there is nothing in it to be wrong.
fn crc32(mut crc: u32, bytes: &[u8]) -> u32 {
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    crc
}

struct Vector {
    source: &'static str,
    framing: Framing,
    /// From the header that `framing` names to the ICRC.
    packet: &'static str,
}

/// Captured packets of C rxe are to be added here.
const VECTORS: &[Vector] = &[
    Vector {
        source: "IBTA volume 1, 7.8.3: sample packet without GRH, with the ICRC printed there",
        framing: Framing::Lrh,
        packet: "7012375c000e17d2 0a20248700 87b1b3000dec2a 01710a1c015d4002 38f27a05 0000000e \
                 bb884d85fd5cfba4728bc0690ed40000 9625b75a",
    },
    Vector {
        source: "the sample packet with GRH (LRH left out); ICRC calculated apart from this \
                 code, in Python, from the field list of 7.8.1",
        framing: Framing::Grh,
        packet: "6000000000320010 00000000000001250000000000000026 \
                 00000000000001170000000000000096 0a20248700 87b1b3000dec2a 01710a1c015d4002 \
                 38f27a05 0000000e bb884d85fd5cfba4728bc0690ed40000 1493ec46",
    },
    Vector {
        source: "congestion notification captured from a ConnectX-4 Lx, as published in the \
                 RoCE tests of scapy",
        framing: Framing::Ipv4,
        packet: "45c2003c718c40004011 91610a0011010a001201 000012b700280000 8100ffff40000118 \
                 00000000 00000000000000000000000000000000 82fd002a",
    },
    Vector {
        source: "UC send published in the RoCE tests of scapy, with a UDP checksum",
        framing: Framing::Ipv4,
        packet: "45010040047840004011b4d5c0a80007c0a80007 c00012b7002caca2 2460ffff000000d3 \
                 00cf1710 4630818be28935d90e9a95505401be885e500000 78f353f3",
    },
    Vector {
        source: "made for this test; ICRC calculated apart from this code, by Python's zlib, \
                 from the field list of annex A17",
        framing: Framing::Ipv6,
        packet: "6a51234500301140 fe80000000000000021122fffe334455 \
                 fe80000000000000021122fffe334466 c12312b700300000 0ab0ffff400000118000007b \
                 00007f1234567890 00001200 00000005 68656c6c6f000000 4aa03bea",
    },
];

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Packet without ICRC, and the ICRC.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.len() - ICRC_LEN)
}

#[test]
fn crc_is_the_one_of_ethernet() {
    assert_eq!(!crc32(u32::MAX, b"123456789"), 0xcbf4_3926);
}

#[test]
fn seed_is_the_masked_lrh() {
    let after = crc32(Framing::Lrh.seed(), &[0xff; 8]);
    assert_eq!(after, 0xdebb_20e3);
    for framing in [Framing::Ipv4, Framing::Ipv6, Framing::Grh] {
        assert_eq!(framing.seed(), after);
    }
}

#[test]
fn vectors() {
    for vector in VECTORS {
        let bytes = unhex(vector.packet);
        let (packet, expected) = split(&bytes);
        let made = icrc(vector.framing, packet, crc32).unwrap();
        assert_eq!(made, expected, "{}", vector.source);

        // The same in pieces: masked front, then the rest.
        let masked = Masked::new(vector.framing, packet).unwrap();
        let state = masked.crc(crc32);
        let state = crc32(state, &packet[vector.framing.masked_len()..]);
        assert_eq!(finish(state), expected, "{}", vector.source);

        // And in one call, over a packet masked in place.
        let mut in_place = packet.to_vec();
        vector.framing.mask(&mut in_place).unwrap();
        let state = crc32(vector.framing.seed(), &in_place);
        assert_eq!(finish(state), expected, "{}", vector.source);

        // What follows the outer header is a packet that we can read.
        Packet::parse(&bytes[vector.framing.outer_len()..]).unwrap();
    }
}

/// Exactly the fields that the standard names may change without a new ICRC.
#[test]
fn variant_bits() {
    for vector in VECTORS {
        let bytes = unhex(vector.packet);
        let (packet, expected) = split(&bytes);
        let bth = vector.framing.outer_len();
        let variant = |byte: usize, bit: u8| match (vector.framing, byte) {
            (_, b) if b == bth + 4 => true,
            (Framing::Ipv4, 1 | 8 | 10 | 11 | 26 | 27) => true,
            (Framing::Ipv6, 46 | 47) => true,
            (Framing::Ipv6 | Framing::Grh, 0) => bit < 4,
            (Framing::Ipv6 | Framing::Grh, 1..=3 | 7) => true,
            (Framing::Lrh, 0) => bit >= 4,
            _ => false,
        };
        for byte in 0..packet.len() {
            for bit in 0..8 {
                let mut changed = packet.to_vec();
                changed[byte] ^= 1 << bit;
                // `None` when the change makes it another protocol.
                let same = icrc(vector.framing, &changed, crc32).is_some_and(|c| c == expected);
                assert_eq!(same, variant(byte, bit), "byte {byte} bit {bit}");
            }
        }
    }
}

#[test]
fn wrong_headers_are_refused() {
    let v4 = unhex(VECTORS[2].packet);
    let v6 = unhex(VECTORS[4].packet);
    assert!(Masked::new(Framing::Ipv6, &v4).is_none());
    assert!(Masked::new(Framing::Grh, &v4).is_none());
    assert!(Masked::new(Framing::Ipv4, &v6).is_none());
    let mut options = v4.clone();
    options[0] = 0x46;
    assert!(Masked::new(Framing::Ipv4, &options).is_none());
    for (framing, bytes) in [(Framing::Ipv4, &v4), (Framing::Ipv6, &v6)] {
        for len in 0..framing.masked_len() {
            assert!(Masked::new(framing, &bytes[..len]).is_none());
            assert!(icrc(framing, &bytes[..len], crc32).is_none());
        }
    }
}

/// Both forms calculated apart from this code, by Python's zlib.
#[test]
fn flush_of_the_c_driver() {
    let packet = unhex(
        "45020040abcd40004011 12340a0000010a000002 c12312b7002c0000 1c40ffff0000001180000123 \
         00000011 00007f12345670000000120000000040",
    );
    let c = icrc_of_c_flush(Framing::Ipv4, &packet, crc32).unwrap();
    assert_eq!(c.to_vec(), unhex("dad41379"));
    let standard = icrc(Framing::Ipv4, &packet, crc32).unwrap();
    assert_eq!(standard.to_vec(), unhex("e3977583"));

    // Of nothing else.
    for (byte, value) in [(28, 0x1d), (28, 0x0c), (0, 0x46)] {
        let mut other = packet.clone();
        other[byte] = value;
        assert_eq!(icrc_of_c_flush(Framing::Ipv4, &other, crc32), None);
    }
    let mut long = packet.clone();
    long.extend([0; 4]);
    assert_eq!(icrc_of_c_flush(Framing::Ipv4, &long, crc32), None);
    for len in 0..packet.len() {
        assert_eq!(icrc_of_c_flush(Framing::Ipv4, &packet[..len], crc32), None);
    }
}

proptest! {
    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..120)) {
        for framing in [Framing::Ipv4, Framing::Ipv6, Framing::Grh, Framing::Lrh] {
            let made = icrc(framing, &bytes, crc32);
            prop_assert_eq!(made.is_some(), Masked::new(framing, &bytes).is_some());
            prop_assert!(icrc_of_c_flush(framing, &bytes, crc32).is_none() || made.is_some());
            let mut in_place = bytes.clone();
            if framing.mask(&mut in_place).is_none() {
                prop_assert_eq!(&in_place, &bytes);
            }
        }
    }
}
