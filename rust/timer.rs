// SPDX-License-Identifier: GPL-2.0

//! Timers with jiffy resolution (`struct timer_list`), owned by the object that contains them.
//!
//! A [`Timer`] is a field of an object in an `Arc`. While it is pending it owns a reference to that
//! object, so the object exists when it expires:
//!
//! ```text
//!            arm (takes a reference)             expiry
//!   idle -----------------------------> pending --------> T::run, reference dropped
//!     ^                                    |
//!     +------ cancel (drops it) -----------+      shutdown: the same, permanently
//! ```
//!
//! The timer's reference may be the last one, so the drop of `T` must not sleep. A module is not
//! unloaded while objects with its timers exist (see [`module`](crate::module)), so their owner
//! calls [`Timer::shutdown`].
//!
//! The timer wheel is coarser for longer delays: a timer never expires early, and up to an eighth
//! of the delay late. For delays below a jiffy, or for precision, use [`kernel::time::hrtimer`].
//!
//! C header: `include/linux/timer.h`.

use core::marker::PhantomData;

use crate::bindings;
use crate::module::Resident;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::LockClassKey;
use kernel::time::Delta;
use kernel::time::Jiffies;
use kernel::types::Opaque;

pub mod closed;

pub use self::closed::Armed;
use self::closed::Closed;

/// Creates a [`Timer`](crate::timer::Timer) initialiser with its own lock class.
///
/// The name, `"Type::field"`, is shown by lockdep.
#[macro_export]
macro_rules! new_timer {
    ($($name:literal)?) => {
        $crate::timer::Timer::new(
            ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!(),
            $crate::resident!())
    };
}
pub use crate::new_timer;

/// Callback of a timer.
///
/// `ID` distinguishes several timers of one type.
pub trait TimerCallback<const ID: u64 = 0> {
    /// Runs when the timer has expired. It may arm the timer again.
    ///
    /// Context: softirq. Calls for one timer do not overlap. A timer that is armed during the
    /// callback is pending already.
    fn run(this: ArcBorrow<'_, Self>);
}

/// Implemented by types that contain a [`Timer<Self, ID>`]; see [`impl_has_timer!`].
///
/// [`impl_has_timer!`]: crate::impl_has_timer
///
/// # Safety
///
/// Both methods must compute the address of the same field, and be inverse to each other.
pub unsafe trait HasTimer<const ID: u64 = 0>: Sized {
    /// Returns the field of an object.
    ///
    /// # Safety
    ///
    /// `this` must point to an object of the type.
    unsafe fn raw_timer(this: *const Self) -> *const Timer<Self, ID>;

    /// Returns the object that contains a field.
    ///
    /// # Safety
    ///
    /// `timer` must point to that field of an object of the type.
    unsafe fn timer_owner(timer: *const Timer<Self, ID>) -> *const Self;
}

/// Implements [`HasTimer`](crate::timer::HasTimer).
///
/// # Examples
///
/// ```ignore
/// impl_has_timer! {
///     impl HasTimer<0> for Qp { self.retransmit }
///     impl HasTimer<1> for Qp { self.rnr }
/// }
/// ```
#[macro_export]
macro_rules! impl_has_timer {
    ($(impl$({$($generics:tt)*})? HasTimer$(<$id:tt>)? for $self:ty { self.$field:ident })*) => {$(
        // SAFETY: It compiles only if the field is a timer of this type and ID; the methods add and
        // subtract the field's offset.
        unsafe impl$(<$($generics)*>)? $crate::timer::HasTimer$(<$id>)? for $self {
            #[inline]
            unsafe fn raw_timer(this: *const Self) -> *const $crate::timer::Timer<Self $(, $id)?> {
                // SAFETY: The caller guarantees that `this` points to an object.
                unsafe { &raw const (*this).$field }
            }

            #[inline]
            unsafe fn timer_owner(
                timer: *const $crate::timer::Timer<Self $(, $id)?>,
            ) -> *const Self {
                // SAFETY: The caller guarantees that `timer` is this field of an object.
                unsafe { ::kernel::container_of!(timer.cast_mut(), Self, $field) }
            }
        }
    )*};
}
pub use crate::impl_has_timer;

/// A timer in a `T`.
///
/// Its operations are associated functions that take the object, for instance
/// `Timer::arm_after(qp.as_arc_borrow(), delay)`, because only an object in an `Arc` can be
/// referenced by a timer.
///
/// # Examples
///
/// ```ignore
/// #[pin_data]
/// struct Qp {
///     #[pin]
///     retransmit: Timer<Qp>,
/// }
///
/// impl_has_timer! { impl HasTimer for Qp { self.retransmit } }
///
/// impl TimerCallback for Qp {
///     fn run(this: ArcBorrow<'_, Self>) { /* send again */ }
/// }
///
/// let qp = Arc::pin_init(
///     pin_init!(Qp { retransmit <- new_timer!("Qp::retransmit") }), GFP_KERNEL)?;
/// Timer::<Qp>::arm_after(qp.as_arc_borrow(), Delta::from_millis(60));
/// // At destruction; afterwards the callback does not run:
/// Timer::<Qp>::shutdown(&qp);
/// ```
///
/// # Invariants
///
/// While `timer` is pending, it owns one reference to the `Arc` of the object.
#[pin_data]
pub struct Timer<T, const ID: u64 = 0> {
    #[pin]
    timer: Opaque<bindings::timer_list>,
    closed: Closed,
    // The callback is code of the module.
    _resident: Resident,
    _owner: PhantomData<Arc<T>>,
}

// SAFETY: A `timer_list` may be used from any CPU; another CPU may run the callback and drop the
// object, since `T` is `Send` and `Sync`.
unsafe impl<T: Send + Sync, const ID: u64> Send for Timer<T, ID> {}
// SAFETY: As for `Send`: a `timer_list` may be used from any CPU, and `T` is `Send` and `Sync`.
unsafe impl<T: Send + Sync, const ID: u64> Sync for Timer<T, ID> {}

impl<T, const ID: u64> Timer<T, ID>
where
    T: HasTimer<ID> + TimerCallback<ID> + Send + Sync + 'static,
{
    /// Creates an idle timer; use [`new_timer!`](crate::new_timer).
    pub fn new(
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
        resident: Resident,
    ) -> impl PinInit<Self> {
        // INVARIANT: The timer is idle.
        pin_init!(Self {
            timer <- Opaque::ffi_init(|timer| {
                // SAFETY: `timer` is valid for writes; name and key are static, and `expired` is
                // the callback for timers in a `T`.
                unsafe {
                    bindings::timer_init_key(
                        timer,
                        Some(expired::<T, ID>),
                        0,
                        name.as_char_ptr(),
                        key.as_ptr(),
                    )
                }
            }),
            closed: Closed::new(),
            _resident: resident,
            _owner: PhantomData,
        })
    }

    /// Arms the timer to expire at `at`, whether it is pending or not.
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// Timer::<Qp>::arm_at(qp, timer::jiffies().wrapping_add(25));
    /// ```
    pub fn arm_at(this: ArcBorrow<'_, T>, at: Jiffies) -> Armed {
        // SAFETY: `arm` passes an initialised timer.
        Self::arm(this, |timer| unsafe { bindings::mod_timer(timer, at) })
    }

    /// Arms the timer to expire when `delay` has passed, never earlier.
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// Timer::<Qp>::arm_after(qp, Delta::from_millis(60));
    /// ```
    pub fn arm_after(this: ArcBorrow<'_, T>, delay: Delta) -> Armed {
        Self::arm_at(this, after(delay))
    }

    /// Arms the timer as [`arm_at`](Self::arm_at) does, unless it is pending with an earlier
    /// expiry.
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// Timer::<Qp>::arm_if_earlier(qp, deadline);
    /// ```
    pub fn arm_if_earlier(this: ArcBorrow<'_, T>, at: Jiffies) -> Armed {
        // SAFETY: `arm` passes an initialised timer.
        Self::arm(this, |timer| unsafe { bindings::timer_reduce(timer, at) })
    }

    /// Cancels the timer. Does not wait for a running callback.
    ///
    /// Returns whether the timer was pending.
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// Timer::<Qp>::cancel(qp); // Everything is acknowledged.
    /// ```
    pub fn cancel(this: ArcBorrow<'_, T>) -> bool {
        // SAFETY: `stop` passes an initialised timer.
        Self::stop(this, |timer| unsafe { bindings::timer_delete(timer) })
    }

    /// Cancels the timer permanently, and waits for a running callback.
    ///
    /// Afterwards [`TimerCallback::run`] does not run, and arming is refused. May be called again.
    ///
    /// Context: process or softirq. The caller must not be the callback, nor hold a lock that the
    /// callback takes. Spins; on `PREEMPT_RT` it sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// Timer::<Qp>::shutdown(&qp);
    /// ```
    pub fn shutdown(this: &Arc<T>) {
        let this = this.as_arc_borrow();
        Self::of(this).closed.shut_down(|| {
            // SAFETY: `stop` passes an initialised timer.
            Self::stop(this, |timer| unsafe { bindings::timer_delete_sync(timer) });
        });
    }

    /// Returns whether the timer is pending. A hint, unless the caller synchronises with other
    /// users.
    ///
    /// Context: any.
    pub fn is_pending(this: ArcBorrow<'_, T>) -> bool {
        let timer = Self::of(this).timer.get();
        // A pending timer is in a list, see `timer_pending`, which takes no lock either.
        // SAFETY: The timer is initialised; concurrent writers write whole pointers.
        !unsafe { core::ptr::read_volatile(&raw const (*timer).entry.pprev) }.is_null()
    }

    fn of(this: ArcBorrow<'_, T>) -> &Self {
        let object: *const T = &*this;
        // SAFETY: `object` exists during the borrow, and contains the timer (`HasTimer`).
        unsafe { &*T::raw_timer(object) }
    }

    /// Arms the timer with `start`, which returns whether it was pending before.
    fn arm(
        this: ArcBorrow<'_, T>,
        start: impl FnOnce(*mut bindings::timer_list) -> c_int,
    ) -> Armed {
        let timer = Self::of(this);
        timer.closed.arm(
            // INVARIANT: This reference passes to the timer if the timer was idle.
            || Arc::into_raw(Arc::from(this)),
            || start(timer.timer.get()) != 0,
            // SAFETY: The timer has a reference already, so the one created above was not passed to
            // it.
            |reference| drop(unsafe { Arc::from_raw(reference) }),
            || {
                Self::cancel(this);
            },
        )
    }

    /// Stops the timer with `delete`, which returns whether it was pending before.
    fn stop(
        this: ArcBorrow<'_, T>,
        delete: impl FnOnce(*mut bindings::timer_list) -> c_int,
    ) -> bool {
        if delete(Self::of(this).timer.get()) == 0 {
            return false;
        }
        let object: *const T = &*this;
        // INVARIANT: The timer is idle now.
        // SAFETY: The timer was pending, so its reference, created by `into_raw`, passes to us
        // (type invariant).
        drop(unsafe { Arc::from_raw(object) });
        true
    }
}

/// Timer function of a timer.
///
/// # Safety
///
/// `timer` must be the C part of a `Timer<T, ID>`, and must have just expired.
unsafe extern "C" fn expired<T, const ID: u64>(timer: *mut bindings::timer_list)
where
    T: HasTimer<ID> + TimerCallback<ID>,
{
    // SAFETY: The caller guarantees that it is the `timer` of a `Timer`.
    let timer: *const Timer<T, ID> =
        unsafe { kernel::container_of!(Opaque::cast_from(timer).cast_mut(), Timer<T, ID>, timer) };
    // SAFETY: Only timers in a `T` are initialised with this function (`Timer::new`). The timer was
    // pending, so it owned a reference (invariant of `Timer`), which passes to us.
    let this = unsafe { Arc::from_raw(T::timer_owner(timer)) };
    // SAFETY: `this` keeps the object, hence its timer.
    unsafe { &*timer }
        .closed
        .expired(|| T::run(this.as_arc_borrow()));
}

crate::import! {
    in crate::bindings;

    /// Pure arithmetic without preconditions, as the next one.
    fn nsecs_to_jiffies64(nanos: u64) -> u64 = nsecs_to_jiffies64;
    fn jiffies64_to_nsecs(ticks: u64) -> u64 = jiffies64_to_nsecs;
    /// Timekeeping is initialised before modules are loaded.
    fn ktime_get() -> i64 = ktime_get;
}

/// Returns the current value of the jiffies counter, which wraps.
///
/// Context: any.
#[inline]
pub fn jiffies() -> Jiffies {
    // SAFETY: The counter is a global of the kernel; the volatile read is the one that C does.
    unsafe { core::ptr::read_volatile(&raw const bindings::jiffies) }
}

/// Returns the first tick at which `delay` has certainly passed; a negative delay counts as zero.
///
/// Context: any.
///
/// # Examples
///
/// ```ignore
/// let deadline = timer::after(Delta::from_secs(2));
/// ```
pub fn after(delay: Delta) -> Jiffies {
    let nanos = u64::try_from(delay.as_nanos()).unwrap_or(0);
    let whole = nsecs_to_jiffies64(nanos);
    let rounded_down = jiffies64_to_nsecs(whole) < nanos;
    let ticks = whole.saturating_add(u64::from(rounded_down));
    // Limited, because a tick more than half the counter's range ahead counts as past.
    let ticks = Jiffies::try_from(ticks).map_or(Jiffies::MAX / 4, |t| t.min(Jiffies::MAX / 4));
    // One more tick, since the current one began before now.
    jiffies().wrapping_add(ticks).wrapping_add(1)
}

/// Returns the time since boot in nanoseconds, which is monotonic (`CLOCK_MONOTONIC`).
///
/// Context: any but NMI.
#[inline]
pub fn monotonic_nanos() -> u64 {
    u64::try_from(ktime_get()).unwrap_or(0)
}
