// SPDX-License-Identifier: GPL-2.0

//! Paths of RoCE.

use crate::ib;
use crate::v4;
use crate::v6;
use rdma_cma_engines::proto::addr::Address;
use rdma_cma_engines::proto::addr::V6;
use rdma_cma_engines::proto::route;
use rdma_cma_engines::proto::route::GidType;
use rdma_cma_engines::proto::route::Network;
use rdma_cma_engines::proto::route::PathRequest;
use rdma_cma_engines::proto::route::Use;

#[test]
fn mtus() {
    for (device, mtu) in [
        (0, None),
        (96, None),
        (351, None),
        (352, Some(1)),
        (607, Some(1)),
        (608, Some(2)),
        (1119, Some(2)),
        (1120, Some(3)),
        (1500, Some(3)),
        (2143, Some(3)),
        (2144, Some(4)),
        (4191, Some(4)),
        (4192, Some(5)),
        (9000, Some(5)),
        (u32::MAX, Some(5)),
    ] {
        assert_eq!(route::mtu(device), mtu, "{device}");
    }
}

#[test]
fn flow_labels() {
    assert_eq!(
        route::flow_label(&v4(1, 2, 3, 4, 10), &v4(1, 2, 3, 5, 7)),
        317
    );
    let all = |port| v6("fd00::1", port);
    assert_eq!(
        route::flow_label(&all(u16::MAX), &all(u16::MAX)),
        65535 * 32 & 0xfffff
    );
    let Address::V6(from) = all(10) else {
        unreachable!()
    };
    let with = |flow| route::flow_label(&Address::V6(V6 { flow, ..from }), &all(7));
    assert_eq!(with(0x0ab1_2345), 0x1_2345);
    // The traffic class alone is no label.
    assert_eq!(with(0x0ab0_0000), 317);
    assert_eq!(with(0), 317);
}

#[test]
fn gid_types() {
    const V1: u64 = 1 << 1;
    const BOTH: u64 = V1 | 1 << 2;
    for (network, supported, default, wanted) in [
        (Network::V4, BOTH, GidType::Roce, GidType::RoceUdp),
        (Network::V6, BOTH, GidType::Roce, GidType::RoceUdp),
        // The way that was found wins over what the port supports.
        (Network::V4, V1, GidType::Roce, GidType::RoceUdp),
        (Network::RoceV1, BOTH, GidType::Roce, GidType::Roce),
        (Network::RoceV1, BOTH, GidType::RoceUdp, GidType::RoceUdp),
        (Network::RoceV1, BOTH, GidType::Ib, GidType::Roce),
        (Network::Ib, BOTH, GidType::Roce, GidType::Roce),
    ] {
        assert_eq!(route::gid_type(network, supported, default), wanted);
    }
    assert_eq!(GidType::preferred(BOTH), Some(GidType::RoceUdp));
    assert_eq!(GidType::preferred(V1), Some(GidType::Roce));
    assert_eq!(GidType::preferred(1), Some(GidType::Ib));
    assert_eq!(GidType::preferred(0), None);
    assert_eq!(GidType::preferred(1 << 9), None);
    for raw in 0..3 {
        assert_eq!(GidType::from_raw(raw).unwrap().raw(), raw);
    }
}

#[test]
fn gid_types_of_administrators() {
    const V1: u64 = 1 << 1;
    const BOTH: u64 = V1 | 1 << 2;
    for (name, wanted) in [
        (&b"IB/RoCE v1"[..], Some(GidType::Ib)),
        (b"IB/RoCE v1\n", Some(GidType::Ib)),
        (b"RoCE v2\n", Some(GidType::RoceUdp)),
        (b"RoCE v2", Some(GidType::RoceUdp)),
        (b"RoCE v2\n\n", None),
        (b"RoCE v2 ", None),
        (b"RoCE v1", None),
        (b"RoCE", None),
        (b"roce v2", None),
        (b"\n", None),
        (b"", None),
    ] {
        assert_eq!(GidType::parse(name), wanted, "{name:?}");
    }
    for one in [GidType::Ib, GidType::RoceUdp] {
        assert_eq!(GidType::parse(one.name()), Some(one));
    }
    assert_eq!(GidType::Roce.name(), GidType::Ib.name());
    for (one, mask, wanted) in [
        (GidType::Ib, BOTH, Some(GidType::Roce)),
        (GidType::Ib, V1, Some(GidType::Roce)),
        (GidType::Ib, 1, Some(GidType::Ib)),
        (GidType::Ib, 1 << 2, None),
        (GidType::Roce, 1, None),
        (GidType::RoceUdp, BOTH, Some(GidType::RoceUdp)),
        (GidType::RoceUdp, V1, None),
    ] {
        assert_eq!(one.of_port(mask), wanted, "{one:?} {mask}");
    }
}

#[test]
fn priorities() {
    // As `ip_tos2prio` of the kernel.
    let table = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];
    for tos in 0..=255u8 {
        assert_eq!(
            route::priority(tos),
            table[usize::from((tos & 0x1e) >> 1)],
            "{tos:#x}"
        );
    }
}

#[test]
fn paths() {
    let (source, destination) = (v4(10, 0, 0, 1, 1000), v4(10, 0, 0, 2, 2000));
    let from = PathRequest {
        source: &source,
        destination: &destination,
        tos: 0x20,
        sl: 3,
        hop_limit: 64,
        mtu: 1500,
        ack_timeout: None,
        udp: true,
    };
    let path = route::path(&from).unwrap();
    assert_eq!(Some(path.sgid), source.gid());
    assert_eq!(Some(path.dgid), destination.gid());
    assert_eq!(path.flow_label, 33000);
    assert_eq!((path.hop_limit, path.traffic_class, path.sl), (64, 0x20, 3));
    assert_eq!((path.mtu, path.life_time), (3, 16));
    let life = |ack_timeout| {
        route::path(&PathRequest {
            ack_timeout,
            ..from
        })
        .unwrap()
        .life_time
    };
    assert_eq!(life(Some(0)), 16);
    assert_eq!(life(Some(1)), 0);
    assert_eq!(life(Some(255)), 254);
    let v1 = route::path(&PathRequest { udp: false, ..from }).unwrap();
    assert_eq!(v1.flow_label, 0);
    assert_eq!(route::path(&PathRequest { mtu: 300, ..from }), None);
    let gid = ib(3, 0, 0);
    let other = route::path(&PathRequest {
        source: &gid,
        destination: &gid,
        ..from
    })
    .unwrap();
    assert_eq!((other.hop_limit, other.dgid), (1, [0; 16]));
}

#[test]
fn ports_for_destinations_of_ib() {
    let gid = |subnet: u8, port: u8| {
        let mut gid = [0; 16];
        (gid[7], gid[15]) = (subnet, port);
        gid
    };
    let cases = [
        (gid(1, 1), gid(1, 1), true, true),
        (gid(1, 1), gid(1, 1), false, true),
        (gid(1, 1), gid(1, 2), true, true),
        (gid(1, 1), gid(1, 2), false, false),
        (gid(1, 1), gid(2, 1), true, false),
    ];
    for (own, to, active, leads) in cases {
        assert_eq!(route::leads_to(&own, &to, active), leads);
    }
}

#[test]
fn uses_of_paths() {
    let wanted = |flags| match flags {
        0 => Some(Use::Primary),
        flags if flags & 1 != 0 => Some(Use::Primary),
        flags if flags & 16 != 0 => Some(Use::Inbound),
        flags if flags & 8 != 0 => Some(Use::Outbound),
        _ => None,
    };
    for flags in 0..64 {
        assert_eq!(Use::of(flags), wanted(flags), "{flags:#x}");
    }
}
