// SPDX-License-Identifier: GPL-2.0

//! Run token: state that one context at a time works on, and nobody waits for.
//!
//! A [`RunToken`] holds a value and one word with the bits
//!
//! * `RUN`: somebody has the value;
//! * `WANT`: somebody waits in [`RunToken::exclusive`];
//! * `STOP`: closed for good;
//! * and the caller's own *pending* bits: kinds of work that wait to be done.
//!
//! Whoever brings work calls [`RunToken::kick`]. If the value is free, the caller
//! becomes the *runner* and works until no pending bit is left; if it is taken,
//! the bits stay in the word for the present runner and the caller leaves at
//! once. So a softirq that interrupts a runner just leaves its work behind.
//!
//! ```text
//!            kick, value free                 no bit left
//!   free ------------------------> running ------------------> free
//!            kick, value taken                bit arrived meanwhile
//!   running ---------------------> running (bit noted) ------> running
//! ```
//!
//! No wakeup is lost: the word goes from running to free by one compare-exchange
//! that fails when a bit has arrived. A runner leaves *with* bits left only if its
//! work function says so (budget), or if an exclusive user or the closer wants
//! the value; it then returns [`Kick::Later`], and its caller must see to it that
//! somebody kicks again.
//!
//! Contexts: `kick` never waits and may be called from any context in which the
//! work function may run. [`RunToken::exclusive`] and [`RunToken::close`] spin;
//! call them only where no runner can be below on the same CPU (process context;
//! in the kernel with bottom halves off, as runners have them too).
//!
//! Only `core` atomics are used, so that the same file is model-checked on the
//! host: in a test build of its host crate they are those of `loom`.

use self::sync::{AtomicU32, CellMut, Ordering, UnsafeCell};
use core::mem;
use core::ops::{Deref, DerefMut};

/// The value is taken.
const RUN: u32 = 1 << 31;
/// No runner may take the value any more.
const STOP: u32 = 1 << 30;
/// Somebody waits for exclusive use. Only set while `RUN` is, and cleared by
/// whoever takes the value exclusively.
const WANT: u32 = 1 << 29;

/// A value together with the right to work on it. See the module's description.
///
/// # Invariants
///
/// Whoever sets `RUN` in `word` (it does so by a compare-exchange from a word
/// without it) is the *holder* until it clears `RUN`, and only the holder accesses
/// the value.
pub struct RunToken<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: by the type's invariant one context at a time accesses the value,
// acquire and release on `word` order one holder after the other, and nobody else
// gets even a shared reference. So sharing the token only moves `T` about.
unsafe impl<T: Send> Sync for RunToken<T> {}

/// What the work function says when it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Turn {
    /// All that was handed to it is done.
    Done,
    /// It stops early: these bits are still to be done, and the runner leaves.
    Later(u32),
}

/// What became of a kick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "`Later` obliges the caller to see that somebody kicks again"]
pub enum Kick {
    /// The caller was the runner, or there was nothing to do; no bit is left.
    Done,
    /// The caller was the runner and leaves with bits pending. It must arrange for
    /// another kick (with bits 0 is enough), for nobody else does.
    Later,
    /// Another context has the value, or is about to take it, and answers for the
    /// pending bits.
    Busy,
    /// The token is closed: pending bits count no more.
    Closed,
}

/// What a holder does next.
enum Next {
    Run(u32),
    Leave(Kick),
}

impl<T> RunToken<T> {
    /// The pending bits that a caller may use: the low 29.
    pub const PENDING: u32 = WANT - 1;

    /// A free token without pending bits.
    #[cfg(not(test))]
    #[inline(always)]
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// A free token without pending bits (`loom` cannot make one in a constant).
    #[cfg(test)]
    pub fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Notes the bits `pending` and works if nobody else does: calls `run` with
    /// the value and all bits noted so far, again and again until none is left.
    /// With `pending` 0 it takes up bits that were left behind, if there are any.
    ///
    /// Never waits. `run` may be called several times; it must bound its own work
    /// and return [`Turn::Later`] when its budget for the whole kick is used up.
    /// Bits outside [`RunToken::PENDING`] are ignored.
    #[inline]
    pub fn kick(&self, pending: u32, run: impl FnMut(&mut T, u32) -> Turn) -> Kick {
        let pending = pending & Self::PENDING;
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let due = word & Self::PENDING | pending;
            let taken = word & (RUN | WANT) != 0;
            if word & STOP != 0 {
                return Kick::Closed;
            } else if due == 0 {
                return Kick::Done;
            }
            let next = if taken { word | pending } else { RUN };
            // Release, so that who takes the bits sees the work they stand for;
            // acquire, so that a new runner sees what the last holder did.
            match self.swap(word, next, Ordering::AcqRel) {
                Ok(()) if taken => return Kick::Busy,
                // INVARIANT: `RUN` was clear and we have set it.
                // SAFETY: So we are the holder.
                Ok(()) => return unsafe { self.work(due, run) },
                Err(now) => word = now,
            }
        }
    }

    /// Works as [`RunToken::kick`] does if the value is free and nothing is pending,
    /// beginning with the bits `due`, and otherwise does nothing: `None`. So work can
    /// be handed to `run` directly when nobody is before it, and needs to be left
    /// somewhere only after `None`.
    #[inline]
    pub fn kick_idle(&self, due: u32, run: impl FnMut(&mut T, u32) -> Turn) -> Option<Kick> {
        // Acquire, so that a new runner sees what the last holder did.
        self.swap(0, RUN, Ordering::Acquire).ok()?;
        // INVARIANT: `RUN` was clear and we have set it.
        // SAFETY: So we are the holder.
        Some(unsafe { self.work(due & Self::PENDING, run) })
    }

    /// Waits until the value is free and takes it; kicks only leave notes until
    /// [`Exclusive::finish`]. Works on a closed token as well. `relax` is called
    /// while waiting (`cpu_relax`; a yield on the host).
    ///
    /// A runner makes way when its work function returns, so the wait is as long
    /// as one turn. When several contexts wait, any of them is next.
    ///
    /// A holder must not call it, nor a context that may have interrupted one on
    /// its CPU: it would wait for itself.
    pub fn exclusive(&self, mut relax: impl FnMut()) -> Exclusive<'_, T> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let free = word & RUN == 0;
            let (next, order) = if free {
                // Other waiters, if there are any, set WANT again.
                ((word | RUN) & !WANT, Ordering::Acquire)
            } else {
                (word | WANT, Ordering::Relaxed)
            };
            if next != word {
                match self.swap(word, next, order) {
                    // INVARIANT: `RUN` was clear and we have set it.
                    Ok(()) if free => {
                        return Exclusive {
                            value: self.value.get_mut(),
                            hold: Hold(self),
                        }
                    }
                    Ok(()) => {}
                    Err(now) => {
                        word = now;
                        continue;
                    }
                }
            }
            relax();
            word = self.word.load(Ordering::Relaxed);
        }
    }

    /// Closes the token for good: no kick runs or leaves a note any more. Waits
    /// for the present holder, as [`RunToken::exclusive`] does and under the same
    /// conditions, and gives access to the value for the last things to be done.
    pub fn close(&self, relax: impl FnMut()) -> Exclusive<'_, T> {
        self.word.fetch_or(STOP, Ordering::Relaxed);
        self.exclusive(relax)
    }

    /// Works off the bits `due` and those that arrive meanwhile, then leaves.
    ///
    /// # Safety
    ///
    /// Only for the holder, who is no longer the holder when it returns.
    #[inline]
    unsafe fn work(&self, mut due: u32, mut run: impl FnMut(&mut T, u32) -> Turn) -> Kick {
        loop {
            let turn = {
                let value = self.value.get_mut();
                // SAFETY: This is the holder (contract), and the reference is gone at
                // the end of this block, before it gives that up.
                run(unsafe { value.deref() }, due)
            };
            let kept = match turn {
                Turn::Done => 0,
                Turn::Later(bits) => bits & Self::PENDING,
            };
            match self.next(kept) {
                Next::Run(bits) => due = bits,
                Next::Leave(kick) => return kick,
            }
        }
    }

    /// Decides, for the holder, between another turn and leaving. The answer
    /// `Leave` means that it has left. `kept` are bits to be put back.
    #[inline]
    fn next(&self, kept: u32) -> Next {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let arrived = word & Self::PENDING;
            let (next, answer) = if word & STOP != 0 {
                (word & !RUN, Next::Leave(Kick::Closed))
            } else if arrived | kept == 0 {
                (word & !RUN, Next::Leave(Kick::Done))
            } else if kept != 0 || word & WANT != 0 {
                (word & !RUN | kept, Next::Leave(Kick::Later))
            } else {
                (word & !Self::PENDING, Next::Run(arrived))
            };
            // Acquire, to see the work that the bits stand for; release, so that
            // the next holder sees what we did.
            match self.swap(word, next, Ordering::AcqRel) {
                Ok(()) => return answer,
                Err(now) => word = now,
            }
        }
    }

    #[inline]
    fn swap(&self, from: u32, to: u32, success: Ordering) -> Result<(), u32> {
        self.word
            .compare_exchange_weak(from, to, success, Ordering::Relaxed)
            .map(|_| ())
    }
}

/// Exclusive access to the value of a [`RunToken`].
///
/// End it with [`Exclusive::finish`] or [`Exclusive::leave`]. When it is merely dropped,
/// bits that were noted meanwhile stay until the next kick, whenever that is.
///
/// # Invariants
///
/// The context that has it is the holder.
#[must_use = "the value is free again as soon as this is dropped"]
pub struct Exclusive<'a, T> {
    // The order matters: access ends before `RUN` is cleared.
    value: CellMut<T>,
    hold: Hold<'a, T>,
}

/// Clears `RUN` when dropped.
struct Hold<'a, T>(&'a RunToken<T>);

impl<T> Drop for Hold<'_, T> {
    fn drop(&mut self) {
        self.0.word.fetch_and(!RUN, Ordering::Release);
    }
}

impl<'a, T> Exclusive<'a, T> {
    /// Ends the access, as when both are dropped, but not the exclusion: for the caller to
    /// clear `RUN`.
    fn end_access(self) -> &'a RunToken<T> {
        let Self {
            value: _value,
            hold,
        } = self;
        let token = hold.0;
        mem::forget(hold);
        token
    }

    /// Ends the exclusive access, and says whether bits are left: then the caller must
    /// arrange for another kick, as after [`Kick::Later`].
    pub fn leave(self) -> bool {
        let token = self.end_access();
        let before = token.word.fetch_and(!RUN, Ordering::Release);
        before & RunToken::<T>::PENDING != 0
    }

    /// Ends the exclusive access, first working off, as [`RunToken::kick`] does,
    /// the bits that were noted meanwhile. [`Kick::Later`] means the same as there.
    pub fn finish(self, run: impl FnMut(&mut T, u32) -> Turn) -> Kick {
        // `next` and `work` leave in its place.
        let token = self.end_access();
        match token.next(0) {
            // SAFETY: `self` was the holder (type invariant), and `next` leaves it so.
            Next::Run(due) => unsafe { token.work(due, run) },
            Next::Leave(kick) => kick,
        }
    }
}

impl<T> Deref for Exclusive<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: by the invariant we are the holder, and the reference borrows
        // `self` shared.
        unsafe { self.value.deref() }
    }
}

impl<T> DerefMut for Exclusive<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: by the invariant we are the holder, and the reference borrows
        // `self` exclusively.
        unsafe { self.value.deref() }
    }
}

#[cfg(not(test))]
mod sync {
    //! The atomics of `core`, and a cell with the interface of loom's.

    pub(super) use core::sync::atomic::{AtomicU32, Ordering};

    use core::cell;

    pub(super) struct UnsafeCell<T>(cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(super) const fn new(value: T) -> Self {
            Self(cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(super) fn get_mut(&self) -> CellMut<T> {
            CellMut(self.0.get())
        }
    }

    pub(super) struct CellMut<T>(*mut T);

    impl<T> CellMut<T> {
        /// # Safety
        ///
        /// The cell is alive, and nothing else accesses its value for as long as
        /// the reference is used.
        #[inline]
        #[allow(clippy::mut_from_ref, reason = "the interface of loom's cell")]
        pub(super) unsafe fn deref(&self) -> &mut T {
            // SAFETY: the pointer comes from a cell; the rest is the caller's duty.
            unsafe { &mut *self.0 }
        }
    }
}

#[cfg(test)]
mod sync {
    //! The same from loom, which tries every interleaving and checks each access.

    pub(super) use loom::cell::{MutPtr as CellMut, UnsafeCell};
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering};
}
