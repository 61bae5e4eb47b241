// SPDX-License-Identifier: GPL-2.0

//! Locks in statics ([`kernel::sync::global_lock!`]) with safe initialisation.

use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::GlobalLock;
use kernel::sync::GlobalLockBackend;

/// A lock that records whether it was initialised. Implemented by
/// [`global_lock!`](crate::global_lock).
///
/// # Safety
///
/// `begun` always returns the same flag, which is initially false and changed only by
/// [`init_once`].
pub unsafe trait InitOnce: GlobalLockBackend {
    /// Returns the flag.
    fn begun() -> &'static Atomic<bool>;
}

/// Initialises a lock. Further calls have no effect. They do not wait for the first one, so this is
/// for module initialisation, which is single-threaded.
pub fn init_once<B: InitOnce>(lock: &'static GlobalLock<B>) {
    if !B::begun().xchg(true, Relaxed) {
        // SAFETY: No other call finds the flag false (contract of `InitOnce`), and each type of
        // lock has only one static.
        unsafe { lock.init() };
    }
}

/// Declares a lock as [`kernel::sync::global_lock!`] does, to be initialised by
/// [`init_once`](crate::sync::init_once). The declaration promises the same: that it is initialised
/// before it is used.
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

        // SAFETY: The static is private to this function.
        unsafe impl $crate::sync::InitOnce for $name {
            fn begun() -> &'static ::kernel::sync::atomic::Atomic<bool> {
                static BEGUN: ::kernel::sync::atomic::Atomic<bool> =
                    ::kernel::sync::atomic::Atomic::new(false);
                &BEGUN
            }
        }
    };
}
