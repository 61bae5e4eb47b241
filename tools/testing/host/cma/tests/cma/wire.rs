// SPDX-License-Identifier: GPL-2.0

//! Headers of requests, service IDs and GIDs of groups.

use crate::ib;
use crate::scoped;
use crate::v4;
use crate::v6;
use rdma_cma_engines::proto::addr::Address;
use rdma_cma_engines::proto::addr::Family;
use rdma_cma_engines::proto::group;
use rdma_cma_engines::proto::header;
use rdma_cma_engines::proto::header::Header;
use rdma_cma_engines::proto::header::NoHeader;
use rdma_cma_engines::proto::service;
use rdma_cma_engines::proto::service::Space;
use rdma_cma_engines::rng::Rng;

#[test]
fn a_header_of_ipv4() {
    let (from, to) = (v4(10, 1, 2, 3, 0x1234), v4(10, 4, 5, 6, 7));
    let header = Header::of(&from, &to).unwrap();
    let bytes = header.to_bytes();
    let mut wanted = [0; 36];
    wanted[1] = 0x40;
    wanted[2..4].copy_from_slice(&[0x12, 0x34]);
    wanted[16..20].copy_from_slice(&[10, 1, 2, 3]);
    wanted[32..36].copy_from_slice(&[10, 4, 5, 6]);
    assert_eq!(bytes, wanted);
    assert_eq!(Header::parse(&bytes), Ok(header));
    assert_eq!(header.local(7), to);
    assert_eq!(header.remote(), from);
}

#[test]
fn a_header_of_ipv6() {
    let (from, to) = (v6("fd00::12", 0x1234), v6("fd00::34", 7));
    let header = Header::of(&from, &to).unwrap();
    let bytes = header.to_bytes();
    assert_eq!(bytes[..4], [0, 0x60, 0x12, 0x34]);
    assert_eq!((bytes[4], bytes[19]), (0xfd, 0x12));
    assert_eq!((bytes[20], bytes[35]), (0xfd, 0x34));
    assert_eq!(Header::parse(&bytes), Ok(header));
    assert_eq!(header.local(7), to);
    assert_eq!(header.remote(), from);
    assert_eq!(Header::of(&from, &v4(1, 2, 3, 4, 5)), None);
    assert_eq!(Header::of(&ib(1, 2, 3), &ib(1, 2, 3)), None);
}

#[test]
fn what_is_no_header() {
    let good = Header::of(&v4(1, 2, 3, 4, 5), &v4(1, 2, 3, 4, 5))
        .unwrap()
        .to_bytes();
    for len in 0..good.len() {
        assert_eq!(Header::parse(&good[..len]), Err(NoHeader::Invalid));
    }
    for version in 1..=255 {
        let mut bad = good;
        bad[0] = version;
        assert_eq!(Header::parse(&bad), Err(NoHeader::Invalid));
        // Another version of IP does not matter then.
        bad[1] = 0;
        assert_eq!(Header::parse(&bad), Err(NoHeader::Invalid));
    }
    for ip in 0..=255 {
        let mut bytes = good;
        bytes[1] = ip;
        let parsed = Header::parse(&bytes);
        match ip >> 4 {
            4 | 6 => assert!(parsed.is_ok()),
            _ => assert_eq!(parsed, Err(NoHeader::NotIp)),
        }
    }
}

#[test]
fn any_bytes() {
    let mut rng = Rng::new(2);
    for _ in 0..100_000 {
        let mut bytes: [u8; 92] = core::array::from_fn(|_| rng.any() as u8);
        bytes[0] = 0;
        let len = rng.below(93);
        let Ok(header) = Header::parse(&bytes[..len]) else {
            continue;
        };
        let back = header.to_bytes();
        assert_eq!(Header::parse(&back), Ok(header));
        assert_eq!(back[2..4], bytes[2..4]);
        if bytes[1] >> 4 == 6 {
            assert_eq!(back[4..], bytes[4..36]);
        }
    }
}

#[test]
fn lengths() {
    assert_eq!(header::len_with(Family::V4, 0), Some(36));
    assert_eq!(header::len_with(Family::V6, 56), Some(92));
    assert_eq!(header::len_with(Family::V4, 219), Some(255));
    assert_eq!(header::len_with(Family::V4, 220), None);
    assert_eq!(header::len_with(Family::Ib, 255), Some(255));
    assert_eq!(header::REQ_DATA - header::offset(Family::V4), 56);
    assert_eq!(header::SIDR_DATA - header::offset(Family::V6), 180);
}

#[test]
fn service_ids() {
    let tcp = Space::Tcp.raw();
    assert_eq!(service::id(tcp, &v4(1, 2, 3, 4, 0x5678)), 0x0106_5678);
    assert_eq!(service::id(0xdead_beef, &v6("::", 1)), 0xdead_beef_0001);
    assert_eq!(service::id(tcp, &ib(1, 0x77, 0)), 0x77);
    for space in Space::ALL {
        let id = service::id(space.raw(), &v4(1, 2, 3, 4, 0xabcd));
        assert_eq!(service::space(id), Some(space));
        assert_eq!(service::port(id), 0xabcd);
        assert_eq!(Space::from_raw(space.raw()), Some(space));
    }
    // Higher bits do not count.
    assert_eq!(service::space(0x1_0106_0001), Some(Space::Tcp));
    assert_eq!(service::space(1 << 16), None);
    assert_eq!(Space::from_raw(1), None);
}

#[test]
fn spaces_of_ip() {
    let addr = v4(1, 2, 3, 4, 5);
    for space in Space::ALL {
        assert_eq!(service::select(space.raw(), addr), Some((space, addr)));
    }
    assert_eq!(service::select(1, addr), None);
    assert_eq!(service::select(0, scoped("fe80::1", 1, 1)), None);
}

#[test]
fn spaces_of_service_ids() {
    const FULL: u64 = u64::MAX;
    const TOP: u64 = 0xffff_ffff_ffff_0000;
    let sid = |space: Space, port: u64| u64::from(space.raw()) << 16 | port;
    for (id_space, addr, wanted) in [
        (Space::Ib, ib(2, sid(Space::Ib, 9), FULL), Some(Space::Ib)),
        (Space::Ib, ib(2, sid(Space::Tcp, 9), FULL), Some(Space::Tcp)),
        (Space::Ib, ib(2, sid(Space::Udp, 9), FULL), Some(Space::Udp)),
        (Space::Ib, ib(2, sid(Space::Ipoib, 9), FULL), None),
        (
            Space::Tcp,
            ib(2, sid(Space::Tcp, 9), FULL),
            Some(Space::Tcp),
        ),
        (Space::Tcp, ib(2, sid(Space::Udp, 9), FULL), None),
        (Space::Tcp, ib(2, sid(Space::Ib, 9), FULL), None),
        (
            Space::Udp,
            ib(2, sid(Space::Udp, 9), FULL),
            Some(Space::Udp),
        ),
        (Space::Udp, ib(2, sid(Space::Tcp, 9), FULL), None),
        (Space::Ipoib, ib(2, sid(Space::Ipoib, 9), FULL), None),
        (Space::Ib, ib(2, 0x1234_0000_0000_0009, FULL), None),
        // Without a mask, the space is the ID's own, and the first for `Ib`.
        (Space::Ib, ib(2, 0, 0), Some(Space::Ib)),
        (Space::Tcp, ib(2, 0, 0), Some(Space::Tcp)),
        (Space::Udp, ib(2, 0, 0xffff), Some(Space::Udp)),
        (Space::Tcp, ib(2, sid(Space::Tcp, 0), TOP), Some(Space::Tcp)),
    ] {
        let found = service::select(id_space.raw(), addr);
        assert_eq!(found.map(|(space, _)| space), wanted, "{addr:?}");
        if let (Some((space, Address::Ib(found))), Address::Ib(given)) = (found, addr) {
            assert_eq!(found.sid, sid(space, given.sid & given.mask & 0xffff));
            assert_eq!(found.mask, given.mask | TOP);
            assert_eq!(found.addr, given.addr);
        }
    }
}

/// A broadcast address of IPoIB with P_Key 8001, of scope `scope`.
fn broadcast(scope: u8) -> [u8; 32] {
    let mut addr = [0; 32];
    addr[..10].copy_from_slice(&[0, 0xff, 0xff, 0xff, 0xff, 0x10 | scope, 0x40, 0x1b, 0x80, 1]);
    addr
}

#[test]
fn groups_of_infiniband() {
    let link = broadcast(2);
    let v4_group = v4(239, 1, 2, 3, 0);
    assert_eq!(
        group::of_ib(&v4_group, Some(Space::Ipoib), &link),
        [0xff, 0x12, 0x40, 0x1b, 0x80, 1, 0, 0, 0, 0, 0, 0, 0x0f, 1, 2, 3]
    );
    assert_eq!(
        group::of_ib(&v4_group, Some(Space::Udp), &broadcast(5))[..4],
        [0xff, 0x15, 0x40, 0x01]
    );
    let v6_group = v6("ff15:1122:3344:5566:7788:99aa:bbcc:ddee", 0);
    assert_eq!(
        group::of_ib(&v6_group, Some(Space::Ib), &link),
        [
            0xff, 0x12, 0x60, 0x1b, 0x80, 1, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd,
            0xee
        ]
    );
    assert_eq!(group::of_ib(&v6_group, Some(Space::Udp), &link)[3], 0x01);
    // One that the subnet administrator assigned stays as it is.
    for assigned in ["ff10:a01b::1", "ff1e:a01b:8001::1"] {
        let Address::V6(addr) = v6(assigned, 0) else {
            unreachable!()
        };
        assert_eq!(
            group::of_ib(&Address::V6(addr), Some(Space::Udp), &link),
            addr.addr
        );
    }
    for other in [
        "ff20:a01b::1",
        "ff10:a01c::1",
        "ff10:b01b::1",
        "fe10:a01b::1",
    ] {
        assert_eq!(group::of_ib(&v6(other, 0), None, &link)[2], 0x60);
    }
    let Address::Ib(gid) = ib(9, 0, 0) else {
        unreachable!()
    };
    assert_eq!(group::of_ib(&Address::Ib(gid), None, &link), gid.addr);
    for any in [v4(0, 0, 0, 0, 0), v4(127, 0, 0, 1, 0), v6("::", 0)] {
        assert_eq!(group::of_ib(&any, Some(Space::Udp), &link), [0; 16]);
    }
}

#[test]
fn groups_of_roce() {
    let group_of = |udp| group::of_roce(&v4(239, 1, 2, 3, 0), udp).unwrap();
    assert_eq!(
        group_of(true),
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3]
    );
    assert_eq!(
        group_of(false),
        [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3]
    );
    let v6_group = v6("ff02::77", 0);
    assert_eq!(group::of_roce(&v6_group, false), v6_group.gid());
    assert_eq!(group::of_roce(&v4(0, 0, 0, 0, 0), true), Some([0; 16]));
    assert_eq!(group::of_roce(&ib(2, 0, 0), true), None);
}
