// SPDX-License-Identifier: GPL-2.0

//! Times, paths, tables, answers to strangers, counters, texts.

use super::bed::*;
use core::cell::Cell;
use rdma_cm_engine::proto::answer::Answer;
use rdma_cm_engine::proto::answer::Ari;
use rdma_cm_engine::proto::conn::Conn;
use rdma_cm_engine::proto::conn::Event;
use rdma_cm_engine::proto::conn::Source;
use rdma_cm_engine::proto::counters;
use rdma_cm_engine::proto::counters::Count;
use rdma_cm_engine::proto::counters::Group;
use rdma_cm_engine::proto::ids::CommId;
use rdma_cm_engine::proto::ids::Gid;
use rdma_cm_engine::proto::ids::Guid;
use rdma_cm_engine::proto::ids::Qpn;
use rdma_cm_engine::proto::ids::ServiceId;
use rdma_cm_engine::proto::path;
use rdma_cm_engine::proto::path::PathRecord;
use rdma_cm_engine::proto::path::PERMISSIVE_LID;
use rdma_cm_engine::proto::reject;
use rdma_cm_engine::proto::tables::claim;
use rdma_cm_engine::proto::tables::release;
use rdma_cm_engine::proto::tables::service_to_listen;
use rdma_cm_engine::proto::tables::share;
use rdma_cm_engine::proto::tables::Claim;
use rdma_cm_engine::proto::tables::IdKey;
use rdma_cm_engine::proto::tables::Listen;
use rdma_cm_engine::proto::tables::Lookup;
use rdma_cm_engine::proto::tables::PeerKeys;
use rdma_cm_engine::proto::tables::QpnKey;
use rdma_cm_engine::proto::tables::Table;
use rdma_cm_engine::proto::times;
use rdma_cm_engine::proto::wire::About;
use rdma_cm_engine::proto::wire::Body;
use rdma_cm_engine::proto::wire::Kind;
use rdma_cm_engine::proto::wire::Message;
use rdma_cm_engine::proto::wire::Reason;
use rdma_cm_engine::proto::wire::SidrReq;
use rdma_cm_engine::proto::wire::Transport;
use rdma_cm_engine::proto::wire::WirePath;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A table as an ordered map.
#[derive(Debug)]
pub(crate) struct Map<K, V>(pub(crate) RefCell<BTreeMap<K, V>>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(RefCell::new(BTreeMap::new()))
    }
}

impl<K: Ord, V: Copy + PartialEq> Table<K, V> for Map<K, V> {
    fn insert(&self, key: K, value: V) -> Result<(), V> {
        let mut map = self.0.borrow_mut();
        if let Some(other) = map.get(&key) {
            return Err(*other);
        }
        map.insert(key, value);
        Ok(())
    }

    fn remove(&self, key: &K, value: &V) {
        let mut map = self.0.borrow_mut();
        if map.get(key) == Some(value) {
            map.remove(key);
        }
    }
}

#[test]
fn size_of_a_connection() {
    // A route is a reference.
    let size = size_of::<Conn<usize>>();
    println!("Conn: {size} bytes");
    assert!(size <= 192, "{size}");
}

#[test]
fn timeouts() {
    assert_eq!(times::ms(0), 1);
    assert_eq!(times::ms(8), 1);
    assert_eq!(times::ms(9), 2);
    assert_eq!(times::ms(20), 4096);
    assert_eq!(times::ms(times::MRA), 65_536);
    assert_eq!(times::ms(31), 1 << 23);
    assert_eq!(times::ms(255), 1 << 23);
    assert_eq!(times::request_ms(16, 20), 4608);
    for (delay, life, timeout) in [
        (0, 0, 2),
        (0, 1, 2),
        (0, 16, 17),
        (15, 16, 17),
        (16, 16, 18),
        (17, 16, 18),
        (18, 16, 19),
        (19, 16, 19),
        (31, 16, 31),
        (31, 31, 31),
        (0, 255, 31),
    ] {
        assert_eq!(times::ack_timeout(delay, life), timeout, "{delay} {life}");
    }
    // Against the rule in words.
    for delay in 0..32_u8 {
        for life in 0..32_u8 {
            let path = u32::from(life) + 1;
            let delay_ = u32::from(delay);
            let (large, small) = (path.max(delay_), path.min(delay_));
            let expected = if large - small <= 1 { large + 1 } else { large };
            let found = times::ack_timeout(delay, life);
            assert_eq!(u32::from(found), expected.min(31));
        }
    }
}

fn wire_path() -> WirePath {
    WirePath {
        local_lid: 10,
        remote_lid: 20,
        local_gid: PEER_GID,
        remote_gid: Gid([1; 16]),
        flow_label: 0x12345,
        rate: 3,
        traffic_class: 4,
        hop_limit: 1,
        sl: 5,
        subnet_local: true,
        ack_timeout: 17,
    }
}

#[test]
fn paths_of_a_request() {
    let source = Source {
        gid: Some(PEER_GID),
        slid: 11,
        sl: 9,
        dlid_path_bits: 2,
    };
    let mut message = req(Transport::Rc);
    message.primary = wire_path();
    let (primary, alternate) = path::from_req(&message, &source, false, false);
    assert_eq!(alternate, None);
    let expected = PathRecord {
        sgid: Gid([1; 16]),
        dgid: PEER_GID,
        slid: 20,
        // The port that the message came from.
        dlid: 11,
        is_opa: false,
        flow_label: 0x12345,
        hop_limit: 1,
        traffic_class: 4,
        pkey: 0xffff,
        sl: 5,
        mtu: 5,
        rate: 3,
        life_time: 16,
        service_id: SERVICE,
    };
    assert_eq!(primary, expected);
    assert_eq!(path::data_lid(&message, &source), 10);

    message.alternate = Some(WirePath {
        ack_timeout: 0,
        ..wire_path()
    });
    let (_, alternate) = path::from_req(&message, &source, false, false);
    let expected = PathRecord {
        dlid: 10,
        life_time: 0,
        ..expected
    };
    assert_eq!(alternate, Some(expected));

    // From another subnet, and its LIDs are not known.
    for path in [Some(&mut message.primary), message.alternate.as_mut()] {
        let path = path.unwrap();
        path.subnet_local = false;
        path.local_lid = PERMISSIVE_LID;
        path.remote_lid = PERMISSIVE_LID;
    }
    let (primary, alternate) = path::from_req(&message, &source, false, false);
    for path in [primary, alternate.unwrap()] {
        assert_eq!((path.dlid, path.slid, path.sl), (11, 2, 9));
    }
    assert_eq!(path::data_lid(&message, &source), 11);
    let (primary, _) = path::from_req(&message, &source, false, true);
    assert_eq!((primary.slid, primary.sl), (u32::from(PERMISSIVE_LID), 5));

    // Omni-Path.
    message.primary.local_gid = Gid([7; 16]).with_opa_lid(0x123456);
    message.primary.remote_gid = Gid([8; 16]).with_opa_lid(0x234567);
    let (primary, _) = path::from_req(&message, &source, true, false);
    assert!(primary.is_opa);
    assert_eq!((primary.dlid, primary.slid), (0x123456, 0x234567));
    assert!(!path::from_req(&message, &source, false, false).0.is_opa);
}

#[test]
fn paths_to_the_wire() {
    let record = PathRecord {
        sgid: Gid([1; 16]),
        dgid: PEER_GID,
        slid: 20,
        dlid: 11,
        is_opa: false,
        flow_label: 0x12345,
        hop_limit: 1,
        traffic_class: 4,
        pkey: 0xffff,
        sl: 5,
        mtu: 5,
        rate: 3,
        life_time: 16,
        service_id: SERVICE,
    };
    let wire = path::to_wire(&record, 15, Some(77));
    assert_eq!((wire.local_lid, wire.remote_lid), (20, 11));
    assert_eq!((wire.local_gid, wire.remote_gid), (Gid([1; 16]), PEER_GID));
    assert_eq!((wire.subnet_local, wire.ack_timeout), (true, 17));
    let routed = PathRecord {
        hop_limit: 64,
        ..record
    };
    let wire = path::to_wire(&routed, 15, None);
    assert_eq!(
        (wire.local_lid, wire.remote_lid),
        (PERMISSIVE_LID, PERMISSIVE_LID)
    );
    assert!(!wire.subnet_local);
    let wire = path::to_wire(&routed, 15, Some(77));
    assert_eq!((wire.local_lid, wire.remote_lid), (77, PERMISSIVE_LID));
    let opa = PathRecord {
        is_opa: true,
        slid: 0x123456,
        ..record
    };
    let wire = path::to_wire(&opa, 15, None);
    assert_eq!((wire.local_lid, wire.remote_lid), (0, 0));
    assert!(wire.is_present());
    assert_eq!(wire.local_gid.opa_lid(), 0x123456);

    // What one side writes is what the other side reads, seen from there.
    let mut message = req(Transport::Rc);
    message.primary = path::to_wire(&record, 0, None);
    let source = Source {
        slid: 20,
        ..Source::default()
    };
    let (seen, _) = path::from_req(&message, &source, false, false);
    assert_eq!((seen.slid, seen.dlid), (record.dlid, record.slid));
    assert_eq!((seen.sgid, seen.dgid), (record.dgid, record.sgid));
    assert_eq!(seen.life_time, record.life_time);
}

#[test]
fn path_of_a_lap() {
    let Body::Lap(mut message) = lap() else {
        panic!()
    };
    message.alternate = wire_path();
    let record = path::from_lap(&message, (0x8001, 4), false);
    assert_eq!((record.slid, record.dlid), (20, 10));
    assert_eq!((record.pkey, record.mtu, record.life_time), (0x8001, 4, 16));
}

#[test]
fn claims() {
    let (ids, qpns) = (Map::<IdKey, u8>::default(), Map::<QpnKey, u8>::default());
    let keys = |id, qpn| PeerKeys {
        guid: PEER_GUID,
        id: CommId(id),
        qpn: Qpn::new(qpn),
    };
    let sizes = || (ids.0.borrow().len(), qpns.0.borrow().len());
    assert_eq!(claim(&ids, &qpns, &keys(1, 1), &10), (Claim::Granted, None));
    let same_id = (Claim::SameId, Some(10));
    assert_eq!(claim(&ids, &qpns, &keys(1, 2), &11), same_id);
    assert_eq!(claim(&ids, &qpns, &keys(1, 1), &11), same_id);
    let same_qpn = (Claim::SameQpn, Some(10));
    assert_eq!(claim(&ids, &qpns, &keys(2, 1), &11), same_qpn);
    assert_eq!(sizes(), (1, 1));
    assert_eq!(claim(&ids, &qpns, &keys(2, 2), &11), (Claim::Granted, None));
    let other = PeerKeys {
        guid: OWN_GUID,
        ..keys(1, 1)
    };
    assert_eq!(claim(&ids, &qpns, &other, &12), (Claim::Granted, None));
    // Only its owner releases a key.
    release(&ids, &qpns, &keys(1, 1), &11);
    assert_eq!(sizes(), (3, 3));
    release(&ids, &qpns, &keys(1, 1), &10);
    assert_eq!(sizes(), (2, 2));
}

#[test]
fn lookups() {
    let of = |body| Lookup::of(&Message { tid: 0, body });
    let local = Lookup::Local(LOCAL);
    let keys = PeerKeys {
        guid: PEER_GUID,
        id: REMOTE,
        qpn: PEER_QPN,
    };
    let other = Reason::CONSUMER_DEFINED;
    assert_eq!(of(Body::Req(req(Transport::Rc))), Lookup::Request(keys));
    for body in [
        rep(),
        rtu(),
        mra(About::Req),
        mra(About::Rep),
        mra(About::Other),
        rej(About::Req, other),
        rej(About::Reserved, other),
        dreq(),
        drep(),
        lap(),
        sidr_rep(),
    ] {
        assert_eq!(of(body), local, "{body:?}");
    }
    assert_eq!(of(mra(About::Reserved)), Lookup::Nobody);
    let by_peer = Lookup::Peer(keys.id_key());
    for about in [About::Req, About::Rep, About::Other] {
        assert_eq!(of(rej(about, Reason::TIMEOUT)), by_peer);
    }
}

#[test]
fn listeners() {
    let next = Cell::new(ServiceId::ASSIGN.0);
    let assign = || ServiceId(next.replace(next.get() + 1));
    let listen = |asked| service_to_listen(asked, assign);
    for asked in [0, 5, 0x0106_0001, 0x0100_0000_0000_0000, u64::MAX] {
        let asked = ServiceId(asked);
        assert_eq!(listen(asked), Some(asked));
    }
    for asked in [0x0200_0000_0000_0001, 0x02ff_0000_0000_0000] {
        assert_eq!(listen(ServiceId(asked)), None);
    }
    assert_eq!(next.get(), ServiceId::ASSIGN.0);
    for i in 0..3 {
        let expected = ServiceId(ServiceId::ASSIGN.0 + i);
        assert_eq!(listen(ServiceId::ASSIGN), Some(expected));
    }

    // Handlers are numbers here, and a context of 0 is none.
    assert_eq!(share::<u8, u8>(None, None), Listen::Insert);
    assert_eq!(share::<u8, u8>(None, Some(&1)), Listen::Insert);
    assert_eq!(share(Some((&1, &0)), Some(&1)), Listen::Share);
    assert_eq!(share(Some((&1, &7)), Some(&1)), Listen::Taken);
    assert_eq!(share(Some((&1, &0)), Some(&2)), Listen::Taken);
    assert_eq!(share(Some((&1, &0)), None), Listen::Taken);
}

#[test]
fn strangers() {
    let message = |body| Message { tid: 5, body };
    let drep_answer = Answer::to_stranger(&message(dreq())).unwrap();
    assert_eq!(drep_answer.kind(), Kind::Drep);
    let m = drep_answer.message(b"not sent");
    assert_eq!((m.tid, m.body.private()), (5, &[][..]));
    let Body::Drep(m) = m.body else { panic!() };
    assert_eq!((m.local_id, m.remote_id), (LOCAL, REMOTE));
    for body in [rep(), rtu(), drep(), sidr_rep(), mra(About::Req)] {
        assert_eq!(Answer::to_stranger(&message(body)), None);
    }

    let gid = Ari::Gid(PEER_GID);
    let body = Body::Req(req(Transport::Rc));
    let answer = Answer::reject(&message(body), Reason::INVALID_GID, gid).unwrap();
    let Body::Rej(m) = answer.message(&[]).body else {
        panic!()
    };
    assert_eq!((m.local_id, m.remote_id), (CommId::NONE, REMOTE));
    assert_eq!((m.about, m.reason), (About::Req, Reason::INVALID_GID));
    assert_eq!(m.ari, PEER_GID.0);
    let answer = Answer::reject(&message(rep()), Reason::STALE_CONN, Ari::None).unwrap();
    let Body::Rej(m) = answer.message(&[]).body else {
        panic!()
    };
    assert_eq!((m.local_id, m.remote_id), (LOCAL, REMOTE));
    assert_eq!((m.about, m.ari), (About::Rep, &[][..]));
    assert_eq!(
        Answer::reject(&message(rtu()), Reason::STALE_CONN, Ari::None),
        None
    );

    let body = Body::SidrReq(SidrReq {
        request_id: REMOTE,
        pkey: 1,
        service_id: SERVICE,
        private: &[],
    });
    let answer = Answer::sidr_unsupported(&message(body)).unwrap();
    assert_eq!(answer.kind(), Kind::SidrRep);
    let Body::SidrRep(m) = answer.message(&[]).body else {
        panic!()
    };
    assert_eq!((m.request_id, m.status), (REMOTE, 1));
    assert_eq!(m.service_id, SERVICE);
    assert_eq!(Answer::sidr_unsupported(&message(rtu())), None);
}

#[test]
fn counters_of_a_send() {
    assert_eq!(counters::sent(0, Count::Message), (1, 0));
    assert_eq!(counters::sent(3, Count::Message), (4, 3));
    // As the C module counts.
    assert_eq!(counters::sent(0, Count::of(true)), (2, 1));
    // A message that was repeated early and then three times was sent five times in all.
    let sent = [
        counters::sent(3, Count::of(false)),
        counters::sent(0, Count::Early),
    ];
    assert_eq!(sent, [(4, 3), (1, 1)]);
    for kind in Kind::ALL {
        let name = format!("{kind:?}").to_lowercase();
        assert_eq!(counters::NAMES[kind.index()].replace('_', ""), name);
    }
    let names = Group::ALL.map(Group::name);
    assert_eq!(
        names,
        [
            "cm_tx_msgs",
            "cm_tx_retries",
            "cm_rx_msgs",
            "cm_rx_duplicates"
        ]
    );
}

#[test]
fn numbers_of_events() {
    for (event, number) in [
        (Event::Failed(Kind::Req, 0), 0),
        (Event::Received(Kind::Req), 1),
        (Event::Failed(Kind::Rep, 0), 2),
        (Event::Received(Kind::Rep), 3),
        (Event::Received(Kind::Rtu), 4),
        (Event::UserEstablished, 5),
        (Event::Failed(Kind::Dreq, 0), 6),
        (Event::Received(Kind::Dreq), 7),
        (Event::Received(Kind::Drep), 8),
        (Event::TimewaitExit, 9),
        (Event::Received(Kind::Mra), 10),
        (Event::Received(Kind::Rej), 11),
        (Event::Received(Kind::Lap), 13),
        (Event::Failed(Kind::SidrReq, 0), 15),
        (Event::Received(Kind::SidrReq), 16),
        (Event::Received(Kind::SidrRep), 17),
    ] {
        assert_eq!(event.number(), number, "{event:?}");
    }
}

#[test]
fn texts() {
    assert_eq!(reject::text(1), c"no QP");
    assert_eq!(reject::text(35), c"vendor option is not supported");
    for reason in [-1, 0, 34, 36, 1000] {
        assert_eq!(reject::text(reason), c"unrecognized reason");
    }
}

#[test]
fn words_of_keys_differ() {
    let key = IdKey {
        guid: Guid(1),
        id: CommId(2),
    };
    assert_eq!(key.words(), [1, 2]);
    let mut key = sidr_key();
    let mut seen = vec![key.words()];
    key.slid = 1;
    seen.push(key.words());
    key.gid = None;
    seen.push(key.words());
    key.id = CommId(1);
    seen.push(key.words());
    for (i, a) in seen.iter().enumerate() {
        assert!(!seen[..i].contains(a));
    }
}
