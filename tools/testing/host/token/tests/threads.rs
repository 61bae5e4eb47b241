// SPDX-License-Identifier: GPL-2.0

//! The run token with real threads: kicks and exclusive use from all sides, and
//! at the end every kick has been counted.

use rdma_token::{Kick, RunToken, Turn};
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
