// SPDX-License-Identifier: GPL-2.0

//! Headers before datagrams, and Ethernet addresses of GIDs.

use rdma_core_engines::proto::gid::Gid;
use rdma_core_engines::proto::roce::class_and_label;
use rdma_core_engines::proto::roce::ends;
use rdma_core_engines::proto::roce::group_mac;
use rdma_core_engines::proto::roce::header;
use rdma_core_engines::proto::roce::is_udp;
use rdma_core_engines::proto::roce::mac_in;
use rdma_core_engines::proto::roce::source_port;
use rdma_core_engines::proto::roce::Header;
use rdma_core_engines::proto::roce::AREA;

/// An IPv4 header of a captured packet, with the right checksum, after whatever.
fn ipv4(before: u8) -> [u8; AREA] {
    let mut area = [before; AREA];
    let header = [
        0x45, 0x00, 0x00, 0x3c, 0x1c, 0x46, 0x40, 0x00, 0x40, 0x06, 0xb1, 0xe6, 0xac, 0x10, 0x0a,
        0x63, 0xac, 0x10, 0x0a, 0x0c,
    ];
    area[20..].copy_from_slice(&header);
    area
}

fn ipv6() -> [u8; AREA] {
    let mut area = [0; AREA];
    area[0] = 0x6a;
    area[1] = 0xbc;
    area[2] = 0xde;
    area[3] = 0xf0;
    area[6] = 17;
    for (i, byte) in area[8..].iter_mut().enumerate() {
        *byte = i as u8;
    }
    area
}

#[test]
fn versions() {
    // What stands before an IPv4 header may look like IPv6.
    for before in [0, 0x45, 0x60, 0x6f, 0xff] {
        assert_eq!(header(&ipv4(before)), Some(Header::Ipv4), "{before:#x}");
    }
    assert_eq!(header(&ipv6()), Some(Header::Ipv6));
    // A wrong checksum, or options: then it is IPv6 if it looks like it.
    let mut area = ipv4(0x60);
    area[31] ^= 1;
    assert_eq!(header(&area), Some(Header::Ipv6));
    let mut area = ipv4(0x60);
    area[20] = 0x46;
    assert_eq!(header(&area), Some(Header::Ipv6));
    // No single bit but those of version and length is wrong without being noticed.
    for bit in 168..320 {
        let mut area = ipv4(0x60);
        area[bit / 8] ^= 0x80 >> (bit % 8);
        assert_eq!(header(&area), Some(Header::Ipv6), "{bit}");
    }
    // Where only IPv4 is possible the checksum is not asked.
    let mut area = ipv4(0);
    area[31] ^= 1;
    assert_eq!(header(&area), Some(Header::Ipv4));
    assert_eq!(header(&[0; AREA]), None);
    assert_eq!(header(&[0xff; AREA]), None);
}

#[test]
fn both_ends() {
    let v4 = ends(&ipv4(0), Header::Ipv4);
    assert_eq!(v4.source, Gid::from_ipv4([172, 16, 10, 99]));
    assert_eq!(v4.destination, Gid::from_ipv4([172, 16, 10, 12]));
    let v6 = ends(&ipv6(), Header::Ipv6);
    assert_eq!(v6.source.0, core::array::from_fn(|i| i as u8));
    assert_eq!(v6.destination.0, core::array::from_fn(|i| 16 + i as u8));
}

#[test]
fn first_word() {
    assert_eq!(class_and_label(&ipv6()), (0xab, 0xcdef0));
    assert!(is_udp(&ipv6()));
    assert!(!is_udp(&[0; AREA]));
}

#[test]
fn groups() {
    assert_eq!(
        group_mac(&Gid::from_ipv4([239, 129, 2, 3])),
        Some([1, 0, 0x5e, 1, 2, 3])
    );
    assert_eq!(
        group_mac(&Gid::from_ipv4([224, 0, 0, 1])),
        Some([1, 0, 0x5e, 0, 0, 1])
    );
    assert_eq!(group_mac(&Gid::from_ipv4([240, 0, 0, 1])), None);
    assert_eq!(group_mac(&Gid::from_ipv4([10, 0, 0, 1])), None);
    let mut group = [0; 16];
    group[0] = 0xff;
    group[1] = 0x02;
    group[12..].copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(group_mac(&Gid(group)), Some([0x33, 0x33, 1, 2, 3, 4]));
    assert_eq!(group_mac(&Gid::ZERO), None);
    assert_eq!(group_mac(&Gid::link_local([2, 0, 0, 0, 0, 1], 0)), None);
}

#[test]
fn link_local_is_undone() {
    for mac in [
        [0; 6],
        [0xff; 6],
        [2, 1, 2, 3, 4, 5],
        [0, 0x50, 0x56, 0xa1, 0xb2, 0xc3],
    ] {
        assert_eq!(mac_in(&Gid::link_local(mac, 0)), Some(mac));
    }
    assert_eq!(mac_in(&Gid::from_ipv4([10, 0, 0, 1])), None);
    let mut other = Gid::link_local([0; 6], 0);
    other.0[7] = 1;
    assert_eq!(mac_in(&other), None);
}

#[test]
fn ports_are_dynamic() {
    for label in [0, 1, 0x3fff, 0x4000, 0xf_ffff, u32::MAX] {
        assert!(source_port(label) >= 0xc000);
    }
    assert_eq!(source_port(0x4001), 0xc000);
    assert_eq!(source_port(0x12345), 0xe341);
}
