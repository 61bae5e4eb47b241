// SPDX-License-Identifier: GPL-2.0

//! Run token: exclusive ownership of a value by one context at a time, without waiting.
//!
//! A [`RunToken`] has a value and a word with these bits:
//!
//! * `RUN`: a context owns the value;
//! * `WANT`: a context waits in [`RunToken::exclusive`];
//! * `STOP`: the token is closed;
//! * *pending* bits, defined by the user: types of work to be done.
//!
//! A context with new work calls [`RunToken::kick`]. If the value is free, the caller becomes the
//! *runner* and works until no pending bit is left. If it is taken, the bits are set for the
//! present runner, and the call returns at once. So a softirq that interrupts a runner leaves its
//! work to the runner.
//!
//! ```text
//!            kick, value free                 no bit left
//!   free ------------------------> running ------------------> free
//!            kick, value taken                bit set meanwhile
//!   running ---------------------> running (bit set) --------> running
//! ```
//!
//! No work is lost: the word changes from running to free by a compare-exchange that fails if a bit
//! has been set. A runner leaves *with* pending bits only if its work function requests it
//! (budget), or if another context waits for exclusive use or closes the token. It then returns
//! [`Kick::Later`], and its caller must arrange for another kick.
//!
//! Contexts: `kick` never waits and may be called from any context in which the work function may
//! run. [`RunToken::exclusive`] and [`RunToken::close`] spin. They may be called only where they
//! cannot have interrupted a runner on the same CPU: in process context, and in the kernel with
//! bottom halves disabled, as runners have.
//!
//! Only `core` atomics are used, so that the same file is model-checked on the host: in a test
//! build of its host crate the atomics are those of `loom`.

use self::sync::{AtomicU32, CellMut, Ordering, UnsafeCell};
use core::mem;
use core::ops::{Deref, DerefMut};

/// A context owns the value.
const RUN: u32 = 1 << 31;
/// No runner may take the value any more.
const STOP: u32 = 1 << 30;
/// A context waits for exclusive use. Set only while `RUN` is set; cleared by the context that
/// takes the value exclusively.
const WANT: u32 = 1 << 29;

/// A value, and the state of its ownership. See the [module](self).
///
/// # Invariants
///
/// The context that sets `RUN` in `word` (by a compare-exchange from a word without it) is the
/// *owner* until it clears `RUN`, and only the owner accesses the value.
pub struct RunToken<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: One context at a time accesses the value (type invariant); acquire and release on `word`
// order one owner after the other, and other contexts do not even get a shared reference. So
// sharing the token only sends `T`.
unsafe impl<T: Send> Sync for RunToken<T> {}

/// Result of a work function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Turn {
    /// All work that was passed to it is done.
    Done,
    /// It stops early: these bits are still pending, and the runner leaves.
    Later(u32),
}

/// Result of a kick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "`Later` obliges the caller to see that somebody kicks again"]
pub enum Kick {
    /// The caller was the runner, or there was nothing to do; no bit is pending.
    Done,
    /// The caller was the runner and has left with bits pending. It must arrange for another kick
    /// (with bits 0 is enough), because no other context does.
    Later,
    /// Another context owns the value, or is about to take it, and is responsible for the pending
    /// bits: a runner, or the user of an [`Exclusive`].
    Busy,
    /// The token is closed; pending bits are ignored.
    Closed,
}

/// Next action of an owner.
enum Next {
    Run(u32),
    Leave(Kick),
}

impl<T> RunToken<T> {
    /// The pending bits that are available to the user: the low 29.
    pub const PENDING: u32 = WANT - 1;

    /// Creates a free token without pending bits.
    #[cfg(not(test))]
    #[inline(always)]
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Creates a free token without pending bits (`loom` atomics cannot be created in a constant).
    #[cfg(test)]
    pub fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Sets the bits `pending`. If the value is free, becomes the runner: calls `run` with the
    /// value and all pending bits, repeatedly until none is left. With `pending` 0 it handles bits
    /// that were left pending, if any.
    ///
    /// Never waits. `run` may be called several times; it must limit its own work and return
    /// [`Turn::Later`] when its budget for the whole kick is used up. Bits outside
    /// [`RunToken::PENDING`] are ignored.
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
            // Release: the context that takes the bits sees the work they stand for. Acquire: a new
            // runner sees the accesses of the previous owner.
            match self.swap(word, next, Ordering::AcqRel) {
                Ok(()) if taken => return Kick::Busy,
                // INVARIANT: `RUN` was clear, and this call has set it.
                // SAFETY: This context is the owner.
                Ok(()) => return unsafe { self.work(due, run) },
                Err(now) => word = now,
            }
        }
    }

    /// Works as [`RunToken::kick`] does, starting with the bits `due`, if the value is free and
    /// nothing is pending. Otherwise has no effect and returns `None`. So work can be passed to
    /// `run` directly in the uncontended case, and needs to be stored for another runner only after
    /// `None`.
    #[inline]
    pub fn kick_idle(&self, due: u32, run: impl FnMut(&mut T, u32) -> Turn) -> Option<Kick> {
        // Acquire: a new runner sees the accesses of the previous owner.
        self.swap(0, RUN, Ordering::Acquire).ok()?;
        // INVARIANT: `RUN` was clear, and this call has set it.
        // SAFETY: This context is the owner.
        Some(unsafe { self.work(due & Self::PENDING, run) })
    }

    /// Takes the value if it is free and nothing is pending, as [`RunToken::kick_idle`] does, for a
    /// caller that has work for it in several steps. Otherwise has no effect and returns `None`.
    #[inline]
    pub fn exclusive_idle(&self) -> Option<Exclusive<'_, T>> {
        // Acquire: the new owner sees the accesses of the previous one.
        self.swap(0, RUN, Ordering::Acquire).ok()?;
        // INVARIANT: `RUN` was clear, and this call has set it.
        Some(Exclusive {
            value: self.value.get_mut(),
            hold: Hold(self),
        })
    }

    /// Waits until the value is free and takes it; until the access ends, kicks only set bits. Also works on a closed token. `relax` is called while waiting (`cpu_relax`; a yield on
    /// the host).
    ///
    /// A runner leaves when its work function returns, so the wait is as long as one call. If
    /// several contexts wait, any of them is next.
    ///
    /// Deadlocks if the caller is the owner, or has interrupted the owner on its CPU.
    pub fn exclusive(&self, mut relax: impl FnMut()) -> Exclusive<'_, T> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let free = word & RUN == 0;
            let (next, order) = if free {
                // Other waiters, if any, set WANT again.
                ((word | RUN) & !WANT, Ordering::Acquire)
            } else {
                (word | WANT, Ordering::Relaxed)
            };
            if next != word {
                match self.swap(word, next, order) {
                    // INVARIANT: `RUN` was clear, and this call has set it.
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

    /// Closes the token: kicks neither run nor set bits any more. Waits for the present owner, as
    /// [`RunToken::exclusive`] does and under the same conditions, and returns access to the value
    /// for cleanup.
    pub fn close(&self, relax: impl FnMut()) -> Exclusive<'_, T> {
        self.word.fetch_or(STOP, Ordering::Relaxed);
        self.exclusive(relax)
    }

    /// Handles the bits `due` and those that are set meanwhile, then gives up ownership.
    ///
    /// # Safety
    ///
    /// The caller must be the owner. It no longer is when this returns.
    #[inline]
    unsafe fn work(&self, mut due: u32, mut run: impl FnMut(&mut T, u32) -> Turn) -> Kick {
        loop {
            let turn = {
                let value = self.value.get_mut();
                // SAFETY: This context is the owner (contract of this function). The reference ends
                // with this block, before ownership is given up.
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

    /// Decides, for the owner, between another call of the work function and leaving. `Leave` means
    /// that ownership was given up. `kept` are bits that stay pending.
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
            // Acquire: see the work that the bits stand for. Release: the next owner sees the
            // accesses of this one.
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
/// Dropping it releases the value; waiting contexts go on. Bits that were set meanwhile stay pending,
/// and the next kick handles them. But whoever set them was told [`Kick::Busy`] and does not kick
/// again: where kicks are possible, end the access with [`Exclusive::finish`], which handles the bits,
/// or with [`Exclusive::leave`], which tells whether a kick must follow.
///
/// # Invariants
///
/// The context that has it is the owner.
#[must_use = "the value is free again as soon as this is dropped"]
pub struct Exclusive<'a, T> {
    // Field order: access ends before `RUN` is cleared.
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
    /// Ends the access, as a drop does, but not the ownership: the caller must clear `RUN`.
    fn end_access(self) -> &'a RunToken<T> {
        let Self {
            value: _value,
            hold,
        } = self;
        let token = hold.0;
        mem::forget(hold);
        token
    }

    /// Ends the exclusive access, and returns whether bits are pending. If so, the caller must
    /// arrange for another kick, as after [`Kick::Later`].
    #[must_use = "pending bits oblige the caller to see that somebody kicks again"]
    pub fn leave(self) -> bool {
        let token = self.end_access();
        let before = token.word.fetch_and(!RUN, Ordering::Release);
        before & RunToken::<T>::PENDING != 0
    }

    /// Ends the exclusive access, after handling the bits that were set meanwhile, as
    /// [`RunToken::kick`] does. [`Kick::Later`] has the same meaning.
    pub fn finish(self, run: impl FnMut(&mut T, u32) -> Turn) -> Kick {
        // `next` and `work` clear `RUN`.
        let token = self.end_access();
        match token.next(0) {
            // SAFETY: `self` was the owner (type invariant), and still is after `next` has returned
            // `Run`.
            Next::Run(due) => unsafe { token.work(due, run) },
            Next::Leave(kick) => kick,
        }
    }
}

impl<T> Deref for Exclusive<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: This context is the owner (type invariant), and the reference borrows `self`
        // shared.
        unsafe { self.value.deref() }
    }
}

impl<T> DerefMut for Exclusive<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: This context is the owner (type invariant), and the reference borrows `self`
        // exclusively.
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
        /// The cell exists, and nothing else accesses its value while the reference is used.
        #[inline]
        #[allow(clippy::mut_from_ref, reason = "the interface of loom's cell")]
        pub(super) unsafe fn deref(&self) -> &mut T {
            // SAFETY: The pointer comes from a cell; the caller guarantees the rest.
            unsafe { &mut *self.0 }
        }
    }
}

#[cfg(test)]
mod sync {
    //! The same types of loom, which tries every interleaving and checks each access.

    pub(super) use loom::cell::{MutPtr as CellMut, UnsafeCell};
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering};
}
