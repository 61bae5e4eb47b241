// SPDX-License-Identifier: GPL-2.0

//! Moderation of a queue by itself: the kernel's library of that name counts completions, and
//! says when another profile would do better (`include/linux/dim.h`).
//!
//! For devices whose driver asks for it, and only where the core polls.

use super::edge;
use super::edge::Measured;
use super::edge::NewPolled;
use super::Context;
use crate::object::Object;
use kernel::prelude::*;

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

/// Begins to measure, if the driver wants that, and there is memory. The driver has made the
/// queue.
pub(super) fn begin(cq: &mut NewPolled, context: Context) {
    let device = cq.device();
    if !device.use_cq_dim() || device.ops().modify_cq.is_none() || context == Context::Direct {
        return;
    }
    // Without memory it is not moderated.
    let _: Result = cq.begin_measure();
}

/// Applies the profile that the library has chosen.
pub(super) fn apply(measured: Measured<'_>) {
    let (profile, cq) = measured.take();
    let (Some(profile), true) = (PROFILES.get(profile), cq.device().ops().modify_cq.is_some())
    else {
        return;
    };
    edge::trace_modify(cq, profile.completions, profile.usec);
    // It is advice: a driver that fails goes on as before.
    let _: Result = cq.driver().modify_cq(profile.completions, profile.usec);
}
