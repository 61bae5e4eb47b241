// SPDX-License-Identifier: GPL-2.0

//! Gate: a use count that can be closed. Closing waits until all users have left.
//!
//! It implements the combination of a reference count and a completion, for instance for the
//! removal of a device or the deregistration of a memory region. An `Arc` keeps the memory of an
//! object; a closed gate guarantees that nobody *uses* the object any more.
//!
//! ```text
//!            try_enter: n -> n + 1          drop of a pass: n -> n - 1
//!   open(n) -----------------------+     closed(n) -----------+
//!      |                           |        |                 |
//!      +------- close -------> closed(n)    +-- n == 0 --> `empty` is completed
//! ```
//!
//! A closed gate is never opened again, and its count only falls. So exactly one event completes
//! `empty`: closing of a gate without users, or exit of the last user.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Completion;

pub mod word;

use self::word::Empty;
use self::word::Word;

impl Empty for Completion {
    #[inline]
    fn complete(&self) {
        self.complete_all();
    }

    #[inline]
    fn wait(&self) {
        self.wait_for_completion();
    }
}

/// A use count that can be closed.
///
/// # Examples
///
/// ```ignore
/// // Data path, any context:
/// let Some(_pass) = mr.gate.try_enter() else {
///     return Err(EINVAL); // It is being deregistered.
/// };
/// // ... use the pages ...
///
/// // Deregistration, may sleep:
/// mr.gate.close_and_wait();
/// // ... nobody uses the pages now ...
/// ```
///
/// # Invariants
///
/// `word` counts the existing passes.
#[pin_data]
pub struct Gate {
    word: Word,
    #[pin]
    empty: Completion,
}

impl Gate {
    /// Creates an open gate without users.
    #[inline]
    pub fn new() -> impl PinInit<Self> {
        // INVARIANT: No pass exists, and the gate is open.
        pin_init!(Self {
            word: Word::new(),
            empty <- Completion::new(),
        })
    }

    /// Adds a user, unless the gate is closed.
    ///
    /// Context: any. Lock-free, never sleeps. What the caller does before it drops the pass happens
    /// before [`close_and_wait`](Self::close_and_wait) returns.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let pass = gate.try_enter().ok_or(ENODEV)?;
    /// ```
    #[inline]
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        // INVARIANT: `enter` has counted this pass. The pass is created only if it did, because its
        // drop decrements the count.
        self.word.enter().then(|| Pass { gate: self })
    }

    /// Closes the gate. Present users may stay; new ones are refused.
    ///
    /// Context: any. Never sleeps. May be called again.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// ports.iter().for_each(|port| port.gate.close());
    /// ports.iter().for_each(|port| port.gate.close_and_wait());
    /// ```
    #[inline]
    pub fn close(&self) {
        let _: bool = self.word.close(&self.empty);
    }

    /// Closes the gate and waits until all users have left.
    ///
    /// Afterwards there are no users and new ones are refused, and everything that users did is
    /// visible to the caller. May be called again, also concurrently.
    ///
    /// Context: may sleep. Deadlocks if the caller holds a pass.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// device.gate.close_and_wait();
    /// ```
    #[inline]
    pub fn close_and_wait(&self) {
        self.word.close_and_wait(&self.empty);
    }

    /// Returns whether the gate is closed. A hint, unless the caller synchronises with `close`.
    ///
    /// Context: any.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.word.is_closed()
    }
}

/// A use of a [`Gate`], which ends on drop.
#[must_use = "dropping the pass leaves the gate at once"]
pub struct Pass<'a> {
    gate: &'a Gate,
}

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.word.leave(&self.gate.empty);
    }
}

/// A use of a [`Gate`] that is part of a shared object. It holds a reference to the object.
///
/// For uses that outlive a scope: an skb in flight, a queued work item.
///
/// # Invariants
///
/// `gate` points into `*owner`, or to something that outlives it, and this pass is counted there.
#[must_use = "dropping the pass leaves the gate at once"]
pub struct OwnedPass<T> {
    gate: NonNull<Gate>,
    owner: Arc<T>,
}

// SAFETY: The pointer stands for a shared reference to a `Gate`, which is `Sync`, as its fields
// are; the other field is an `Arc<T>`.
unsafe impl<T: Send + Sync> Send for OwnedPass<T> {}
// SAFETY: As for `Send`: a shared reference to a `Gate`, and an `Arc<T>`.
unsafe impl<T: Send + Sync> Sync for OwnedPass<T> {}

impl<T> OwnedPass<T> {
    /// Adds a user to the gate that `gate` returns for `owner`, unless it is closed.
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let pass = OwnedPass::try_enter(mr.clone(), |mr| &mr.gate).ok_or(EINVAL)?;
    /// ```
    #[inline]
    pub fn try_enter(owner: Arc<T>, gate: impl for<'a> FnOnce(&'a T) -> &'a Gate) -> Option<Self> {
        let gate = gate(&owner);
        if !gate.word.enter() {
            return None;
        }
        let gate = NonNull::from(gate);
        // INVARIANT: `enter` has counted this pass. The gate is valid as long as `*owner`, as the
        // signature of the closure requires, and `owner` is kept.
        Some(Self { gate, owner })
    }

    /// Returns the object of the gate.
    #[inline]
    pub fn owner(&self) -> &Arc<T> {
        &self.owner
    }
}

impl<T> Deref for OwnedPass<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.owner
    }
}

impl<T> Drop for OwnedPass<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The gate exists (type invariant): `owner` is dropped after this function.
        let gate = unsafe { self.gate.as_ref() };
        gate.word.leave(&gate.empty);
    }
}

/// An object behind a gate, for lookup by others than its [`Owner`]. The object is accessed inside
/// the gate only, by an [`Entered`].
///
/// It is created by [`Owner::new`] only, so each has an owner.
#[pin_data]
pub struct Gated<T> {
    #[pin]
    object: T,
    #[pin]
    gate: Gate,
}

impl<T> Gated<T> {
    /// Enters the gate. `None` if it is closed.
    ///
    /// The result does not borrow `self`, so that the object may be found under RCU and used after
    /// the read-side critical section, without a reference.
    ///
    /// Context: any. Lock-free, never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let region = table.borrow(id, &rcu::read_lock())?.enter()?;
    /// ```
    #[inline]
    pub fn enter(&self) -> Option<Entered<T>> {
        // INVARIANT: `enter` has counted this use. If it did, the owner's drop has not seen the
        // gate without users yet, so the owner has a reference to the object until the use ends.
        self.gate.word.enter().then(|| Entered {
            gated: NonNull::from(self),
            _shared: PhantomData,
        })
    }

    /// Returns the object, which may be outside of the gate: its owner may have ended its use.
    #[inline]
    pub fn outside(&self) -> &T {
        &self.object
    }
}

/// The owner of an object behind a gate. Drop closes the gate and waits until all users have left.
///
/// Context of drop: may sleep. Deadlocks if the caller is inside the gate.
///
/// # Invariants
///
/// There is one owner of each [`Gated`]. Its reference is dropped after the gate was closed and all
/// users have left; if the owner is leaked, never.
pub struct Owner<T>(Arc<Gated<T>>);

impl<T> Owner<T> {
    /// Creates an object behind an open gate. The context depends on `flags`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; those of `object`.
    pub fn new<E>(object: impl PinInit<T, E>, flags: Flags) -> Result<Self>
    where
        Error: From<E>,
    {
        let gated = Arc::pin_init::<Error>(
            try_pin_init!(Gated {
                object <- object,
                gate <- Gate::new(),
            }? Error),
            flags,
        )?;
        // INVARIANT: The object is new, so it has no other owner.
        Ok(Self(gated))
    }

    /// Returns a reference for lookup by others.
    #[inline]
    pub fn share(&self) -> Arc<Gated<T>> {
        self.0.clone()
    }

    /// Closes the gate and waits until all users have left; see [`Gate::close_and_wait`].
    #[inline]
    pub fn close_and_wait(&self) {
        self.0.gate.close_and_wait();
    }
}

impl<T> Deref for Owner<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0.object
    }
}

impl<T> Drop for Owner<T> {
    #[inline]
    fn drop(&mut self) {
        self.close_and_wait();
    }
}

/// A use of an object behind a gate, which ends on drop. The owner's drop waits for it.
///
/// # Invariants
///
/// This use is counted in the gate of `gated`, which therefore exists: its owner has a reference to
/// it until this use ends (invariant of [`Owner`]).
#[must_use = "dropping it leaves the gate at once"]
pub struct Entered<T> {
    gated: NonNull<Gated<T>>,
    _shared: PhantomData<Arc<Gated<T>>>,
}

// SAFETY: It stands for a shared reference to the object, and for a use of a `Gate`, which may end
// on any thread.
unsafe impl<T: Send + Sync> Send for Entered<T> {}
// SAFETY: It gives out shared references to the object only.
unsafe impl<T: Send + Sync> Sync for Entered<T> {}

impl<T> Entered<T> {
    #[inline]
    fn gated(&self) -> &Gated<T> {
        // SAFETY: The object exists while this use does (type invariant).
        unsafe { self.gated.as_ref() }
    }
}

impl<T> Deref for Entered<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.gated().object
    }
}

impl<T> Drop for Entered<T> {
    #[inline]
    fn drop(&mut self) {
        let gate = &self.gated().gate;
        gate.word.leave(&gate.empty);
    }
}
