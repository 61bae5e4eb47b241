// SPDX-License-Identifier: GPL-2.0

//! Locks in statics ([`kernel::sync::global_lock!`]) whose initialisation is safe.

use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::GlobalLock;
use kernel::sync::GlobalLockBackend;

/// A lock that knows whether it was initialised. [`global_lock!`](crate::global_lock) implements it.
///
/// # Safety
///
/// `begun` is always the same flag, which is false at first, and which only [`init_once`] changes.
pub unsafe trait InitOnce: GlobalLockBackend {
    /// The flag.
    fn begun() -> &'static Atomic<bool>;
}

/// Initialises a lock. The second call does nothing; it does not wait for the first, so this is for
/// the initialisation of a module, which is done by one thread.
pub fn init_once<B: InitOnce>(lock: &'static GlobalLock<B>) {
    if !B::begun().xchg(true, Relaxed) {
        // SAFETY: No other call finds the flag false (contract of `InitOnce`), and there is one lock
        // of this type.
        unsafe { lock.init() };
    }
}

/// As [`kernel::sync::global_lock!`], for a lock that [`init_once`](crate::sync::init_once)
/// initialises. Whoever declares it promises the same: that this happens before it is used.
#[macro_export]
macro_rules! global_lock {
    (
        $(#[$meta:meta])* $vis:vis
        unsafe(uninit) static $name:ident: $kind:ident<$of:ty> = $value:expr;
    ) => {
        ::kernel::sync::global_lock! {
            $(#[$meta])* $vis
            unsafe(uninit) static $name: $kind<$of> = $value;
        }

        // SAFETY: A static that nobody else can name.
        unsafe impl $crate::sync::InitOnce for $name {
            fn begun() -> &'static ::kernel::sync::atomic::Atomic<bool> {
                static BEGUN: ::kernel::sync::atomic::Atomic<bool> =
                    ::kernel::sync::atomic::Atomic::new(false);
                &BEGUN
            }
        }
    };
}
