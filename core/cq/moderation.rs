// SPDX-License-Identifier: GPL-2.0

//! Adaptive moderation of a queue: the kernel's dynamic interrupt moderation library counts
//! completions and reports when another profile would suit better (`include/linux/dim.h`).
//!
//! Only for devices whose driver requests it, and for queues that the core polls.

use super::edge;
use super::edge::Made;
use super::edge::Measured;
use super::Context;
use crate::object::Object;
use kernel::prelude::*;

/// A profile: an event is raised after this many microseconds or completions.
struct Profile {
    usec: u16,
    completions: u16,
}

const fn profile(usec: u16, completions: u16) -> Profile {
    Profile { usec, completions }
}

/// Ordered from lowest latency to fewest events, as the library steps through them.
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

/// Starts moderation if the driver requests it. The driver must have created the queue.
pub(super) fn begin(cq: &mut Made, context: Context) {
    let device = cq.device();
    if !device.use_cq_dim() || device.ops().modify_cq.is_none() || context == Context::Direct {
        return;
    }
    // If memory is short, the queue is not moderated.
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
    // If the driver fails, the previous profile stays in effect.
    let _: Result = cq.driver().modify_cq(profile.completions, profile.usec);
}
