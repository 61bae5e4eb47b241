// SPDX-License-Identifier: GPL-2.0

//! Identity and context switches of the current task.
//!
//! C header: `include/linux/sched.h`.

use crate::bindings;

/// Identifies a user task by the address of its `task_struct`. Only for comparison: the task may
/// have exited, and the address may have been reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskId(u64);

impl TaskId {
    /// Returns the running (or interrupted) task; `None` for kernel threads and the idle task. Any
    /// context.
    #[inline]
    pub fn current() -> Option<Self> {
        // SAFETY: The current task exists, and only it changes its flags.
        let (task, flags) = unsafe {
            let task = bindings::get_current();
            (task, (*task).flags)
        };
        // CAST: Addresses have at most 64 bits.
        (flags & bindings::PF_KTHREAD == 0).then(|| Self(task.addr() as u64))
    }

    /// Returns the identity as a number, which is not zero.
    #[inline]
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

/// Context switches of the current task since its creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switches {
    /// Voluntary ones: the task blocked.
    pub slept: u64,
    /// Involuntary ones: the task was preempted.
    pub preempted: u64,
}

impl Switches {
    /// Reads the current counts. Process context.
    #[inline]
    pub fn now() -> Self {
        // SAFETY: The current task exists, and nothing changes its counts while it runs.
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

/// Lets other tasks run if the current one has run for long. For loops whose length a user
/// determines. May sleep.
#[inline]
pub fn cond_resched() {
    // SAFETY: The caller may sleep.
    unsafe { bindings::rdma_helper_cond_resched() };
}
