// SPDX-License-Identifier: GPL-2.0

//! The end of a module: nothing that the kernel calls back outlives the code.
//!
//! Timers, notifiers and registrations are addresses of a module's functions in lists of the
//! kernel. Each is ended by the drop of a Rust object; but an object that is leaked, or kept by a
//! reference count that somebody forgot, is not dropped, and the kernel would call code that was
//! unloaded. So whatever may be called back has a [`Resident`], and the module, which
//! [`resident_module!`](crate::resident_module) declares, does not end before all of them have
//! gone, nor before the RCU callbacks have run that were queued until then:
//!
//! ```text
//!   exit: drop of the module's fields -> wait until no Resident is left
//!           -> synchronize_rcu (a softirq is at its end) -> rcu_barrier -> code is freed
//! ```
//!
//! A mistake therefore shows as a module that cannot be unloaded, with a message, and not as a
//! call into freed memory. Only objects are counted, not each arming of a timer: a timer that is
//! pending keeps its object.
//!
//! What this does not cover: work on the system's queues, which sleeps and so is not waited for
//! by RCU; who queues it keeps the module by other means.

use crate::sync::rcu;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::time::delay::fsleep;
use kernel::time::Delta;

/// How many objects of a module the kernel may call back; a static of the module.
pub struct Residents(Atomic<u64>);

impl Residents {
    /// With none.
    #[allow(clippy::new_without_default, reason = "only for `resident_module!`")]
    pub const fn new() -> Self {
        Self(Atomic::new(0))
    }
}

/// Says that a module, at its end, waits for its residents and for RCU.
///
/// # Safety
///
/// The module's code and statics stay until an [`End`] for `residents()` was dropped, which
/// happens after the module has ended in all other respects.
pub unsafe trait WaitsForResidents {
    /// The same each time.
    fn residents() -> &'static Residents;
}

/// An object that the kernel may call back. It has this as long as that is so; get one by
/// [`resident!`](crate::resident).
///
/// # Invariants
///
/// It is counted, in a static of a module that does not end before the count is zero.
pub struct Resident(&'static Residents);

impl Resident {
    /// One more, of the module `M`.
    #[inline]
    pub fn of<M: WaitsForResidents>() -> Self {
        let residents = M::residents();
        // INVARIANT: Counted here; `M` waits, by the promise of its trait.
        let _: u64 = residents.0.fetch_add(1u64, Relaxed);
        Self(residents)
    }
}

impl Drop for Resident {
    #[inline]
    fn drop(&mut self) {
        // Release: all that was done to end the object comes before.
        let _: u64 = self.0 .0.fetch_sub(1u64, Release);
    }
}

/// A [`Resident`](crate::module::Resident) of the module that is being compiled, which
/// [`resident_module!`](crate::resident_module) has declared.
#[macro_export]
#[allow(clippy::crate_in_macro_def, reason = "the caller's crate is meant")]
macro_rules! resident {
    () => {
        $crate::module::Resident::of::<crate::LocalModule>()
    };
}

/// Ends a module when it is dropped: waits until there is no [`Resident`] and no RCU callback.
/// For [`resident_module!`](crate::resident_module).
pub struct End(&'static Residents);

impl End {
    /// Of these.
    pub const fn new(residents: &'static Residents) -> Self {
        Self(residents)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let mut waited: u32 = 0;
        // Acquire: pairs with the drop of a resident.
        while self.0 .0.load(Acquire) != 0 {
            waited = waited.saturating_add(1);
            if waited == 10_000 {
                say(self.0 .0.load(Relaxed));
            }
            fsleep(Delta::from_millis(1));
        }
        // Whoever dropped the last one may still be in a softirq of ours.
        rcu::synchronize();
        rcu::barrier();
    }
}

/// Tells what the module waits for.
#[cold]
fn say(left: u64) {
    // SAFETY: The format is one of the kernel crate, and the name ends with a zero.
    unsafe {
        kernel::print::call_printk(
            &kernel::print::format_strings::ERR,
            b"rdma\0",
            fmt!("a module cannot be unloaded: {left} of its objects may still be called\n"),
        )
    };
}

/// Declares a module that waits for its [residents](crate::module::Resident): `$name`, to be
/// named in `module!`, wraps `$inner`, which implements [`kernel::Module`].
///
/// # Examples
///
/// ```ignore
/// resident_module! { struct Main(RxeModule); }
///
/// module! {
///     type: Main,
///     name: "rdma_rxe",
/// }
/// ```
#[macro_export]
macro_rules! resident_module {
    (struct $name:ident($inner:ty);) => {
        /// The module, and then its end. Fields are dropped in this order.
        struct $name {
            _inner: $inner,
            _end: $crate::module::End,
        }

        impl ::kernel::Module for $name {
            fn init(module: &'static ::kernel::ThisModule) -> ::kernel::error::Result<Self> {
                // First, so that it is dropped last, also if the rest fails.
                let end = $crate::module::End::new(
                    <Self as $crate::module::WaitsForResidents>::residents(),
                );
                let inner = <$inner as ::kernel::Module>::init(module)?;
                Ok(Self {
                    _inner: inner,
                    _end: end,
                })
            }
        }

        // SAFETY: A module of this type lives in a static of `module!`, which drops it when the
        // kernel unloads the module, `_end` last; and if it cannot be loaded, `init` does.
        unsafe impl $crate::module::WaitsForResidents for $name {
            fn residents() -> &'static $crate::module::Residents {
                static RESIDENTS: $crate::module::Residents = $crate::module::Residents::new();
                &RESIDENTS
            }
        }
    };
}
