// SPDX-License-Identifier: GPL-2.0

//! Who runs, and what the present task has been doing.
//!
//! C header: `include/linux/sched.h`.

use crate::bindings;

/// A task of a program, to be told from others: no more than that, since it may have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskId(u64);

impl TaskId {
    /// The one that runs, or that was interrupted; `None` if that is the kernel's own or the CPU
    /// was idle. Any context.
    #[inline]
    pub fn current() -> Option<Self> {
        // SAFETY: The present task exists, and only it changes its flags.
        let (task, flags) = unsafe {
            let task = bindings::get_current();
            (task, (*task).flags)
        };
        // CAST: an address fits.
        (flags & bindings::PF_KTHREAD == 0).then(|| Self(task.addr() as u64))
    }

    /// As a number that is not zero.
    #[inline]
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

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
        // SAFETY: The present task exists, and while it runs nobody changes its counts.
        unsafe {
            let task = bindings::get_current();
            Self {
                // CAST: from an unsigned type of at most 64 bits.
                slept: (*task).nvcsw as u64,
                preempted: (*task).nivcsw as u64,
            }
        }
    }
}
