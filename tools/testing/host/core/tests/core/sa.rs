// SPDX-License-Identifier: GPL-2.0

//! `sa`: records against bit strings and bytes by hand, numbers of queries, messages of the
//! local service, and multicast groups in random histories against an SA.

use rdma_core_engines::proto::gid::Gid;
use rdma_core_engines::proto::nla::Align64;
use rdma_core_engines::proto::nla::Writer;
use rdma_core_engines::proto::sa::datagram::Attribute;
use rdma_core_engines::proto::sa::datagram::Fabric;
use rdma_core_engines::proto::sa::datagram::Header;
use rdma_core_engines::proto::sa::datagram::Method;
use rdma_core_engines::proto::sa::local;
use rdma_core_engines::proto::sa::local::Answer;
use rdma_core_engines::proto::sa::local::Patience;
use rdma_core_engines::proto::sa::local::Use;
use rdma_core_engines::proto::sa::member::component as mc;
use rdma_core_engines::proto::sa::member::JoinState;
use rdma_core_engines::proto::sa::member::Member;
use rdma_core_engines::proto::sa::path::component;
use rdma_core_engines::proto::sa::path::IbLink;
use rdma_core_engines::proto::sa::path::Link;
use rdma_core_engines::proto::sa::path::OpaLink;
use rdma_core_engines::proto::sa::path::Path;
use rdma_core_engines::proto::sa::query::Cancel;
use rdma_core_engines::proto::sa::query::Phase;
use rdma_core_engines::proto::sa::query::Tickets;
use rdma_core_engines::proto::sa::query::Tries;
use rdma_core_engines::proto::sa::record::ClassPortInfo;
use rdma_core_engines::proto::sa::record::GuidInfo;
use rdma_core_engines::proto::sa::record::Service;
use rdma_core_engines::proto::sa::wire::Record;
use rdma_core_engines::rng::Rng;
use std::fmt::Debug;

fn bytes<const N: usize>(rng: &mut Rng) -> [u8; N] {
    core::array::from_fn(|_| rng.any() as u8)
}

/// What is read is written again; what is reserved becomes zero; nothing else is touched.
fn there_and_back<R: Record + PartialEq + Debug>(form: R, reserved: &[(usize, usize)]) {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let wire: [u8; 200] = bytes(&mut rng);
        let mut record = form;
        record.read(&wire);
        let mut back: [u8; 200] = bytes(&mut rng);
        let rest = back;
        record.pack(&mut back);
        let mut want = wire;
        for (from, len) in reserved {
            for bit in *from..from + len {
                want[bit / 8] &= !(0x80 >> (bit % 8));
            }
        }
        assert_eq!(back[..R::LEN], want[..R::LEN], "seed {seed}");
        assert_eq!(back[R::LEN..], rest[R::LEN..]);
        let mut again = form;
        again.read(&back);
        assert_eq!(again, record);
        // Short input is read as zeros, short output is filled as far as it goes.
        let cut = rng.below(R::LEN);
        let mut short = form;
        short.read(&wire[..cut]);
        let mut room = vec![0xaa; cut];
        record.pack(&mut room);
        assert_eq!(room[..], want[..cut]);
    }
}

#[test]
fn records_have_every_bit_once() {
    there_and_back(Path::default(), &[(353, 3), (464, 48)]);
    let opa = Path {
        link: Link::Opa(OpaLink::default()),
        ..Path::default()
    };
    there_and_back(opa, &[(385, 3), (452, 2), (464, 3), (472, 8)]);
    there_and_back(Member::default(), &[(393, 23)]);
    there_and_back(Service::default(), &[(208, 16)]);
    there_and_back(GuidInfo::default(), &[]);
    there_and_back(ClassPortInfo::default(), &[]);
    there_and_back(Header::default(), &[(48, 16), (144, 240)]);
}

#[test]
fn fields_are_where_the_specification_has_them() {
    let path = Path {
        service_id: 0x0102_0304_0506_0708,
        dgid: Gid([0xd1; 16]),
        sgid: Gid([0x51; 16]),
        link: Link::Ib(IbLink {
            dlid: 0x1234,
            slid: 0x5678,
            raw_traffic: 0,
        }),
        flow_label: 0xabcde,
        hop_limit: 0x40,
        traffic_class: 0x7c,
        reversible: 1,
        numb_path: 2,
        pkey: 0xffff,
        qos_class: 0x123,
        sl: 4,
        mtu_selector: 2,
        mtu: 5,
        rate_selector: 2,
        rate: 3,
        life_time_selector: 2,
        life_time: 18,
        preference: 9,
    };
    let mut wire = [0; 64];
    path.pack(&mut wire);
    let mut want = vec![1, 2, 3, 4, 5, 6, 7, 8];
    want.extend([0xd1; 16]);
    want.extend([0x51; 16]);
    want.extend([0x12, 0x34, 0x56, 0x78, 0x0a, 0xbc, 0xde, 0x40]);
    want.extend([0x7c, 0x82, 0xff, 0xff, 0x12, 0x34, 0x85, 0x83, 0x92, 9]);
    want.extend([0; 6]);
    assert_eq!(wire[..], want[..]);

    let member = Member {
        mgid: Gid([0xff; 16]),
        port_gid: Gid([0xfe; 16]),
        qkey: 0x0b1b,
        mlid: 0xc001,
        mtu_selector: 2,
        mtu: 4,
        pkey: 0xffff,
        rate_selector: 2,
        rate: 3,
        sl: 1,
        flow_label: 0x12345,
        scope: 2,
        join_state: JoinState(1),
        proxy_join: 1,
        ..Member::default()
    };
    let mut wire = [0; 52];
    member.pack(&mut wire);
    let tail = [
        0, 0, 0x0b, 0x1b, 0xc0, 0x01, 0x84, 0, 0xff, 0xff, 0x83, 0, 0x11, 0x23, 0x45, 0, 0x21,
        0x80, 0, 0,
    ];
    assert_eq!(wire[32..], tail);

    let info = ClassPortInfo::unpack(&[1, 2, 0, 4, 0x80, 0, 0, 0x32]);
    assert!(info.knows_opa_paths());
    assert_eq!(info.response_time, 0x12);
    assert!(!ClassPortInfo::unpack(&[1, 2, 0, 4, 0x7f, 0xff, 0xff, 0xff]).knows_opa_paths());
}

#[test]
fn queries_have_headers() {
    let mut wire = [0; 56];
    Header::of_query(
        Fabric::Ib,
        Method::Get,
        Attribute::Path,
        0x0c,
        0x0102_0304_0506_0708,
    )
    .pack(&mut wire);
    let mut want = [0; 56];
    want[..4].copy_from_slice(&[1, 3, 2, 1]);
    want[8..18].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 0, 0x35]);
    want[55] = 0x0c;
    assert_eq!(wire, want);
    let opa = Header::of_query(Fabric::Opa, Method::GetTable, Attribute::Service, 0, 0);
    assert_eq!(
        (opa.base_version, opa.class_version, opa.method),
        (0x80, 0x80, 0x12)
    );
}

#[test]
fn paths_of_omni_path_survive_infiniband() {
    for seed in 0..5000 {
        let mut rng = Rng::new(seed);
        let lid = |rng: &mut Rng| match rng.below(3) {
            0 => rng.below(0xc000) as u32,
            1 => 0xc000 + rng.below(3) as u32,
            _ => rng.any() as u32,
        };
        let path = Path {
            dgid: Gid(bytes(&mut rng)),
            sgid: Gid(bytes(&mut rng)),
            link: Link::Opa(OpaLink {
                dlid: lid(&mut rng),
                slid: lid(&mut rng),
                raw_traffic: rng.below(2) as u8,
                ..OpaLink::default()
            }),
            ..Path::default()
        };
        let there = path.to_ib();
        assert!(matches!(there.link, Link::Ib(_)));
        assert_eq!(there.dgid.0[..8], path.dgid.0[..8]);
        assert_eq!(there.sgid.0[..8], path.sgid.0[..8]);
        let back = there.to_opa();
        assert_eq!(back.link, path.link, "seed {seed}");
        assert_eq!(there.to_ib(), there);
        assert_eq!(back.to_opa(), back);
        let (Link::Opa(link), Link::Ib(ib)) = (path.link, there.link) else {
            unreachable!()
        };
        if link.dlid < 0xc000 && link.slid < 0xc000 {
            assert_eq!((there.dgid, there.sgid), (path.dgid, path.sgid));
        } else {
            assert_eq!((ib.dlid, ib.slid), (0, 0));
        }
    }
}

#[test]
fn numbers_are_found_by_their_lower_bits() {
    let mut tickets = Tickets::new();
    assert_eq!(tickets.by_low(0, 4), None);
    assert_eq!(tickets.by_low(1, 4), None);
    for n in 1..100_u64 {
        assert_eq!(tickets.issue(), n);
        for old in n.saturating_sub(15).max(1)..=n {
            assert_eq!(tickets.by_low(old as u32 & 15, 4), Some(old), "{n} {old}");
        }
    }
}

#[test]
fn time_is_spent_in_ten_parts() {
    let tries = |ms| {
        let Tries {
            timeout_ms,
            retries,
        } = Tries::of(ms);
        (timeout_ms, retries)
    };
    assert_eq!(tries(3000), (300, 10));
    assert_eq!(tries(10), (1, 10));
    assert_eq!(tries(9), (1, 9));
    assert_eq!(tries(0), (1, 0));
    assert_eq!(tries(u64::MAX), (i32::MAX, 10));
}

#[test]
fn a_cancelled_query_completes_once() {
    let mut phase = Phase::Local;
    assert_eq!(phase.cancel(), Cancel::Complete);
    let mut phase = Phase::Sending { cancelled: false };
    assert_eq!(phase.cancel(), Cancel::Nothing);
    assert!(phase.sent());
    assert_eq!(phase.cancel(), Cancel::Datagram);
    let mut phase = Phase::Sending { cancelled: false };
    assert!(!phase.sent());
    assert_eq!(phase.cancel(), Cancel::Datagram);
}

#[test]
fn the_local_service_is_asked_with_what_counts() {
    let path = Path {
        service_id: 7,
        dgid: Gid([1; 16]),
        sgid: Gid([2; 16]),
        pkey: 0x8001,
        reversible: 1,
        traffic_class: 3,
        qos_class: 4,
        ..Path::default()
    };
    let write = |mask, name: &[u8], room: usize| {
        let mut buf = vec![0xee; room];
        let mut writer = Writer::new(&mut buf, Align64::Packed);
        let request = local::Request {
            seq: 0x1234,
            device: name,
            port: 1,
            path: &path,
            mask,
        };
        request
            .write(&mut writer)
            .map(|()| writer.written().to_vec())
    };
    let mask = component::DGID | component::SGID | component::PKEY | component::REVERSIBLE;
    assert!(local::can_ask(mask) && !local::can_ask(component::REVERSIBLE));
    let message = write(mask, b"fake0", 300).unwrap();
    assert_eq!(message.len(), 16 + 68 + 20 + 20 + 8);
    assert_eq!(message[..4], (message.len() as u32).to_ne_bytes());
    assert_eq!(message[4..6], (4_u16 << 10).to_ne_bytes());
    assert_eq!(message[6..8], 1_u16.to_ne_bytes());
    assert_eq!(message[8..12], 0x1234_u32.to_ne_bytes());
    // The sender is the kernel.
    assert_eq!(message[12..16], [0; 4]);
    assert_eq!(&message[16..22], b"fake0\0");
    assert_eq!(message[80..84], [1, 0, 0, 0]);
    assert_eq!(message[86..88], (1_u16 << 13 | 4).to_ne_bytes());
    assert_eq!(message[88..104], [1; 16]);
    assert_eq!(message[128..130], 0x8001_u16.to_ne_bytes());
    // A name that is too long is cut, and ends.
    let message = write(component::DGID, &[b'x'; 80], 300).unwrap();
    assert_eq!(message[78..82], [b'x', 0, 1, 1]);
    // What does not fit leaves nothing.
    for room in 0..message.len() {
        assert!(write(component::DGID, b"fake0", room).is_err());
    }
}

pub(crate) fn attr(attr: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ((4 + payload.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(attr.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn path_attr(flags: u32, fill: u8) -> Vec<u8> {
    let mut payload = flags.to_ne_bytes().to_vec();
    payload.extend([0; 4]);
    payload.extend([fill; 64]);
    attr(1, &payload)
}

#[test]
fn answers_of_the_local_service_are_judged() {
    let answer: Vec<u8> = [(2, 1), (10, 2), (4, 3), (10, 4), (10, 5), (10, 6)]
        .iter()
        .flat_map(|(flags, fill)| path_attr(*flags, *fill))
        .collect();
    let fills = |wanted| -> Vec<u8> {
        let answer = Answer::read(0, &answer).unwrap();
        answer.paths(wanted).map(|found| found.record[63]).collect()
    };
    assert_eq!(fills(Use::All), [1, 2, 4]);
    assert_eq!(fills(Use::Unidirectional), [2, 4, 5]);
    assert!(Answer::read(local::FAILED, &answer).is_none());
    assert!(Answer::read(0, &[])
        .unwrap()
        .paths(Use::All)
        .next()
        .is_none());
    for len in [0, 7, 71, 73] {
        assert!(Answer::read(0, &attr(1, &vec![0; len])).is_none());
    }
    assert_eq!(
        local::timeout(&attr(2, &500_u32.to_ne_bytes())),
        Some(Patience(500))
    );
    assert_eq!(
        local::timeout(&attr(2, &5_u32.to_ne_bytes())),
        Some(Patience(100))
    );
    assert_eq!(
        local::timeout(&attr(2, &u32::MAX.to_ne_bytes())),
        Some(Patience(100))
    );
    assert_eq!(local::timeout(&attr(2, &[1, 2, 3])), None);
    assert_eq!(local::timeout(&attr(9, &[1, 2, 3, 4])), None);
    assert_eq!(Patience(100).left(1000, 1099), Some(1));
    assert_eq!(Patience(100).left(1000, 1100), None);
    assert_eq!(Patience(100).left(1000, 0), Some(100));
    // Nothing that a user sends stops us.
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let noise: Vec<u8> = (0..rng.below(120))
            .map(|_| rng.pick(&[0, 1, 2, 4, 8, 76, 255]))
            .collect();
        local::timeout(&noise);
        if let Some(answer) = Answer::read(0, &noise) {
            assert!(answer.paths(Use::All).count() <= local::PATHS);
        }
    }
}

#[test]
fn groups_are_compared_by_the_fields_that_count() {
    let have = Member {
        qkey: 1,
        mtu: 4,
        rate: 3,
        life_time: 10,
        sl: 2,
        ..Member::default()
    };
    assert!(have.satisfies(&Member::default(), 0));
    assert!(!have.satisfies(&Member::default(), mc::QKEY));
    assert!(!have.satisfies(&Member::default(), mc::SL));
    assert!(have.satisfies(&Member::default(), mc::MLID | mc::PKEY | mc::SCOPE));
    // By selector: more, less, equal, best; only if both fields count.
    for (selector, value, fits) in [
        (0, 3, true),
        (0, 4, false),
        (1, 5, true),
        (1, 4, false),
        (2, 4, true),
        (2, 5, false),
        (3, 0, true),
    ] {
        let asked = Member {
            mtu_selector: selector,
            mtu: value,
            ..Member::default()
        };
        assert_eq!(have.satisfies(&asked, mc::MTU | mc::MTU_SELECTOR), fits);
        assert!(have.satisfies(&asked, mc::MTU));
        assert!(have.satisfies(&asked, mc::MTU_SELECTOR));
    }
}
