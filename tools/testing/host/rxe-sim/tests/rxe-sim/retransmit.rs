// SPDX-License-Identifier: GPL-2.0

//! What a bad wire costs: how long a stream takes, and how many packets.
//!
//! The bounds are those of what is built here, with room: sending all again after each loss,
//! or waiting for the timeout, exceeds them by far.

use rxe_sim::host::PostedRecv;
use rxe_sim::host::PostedSend;
use rxe_sim::host::Region;
use rxe_sim::node::Node;
use rxe_sim::proto::*;
use rxe_sim::rng::Rng;
use rxe_sim::world::Bottleneck;
use rxe_sim::world::Weather;
use rxe_sim::world::World;

const MTU: u32 = 64;
const PACKETS: u32 = 64;
const KEY: Key = Key(0x100);
const BASE: u64 = 0x1000;
/// One way.
const DELAY: u64 = 50_000;
const TIMEOUT: u64 = 67_000_000;

/// What node 0 posts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Send,
    Read,
}

/// What a stream took.
#[derive(Debug)]
struct Cost {
    /// Nanoseconds.
    time: u64,
    /// Packets, both ways.
    packets: u64,
    retries: usize,
}

/// A stream of messages from node 0 to node 1 (or back, by reads), all posted at once.
fn stream(kind: Kind, messages: u32, weather: Weather, early: usize, seed: u64) -> Cost {
    flow(kind, messages, weather, early, seed, None).0
}

/// The same, by way of a switch with a slow line.
fn flow(
    kind: Kind,
    messages: u32,
    weather: Weather,
    early: usize,
    seed: u64,
    way: Option<Bottleneck>,
) -> (Cost, World) {
    let nodes = [0, 1].map(|_| {
        let mut send = SendAttr::new(QpType::Rc, Qpn(7));
        send.dest = Qpn(7);
        send.mtu = MTU;
        send.timeout = Some(Nanos(TIMEOUT));
        send.retry = RetryLimit::from_retry_cnt(7);
        send.rnr_retry = RetryLimit::from_rnr_retry(7);
        send.max_rd_atomic = 16;
        let mut recv = RecvAttr::new(QpType::Rc);
        recv.dest = Qpn(7);
        recv.mtu = MTU;
        recv.access = AccessFlags(!0);
        let mut node = Node::new(send, recv, 256, 16);
        node.host.early = [early; 2].map(rxe_sim::host::Host::room_for);
        node.host.regions.push(Region {
            key: KEY,
            base: BASE,
            bytes: (0..MTU * PACKETS).map(|i| (i / 7) as u8).collect(),
            access: AccessFlags(!0),
            valid: true,
        });
        node.ready(0x00ff_fff0, 0x00ff_fff0);
        node
    });
    let mut world = World::new(nodes, weather, Rng::new(seed));
    world.bottleneck = way;
    let length = MTU * PACKETS;
    let body: Vec<u8> = (0..length).map(|i| (i / 5) as u8).collect();
    for k in 0..messages {
        let op = match kind {
            Kind::Send => SendOp::Send { imm: None },
            Kind::Read => SendOp::Read { va: BASE, key: KEY },
        };
        let wqe = SendWqe {
            wr_id: k.into(),
            op,
            flags: SendFlags::default(),
            length,
            ud: None,
        };
        let buf = if kind == Kind::Send {
            body.clone()
        } else {
            vec![0; length as usize]
        };
        world.nodes[0]
            .host
            .sq
            .push_back(PostedSend { wqe: Ok(wqe), buf });
        world.nodes[1].host.rq.push_back(PostedRecv {
            wr_id: k.into(),
            good: true,
            buf: vec![0; length as usize],
        });
    }
    world.poll(0);
    let mut time = 0;
    while world.nodes[0].host.in_queue() != 0 {
        assert!(world.step(&mut |_, _| {}), "it stopped");
        time = world.now.0;
    }
    let [from, to] = &world.nodes;
    assert_eq!(
        from.state,
        QpState::Rts,
        "it failed: {:?}",
        from.host.send_cq
    );
    match kind {
        Kind::Send => {
            assert_eq!(to.host.recv_cq.len(), messages as usize);
            assert!(to.host.recv_cq.iter().all(|(_, buf)| *buf == body));
        }
        Kind::Read => {
            let want = &to.host.regions[0].bytes;
            assert!(from.host.sent.iter().all(|p| p.buf == *want));
        }
    }
    let retries = from
        .host
        .counts
        .iter()
        .filter(|c| **c == Counter::Retry)
        .count();
    let cost = Cost {
        time,
        packets: world.carried,
        retries,
    };
    (cost, world)
}

fn lossy(permille: u32) -> Weather {
    Weather {
        loss: permille,
        delay: DELAY,
        ..Weather::FINE
    }
}

/// The means of ten streams.
fn mean(kind: Kind, weather: Weather, early: usize) -> Cost {
    let mut sum = Cost {
        time: 0,
        packets: 0,
        retries: 0,
    };
    for seed in 0..10 {
        let cost = stream(kind, 40, weather, early, seed);
        sum.time += cost.time / 10;
        sum.packets += cost.packets / 10;
        sum.retries += cost.retries;
    }
    println!("{weather:?} {early}: {sum:?}");
    sum
}

/// The packets of the stream itself.
const LEAST: u64 = 40 * PACKETS as u64;

#[test]
fn nothing_is_sent_again_on_a_good_wire() {
    for kind in [Kind::Send, Kind::Read] {
        let cost = mean(kind, lossy(0), 256);
        assert!(cost.packets <= LEAST + 50);
        assert_eq!(cost.retries, 0);
    }
}

#[test]
fn a_loss_costs_little_more_than_a_packet() {
    for (loss, packets, time) in [
        (10, LEAST * 11 / 10, 12_000_000),
        (20, LEAST * 12 / 10, 20_000_000),
        (50, LEAST * 14 / 10, 80_000_000),
        (100, LEAST * 2, 300_000_000),
        (200, LEAST * 4, 1_500_000_000),
    ] {
        for kind in [Kind::Send, Kind::Read] {
            let cost = mean(kind, lossy(loss), 256);
            assert!(cost.packets <= packets, "{loss}: {cost:?}");
            assert!(cost.time <= time, "{loss}: {cost:?}");
        }
    }
}

/// So is the C driver.
#[test]
fn a_peer_that_keeps_nothing_is_found_out() {
    for kind in [Kind::Send, Kind::Read] {
        let cost = mean(kind, lossy(10), 0);
        assert!(cost.packets <= LEAST * 3, "{cost:?}");
        assert!(cost.time <= 20_000_000, "{cost:?}");
    }
}

/// Each packet may be later than the next dozens.
#[test]
fn swapped_packets_are_not_sent_again() {
    let weather = Weather {
        delay: 10_000,
        late: 950,
        lateness: 1_000_000,
        ..Weather::FINE
    };
    let cost = mean(Kind::Send, weather, 256);
    assert!(cost.packets <= LEAST * 12 / 10, "{cost:?}");
    assert!(cost.time <= 60_000_000, "{cost:?}");
}

/// With the window that it begins with, it would take twenty round trips.
#[test]
fn the_window_grows_on_a_long_path() {
    let weather = Weather {
        delay: 70_000_000,
        ..Weather::FINE
    };
    let cost = mean(Kind::Send, weather, 256);
    assert!(cost.time <= 7 * 140_000_000, "{cost:?}");
    assert!(cost.packets <= LEAST * 11 / 10, "{cost:?}");
}

#[test]
fn a_long_path_may_swap_everything() {
    let weather = Weather {
        delay: 70_000_000,
        late: 1000,
        lateness: 60_000_000,
        ..Weather::FINE
    };
    let cost = mean(Kind::Send, weather, 256);
    assert!(cost.time <= 8_000_000_000, "{cost:?}");
    assert!(cost.packets <= LEAST * 3, "{cost:?}");
}

fn count(world: &World, who: usize, what: Counter) -> usize {
    let counts = &world.nodes[who].host.counts;
    counts.iter().filter(|c| **c == what).count()
}

/// A line that takes a packet each 10 us, at the end of a path of 20 round trips' worth.
fn slow_line(mark: u64, limit: u64) -> (Cost, World) {
    let way = Bottleneck {
        each: 10_000,
        mark,
        limit,
        free: 0,
        longest: 0,
        dropped: 0,
    };
    flow(Kind::Send, 200, lossy(0), 256, 1, Some(way))
}

#[test]
fn marks_keep_a_queue_short_and_the_line_busy() {
    let packets = 200 * u64::from(PACKETS);
    let (free, world) = slow_line(u64::MAX, u64::MAX);
    let unmarked = world.bottleneck.expect("a bottleneck").longest;
    assert!(unmarked >= 100, "{unmarked}");
    let (cost, world) = slow_line(20, u64::MAX);
    let way = world.bottleneck.expect("a bottleneck");
    let (marked, sent, heard) = (
        count(&world, 1, Counter::Marked),
        count(&world, 1, Counter::NoticeSent),
        count(&world, 0, Counter::NoticeReceived),
    );
    println!("{free:?} {cost:?} {way:?} {marked} {sent} {heard}");
    assert!(marked >= sent && sent == heard && heard > 10);
    assert_eq!((cost.retries, way.dropped), (0, 0));
    // The line is busy nearly all the time.
    assert!(cost.time <= packets * 10_000 * 11 / 10, "{cost:?}");
    // At first nobody knows; then the queue stays about where it is marked.
    assert!(way.longest <= unmarked, "{way:?}");
    assert!((marked as u64) < packets / 4, "{marked}");
    assert!(world.nodes[0].send.window() < 64);
}

#[test]
fn a_queue_that_overflows_slows_the_sender() {
    let (cost, world) = slow_line(u64::MAX, 100);
    let way = world.bottleneck.expect("a bottleneck");
    println!("{cost:?} {way:?}");
    let packets = 200 * u64::from(PACKETS);
    assert!(way.dropped * 10 < packets, "{way:?}");
    assert!(cost.time <= packets * 10_000 * 12 / 10, "{cost:?}");
}

#[test]
fn forged_notices_only_slow() {
    // One in each round trip, for ever.
    let weather = lossy(0);
    let (_, mut world) = flow(Kind::Send, 1, weather, 0, 1, None);
    let mut least = u32::MAX;
    for k in 0..10_000 {
        world.nodes[0]
            .send
            .on_congestion(Nanos(1_000_000_000 + k * 50_000));
        least = least.min(world.nodes[0].send.window());
    }
    assert_eq!(least, 2);
}
