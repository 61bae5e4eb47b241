// SPDX-License-Identifier: GPL-2.0

//! Module unload: no code of a module may be called after it is freed.
//!
//! Timers, notifiers and registrations are addresses of module functions in lists of the kernel.
//! Each is removed by the drop of a Rust object. An object that is leaked, or kept by a reference
//! that was not put, is not dropped, and the kernel would call freed code. So each object that may
//! be called back holds a [`Resident`], and the module, which
//! [`resident_module!`](crate::resident_module) declares, is not unloaded before all residents are
//! dropped and the RCU callbacks queued until then have run:
//!
//! ```text
//!   exit: drop of the module's fields -> wait until no Resident is left
//!           -> synchronize_rcu (running softirqs have ended) -> rcu_barrier twice -> code is freed
//! ```
//!
//! A leak therefore shows as a module that cannot be unloaded, with a message, and not as a call of
//! freed code. Only objects are counted, not each arming of a timer: a pending timer keeps its
//! object.
//!
//! A callback in process context that drops its own resident as the last thing that it does calls
//! [`Resident::end_at_return`]: the module then also waits until each task has slept or run in user
//! mode, and thus has left the callback. If another context may drop the resident while the callback
//! returns, the object calls [`Resident::outlived_by_callbacks`] when it is created.
//!
//! Work on the system's unbound queue may sleep, so RCU does not wait for it. Only objects that have a
//! resident are queued there ([`enqueue_system`](crate::workqueue::enqueue_system)).

use crate::print;
use crate::sync::rcu;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// Number of objects of a module that the kernel may call back; a static of the module.
pub struct Residents {
    count: Atomic<u64>,
    /// Whether a callback may still be about to return when its resident is gone.
    returning: Atomic<bool>,
}

impl Residents {
    /// Creates a count of zero.
    #[allow(clippy::new_without_default, reason = "only for `resident_module!`")]
    pub const fn new() -> Self {
        Self {
            count: Atomic::new(0),
            returning: Atomic::new(false),
        }
    }
}

/// Implemented by modules that, on exit, wait for their residents and for RCU.
///
/// # Safety
///
/// The module's code and statics must exist until an [`End`] for `residents()` was dropped, which
/// must happen after all other parts of the module have been dropped, but for [`Last`], whose drop
/// calls nothing that residents or RCU could reach.
pub unsafe trait WaitsForResidents {
    /// Returns the module's counter, always the same.
    fn residents() -> &'static Residents;
}

/// Held by an object that the kernel may call back, as long as it may do so. Created by
/// [`resident!`](crate::resident).
///
/// # Invariants
///
/// It is counted in a static of a module that is not unloaded before the count is zero.
pub struct Resident(&'static Residents);

impl Resident {
    /// Creates a resident of the module `M`.
    #[inline]
    pub fn of<M: WaitsForResidents>() -> Self {
        let residents = M::residents();
        // INVARIANT: Counted here; `M` waits for the count (contract of `WaitsForResidents`).
        let _: u64 = residents.count.fetch_add(1u64, Relaxed);
        Self(residents)
    }

    /// Declares that a callback in a task may still be about to return when the resident is dropped
    /// elsewhere: it has left the object, and does nothing more. Until it returns, it must not sleep.
    pub fn outlived_by_callbacks(&self) {
        // Ordered by the drop's release. Read first: the counter is shared by all CPUs.
        if !self.0.returning.load(Relaxed) {
            self.0.returning.store(true, Relaxed);
        }
    }

    /// Drops it in the callback that it belongs to. Until it returns, the callback must not sleep.
    pub fn end_at_return(self) {
        self.outlived_by_callbacks();
    }
}

impl Drop for Resident {
    #[inline]
    fn drop(&mut self) {
        // Release: the accesses of the object's teardown come before.
        let _: u64 = self.0.count.fetch_sub(1u64, Release);
    }
}

/// Creates a [`Resident`](crate::module::Resident) of the module that is being compiled, which
/// [`resident_module!`](crate::resident_module) declared.
#[macro_export]
#[allow(clippy::crate_in_macro_def, reason = "the caller's crate is meant")]
macro_rules! resident {
    () => {
        $crate::module::Resident::of::<crate::LocalModule>()
    };
}

/// Waits, on drop, until there is no [`Resident`] and no RCU callback left. Used by
/// [`resident_module!`](crate::resident_module).
pub struct End(&'static Residents);

impl End {
    /// Creates the end of the module with this counter.
    pub const fn new(residents: &'static Residents) -> Self {
        Self(residents)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut waited: u32 = 0;
        // Acquire: pairs with the drop of a resident.
        while self.0.count.load(Acquire) != 0 {
            waited = waited.saturating_add(1);
            if waited == 10_000 {
                let left = self.0.count.load(Relaxed);
                print::error(fmt!(
                    "a module cannot be unloaded: {left} of its objects may still be called\n"
                ));
            }
            fsleep(Delta::from_millis(1));
        }
        // The softirq that dropped the last resident may still run code of the module.
        rcu::synchronize();
        // Twice: a callback that drops an item of a table may queue the callback of another.
        rcu::barrier();
        rcu::barrier();
        if self.0.returning.load(Relaxed) {
            rcu::synchronize_tasks();
        }
    }
}

/// What a module keeps until all else of it is gone: its drop runs after that of [`End`].
pub trait Last {
    /// Creates it.
    ///
    /// # Safety
    ///
    /// It must be dropped after the [`End`] of the module that it is compiled into, when no code of
    /// the module runs any more but this drop.
    unsafe fn new() -> Self;
}

impl Last for () {
    unsafe fn new() -> Self {}
}

/// Declares a module that waits for its [residents](crate::module::Resident). `$name` is the type
/// for `module!`, and no other compiles; it wraps `$inner`, which implements [`kernel::Module`].
/// `$last`, if any, is dropped at the very end; see [`Last`](crate::module::Last).
///
/// # Examples
///
/// ```ignore
/// resident_module! { struct Main(RxeModule) before Stock; }
///
/// module! {
///     type: Main,
///     name: "rdma_rxe",
/// }
/// ```
#[macro_export]
#[allow(clippy::crate_in_macro_def, reason = "the caller's crate is meant")]
macro_rules! resident_module {
    (struct $name:ident($inner:ty);) => {
        $crate::resident_module! { struct $name($inner) before (); }
    };
    (struct $name:ident($inner:ty) before $last:ty;) => {
        /// The module, followed by its end: fields are dropped in order of declaration.
        struct $name {
            _inner: $inner,
            _end: $crate::module::End,
            _last: $last,
        }

        // The counter is waited for by `_end`, which is dropped at unload in the module alone, the type
        // that `module!` was given.
        const _: fn($name) -> crate::LocalModule = |module| module;

        impl ::kernel::Module for $name {
            fn init(module: &'static ::kernel::ThisModule) -> ::kernel::error::Result<Self> {
                // Created first, so that they are dropped last, also if the initialisation below
                // fails.
                // SAFETY: Dropped after `end`, here or as a field, when the module's other parts are
                // gone, none of its objects can be called back, and RCU callbacks have run.
                let last = unsafe { <$last as $crate::module::Last>::new() };
                let end = $crate::module::End::new(
                    <Self as $crate::module::WaitsForResidents>::residents(),
                );
                let inner = <$inner as ::kernel::Module>::init(module)?;
                Ok(Self {
                    _inner: inner,
                    _end: end,
                    _last: last,
                })
            }
        }

        // SAFETY: This type is the module's (asserted above), of which the one value is stored in a
        // static of `module!`, which is dropped when the kernel unloads the module, `_end` after the
        // module, and then `_last`. If initialisation fails, `init` drops them in this order, too.
        unsafe impl $crate::module::WaitsForResidents for $name {
            fn residents() -> &'static $crate::module::Residents {
                static RESIDENTS: $crate::module::Residents = $crate::module::Residents::new();
                &RESIDENTS
            }
        }
    };
}
