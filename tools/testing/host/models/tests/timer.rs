// SPDX-License-Identifier: GPL-2.0

//! Timers (`rust/timer.rs`): armed, expiring and shut down at the same time. Each reference that
//! is taken for a timer is given back once, and after the shutdown no callback runs.

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use rdma_models::closed::{Armed, Closed};

/// C's timer: `mod_timer`, `timer_delete`, `timer_delete_sync` and the softirq.
struct Wheel {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pending: bool,
    running: bool,
}

struct Object {
    closed: Closed,
    wheel: Wheel,
    /// References of the timer.
    held: AtomicUsize,
    /// Whether the shutdown has returned.
    over: AtomicBool,
}

impl Object {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            closed: Closed::new(),
            wheel: Wheel {
                state: Mutex::new(State::default()),
                changed: Condvar::new(),
            },
            held: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        })
    }

    fn release(&self) {
        let before = self.held.fetch_sub(1, Ordering::AcqRel);
        assert_ne!(before, 0, "a reference that nobody had");
    }

    fn arm(&self) -> Armed {
        self.closed.arm(
            || {
                self.held.fetch_add(1, Ordering::AcqRel);
            },
            || core::mem::replace(&mut self.wheel.state.lock().unwrap().pending, true),
            |()| self.release(),
            || self.cancel(),
        )
    }

    fn cancel(&self) {
        let was = core::mem::take(&mut self.wheel.state.lock().unwrap().pending);
        if was {
            self.release();
        }
    }

    fn shut_down(&self) {
        self.closed.shut_down(|| {
            let mut state = self.wheel.state.lock().unwrap();
            let was = core::mem::take(&mut state.pending);
            while state.running {
                state = self.wheel.changed.wait(state).unwrap();
            }
            drop(state);
            if was {
                self.release();
            }
        });
        self.over.store(true, Ordering::SeqCst);
    }

    /// A softirq: the timer expires, if it is pending.
    fn softirq(&self) {
        let mut state = self.wheel.state.lock().unwrap();
        if !core::mem::take(&mut state.pending) {
            return;
        }
        state.running = true;
        drop(state);
        self.closed.expired(|| {
            assert!(
                !self.over.load(Ordering::SeqCst),
                "a callback after the end"
            );
        });
        self.release();
        self.wheel.state.lock().unwrap().running = false;
        self.wheel.changed.notify_all();
    }
}

/// Armed and shut down, and the timer expires meanwhile or not.
#[test]
fn shutdown_is_final() {
    loom::model(|| {
        let object = Object::new();
        let armer = {
            let object = object.clone();
            thread::spawn(move || object.arm())
        };
        let softirq = {
            let object = object.clone();
            thread::spawn(move || object.softirq())
        };
        object.shut_down();
        armer.join().unwrap();
        softirq.join().unwrap();
        // What was left pending would run now.
        assert_eq!(object.arm(), Armed::Refused);
        object.softirq();
        assert!(!object.wheel.state.lock().unwrap().pending);
        assert_eq!(object.held.load(Ordering::SeqCst), 0, "a reference is left");
    });
}

/// Armed twice at the same time, while it expires: one reference for as often as it is pending.
#[test]
fn references_are_of_what_is_pending() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let object = Object::new();
        let others = [0, 1].map(|each| {
            let object = object.clone();
            thread::spawn(move || match each {
                0 => drop(object.arm()),
                _ => object.softirq(),
            })
        });
        object.arm();
        for other in others {
            other.join().unwrap();
        }
        let pending = object.wheel.state.lock().unwrap().pending;
        assert_eq!(object.held.load(Ordering::SeqCst), usize::from(pending));
    });
}
