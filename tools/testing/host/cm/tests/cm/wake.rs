// SPDX-License-Identifier: GPL-2.0

//! The work item of an identifier against a model of a work item with a timer: an event is not held up,
//! and nothing is pending when the identifier is gone.

use rdma_cm_engine::proto::ids::Instant;
use rdma_cm_engine::proto::wake::Item;
use rdma_cm_engine::proto::wake::Wake;
use rdma_cm_engine::rng::Rng;

/// An identifier, as far as its work item is concerned.
#[derive(Default)]
struct Id {
    item: Item,
    events: u32,
    deadline: Option<u64>,
    /// The item calls a handler.
    running: bool,
    /// The item is queued.
    queued: bool,
    /// The time of its timer.
    timer: Option<u64>,
    /// The time of the oldest event that was not seen yet.
    since: Option<u64>,
}

impl Id {
    /// The end of a step.
    fn leave(&mut self) {
        let deadline = self.deadline.map(Instant);
        match self.item.wake(self.events > 0, self.running, deadline) {
            Wake::No => {}
            // A work item that waits for its timer is not queued once more.
            Wake::Queue if self.timer.is_some() => {}
            Wake::Queue => self.queued = true,
            Wake::Now => (self.timer, self.queued) = (None, true),
            Wake::At(Instant(at)) => (self.timer, self.queued) = (Some(at), false),
        }
    }

    /// The item runs, or its handler has returned: the next event, or the end.
    fn next(&mut self, now: u64) {
        self.running = false;
        if self.deadline.is_some_and(|at| at <= now) {
            self.deadline = None;
            self.events += 1;
        }
        self.item.looked();
        if self.events == 0 {
            return self.leave();
        }
        self.events -= 1;
        if self.events == 0 {
            self.since = None;
        }
        self.running = true;
    }

    /// Time goes on: what is queued runs at once.
    fn tick(&mut self, now: u64) {
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = None;
            self.queued = true;
        }
        if self.queued && !self.running {
            self.queued = false;
            self.next(now);
        }
    }
}

#[test]
fn no_event_waits_for_the_timer() {
    let mut late = 0;
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let mut id = Id::default();
        for now in 0..200 {
            match rng.below(8) {
                0 => {
                    id.events += 1;
                    id.since.get_or_insert(now);
                    id.leave();
                }
                1 => {
                    // A message is sent, by the handler or not.
                    id.deadline = Some(now + 50);
                    id.leave();
                }
                2 => {
                    // It is answered.
                    id.deadline = None;
                    id.events += 1;
                    id.since.get_or_insert(now);
                    id.leave();
                }
                3 if id.running => id.next(now),
                // A message that is answered without an event.
                4 => id.leave(),
                _ => {}
            }
            id.tick(now);
            // Whatever happened: if there is an event, its handler runs.
            assert!(id.events == 0 || id.running, "seed {seed}, {now}");
            // If there is a deadline, there is something that will look at it.
            let looked_at = id.running || id.queued || id.timer.is_some_and(|at| at <= now + 50);
            assert!(id.deadline.is_none() || looked_at, "seed {seed}, {now}");
            late = late.max(id.since.map_or(0, |since| now - since));
        }
    }
    // Handlers take their time, so that events wait for them.
    assert!(late > 10);
}

#[test]
fn messages_without_end_do_not_move_the_item() {
    let mut item = Item::default();
    let at = Instant(50);
    assert_eq!(item.wake(false, false, Some(at)), Wake::At(at));
    for _ in 0..3 {
        assert_eq!(item.wake(false, false, Some(at)), Wake::No);
    }
    // Another time is set, and so is the same one when the item has run too early.
    assert_eq!(
        item.wake(false, false, Some(Instant(60))),
        Wake::At(Instant(60))
    );
    item.looked();
    assert_eq!(
        item.wake(false, false, Some(Instant(60))),
        Wake::At(Instant(60))
    );
    // Once it was taken off its timer, it is set again.
    assert_eq!(item.wake(true, false, Some(Instant(60))), Wake::Now);
    assert_eq!(
        item.wake(false, false, Some(Instant(60))),
        Wake::At(Instant(60))
    );
}
