// SPDX-License-Identifier: GPL-2.0

//! Model tests of the run token: loom runs each closure under every interleaving,
//! and reports two accesses to the value that nothing orders.
//!
//! The value is a log of what was done. Each piece of work is announced in an
//! atomic that stands for the packet list of a driver: it is filled with a relaxed
//! store before the kick, so only the token can make it visible to the runner.

use crate::{Exclusive, Kick, RunToken, Turn};
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;

struct Shared {
    token: RunToken<u32>,
    mailbox: [AtomicU32; 2],
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            token: RunToken::new(0),
            mailbox: [AtomicU32::new(0), AtomicU32::new(0)],
        })
    }

    /// Announces work `1 << bit` and kicks; `budget` turns, then later.
    fn post(&self, bit: usize, budget: u32) -> Kick {
        self.mailbox[bit].store(1, Ordering::Relaxed);
        let mut turns = 0;
        self.token.kick(1 << bit, |done, bits| {
            if turns == budget {
                return Turn::Later(bits);
            }
            turns += 1;
            self.turn(done, bits)
        })
    }

    fn turn(&self, done: &mut u32, bits: u32) -> Turn {
        assert_ne!(bits, 0, "a turn without work");
        for (i, mail) in self.mailbox.iter().enumerate() {
            if bits & 1 << i != 0 {
                assert_eq!(mail.load(Ordering::Relaxed), 1, "bit without its work");
                assert_eq!(*done & 1 << i, 0, "work done twice");
                *done |= 1 << i;
            }
        }
        Turn::Done
    }

    /// Does work 0 itself, and ends the access by `end`, if the token is idle; else posts it.
    fn take_or_post(&self, end: impl FnOnce(Exclusive<'_, u32>) -> Kick) -> Kick {
        match self.token.exclusive_idle() {
            Some(mut access) => {
                assert_eq!(*access & 1, 0, "work done twice");
                *access |= 1;
                end(access)
            }
            None => self.post(0, u32::MAX),
        }
    }
}

/// Two kickers: both pieces of work are done exactly once, one runner at a time,
/// and nothing is left behind whoever ran.
#[test]
fn no_bit_is_lost() {
    loom::model(|| {
        let s = Shared::new();
        let other = {
            let s = s.clone();
            thread::spawn(move || s.post(1, u32::MAX))
        };
        let kicks = [s.post(0, u32::MAX), other.join().unwrap()];
        assert!(kicks.contains(&Kick::Done));
        assert!(!kicks.contains(&Kick::Later));
        assert_eq!(*s.token.exclusive(thread::yield_now), 0b11);
    });
}

/// Work that goes straight to an idle token is done once, beside a kick: directly, or,
/// when the token is taken, by way of the mailbox.
#[test]
fn idle_token_takes_work_directly() {
    loom::model(|| {
        let s = Shared::new();
        let other = {
            let s = s.clone();
            thread::spawn(move || s.post(1, u32::MAX))
        };
        let mut direct = true;
        let kick = s.token.kick_idle(0, |done, bits| {
            if core::mem::take(&mut direct) {
                assert_eq!(*done & 1, 0, "work done twice");
                *done |= 1;
            }
            if bits == 0 {
                Turn::Done
            } else {
                s.turn(done, bits)
            }
        });
        let kick = kick.unwrap_or_else(|| s.post(0, u32::MAX));
        let kicks = [kick, other.join().unwrap()];
        assert!(kicks.contains(&Kick::Done));
        assert!(!kicks.contains(&Kick::Later));
        assert_eq!(*s.token.exclusive(thread::yield_now), 0b11);
    });
}

/// An idle token that is taken for several steps: what a kick brings meanwhile is done when the
/// access ends, by one of the two.
#[test]
fn idle_token_is_taken_for_a_while() {
    loom::model(|| {
        let s = Shared::new();
        let other = {
            let s = s.clone();
            thread::spawn(move || s.post(1, u32::MAX))
        };
        let kick = s.take_or_post(|access| access.finish(|done, bits| s.turn(done, bits)));
        let kicks = [kick, other.join().unwrap()];
        assert!(kicks.contains(&Kick::Done));
        assert!(!kicks.contains(&Kick::Later));
        assert_eq!(*s.token.exclusive(thread::yield_now), 0b11);
    });
}

/// An access that is only dropped frees the value, and what a kick brought meanwhile stays for the
/// next kick.
#[test]
fn dropped_access_leaves_bits() {
    loom::model(|| {
        let s = Shared::new();
        let other = {
            let s = s.clone();
            thread::spawn(move || s.post(1, u32::MAX))
        };
        let kick = s.take_or_post(|access| {
            drop(access);
            Kick::Done
        });
        assert_ne!(kick, Kick::Later);
        assert_ne!(other.join().unwrap(), Kick::Later);
        let rest = s.token.kick(0, |done, bits| s.turn(done, bits));
        assert_eq!(rest, Kick::Done);
        let free = s.token.exclusive_idle().expect("nobody has the value");
        assert_eq!(*free, 0b11);
    });
}

/// A runner whose budget is used up leaves its bits, and the next kick, even one
/// without bits, takes them up.
#[test]
fn budget_leaves_bits() {
    loom::model(|| {
        let s = Shared::new();
        let other = {
            let s = s.clone();
            thread::spawn(move || s.post(1, 0))
        };
        let first = s.post(0, 0);
        let second = other.join().unwrap();
        assert!(first == Kick::Later || second == Kick::Later);
        let rest = s.token.kick(0, |done, bits| {
            assert_eq!(bits, 0b11);
            s.turn(done, bits)
        });
        assert_eq!(rest, Kick::Done);
        let rest = s.token.kick(0, |_, _| panic!("nothing is left"));
        assert_eq!(rest, Kick::Done);
        assert_eq!(*s.token.exclusive(thread::yield_now), 0b11);
    });
}

/// Whoever is told `Later` kicks again: then everything is done, with an exclusive
/// user in between that runs what was noted during its time.
#[test]
fn exclusive_excludes_and_hands_over() {
    loom::model(|| {
        let s = Shared::new();
        let other = {
            let s = s.clone();
            thread::spawn(move || {
                let mut kick = s.post(1, u32::MAX);
                while kick == Kick::Later {
                    kick = s.token.kick(0, |done, bits| s.turn(done, bits));
                }
            })
        };
        let mut exclusive = s.token.exclusive(thread::yield_now);
        let before = *exclusive;
        *exclusive |= 0b1000;
        assert_eq!(*exclusive, before | 0b1000);
        let mut kick = exclusive.finish(|done, bits| s.turn(done, bits));
        while kick == Kick::Later {
            kick = s.token.kick(0, |done, bits| s.turn(done, bits));
        }
        other.join().unwrap();
        assert_eq!(*s.token.exclusive(thread::yield_now), 0b1010);
    });
}

/// Three parties: while one has the value exclusively, both kickers leave notes,
/// and between them all notes are acted upon.
#[test]
fn two_kickers_and_an_exclusive_user() {
    let mut model = loom::model::Builder::new();
    // Every interleaving with up to three preemptions; all of them are too many.
    model.preemption_bound = Some(3);
    model.check(|| {
        let s = Shared::new();
        let kickers = [0, 1].map(|bit| {
            let s = s.clone();
            thread::spawn(move || {
                let mut kick = s.post(bit, u32::MAX);
                while kick == Kick::Later {
                    kick = s.token.kick(0, |done, bits| s.turn(done, bits));
                }
            })
        });
        let mut kick = s
            .token
            .exclusive(thread::yield_now)
            .finish(|done, bits| s.turn(done, bits));
        while kick == Kick::Later {
            kick = s.token.kick(0, |done, bits| s.turn(done, bits));
        }
        for kicker in kickers {
            kicker.join().unwrap();
        }
        assert_eq!(*s.token.exclusive(thread::yield_now), 0b11);
    });
}

/// The same, where the exclusive user leaves and kicks only if it is told to.
#[test]
fn exclusive_leaves() {
    loom::model(|| {
        let s = Shared::new();
        let other = {
            let s = s.clone();
            thread::spawn(move || {
                let mut kick = s.post(1, u32::MAX);
                while kick == Kick::Later {
                    kick = s.token.kick(0, |done, bits| s.turn(done, bits));
                }
            })
        };
        let mut exclusive = s.token.exclusive(thread::yield_now);
        *exclusive |= 0b1000;
        let mut again = exclusive.leave();
        while again {
            again = s.token.kick(0, |done, bits| s.turn(done, bits)) == Kick::Later;
        }
        other.join().unwrap();
        assert_eq!(*s.token.exclusive(thread::yield_now), 0b1010);
    });
}

/// Two exclusive users, of whom one merely drops the value and then kicks, and a
/// note left before: nobody waits for ever, nothing overlaps, and the note is
/// acted upon once.
#[test]
fn two_exclusive_users() {
    fn exclusive(s: &Shared, bit: u32) -> Kick {
        let mut value = s.token.exclusive(thread::yield_now);
        *value |= bit;
        if bit == 0b0100 {
            drop(value);
            return s.token.kick(0, |done, bits| s.turn(done, bits));
        }
        value.finish(|done, bits| s.turn(done, bits))
    }

    loom::model(|| {
        let s = Shared::new();
        assert_eq!(s.post(0, 0), Kick::Later);
        let other = {
            let s = s.clone();
            thread::spawn(move || exclusive(&s, 0b0100))
        };
        let kicks = [exclusive(&s, 0b1000), other.join().unwrap()];
        for kick in kicks {
            assert_ne!(kick, Kick::Closed);
        }
        // Who was told `Later` kicks again. There need be nothing left by then.
        let kick = s.token.kick(0, |done, bits| s.turn(done, bits));
        assert_eq!(kick, Kick::Done);
        assert_eq!(*s.token.exclusive(thread::yield_now), 0b1101);
    });
}

/// After `close` no work is done, and what was done before is visible.
#[test]
fn close_is_final() {
    loom::model(|| {
        let s = Shared::new();
        let other = {
            let s = s.clone();
            thread::spawn(move || s.post(1, u32::MAX))
        };
        let seen = *s.token.close(thread::yield_now);
        let again = s
            .token
            .kick(1, |_, _| panic!("a runner after the token was closed"));
        assert_eq!(again, Kick::Closed);
        let kick = other.join().unwrap();
        match kick {
            // It ran to the end and left before we got in, or saw us coming.
            Kick::Done => assert_eq!(seen, 0b10),
            Kick::Closed => assert!(seen == 0 || seen == 0b10),
            Kick::Busy | Kick::Later => panic!("{kick:?} on a closed token"),
        }
        assert_eq!(*s.token.exclusive(thread::yield_now), seen);
    });
}
