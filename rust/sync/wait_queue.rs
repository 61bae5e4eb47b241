// SPDX-License-Identifier: GPL-2.0

//! Wait queues, for tasks and for `poll`.
//!
//! [`kernel::sync::CondVar`] does not support `poll`, and the drop of
//! [`kernel::sync::poll::PollCondVar`] waits for a grace period. Here a poller is registered with a
//! [`PollTable`](crate::chrdev::PollTable), which only accepts queues that exist as long as the
//! open file.
//!
//! C header: `include/linux/wait.h`.

use core::marker::PhantomPinned;
use core::pin::Pin;

use crate::bindings;
use kernel::prelude::*;
use kernel::sync::lock::mutex::MutexBackend;
use kernel::sync::lock::Guard;
use kernel::sync::LockClassKey;
use kernel::types::Opaque;

/// Creates a [`WaitQueue`] initialiser with its own lock class.
#[macro_export]
macro_rules! new_wait_queue {
    ($name:literal) => {
        $crate::sync::WaitQueue::new(::kernel::c_str!($name), ::kernel::static_lock_class!())
    };
}

/// A queue of tasks and pollers that wait for a change of data that a mutex protects.
///
/// # Invariants
///
/// `head` is initialised. Waiting tasks borrow the queue.
#[pin_data]
pub struct WaitQueue {
    #[pin]
    head: Opaque<bindings::wait_queue_head>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The C queue has its own lock.
unsafe impl Send for WaitQueue {}
// SAFETY: As for `Send`: the C queue has its own lock.
unsafe impl Sync for WaitQueue {}

impl WaitQueue {
    /// Creates a queue; use [`new_wait_queue!`](crate::new_wait_queue). `name` and `key` are for
    /// lockdep.
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `head` is valid for writes; name and key are static.
            head <- Opaque::ffi_init(|head| unsafe {
                bindings::__init_waitqueue_head(head, name.as_char_ptr(), key.as_ptr());
            }),
            _pin: PhantomPinned,
        })
    }

    /// Releases the lock, waits for [`wake`](Self::wake), and takes the lock again. No wakeup is
    /// lost if the waker changes the data under the same lock. Spurious wakeups are possible. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if a signal was pending before the lock was released: the data did not change
    /// before the signal. The lock is not held then. After any other wakeup, also by a signal, the
    /// caller looks at the data first.
    pub fn wait<'m, T>(
        &self,
        guard: Guard<'m, T, MutexBackend>,
    ) -> Result<Guard<'m, T, MutexBackend>> {
        let lock = guard.lock_ref();
        let entry = Opaque::<bindings::wait_queue_entry>::uninit();
        // SAFETY: The queue is initialised (type invariant). The entry is a local of this task, and
        // leaves the queue before this function returns.
        unsafe {
            bindings::init_wait(entry.get());
            // CAST: A small number.
            bindings::prepare_to_wait(
                self.head.get(),
                entry.get(),
                bindings::TASK_INTERRUPTIBLE as i32,
            );
        }
        // Under the lock, so that this is known of data that the caller has seen.
        let interrupted = kernel::current!().signal_pending();
        drop(guard);
        // SAFETY: The queue is initialised (type invariant), and `entry` by `init_wait`.
        // `schedule_timeout` returns at once if a signal is pending.
        unsafe {
            if !interrupted {
                bindings::schedule_timeout(isize::MAX);
            }
            bindings::finish_wait(self.head.get(), entry.get());
        }
        if interrupted {
            return Err(ERESTARTSYS);
        }
        Ok(lock.lock())
    }

    /// Waits until `ready` returns true, for data that is not protected by a mutex; whoever changes
    /// it calls [`wake`](Self::wake) afterwards. May sleep.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if there was a signal before.
    pub fn wait_until(&self, ready: impl Fn() -> bool) -> Result {
        let entry = Opaque::<bindings::wait_queue_entry>::uninit();
        // SAFETY: The entry is a local of this task, and leaves the queue before this function
        // returns.
        unsafe { bindings::init_wait(entry.get()) };
        let result = loop {
            // SAFETY: The queue is initialised (type invariant), and `entry` by `init_wait`.
            // CAST: A small number.
            unsafe {
                bindings::prepare_to_wait(
                    self.head.get(),
                    entry.get(),
                    bindings::TASK_INTERRUPTIBLE as i32,
                );
            }
            if ready() {
                break Ok(());
            }
            if kernel::current!().signal_pending() {
                break Err(ERESTARTSYS);
            }
            // SAFETY: The state of the task was set above.
            unsafe { bindings::schedule_timeout(isize::MAX) };
        };
        // SAFETY: The queue is initialised (type invariant), and `entry` by `init_wait`.
        unsafe { bindings::finish_wait(self.head.get(), entry.get()) };
        result
    }

    /// Wakes all waiting tasks and pollers. Any context.
    pub fn wake(&self) {
        // SAFETY: The queue is initialised (type invariant).
        unsafe {
            bindings::__wake_up(
                self.head.get(),
                bindings::TASK_NORMAL,
                1,
                core::ptr::null_mut(),
            );
        }
    }

    /// Returns the C structure.
    pub fn raw(&self) -> *mut bindings::wait_queue_head {
        self.head.get()
    }
}
