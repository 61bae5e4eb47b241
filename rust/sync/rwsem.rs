// SPDX-License-Identifier: GPL-2.0

//! A sleeping lock that many may read under, or one write.
//!
//! [`RwSem`] for a field; for a `static`, [`RwSem::uninit`] and one [`RwSem::init`]
//! before its first use, since C's lock cannot be made at compile time.
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

/// Creates an [`RwSem`] initialiser with a lock class of its own.
///
/// The name, `"Type::field"`, is what lockdep prints.
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

/// Data under a reader-writer semaphore. To take it may sleep: process context only.
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
/// `sem` is initialised whenever it is taken. `data` is read under either side of it,
/// and changed under the writer's.
#[pin_data]
pub struct RwSem<T: ?Sized> {
    #[pin]
    sem: Opaque<bindings::rw_semaphore>,
    #[pin]
    _pin: PhantomPinned,
    data: UnsafeCell<T>,
}

// SAFETY: The lock may be taken anywhere; with it one gets at the data.
unsafe impl<T: ?Sized + Send> Send for RwSem<T> {}
// SAFETY: As above; several readers share the data.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwSem<T> {}

impl<T> RwSem<T> {
    /// A lock around `data`. `name` and `key` are lockdep's; see [`new_rwsem!`].
    ///
    /// [`new_rwsem!`]: crate::new_rwsem
    #[inline]
    pub fn new(
        data: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The place is ours to initialise, and pinned from now on; name and
            // key are static.
            sem <- Opaque::ffi_init(|sem| unsafe {
                bindings::__init_rwsem(sem, name.as_char_ptr(), key.as_ptr());
            }),
            _pin: PhantomPinned,
            data: UnsafeCell::new(data),
        })
    }

    /// A lock for a `static`, not usable yet.
    ///
    /// # Safety
    ///
    /// [`RwSem::init`] returns before the lock is taken for the first time.
    #[inline]
    pub const unsafe fn uninit(data: T) -> Self {
        // INVARIANT: It is initialised before it is used (contract).
        Self {
            sem: Opaque::uninit(),
            _pin: PhantomPinned,
            data: UnsafeCell::new(data),
        }
    }

    /// Makes a lock of [`RwSem::uninit`] usable.
    ///
    /// # Safety
    ///
    /// It is called once, before the lock is taken.
    #[inline]
    pub unsafe fn init(&'static self, name: &'static CStr, key: Pin<&'static LockClassKey>) {
        // SAFETY: Nobody uses the lock yet (contract); it is static.
        unsafe { bindings::__init_rwsem(self.sem.get(), name.as_char_ptr(), key.as_ptr()) };
    }
}

impl<T: ?Sized> RwSem<T> {
    /// Waits until nobody writes. May sleep.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        // SAFETY: By the type invariant it is initialised.
        unsafe { bindings::down_read(self.sem.get()) };
        ReadGuard {
            lock: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Waits until nobody else reads or writes. May sleep.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T> {
        // SAFETY: By the type invariant it is initialised.
        unsafe { bindings::down_write(self.sem.get()) };
        WriteGuard {
            lock: self,
            _not_send: NotThreadSafe,
        }
    }
}

/// The lock is held for reading.
#[must_use = "the lock is released when the guard is dropped"]
pub struct ReadGuard<'a, T: ?Sized> {
    lock: &'a RwSem<T>,
    _not_send: NotThreadSafe,
}

impl<T: ?Sized> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: While it is held for reading, nobody changes the data.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: This thread holds it for reading.
        unsafe { bindings::up_read(self.lock.sem.get()) };
    }
}

/// The lock is held for writing.
#[must_use = "the lock is released when the guard is dropped"]
pub struct WriteGuard<'a, T: ?Sized> {
    lock: &'a RwSem<T>,
    _not_send: NotThreadSafe,
}

impl<'a, T: ?Sized> WriteGuard<'a, T> {
    /// Keeps the lock for reading; no writer comes between.
    #[inline]
    pub fn downgrade(self) -> ReadGuard<'a, T> {
        let this = ManuallyDrop::new(self);
        // SAFETY: This thread holds it for writing.
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
        // SAFETY: While it is held for writing, nobody else reaches the data.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T: ?Sized> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: As in `deref`.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T: ?Sized> Drop for WriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: This thread holds it for writing.
        unsafe { bindings::up_write(self.lock.sem.get()) };
    }
}
