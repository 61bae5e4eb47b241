// SPDX-License-Identifier: GPL-2.0

//! How many packets wait for an interface: few for a slow one, enough for a fast one.

use rxe_sim::proto::pace::{Full, Pace};

/// An interface with a queue, and a sender that always has more to send.
struct Link {
    pace: Pace,
    queue: u32,
    longest: u32,
    dropped: u32,
    /// How many packets the queue holds.
    limit: u32,
    mark: Option<u32>,
}

impl Link {
    fn new(limit: u32) -> Self {
        Self {
            pace: Pace::new(),
            queue: 0,
            longest: 0,
            dropped: 0,
            limit,
            mark: None,
        }
    }

    /// A turn of the sender; returns how many packets it sent.
    fn turn(&mut self) -> u32 {
        if self.mark.is_some_and(|mark| self.queue > mark) {
            return 0;
        }
        self.mark = None;
        let room = self.pace.begin(self.queue).min(62);
        let fits = room.min(self.limit - self.queue);
        self.queue += fits;
        self.dropped += room - fits;
        self.longest = self.longest.max(self.queue);
        if room > fits {
            self.pace.dropped(self.queue);
        }
        // A turn of 62 packets ends by its budget.
        if room < 62 {
            match self.pace.used_up(self.queue) {
                Full::GoOn => {}
                Full::Wait(mark) => self.mark = Some(mark),
            }
        }
        room
    }

    fn leave(&mut self, packets: u32) {
        self.queue -= packets.min(self.queue);
    }
}

#[test]
fn a_veth_limits_nothing() {
    let mut link = Link::new(u32::MAX);
    let mut sent = Vec::new();
    for _ in 0..4 {
        sent.push(link.turn());
        link.leave(u32::MAX);
    }
    assert_eq!(sent, [16, 32, 62, 62]);
}

#[test]
fn a_slow_interface_queues_the_least() {
    let mut link = Link::new(u32::MAX);
    for _ in 0..10_000 {
        let _: u32 = link.turn();
        link.leave(1);
    }
    assert!(link.longest <= Pace::LEAST, "{}", link.longest);
    // It is never idle: the sender comes back in time.
    assert!(link.queue >= Pace::LEAST / 2 - 1);
}

#[test]
fn completions_in_bursts_widen_the_window() {
    let mut link = Link::new(u32::MAX);
    let mut sent = 0;
    // A card that reports all packets sent every fifth turn.
    for turn in 0..100 {
        sent += link.turn();
        if turn % 5 == 4 {
            link.leave(u32::MAX);
        }
    }
    assert_eq!(link.longest, Pace::MOST);
    assert!(sent > 100 / 5 * 200, "{sent}");
}

#[test]
fn an_interface_that_becomes_slow_narrows_it_again() {
    let mut link = Link::new(u32::MAX);
    for _ in 0..10 {
        let _: u32 = link.turn();
        link.leave(u32::MAX);
    }
    for _ in 0..1_000 {
        let _: u32 = link.turn();
        link.leave(1);
    }
    assert!(link.longest <= Pace::MOST);
    link.longest = 0;
    for _ in 0..1_000 {
        let _: u32 = link.turn();
        link.leave(1);
    }
    assert!(link.longest <= Pace::LEAST, "{}", link.longest);
}

#[test]
fn a_short_queue_overflows_once() {
    for limit in [8, 10, 30, 47] {
        let mut link = Link::new(limit);
        for _ in 0..10_000 {
            let _: u32 = link.turn();
            link.leave(1);
        }
        assert!(link.dropped <= 16, "{limit}: {}", link.dropped);
        assert!(link.queue > 0, "{limit}: idle");
    }
}
