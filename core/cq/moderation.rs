// SPDX-License-Identifier: GPL-2.0

//! Moderation of a queue by itself: the kernel's library of that name counts completions, and
//! says when another profile would do better (`include/linux/dim.h`).
//!
//! For devices whose driver asks for it, and only where the core polls.

use super::Context;
use crate::verbs::object::Cq;
use crate::verbs::object::Object;
use core::mem::offset_of;
use kernel::prelude::*;
use rdma::bindings;

/// A profile: an event comes after so many microseconds, or completions.
struct Profile {
    usec: u16,
    completions: u16,
}

const fn profile(usec: u16, completions: u16) -> Profile {
    Profile { usec, completions }
}

/// From the least delay to the fewest events, as the library walks them.
const PROFILES: [Profile; crate::private::RDMA_DIM_PARAMS_NUM_PROFILES as usize] = [
    profile(1, 1),
    profile(1, 4),
    profile(2, 4),
    profile(2, 8),
    profile(4, 8),
    profile(16, 8),
    profile(16, 16),
    profile(32, 16),
    profile(32, 32),
];

/// Begins to measure, if the driver wants that, and there is memory.
///
/// # Safety
///
/// `cq` is a queue that the driver has made, and that nobody uses yet.
pub(super) unsafe fn begin(cq: *mut bindings::ib_cq, context: Context) {
    // SAFETY: By this function's duty.
    let device = unsafe { Cq::from_raw(cq) }.device();
    // SAFETY: The device lives.
    let wanted = unsafe { (*device.as_raw()).use_cq_dim() } != 0;
    if !wanted || device.ops().modify_cq.is_none() || context == Context::Direct {
        return;
    }
    let Ok(mut dim) = KBox::new(bindings::dim::default(), GFP_KERNEL) else {
        return;
    };
    dim.state = crate::private::dim_state_DIM_START_MEASURE as u8;
    dim.tune_state = crate::private::dim_tune_state_DIM_GOING_RIGHT as u8;
    dim.profile_ix = crate::private::RDMA_DIM_START_PROFILE as u8;
    dim.priv_ = cq.cast();
    let dim = KBox::into_raw(dim);
    // SAFETY: The measure is at its place until `end`; the queue is not in use.
    unsafe {
        bindings::rdma_helper_init_work(&raw mut (*dim).work, Some(on_work));
        (*cq).dim = dim;
    }
}

/// Counts what was polled in one turn.
///
/// # Safety
///
/// `cq` lives, and nobody else calls this for it meanwhile, or [`end`].
#[inline]
pub(super) unsafe fn note(cq: *mut bindings::ib_cq, completions: u32) {
    // SAFETY: By this function's duty.
    unsafe {
        let dim = (*cq).dim;
        if !dim.is_null() {
            crate::private::rdma_dim(dim, completions.into());
        }
    }
}

/// Applies the profile that the library has chosen.
///
/// # Safety
///
/// For work queues only: `work` is part of a measure that [`begin`] made.
unsafe extern "C" fn on_work(work: *mut bindings::work_struct) {
    let dim: *mut bindings::dim = work
        .wrapping_byte_sub(offset_of!(bindings::dim, work))
        .cast();
    // SAFETY: By this function's duty, `end` waits for us; the queue lives longer.
    unsafe {
        let cq: *mut bindings::ib_cq = (*dim).priv_.cast();
        let chosen = PROFILES.get(usize::from((*dim).profile_ix));
        (*dim).state = crate::private::dim_state_DIM_START_MEASURE as u8;
        let modify = Cq::from_raw(cq).device().ops().modify_cq;
        let (Some(profile), Some(modify)) = (chosen, modify) else {
            return;
        };
        bindings::rdma_helper_trace_cq_modify(cq, profile.completions, profile.usec);
        // It is advice: a driver that fails goes on as before.
        let _: kernel::ffi::c_int = modify(cq, profile.completions, profile.usec);
    }
}

/// Ends the measure. May sleep.
///
/// # Safety
///
/// `cq` is not polled any more.
pub(super) unsafe fn end(cq: *mut bindings::ib_cq) {
    // SAFETY: By this function's duty nobody queues the work any more; `begin` allocated it.
    unsafe {
        let dim = (*cq).dim;
        if dim.is_null() {
            return;
        }
        (*cq).dim = core::ptr::null_mut();
        bindings::cancel_work_sync(&raw mut (*dim).work);
        drop(KBox::from_raw(dim));
    }
}
