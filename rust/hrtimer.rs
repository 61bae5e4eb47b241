// SPDX-License-Identifier: GPL-2.0

//! One-shot timers that expire in softirq, for delays of microseconds (`struct hrtimer`).
//!
//! A [`Pause`] is a field of an object in an `Arc`, like [`crate::timer::Timer`], and owns a
//! reference to the object while it is pending. It differs in resolution, and in that a pending one
//! cannot be re-armed: its callback starts it again if more time is needed.
//!
//! The timer's reference may be the last one, so the drop of `T` must not sleep. A module is not
//! unloaded while objects with its pauses exist (see [`module`](crate::module)), so their owner
//! calls [`Pause::shutdown`].
//!
//! C header: `include/linux/hrtimer.h`.

use core::marker::PhantomData;

use crate::bindings;
use crate::features::HRTIMER_NORESTART;
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

/// Callback of a pause.
///
/// `ID` distinguishes several pauses of one type.
pub trait PauseCallback<const ID: u64 = 0> {
    /// Runs when the pause has expired. It may start the pause again.
    ///
    /// Context: softirq. Calls for one pause do not overlap. A pause that is started during the
    /// callback is pending already.
    fn run(this: ArcBorrow<'_, Self>);
}

/// Implemented by types that contain a [`Pause<Self, ID>`]; see [`impl_has_pause!`].
///
/// [`impl_has_pause!`]: crate::impl_has_pause
///
/// # Safety
///
/// Both methods must compute the address of the same field, and be inverse to each other.
pub unsafe trait HasPause<const ID: u64 = 0>: Sized {
    /// Returns the field of an object.
    ///
    /// # Safety
    ///
    /// `this` must point to an object of the type.
    unsafe fn raw_pause(this: *const Self) -> *const Pause<Self, ID>;

    /// Returns the object that contains a field.
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
///     impl HasPause<1> for Qp { self.ack_timeout }
/// }
/// ```
#[macro_export]
macro_rules! impl_has_pause {
    ($(impl HasPause$(<$id:tt>)? for $self:ty { self.$field:ident })*) => {$(
        // SAFETY: It compiles only if the field is a pause of this type and ID; the methods add and
        // subtract the field's offset.
        unsafe impl $crate::hrtimer::HasPause$(<$id>)? for $self {
            #[inline]
            unsafe fn raw_pause(
                this: *const Self,
            ) -> *const $crate::hrtimer::Pause<Self $(, $id)?> {
                // SAFETY: The caller guarantees that `this` points to an object.
                unsafe { &raw const (*this).$field }
            }

            #[inline]
            unsafe fn pause_owner(
                pause: *const $crate::hrtimer::Pause<Self $(, $id)?>,
            ) -> *const Self {
                // SAFETY: The caller guarantees that `pause` is this field of an object.
                unsafe { ::kernel::container_of!(pause.cast_mut(), Self, $field) }
            }
        }
    )*};
}
pub use crate::impl_has_pause;

/// A pause in a `T`. Its operations are associated functions that take the object.
///
/// # Invariants
///
/// - While `timer` is pending, it owns one reference to the `Arc` of the object.
/// - `pending` is set before the timer is started, and cleared by its callback.
/// - `closed` never becomes `false` again.
#[pin_data]
pub struct Pause<T, const ID: u64 = 0> {
    #[pin]
    timer: Opaque<bindings::hrtimer>,
    pending: Atomic<bool>,
    closed: Atomic<bool>,
    // The callback is code of the module.
    _resident: Resident,
    _owner: PhantomData<Arc<T>>,
}

// SAFETY: An `hrtimer` may be used from any CPU; another CPU may run the callback and drop the
// object, since `T` is `Send` and `Sync`.
unsafe impl<T: Send + Sync, const ID: u64> Send for Pause<T, ID> {}
// SAFETY: As for `Send`: an `hrtimer` may be used from any CPU, and `T` is `Send` and `Sync`.
unsafe impl<T: Send + Sync, const ID: u64> Sync for Pause<T, ID> {}

impl<T, const ID: u64> Pause<T, ID>
where
    T: HasPause<ID> + PauseCallback<ID> + Send + Sync + 'static,
{
    /// Creates a pause that is not pending; `resident` is [`resident!()`](crate::resident).
    pub fn new(resident: Resident) -> impl PinInit<Self> {
        // INVARIANT: The timer is not pending.
        pin_init!(Self {
            timer <- Opaque::ffi_init(|timer| {
                // SAFETY: `timer` is valid for writes, and `over` is the callback for pauses in a
                // `T`.
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

    /// Starts the pause, unless it is pending or shut down.
    ///
    /// Context: any. Never sleeps.
    pub fn start(this: ArcBorrow<'_, T>, delay: Delta) {
        let pause = Self::of(this);
        if pause.closed.load(Acquire) || pause.pending.xchg(true, Full) {
            return;
        }
        // INVARIANT: The timer owns this reference. It is taken first, because the timer may expire
        // before the call returns.
        let _: *const T = Arc::into_raw(Arc::from(this));
        // SAFETY: The timer is initialised, and this call has set `pending`, so no other call
        // starts it.
        unsafe {
            bindings::hrtimer_start_range_ns(
                pause.timer.get(),
                delay.as_nanos(),
                0,
                bindings::hrtimer_mode_HRTIMER_MODE_REL_SOFT,
            )
        };
        // `shutdown` sets `closed` and then cancels the timer. If the start came first, the
        // cancellation finds the timer; otherwise `closed` is read here or in the callback.
        if pause.closed.load(Acquire) {
            // SAFETY: The timer is initialised.
            if unsafe { bindings::hrtimer_try_to_cancel(pause.timer.get()) } > 0 {
                // SAFETY: The timer was pending, so its reference passes to us (type invariant).
                drop(unsafe { Arc::from_raw(Self::object(this)) });
            }
        }
    }

    /// Cancels the pause, waits for a running callback, and refuses further starts.
    ///
    /// Context: process; the caller must not hold a lock that the callback takes. May sleep.
    pub fn shutdown(this: &Arc<T>) {
        let this = this.as_arc_borrow();
        let pause = Self::of(this);
        pause.closed.xchg(true, Full);
        // SAFETY: The timer is initialised.
        if unsafe { bindings::hrtimer_cancel(pause.timer.get()) } > 0 {
            // SAFETY: The timer was pending, so its reference passes to us (type invariant).
            drop(unsafe { Arc::from_raw(Self::object(this)) });
        }
    }

    fn object(this: ArcBorrow<'_, T>) -> *const T {
        &*this
    }

    fn of(this: ArcBorrow<'_, T>) -> &Self {
        // SAFETY: The object exists during the borrow, and contains the pause (`HasPause`).
        unsafe { &*T::raw_pause(Self::object(this)) }
    }
}

fn clock() -> i32 {
    // CAST: `CLOCK_MONOTONIC` is 1.
    bindings::CLOCK_MONOTONIC as i32
}

/// Timer function of a pause.
///
/// # Safety
///
/// `timer` must be the C part of a `Pause<T, ID>`, and must have just expired.
unsafe extern "C" fn over<T: HasPause<ID> + PauseCallback<ID>, const ID: u64>(
    timer: *mut bindings::hrtimer,
) -> bindings::hrtimer_restart {
    // SAFETY: The caller guarantees that it is the `timer` of a `Pause`.
    let pause: *const Pause<T, ID> =
        unsafe { kernel::container_of!(Opaque::cast_from(timer).cast_mut(), Pause<T, ID>, timer) };
    // SAFETY: Only pauses in a `T` are initialised with this function (`Pause::new`). The timer was
    // pending, so it owned a reference (invariant of `Pause`), which passes to us.
    let this = unsafe { Arc::from_raw(T::pause_owner(pause)) };
    // SAFETY: `this` keeps the object, hence its pause.
    let pause = unsafe { &*pause };
    // From here on the pause may be started again, also by the callback.
    pause.pending.store(false, Relaxed);
    if !pause.closed.load(Acquire) {
        T::run(this.as_arc_borrow());
    }
    HRTIMER_NORESTART
}
