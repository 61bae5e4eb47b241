// SPDX-License-Identifier: GPL-2.0

//! A small subnet manager, which brings fabrics up as a real one does, and looks what came
//! of it.

use rdma_fakeib::proto::fabric::Arrived;
use rdma_fakeib::proto::fabric::Fabric;
use rdma_fakeib::proto::fabric::Head;
use rdma_fakeib::proto::fabric::Host;
use rdma_fakeib::proto::fields::Fields;
use rdma_fakeib::proto::mad;
use rdma_fakeib::proto::mad::at;
use rdma_fakeib::proto::mad::Answer;
use rdma_fakeib::proto::mad::Mad;
use rdma_fakeib::proto::node::attribute;
use rdma_fakeib::proto::node::Identity;
use rdma_fakeib::proto::port::Events;
use rdma_fakeib::proto::port::Port;
use rdma_fakeib::proto::port::Role;
use rdma_fakeib::proto::port::State;
use rdma_fakeib::proto::switch::Tables;
use rdma_fakeib::proto::switch::LINEAR_CAP;
use rdma_fakeib::proto::switch::MULTICAST_CAP;

const SWITCH: &[u8] = &[1];
const PREFIX: u64 = 0xfec0_0000_0000_0001;

fn fabric(hosts: usize) -> Fabric {
    let port = Port::new(0, Role::SwitchEnd, 0, 0);
    Fabric::new(
        (0..hosts)
            .map(|n| Host::new(0x1000 * (n as u64 + 1), [0; 64], 0))
            .collect(),
        Identity {
            description: [0; 64],
            guid: 0x9000,
            device_id: 2,
        },
        vec![port; hosts + 1],
        Tables::new(vec![0; LINEAR_CAP], vec![0; MULTICAST_CAP]),
    )
}

/// What the core of an adapter does with a path's datagram that it sends or gets.
fn core_sends(fabric: &mut Fabric, host: usize, mad: &mut Mad) -> Option<Mad> {
    let mut head = Head {
        slid: 0xffff,
        dlid: 0xffff,
        len: 256,
    };
    let (pointer, count) = (mad[6], mad[7]);
    if mad::is_returning(mad) {
        assert_eq!(pointer, count + 1);
        mad[6] = pointer - 1;
    } else {
        assert_eq!(pointer, 0);
        if count == 0 {
            assert_eq!(fabric.host_mad(host, true, mad), Answer::Reply);
            return Some(*mad);
        }
        mad[6] = 1;
    }
    let there = fabric.send_smp(host, &mut head, mad)?;
    core_gets(fabric, there, mad)
}

fn core_gets(fabric: &mut Fabric, host: usize, mad: &mut Mad) -> Option<Mad> {
    if mad::is_returning(mad) {
        assert_eq!(mad[6], 1, "it is at the start of its path");
        return Some(*mad);
    }
    assert_eq!(mad[6], mad[7], "it is at the end of its path");
    mad[at::RETURN_PATH + usize::from(mad[6])] = 1;
    mad[6] += 1;
    match fabric.host_mad(host, false, mad) {
        Answer::Reply => core_sends(fabric, host, mad),
        _ => None,
    }
}

/// Asks from adapter `from` along a path.
fn ask(
    fabric: &mut Fabric,
    from: usize,
    method: u8,
    path: &[u8],
    attribute: u16,
    modifier: u32,
    data: &[u8],
) -> Option<Mad> {
    let mut mad = [0; mad::LEN];
    mad.put(0, &[1, mad::CLASS_DIRECTED, 1, method]);
    mad.put_u16(at::ATTRIBUTE, attribute);
    mad.put_u32(at::MODIFIER, modifier);
    mad.put_u16(at::DR_SLID, 0xffff);
    mad.put_u16(at::DR_DLID, 0xffff);
    mad[7] = path.len() as u8;
    mad[at::INITIAL_PATH + 1..][..path.len()].copy_from_slice(path);
    mad.put(at::DATA, data);
    let answer = core_sends(fabric, from, &mut mad)?;
    assert_eq!(answer[3], mad::GET_RESP);
    assert_eq!(answer.u64(at::TRANSACTION), mad.u64(at::TRANSACTION));
    Some(answer)
}

fn get(fabric: &mut Fabric, path: &[u8], attribute: u16, modifier: u32) -> [u8; 64] {
    let answer = ask(fabric, 0, mad::GET, path, attribute, modifier, &[0; 64]).expect("an answer");
    assert_eq!(answer.u16(at::STATUS), mad::RETURNING);
    mad::data(&answer)
}

fn set(fabric: &mut Fabric, path: &[u8], attribute: u16, modifier: u32, data: &[u8; 64]) {
    let answer = ask(fabric, 0, mad::SET, path, attribute, modifier, data).expect("an answer");
    assert_eq!(
        answer.u16(at::STATUS),
        mad::RETURNING,
        "{attribute:#x} {modifier:#x}"
    );
}

/// LID of adapter `host`, each with two free bits.
fn lid(host: usize) -> u16 {
    4 + 4 * host as u16
}

/// Brings up everything that answers.
fn bring_up(fabric: &mut Fabric) {
    let hosts = fabric.hosts();
    let info = get(fabric, SWITCH, attribute::NODE_INFO, 0);
    assert_eq!(
        (info[2], info[3]),
        (2, hosts as u8),
        "a switch with its ports"
    );
    let mut linear = [0xff; 64];
    linear[2] = 0;
    for host in 0..hosts {
        linear[usize::from(lid(host))..][..4].fill(host as u8 + 1);
    }
    set(fabric, SWITCH, attribute::LINEAR_TABLE, 0, &linear);
    let mut switch = get(fabric, SWITCH, attribute::SWITCH_INFO, 0);
    switch.put_u16(6, 63);
    switch[11] |= 4;
    set(fabric, SWITCH, attribute::SWITCH_INFO, 0, &switch);
    let mut base = get(fabric, SWITCH, attribute::PORT_INFO, 0);
    base.put_u16(16, 2);
    base.put_u16(32, 0);
    base.put_u16(18, lid(0));
    set(fabric, SWITCH, attribute::PORT_INFO, 0, &base);
    for host in 0..hosts {
        for state in [3, 4] {
            let own = [1, host as u8 + 1];
            let path = if host == 0 { &own[..0] } else { &own[..] };
            let mut info = get(fabric, path, attribute::PORT_INFO, 1);
            info.put_u64(8, PREFIX);
            info.put_u16(16, lid(host));
            info.put_u16(18, lid(0));
            info[34] = 2;
            info[32] = state;
            info[33] = 0;
            set(fabric, path, attribute::PORT_INFO, 1, &info);
            let number = host as u32 + 1;
            let mut outer = get(fabric, SWITCH, attribute::PORT_INFO, number);
            outer[32] = state;
            outer[33] = 0;
            set(fabric, SWITCH, attribute::PORT_INFO, number, &outer);
        }
    }
}

fn send(fabric: &mut Fabric, from: usize, dlid: u16, len: usize) -> (Vec<usize>, Arrived) {
    let mut got = vec![];
    let head = Head {
        slid: lid(from),
        dlid,
        len,
    };
    let arrived = fabric.send(from, &head, |host| got.push(host));
    (got, arrived)
}

#[test]
fn a_manager_brings_it_up() {
    for hosts in [1, 2, 15] {
        let mut fabric = fabric(hosts);
        assert_eq!(
            send(&mut fabric, 0, lid(0), 10).0,
            vec![],
            "nothing goes before"
        );
        bring_up(&mut fabric);
        for a in 0..hosts {
            let events = fabric.take_events(a);
            for event in [Events::ACTIVE, Events::LID, Events::MANAGER, Events::GIDS] {
                assert!(events.has(event));
            }
            assert!(fabric.take_events(a).is_empty());
            assert_eq!(
                fabric.host(a).expect("it is there").port.state,
                State::Active
            );
            for b in 0..hosts {
                for low in 0..4 {
                    assert_eq!(send(&mut fabric, a, lid(b) + low, 100).0, vec![b]);
                }
            }
            assert_eq!(send(&mut fabric, a, 2, 100).1, Arrived::Switch);
            assert_eq!(send(&mut fabric, a, 1, 100).0, vec![]);
            assert_eq!(
                send(&mut fabric, a, lid(0), 5000).0,
                vec![],
                "longer than the largest packet"
            );
        }
    }
}

#[test]
fn attributes_that_are_set_cause_events() {
    let mut fabric = fabric(3);
    bring_up(&mut fabric);
    let path: &[u8] = &[1, 3];
    let mut keys = [0; 64];
    keys.put_u16(0, 0x8001);
    keys.put_u16(62, 0x7fff);
    fabric.take_events(2);
    set(&mut fabric, path, attribute::PKEY_TABLE, 0, &keys);
    assert_eq!(fabric.take_events(2), Events::PKEYS);
    set(&mut fabric, path, attribute::PKEY_TABLE, 0, &keys);
    assert!(fabric.take_events(2).is_empty(), "nothing has changed");
    assert_eq!(get(&mut fabric, path, attribute::PKEY_TABLE, 0), keys);
    for number in 0..=3u32 {
        let keys = [number as u8; 64];
        set(
            &mut fabric,
            SWITCH,
            attribute::PKEY_TABLE,
            number << 16,
            &keys,
        );
        set(
            &mut fabric,
            SWITCH,
            attribute::SL_TO_VL,
            2 << 8 | number,
            &keys,
        );
        set(
            &mut fabric,
            SWITCH,
            attribute::VL_ARBITRATION,
            3 << 16 | number,
            &keys,
        );
    }
    for number in 0..=3u32 {
        let keys = [number as u8; 64];
        assert_eq!(
            get(&mut fabric, SWITCH, attribute::PKEY_TABLE, number << 16),
            keys
        );
        assert_eq!(
            get(&mut fabric, SWITCH, attribute::SL_TO_VL, 2 << 8 | number)[..8],
            keys[..8]
        );
        assert_eq!(
            get(
                &mut fabric,
                SWITCH,
                attribute::VL_ARBITRATION,
                3 << 16 | number
            ),
            keys
        );
    }
    let mut guids = get(&mut fabric, path, attribute::GUID_INFO, 0);
    assert_eq!(guids.u64(0), 0x3001);
    guids.put_u64(0, 7);
    guids.put_u64(8, 0x77);
    set(&mut fabric, path, attribute::GUID_INFO, 0, &guids);
    let port = &fabric.host(2).expect("it is there").port;
    assert_eq!(
        port.guids[..3],
        [0x3001, 0x77, 0],
        "the first one is for ever"
    );
    assert_eq!(
        port.gid(1),
        Some((u128::from(PREFIX) << 64 | 0x77).to_be_bytes())
    );
    assert_eq!(port.gid(2), Some((u128::from(PREFIX) << 64).to_be_bytes()));
    assert_eq!(port.gid(8), None);
}

#[test]
fn groups_reach_their_members_once() {
    let mut fabric = fabric(4);
    bring_up(&mut fabric);
    let mut groups = [0; 64];
    groups.put_u16(2 * 3, 0b10110);
    set(&mut fabric, SWITCH, attribute::MULTICAST_TABLE, 1, &groups);
    let group = 0xc000 + 32 + 3;
    assert_eq!(send(&mut fabric, 0, group, 10).0, vec![1, 3]);
    assert_eq!(
        send(&mut fabric, 2, group, 10).0,
        vec![0, 1, 3],
        "who sends need not be a member"
    );
    assert_eq!(send(&mut fabric, 0, group + 1, 10).0, vec![]);
    assert_eq!(
        fabric
            .host(1)
            .expect("it is there")
            .port
            .counters
            .rcvd_multicast,
        2
    );
}

#[test]
fn links_go_and_come() {
    let mut fabric = fabric(2);
    bring_up(&mut fabric);
    let (host, _, mad) = fabric.trap().expect("the links came up");
    assert_eq!(
        (host, mad.u16(at::DATA + 4), mad.u16(at::DATA + 10)),
        (0, 128, 2)
    );
    assert!(fabric.trap().is_none());
    fabric.take_events(1);
    // The manager turns the port of the switch off.
    let mut info = get(&mut fabric, SWITCH, attribute::PORT_INFO, 2);
    info[32] = 1;
    info[33] = 3 << 4;
    set(&mut fabric, SWITCH, attribute::PORT_INFO, 2, &info);
    assert_eq!(fabric.take_events(1), Events::DOWN);
    assert_eq!(fabric.host(1).expect("it is there").port.state, State::Down);
    assert!(ask(
        &mut fabric,
        0,
        mad::GET,
        &[1, 2],
        attribute::NODE_INFO,
        0,
        &[0; 64]
    )
    .is_none());
    assert_eq!(
        get(&mut fabric, SWITCH, attribute::SWITCH_INFO, 0)[11] & 4,
        4
    );
    assert!(fabric.trap().is_some());
    assert_eq!(send(&mut fabric, 0, lid(1), 10).0, vec![]);
    // And on.
    info[33] = 2 << 4;
    set(&mut fabric, SWITCH, attribute::PORT_INFO, 2, &info);
    assert_eq!(fabric.host(1).expect("it is there").port.state, State::Init);
    assert!(fabric.trap().is_some());
    assert_eq!(
        send(&mut fabric, 0, lid(1), 10).0,
        vec![],
        "not before a manager says so"
    );
    bring_up(&mut fabric);
    assert_eq!(send(&mut fabric, 0, lid(1), 10).0, vec![1]);
    // The cable.
    fabric.plug(1, false);
    fabric.plug(1, false);
    assert_eq!(send(&mut fabric, 0, lid(1), 10).0, vec![]);
    fabric.plug(1, true);
    fabric.plug(1, true);
    bring_up(&mut fabric);
    assert_eq!(send(&mut fabric, 0, lid(1), 10).0, vec![1]);
}

#[test]
fn wrong_values_change_nothing() {
    let mut fabric = fabric(2);
    bring_up(&mut fabric);
    let path: &[u8] = &[1, 2];
    let good = get(&mut fabric, path, attribute::PORT_INFO, 0);
    let wrong = [
        (16, 0xc0),
        (18, 0xff),
        (32, 0x05),
        (32, 0x02),
        (33, 0x40),
        (33, 3),
        (36, 0x60),
        (36, 0),
        (43, 0x50),
        (29, 4),
        (35, 8),
    ];
    for (offset, value) in wrong {
        let mut info = good;
        info[32] = 0;
        info[33] = 0;
        info[offset] = value;
        let answer = ask(
            &mut fabric,
            0,
            mad::SET,
            path,
            attribute::PORT_INFO,
            0,
            &info,
        )
        .expect("an answer");
        assert_eq!(
            answer.u16(at::STATUS),
            mad::RETURNING | 7 << 2,
            "{offset} {value:#x}"
        );
        assert_eq!(get(&mut fabric, path, attribute::PORT_INFO, 0), good);
    }
    for (attribute, modifier, status) in [
        (attribute::SWITCH_INFO, 0, 3),
        (attribute::LINEAR_TABLE, 0, 3),
        (attribute::PORT_INFO, 2, 7),
        (attribute::PKEY_TABLE, 1, 7),
        (attribute::GUID_INFO, 1, 7),
        (attribute::VL_ARBITRATION, 0, 7),
        (attribute::SM_INFO, 0, 3),
        (0x1234, 0, 3),
    ] {
        let answer = ask(
            &mut fabric,
            0,
            mad::GET,
            path,
            attribute,
            modifier,
            &[0; 64],
        )
        .expect("an answer");
        assert_eq!(
            answer.u16(at::STATUS),
            mad::RETURNING | status << 2,
            "{attribute:#x}"
        );
    }
    for (attribute, modifier) in [
        (attribute::LINEAR_TABLE, 16),
        (attribute::LINEAR_TABLE, u32::MAX),
        (attribute::MULTICAST_TABLE, 8),
        (attribute::MULTICAST_TABLE, 1 << 28),
        (attribute::SL_TO_VL, 0x1000),
        (attribute::PKEY_TABLE, 3 << 16),
    ] {
        let answer = ask(
            &mut fabric,
            0,
            mad::GET,
            SWITCH,
            attribute,
            modifier,
            &[0; 64],
        )
        .expect("an answer");
        assert_eq!(
            answer.u16(at::STATUS),
            mad::RETURNING | 7 << 2,
            "{attribute:#x} {modifier:#x}"
        );
    }
}

#[test]
fn keys_of_management_protect() {
    let mut fabric = fabric(2);
    bring_up(&mut fabric);
    let path: &[u8] = &[1, 2];
    let mut info = get(&mut fabric, path, attribute::PORT_INFO, 0);
    info.put_u64(0, 42);
    info[32] = 0;
    info[33] = 0;
    info[34] = 1 << 6;
    set(&mut fabric, path, attribute::PORT_INFO, 0, &info);
    assert_eq!(
        get(&mut fabric, path, attribute::PORT_INFO, 0).u64(0),
        0,
        "who has no key does not see it"
    );
    assert!(ask(
        &mut fabric,
        0,
        mad::SET,
        path,
        attribute::PORT_INFO,
        0,
        &info
    )
    .is_none());
    let port = &mut fabric.host_mut(1).expect("it is there").port;
    assert_eq!(port.violations, [1, 0, 0]);
    port.mkey_protect = 2;
    assert!(ask(
        &mut fabric,
        0,
        mad::GET,
        path,
        attribute::PORT_INFO,
        0,
        &info
    )
    .is_none());
}

#[test]
fn lid_routed_and_counters() {
    let mut fabric = fabric(2);
    bring_up(&mut fabric);
    // To the switch and back.
    let mut mad = [0; mad::LEN];
    mad.put(0, &[1, mad::CLASS_LID, 1, mad::GET]);
    mad.put_u16(at::ATTRIBUTE, attribute::NODE_INFO);
    let mut head = Head {
        slid: lid(1),
        dlid: 2,
        len: 256,
    };
    assert_eq!(fabric.send_smp(1, &mut head, &mut mad), Some(1));
    assert_eq!((head.slid, head.dlid, mad[3]), (2, lid(1), mad::GET_RESP));
    // To another adapter, and to oneself.
    for to in [0, 1] {
        let mut head = Head {
            slid: lid(1),
            dlid: lid(to),
            len: 256,
        };
        assert_eq!(fabric.send_smp(1, &mut head, &mut mad), Some(to));
    }
    let ask = |fabric: &mut Fabric, attribute, method| {
        let mut mad = [0; mad::LEN];
        mad.put(0, &[1, mad::CLASS_PERF, 1, method]);
        mad.put_u16(at::ATTRIBUTE, attribute);
        mad.put(at::DATA, &[0, 2, 0xff, 0xff]);
        assert!(fabric.switch_mad(&mut mad));
        assert_eq!(mad.u16(at::STATUS), 0);
        mad
    };
    send(&mut fabric, 0, lid(1), 1000);
    let before = ask(&mut fabric, 0x1d, mad::GET);
    send(&mut fabric, 0, lid(1), 1000);
    let after = ask(&mut fabric, 0x1d, mad::GET);
    assert_eq!(after.u64(at::DATA + 8) - before.u64(at::DATA + 8), 250);
    assert_eq!(after.u64(at::DATA + 24) - before.u64(at::DATA + 24), 1);
    assert_eq!(
        u64::from(ask(&mut fabric, 0x12, mad::GET).u32(at::DATA + 32)),
        after.u64(at::DATA + 24)
    );
    ask(&mut fabric, 0x12, mad::SET);
    assert_eq!(ask(&mut fabric, 0x1d, mad::GET).u64(at::DATA + 24), 0);
}

/// Datagrams of any bytes, in a fabric that is up: it survives, and answers go where they
/// may.
#[test]
fn anything_is_survived() {
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let mut fabric = fabric(5);
    bring_up(&mut fabric);
    for _ in 0..200_000 {
        let mut mad = [0; mad::LEN];
        if random() & 1 == 0 {
            mad.iter_mut().for_each(|b| *b = random() as u8);
        }
        let mut pick = |some: &[u8]| some[random() as usize % some.len()];
        mad[0] = pick(&[1, 1, 1, 0]);
        mad[1] = pick(&[1, 0x81, 0x81, 4, 9]);
        mad[2] = pick(&[1, 1, 1, 2]);
        mad[3] = pick(&[1, 2, 2, 3, 5, 7, 0x81]);
        mad[4] = pick(&[0, 0x80]);
        mad[6] = pick(&[0, 1, 1, 2, 3, 63, 64, 255]);
        mad[7] = pick(&[0, 1, 1, 2, 2, 63, 64, 255]);
        mad[16] = pick(&[0, 0, 0, 0xff]);
        mad[17] = pick(&[
            0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1b, 0x20, 0x1d,
        ]);
        mad.put(
            20,
            &[
                pick(&[0, 0, 0x10]),
                pick(&[0, 1, 3]),
                pick(&[0, 0, 1, 0xff]),
                pick(&[0, 1, 2, 5, 6, 255]),
            ],
        );
        mad.put_u16(
            34,
            if random() & 1 == 0 {
                0xffff
            } else {
                random() as u16 & 0x3f
            },
        );
        mad.iter_mut()
            .skip(129)
            .take(3)
            .for_each(|b| *b = random() as u8 % 7);
        let from = random() as usize % 6;
        let mut head = Head {
            slid: random() as u16,
            dlid: match random() % 4 {
                0 => 0xffff,
                1 => random() as u16,
                _ => random() as u16 & 0x3f,
            },
            len: random() as usize % 300,
        };
        match random() % 8 {
            0 => drop(fabric.host_mad(from, random() & 1 == 0, &mut mad)),
            1 => drop(fabric.switch_mad(&mut mad)),
            2 => drop(fabric.trap()),
            3 => drop(fabric.send(from, &head, |host| assert!(host < 5))),
            4 => fabric.plug(from, random() % 3 != 0),
            _ => {
                if let Some(host) = fabric.send_smp(from, &mut head, &mut mad) {
                    assert!(host < 5);
                }
            }
        }
        for host in 0..5 {
            // Both ends of a cable agree.
            let port = &fabric.host(host).expect("it is there").port;
            assert_eq!(
                port.state == State::Down,
                port.phys != rdma_fakeib::proto::port::Phys::LinkUp
            );
            assert!(port.lid < 0xc000);
        }
    }
}
