// SPDX-License-Identifier: GPL-2.0

//! Changes of the policy of security modules.
//!
//! Agents are looked at when we are told. Queue pairs may be many, and drivers are asked to
//! stop them: a worker does it.

use crate::device::registry;
use crate::private;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::types::Opaque;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::bindings;
use rdma::workqueue;

#[pin_data]
struct Listener {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    #[pin]
    work: Work<Self>,
}

// SAFETY: The block is only touched by C, under its locks.
unsafe impl Send for Listener {}
// SAFETY: As above.
unsafe impl Sync for Listener {}

kernel::impl_has_work! {
    impl HasWork<Self> for Listener { self.work }
}

impl WorkItem for Listener {
    type Pointer = Arc<Self>;

    fn run(_this: Arc<Self>) {
        let mut index = 0;
        // No lock is held meanwhile: who comes later is judged by the new policy.
        while let Some(device) = registry::next_used_from(index) {
            for port in device.ports() {
                super::qp::port_changed(&device, port);
            }
            index = match device.index().checked_add(1) {
                Some(next) => next,
                None => return,
            };
        }
    }
}

/// # Safety
///
/// For C only, with the block of a [`Listener`] that an `Arc` owns.
unsafe extern "C" fn changed(
    block: *mut bindings::notifier_block,
    event: c_ulong,
    _data: *mut c_void,
) -> c_int {
    if event != private::lsm_event_LSM_POLICY_CHANGE as c_ulong {
        // CAST: The constant is 0.
        return bindings::NOTIFY_DONE as c_int;
    }
    // SAFETY: By this function's duty; the owner unregisters the block before it goes.
    let listener: Arc<Listener> = unsafe {
        let this = container_of!(Opaque::cast_from(block), Listener, block);
        ArcBorrow::from_raw(this).into()
    };
    // A work that is queued already begins later than this.
    let _ = workqueue::system_dfl().enqueue(listener);
    super::agent::policy_changed();
    // CAST: The constant is 1.
    bindings::NOTIFY_OK as c_int
}

/// Hears of changes of the policy while it exists.
///
/// # Invariants
///
/// The block of the listener is registered.
pub(crate) struct Subsystem(Arc<Listener>);

impl Subsystem {
    /// Begins to listen. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the registration.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The module has one of these, made once, before there is an agent.
        unsafe { super::agent::init() };
        let listener = Arc::pin_init(
            pin_init!(Listener {
                block: Opaque::new(bindings::notifier_block {
                    notifier_call: Some(changed),
                    ..Default::default()
                }),
                work <- kernel::new_work!("security::Listener"),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The block stays where it is until it is unregistered, by drop.
        to_result(unsafe { private::register_blocking_lsm_notifier(listener.block.get()) })?;
        // INVARIANT: Just registered.
        Ok(Self(listener))
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. C waits for calls under way.
        unsafe { private::unregister_blocking_lsm_notifier(self.0.block.get()) };
        drop(workqueue::disable::<Listener, 0>(&self.0));
        super::agent::fini();
    }
}
