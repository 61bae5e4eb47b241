// SPDX-License-Identifier: GPL-2.0

//! The data path of a completion queue.
//!
//! A user's queue is in shared memory and polled without a system call; a kernel user's is private
//! and polled through [`Cq::poll`]. Both determine here, under the owner's lock, whether to notify
//! the consumer; the owner calls the handler after unlocking. Nothing here sleeps or allocates.
//!
//! A completion that does not fit is lost, so the queue permanently enters its error state (IBTA
//! C11-15 leaves it unusable): the owner is told once, raises `IB_EVENT_CQ_ERR` and moves the queue
//! pairs to the error state.
//!
//! Pure: no kernel imports; tested on the host.

use super::cqe::Cqe;
use super::layout::Layout;
use super::ring::{Producer, RingMem};
use core::ops::DerefMut;

/// What the poster must do after posting a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "somebody may wait for this completion"]
pub enum Posted {
    /// Nothing.
    Quiet,
    /// Call the completion handler once.
    Notify,
    /// The queue has overflowed: raise the event and fail the queue pairs.
    Overflow,
    /// The queue had overflowed before. The completion was dropped.
    Dead,
}

/// The completion that notifies the consumer.
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
    /// Creates a queue in shared memory.
    pub fn user(ring: Producer<M>) -> Self {
        Self::new(Ring::User(ring))
    }

    /// Creates a queue in private memory with the capacity of `storage`.
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

    /// Returns the maximum number of completions.
    pub fn capacity(&self) -> u32 {
        match &self.ring {
            Ring::User(ring) => ring.layout().capacity(),
            Ring::Kernel(ring) => u32::try_from(ring.storage.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the number of completions not polled yet.
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

    /// Requests one notification. A stronger pending request is kept.
    ///
    /// Returns whether completions are waiting already, for `IB_CQ_REPORT_MISSED_EVENTS`.
    pub fn arm(&mut self, arm: Arm) -> bool {
        self.armed = self.armed.max(Some(arm));
        self.used() != 0
    }

    /// Takes the oldest completion of a kernel user's queue. Returns `None` for a user's queue,
    /// which the user polls itself.
    pub fn poll(&mut self) -> Option<Cqe<Q>> {
        match &mut self.ring {
            Ring::User(_) => None,
            Ring::Kernel(ring) => ring.pop(),
        }
    }

    /// Ends the queue: completions are dropped from now on. Returns the memory of a user's queue,
    /// for the caller to take.
    pub fn retire(&mut self) -> Option<&mut M> {
        self.dead = true;
        match &mut self.ring {
            Ring::User(ring) => Some(ring.mem_mut()),
            Ring::Kernel(_) => None,
        }
    }

    /// Moves a user's queue into `fresh`, with all completions not polled yet.
    ///
    /// Returns the old memory, to be dropped after unlocking.
    ///
    /// # Errors
    ///
    /// Returns `fresh` if this is a kernel user's queue or its completions do not fit; nothing has
    /// changed then.
    pub fn resize(&mut self, fresh: M, layout: Layout) -> Result<M, M> {
        match &mut self.ring {
            Ring::User(ring) => ring.move_to(fresh, layout),
            Ring::Kernel(_) => Err(fresh),
        }
    }
}

/// A private ring.
///
/// # Invariants
///
/// `first` is less than the storage's length (or zero); `used` is at most that length.
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
        // OVERFLOW: both are less than 2^32 (queue sizes are u32), so the sum fits a 64-bit
        // `usize`.
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
