// SPDX-License-Identifier: GPL-2.0

//! What programs hand to `rdma_ucm`, byte by byte.

use rdma_ucma_engines::proto::answer;
use rdma_ucma_engines::proto::command::*;
use rdma_ucma_engines::proto::event::{self, Body, Conn, Event, Ud};
use rdma_ucma_engines::proto::joins::{self, Joined};
use rdma_ucma_engines::proto::life::{Life, Lost};
use rdma_ucma_engines::proto::option::{self, Setting};
use rdma_ucma_engines::proto::queue::Backlog;
use rdma_ucma_engines::proto::queue::Unread;
use rdma_ucma_engines::proto::queue::UNREAD;
use rdma_ucma_engines::proto::Wrong;

/// Sizes of the structures in `rdma_user_cm.h`, by number of the command; GET_OPTION has none.
const SIZES: [usize; 25] = [
    24, 16, 40, 64, 8, 16, 288, 8, 296, 264, 4, 16, 8, 0, 24, 8, 48, 16, 16, 16, 136, 272, 152, 88,
    320,
];

fn header(number: u32, len: u16, room: u16) -> Header {
    let mut raw = [0; HEADER];
    raw[..4].copy_from_slice(&number.to_ne_bytes());
    raw[4..6].copy_from_slice(&len.to_ne_bytes());
    raw[6..].copy_from_slice(&room.to_ne_bytes());
    Header::parse(&raw)
}

/// A structure with bytes at offsets.
fn with(len: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut all = vec![0; len];
    for (at, part) in parts {
        all[*at..at + part.len()].copy_from_slice(part);
    }
    all
}

/// What a program reads of an event.
fn read(told: &Event<'_>) -> [u8; event::SIZE] {
    let mut to = [0; event::SIZE];
    told.write(&mut to);
    to
}

/// An address of a family.
fn family(number: u16) -> [u8; 2] {
    number.to_ne_bytes()
}

#[test]
fn headers_in_the_order_of_refusals() {
    let given = header(0x0102_0304, 0x0506, 0x0708);
    assert_eq!(
        (given.number, given.len, given.room),
        (0x0102_0304, 0x0506, 0x0708)
    );
    for (op, size) in OPS.into_iter().zip(SIZES) {
        let number = OPS.iter().position(|other| *other == op).unwrap() as u32;
        assert_eq!(op.size(), size, "{op:?}");
        let all = u16::try_from(size).unwrap();
        // More than was written comes first, also for the command that there is not.
        assert_eq!(
            header(number, all + 1, u16::MAX).admit(op, HEADER + size),
            Err(Wrong::Invalid)
        );
        let whole = header(number, all, u16::MAX).admit(op, HEADER + size);
        if op == Op::GetOption {
            assert_eq!(whole, Err(Wrong::Unknown));
            continue;
        }
        assert_eq!(whole, Ok(size), "{op:?}");
        let none = header(number, 0, u16::MAX).admit(op, HEADER);
        match op {
            Op::Connect | Op::Accept => assert_eq!(none, Err(Wrong::Invalid)),
            _ => assert_eq!(none, Ok(size), "the whole structure is copied"),
        }
        let room = match op {
            Op::CreateId | Op::DestroyId | Op::LeaveMcast => 4,
            Op::QueryRoute => 200,
            Op::InitQpAttr => 144,
            Op::GetEvent => 324,
            _ => 0,
        };
        assert_eq!(header(number, all, room).admit(op, HEADER + size), Ok(size));
        if let Some(less) = room.checked_sub(1) {
            assert_eq!(
                header(number, all, less).admit(op, HEADER + size),
                Err(Wrong::NoRoom)
            );
        }
    }
}

#[test]
fn structures_that_grew() {
    for (op, old, now) in [(Op::Connect, 280, 288), (Op::Accept, 288, 296)] {
        let admit = |len: u16| header(0, len, 0).admit(op, 1000);
        assert_eq!(admit(old - 1), Err(Wrong::Invalid));
        for len in old..now {
            assert_eq!(admit(len), Ok(len.into()));
        }
        assert_eq!(admit(now), Ok(now.into()));
        assert_eq!(admit(now + 100), Ok(now.into()));
        let param = if op == Op::Accept { 8 } else { 0 };
        let ece = [1, 0, 0, 0, 2, 0, 0, 0];
        let full = with(
            now.into(),
            &[(param + 271, &[1]), (usize::from(now) - 8, &ece)],
        );
        for len in old..=now {
            let got = match Command::parse(op, &full[..len.into()], 0) {
                Ok(Command::Connect { ece, .. } | Command::Accept { ece, .. }) => ece,
                other => panic!("{other:?}"),
            };
            let all = len == now;
            assert_eq!(
                (got.vendor_id, got.attr_mod),
                if all { (1, 2) } else { (0, 0) }
            );
        }
    }
}

#[test]
fn port_spaces() {
    let parse = |space: u16, qp| {
        let raw = with(
            24,
            &[
                (0, &[7]),
                (8, &[9]),
                (16, &space.to_ne_bytes()),
                (18, &[qp]),
            ],
        );
        match Command::parse(Op::CreateId, &raw, 4) {
            Ok(Command::Create {
                uid: 7,
                response: 9,
                space: got,
                qp,
            }) if got == space => Ok(qp),
            Err(wrong) => Err(wrong),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(parse(0x106, 4), Ok(QpType::Rc));
    assert_eq!(parse(0x111, 4), Ok(QpType::Ud));
    assert_eq!(parse(0x002, 4), Ok(QpType::Ud));
    assert_eq!(parse(0x13f, 0xff), Ok(QpType::Other(0xff)));
    for space in [0, 1, 3, 0x105, 0x107, 0x110, 0x112, 0x13e, 0x140, 0xffff] {
        assert_eq!(parse(space, 2), Err(Wrong::Invalid));
    }
}

#[test]
fn addresses_fit_their_families() {
    assert_eq!(Named::new(&[0; STORAGE]).len(), 0);
    let ip = |number| {
        let raw = with(40, &[(8, &family(number)), (36, &[5])]);
        Command::parse(Op::BindIp, &raw, 0).map(|command| match command {
            Command::Bind { id: 5, address } => address.len(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!((ip(2), ip(10)), (Ok(16), Ok(28)));
    for number in [0, 1, 27] {
        assert_eq!(ip(number), Err(Wrong::Invalid), "{number}");
    }
    let any = |number, len: u16, reserved: u8| {
        let raw = with(
            136,
            &[
                (0, &[5]),
                (4, &len.to_ne_bytes()),
                (6, &[reserved]),
                (8, &family(number)),
            ],
        );
        Command::parse(Op::Bind, &raw, 0).map(drop)
    };
    for (number, len) in [(2, 16), (10, 28), (27, 48)] {
        assert_eq!(any(number, len, 0), Ok(()));
        assert_eq!(any(number, len, 1), Err(Wrong::Invalid));
        assert_eq!(any(number, len - 1, 0), Err(Wrong::Invalid));
        assert_eq!(any(number, len + 1, 0), Err(Wrong::Invalid));
        assert_eq!(any(number, 0, 0), Err(Wrong::Invalid));
    }
    assert_eq!(any(0, 0, 0), Err(Wrong::Invalid));
}

#[test]
fn resolved_addresses() {
    let ip = |from, to| {
        let raw = with(
            64,
            &[
                (0, &family(from)),
                (28, &family(to)),
                (56, &[3]),
                (60, &[9]),
            ],
        );
        Command::parse(Op::ResolveIp, &raw, 0).map(|command| match command {
            Command::ResolveAddr {
                id: 3,
                timeout_ms: 9,
                ..
            } => (),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!((ip(0, 2), ip(2, 10), ip(10, 2)), (Ok(()), Ok(()), Ok(())));
    for (from, to) in [(1, 2), (27, 2), (2, 0), (2, 27), (0, 0)] {
        assert_eq!(ip(from, to), Err(Wrong::Invalid), "{from} {to}");
    }
    let any = |from, from_len: u16, to, to_len: u16, reserved| {
        let raw = with(
            272,
            &[
                (8, &from_len.to_ne_bytes()),
                (10, &to_len.to_ne_bytes()),
                (12, &[reserved]),
                (16, &family(from)),
                (144, &family(to)),
            ],
        );
        Command::parse(Op::ResolveAddr, &raw, 0).map(drop)
    };
    assert_eq!(any(2, 16, 27, 48, 0), Ok(()));
    // Without a length, the source is not looked at.
    assert_eq!(any(99, 0, 2, 16, 0), Ok(()));
    for (from, from_len, to, to_len, reserved) in [
        (2, 16, 2, 16, 1),
        (2, 15, 2, 16, 0),
        (0, 16, 2, 16, 0),
        (2, 16, 2, 0, 0),
        (2, 16, 2, 17, 0),
        (2, 16, 0, 0, 0),
    ] {
        assert_eq!(
            any(from, from_len, to, to_len, reserved),
            Err(Wrong::Invalid)
        );
    }
}

#[test]
fn parameters_of_connections() {
    let mut raw = with(
        288,
        &[
            (0, &0xff12_3456_u32.to_ne_bytes()),
            (4, &0x1122_3344_u32.to_ne_bytes()),
            (264, &[3, 1, 2, 4, 5, 6, 7, 1]),
            (272, &[42]),
        ],
    );
    raw[8..11].copy_from_slice(b"abc");
    match Command::parse(Op::Connect, &raw, 0) {
        Ok(Command::Connect { id: 42, param, .. }) => assert_eq!(
            param,
            Param {
                qp_num: 0x12_3456,
                qkey: 0x1122_3344,
                private: b"abc",
                srq: 1,
                responder_resources: 2,
                initiator_depth: 4,
                flow_control: 5,
                retry_count: 6,
                rnr_retry_count: 7,
            }
        ),
        other => panic!("{other:?}"),
    }
    raw[271] = 0;
    assert_eq!(Command::parse(Op::Connect, &raw, 0), Err(Wrong::Invalid));
    // ACCEPT without parameters takes those of the request.
    let accept = with(296, &[(0, &[8]), (280, &[43])]);
    assert!(matches!(
        Command::parse(Op::Accept, &accept, 0),
        Ok(Command::Accept {
            uid: 8,
            id: 43,
            param: None,
            ..
        })
    ));
}

#[test]
fn rejections() {
    let parse = |reason, len| {
        let raw = with(264, &[(0, &[6]), (4, &[len]), (5, &[reason]), (8, b"why")]);
        match Command::parse(Op::Reject, &raw, 0) {
            Ok(Command::Reject {
                id: 6,
                reason,
                private,
            }) => Ok((reason, private.to_vec())),
            Err(wrong) => Err(wrong),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(parse(0, 3), Ok((28, b"why".to_vec())));
    assert_eq!(parse(28, 0), Ok((28, vec![])));
    assert_eq!(parse(35, 2), Ok((35, b"wh".to_vec())));
    assert_eq!(parse(35, 255).unwrap().1.len(), 255);
    for reason in [1, 27, 29, 34, 36, 255] {
        assert_eq!(parse(reason, 0), Err(Wrong::Invalid));
    }
}

#[test]
fn other_fields() {
    let two = |op, size, at: usize, value: u32| {
        let raw = with(size, &[(at, &value.to_ne_bytes())]);
        Command::parse(op, &raw, u16::MAX).map(drop)
    };
    for (state, result) in [(6, Ok(())), (7, Err(Wrong::Invalid))] {
        assert_eq!(two(Op::InitQpAttr, 16, 12, state), result);
    }
    for (len, result) in [(4 << 20, Ok(())), ((4 << 20) + 1, Err(Wrong::Invalid))] {
        assert_eq!(two(Op::SetOption, 24, 20, len), result);
    }
    for event in 0..32 {
        let result = two(Op::WriteCmEvent, 320, 8, event);
        assert_eq!(result.is_ok(), event == 18 || event == 19);
    }
    assert_eq!(
        Command::parse(
            Op::WriteCmEvent,
            &with(
                320,
                &[(0, &[1]), (8, &[18]), (12, &[3]), (16, &[4, 0, 0, 0, 5])]
            ),
            0
        ),
        Ok(Command::WriteEvent {
            id: 1,
            event: 18,
            status: 3,
            arg: 4 | 5 << 32
        })
    );
    assert_eq!(
        Command::parse(
            Op::MigrateId,
            &with(16, &[(0, &[1]), (8, &[2]), (12, &[3])]),
            0
        ),
        Ok(Command::Migrate {
            response: 1,
            id: 2,
            fd: 3
        })
    );
    assert_eq!(
        Command::parse(Op::Listen, &with(8, &[(0, &[1]), (4, &[2])]), 0),
        Ok(Command::Listen { id: 1, backlog: 2 })
    );
}

#[test]
fn joins_of_both_layouts() {
    let ip = |number, room| {
        let raw = with(
            48,
            &[(0, &[1]), (8, &[2]), (16, &family(number)), (44, &[3])],
        );
        Command::parse(Op::JoinIpMcast, &raw, room).map(|command| match command {
            Command::Join(Join {
                response: 1,
                uid: 2,
                id: 3,
                send_only: false,
                address,
            }) => address.len(),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!((ip(2, 4), ip(10, 4)), (Ok(16), Ok(28)));
    // The address is refused before the room, as in C.
    assert_eq!(
        (ip(27, 0), ip(2, 3)),
        (Err(Wrong::Invalid), Err(Wrong::NoRoom))
    );
    let any = |number, len: u16, flags: u16, room| {
        let raw = with(
            152,
            &[
                (16, &[3]),
                (20, &len.to_ne_bytes()),
                (22, &flags.to_ne_bytes()),
                (24, &family(number)),
                (24 + 100, &[9]),
            ],
        );
        Command::parse(Op::JoinMcast, &raw, room).map(|command| match command {
            Command::Join(join) => {
                assert_eq!(
                    join.address.whole().0[100],
                    0,
                    "bytes behind it are dropped"
                );
                join.send_only
            }
            other => panic!("{other:?}"),
        })
    };
    assert_eq!((any(2, 16, 0, 4), any(27, 48, 1, 4)), (Ok(false), Ok(true)));
    assert_eq!(any(0, 0, 0, 0), Err(Wrong::Invalid));
    assert_eq!(any(2, 17, 0, 0), Err(Wrong::NoRoom));
    assert_eq!(any(2, 17, 0, 4), Err(Wrong::Invalid));
    assert_eq!(any(2, 16, 2, 4), Err(Wrong::Invalid));
}

#[test]
fn every_short_structure_is_refused() {
    for op in OPS {
        let whole = vec![0x01; op.size()];
        for len in 0..op.size() {
            let old = matches!(op, Op::Connect | Op::Accept) && len + 8 >= op.size();
            let result = Command::parse(op, &whole[..len], u16::MAX);
            // What lies behind the last field, or is not looked at, may be missing.
            if old || result.is_ok() {
                continue;
            }
            assert!(matches!(result, Err(Wrong::Invalid | Wrong::Unknown)));
        }
    }
}

#[test]
fn room_of_answers() {
    assert_eq!(response(199, ROUTE), Err(Wrong::NoRoom));
    assert_eq!(response(200, ROUTE), Ok(200));
    assert_eq!(response(208, ROUTE), Ok(208));
    assert_eq!(response(u16::MAX, ROUTE), Ok(208));
    assert_eq!(records(7, 72), Err(Wrong::NoRoom));
    assert_eq!((records(8, 72), records(79, 72)), (Ok(0), Ok(0)));
    assert_eq!((records(80, 72), records(152, 72)), (Ok(1), Ok(2)));
    assert_eq!(records(8, 0), Err(Wrong::Invalid));
}

#[test]
fn options() {
    assert_eq!(Setting::parse(0, 0, &[7]), Ok(Setting::Tos(7)));
    assert_eq!(Setting::parse(0, 3, &[9]), Ok(Setting::AckTimeout(9)));
    for name in [0, 3] {
        for len in [0, 2, 4] {
            assert_eq!(Setting::parse(0, name, &vec![0; len]), Err(Wrong::Invalid));
        }
    }
    let flag = |name, value| Setting::parse(0, name, value);
    assert_eq!(flag(1, &[0, 0, 0, 1]), Ok(Setting::ReuseAddr(true)));
    assert_eq!(flag(1, &[0; 4]), Ok(Setting::ReuseAddr(false)));
    assert_eq!(flag(2, &[1, 0, 0, 0]), Ok(Setting::AfOnly(true)));
    assert_eq!(flag(2, &[0; 3]), Err(Wrong::Invalid));
    assert_eq!(flag(1, &[0; 5]), Err(Wrong::Invalid));
    for (level, name) in [(0, 4), (1, 0), (1, 2), (2, 0), (u32::MAX, 1)] {
        assert_eq!(Setting::parse(level, name, &[]), Err(Wrong::Unknown));
    }
    // The first primary path is the one.
    let other = with(72, &[(0, &[3]), (8, &[1])]);
    let first = with(72, &[(0, &option::PRIMARY.to_ne_bytes()), (8, &[2])]);
    let second = with(72, &[(0, &option::PRIMARY.to_ne_bytes()), (8, &[3])]);
    let all = [other.clone(), first, second].concat();
    match Setting::parse(1, 1, &all) {
        Ok(Setting::Path(path)) => assert_eq!((path[0], path[1]), (2, 0)),
        result => panic!("{result:?}"),
    }
    assert_eq!(option::PRIMARY, 43);
    assert_eq!(Setting::parse(1, 1, &all[1..]), Err(Wrong::Invalid));
    assert_eq!(Setting::parse(1, 1, &other), Err(Wrong::Invalid));
    assert_eq!(Setting::parse(1, 1, &[]), Err(Wrong::Invalid));
}

#[test]
fn events_as_the_uapi_lays_them_out() {
    let told = Event {
        uid: 0x0102_0304_0506_0708,
        id: 0x1112_1314,
        event: 4,
        status: 0xffff_fff2,
        body: Body::Empty,
        ece: Ece {
            vendor_id: 0x2122_2324,
            attr_mod: 0x3132_3334,
        },
    };
    let empty = read(&told);
    assert_eq!(empty[..8], told.uid.to_ne_bytes());
    assert_eq!(empty[8..12], told.id.to_ne_bytes());
    assert_eq!(empty[12..20], [4, 0, 0, 0, 0xf2, 0xff, 0xff, 0xff]);
    assert!(empty[20..328].iter().all(|byte| *byte == 0));
    assert_eq!(empty[328..332], told.ece.vendor_id.to_ne_bytes());
    assert_eq!(empty[332..], told.ece.attr_mod.to_ne_bytes());

    let conn = read(&Event {
        body: Body::Conn(Conn {
            qp_num: 0x11,
            private: &[9; 92],
            srq: 1,
            responder_resources: 2,
            initiator_depth: 3,
            flow_control: 4,
            retry_count: 5,
            rnr_retry_count: 6,
        }),
        ..told
    });
    assert_eq!(conn[20..24], 0x11_u32.to_ne_bytes());
    assert_eq!(conn[24..28], [0; 4], "the Q_Key is not told");
    assert_eq!((&conn[28..120], conn[120]), (&[9; 92][..], 0));
    assert_eq!(conn[284..292], [92, 1, 2, 3, 4, 5, 6, 0]);

    let ud = read(&Event {
        body: Body::Ud(Ud {
            qp_num: 0x11,
            qkey: 0x22,
            vector: [7; 32],
            private: &[9; 180],
        }),
        ..told
    });
    assert_eq!(ud[20..28], [0x11, 0, 0, 0, 0x22, 0, 0, 0]);
    assert_eq!((&ud[28..60], &ud[60..240]), (&[7; 32][..], &[9; 180][..]));
    assert_eq!(ud[240..316], [0; 76]);
    assert_eq!(ud[316..324], [180, 0, 0, 0, 0, 0, 0, 0]);

    let arg = read(&Event {
        body: Body::Arg(0x0102_0304_0506_0708),
        ..told
    });
    assert_eq!(arg[20..28], 0x0102_0304_0506_0708_u64.to_ne_bytes());
    assert_eq!(event::SIZE, 336);
}

#[test]
fn private_data_never_overrun() {
    let long = vec![1; 300];
    let conn = read(&Event {
        uid: 0,
        id: 0,
        event: 0,
        status: 0,
        body: Body::Conn(Conn {
            private: &long,
            ..Conn::default()
        }),
        ece: Ece::default(),
    });
    assert_eq!((conn[28 + 254], conn[28 + 255]), (1, 0));
    assert_eq!(conn[284], 255);
}

#[test]
fn answers_to_queries() {
    let address = |number, byte| {
        let mut address = Address([byte; STORAGE]);
        address.0[..2].copy_from_slice(&family(number));
        address
    };
    let device = answer::Device {
        node_guid: 0x0102_0304_0506_0708,
        index: 7,
        port: 2,
        pkey: 0x1234,
    };
    let first = answer::unresolved(&[1; 16], &[2; 16], 0xffff);
    assert_eq!((&first[..16], &first[16..32]), (&[1; 16][..], &[2; 16][..]));
    assert_eq!(
        (&first[32..52], &first[52..54]),
        (&[0; 20][..], &[0xff; 2][..])
    );
    let (from, to) = (address(INET, 3), address(INET6, 4));
    let mut route = [0; ROUTE.0];
    answer::route(
        &mut route,
        Named::new(&from.0),
        Named::new(&to.0),
        Some(&device),
        2,
        &[first, [5; 64]],
    );
    assert_eq!(route[..8], device.node_guid.to_ne_bytes());
    assert_eq!((&route[8..72], &route[72..136]), (&first[..], &[5; 64][..]));
    assert_eq!(
        (&route[136..152], &route[152..164]),
        (&from.0[..16], &[0; 12][..])
    );
    assert_eq!(route[164..192], to.0[..28]);
    assert_eq!(
        route[192..208],
        [2, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]
    );
    // As in C: another family is cut.
    let mut route = [0; ROUTE.0];
    let ib = address(IB, 3);
    answer::route(
        &mut route,
        Named::new(&ib.0),
        Named::new(&to.0),
        None,
        0,
        &[[0; 64]; 2],
    );
    assert_eq!((&route[138..164], &route[..8]), (&[3; 26][..], &[0; 8][..]));

    let mut addr = [0; ADDR.0];
    let ib = address(IB, 9);
    answer::addresses(
        &mut addr,
        Named::new(&from.0),
        Named::new(&ib.0),
        Some(&device),
    );
    assert_eq!(addr[8..16], [2, 0, 0x34, 0x12, 16, 0, 48, 0]);
    assert_eq!(
        (&addr[16..32], &addr[32..144]),
        (&from.0[..16], &[0; 112][..])
    );
    assert_eq!(
        (&addr[146..192], &addr[192..272]),
        (&[9; 46][..], &[0; 80][..])
    );
    assert_eq!(addr[272..], [7, 0, 0, 0, 0, 0, 0, 0]);
    let (mut none, empty) = ([0; ADDR.0], Address([0; STORAGE]));
    answer::addresses(&mut none, Named::new(&empty.0), Named::new(&empty.0), None);
    assert_eq!(none, [0; 280]);

    let ib = answer::infiniband(0x1234, &[6; 16], 0x0102);
    let named = Named::new(&ib);
    assert_eq!((named.family(), named.len()), (IB, 48));
    assert_eq!(ib[2..8], [0x34, 0x12, 0, 0, 0, 0]);
    assert_eq!(
        (&ib[8..24], &ib[24..32]),
        (&[6; 16][..], &[2, 1, 0, 0, 0, 0, 0, 0][..])
    );
    assert!(ib[32..].iter().all(|byte| *byte == 0));
}

#[test]
fn lives() {
    let mut life = Life::Private;
    assert_eq!(life.find(true), Err(Lost::None));
    life.close();
    assert_eq!(life, Life::Private, "only what is known is closed");
    life.publish();
    assert_eq!(
        (life.find(true), life.find(false)),
        (Ok(()), Err(Lost::Foreign))
    );
    assert_eq!(life.destroy_found(false), Err(Lost::Foreign));
    life.close();
    assert_eq!(
        (life.find(true), life.find(false)),
        (Err(Lost::Closing), Err(Lost::Foreign))
    );
    life.publish();
    assert_eq!(life, Life::Closing);
    assert_eq!(life.destroy_found(true), Ok(()));
    assert_eq!(life.destroy_found(true), Err(Lost::None));
    assert_eq!(
        (life.find(true), life.find(false)),
        (Err(Lost::None), Err(Lost::None))
    );
    assert!(!life.destroy());
    life.publish();
    life.close();
    assert_eq!(life, Life::Dead);
    let mut life = Life::Private;
    assert!(life.destroy() && !life.destroy());
}

#[test]
fn backlogs() {
    let mut backlog = Backlog::default();
    assert!(!backlog.take());
    for (asked, max, limit) in [
        (0, 1024, 1024),
        (1024, 1024, 1024),
        (1025, 1024, 1024),
        (u32::MAX, 0, 0),
        (1, 1024, 1),
    ] {
        assert_eq!(backlog.set(asked, max), limit);
    }
    assert!(backlog.take() && !backlog.take());
    // The limit that is set again makes no room.
    assert_eq!(backlog.set(1, 1024), 1);
    assert!(!backlog.take());
    backlog.give();
    assert!(backlog.take());
    // A larger one does; a smaller one takes none away.
    assert_eq!(backlog.set(2, 1024), 2);
    assert!(backlog.take() && !backlog.take());
    assert_eq!(backlog.set(1, 1024), 1);
    backlog.give();
    assert!(!backlog.take());
    backlog.give();
    assert!(backlog.take());
}

#[test]
fn unread_answers_end_questions() {
    let mut unread = Unread::default();
    unread.read();
    for _ in 0..UNREAD {
        assert!(unread.may_ask());
        unread.queued();
    }
    assert!(!unread.may_ask());
    // What comes without a question is queued nevertheless.
    unread.queued();
    unread.read();
    assert!(!unread.may_ask());
    unread.read();
    assert!(unread.may_ask());
}

#[test]
fn left_and_ended_joins_may_differ() {
    let group = |byte| Address([byte; STORAGE]);
    let join = |id: u32, cookie, byte| Joined {
        id,
        uid: id.into(),
        cookie,
        address: group(byte),
        reported: 0,
    };
    // Two joins of one group; the program leaves the first, the connection manager ends the second.
    let mut joins = vec![join(10, 0, 1), join(11, 1, 2), join(12, 2, 1)];
    assert_eq!(joins::left(&mut joins, 10), Some(0));
    joins.remove(0);
    assert_eq!(joins::by_cookie(&joins, 0), Some(1));
    assert_eq!(joins::by_cookie(&joins, 2), None);
    assert_eq!(joins::by_id(&joins, 12), Some(1));
    // The newest one ends itself.
    assert_eq!(joins::left(&mut joins, 12), Some(1));
    assert_eq!(joins::left(&mut joins, 99), None);
}
