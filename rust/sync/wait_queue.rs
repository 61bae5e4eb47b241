// SPDX-License-Identifier: GPL-2.0

//! Where tasks wait for something, and pollers are told of it.
//!
//! As [`kernel::sync::CondVar`], with which a poller cannot wait, and
//! [`kernel::sync::poll::PollCondVar`], whose drop waits for a grace period: here a poller registers
//! by a [`PollTable`](crate::chrdev::PollTable), which only accepts what lives as long as the open
//! file.
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

/// Creates a [`WaitQueue`] initialiser with a lock class of its own.
#[macro_export]
macro_rules! new_wait_queue {
    ($name:literal) => {
        $crate::sync::WaitQueue::new(::kernel::c_str!($name), ::kernel::static_lock_class!())
    };
}

/// A queue of those who wait for a change of what a mutex protects.
///
/// # Invariants
///
/// `head` is initialised. Tasks that wait borrow the queue.
#[pin_data]
pub struct WaitQueue {
    #[pin]
    head: Opaque<bindings::wait_queue_head>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The queue has a lock of its own.
unsafe impl Send for WaitQueue {}
// SAFETY: As for `Send`.
unsafe impl Sync for WaitQueue {}

impl WaitQueue {
    /// A queue; use [`new_wait_queue!`](crate::new_wait_queue). `name` and `key` are lockdep's.
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The place is valid, name and key are static.
            head <- Opaque::ffi_init(|head| unsafe {
                bindings::__init_waitqueue_head(head, name.as_char_ptr(), key.as_ptr());
            }),
            _pin: PhantomPinned,
        })
    }

    /// Gives the lock up, waits for [`wake`](Self::wake), and takes it again. Who wakes changes
    /// what is waited for under the same lock, so no wake is missed. May return without a reason.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS` if there is a signal; the lock is not held then.
    pub fn wait<'m, T>(
        &self,
        guard: Guard<'m, T, MutexBackend>,
    ) -> Result<Guard<'m, T, MutexBackend>> {
        let lock = guard.lock_ref();
        let entry = Opaque::<bindings::wait_queue_entry>::uninit();
        // SAFETY: The entry is this task's; it leaves the queue before this function returns.
        unsafe {
            bindings::init_wait(entry.get());
            // CAST: a small number.
            bindings::prepare_to_wait(
                self.head.get(),
                entry.get(),
                bindings::TASK_INTERRUPTIBLE as i32,
            );
        }
        drop(guard);
        // SAFETY: No lock is held that forbids it; the queue is initialised (type invariant). With a
        // signal pending it returns at once.
        unsafe {
            bindings::schedule_timeout(isize::MAX);
            bindings::finish_wait(self.head.get(), entry.get());
        }
        if kernel::current!().signal_pending() {
            return Err(ERESTARTSYS);
        }
        Ok(lock.lock())
    }

    /// Wakes those who wait, and tells pollers.
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

    /// The C structure.
    pub(crate) fn raw(&self) -> *mut bindings::wait_queue_head {
        self.head.get()
    }
}
