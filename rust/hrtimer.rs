// SPDX-License-Identifier: GPL-2.0

//! A short wait, ended by a softirq: for delays of microseconds.
//!
//! A [`Pause`] is a field of an object kept in an `Arc`, like [`crate::timer::Timer`],
//! and like that it owns a reference to the object while it is pending. It differs in
//! grain, and in that a pending one cannot be moved: who wants more time starts it
//! again when it is over.
//!
//! That reference may be the last, so `T`'s drop must not sleep. A module does not end before
//! the objects with its pauses have gone (see [`module`](crate::module)), so it shuts them down.
//!
//! C header: `include/linux/hrtimer.h`.

use core::marker::PhantomData;

use crate::bindings;
use crate::module::Resident;
use kernel::prelude::*;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::time::Delta;
use kernel::types::Opaque;

/// What happens when the pause of an object is over.
///
/// `ID` tells several pauses of one type apart.
pub trait PauseCallback<const ID: u64 = 0> {
    /// The pause is over; it may be started again.
    ///
    /// Context: softirq. Never twice at a time, but a pause started meanwhile is pending
    /// already.
    fn run(this: ArcBorrow<'_, Self>);
}

/// Declares that a type contains a [`Pause<Self, ID>`]; see [`impl_has_pause!`].
///
/// [`impl_has_pause!`]: crate::impl_has_pause
///
/// # Safety
///
/// Both methods must compute the address of one field, and be each other's inverse.
pub unsafe trait HasPause<const ID: u64 = 0>: Sized {
    /// The field of an object.
    ///
    /// # Safety
    ///
    /// `this` must point to an object of the type.
    unsafe fn raw_pause(this: *const Self) -> *const Pause<Self, ID>;

    /// The object of a field.
    ///
    /// # Safety
    ///
    /// `pause` must point to that field of an object of the type.
    unsafe fn pause_owner(pause: *const Pause<Self, ID>) -> *const Self;
}

/// Implements [`HasPause`](crate::hrtimer::HasPause).
///
/// # Examples
///
/// ```ignore
/// impl_has_pause! {
///     impl HasPause<0> for Qp { self.cork }
///     impl HasPause<1> for Qp { self.ride }
/// }
/// ```
#[macro_export]
macro_rules! impl_has_pause {
    ($(impl HasPause$(<$id:tt>)? for $self:ty { self.$field:ident })*) => {$(
        // SAFETY: It only compiles if the field is such a pause; both methods add and
        // subtract its offset.
        unsafe impl $crate::hrtimer::HasPause$(<$id>)? for $self {
            #[inline]
            unsafe fn raw_pause(
                this: *const Self,
            ) -> *const $crate::hrtimer::Pause<Self $(, $id)?> {
                // SAFETY: The caller promises that `this` points to an object.
                unsafe { &raw const (*this).$field }
            }

            #[inline]
            unsafe fn pause_owner(
                pause: *const $crate::hrtimer::Pause<Self $(, $id)?>,
            ) -> *const Self {
                // SAFETY: The caller promises that it is this field of an object.
                unsafe { ::kernel::container_of!(pause.cast_mut(), Self, $field) }
            }
        }
    )*};
}
pub use crate::impl_has_pause;

/// A pause of a `T`. Its operations are associated functions that take the object.
///
/// # Invariants
///
/// - While `timer` is pending, one reference to the `Arc` around the object is its.
/// - `pending` is set before the timer is started, and cleared by whoever finds it ended
///   or stops it.
/// - `closed` never becomes `false` again.
#[pin_data]
pub struct Pause<T, const ID: u64 = 0> {
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    pending: Atomic<bool>,
    closed: Atomic<bool>,
    // The callback is the module's code.
    _resident: Resident,
    _owner: PhantomData<Arc<T>>,
}

// SAFETY: An `hrtimer` may be used from any CPU, and other CPUs may run the callback
// and drop the object.
unsafe impl<T: Send + Sync, const ID: u64> Send for Pause<T, ID> {}
// SAFETY: As for `Send`.
unsafe impl<T: Send + Sync, const ID: u64> Sync for Pause<T, ID> {}

impl<T, const ID: u64> Pause<T, ID>
where
    T: HasPause<ID> + PauseCallback<ID> + Send + Sync + 'static,
{
    /// One that is not pending; `resident` is [`resident!()`](crate::resident).
    pub fn new(resident: Resident) -> impl PinInit<Self> {
        // INVARIANT: It is not pending.
        pin_init!(Self {
            timer <- Opaque::ffi_init(|timer| {
                // SAFETY: `timer` is valid for writes, and `over` suits pauses inside
                // a `T`.
                unsafe {
                    bindings::hrtimer_setup(
                        timer,
                        Some(over::<T, ID>),
                        clock(),
                        bindings::hrtimer_mode_HRTIMER_MODE_REL_SOFT,
                    )
                }
            }),
            pending: Atomic::new(false),
            closed: Atomic::new(false),
            _resident: resident,
            _owner: PhantomData,
        })
    }

    /// Starts the pause, unless it is pending already.
    ///
    /// Context: any. Never sleeps.
    pub fn start(this: ArcBorrow<'_, T>, delay: Delta) {
        let pause = Self::of(this);
        if pause.closed.load(Acquire) || pause.pending.xchg(true, Full) {
            return;
        }
        // INVARIANT: The reference is the timer's. It comes first: the timer may fire
        // before the call is back.
        let _: *const T = Arc::into_raw(Arc::from(this));
        // SAFETY: The timer is initialised, and `pending` says that it is ours to start.
        unsafe {
            bindings::hrtimer_start_range_ns(
                pause.timer.get(),
                delay.as_nanos(),
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_REL_SOFT,
            )
        };
        // `shutdown` sets `closed` and then cancels. If the start came first, it was
        // cancelled there; else `closed` is read here, or in the callback.
        if pause.closed.load(Acquire) {
            // SAFETY: The timer is initialised.
            if unsafe { bindings::hrtimer_try_to_cancel(pause.timer.get()) } > 0 {
                // SAFETY: The timer was pending, so its reference is ours now.
                drop(unsafe { Arc::from_raw(Self::object(this)) });
            }
        }
    }

    /// Ends the pause without its callback, for good, and waits for one that runs.
    ///
    /// Context: task; not with a lock held that the callback takes. It may sleep.
    pub fn shutdown(this: &Arc<T>) {
        let this = this.as_arc_borrow();
        let pause = Self::of(this);
        pause.closed.xchg(true, Full);
        // SAFETY: The timer is initialised.
        if unsafe { bindings::hrtimer_cancel(pause.timer.get()) } > 0 {
            // SAFETY: The timer was pending, so its reference is ours now.
            drop(unsafe { Arc::from_raw(Self::object(this)) });
        }
    }

    fn object(this: ArcBorrow<'_, T>) -> *const T {
        &*this
    }

    fn of(this: ArcBorrow<'_, T>) -> &Self {
        // SAFETY: The object is alive as long as the borrow, and has such a pause.
        unsafe { &*T::raw_pause(Self::object(this)) }
    }
}

fn clock() -> i32 {
    // CAST: it is 1.
    bindings::CLOCK_MONOTONIC as i32
}

/// What the kernel calls when a pause is over.
///
/// # Safety
///
/// `timer` must be the C part of a `Pause<T, ID>` that was pending and is not now.
unsafe extern "C" fn over<T: HasPause<ID> + PauseCallback<ID>, const ID: u64>(
    timer: *mut bindings::hrtimer,
) -> bindings::hrtimer_restart {
    // SAFETY: The caller promises that it is the `timer` of a `Pause`.
    let pause: *const Pause<T, ID> =
        unsafe { kernel::container_of!(Opaque::cast_from(timer).cast_mut(), Pause<T, ID>, timer) };
    // SAFETY: Only the timers that `HasPause` names are initialised with this function;
    // and by the type invariant of `Pause` a reference comes with it.
    let this = unsafe { Arc::from_raw(T::pause_owner(pause)) };
    // SAFETY: The object, hence its pause, is alive.
    let pause = unsafe { &*pause };
    // From here on it may be started anew, also by the callback.
    pause.pending.store(false, Relaxed);
    if !pause.closed.load(Acquire) {
        T::run(this.as_arc_borrow());
    }
    bindings::hrtimer_restart_HRTIMER_NORESTART
}
