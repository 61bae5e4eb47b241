// SPDX-License-Identifier: GPL-2.0

//! The run token with real threads: kicks and exclusive use from all sides, and
//! at the end every kick has been counted.

use rdma_token::{Exclusive, Kick, RunToken, Turn};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

const ROUNDS: u32 = 20_000;

struct State {
    worked: u32,
    exclusive: u32,
}

#[test]
fn every_piece_of_work_is_done() {
    let token = RunToken::new(State {
        worked: 0,
        exclusive: 0,
    });
    let queued = AtomicU32::new(0);
    let work = |state: &mut State, bits: u32| {
        assert_eq!(bits, 1);
        state.worked += queued.swap(0, Ordering::Relaxed);
        Turn::Done
    };

    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    queued.fetch_add(1, Ordering::Relaxed);
                    let mut kick = token.kick(1, work);
                    while kick == Kick::Later {
                        kick = token.kick(0, work);
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..ROUNDS / 10 {
                let mut state = token.exclusive(thread::yield_now);
                state.exclusive += 1;
                let mut kick = state.finish(work);
                while kick == Kick::Later {
                    kick = token.kick(0, work);
                }
            }
        });
    });

    let state = token.close(thread::yield_now);
    assert_eq!(state.worked, 2 * ROUNDS);
    assert_eq!(state.exclusive, ROUNDS / 10);
    assert_eq!(queued.load(Ordering::Relaxed), 0);
}

/// Takes the value, which is free: waiting for it fails the test.
fn take(token: &RunToken<u32>) -> Exclusive<'_, u32> {
    token.exclusive(|| panic!("nobody has the value"))
}

/// Takes the value, which is idle. The exchange may fail for no reason on some machines.
fn take_idle(token: &RunToken<u32>) -> Exclusive<'_, u32> {
    let mut tries = (0..100).map(|_| token.exclusive_idle());
    tries.find_map(|access| access).expect("it is idle")
}

type Access = fn(&RunToken<u32>) -> Exclusive<'_, u32>;

#[test]
fn a_dropped_access_frees_the_value() {
    let token = RunToken::new(0);
    for access in [take as Access, take_idle] {
        let mut value = access(&token);
        *value += 1;
        let kick = token.kick(0b100, |_, _| panic!("two contexts have the value"));
        assert_eq!(kick, Kick::Busy);
        drop(value);
        // The bit is for a kick, not for those that take a value without work.
        assert!(token.exclusive_idle().is_none());
        drop(take(&token));
        let mut seen = 0;
        let kick = token.kick(0, |_, bits| {
            seen |= bits;
            Turn::Done
        });
        assert_eq!((kick, seen), (Kick::Done, 0b100));
    }
    assert_eq!(*token.close(|| panic!("nobody has the value")), 2);
    assert_eq!(*take(&token), 2, "a closed token is freed as well");
}

/// The end of an access by `finish` or `leave` is no second release: the next owner keeps the value.
#[test]
fn an_access_ends_once() {
    let token = RunToken::new(0);
    let value = take(&token);
    let kick = token.kick(0b10, |_, _| panic!("two contexts have the value"));
    assert_eq!(kick, Kick::Busy);
    let mut turns = 0;
    let kick = value.finish(|_, bits| {
        turns += 1;
        assert_eq!(bits, 0b10);
        assert!(token.exclusive_idle().is_none(), "freed during the turn");
        Turn::Done
    });
    assert_eq!((kick, turns), (Kick::Done, 1));

    let value = take(&token);
    let kick = token.kick(0b10, |_, _| panic!("two contexts have the value"));
    assert_eq!(kick, Kick::Busy);
    assert!(value.leave());
    let kick = token.kick(0, |_, _| Turn::Done);
    assert_eq!(kick, Kick::Done);
    assert!(!take(&token).leave());
    drop(take(&token));
}
