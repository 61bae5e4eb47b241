// SPDX-License-Identifier: GPL-2.0

//! Gates (`rust/gate.rs`): after closing and waiting there are no users, and all their writes are
//! visible.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use rdma_models::word::{Empty, Word};

/// The kernel's completion, with `complete_all` and `wait_for_completion`.
struct Completion {
    done: Mutex<u32>,
    changed: Condvar,
}

impl Empty for Completion {
    fn complete(&self) {
        *self.done.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut done = self.done.lock().unwrap();
        while *done == 0 {
            done = self.changed.wait(done).unwrap();
        }
    }
}

struct Guarded {
    word: Word,
    empty: Completion,
    /// Data that users of the gate access, and that the closer takes away.
    inside: UnsafeCell<u32>,
}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            word: Word::new(),
            empty: Completion {
                done: Mutex::new(0),
                changed: Condvar::new(),
            },
            inside: UnsafeCell::new(1),
        })
    }

    /// Reads the data, if the gate is open. Only reads, because there may be other users.
    fn look(&self) -> bool {
        if !self.word.enter() {
            return false;
        }
        // SAFETY: Loom checks that there are no concurrent writers, which is what is tested.
        let seen = self.inside.with(|inside| unsafe { *inside });
        assert_eq!(seen, 1, "a user inside of a closed gate");
        self.word.leave(&self.empty);
        true
    }

    /// Closes the gate and takes the data away.
    fn end(&self) {
        self.word.close_and_wait(&self.empty);
        // SAFETY: As in `look`: loom checks that there are no concurrent accesses.
        self.inside.with_mut(|inside| unsafe { *inside = 0 });
    }
}

/// Two users and a closer.
#[test]
fn after_closing_there_are_no_users() {
    loom::model(|| {
        let gate = Guarded::new();
        let users = [0, 1].map(|_| {
            let gate = gate.clone();
            thread::spawn(move || gate.look())
        });
        gate.end();
        for user in users {
            user.join().unwrap();
        }
        assert!(!gate.look());
        assert!(gate.word.is_closed());
        assert_eq!(*gate.empty.done.lock().unwrap(), 1, "completed once");
    });
}

/// A user and two closers: both wait for the user, and neither waits for ever.
#[test]
fn two_close_it() {
    loom::model(|| {
        let gate = Guarded::new();
        let user = {
            let gate = gate.clone();
            thread::spawn(move || gate.look())
        };
        let other = {
            let gate = gate.clone();
            thread::spawn(move || gate.word.close_and_wait(&gate.empty))
        };
        gate.word.close_and_wait(&gate.empty);
        user.join().unwrap();
        other.join().unwrap();
        assert_eq!(*gate.empty.done.lock().unwrap(), 1, "completed once");
    });
}

/// A user closes the gate without waiting: the last user to leave completes it.
#[test]
fn closed_from_inside() {
    loom::model(|| {
        let gate = Guarded::new();
        let other = {
            let gate = gate.clone();
            thread::spawn(move || gate.end())
        };
        if gate.word.enter() {
            gate.word.close(&gate.empty);
            gate.word.leave(&gate.empty);
        }
        other.join().unwrap();
        assert_eq!(*gate.empty.done.lock().unwrap(), 1, "completed once");
    });
}
