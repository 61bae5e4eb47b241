// SPDX-License-Identifier: GPL-2.0

//! The data path of a completion queue.
//!
//! A user's queue lives in shared memory and is polled without a system call; a
//! kernel user's is private and polled through [`Cq::poll`]. Both decide here, under
//! the owner's lock, whether somebody is to be woken; the owner calls the handler
//! after it has unlocked. Nothing here sleeps or allocates.
//!
//! A completion that finds no room is lost whatever we do, so the queue goes into
//! its error state for good (IBTA C11-15 leaves it unusable): the owner hears of it
//! once, raises `IB_EVENT_CQ_ERR` and moves the queue pairs to error.
//!
//! Pure: no kernel imports; tested on the host.

use super::cqe::Cqe;
use super::layout::Layout;
use super::ring::{Producer, RingMem};
use core::ops::DerefMut;

/// What has to be done after a completion was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "somebody may wait for this completion"]
pub enum Posted {
    /// Nothing.
    Quiet,
    /// Call the completion handler once.
    Notify,
    /// The queue just overflowed: raise the event, fail the queue pairs.
    Overflow,
    /// The queue had overflowed before. The completion is dropped.
    Dead,
}

/// Which completion shall wake the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arm {
    /// The next solicited or failed one (`IB_CQ_SOLICITED`).
    Solicited,
    /// The next one (`IB_CQ_NEXT_COMP`).
    Next,
}

/// A completion queue. `M` is shared memory, `S` private storage for kernel users.
pub struct Cq<M, S> {
    ring: Ring<M, S>,
    armed: Option<Arm>,
    dead: bool,
}

enum Ring<M, S> {
    User(Producer<M>),
    Kernel(PrivateRing<S>),
}

impl<M: RingMem, Q: Copy, S: DerefMut<Target = [Option<Cqe<Q>>]>> Cq<M, S> {
    /// A queue in shared memory.
    pub fn user(ring: Producer<M>) -> Self {
        Self::new(Ring::User(ring))
    }

    /// A queue in private memory; `storage` has as many places as the queue holds.
    pub fn kernel(storage: S) -> Self {
        Self::new(Ring::Kernel(PrivateRing {
            storage,
            first: 0,
            used: 0,
        }))
    }

    fn new(ring: Ring<M, S>) -> Self {
        Self {
            ring,
            armed: None,
            dead: false,
        }
    }

    /// How many completions it holds when full.
    pub fn capacity(&self) -> u32 {
        match &self.ring {
            Ring::User(ring) => ring.layout().capacity(),
            Ring::Kernel(ring) => u32::try_from(ring.storage.len()).unwrap_or(u32::MAX),
        }
    }

    /// How many completions wait to be polled.
    pub fn used(&self) -> u32 {
        match &self.ring {
            Ring::User(ring) => ring.used(),
            Ring::Kernel(ring) => u32::try_from(ring.used).unwrap_or(u32::MAX),
        }
    }

    /// Appends a completion.
    pub fn post(&mut self, cqe: &Cqe<Q>) -> Posted {
        if self.dead {
            return Posted::Dead;
        }
        let fits = match &mut self.ring {
            Ring::User(ring) => ring.push(|blank| blank.write(0, &cqe.user_bytes())).is_ok(),
            Ring::Kernel(ring) => ring.push(cqe),
        };
        if !fits {
            self.dead = true;
            return Posted::Overflow;
        }
        let wakes = match self.armed {
            None => false,
            Some(Arm::Solicited) => cqe.solicited,
            Some(Arm::Next) => true,
        };
        if wakes {
            self.armed = None;
            Posted::Notify
        } else {
            Posted::Quiet
        }
    }

    /// Asks for one wake-up. Being armed for more is kept until it has happened.
    ///
    /// Returns whether completions wait already, for `IB_CQ_REPORT_MISSED_EVENTS`.
    pub fn arm(&mut self, arm: Arm) -> bool {
        self.armed = self.armed.max(Some(arm));
        self.used() != 0
    }

    /// Takes the oldest completion of a kernel user's queue. A user's queue is
    /// polled by its user; this answers `None`.
    pub fn poll(&mut self) -> Option<Cqe<Q>> {
        match &mut self.ring {
            Ring::User(_) => None,
            Ring::Kernel(ring) => ring.pop(),
        }
    }

    /// Ends the queue: what is posted from now on is dropped. Answers a user's memory, to be
    /// taken away.
    pub fn retire(&mut self) -> Option<&mut M> {
        self.dead = true;
        match &mut self.ring {
            Ring::User(ring) => Some(ring.mem_mut()),
            Ring::Kernel(_) => None,
        }
    }

    /// Moves a user's queue into `fresh`, with everything that was not polled yet.
    ///
    /// Returns the old memory, to be dropped after unlocking.
    ///
    /// # Errors
    ///
    /// Gives `fresh` back if this is a kernel user's queue or its completions do not
    /// fit; nothing has changed then.
    pub fn resize(&mut self, fresh: M, layout: Layout) -> Result<M, M> {
        match &mut self.ring {
            Ring::User(ring) => ring.move_to(fresh, layout),
            Ring::Kernel(_) => Err(fresh),
        }
    }
}

/// A ring that nobody else sees.
///
/// # Invariants
///
/// `first` is below the storage's length (or zero), `used` at most that length.
struct PrivateRing<S> {
    storage: S,
    first: usize,
    used: usize,
}

impl<Q: Copy, S: DerefMut<Target = [Option<Cqe<Q>>]>> PrivateRing<S> {
    fn push(&mut self, cqe: &Cqe<Q>) -> bool {
        let len = self.storage.len();
        if self.used >= len {
            return false;
        }
        // OVERFLOW: both are below 2^32 on a 64-bit machine (queue sizes are u32).
        let at = self.first.wrapping_add(self.used);
        let at = if at >= len { at.wrapping_sub(len) } else { at };
        match self.storage.get_mut(at) {
            Some(place) => *place = Some(*cqe),
            None => return false,
        }
        self.used = self.used.wrapping_add(1);
        true
    }

    fn pop(&mut self) -> Option<Cqe<Q>> {
        self.used = self.used.checked_sub(1)?;
        let cqe = self.storage.get_mut(self.first)?.take();
        let next = self.first.wrapping_add(1);
        self.first = if next >= self.storage.len() { 0 } else { next };
        cqe
    }
}
