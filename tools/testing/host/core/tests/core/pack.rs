// SPDX-License-Identifier: GPL-2.0

//! `pack` and `ud_header`: fields against bit strings, headers against each other
//! and against bytes by hand. The C core is asked in `tools/testing/kunit/core`.

use rdma_core_engines::proto::gid::Gid;
use rdma_core_engines::proto::pack::extent;
use rdma_core_engines::proto::pack::pack;
use rdma_core_engines::proto::pack::unpack;
use rdma_core_engines::proto::pack::BadField;
use rdma_core_engines::proto::pack::Extent;
use rdma_core_engines::proto::pack::Field;
use rdma_core_engines::proto::ud_header;
use rdma_core_engines::proto::ud_header::Header;
use rdma_core_engines::proto::ud_header::Impossible;
use rdma_core_engines::proto::ud_header::Ipv4;
use rdma_core_engines::proto::ud_header::Network;
use rdma_core_engines::proto::ud_header::Shape;
use rdma_core_engines::rng::Rng;

fn field(rng: &mut Rng, struct_offset: usize) -> Field {
    let (bits, bit) = match rng.below(4) {
        0 | 1 => {
            let bits = 1 + rng.below(32);
            (bits, rng.below(33 - bits))
        }
        2 => {
            let bits = 33 + rng.below(32);
            (bits, rng.below(65 - bits).min(31))
        }
        _ => (8 * (9 + rng.below(8)), 8 * rng.below(4)),
    };
    let struct_size = match bits {
        _ if rng.one_in(6) => 0,
        0..=64 => rng.pick(&[1, 2, 4, 8]),
        more => more / 8,
    };
    Field {
        struct_offset,
        struct_size,
        word: rng.below(4),
        bit,
        bits,
    }
}

fn bit(bytes: &[u8], at: usize) -> bool {
    bytes[at / 8] >> (7 - at % 8) & 1 != 0
}

#[test]
fn fields_are_strings_of_bits() {
    for seed in 0..30_000 {
        let mut rng = Rng::new(seed);
        let offset = rng.below(4);
        let field = field(&mut rng, offset);
        let structure: Vec<u8> = (0..24).map(|_| rng.any() as u8).collect();
        let before: Vec<u8> = (0..40).map(|_| rng.any() as u8).collect();
        let mut packed = before.clone();
        pack([field].into_iter(), &structure, &mut packed).unwrap();

        let first = field.word * 32 + field.bit;
        let size = 8 * field.struct_size;
        for at in 0..packed.len() * 8 {
            let want = match at.checked_sub(first).filter(|i| *i < field.bits) {
                None => bit(&before, at),
                Some(_) if size == 0 => false,
                // The low bits of the structure's value, right-aligned.
                Some(i) => match (i + size).checked_sub(field.bits) {
                    Some(from) => bit(&structure, offset * 8 + from),
                    None => false,
                },
            };
            assert_eq!(bit(&packed, at), want, "seed {seed}: {field:?}, bit {at}");
        }

        let extent = extent([field].into_iter()).unwrap();
        assert!(extent.packed <= 40 && extent.structure <= 24);
        let exact = packed[..extent.packed].to_vec();
        let mut back = structure.clone();
        for byte in &mut back[offset..offset + field.struct_size] {
            *byte = !*byte;
        }
        unpack(
            [field].into_iter(),
            &exact,
            &mut back[..extent.structure.max(1)],
        )
        .unwrap();
        // What was packed without loss comes back.
        if size != 0 && size <= field.bits {
            assert_eq!(back, structure, "seed {seed}: {field:?}");
        } else if size == 0 {
            assert_eq!(back, structure);
        }
        if extent.packed > 0 {
            let mut short = exact.clone();
            short.pop();
            let packed = pack([field].into_iter(), &structure, &mut short);
            assert_eq!(packed, Err(BadField), "outside the slice");
        }
    }
}

#[test]
fn impossible_fields() {
    let good = Field {
        struct_size: 4,
        bits: 32,
        ..Field::default()
    };
    let whole = |fields: &[Field]| extent(fields.iter().copied());
    assert_eq!(
        whole(&[good]),
        Ok(Extent {
            structure: 4,
            packed: 4
        })
    );
    for bad in [
        Field { bits: 0, ..good },
        Field { bit: 1, ..good },
        Field {
            bit: 32,
            bits: 1,
            ..good
        },
        Field {
            bit: usize::MAX,
            ..good
        },
        Field {
            struct_size: 3,
            ..good
        },
        Field {
            bits: 65,
            struct_size: 16,
            ..good
        },
        Field {
            bits: 72,
            struct_size: 8,
            ..good
        },
        Field {
            bits: 72,
            bit: 4,
            struct_size: 9,
            ..good
        },
        Field {
            word: usize::MAX,
            ..good
        },
        Field {
            struct_offset: usize::MAX,
            ..good
        },
    ] {
        assert_eq!(whole(&[good, bad]), Err(BadField), "{bad:?}");
        let mut buf = [0; 64];
        assert_eq!(
            pack([bad].into_iter(), &[0; 64], &mut buf),
            Err(BadField),
            "{bad:?}"
        );
        assert_eq!(
            unpack([bad].into_iter(), &[0; 64], &mut buf),
            Err(BadField),
            "{bad:?}"
        );
    }
}

fn shapes() -> Vec<Shape> {
    let networks = [
        Network::None,
        Network::Grh,
        Network::Ipv4 { udp: false },
        Network::Ipv4 { udp: true },
        Network::Ipv6 { udp: false },
        Network::Ipv6 { udp: true },
    ];
    let flags = |i: usize, bit: usize| i >> bit & 1 != 0;
    (0..16 * networks.len())
        .map(|i| Shape {
            lrh: flags(i, 0),
            eth: flags(i, 1),
            vlan: flags(i, 2),
            immediate: flags(i, 3),
            network: networks[i / 16],
        })
        .collect()
}

#[test]
fn every_shape_has_its_length() {
    for shape in shapes() {
        let header = Header::new(256, shape).unwrap();
        let mut buf = [0xff; ud_header::MAX];
        let len = header.pack(&mut buf).unwrap();
        let network = match shape.network {
            Network::None => 0,
            Network::Grh | Network::Ipv6 { udp: false } => 40,
            Network::Ipv6 { udp: true } => 48,
            Network::Ipv4 { udp } => 20 + 8 * usize::from(udp),
        };
        let local = 8 * usize::from(shape.lrh) + 14 * usize::from(shape.eth);
        let rest = 4 * usize::from(shape.vlan) + 20 + 4 * usize::from(shape.immediate);
        assert_eq!(len, local + network + rest, "{shape:?}");
        for short in 0..len {
            assert_eq!(header.pack(&mut buf[..short]), None);
        }
    }
}

#[test]
fn a_datagram_over_ethernet_by_hand() {
    let shape = Shape {
        lrh: false,
        eth: true,
        vlan: true,
        network: Network::Ipv4 { udp: true },
        immediate: false,
    };
    let mut header = Header::new(255, shape).unwrap();
    assert_eq!(header.bth.pad_count, 1);
    assert_eq!(header.ip4.total_length, 20 + 8 + 20 + 255 + 4);
    assert_eq!(header.udp.length, 8 + 20 + 255 + 4);
    header.eth.dmac = [1, 2, 3, 4, 5, 6];
    header.eth.smac = [7, 8, 9, 10, 11, 12];
    header.eth.vlan_tag = 0x2005;
    header.eth.vlan_type = 0x0800;
    header.ip4.ttl = 64;
    header.ip4.frag_off = 0x4000;
    header.ip4.saddr = [192, 168, 0, 1];
    header.ip4.daddr = [192, 168, 0, 199];
    header.ip4.check = header.ip4.checksum();
    header.udp.dport = 4791;
    header.bth.pkey = 0xffff;
    header.bth.solicited = true;
    header.bth.dqpn = 0xff00_0001;
    header.bth.psn = 0x0012_3456;
    header.deth.qkey = 0x8001_0000;
    header.deth.sqpn = 1;
    let mut buf = [0; ud_header::MAX];
    let len = header.pack(&mut buf).unwrap();
    let mut want = vec![
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0x20, 5, 8, 0,
    ];
    want.extend([0x45, 0, 1, 0x33, 0, 0, 0x40, 0, 64, 17]);
    want.extend(header.ip4.check.to_be_bytes());
    want.extend([192, 168, 0, 1, 192, 168, 0, 199]);
    want.extend([0, 0, 0x12, 0xb7, 1, 0x1f, 0, 0]);
    // The destination's number loses what is not in 24 bits.
    want.extend([0x64, 0x90, 0xff, 0xff, 0, 0, 0, 1, 0, 0x12, 0x34, 0x56]);
    want.extend([0x80, 1, 0, 0, 0, 0, 0, 1]);
    assert_eq!(&buf[..len], want);
}

#[test]
fn a_local_packet_by_hand() {
    let shape = Shape {
        lrh: true,
        eth: false,
        vlan: false,
        network: Network::Grh,
        immediate: true,
    };
    let mut header = Header::new(256, shape).unwrap();
    header.lrh.virtual_lane = 15;
    header.lrh.service_level = 3;
    header.lrh.dlid = 0x1234;
    header.lrh.slid = 0x5678;
    header.grh.traffic_class = 0xab;
    header.grh.flow_label = 0xc_def0;
    header.grh.hop_limit = 1;
    header.grh.sgid = Gid([1; 16]);
    header.grh.dgid = Gid([2; 16]);
    header.immediate = [9, 8, 7, 6];
    let mut buf = [0; ud_header::MAX];
    let len = header.pack(&mut buf).unwrap();
    let mut want = vec![0xf0, 0x33, 0x12, 0x34, 0, 82, 0x56, 0x78];
    want.extend([0x6a, 0xbc, 0xde, 0xf0, 1, 24, 0x1b, 1]);
    want.extend([[1; 16], [2; 16]].concat());
    want.extend([
        0x65, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 8, 7, 6,
    ]);
    assert_eq!(&buf[..len], want);
}

#[test]
fn checksums() {
    // The example that is everywhere: 4500 0073 0000 4000 4011 b861 c0a8 0001 c0a8 00c7.
    let header = Ipv4 {
        total_length: 0x73,
        frag_off: 0x4000,
        ttl: 0x40,
        protocol: 0x11,
        check: 0x7777,
        saddr: [192, 168, 0, 1],
        daddr: [192, 168, 0, 199],
        ..Ipv4::default()
    };
    assert_eq!(header.checksum(), 0xb861);
    let high = Ipv4 {
        tos: 0xff,
        total_length: 0xffff,
        id: 0xffff,
        frag_off: 0xffff,
        ttl: 0xff,
        protocol: 0xff,
        check: 0,
        saddr: [0xff; 4],
        daddr: [0xff; 4],
    };
    // All ones but for the version: the complement of 0x45ff.
    assert_eq!(high.checksum(), !0x45ff);
}

#[test]
fn impossible_networks_are_refused() {
    assert_eq!(
        Network::from_args(true, 4, false),
        Ok(Network::Ipv4 { udp: false })
    );
    assert_eq!(Network::from_args(true, 0, false), Ok(Network::Grh));
    assert_eq!(
        Network::from_args(false, 6, true),
        Ok(Network::Ipv6 { udp: true })
    );
    assert_eq!(Network::from_args(true, 5, false), Ok(Network::None));
    for ip_version in [0, 5, 7] {
        assert_eq!(Network::from_args(true, ip_version, true), Err(Impossible));
    }
    let udp = Shape {
        lrh: false,
        eth: true,
        vlan: false,
        network: Network::Ipv6 { udp: true },
        immediate: false,
    };
    assert!(Header::new(65_500, udp).is_ok());
    for payload in [65_504, 65_536, u32::MAX] {
        assert_eq!(Header::new(payload, udp), Err(Impossible), "{payload}");
    }
}
