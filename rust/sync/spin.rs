// SPDX-License-Identifier: GPL-2.0

//! Spinlocks that disable interrupts or bottom halves on this CPU.
//!
//! Both are [`Backend`]s of the `kernel` crate's [`Lock`], so everything that works with a lock
//! works with them. Selection:
//!
//! | the data is also accessed from | lock |
//! |---|---|
//! | process context only | [`kernel::sync::SpinLock`] or a mutex |
//! | softirqs (packets, timers, BH work) | [`SpinLockBh`] |
//! | any context, or unknown callers (kernel verbs) | [`SpinLockIrq`] |
//!
//! C header: `include/linux/spinlock.h`.

use crate::bindings;
use crate::edge::View;
use kernel::ffi::c_char;
use kernel::ffi::c_ulong;
use kernel::sync::lock::Backend;
use kernel::sync::lock::Guard;
use kernel::sync::lock::Lock;

/// Creates a [`SpinLockIrq`] initialiser with its own lock class.
///
/// The name, `"Type::field"`, is shown by lockdep.
///
/// [`SpinLockIrq`]: crate::sync::SpinLockIrq
#[macro_export]
macro_rules! new_spinlock_irq {
    ($inner:expr $(, $name:literal)? $(,)?) => {
        $crate::sync::SpinLockIrq::new(
            $inner, ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!())
    };
}

/// Creates a [`SpinLockBh`] initialiser with its own lock class.
///
/// The name, `"Type::field"`, is shown by lockdep.
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
/// Locking disables interrupts on this CPU; unlocking restores the previous state.
///
/// Guards must be dropped in reverse order of locking, which scopes ensure: the outermost guard
/// stores whether interrupts were enabled.
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

/// Guard of a [`SpinLockIrq`].
pub type SpinLockIrqGuard<'a, T> = Guard<'a, T, SpinLockIrqBackend>;

/// Backend of [`SpinLockIrq`]: `spin_lock_irqsave` and `spin_unlock_irqrestore`.
pub struct SpinLockIrqBackend;

// SAFETY: `spinlock_t` provides mutual exclusion; the default `relock` calls `lock` and stores the
// new flags.
unsafe impl Backend for SpinLockIrqBackend {
    type State = bindings::spinlock_t;
    type GuardState = c_ulong;

    #[inline]
    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: The caller guarantees that `ptr` is valid for writes, and that `name` and `key`
        // outlive the lock.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: The caller guarantees that the lock is initialised.
        unsafe { bindings::rdma_helper_spin_lock_irqsave(ptr) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: The caller guarantees that the lock is initialised; `flags` is a local.
        unsafe { bindings::rdma_helper_spin_trylock_irqsave(ptr, &mut flags) }.then_some(flags)
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, flags: &Self::GuardState) {
        // SAFETY: The caller holds the lock, and `flags` was returned when it was taken.
        unsafe { bindings::rdma_helper_spin_unlock_irqrestore(ptr, *flags) }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: The caller guarantees that the lock is initialised.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}

crate::c_struct! {
    /// A spinlock in a C structure, which is taken as a [`SpinLockIrq`] is. A reference guarantees
    /// that it is initialised.
    pub struct IrqLock: bindings::spinlock_t;
    fields {}
}

impl IrqLock {
    /// Takes the lock. Any context.
    #[inline]
    pub fn lock(&self) -> SpinLockIrqGuard<'_, ()> {
        // SAFETY: The lock is initialised as long as the reference exists (guarantee of a
        // reference).
        unsafe { SpinLockIrq::<()>::from_raw(self.raw()) }.lock()
    }
}

/// A spinlock for data that process context and softirqs share, but not hard interrupts.
///
/// Locking disables bottom halves on this CPU. It must not be taken or released while interrupts
/// are disabled: use [`SpinLockIrq`] if a caller may have disabled them.
///
/// # Examples
///
/// ```ignore
/// pin_init!(Device { peers <- new_spinlock_bh!(KVec::new(), "Device::peers") });
///
/// let count = device.peers.lock().len();
/// ```
pub type SpinLockBh<T> = Lock<T, SpinLockBhBackend>;

/// Guard of a [`SpinLockBh`].
pub type SpinLockBhGuard<'a, T> = Guard<'a, T, SpinLockBhBackend>;

/// Backend of [`SpinLockBh`]: `spin_lock_bh` and `spin_unlock_bh`.
pub struct SpinLockBhBackend;

// SAFETY: `spinlock_t` provides mutual exclusion; the default `relock` calls `lock`.
unsafe impl Backend for SpinLockBhBackend {
    type State = bindings::spinlock_t;
    type GuardState = ();

    #[inline]
    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: The caller guarantees that `ptr` is valid for writes, and that `name` and `key`
        // outlive the lock.
        unsafe { bindings::__spin_lock_init(ptr, name, key) }
    }

    #[inline]
    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: The caller guarantees that the lock is initialised.
        unsafe { bindings::rdma_helper_spin_lock_bh(ptr) }
    }

    #[inline]
    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: The caller guarantees that the lock is initialised.
        unsafe { bindings::rdma_helper_spin_trylock_bh(ptr) }.then_some(())
    }

    #[inline]
    unsafe fn unlock(ptr: *mut Self::State, (): &Self::GuardState) {
        // SAFETY: The caller holds the lock.
        unsafe { bindings::rdma_helper_spin_unlock_bh(ptr) }
    }

    #[inline]
    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: The caller guarantees that the lock is initialised.
        unsafe { bindings::spin_assert_is_held(ptr) }
    }
}
