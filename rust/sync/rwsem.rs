// SPDX-License-Identifier: GPL-2.0

//! A sleeping reader-writer lock.
//!
//! [`RwSem`] is for fields. For a `static`, use [`RwSem::uninit`], and call [`RwSem::init`] once
//! before the first use, because the C lock cannot be initialised at compile time.
//!
//! C header: `include/linux/rwsem.h`.

use core::cell::UnsafeCell;
use core::marker::PhantomPinned;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ops::DerefMut;
use core::pin::Pin;

use kernel::prelude::*;
use kernel::sync::LockClassKey;
use kernel::types::NotThreadSafe;
use kernel::types::Opaque;

use crate::bindings;

/// Creates an [`RwSem`] initialiser with its own lock class.
///
/// The name, `"Type::field"`, is shown by lockdep.
///
/// [`RwSem`]: crate::sync::RwSem
#[macro_export]
macro_rules! new_rwsem {
    ($inner:expr, $name:literal $(,)?) => {
        $crate::sync::RwSem::new(
            $inner,
            ::kernel::c_str!($name),
            ::kernel::static_lock_class!(),
        )
    };
}

/// Data protected by a reader-writer semaphore. Locking may sleep: process context only.
///
/// # Examples
///
/// ```ignore
/// #[pin_data]
/// struct Types {
///     #[pin]
///     list: RwSem<KVec<Type>>,
/// }
///
/// pin_init!(Types { list <- new_rwsem!(KVec::new(), "Types::list") });
///
/// types.list.write().push(new, GFP_KERNEL)?;
/// let first = types.list.read().first();
/// ```
///
/// # Invariants
///
/// `sem` is initialised whenever it is taken. `data` is read while it is held for reading or
/// writing, and changed only while it is held for writing.
#[pin_data]
pub struct RwSem<T: ?Sized> {
    #[pin]
    sem: Opaque<bindings::rw_semaphore>,
    #[pin]
    _pin: PhantomPinned,
    data: UnsafeCell<T>,
}

// SAFETY: The lock may be used on any thread, and gives access to `T`, which is `Send`.
unsafe impl<T: ?Sized + Send> Send for RwSem<T> {}
// SAFETY: Several readers share the data, so `T` is `Sync`; a writer gets `&mut T`, so it is
// `Send`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwSem<T> {}

impl<T> RwSem<T> {
    /// Creates a lock around `data`. `name` and `key` are for lockdep; see [`new_rwsem!`].
    ///
    /// [`new_rwsem!`]: crate::new_rwsem
    #[inline]
    pub fn new(
        data: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `sem` is valid for writes, and pinned; name and key are static.
            sem <- Opaque::ffi_init(|sem| unsafe {
                bindings::__init_rwsem(sem, name.as_char_ptr(), key.as_ptr());
            }),
            _pin: PhantomPinned,
            data: UnsafeCell::new(data),
        })
    }

    /// Creates a lock for a `static`. It is not usable yet.
    ///
    /// # Safety
    ///
    /// [`RwSem::init`] must have returned before the lock is taken for the first time.
    #[inline]
    pub const unsafe fn uninit(data: T) -> Self {
        // INVARIANT: It is initialised before it is taken (contract of this function).
        Self {
            sem: Opaque::uninit(),
            _pin: PhantomPinned,
            data: UnsafeCell::new(data),
        }
    }

    /// Initialises a lock created by [`RwSem::uninit`].
    ///
    /// # Safety
    ///
    /// Must be called once, before the lock is taken.
    #[inline]
    pub unsafe fn init(&'static self, name: &'static CStr, key: Pin<&'static LockClassKey>) {
        // SAFETY: No other code uses the lock yet (contract of this function); it is static, so it
        // does not move.
        unsafe { bindings::__init_rwsem(self.sem.get(), name.as_char_ptr(), key.as_ptr()) };
    }
}

impl<T: ?Sized> RwSem<T> {
    /// Takes the lock for reading. May sleep.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        // SAFETY: The semaphore is initialised (type invariant).
        unsafe { bindings::down_read(self.sem.get()) };
        ReadGuard {
            lock: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Takes the lock for writing. May sleep.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T> {
        // SAFETY: The semaphore is initialised (type invariant).
        unsafe { bindings::down_write(self.sem.get()) };
        WriteGuard {
            lock: self,
            _not_send: NotThreadSafe,
        }
    }
}

/// Guard of an [`RwSem`] that is held for reading.
#[must_use = "the lock is released when the guard is dropped"]
pub struct ReadGuard<'a, T: ?Sized> {
    lock: &'a RwSem<T>,
    _not_send: NotThreadSafe,
}

impl<T: ?Sized> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: The lock is held for reading, so nobody changes the data (invariant of `RwSem`).
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: This thread holds the lock for reading.
        unsafe { bindings::up_read(self.lock.sem.get()) };
    }
}

/// Guard of an [`RwSem`] that is held for writing.
#[must_use = "the lock is released when the guard is dropped"]
pub struct WriteGuard<'a, T: ?Sized> {
    lock: &'a RwSem<T>,
    _not_send: NotThreadSafe,
}

impl<'a, T: ?Sized> WriteGuard<'a, T> {
    /// Converts to a lock for reading, without releasing it.
    #[inline]
    pub fn downgrade(self) -> ReadGuard<'a, T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: This thread holds the lock for writing.
        unsafe { bindings::downgrade_write(this.lock.sem.get()) };
        ReadGuard {
            lock: this.lock,
            _not_send: NotThreadSafe,
        }
    }
}

impl<T: ?Sized> Deref for WriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: The lock is held for writing, so nobody else accesses the data (invariant of
        // `RwSem`).
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: As in `deref`: the lock is held for writing, so nobody else accesses the data.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for WriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: This thread holds the lock for writing.
        unsafe { bindings::up_write(self.lock.sem.get()) };
    }
}
