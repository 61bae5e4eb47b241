// SPDX-License-Identifier: GPL-2.0

//! Data of one object that the lock of another protects.
//!
//! The lock protects a [`Key`] among other things. Objects have [`Keyed`] data, which is accessed
//! with a borrow of the key: a shared borrow gives a shared reference to the data, a mutable borrow
//! a mutable one. So data is accessed only while the lock is held.
//!
//! [`kernel::sync::LockedBy`] serves the same purpose. It panics on access under the wrong lock;
//! access to a [`Keyed`] with the wrong key warns and returns `None`.

use core::cell::Cell;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;

/// Number of keys created so far.
static KEYS: Atomic<u64> = Atomic::new(0);

/// Identifies a [`Key`]. [`Keyed`] data is created with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId(u64);

/// Grants access to all data that was created with its [`id`](Self::id).
///
/// It is neither `Clone` nor `Sync`, so shared borrows of it stay on one thread.
///
/// # Invariants
///
/// No two keys have the same ID: IDs are counted with 64 bits, which do not wrap in practice (584
/// years at one key per nanosecond).
pub struct Key {
    id: KeyId,
    _not_sync: PhantomData<Cell<()>>,
}

impl Key {
    /// Creates a key.
    #[expect(clippy::new_without_default, reason = "each key is different")]
    pub fn new() -> Self {
        // INVARIANT: The counter returns each number once.
        Self {
            id: KeyId(KEYS.fetch_add(1u64, Relaxed)),
            _not_sync: PhantomData,
        }
    }

    /// Returns the key's ID.
    #[inline]
    pub const fn id(&self) -> KeyId {
        self.id
    }
}

/// Data that is accessed only with a [`Key`].
///
/// # Invariants
///
/// References to `data` are derived from borrows of the key with `id`, and do not outlive them:
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

// SAFETY: Sending it sends the data, and `T` is `Send`.
unsafe impl<T: Send> Send for Keyed<T> {}
// SAFETY: Access to the data borrows the key with `id`, of which there is one (type invariant). A
// `Key` is not `Sync`, so its borrows are on one thread at a time. So the data is accessed by one
// thread after the other, for which `T: Send` is sufficient.
unsafe impl<T: Send> Sync for Keyed<T> {}

impl<T> Keyed<T> {
    /// Creates data that is accessed with the key of this ID.
    #[inline]
    pub const fn new(id: KeyId, data: T) -> Self {
        Self {
            id,
            data: UnsafeCell::new(data),
        }
    }

    /// Returns the data. Warns and returns `None` for another key.
    #[inline]
    pub fn access<'a>(&'a self, key: &'a Key) -> Option<&'a T> {
        if key.id != self.id {
            warn_wrong_key();
            return None;
        }
        // SAFETY: The key is borrowed for `'a`, and no other key has this ID, so there is no
        // mutable reference (type invariant).
        Some(unsafe { &*self.data.get() })
    }

    /// Returns the data as [`access`](Self::access) does, mutably.
    #[inline]
    pub fn access_mut<'a>(&'a self, key: &'a mut Key) -> Option<&'a mut T> {
        if key.id != self.id {
            warn_wrong_key();
            return None;
        }
        // SAFETY: The key is borrowed mutably for `'a`, and no other key has this ID, so there is
        // no other reference (type invariant).
        Some(unsafe { &mut *self.data.get() })
    }
}

/// Reports that a key was used for data of another: the caller holds the wrong lock.
#[cold]
fn warn_wrong_key() {
    kernel::warn_on!(true);
}
