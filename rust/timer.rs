// SPDX-License-Identifier: GPL-2.0

//! Timers of one-jiffy grain, owned by what they time.
//!
//! A [`Timer`] is a field of an object kept in an `Arc`. While it is pending it owns
//! a reference to that object, so it can never fire into freed memory:
//!
//! ```text
//!            arm (takes a reference)             expiry
//!   idle -----------------------------> pending --------> T::run, reference dropped
//!     ^                                    |
//!     +------ cancel (drops it) -----------+      shutdown: the same, for good
//! ```
//!
//! That reference may be the last, so `T`'s drop must not sleep. A module does not end before
//! the objects with its timers have gone (see [`module`](crate::module)), so it shuts them down.
//!
//! The longer the delay, the coarser the kernel's timer wheel: a timer is never
//! early, and late by up to an eighth of the delay. For less than a jiffy, or for
//! precision, use [`kernel::time::hrtimer`].
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

/// Creates a [`Timer`](crate::timer::Timer) initialiser with a lock class of its own.
///
/// The name, `"Type::field"`, is what lockdep prints.
#[macro_export]
macro_rules! new_timer {
    ($($name:literal)?) => {
        $crate::timer::Timer::new(
            ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!(),
            $crate::resident!())
    };
}
pub use crate::new_timer;

/// What happens when a timer of an object expires.
///
/// `ID` tells several timers of one type apart.
pub trait TimerCallback<const ID: u64 = 0> {
    /// Runs after the timer expired; it may arm the timer again.
    ///
    /// Context: softirq. Never twice at a time for one timer, but a timer armed
    /// meanwhile is pending already.
    fn run(this: ArcBorrow<'_, Self>);
}

/// Declares that a type contains a [`Timer<Self, ID>`]; see [`impl_has_timer!`].
///
/// [`impl_has_timer!`]: crate::impl_has_timer
///
/// # Safety
///
/// Both methods must compute the address of one field, and be each other's inverse.
pub unsafe trait HasTimer<const ID: u64 = 0>: Sized {
    /// The field of an object.
    ///
    /// # Safety
    ///
    /// `this` must point to an object of the type.
    unsafe fn raw_timer(this: *const Self) -> *const Timer<Self, ID>;

    /// The object of a field.
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
        // SAFETY: It only compiles if the field is such a timer; both methods add and
        // subtract its offset.
        unsafe impl$(<$($generics)*>)? $crate::timer::HasTimer$(<$id>)? for $self {
            #[inline]
            unsafe fn raw_timer(this: *const Self) -> *const $crate::timer::Timer<Self $(, $id)?> {
                // SAFETY: The caller promises that `this` points to an object.
                unsafe { &raw const (*this).$field }
            }

            #[inline]
            unsafe fn timer_owner(
                timer: *const $crate::timer::Timer<Self $(, $id)?>,
            ) -> *const Self {
                // SAFETY: The caller promises that it is this field of an object.
                unsafe { ::kernel::container_of!(timer.cast_mut(), Self, $field) }
            }
        }
    )*};
}
pub use crate::impl_has_timer;

/// A timer inside a `T`.
///
/// Its operations are associated functions that take the object, `Timer::arm_after(
/// qp.as_arc_borrow(), delay)`: only an object in an `Arc` can be kept by a timer.
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
/// // At destruction, so that nothing of it runs any more:
/// Timer::<Qp>::shutdown(&qp);
/// ```
///
/// # Invariants
///
/// While `timer` is pending, one reference to the `Arc` around the object is its.
#[pin_data]
pub struct Timer<T, const ID: u64 = 0> {
    #[pin]
    timer: Opaque<bindings::timer_list>,
    closed: Closed,
    // The callback is the module's code.
    _resident: Resident,
    _owner: PhantomData<Arc<T>>,
}

// SAFETY: A `timer_list` may be used from any CPU, and other CPUs may run the callback
// and drop the object.
unsafe impl<T: Send + Sync, const ID: u64> Send for Timer<T, ID> {}
// SAFETY: As for `Send`.
unsafe impl<T: Send + Sync, const ID: u64> Sync for Timer<T, ID> {}

impl<T, const ID: u64> Timer<T, ID>
where
    T: HasTimer<ID> + TimerCallback<ID> + Send + Sync + 'static,
{
    /// Makes an idle timer; use [`new_timer!`](crate::new_timer).
    pub fn new(
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
        resident: Resident,
    ) -> impl PinInit<Self> {
        // INVARIANT: It is idle.
        pin_init!(Self {
            timer <- Opaque::ffi_init(|timer| {
                // SAFETY: `timer` is valid for writes; name and key are static, and
                // `expired` suits timers inside a `T`.
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

    /// Lets the timer expire at `at`, whether it is pending or not.
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// Timer::<Qp>::arm_at(qp, timer::jiffies().wrapping_add(25));
    /// ```
    pub fn arm_at(this: ArcBorrow<'_, T>, at: Jiffies) -> Armed {
        // SAFETY: `arm` gives an initialised timer.
        Self::arm(this, |timer| unsafe { bindings::mod_timer(timer, at) })
    }

    /// Lets the timer expire once `delay` has passed, never earlier.
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

    /// Like [`arm_at`](Self::arm_at), but leaves a pending timer that is earlier alone.
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// Timer::<Qp>::arm_if_earlier(qp, deadline);
    /// ```
    pub fn arm_if_earlier(this: ArcBorrow<'_, T>, at: Jiffies) -> Armed {
        // SAFETY: `arm` gives an initialised timer.
        Self::arm(this, |timer| unsafe { bindings::timer_reduce(timer, at) })
    }

    /// Makes the timer idle, without waiting for a callback that runs meanwhile.
    ///
    /// Returns whether it was pending.
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// Timer::<Qp>::cancel(qp); // All is acknowledged.
    /// ```
    pub fn cancel(this: ArcBorrow<'_, T>) -> bool {
        // SAFETY: `stop` gives an initialised timer.
        Self::stop(this, |timer| unsafe { bindings::timer_delete(timer) })
    }

    /// Makes the timer idle for good, and waits for a callback that runs meanwhile.
    ///
    /// Afterwards [`TimerCallback::run`] does not run, and arming is refused. It may
    /// be called again.
    ///
    /// Context: task or softirq; not from the callback, nor with a lock held that it
    /// takes. It spins, and on `PREEMPT_RT` sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// Timer::<Qp>::shutdown(&qp);
    /// ```
    pub fn shutdown(this: &Arc<T>) {
        let this = this.as_arc_borrow();
        Self::of(this).closed.shut_down(|| {
            // SAFETY: `stop` gives an initialised timer.
            Self::stop(this, |timer| unsafe { bindings::timer_delete_sync(timer) });
        });
    }

    /// Whether the timer is pending; a hint, unless the caller knows who else uses it.
    ///
    /// Context: any.
    pub fn is_pending(this: ArcBorrow<'_, T>) -> bool {
        let timer = Self::of(this).timer.get();
        // A pending timer is in a list; the kernel reads it without a lock, too.
        // SAFETY: The timer is initialised; the racing writers write whole pointers.
        !unsafe { core::ptr::read_volatile(&raw const (*timer).entry.pprev) }.is_null()
    }

    fn of(this: ArcBorrow<'_, T>) -> &Self {
        let object: *const T = &*this;
        // SAFETY: `object` is alive as long as the borrow, and has such a timer.
        unsafe { &*T::raw_timer(object) }
    }

    /// Arms with `start`, which tells whether the timer was pending before.
    fn arm(
        this: ArcBorrow<'_, T>,
        start: impl FnOnce(*mut bindings::timer_list) -> c_int,
    ) -> Armed {
        let timer = Self::of(this);
        timer.closed.arm(
            // INVARIANT: It becomes the timer's if the timer was idle.
            || Arc::into_raw(Arc::from(this)),
            || start(timer.timer.get()) != 0,
            // SAFETY: The timer has one already, so this one, made above, is still ours.
            |reference| drop(unsafe { Arc::from_raw(reference) }),
            || {
                Self::cancel(this);
            },
        )
    }

    /// Stops with `delete`, which tells whether the timer was pending before.
    fn stop(
        this: ArcBorrow<'_, T>,
        delete: impl FnOnce(*mut bindings::timer_list) -> c_int,
    ) -> bool {
        if delete(Self::of(this).timer.get()) == 0 {
            return false;
        }
        let object: *const T = &*this;
        // INVARIANT: It is idle now.
        // SAFETY: It was pending, so its reference, made by `into_raw`, is ours now.
        drop(unsafe { Arc::from_raw(object) });
        true
    }
}

/// What the kernel calls when a timer expires.
///
/// # Safety
///
/// `timer` must be the C part of a `Timer<T, ID>` that was pending and is not now.
unsafe extern "C" fn expired<T, const ID: u64>(timer: *mut bindings::timer_list)
where
    T: HasTimer<ID> + TimerCallback<ID>,
{
    // SAFETY: The caller promises that it is the `timer` of a `Timer`.
    let timer: *const Timer<T, ID> =
        unsafe { kernel::container_of!(Opaque::cast_from(timer).cast_mut(), Timer<T, ID>, timer) };
    // SAFETY: Only the timers that `HasTimer` names are initialised with this
    // function; and by the type invariant of `Timer` a reference comes with it.
    let this = unsafe { Arc::from_raw(T::timer_owner(timer)) };
    // SAFETY: The object, hence its timer, is alive.
    unsafe { &*timer }
        .closed
        .expired(|| T::run(this.as_arc_borrow()));
}

crate::import! {
    in crate::bindings;

    /// Plain arithmetic, as the next one.
    fn nsecs_to_jiffies64(nanos: u64) -> u64 = nsecs_to_jiffies64;
    fn jiffies64_to_nsecs(ticks: u64) -> u64 = jiffies64_to_nsecs;
    /// Timekeeping runs when modules do.
    fn ktime_get() -> i64 = ktime_get;
}

/// The kernel's clock in ticks, as timers count it. It wraps.
///
/// Context: any.
#[inline]
pub fn jiffies() -> Jiffies {
    // SAFETY: It is always there, and read as the kernel reads it.
    unsafe { core::ptr::read_volatile(&raw const bindings::jiffies) }
}

/// The tick at which `delay` has surely passed; a negative delay has already.
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
    // Time beyond half of what the counter holds would lie in the past.
    let ticks = Jiffies::try_from(ticks).map_or(Jiffies::MAX / 4, |t| t.min(Jiffies::MAX / 4));
    // One more, since the current tick began before now.
    jiffies().wrapping_add(ticks).wrapping_add(1)
}

/// The time since boot in nanoseconds, which never goes back (`CLOCK_MONOTONIC`).
///
/// Context: any but NMI.
#[inline]
pub fn monotonic_nanos() -> u64 {
    u64::try_from(ktime_get()).unwrap_or(0)
}
