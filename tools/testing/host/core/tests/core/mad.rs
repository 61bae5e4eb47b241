// SPDX-License-Identifier: GPL-2.0

//! `mad`: directed routes, rules of agents, transfers over a wire that loses, and the lives
//! of sends.

use rdma_core_engines::proto::mad::matching::Arrived;
use rdma_core_engines::proto::mad::matching::Ends;
use rdma_core_engines::proto::mad::matching::Path;
use rdma_core_engines::proto::mad::matching::Sent;
use rdma_core_engines::proto::mad::registry::Refused;
use rdma_core_engines::proto::mad::registry::Request;
use rdma_core_engines::proto::mad::registry::Rule;
use rdma_core_engines::proto::mad::rmpp;
use rdma_core_engines::proto::mad::rmpp::Arrival;
use rdma_core_engines::proto::mad::rmpp::Packet;
use rdma_core_engines::proto::mad::rmpp::Phase;
use rdma_core_engines::proto::mad::rmpp::Receiver;
use rdma_core_engines::proto::mad::rmpp::Sender;
use rdma_core_engines::proto::mad::send::AckResult;
use rdma_core_engines::proto::mad::send::AckTimeout;
use rdma_core_engines::proto::mad::send::Do;
use rdma_core_engines::proto::mad::send::End;
use rdma_core_engines::proto::mad::send::Flow;
use rdma_core_engines::proto::mad::send::Home;
use rdma_core_engines::proto::mad::send::Order;
use rdma_core_engines::proto::mad::send::SendState;
use rdma_core_engines::proto::mad::send::State;
use rdma_core_engines::proto::mad::smi::Form;
use rdma_core_engines::proto::mad::smi::Next;
use rdma_core_engines::proto::mad::smi::Node;
use rdma_core_engines::proto::mad::smi::Smp;
use rdma_core_engines::proto::mad::smi::Verdict;
use rdma_core_engines::proto::mad::wire;
use rdma_core_engines::proto::mad::wire::Layout;
use rdma_core_engines::proto::mad::wire::Special;
use rdma_core_engines::rng::Rng;

const CA: Node = Node {
    is_switch: false,
    ports: 1,
};
const SWITCH: Node = Node {
    is_switch: true,
    ports: 36,
};
const MOST: AckTimeout = AckTimeout(20);

/// A packet: permissive LIDs at both ends, and this route.
fn packet(form: Form, route: &[u8]) -> Vec<u8> {
    let mut mad = vec![0; 2048];
    mad[1] = wire::class::SMI_DIRECTED;
    mad[7] = route.len() as u8;
    let (lids, out) = match form {
        Form::Ib => (32..36, 128),
        Form::Opa => (32..40, 40),
    };
    mad[lids].fill(0xff);
    mad[out + 1..=out + route.len()].copy_from_slice(route);
    mad
}

#[test]
fn there_and_back() {
    let mut rng = Rng::new(1);
    for form in [Form::Ib, Form::Opa] {
        for hops in 0..=63_usize {
            // The first port is the manager's own; each switch is entered by some port.
            let mut route: Vec<u8> = (0..hops).map(|_| 1 + rng.below(36) as u8).collect();
            if let Some(first) = route.first_mut() {
                *first = 1;
            }
            let entered: Vec<u32> = (0..hops).map(|_| 1 + rng.below(36) as u32).collect();
            let mut mad = packet(form, &route);
            fn smp(mad: &mut [u8], form: Form) -> Smp<'_> {
                Smp::new(mad, form).expect("long enough")
            }

            let mut at = smp(&mut mad, form);
            assert!(at.starts_on_route());
            assert_eq!(at.send(CA, 1), Verdict::Handle, "{hops}");
            if hops == 0 {
                assert!(at.is_for_agent());
            }
            for hop in 1..=hops {
                assert!(!at.is_for_agent());
                let node = if hop == hops { CA } else { SWITCH };
                assert_eq!(at.receive(node, entered[hop - 1]), Verdict::Handle);
                if hop == hops {
                    // The end: through the rules of sending, and then to the agent.
                    assert_eq!(at.next(), Next::Send);
                    assert_eq!(at.send(CA, entered[hop - 1]), Verdict::Handle);
                    assert!(at.is_for_agent());
                } else {
                    assert_eq!(at.next(), Next::Forward);
                    let out = at.forward_port();
                    assert_eq!(out, route[hop]);
                    assert_eq!(at.send(SWITCH, u32::from(out)), Verdict::Handle);
                }
            }

            mad[4] |= 0x80;
            let mut at = smp(&mut mad, form);
            assert!(at.is_returning() && at.starts_on_route());
            for hop in (1..=hops).rev() {
                let node = if hop == hops { CA } else { SWITCH };
                let by = entered[hop - 1];
                assert_eq!(at.send(node, by), Verdict::Handle, "{hop} of {hops}");
                assert!(!at.is_for_manager());
                if hop > 1 {
                    assert_eq!(at.receive(SWITCH, 7), Verdict::Handle);
                    assert_eq!(at.next(), Next::Forward);
                    assert_eq!(u32::from(at.forward_port()), entered[hop - 2]);
                }
            }
            if hops == 0 {
                assert_eq!(at.send(CA, 1), Verdict::Handle);
            } else {
                assert_eq!(at.receive(CA, 1), Verdict::Handle);
                assert_eq!(at.next(), Next::Local);
            }
            assert!(at.is_for_manager());
        }
    }
}

/// On its way, each switch looks whether it has the port that the packet is to leave by.
#[test]
fn a_port_that_a_switch_lacks_is_the_end() {
    for form in [Form::Ib, Form::Opa] {
        let (out, back) = match form {
            Form::Ib => (128, 192),
            Form::Opa => (40, 104),
        };
        for returning in [false, true] {
            for pointer in 2..7_u8 {
                // Ports that rise along the way, there and back.
                let mut mad = packet(form, &[10, 20, 30, 40, 50, 60, 70]);
                for hop in 0..10_u8 {
                    mad[back + usize::from(hop)] = 100 + hop;
                    mad[out + usize::from(hop)] = 10 * hop;
                }
                mad[6] = pointer;
                mad[4] = if returning { 0x80 } else { 0 };
                let by = if returning {
                    100 + u32::from(pointer) - 1
                } else {
                    10 * (u32::from(pointer) + 1)
                };
                for (ports, verdict) in [(by, Verdict::Handle), (by - 1, Verdict::Discard)] {
                    let node = Node {
                        is_switch: true,
                        ports,
                    };
                    let mut mad = mad.clone();
                    let mut smp = Smp::new(&mut mad, form).expect("long enough");
                    assert_eq!(smp.receive(node, 3), verdict, "{pointer} {returning}");
                    assert_eq!(u32::from(smp.forward_port()), by);
                    assert_eq!(smp.next(), Next::Forward);
                    assert_eq!(smp.receive(CA, 3), Verdict::Discard, "no switch");
                }
            }
        }
    }
}

/// Whatever its pointer says, nothing is read from behind a packet.
#[test]
fn behind_a_packet_there_are_zeros() {
    for (form, len, back) in [(Form::Ib, 256, 192), (Form::Opa, 176, 104)] {
        for pointer in 0..=255_u8 {
            let mut mad = vec![0xaa; len];
            mad[6] = pointer;
            let smp = Smp::new(&mut mad, form).expect("long enough");
            assert!(smp.is_returning());
            let at = back + usize::from(pointer.wrapping_sub(1));
            let want = if at < len { 0xaa } else { 0 };
            assert_eq!(smp.forward_port(), want, "{pointer}");
        }
    }
}

#[test]
fn astray() {
    for form in [Form::Ib, Form::Opa] {
        assert!(Smp::new(&mut [0; 175], form).is_none());
        for (pointer, count) in (0..=255_u8).flat_map(|p| (0..=255_u8).map(move |c| (p, c))) {
            for bits in 0..16 {
                let node = if bits & 1 == 0 { CA } else { SWITCH };
                let mut mad = packet(form, &[1; 63]);
                (mad[6], mad[7]) = (pointer, count);
                if bits & 2 != 0 {
                    mad[4] = 0x80;
                }
                if bits & 4 != 0 {
                    mad[32..40].fill(0);
                }
                let before = mad.clone();
                let mut smp = Smp::new(&mut mad, form).expect("long enough");
                let verdict = if bits & 8 == 0 {
                    smp.send(node, 1)
                } else {
                    let verdict = smp.receive(node, 1);
                    // A node that is no switch passes nothing on.
                    if verdict == Verdict::Handle && !node.is_switch && smp.next() == Next::Forward
                    {
                        // Only what moved into the middle as it came: the first hop back.
                        assert!(smp.is_returning() && count > 1);
                    }
                    verdict
                };
                let far = i16::from(mad[6]) - i16::from(pointer);
                assert!(far.abs() <= 1 || far.abs() == 255);
                if count >= 64 {
                    assert_eq!(verdict, Verdict::Discard);
                    assert_eq!(mad, before);
                }
                let past = u16::from(pointer) > u16::from(count) + 1;
                if past && count < 64 {
                    assert_eq!(verdict, Verdict::Discard);
                }
            }
        }
    }
}

#[test]
fn rules() {
    let request = |class, version, oui, methods| Request {
        class,
        version,
        oui,
        methods,
    };
    let gsi = |r| Rule::new(r, Special::Gsi, false);
    let smi = |r| Rule::new(r, Special::Smi, false);
    let bad = Err(Refused::Invalid);
    assert_eq!(gsi(request(0, 1, [0; 3], 1)), bad);
    assert_eq!(gsi(request(80, 1, [0; 3], 1)), bad);
    assert_eq!(gsi(request(7, 0x83, [0; 3], 1)), bad);
    assert_eq!(gsi(request(0x30, 1, [0; 3], 1)), bad);
    assert_eq!(gsi(request(0x81, 1, [0; 3], 1)), bad);
    assert_eq!(smi(request(7, 1, [0; 3], 1)), bad);
    assert!(smi(request(0x81, 1, [0; 3], 1)).is_ok());
    assert!(Rule::new(request(7, 2, [0; 3], 1), Special::Gsi, true).is_err());
    assert!(Rule::new(request(3, 2, [0; 3], 1), Special::Gsi, true).is_ok());

    // Against the list of all that each takes.
    let mut rng = Rng::new(3);
    for _ in 0..300 {
        let mut joined: Vec<(Rule, Request)> = Vec::new();
        for _ in 0..30 {
            let class = rng.pick(&[4, 7, 0x30, 0x31, 0x4f]);
            let vendor = wire::is_vendor(class);
            let oui = [0, 0, 1 + rng.below(12) as u8];
            let asked = request(class, 1 + rng.below(2) as u8, oui, 1 << rng.below(20));
            let rule = gsi(asked).expect("legal");
            let same = |o: &&(Rule, Request)| o.1.class == class && o.1.version == asked.version;
            let clash = joined
                .iter()
                .filter(same)
                .any(|(_, o)| o.methods & asked.methods != 0 && (!vendor || o.oui == oui));
            let mut vendors: Vec<_> = joined.iter().filter(same).map(|(_, o)| o.oui).collect();
            vendors.sort_unstable();
            vendors.dedup();
            let full = vendor && !vendors.contains(&oui) && vendors.len() >= 8;
            let want = match (clash, full) {
                (true, _) => Err(Refused::Taken),
                (_, true) => Err(Refused::Full),
                _ => Ok(()),
            };
            assert_eq!(rule.join(joined.iter().map(|(rule, _)| rule)), want);
            if want.is_ok() {
                joined.push((rule, asked));
            }
            if rng.one_in(5) {
                let which = rng.below(joined.len().max(1));
                if which < joined.len() {
                    joined.remove(which);
                }
            }
        }
        // Nothing is taken twice.
        for (rule, asked) in &joined {
            let mut mad = [0; 256];
            mad[0] = 1;
            (mad[1], mad[2]) = (asked.class, asked.version);
            mad[3] = asked.methods.trailing_zeros() as u8;
            mad[37..40].copy_from_slice(&asked.oui);
            let header = wire::Header::parse(&mad).expect("long enough");
            assert!(rule.takes(&header, &mad));
            assert_eq!(
                joined
                    .iter()
                    .filter(|(r, _)| r.takes(&header, &mad))
                    .count(),
                1
            );
        }
    }
}

#[test]
fn responses_match_their_request() {
    let path = Path {
        lid: 5,
        path_bits: 2,
        gids: None,
    };
    let sent = Sent {
        tid: 9,
        class: 3,
        is_response: false,
        path: Some(path),
    };
    let came = Arrived {
        tid: 9,
        class: 3,
        is_response: true,
        lid: 77,
        path_bits: 2,
        lmc: Some(2),
        gids: None,
    };
    assert!(came.answers(&sent));
    assert!(!Arrived { tid: 8, ..came }.answers(&sent));
    assert!(!Arrived { class: 4, ..came }.answers(&sent));
    assert!(!Arrived {
        path_bits: 3,
        ..came
    }
    .answers(&sent));
    assert!(Arrived {
        path_bits: 6,
        ..came
    }
    .answers(&sent));
    assert!(!Arrived { lmc: None, ..came }.answers(&sent));
    assert!(Arrived {
        lmc: Some(0),
        path_bits: 9,
        ..came
    }
    .answers(&sent));
    assert!(!came.answers(&Sent { path: None, ..sent }));
    let to_dr = |sent| Sent {
        class: 0x81,
        path: None,
        ..sent
    };
    assert!(Arrived {
        class: 0x81,
        ..came
    }
    .answers(&to_dr(sent)));
    let (a, b) = ([1; 16], [2; 16]);
    let routed = Sent {
        path: Some(Path {
            gids: Some(Ends {
                here: Some(a),
                there: b,
            }),
            ..path
        }),
        ..sent
    };
    assert!(!came.answers(&routed));
    assert!(Arrived {
        gids: Some((b, a)),
        ..came
    }
    .answers(&routed));
    assert!(!Arrived {
        gids: Some((a, b)),
        ..came
    }
    .answers(&routed));
    // An acknowledgement within an answer.
    let answer = Sent {
        is_response: true,
        ..sent
    };
    let ack = Arrived {
        is_response: false,
        lid: 5,
        ..came
    };
    assert!(ack.answers(&answer) && !Arrived { lid: 6, ..ack }.answers(&answer));
    assert!(!came.answers(&answer));
}

#[test]
fn layouts() {
    for rmpp in [false, true] {
        for header in 0..=300 {
            for data in 0..=700 {
                let Some(layout) = Layout::new(256, header, data, rmpp) else {
                    assert!(
                        header > 256
                            || header + data > 256
                            || (rmpp && !(36..256).contains(&header))
                    );
                    continue;
                };
                let room = 256 - header;
                let count = layout.segments.max(1);
                assert_eq!(count * room, layout.data + layout.pad);
                assert_eq!(layout.segments == 0, !rmpp);
                assert!(layout.pad <= room);
            }
        }
    }
}

/// Everything that two ends say to each other, over a wire that loses, doubles and reorders.
#[test]
fn transfers() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let data = 1 + rng.below(60_000);
        let layout = Layout::new(256, 56, data, true).expect("fits");
        let window = 1 + rng.below(80) as u32;
        let loss = 3 + rng.below(20);
        let mut flow = Flow::default();
        let mut send = SendState::new(Sender::new(&layout));
        let order = Order {
            timeout: 0,
            retries: 50,
            counted: false,
        };
        let mut now = u64::MAX - 100;
        let mut receiver: Option<Receiver> = None;
        let mut kept: Vec<u32> = Vec::new();
        let mut last_length = 0;
        let mut wire: Vec<rmpp::Header> = Vec::new();
        let mut acks: Vec<(u32, u32)> = Vec::new();
        let mut posted = None;
        let mut ended = None;
        let mut todo = send.post(order, false, 1, MOST, &mut flow).expect("idle");
        let mut steps = 0;
        while ended.is_none() {
            steps += 1;
            assert!(steps < 200_000, "seed {seed}: it goes on for ever");
            match core::mem::replace(&mut todo, Do::Nothing) {
                Do::PostSegment(segment) => {
                    assert!(posted.is_none(), "two at a time");
                    posted = Some(segment);
                }
                Do::Finish(end) => {
                    ended = Some(end);
                    break;
                }
                Do::Nothing => {}
                Do::Post => panic!("it is a transfer"),
            }
            if let Some(segment) = posted.take() {
                if !rng.one_in(loss) {
                    let header = rmpp::Header {
                        version: 1,
                        kind: 1,
                        flags: segment.flags,
                        status: 0,
                        segment: segment.number,
                        length_or_window: segment.length,
                    };
                    let mut mad = [0; 256];
                    header.write(&mut mad);
                    wire.push(rmpp::Header::parse(&mad).expect("long enough"));
                }
                todo = send.completed(true, now, MOST, &mut flow);
                continue;
            }
            if !wire.is_empty() {
                let which = if rng.one_in(4) {
                    rng.below(wire.len())
                } else {
                    0
                };
                let header = if rng.one_in(loss) {
                    wire[which]
                } else {
                    wire.remove(which)
                };
                let Packet::Data { segment, last } = Packet::judge(&header) else {
                    panic!("a segment is a segment");
                };
                let verdict = match &mut receiver {
                    None if segment == 1 => {
                        receiver = Some(Receiver::new(window, last));
                        kept.push(1);
                        last_length = header.length_or_window;
                        Arrival::Keep { ack: true }
                    }
                    None => Arrival::Drop,
                    Some(receiver) => receiver.arrived(segment, last),
                };
                let ack = match verdict {
                    Arrival::Drop => false,
                    Arrival::Repeat => true,
                    Arrival::Keep { ack } => {
                        if segment != 1 {
                            kept.push(segment);
                        }
                        ack
                    }
                    Arrival::Last(number) => {
                        kept.push(segment);
                        assert_eq!(number as usize, layout.segments);
                        true
                    }
                };
                if last {
                    last_length = header.length_or_window;
                }
                if ack {
                    acks.push(receiver.as_mut().expect("there").acknowledge());
                }
            } else if !acks.is_empty() {
                let (segment, window_end) = acks.remove(0);
                if !rng.one_in(loss) && send.awaits() {
                    match send.acked(segment, window_end, now, MOST, &mut flow) {
                        AckResult::Do(next) => todo = next,
                        AckResult::Nothing | AckResult::Again => {}
                        AckResult::Wrong => panic!("seed {seed}: our own acknowledgement"),
                    }
                }
            } else {
                now = now.wrapping_add(MOST.0 + 1);
                if send.state() == State::Waiting {
                    todo = send.expired(false, MOST, &mut flow);
                }
            }
        }
        kept.sort_unstable();
        let want: Vec<u32> = (1..=layout.segments as u32).collect();
        match ended {
            Some(End::Success | End::AsCompleted) => {
                assert_eq!(kept, want, "seed {seed}");
                let receiver = receiver.expect("there");
                assert_eq!(receiver.phase(), Phase::Complete);
                let length = rmpp::message_len(3, receiver.contiguous(), last_length, 256);
                assert_eq!(length, i32::try_from(56 + data).ok(), "seed {seed}");
            }
            // With half of everything lost, fifty times are not always enough.
            Some(End::TimedOut) => assert!(loss < 5, "seed {seed}"),
            other => panic!("seed {seed}: {other:?}"),
        }
        assert_eq!(send.home(), Home::None);
    }
}

/// Whatever comes, a receiver keeps a segment once, and within its window.
#[test]
fn hostile_segments() {
    for seed in 0..500 {
        let mut rng = Rng::new(seed);
        let window = 1 + rng.below(1500) as u32;
        let mut receiver = Receiver::new(window, false);
        let mut kept = std::collections::BTreeSet::from([1]);
        let mut end = receiver.acknowledge().1;
        for _ in 0..3000 {
            let near = receiver.contiguous().wrapping_add(rng.below(40) as u32);
            let any = rng.any() as u32;
            let segment = rng.pick(&[near, near, near.wrapping_sub(20), any, u32::MAX]);
            match receiver.arrived(segment, rng.one_in(300)) {
                Arrival::Keep { ack } => {
                    assert!(segment <= end, "seed {seed}: beyond the window");
                    assert!(kept.insert(segment), "seed {seed}: twice");
                    if ack {
                        end = receiver.acknowledge().1;
                        assert!(end - receiver.contiguous() <= window.min(rmpp::WINDOW_MAX));
                    }
                }
                Arrival::Last(number) => {
                    kept.insert(segment);
                    assert!((1..=number).all(|n| kept.contains(&n)));
                    break;
                }
                Arrival::Drop | Arrival::Repeat => {}
            }
        }
        assert!((1..=receiver.contiguous()).all(|n| kept.contains(&n)));
    }
}

/// A sender that is told nonsense neither goes beyond its segments nor its window.
#[test]
fn hostile_acknowledgements() {
    let mut rng = Rng::new(9);
    for _ in 0..2000 {
        let layout = Layout::new(256, 56, 200 * (1 + rng.below(50)), true).expect("fits");
        let mut sender = Sender::new(&layout).expect("has segments");
        sender.start(1);
        for _ in 0..200 {
            if sender.is_done() {
                break;
            }
            if sender.may_send() {
                let segment = sender.next_segment().expect("may send");
                assert!(segment.number as usize <= layout.segments);
            }
            let n = layout.segments as u32 + 3;
            let _ = sender.ack(rng.below(n as usize) as u32, rng.any() as u32 % (2 * n));
            if rng.one_in(5) {
                sender.rewind();
            }
        }
    }
    let mut mad = [0; 256];
    for bits in 0..200_000 {
        let mut rng = Rng::new(bits);
        for byte in &mut mad[24..36] {
            *byte = rng.any() as u8;
        }
        mad[24] &= 3;
        mad[25] &= 7;
        let header = rmpp::Header::parse(&mad).expect("long enough");
        let _: Packet = Packet::judge(&header);
    }
}

/// Random histories of many sends of one agent: each that was posted ends once, and not while
/// its answer is being handed over; the count of those that are out is right, and the limit
/// holds. When the agent goes, all end that the queue pair gives back, whatever comes between.
#[test]
fn lives() {
    for seed in 0..1500 {
        let mut rng = Rng::new(seed);
        let limit = rng.below(5) as u32;
        let mut flow = Flow::with_limit(limit);
        let mut sends: Vec<(SendState, bool)> =
            (0..8).map(|_| (SendState::new(None), false)).collect();
        // What the queue pair has, and the backlog in order.
        let mut with_qp: Vec<usize> = Vec::new();
        let mut backlog: Vec<usize> = Vec::new();
        let mut handing: Vec<usize> = Vec::new();
        let mut now = rng.any();
        for step in 0..500 {
            let i = rng.below(sends.len());
            let queued = !backlog.is_empty();
            if step == 400 {
                flow.close();
                // As the agent does: first those with the queue pair, then one at a time.
                for (send, _) in &mut sends {
                    if send.home() == Home::Sent {
                        assert_eq!(send.abandon(&mut flow), Do::Nothing);
                    }
                }
            }
            let (send, is_out) = &mut sends[i];
            let todo = match rng.below(if flow.is_closed() { 10 } else { 9 }) {
                0 | 1 => {
                    let order = Order {
                        timeout: rng.pick(&[0, 5, 50]),
                        retries: rng.below(3) as u32,
                        counted: rng.one_in(2),
                    };
                    match send.post(order, queued, 1, MOST, &mut flow) {
                        Ok(todo) => {
                            assert!(!*is_out);
                            *is_out = true;
                            todo
                        }
                        Err(_) => {
                            assert!(*is_out || flow.is_closed());
                            Do::Nothing
                        }
                    }
                }
                2 | 3 if !with_qp.is_empty() => {
                    let at = rng.below(with_qp.len());
                    let done = with_qp.remove(at);
                    let todo = sends[done]
                        .0
                        .completed(!rng.one_in(4), now, MOST, &mut flow);
                    if let Do::Finish(_) = todo {
                        assert!(!handing.contains(&done), "seed {seed}: told too early");
                    }
                    apply(done, todo, &mut sends, &mut with_qp);
                    Do::Nothing
                }
                4 if send.awaits() && rng.one_in(2) => send.end(End::Success, &mut flow),
                4 if send.awaits() => {
                    send.answered(&mut flow);
                    handing.push(i);
                    Do::Nothing
                }
                5 => {
                    now = now.wrapping_add(rng.below(30) as u64);
                    if send.home() == Home::Waiting && !is_after(send.deadline(), now) {
                        send.expired(queued, MOST, &mut flow)
                    } else {
                        Do::Nothing
                    }
                }
                6 => {
                    let was = send.state();
                    let ok = send.modify(rng.pick(&[0, 7]), now, &mut flow);
                    let too_late = matches!(
                        was,
                        State::Idle | State::Revoked | State::Over(_) | State::Cancelled
                    );
                    assert_eq!(ok, !too_late);
                    Do::Nothing
                }
                7 if rng.one_in(10) => send.abandon(&mut flow),
                8 if !handing.is_empty() => {
                    let done = handing.remove(rng.below(handing.len()));
                    let todo = sends[done].0.handed(&mut flow);
                    assert!(matches!(todo, Do::Nothing | Do::Finish(_)));
                    apply(done, todo, &mut sends, &mut with_qp);
                    Do::Nothing
                }
                9 => send.abandon(&mut flow),
                _ => Do::Nothing,
            };
            if let Do::Finish(_) = todo {
                assert!(!handing.contains(&i), "seed {seed}: told too early");
            }
            apply(i, todo, &mut sends, &mut with_qp);
            backlog.retain(|i| sends[*i].0.home() == Home::Backlog);
            for (i, (send, _)) in sends.iter().enumerate() {
                if send.home() == Home::Backlog && !backlog.contains(&i) {
                    backlog.push(i);
                }
            }
            while let Some(first) = backlog.first().copied().filter(|_| flow.has_room()) {
                let todo = sends[first].0.dequeue(&mut flow);
                if todo == Do::Nothing {
                    break;
                }
                backlog.remove(0);
                apply(first, todo, &mut sends, &mut with_qp);
            }
            let out = sends.iter().filter(|(send, _)| {
                send.is_counted() && matches!(send.state(), State::Sent | State::Waiting)
            });
            assert_eq!(out.count() as u32, flow.out(), "seed {seed}");
            assert!(limit == 0 || flow.out() <= limit, "seed {seed}");
            for (i, (send, is_out)) in sends.iter().enumerate() {
                assert_eq!(
                    send.home() == Home::Sent && !matches!(send.state(), State::Over(_)),
                    with_qp.contains(&i),
                    "seed {seed}"
                );
                assert_eq!(send.state() == State::Idle, !is_out, "seed {seed}");
            }
        }
        for i in 0..sends.len() {
            let todo = sends[i].0.abandon(&mut flow);
            apply(i, todo, &mut sends, &mut with_qp);
        }
        for i in core::mem::take(&mut with_qp) {
            let todo = sends[i].0.completed(true, now, MOST, &mut flow);
            apply(i, todo, &mut sends, &mut with_qp);
        }
        for i in handing {
            let todo = sends[i].0.handed(&mut flow);
            apply(i, todo, &mut sends, &mut with_qp);
        }
        assert!(
            sends.iter().all(|(_, is_out)| !is_out),
            "seed {seed}: never given back"
        );
    }
}

fn is_after(a: u64, b: u64) -> bool {
    rdma_core_engines::proto::mad::send::is_after(a, b)
}

fn apply(i: usize, todo: Do, sends: &mut [(SendState, bool)], with_qp: &mut Vec<usize>) {
    match todo {
        Do::Nothing => {}
        Do::Post => with_qp.push(i),
        Do::PostSegment(_) => panic!("no transfers here"),
        Do::Finish(_) => {
            assert!(sends[i].1, "it ends twice");
            sends[i].1 = false;
        }
    }
}
