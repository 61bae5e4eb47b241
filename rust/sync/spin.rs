// SPDX-License-Identifier: GPL-2.0

//! Spinlocks that keep this CPU's interrupts or softirqs away from the data.
//!
//! Both are [`Backend`]s of the `kernel` crate's [`Lock`], so all that works with a
//! lock works with them. Which one to take:
//!
//! | the data is also reached from | lock |
//! |---|---|
//! | task context only | [`kernel::sync::SpinLock`] or a mutex |
//! | softirqs (packets, timers, BH work) | [`SpinLockBh`] |
//! | anywhere, or callers we do not choose (kernel verbs) | [`SpinLockIrq`] |
//!
//! C header: `include/linux/spinlock.h`.

use crate::bindings;
use crate::edge::View;
use kernel::ffi::c_char;
use kernel::ffi::c_ulong;
use kernel::sync::lock::Backend;
use kernel::sync::lock::Guard;
use kernel::sync::lock::Lock;

/// Creates a [`SpinLockIrq`] initialiser with a lock class of its own.
///
/// The name, `"Type::field"`, is what lockdep prints.
///
/// [`SpinLockIrq`]: crate::sync::SpinLockIrq
#[macro_export]
macro_rules! new_spinlock_irq {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::SpinLockIrq::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}

/// Creates a [`SpinLockBh`] initialiser with a lock class of its own.
///
/// The name, `"Type::field"`, is what lockdep prints.
///
/// [`SpinLockBh`]: crate::sync::SpinLockBh
#[macro_export]
macro_rules! new_spinlock_bh {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::SpinLockBh::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}

/// A spinlock that may be taken in any context.
///
/// Locking turns this CPU's interrupts off; unlocking restores what was before.
///
/// Guards must be dropped in the reverse of the order they were taken in, which
/// scopes do by themselves: the outermost guard is the one that knows whether
/// interrupts were on.
///
/// # Examples
///
/// ```ignore
/// #[pin_data]
/// struct Queue {
///     #[pin]
///     inner: SpinLockIrq<QueueInner>,
/// }
///
/// pin_init!(Queue {
///     inner <- new_spinlock_irq!(QueueInner::default(), "Queue::inner"),
/// });
///
/// queue.inner.lock().len += 1;
/// ```
pub type SpinLockIrq<T> = Lock<T, SpinLockIrqBackend>;

/// What [`SpinLockIrq::lock`](Lock::lock) returns.
pub type SpinLockIrqGuard<'a, T> = Guard<'a, T, SpinLockIrqBackend>;

/// How [`SpinLockIrq`] locks: `spin_lock_irqsave` and `spin_unlock_irqrestore`.
pub struct SpinLockIrqBackend;

// SAFETY: `spinlock_t` gives mutual exclusion; `relock` is the provided one, which
// locks as `lock` does and keeps the new flags.
unsafe impl Backend for SpinLockIrqBackend {
    type State = bindings::spinlock_t;
    type GuardState = c_ulong;

    #[inline]
    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: The caller promises that `ptr` is valid for writes, and that
        // `name` and `key` live on.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: The caller promises that the lock is initialised.
        unsafe { bindings::rdma_helper_spin_lock_irqsave(ptr) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: The caller promises that the lock is initialised; `flags` is ours.
        unsafe { bindings::rdma_helper_spin_trylock_irqsave(ptr, &mut flags) }.then_some(flags)
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, flags: &Self::GuardState) {
        // SAFETY: The caller owns the lock, and `flags` came from locking it.
        unsafe { bindings::rdma_helper_spin_unlock_irqrestore(ptr, *flags) }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: The caller promises that the lock is initialised.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}

crate::c_struct! {
    /// A spinlock within a C structure, which is taken as a [`SpinLockIrq`] is. A reference promises
    /// that it is initialised.
    pub struct IrqLock: bindings::spinlock_t;
    fields {}
}

impl IrqLock {
    /// Takes the lock. Any context.
    #[inline]
    pub fn lock(&self) -> SpinLockIrqGuard<'_, ()> {
        // SAFETY: Initialised, by the promise of a reference, for as long as that lasts.
        unsafe { SpinLockIrq::<()>::from_raw(self.raw()) }.lock()
    }
}

/// A spinlock for data shared by tasks and softirqs, but not hard interrupts.
///
/// Locking holds off this CPU's softirqs. It must not be taken or released while
/// interrupts are off: use [`SpinLockIrq`] where a caller may have them off.
///
/// # Examples
///
/// ```ignore
/// pin_init!(Device { peers <- new_spinlock_bh!(KVec::new(), "Device::peers") });
///
/// let count = device.peers.lock().len();
/// ```
pub type SpinLockBh<T> = Lock<T, SpinLockBhBackend>;

/// What [`SpinLockBh::lock`](Lock::lock) returns.
pub type SpinLockBhGuard<'a, T> = Guard<'a, T, SpinLockBhBackend>;

/// How [`SpinLockBh`] locks: `spin_lock_bh` and `spin_unlock_bh`.
pub struct SpinLockBhBackend;

// SAFETY: `spinlock_t` gives mutual exclusion; `relock` is the provided one, which
// locks as `lock` does.
unsafe impl Backend for SpinLockBhBackend {
    type State = bindings::spinlock_t;
    type GuardState = ();

    #[inline]
    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: The caller promises that `ptr` is valid for writes, and that
        // `name` and `key` live on.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: The caller promises that the lock is initialised.
        unsafe { bindings::rdma_helper_spin_lock_bh(ptr) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: The caller promises that the lock is initialised.
        unsafe { bindings::rdma_helper_spin_trylock_bh(ptr) }.then_some(())
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, (): &Self::GuardState) {
        // SAFETY: The caller owns the lock.
        unsafe { bindings::rdma_helper_spin_unlock_bh(ptr) }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: The caller promises that the lock is initialised.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}
