// SPDX-License-Identifier: GPL-2.0

//! The port mapper: messages byte by byte, which answers count, the table of peers, addresses.

use rdma_iwcm_engines::proto::addr::Address;
use rdma_iwcm_engines::proto::addr::Endpoint;
use rdma_iwcm_engines::proto::addr::INET;
use rdma_iwcm_engines::proto::addr::INET6;
use rdma_iwcm_engines::proto::addr::KEPT;
use rdma_iwcm_engines::proto::addr::STORAGE;
use rdma_iwcm_engines::proto::mapper::Mapper;
use rdma_iwcm_engines::proto::mapper::Outcome;
use rdma_iwcm_engines::proto::mapper::Pending;
use rdma_iwcm_engines::proto::mapper::Request;
use rdma_iwcm_engines::proto::mapper::Unsupported;
use rdma_iwcm_engines::proto::mapper::BAD_ANSWER;
use rdma_iwcm_engines::proto::message;
use rdma_iwcm_engines::proto::message::Answer;
use rdma_iwcm_engines::proto::message::Batch;
use rdma_iwcm_engines::proto::message::Full;
use rdma_iwcm_engines::proto::message::Mapping;
use rdma_iwcm_engines::proto::message::Message;
use rdma_iwcm_engines::proto::message::Names;
use rdma_iwcm_engines::proto::message::Op;
use rdma_iwcm_engines::proto::message::Remote;
use rdma_iwcm_engines::proto::message::BATCH_SIZE;
use rdma_iwcm_engines::proto::message::HEADER;
use rdma_iwcm_engines::proto::remote::Slot;
use rdma_iwcm_engines::proto::remote::Table;
use rdma_iwcm_engines::proto::remote::BUCKETS;
use rdma_iwcm_engines::proto::remote::ENTRIES;
use rdma_iwcm_engines::proto::remote::MAX_AGE;
use rdma_iwcm_engines::proto::remote::WAYS;
use rdma_iwcm_engines::proto::ring::Ring;
use rdma_iwcm_engines::proto::Invalid;

fn v4(ip: [u8; 4], port: u16) -> Address {
    let mut bytes = [0; KEPT];
    bytes[..2].copy_from_slice(&INET.to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..8].copy_from_slice(&ip);
    Address::new(bytes)
}

fn v6(last: u8, port: u16) -> Address {
    let mut bytes = [0; KEPT];
    bytes[..2].copy_from_slice(&INET6.to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    if last != 0 {
        bytes[8..10].copy_from_slice(&[0xfd, 1]);
        bytes[23] = last;
    }
    Address::new(bytes)
}

/// A message as a port mapper writes it.
struct Built(Vec<u8>);

impl Built {
    fn new(op: Op, seq: u32, pid: u32) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend((2_u16 << 10 | op as u16).to_ne_bytes());
        bytes.extend(1_u16.to_ne_bytes());
        bytes.extend(seq.to_ne_bytes());
        bytes.extend(pid.to_ne_bytes());
        Self(bytes)
    }

    fn attr(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend((value.len() as u16 + 4).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        while self.0.len() % 4 != 0 {
            self.0.push(0);
        }
        let len = (self.0.len() as u32).to_ne_bytes();
        self.0[..4].copy_from_slice(&len);
        self
    }

    fn u32(self, kind: u16, value: u32) -> Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    fn u16(self, kind: u16, value: u16) -> Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    fn addr(self, kind: u16, value: &Address) -> Self {
        self.attr(kind, &value.storage())
    }
}

const LIBRARY: &[u8] = b"iWarpPortMapperUser\0";

fn registered(seq: u32, device: &[u8]) -> Built {
    Built::new(Op::RegisterPid, 5, 77)
        .u32(1, seq)
        .attr(2, device)
        .attr(3, LIBRARY)
        .u16(4, 4)
        .u16(5, 0)
}

fn names() -> Names {
    Names::new(b"siw1", b"v1").unwrap()
}

#[test]
fn addresses() {
    let a = v4([10, 0, 1, 2], 7174);
    assert_eq!(a.family(), INET);
    assert_eq!(
        a.endpoint(),
        Some(Endpoint::V4([10, 0, 1, 2], 7174_u16.to_be_bytes()))
    );
    assert!(a.same(&a));
    assert!(!a.same(&v4([10, 0, 1, 2], 7175)));
    assert!(!a.same(&v4([10, 0, 1, 3], 7174)));
    assert!(!a.same(&v6(2, 7174)));
    assert!(v6(2, 1).same(&v6(2, 1)));
    assert!(!v6(2, 1).same(&v6(3, 1)));
    // Scope and flow label do not count.
    let mut scoped = v6(2, 1).storage();
    scoped[24] = 3;
    scoped[4] = 9;
    assert!(Address::read(&scoped).unwrap().same(&v6(2, 1)));
    // Other families are equal to none.
    let none = Address::new([0; KEPT]);
    assert!(!none.same(&none));
    assert_eq!(none.endpoint(), None);

    assert_eq!(Address::read(&a.storage()), Some(a));
    assert_eq!(Address::read(&a.storage()[..STORAGE - 1]), None);
    assert_eq!(a.storage()[KEPT..], [0; STORAGE - KEPT]);
}

#[test]
fn a_wildcard_takes_the_actual_address_and_keeps_the_port() {
    let any = v4([0; 4], 1000);
    let actual = v4([10, 0, 1, 2], 2000);
    assert_eq!(any.unless_wildcard(&any, &actual), v4([10, 0, 1, 2], 1000));
    assert_eq!(actual.unless_wildcard(&actual, &v4([1; 4], 1)), actual);
    assert_eq!(v6(0, 9).unless_wildcard(&v6(0, 9), &v6(7, 8)), v6(7, 9));
    assert_eq!(v6(1, 9).unless_wildcard(&v6(1, 9), &v6(7, 8)), v6(1, 9));
    let other = Address::new([0; KEPT]);
    assert_eq!(other.unless_wildcard(&other, &actual), other);
}

#[test]
fn rings_keep_order_and_capacity() {
    let mut ring = Ring::new(0);
    assert_eq!((ring.push(), ring.pop()), (None, None));
    assert!(ring.is_empty());

    for capacity in 1..9 {
        let mut ring = Ring::new(capacity);
        let mut waiting = std::collections::VecDeque::new();
        for step in 0..1000_usize {
            if (step * 7 + step / 5) % 3 != 0 {
                let at = ring.push();
                assert_eq!(at.is_none(), waiting.len() == capacity);
                if let Some(at) = at {
                    assert!(at < capacity && !waiting.contains(&at));
                    waiting.push_back(at);
                }
            } else {
                assert_eq!(ring.pop(), waiting.pop_front());
            }
            assert_eq!(ring.is_empty(), waiting.is_empty());
        }
    }
}

#[test]
fn requests_as_the_uapi_lays_them_out() {
    let register = message::register(3, 9, &names()).unwrap();
    let expected = Built::new(Op::RegisterPid, 3, 0)
        .u32(1, 9)
        .attr(2, b"v1\0\0\0\0\0\0\0\0\0\0\0\0\0\0")
        .attr(
            3,
            b"siw1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        )
        .attr(4, b"iWarpPortMapperUser\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(register.bytes(), expected.0);

    let (local, remote) = (v4([10, 0, 1, 1], 1), v4([10, 0, 1, 2], 2));
    assert_eq!(
        message::add(4, 5, &local, None).unwrap().bytes(),
        Built::new(Op::AddMapping, 4, 0).u32(1, 5).addr(2, &local).0
    );
    assert_eq!(
        message::add(4, 5, &local, Some(1)).unwrap().bytes(),
        Built::new(Op::AddMapping, 4, 0)
            .u32(1, 5)
            .addr(2, &local)
            .u32(3, 1)
            .0
    );
    assert_eq!(
        message::query(4, 5, &local, &remote, Some(0))
            .unwrap()
            .bytes(),
        Built::new(Op::QueryMapping, 4, 0)
            .u32(1, 5)
            .addr(2, &local)
            .addr(3, &remote)
            .u32(4, 0)
            .0
    );
    assert_eq!(
        message::query(4, 5, &local, &remote, None).unwrap().bytes(),
        Built::new(Op::QueryMapping, 4, 0)
            .u32(1, 5)
            .addr(2, &local)
            .addr(3, &remote)
            .0
    );
    assert_eq!(
        message::remove(6, 5, &local).unwrap().bytes(),
        Built::new(Op::RemoveMapping, 6, 0)
            .u32(1, 5)
            .addr(2, &local)
            .0
    );
    assert_eq!(
        message::hello(6, 4).unwrap().bytes(),
        Built::new(Op::Hello, 6, 0).u16(1, 4).0
    );
    assert_eq!(
        message::count(6, 12).unwrap().bytes(),
        Built::new(Op::MapInfoNum, 6, 0).u32(1, 0).u32(2, 12).0
    );
}

#[test]
fn names_that_are_too_long() {
    assert!(Names::new(&[b'a'; 31], &[b'b'; 15]).is_ok());
    assert_eq!(Names::new(&[b'a'; 32], b"v1"), Err(Invalid));
    assert_eq!(Names::new(b"siw1", &[b'b'; 16]), Err(Invalid));
}

#[test]
fn mappings_are_sent_in_batches() {
    let mapping = Mapping {
        local: v4([10, 0, 1, 1], 1),
        mapped: v4([10, 0, 1, 1], 2),
        flags: 1,
    };
    let one = |flags: bool| {
        let mut one = Built::new(Op::MapInfo, 0, 0)
            .addr(1, &mapping.local)
            .addr(2, &mapping.mapped);
        if flags {
            one = one.u32(3, 1);
        }
        one.0[6..8].copy_from_slice(&2_u16.to_ne_bytes());
        one.0
    };
    let done: Vec<u8> = [16_u32.to_ne_bytes(), [3, 0, 2, 0], [0; 4], [0; 4]].concat();
    for flags in [false, true] {
        let mut batch = Batch::default();
        assert_eq!(batch.count(), 0);
        while batch.put(&mapping, flags).is_ok() {}
        assert_eq!(batch.put(&mapping, flags), Err(Full));
        let count = batch.count() as usize;
        assert_eq!(count, (BATCH_SIZE - HEADER) / one(flags).len());
        let mut expected = one(flags).repeat(count);
        expected.extend(&done);
        assert_eq!(batch.end(), expected);
    }
}

#[test]
fn messages_of_the_mapper() {
    let parsed = message::parse(Op::RegisterPid, &registered(3, b"siw1\0").0);
    assert_eq!(
        parsed,
        Ok(Message::Answer {
            to: 3,
            answer: Answer::Registered {
                device: names().device,
                named: true,
                version: 4,
                error: 0
            }
        })
    );
    assert_eq!(message::header(&registered(3, b"siw1\0").0), Some((5, 77)));
    assert_eq!(message::header(&[0; 15]), None);

    let (a, b, c, d) = (v4([1; 4], 1), v4([2; 4], 2), v4([3; 4], 3), v4([4; 4], 4));
    let added = Built::new(Op::AddMapping, 1, 2)
        .u32(1, 8)
        .addr(2, &a)
        .addr(3, &b)
        .u16(4, 12);
    assert_eq!(
        message::parse(Op::AddMapping, &added.0),
        Ok(Message::Answer {
            to: 8,
            answer: Answer::Added {
                local: a,
                mapped: b,
                error: 12
            }
        })
    );
    let remote = Remote {
        local: a,
        remote: b,
        mapped_local: c,
        mapped_remote: d,
    };
    let found = Built::new(Op::QueryMapping, 1, 2)
        .u32(1, 8)
        .addr(2, &a)
        .addr(3, &b)
        .addr(4, &c)
        .addr(5, &d)
        .u16(6, 0);
    assert_eq!(
        message::parse(Op::QueryMapping, &found.0),
        Ok(Message::Answer {
            to: 8,
            answer: Answer::Found { remote, error: 0 }
        })
    );
    assert_eq!(
        message::parse(Op::RemoteInfo, &found.0),
        Ok(Message::Remote(remote))
    );
    let failed = Built::new(Op::HandleError, 1, 2).u32(1, 8).u16(2, 11);
    assert_eq!(
        message::parse(Op::HandleError, &failed.0),
        Ok(Message::Answer {
            to: 8,
            answer: Answer::Failed(11)
        })
    );
    let asks = |name: &[u8], version| {
        message::parse(
            Op::MapInfo,
            &Built::new(Op::MapInfo, 1, 2)
                .attr(1, name)
                .u16(2, version)
                .0,
        )
    };
    assert_eq!(asks(LIBRARY, 3), Ok(Message::MapInfo { known: true }));
    assert_eq!(asks(LIBRARY, 2), Ok(Message::MapInfo { known: false }));
    assert_eq!(asks(b"other\0", 4), Ok(Message::MapInfo { known: false }));
    let stored = Built::new(Op::MapInfoNum, 1, 2)
        .u32(1, 0)
        .u32(2, 4)
        .u32(3, 5);
    assert_eq!(
        message::parse(Op::MapInfoNum, &stored.0),
        Ok(Message::MapInfoNum { sent: 4, stored: 5 })
    );
    let hello = Built::new(Op::Hello, 1, 2).u16(1, 9);
    assert_eq!(message::parse(Op::Hello, &hello.0), Ok(Message::Hello(9)));
    assert_eq!(message::parse(Op::RemoveMapping, &hello.0), Err(Invalid));
}

#[test]
fn attributes_are_checked_as_netlink_does() {
    // An attribute that is missing.
    for left_out in 1..=5 {
        let mut message = Built::new(Op::RegisterPid, 5, 77);
        for kind in (1..=5).filter(|kind| *kind != left_out) {
            message = match kind {
                1 => message.u32(1, 3),
                2 => message.attr(2, b"siw1\0"),
                3 => message.attr(3, LIBRARY),
                kind => message.u16(kind, 4),
            };
        }
        assert_eq!(message::parse(Op::RegisterPid, &message.0), Err(Invalid));
    }
    // The last one counts; unknown types and flags of types are ignored.
    let hello = Built::new(Op::Hello, 1, 2)
        .u16(1, 3)
        .u16(9, 7)
        .u16(0, 7)
        .u16(0x8001, 4);
    assert_eq!(message::parse(Op::Hello, &hello.0), Ok(Message::Hello(4)));
    // Longer numbers have their value first; shorter ones are refused.
    let long = Built::new(Op::Hello, 1, 2).attr(1, &[4, 0, 9, 9, 9, 9]);
    assert_eq!(
        message::parse(Op::Hello, &long.0),
        Ok(Message::Hello(u16::from_ne_bytes([4, 0])))
    );
    let short = Built::new(Op::Hello, 1, 2).attr(1, &[4]);
    assert_eq!(message::parse(Op::Hello, &short.0), Err(Invalid));
    let short = Built::new(Op::HandleError, 1, 2).attr(1, &[4; 3]).u16(2, 1);
    assert_eq!(message::parse(Op::HandleError, &short.0), Err(Invalid));
    // An address must be whole.
    let short = Built::new(Op::AddMapping, 1, 2)
        .u32(1, 8)
        .addr(2, &v6(1, 1))
        .attr(3, &[0; STORAGE - 1])
        .u16(4, 0);
    assert_eq!(message::parse(Op::AddMapping, &short.0), Err(Invalid));
    // Lengths of attributes that are wrong end the message.
    let mut wrong = Built::new(Op::Hello, 1, 2).u16(1, 4).0;
    for len in [0_u16, 3, 5, 200] {
        wrong[HEADER..HEADER + 2].copy_from_slice(&len.to_ne_bytes());
        assert_eq!(message::parse(Op::Hello, &wrong), Err(Invalid));
    }
    assert_eq!(message::parse(Op::Hello, &[0; HEADER - 1]), Err(Invalid));
    // Trailing bytes are ignored.
    let mut trailing = Built::new(Op::Hello, 1, 2).u16(1, 4).0;
    trailing.extend([1, 2, 3]);
    assert_eq!(message::parse(Op::Hello, &trailing), Ok(Message::Hello(4)));
}

#[test]
fn strings_end_within_their_limit() {
    let name = |name: &[u8]| message::parse(Op::RegisterPid, &registered(3, name).0);
    let is = |name: &[u8], text: &[u8]| {
        let Ok(Message::Answer {
            answer: Answer::Registered { device, .. },
            ..
        }) = message::parse(Op::RegisterPid, &registered(3, name).0)
        else {
            return false;
        };
        device.starts_with(text) && device[text.len()..].iter().all(|byte| *byte == 0)
    };
    assert_eq!(name(b"siw1"), Err(Invalid));
    assert_eq!(name(b""), Err(Invalid));
    assert!(is(b"\0", b""));
    assert!(is(b"siw1\0", b"siw1"));
    assert!(is(b"siw1\0rest\0", b"siw1"));
    assert!(is(b"siw1\0rest", b"siw1"));
    let mut longest = [b'a'; 32];
    longest[31] = 0;
    assert!(is(&longest, &[b'a'; 31]));
    assert_eq!(name(&[b'a'; 32]), Err(Invalid));
    // More bytes than the limit, although the string ends before.
    let mut more = [0; 33];
    more[0] = b'a';
    assert_eq!(name(&more), Err(Invalid));
    assert!(is(&more[..32], b"a"));
}

#[test]
fn a_mapper_is_found_once() {
    let mut mapper = Mapper::NEW;
    assert!(mapper.must_register());
    assert_eq!(mapper.pid(), None);
    assert!(!mapper.is_registered());
    assert_eq!((mapper.next_seq(), mapper.next_seq()), (1, 2));
    assert_eq!(mapper.echo(), 0);
    mapper.heard(9);
    assert_eq!(mapper.echo(), 9);

    mapper.registered(77, 4);
    assert!(!mapper.must_register());
    assert!(mapper.is_registered());
    assert_eq!(mapper.pid(), Some(77));
    // A mapper that is gone is not asked for, until one announces itself.
    mapper.lost();
    assert!(!mapper.must_register());
    assert_eq!(mapper.pid(), None);
    mapper.asked(78);
    assert!(mapper.must_register());
    assert!(!mapper.is_registered());
    assert_eq!(mapper.pid(), Some(78));

    // Nor is one that nobody is.
    let mut mapper = Mapper::NEW;
    mapper.absent();
    assert!(!mapper.must_register());
    assert_eq!(mapper.pid(), None);
    assert_eq!(mapper.greeted(79, 5), 4);
    assert!(mapper.must_register());

    // Port IDs that are none.
    for pid in [0, 0x8000_0000, u32::MAX] {
        mapper.asked(pid);
        assert_eq!(mapper.pid(), None);
    }
    mapper.asked(0x7fff_ffff);
    assert_eq!(mapper.pid(), Some(0x7fff_ffff));
}

#[test]
fn flags_need_version_four() {
    let mut mapper = Mapper::NEW;
    assert_eq!(mapper.flags(0), Ok(None));
    assert_eq!(mapper.flags(1), Err(Unsupported));
    assert!(!mapper.takes_flags());
    assert_eq!(mapper.greeted(1, 3), 3);
    assert_eq!(mapper.flags(1), Err(Unsupported));
    assert_eq!(mapper.greeted(1, 4), 4);
    assert_eq!(mapper.flags(1), Ok(Some(1)));
    assert_eq!(mapper.flags(0), Ok(Some(0)));
    assert!(mapper.takes_flags());
}

#[test]
fn answers_must_fit_their_request() {
    let (a, b, c, d) = (v4([1; 4], 1), v4([2; 4], 2), v4([3; 4], 3), v4([4; 4], 4));
    let register = Request::register(&names());
    let add = Request::Add { local: a };
    let query = Request::Query {
        local: a,
        remote: b,
    };
    let registered = Answer::Registered {
        device: names().device,
        named: true,
        version: 3,
        error: 0,
    };
    let added = Answer::Added {
        local: a,
        mapped: c,
        error: 0,
    };
    let remote = Remote {
        local: a,
        remote: b,
        mapped_local: c,
        mapped_remote: d,
    };
    let found = Answer::Found { remote, error: 0 };
    let failed = Answer::Failed(11);
    let outcome = |question, answer: &Answer| {
        let mut pending = Pending::new(question);
        assert_eq!(pending.outcome(), None);
        if !pending.awaits(answer) {
            return None;
        }
        let outcome = pending.answer(answer);
        assert_eq!(pending.outcome(), Some(outcome));
        // The second answer comes too late.
        assert!(!pending.awaits(answer));
        Some(outcome)
    };
    assert_eq!(outcome(register, &registered), Some(Outcome::Registered(3)));
    assert_eq!(outcome(add, &added), Some(Outcome::Added(c)));
    assert_eq!(
        outcome(query, &found),
        Some(Outcome::Found {
            local: c,
            remote: d
        })
    );
    for question in [register, add, query] {
        assert_eq!(outcome(question, &failed), Some(Outcome::Refused(11)));
    }
    // Answers to other questions.
    for (question, wrong) in [
        (register, [added, found]),
        (add, [registered, found]),
        (query, [registered, added]),
    ] {
        for answer in wrong {
            assert_eq!(outcome(question, &answer), None);
        }
    }
    // Answers that do not fit.
    let bad = Some(Outcome::Refused(BAD_ANSWER));
    let of = |device: &[u8], named, version, error| Answer::Registered {
        device: Names::new(device, b"").unwrap().device,
        named,
        version,
        error,
    };
    assert_eq!(outcome(register, &of(b"siw2", true, 4, 0)), bad);
    assert_eq!(outcome(register, &of(b"siw1", false, 4, 0)), bad);
    assert_eq!(outcome(register, &of(b"siw1", true, 2, 0)), bad);
    assert_eq!(
        outcome(register, &of(b"siw1", true, 4, 13)),
        Some(Outcome::Refused(13))
    );
    let of = |local, mapped, error| Answer::Added {
        local,
        mapped,
        error,
    };
    assert_eq!(outcome(add, &of(b, c, 0)), bad);
    assert_eq!(outcome(add, &of(a, v6(1, 1), 0)), bad);
    assert_eq!(outcome(add, &of(a, c, 12)), Some(Outcome::Refused(12)));
    let of = |remote, error| Answer::Found { remote, error };
    assert_eq!(outcome(query, &of(Remote { local: c, ..remote }, 0)), bad);
    assert_eq!(
        outcome(
            query,
            &of(
                Remote {
                    remote: c,
                    ..remote
                },
                0
            )
        ),
        bad
    );
    let other = v6(1, 1);
    let wrong = Remote {
        mapped_local: other,
        ..remote
    };
    assert_eq!(outcome(query, &of(wrong, 0)), bad);
    let wrong = Remote {
        mapped_remote: other,
        ..remote
    };
    assert_eq!(outcome(query, &of(wrong, 0)), bad);
    assert_eq!(outcome(query, &of(remote, 16)), Some(Outcome::Refused(16)));
}

fn table() -> Table<Vec<Slot>> {
    Table::new(vec![None; ENTRIES], 42)
}

#[test]
fn a_peer_is_found_once() {
    let mut table = table();
    let (local, mapped, real) = (v4([10; 4], 1), v4([20; 4], 2), v4([30; 4], 3));
    assert_eq!(table.take(&local, &mapped, 0), None);
    assert!(table.insert(&local, &mapped, real, 0));
    assert_eq!(table.take(&local, &real, 0), None);
    assert_eq!(table.take(&mapped, &mapped, 0), None);
    assert_eq!(table.take(&local, &mapped, MAX_AGE), Some(real));
    assert_eq!(table.take(&local, &mapped, MAX_AGE), None);
    // The newest counts.
    assert!(table.insert(&local, &mapped, real, 0));
    assert!(table.insert(&local, &mapped, local, 1));
    assert_eq!(table.take(&local, &mapped, 1), Some(local));
    assert_eq!(table.take(&local, &mapped, 1), None);
    // Old entries do not.
    assert!(table.insert(&local, &mapped, real, 5));
    assert_eq!(table.take(&local, &mapped, 6 + MAX_AGE), None);
    assert_eq!(table.take(&local, &mapped, 5), None);
    // IPv6, and addresses of neither.
    assert!(table.insert(&v6(1, 1), &v6(2, 2), v6(3, 3), 0));
    assert_eq!(table.take(&v6(1, 1), &v6(2, 2), 0), Some(v6(3, 3)));
    let none = Address::new([0; KEPT]);
    assert!(!table.insert(&none, &mapped, real, 0));
    assert!(!table.insert(&local, &none, real, 0));
    assert_eq!(table.take(&none, &none, 0), None);
}

#[test]
fn the_table_of_peers_is_bounded_and_forgets_the_oldest() {
    let mut table = table();
    let local = v4([10; 4], 1);
    let peer = |n: u32| v4(n.to_be_bytes(), 2);
    let many = 20 * ENTRIES as u32;
    for n in 0..many {
        assert!(table.insert(&local, &peer(n), peer(n), u64::from(n) / 1000));
    }
    let found: Vec<u32> = (0..many)
        .filter(|n| table.take(&local, &peer(*n), u64::from(many) / 1000) == Some(peer(*n)))
        .collect();
    // All places are in use, and by the newest ones: the hash is not perfectly even.
    assert_eq!(found.len(), ENTRIES);
    let newest = many - 2 * ENTRIES as u32;
    let old = found.iter().filter(|n| **n < newest).count();
    assert!(old < ENTRIES / 20, "{old} old ones");
    assert_eq!(WAYS * BUCKETS, ENTRIES);
}

/// Messages of random bytes, and right ones with a few bytes changed: no panic.
#[test]
fn random_messages_are_parsed_or_refused() {
    let mut seed: u64 = 4;
    let mut random = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    };
    let ops = [
        Op::RegisterPid,
        Op::AddMapping,
        Op::QueryMapping,
        Op::RemoteInfo,
        Op::HandleError,
        Op::MapInfo,
        Op::MapInfoNum,
        Op::Hello,
    ];
    let a = v4([1; 4], 1);
    let good = [
        registered(3, b"siw1\0").0,
        Built::new(Op::QueryMapping, 1, 2)
            .u32(1, 8)
            .addr(2, &a)
            .addr(3, &a)
            .addr(4, &a)
            .addr(5, &a)
            .u16(6, 0)
            .0,
        Built::new(Op::Hello, 1, 2).u16(1, 9).0,
    ];
    let mut parsed = 0;
    for _ in 0..200_000 {
        let mut bytes = good[random() as usize % good.len()].clone();
        for _ in 0..random() % 4 {
            let at = random() as usize % bytes.len();
            bytes[at] = random() as u8;
        }
        if random() % 4 == 0 {
            bytes.truncate(random() as usize % bytes.len());
        }
        let op = ops[random() as usize % ops.len()];
        parsed += u32::from(message::parse(op, &bytes).is_ok());
    }
    assert!(parsed > 1000);
}
