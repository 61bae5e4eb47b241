// SPDX-License-Identifier: GPL-2.0

//! Socket addresses: layouts and kinds.

use crate::ib;
use crate::scoped;
use crate::v4;
use crate::v6;
use rdma_cma_engines::proto::addr::Address;
use rdma_cma_engines::proto::addr::Family;
use rdma_cma_engines::proto::addr::Ib;
use rdma_cma_engines::proto::addr::STORAGE;
use rdma_cma_engines::proto::addr::V6;
use rdma_cma_engines::proto::Refusal;
use rdma_cma_engines::rng::Rng;

#[test]
fn layouts() {
    let mut raw = [0u8; STORAGE];
    for (i, byte) in raw.iter_mut().enumerate() {
        *byte = i as u8;
    }
    raw[..2].copy_from_slice(&2u16.to_ne_bytes());
    assert_eq!(Address::parse(&raw), Some(v4(4, 5, 6, 7, 0x0203)));
    raw[..2].copy_from_slice(&10u16.to_ne_bytes());
    let ramp: [u8; 16] = core::array::from_fn(|i| i as u8 + 8);
    assert_eq!(
        Address::parse(&raw),
        Some(Address::V6(V6 {
            addr: ramp,
            port: 0x0203,
            flow: 0x04050607,
            scope: u32::from_ne_bytes([24, 25, 26, 27]),
        }))
    );
    raw[..2].copy_from_slice(&27u16.to_ne_bytes());
    assert_eq!(
        Address::parse(&raw),
        Some(Address::Ib(Ib {
            addr: ramp,
            pkey: 0x0203,
            flow: 0x04050607,
            sid: 0x18191a1b_1c1d1e1f,
            mask: 0x20212223_24252627,
            scope: u64::from_ne_bytes([40, 41, 42, 43, 44, 45, 46, 47]),
        }))
    );
    for family in (0..=u16::MAX).filter(|family| ![2, 10, 27].contains(family)) {
        raw[..2].copy_from_slice(&family.to_ne_bytes());
        assert_eq!(Address::parse(&raw), None);
    }
}

#[test]
fn bytes_come_back() {
    let mut rng = Rng::new(1);
    for _ in 0..10_000 {
        let mut raw: [u8; STORAGE] = core::array::from_fn(|_| rng.any() as u8);
        raw[..2].copy_from_slice(&rng.pick(&[2u16, 10, 27]).to_ne_bytes());
        let addr = Address::parse(&raw).unwrap();
        let size = addr.family().size();
        let used = if size == 16 { 8 } else { size };
        let back = addr.to_bytes();
        assert_eq!(back[..used], raw[..used]);
        assert_eq!(back[used..], [0; STORAGE][used..]);
        assert_eq!(Address::parse(&back), Some(addr));
        assert_eq!(Family::from_raw(addr.family().raw()), Some(addr.family()));
    }
}

#[test]
fn kinds() {
    for (addr, zero, loopback, link) in [
        (v4(0, 0, 0, 0, 1), true, false, false),
        (v4(0, 1, 2, 3, 1), true, false, false),
        (v4(127, 9, 9, 9, 1), false, true, false),
        (v4(10, 0, 0, 0, 1), false, false, false),
        (v4(169, 254, 0, 1, 1), false, false, false),
        (v6("::", 1), true, false, false),
        (v6("::1", 1), false, true, false),
        (v6("::2", 1), false, false, false),
        (v6("::ffff:127.0.0.1", 1), false, false, false),
        (v6("fe80::1", 1), false, false, true),
        (v6("febf::1", 1), false, false, true),
        (v6("fec0::1", 1), false, false, false),
        (v6("ff02::1", 1), false, false, false),
        (ib(0, 1, 1), true, false, false),
        (ib(1, 1, 1), false, true, false),
        (ib(2, 1, 1), false, false, false),
    ] {
        assert_eq!(
            (addr.is_zero(), addr.is_loopback(), addr.is_link_local()),
            (zero, loopback, link),
            "{addr:?}"
        );
        assert_eq!(addr.is_any(), zero || loopback);
        assert!(addr.loopback().is_loopback());
        assert!(addr.family().unspecified().is_zero());
        assert_eq!(addr.loopback().port(), addr.port());
    }
}

#[test]
fn same_host() {
    let all = [
        v4(10, 0, 0, 1, 1),
        v4(10, 0, 0, 2, 1),
        v6("fd00::1", 1),
        v6("::ffff:10.0.0.1", 1),
        scoped("fe80::1", 1, 2),
        scoped("fe80::1", 1, 3),
        ib(7, 1, 1),
        ib(8, 1, 1),
    ];
    for (i, a) in all.iter().enumerate() {
        for (j, b) in all.iter().enumerate() {
            assert_eq!(a.is_same_host(b), i == j, "{a:?} {b:?}");
            assert_eq!(a.is_same_host(&b.with_port(77)), i == j);
        }
    }
    // Scopes of other addresses do not count.
    assert!(scoped("fd00::1", 1, 2).is_same_host(&scoped("fd00::1", 1, 3)));
}

#[test]
fn unmapped() {
    assert_eq!(v6("::ffff:10.0.0.1", 7).unmapped(), v4(10, 0, 0, 1, 7));
    assert_eq!(v6("::ffff:0.0.0.0", 7).unmapped(), v4(0, 0, 0, 0, 7));
    // The prefix has 96 bits, all of which count.
    for bit in 0..96 {
        let Address::V6(v6) = v6("::ffff:10.0.0.1", 7) else {
            panic!("an IPv6 address");
        };
        let addr = u128::from_be_bytes(v6.addr) ^ (1 << 127 >> bit);
        let other = Address::V6(V6 {
            addr: addr.to_be_bytes(),
            ..v6
        });
        assert_eq!(other.unmapped(), other);
    }
    for other in [v4(10, 0, 0, 1, 7), v6("::", 7), ib(7, 1, 1)] {
        assert_eq!(other.unmapped(), other);
    }
    // The GID of both is the same.
    assert_eq!(
        v6("::ffff:1.2.3.4", 0).unmapped().gid(),
        v6("::ffff:1.2.3.4", 0).gid()
    );
}

#[test]
fn interfaces() {
    assert_eq!(scoped("fe80::1", 0, 0).interface(), Err(Refusal::Invalid));
    assert_eq!(scoped("fe80::1", 0, 5).interface(), Ok(Some(5)));
    assert_eq!(scoped("fd00::1", 0, 5).interface(), Ok(None));
    assert_eq!(v4(169, 254, 0, 1, 0).interface(), Ok(None));
    assert_eq!(ib(1, 0, 0).interface(), Ok(None));
}

#[test]
fn ports() {
    assert_eq!(v4(1, 2, 3, 4, 5).with_port(6), v4(1, 2, 3, 4, 6));
    assert_eq!(scoped("fe80::1", 1, 2).with_port(9).port(), 9);
    let any = ib(3, 0x0106_0000, 0xffff_ffff_ffff_0000);
    assert_eq!(any.port(), 0);
    assert_eq!(any.with_port(0x1234), ib(3, 0x0106_1234, u64::MAX));
    assert_eq!(ib(3, 0x0106_1234, 0xff).port(), 0x34);
}

#[test]
fn sources_of_destinations() {
    assert_eq!(v4(10, 0, 0, 1, 99).source_for(), (v4(0, 0, 0, 0, 0), None));
    assert_eq!(
        scoped("fe80::1", 99, 4).source_for(),
        (scoped("::", 0, 4), Some(4))
    );
    assert_eq!(
        scoped("fd00::1", 99, 4).source_for(),
        (scoped("::", 0, 4), None)
    );
    assert_eq!(ib(9, 1, 1).source_for(), (ib(0, 0, 0), None));
}

#[test]
fn gids() {
    assert_eq!(
        v4(1, 2, 3, 4, 0).gid(),
        Some([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4])
    );
    let Address::V6(addr) = v6("fd00::1:2", 0) else {
        unreachable!()
    };
    assert_eq!(v6("fd00::1:2", 0).gid(), Some(addr.addr));
    assert_eq!(ib(1, 0, 0).gid(), None);
}
