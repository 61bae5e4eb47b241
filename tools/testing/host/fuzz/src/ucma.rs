// SPDX-License-Identifier: GPL-2.0

//! The target `ucma`: what programs write to `rdma_ucm`. A command is refused before an object is
//! looked up, or has fields that may be used; lives of contexts and joins keep their promises
//! whatever the order of calls.

use rdma_ucma_engines::proto::command::*;
use rdma_ucma_engines::proto::event::{self, Body, Conn, Event, Ud};
use rdma_ucma_engines::proto::joins::{self, Joined};
use rdma_ucma_engines::proto::life::Life;
use rdma_ucma_engines::proto::option::Setting;
use rdma_ucma_engines::proto::queue::Backlog;

/// Runs an input: a selector, then bytes for it.
pub fn run(input: &[u8]) {
    let Some((&what, rest)) = input.split_first() else {
        return;
    };
    match what % 5 {
        0 | 1 => written(rest),
        2 => option(rest),
        3 => lives(rest),
        _ => groups(rest),
    }
}

/// A write, with its header.
fn written(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() else {
        return;
    };
    let header = Header::parse(head);
    let Some(&op) = OPS.get(header.number as usize) else {
        return;
    };
    let Ok(len) = header.admit(op, bytes.len()) else {
        return;
    };
    assert!(len <= op.size() && op.size() <= LONGEST);
    assert!(usize::from(header.len) + HEADER <= bytes.len());
    // The program's memory goes on behind what it has written.
    let mut copied = rest.to_vec();
    copied.resize(len.max(rest.len()), 0xa5);
    let Ok(command) = Command::parse(op, &copied[..len], header.room) else {
        return;
    };
    match command {
        Command::Bind { address, .. } => assert_ne!(address.len(), 0),
        Command::ResolveAddr { to, .. } => assert_ne!(to.len(), 0),
        Command::Join(join) => {
            assert_ne!(join.address.len(), 0);
            let end = join.address.len();
            assert!(join.address.whole().0[end..].iter().all(|&byte| byte == 0));
            assert!(usize::from(header.room) >= NUMBER);
        }
        Command::Connect { param, .. } => connection(&param),
        Command::Accept { param, .. } => param.iter().for_each(connection),
        Command::Reject {
            private, reason, ..
        } => {
            assert!(private.len() <= PRIVATE && matches!(reason, 28 | 35));
        }
        Command::InitQpAttr { state, .. } => assert!(state <= 6),
        Command::SetOption { len, .. } => assert!(len <= LONGEST_OPTION),
        Command::WriteEvent { event, .. } => assert!(event == 18 || event == 19),
        Command::GetEvent { .. } => {
            let len = response(header.room, (event::SIZE, event::OLD)).expect("it was admitted");
            assert!((event::OLD..=event::SIZE).contains(&len));
        }
        Command::QueryRoute { .. } => {
            assert!(response(header.room, ROUTE).expect("it was admitted") >= ROUTE.1);
        }
        _ => {}
    }
}

fn connection(param: &Param<'_>) {
    assert!(param.private.len() < PRIVATE && param.qp_num <= 0xff_ffff);
    // Both ends lay private data out in the same way.
    let told = Event {
        uid: 1,
        id: 2,
        event: 4,
        status: 0,
        body: Body::Conn(Conn {
            private: param.private,
            ..Conn::default()
        }),
        ece: Ece::default(),
    };
    let mut bytes = [0; event::SIZE];
    told.write(&mut bytes);
    assert_eq!(&bytes[28..28 + param.private.len()], param.private);
    assert_eq!(usize::from(bytes[284]), param.private.len());
    let told = Event {
        body: Body::Ud(Ud {
            private: param.private,
            ..Ud::default()
        }),
        ..told
    };
    let mut bytes = [0; event::SIZE];
    told.write(&mut bytes);
    assert_eq!(&bytes[60..60 + param.private.len()], param.private);
    assert_eq!(usize::from(bytes[316]), param.private.len());
}

fn option(bytes: &[u8]) {
    let [level, name, value @ ..] = bytes else {
        return;
    };
    match Setting::parse((level % 3).into(), (name % 5).into(), value) {
        Ok(Setting::Path(path)) => {
            assert_eq!((level % 3, value.len() % 72), (1, 0));
            assert!(value.chunks(72).any(|one| one[8..] == path));
        }
        Ok(Setting::Tos(byte) | Setting::AckTimeout(byte)) => assert_eq!(value, [byte]),
        Ok(_) => assert_eq!(value.len(), 4),
        Err(_) => {}
    }
}

/// One context, and calls by the owner, another file, and the connection manager.
fn lives(bytes: &[u8]) {
    let mut life = Life::Private;
    let mut ends = 0;
    let mut backlog = Backlog::default();
    let (mut limit, mut queued) = (0, 0_u32);
    for &call in bytes {
        let was = life;
        match call % 8 {
            0 => life.publish(),
            1 => life.close(),
            2 => ends += u32::from(life.destroy()),
            3 => ends += u32::from(life.destroy_found(true).is_ok()),
            4 => assert!(life.destroy_found(false).is_err()),
            5 => {
                limit = backlog.set((call >> 3).into(), 20);
                assert!((1..=20).contains(&limit));
            }
            6 => {
                assert_eq!(backlog.take(), queued < limit);
                queued += u32::from(queued < limit);
            }
            _ => {
                if queued != 0 {
                    queued -= 1;
                    backlog.give();
                }
            }
        }
        assert!(ends <= 1, "one ends it");
        assert_eq!(life == Life::Dead, ends == 1);
        assert!(was != Life::Closing || life != Life::Live);
        assert_eq!(life.find(true).is_ok(), life == Life::Live);
        assert!(life.find(false).is_err());
    }
}

/// Joins of three groups, against a connection manager that knows addresses only.
fn groups(bytes: &[u8]) {
    let address = |which: u8| {
        let mut address = Address([0; STORAGE]);
        address.0[0] = which % 3;
        address
    };
    let mut joined: Vec<Joined> = Vec::new();
    // Cookie and address, oldest first.
    let mut manager: Vec<(usize, Address)> = Vec::new();
    let mut left = Vec::new();
    for (at, &call) in bytes.iter().enumerate() {
        if call % 2 == 0 {
            let group = address(call >> 1);
            joined.push(Joined {
                id: at as u32,
                uid: at as u64,
                cookie: at,
                address: group,
                reported: 0,
            });
            manager.push((at, group));
        } else if !joined.is_empty() {
            let join = joined[usize::from(call >> 1) % joined.len()];
            let newest = manager
                .iter()
                .rposition(|(_, group)| *group == join.address);
            manager.remove(newest.expect("it has the group"));
            let at = joins::left(&mut joined, join.id).expect("it is there");
            assert_eq!(joined.remove(at).id, join.id);
            left.push(join.id);
        }
        // Whoever the connection manager tells of is a join that the program still has, of that
        // group.
        assert_eq!(joined.len(), manager.len());
        for (cookie, group) in &manager {
            let at = joins::by_cookie(&joined, *cookie).expect("an owner");
            assert_eq!(joined[at].address, *group);
            assert!(!left.contains(&joined[at].id));
        }
    }
}
