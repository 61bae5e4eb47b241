// SPDX-License-Identifier: GPL-2.0

//! Methods of the provider (`struct ib_device_ops`), and references to queue pairs. Must match
//! `include/rdma/ib_verbs.h`.

use super::id::CmId;
use super::id::ConnParam;
use super::id::PrivateData;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::View;

/// The device of an ID.
///
/// # Invariants
///
/// The device is registered until the consumer's last call for the ID has returned, which is the
/// destruction of the ID (contract of `iw_create_cm_id`). The destruction waits for the work of the
/// ID that uses the device (`id.rs`), and nothing uses it later.
#[derive(Clone, Copy)]
pub(crate) struct Device(NonNull<bindings::ib_device>);

// SAFETY: The methods of a device may be called from any task.
unsafe impl Send for Device {}
// SAFETY: As for `Send`: the methods of a device may be called from any task.
unsafe impl Sync for Device {}

rdma::argument! {
    /// A device that exists until the ID is destroyed.
    impl Device = |device: NonNull<bindings::ib_device>| Device(device);
}

/// Calls a method of the device that returns an error code. A method that the device lacks is
/// refused with `EINVAL`.
macro_rules! call {
    ($self:ident, $method:ident($($arg:expr),*)) => {
        match $self.ops().$method {
            // SAFETY: The device is registered (type invariant); ID and parameters are borrowed.
            Some(method) => to_result(unsafe { method($($arg),*) }),
            None => Err(EINVAL),
        }
    };
}

impl Device {
    pub(super) fn as_ptr(self) -> *mut bindings::ib_device {
        self.0.as_ptr()
    }

    fn ops(&self) -> &bindings::ib_device_ops {
        // SAFETY: The device is registered (type invariant), so its methods do not change.
        unsafe { &(*self.0.as_ptr()).ops }
    }

    /// Returns a reference to a queue pair; `None` if there is none with this number. Does not sleep.
    ///
    /// The provider's two methods are called one after the other, as by the C module: call this with
    /// interrupts disabled. A program that destroys its queue pair between them is excluded by no
    /// lock of this module.
    pub(crate) fn qp(self, number: u32) -> Option<Qp> {
        let ops = self.ops();
        let (get, add) = (ops.iw_get_qp?, ops.iw_add_ref?);
        ops.iw_rem_ref?;
        // SAFETY: The device is registered (type invariant). The queue pair that the provider has
        // found exists until its second method has counted the reference (contract of `iw_get_qp`).
        unsafe {
            // CAST: The provider's method takes the number as a signed one.
            let raw = NonNull::new(get(self.0.as_ptr(), number as c_int))?;
            add(raw.as_ptr());
            // INVARIANT: The reference was just taken.
            Some(Qp { raw, device: self })
        }
    }

    /// Tells the provider to listen.
    pub(crate) fn listen(self, id: &CmId, backlog: c_int) -> Result {
        call!(self, iw_create_listen(id.raw(), backlog))
    }

    /// Tells the provider to listen no more.
    pub(crate) fn unlisten(self, id: &CmId) {
        let _: Result = call!(self, iw_destroy_listen(id.raw()));
    }

    /// Tells the provider to connect.
    pub(crate) fn connect(self, id: &CmId, param: &ConnParam) -> Result {
        call!(self, iw_connect(id.raw(), param.raw()))
    }

    /// Tells the provider to accept a request.
    pub(crate) fn accept(self, id: &CmId, param: &ConnParam) -> Result {
        call!(self, iw_accept(id.raw(), param.raw()))
    }

    /// Tells the provider to reject a request.
    pub(crate) fn reject(self, id: &CmId, data: PrivateData, len: u8) -> Result {
        call!(self, iw_reject(id.raw(), data.as_ptr(), len))
    }

    /// Name of the device, terminated or not.
    pub(crate) fn name(self) -> [u8; bindings::IB_DEVICE_NAME_MAX as usize] {
        // SAFETY: The device is registered (type invariant). Renaming may change the name
        // meanwhile, as it may for the C module.
        unsafe { (&raw const (*self.0.as_ptr()).name).read_volatile() }
    }

    /// Name of its interface, terminated or not.
    pub(crate) fn interface(self) -> [u8; 16] {
        // SAFETY: The device is registered (type invariant), so the name does not change.
        unsafe { (&raw const (*self.0.as_ptr()).iw_ifname).read() }
    }

    /// Returns whether mapped ports must be the real ones.
    pub(crate) fn has_no_port_map(self) -> bool {
        // SAFETY: The device is registered (type invariant), so the flags do not change.
        let flags = unsafe { (&raw const (*self.0.as_ptr()).iw_driver_flags).read() };
        flags & bindings::iw_flags_IW_F_NO_PORT_MAP != 0
    }
}

/// A reference to a queue pair.
///
/// # Invariants
///
/// The reference was taken with the device's `iw_add_ref` and is dropped once. The device has both
/// methods.
pub(crate) struct Qp {
    raw: NonNull<bindings::ib_qp>,
    device: Device,
}

// SAFETY: References may be dropped, and queue pairs modified, in any task.
unsafe impl Send for Qp {}
// SAFETY: As for `Send`: queue pairs may be used from any task.
unsafe impl Sync for Qp {}

impl Qp {
    /// Changes the state, and nothing else. May sleep. An error is ignored: the peer or the
    /// provider may have changed the state before.
    fn set_state(&self, state: bindings::ib_qp_state) {
        let mut attr = bindings::ib_qp_attr {
            qp_state: state,
            ..Default::default()
        };
        let mask = bindings::ib_qp_attr_mask_IB_QP_STATE as c_int;
        // SAFETY: The queue pair exists (type invariant); `attr` is only read during the call.
        let _: c_int = unsafe { bindings::ib_modify_qp(self.raw.as_ptr(), &mut attr, mask) };
    }

    /// Ends the connection abruptly.
    pub(crate) fn abort(&self) {
        self.set_state(bindings::ib_qp_state_IB_QPS_ERR);
    }

    /// Ends the connection after what was posted.
    pub(crate) fn finish(&self) {
        self.set_state(bindings::ib_qp_state_IB_QPS_SQD);
    }
}

impl Clone for Qp {
    fn clone(&self) -> Self {
        if let Some(add) = self.device.ops().iw_add_ref {
            // SAFETY: The queue pair exists (type invariant).
            unsafe { add(self.raw.as_ptr()) };
        }
        // INVARIANT: The reference was just taken; the device has the method.
        Self {
            raw: self.raw,
            device: self.device,
        }
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        if let Some(rem) = self.device.ops().iw_rem_ref {
            // SAFETY: The reference is this one's (type invariant).
            unsafe { rem(self.raw.as_ptr()) };
        }
    }
}
