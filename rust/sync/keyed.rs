// SPDX-License-Identifier: GPL-2.0

//! Data of one object that is protected by the lock of another.
//!
//! The lock protects a [`Key`] among other things. Objects have [`Keyed`] data, which is accessed
//! with a borrow of the key: a shared borrow gives a shared reference to the data, a mutable one a
//! mutable reference. So data is accessed only while the lock is held.
//!
//! [`kernel::sync::LockedBy`] serves the same purpose. It panics if it is accessed under the wrong
//! lock; access to a [`Keyed`] with the wrong key warns and gives `None`.

use core::cell::Cell;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

/// The number of keys made so far.
static KEYS: Atomic<u64> = Atomic::new(0);

/// Identifies a [`Key`]; what [`Keyed`] data is made with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId(u64);

/// The right to access all data that was made with its [`id`](Self::id).
///
/// It is neither `Clone` nor `Sync`: a borrow of it stays on one CPU, as long as it is not mutable.
///
/// # Invariants
///
/// No two keys have the same id: ids are counted with 64 bits, which do not wrap in practice (one
/// key each nanosecond takes 584 years).
pub struct Key {
    id: KeyId,
    _not_sync: PhantomData<Cell<()>>,
}

impl Key {
    /// A new key.
    #[expect(clippy::new_without_default, reason = "each key is different")]
    pub fn new() -> Self {
        // INVARIANT: The counter gives each number once.
        Self {
            id: KeyId(KEYS.fetch_add(1u64, Relaxed)),
            _not_sync: PhantomData,
        }
    }

    /// Identifies it.
    #[inline]
    pub const fn id(&self) -> KeyId {
        self.id
    }
}

/// Data that is accessed with a [`Key`] only.
///
/// # Invariants
///
/// References to `data` are made from borrows of the key of `id`, for as long as those last:
/// shared references from shared borrows, mutable references from mutable borrows.
///
/// # Examples
///
/// ```ignore
/// struct Inner { key: Key, list: List<Item> }
/// struct Owner { key: KeyId, inner: SpinLock<Inner> }
/// struct Item { state: Keyed<State>, owner: Arc<Owner> }
///
/// let mut inner = item.owner.inner.lock();
/// if let Some(state) = item.state.access_mut(&mut inner.key) {
///     state.done = true;
/// }
/// ```
pub struct Keyed<T> {
    id: KeyId,
    data: UnsafeCell<T>,
}

// SAFETY: The data is sent with it, and `T` is `Send`.
unsafe impl<T: Send> Send for Keyed<T> {}
// SAFETY: By the type invariant, whoever accesses the data borrows the key of `id`, of which there
// is one. A `Key` is not `Sync`, so its borrows are on one thread at a time: the data is accessed
// by one thread after the other, for which `T: Send` is sufficient.
unsafe impl<T: Send> Sync for Keyed<T> {}

impl<T> Keyed<T> {
    /// Data that the key of this id gives access to.
    #[inline]
    pub const fn new(id: KeyId, data: T) -> Self {
        Self {
            id,
            data: UnsafeCell::new(data),
        }
    }

    /// The data; `None`, and a warning, if it is another key's.
    #[inline]
    pub fn access<'a>(&'a self, key: &'a Key) -> Option<&'a T> {
        if key.id != self.id {
            warn_wrong_key();
            return None;
        }
        // SAFETY: The type invariant: the key is borrowed for `'a`, and there is no other of this
        // id, so that nobody has a mutable reference.
        Some(unsafe { &*self.data.get() })
    }

    /// As [`access`](Self::access), mutably.
    #[inline]
    pub fn access_mut<'a>(&'a self, key: &'a mut Key) -> Option<&'a mut T> {
        if key.id != self.id {
            warn_wrong_key();
            return None;
        }
        // SAFETY: The type invariant: the key is borrowed mutably for `'a`, and there is no other
        // of this id, so that nobody else has a reference.
        Some(unsafe { &mut *self.data.get() })
    }
}

/// A key is used for data of another: the caller holds the wrong lock.
#[cold]
fn warn_wrong_key() {
    kernel::warn_on!(true);
}
