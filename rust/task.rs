// SPDX-License-Identifier: GPL-2.0

//! What the present task has been doing.
//!
//! C header: `include/linux/sched.h`.

use crate::bindings;

/// How often the present task has left the CPU since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switches {
    /// Because it had to wait for something.
    pub slept: u64,
    /// Because another task was more important.
    pub preempted: u64,
}

impl Switches {
    /// As of now. Process context.
    #[inline]
    pub fn now() -> Self {
        // SAFETY: Has no preconditions.
        let task = unsafe { bindings::get_current() };
        // SAFETY: The present task exists, and while it runs nobody changes its counts.
        unsafe {
            Self {
                // CAST: from an unsigned type of at most 64 bits.
                slept: (*task).nvcsw as u64,
                preempted: (*task).nivcsw as u64,
            }
        }
    }
}
