// SPDX-License-Identifier: GPL-2.0

//! Upper-layer protocols: protection domains, queue pairs and memory of kernel consumers.
//!
//! ```text
//!   DeviceRef -> Pd -> Buffer --Queues::send, Queues::receive--> the device
//!                 |       ^                                          |
//!   CmId ------> Qp       +------ Ends::sent, Ends::received <-------+
//! ```
//!
//! | type | what |
//! |---|---|
//! | [`Pd`] | a protection domain; keeps the device |
//! | [`Buffer`] | kernel memory that the device may access while it is posted |
//! | [`Qp`] | a queue pair with a completion queue of its own; drop waits for all requests |
//! | [`Queues`] | what posts requests, also from a completion |
//! | [`Ends`] | what is told of each request when it ends, and gets its buffer back |
//! | [`Exposed`] | a buffer that the peer may access by RDMA, by a [`Region`] of the queue pair |
//!
//! A buffer belongs to the queue pair while it is posted, and comes back exactly once: by
//! [`Ends`], or, if the device never completed the request, when the queue pair is gone. So no
//! memory is accessed by a device and by a program text at once, and none is freed under the
//! device. A peer can access only the memory of an [`Exposed`], and that comes back when the device
//! has said that the peer has no access any more.
//!
//! Connections are made by [`crate::cm`]. `Documentation/ulp.md` introduces both.
//!
//! C header: `include/rdma/ib_verbs.h`. Only exported functions are called.

mod buffer;
mod qp;
mod region;
mod slots;

pub use self::buffer::Buffer;
pub use self::qp::Depth;
pub use self::qp::Done;
pub use self::qp::Ends;
pub use self::qp::NoMessage;
pub use self::qp::Qp;
pub use self::qp::Queues;
pub use self::qp::Received;
pub use self::qp::Refused;
pub use self::qp::Status;
pub use self::region::Access;
pub use self::region::Exposed;
pub use self::region::Region;
pub use self::region::Remote;

use crate::bindings;
use crate::client::DeviceRef;
use crate::edge::verbs;
use crate::edge::View;
use crate::errno::eopnotsupp;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A protection domain. Drop may sleep.
///
/// # Invariants
///
/// `raw` is a protection domain of `device`, owned by this. Its users hold a reference to this.
pub struct Pd {
    raw: NonNull<bindings::ib_pd>,
    device: DeviceRef,
    name: &'static CStr,
}

// SAFETY: A protection domain may be used from any thread.
unsafe impl Send for Pd {}
// SAFETY: As for `Send`: it does not change.
unsafe impl Sync for Pd {}

impl Pd {
    /// Creates a protection domain. `name` is that of the module, for `rdma resource`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EOPNOTSUPP` if the device is for programs only; those of the driver.
    pub fn new(device: &DeviceRef, name: &'static CStr) -> Result<Arc<Self>> {
        // The core sets this if the driver has all methods that kernel consumers call without a test.
        // SAFETY: The device exists (`DeviceRef`); this does not change once it is registered.
        if unsafe { bindings::ib_device::kverbs_provider_raw(device.raw()) } == 0 {
            return Err(eopnotsupp());
        }
        // SAFETY: The device exists (`DeviceRef`); the name is constant.
        let raw = unsafe { bindings::__ib_alloc_pd(device.raw(), 0, name.as_char_ptr()) };
        let pd = Self {
            // INVARIANT: Just created.
            raw: NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)?,
            device: device.clone(),
            name,
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    /// Returns its device.
    pub fn device(&self) -> &DeviceRef {
        &self.device
    }

    fn raw(&self) -> *mut bindings::ib_pd {
        self.raw.as_ptr()
    }

    /// Returns the local key for buffers.
    fn key(&self) -> u32 {
        // SAFETY: It exists (type invariant).
        unsafe { verbs::Pd::view(self.raw()) }.local_dma_lkey()
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: This owns it, and has no users left (type invariant).
        let left = unsafe { bindings::ib_dealloc_pd_user(self.raw(), ptr::null_mut()) };
        // A protection domain of the kernel, which nobody else uses.
        kernel::warn_on!(left != 0);
    }
}
