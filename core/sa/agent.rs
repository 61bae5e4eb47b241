// SPDX-License-Identifier: GPL-2.0

//! Datagrams: the agent of a port that sends them, and their buffers.

use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;

use super::query;
use super::sm_ah::Manager;
use crate::device::Device;
use crate::proto::sa::datagram::Fabric;
use crate::proto::sa::datagram::DATAGRAM;
use crate::proto::sa::query::Tries;
use crate::proto::sa::DATA;

/// An agent.
///
/// # Invariants
///
/// It is registered until [`unregister`](Self::unregister) is called; that is once, by whoever
/// has seen to it that nobody uses the agent any more.
pub(super) struct Agent(NonNull<bindings::ib_mad_agent>);

// SAFETY: Agents are used from any thread.
unsafe impl Send for Agent {}
// SAFETY: As above.
unsafe impl Sync for Agent {}

impl Agent {
    /// Registers an agent, which answers nothing but gets answers. May sleep.
    ///
    /// # Errors
    ///
    /// Those of registration.
    pub(super) fn register(device: &Device, port: u32) -> Result<Self> {
        // SAFETY: The device is registered; the handlers live as long as the module.
        let agent = from_err_ptr(unsafe {
            bindings::ib_register_mad_agent(
                device.as_raw(),
                port,
                bindings::ib_qp_type_IB_QPT_GSI,
                ptr::null_mut(),
                // CAST: One.
                bindings::IB_MGMT_RMPP_VERSION as u8,
                Some(query::sent),
                Some(query::received),
                ptr::null_mut(),
                0,
            )
        })?;
        // INVARIANT: Just registered.
        NonNull::new(agent).map(Self).ok_or(ENOMEM)
    }

    /// Ends it: what is under way is completed, and all buffers are waited for. May sleep.
    ///
    /// # Safety
    ///
    /// This is called once, and nobody makes a buffer any more.
    pub(super) unsafe fn unregister(&self) {
        // SAFETY: By this function's duty and the type invariant.
        unsafe { bindings::ib_unregister_mad_agent(self.0.as_ptr()) };
    }

    /// The protection domain of its queue pair, which outlives it.
    pub(super) fn pd(&self) -> *mut bindings::ib_pd {
        // SAFETY: By the type invariant; agents have a queue pair.
        unsafe { (*(*self.0.as_ptr()).qp).pd }
    }

    /// The upper half of its transactions' numbers.
    pub(super) fn transactions(&self) -> u32 {
        // SAFETY: By the type invariant; it is written at registration.
        unsafe { (*self.0.as_ptr()).hi_tid }
    }

    /// Room for a datagram to the administrator. Sleeps as `flags` say.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, whatever is lacking.
    pub(super) fn buffer(
        &self,
        manager: &Manager,
        fabric: Fabric,
        flags: bindings::gfp_t,
    ) -> Result<Buffer> {
        // CAST: Of constants, 256 in sum.
        let (header, data) = ((DATAGRAM - DATA) as c_int, DATA as c_int);
        // SAFETY: By the type invariant; whoever unregisters waits for the buffer.
        let raw = from_err_ptr(unsafe {
            bindings::ib_create_send_mad(
                self.0.as_ptr(),
                1,
                manager.pkey_index,
                0,
                header,
                data,
                flags,
                fabric.base_version(),
            )
        })
        .map_err(|_| ENOMEM)?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: Just made.
        Ok(Buffer(raw))
    }
}

/// A buffer, which keeps the agent.
///
/// # Invariants
///
/// It is ours, but for the time between a [`post`](Self::post) that succeeds and the call that
/// tells that the datagram was sent: then it may only be cancelled.
pub(super) struct Buffer(NonNull<bindings::ib_mad_send_buf>);

// SAFETY: Buffers are used from any thread.
unsafe impl Send for Buffer {}
// SAFETY: Shared, a buffer is only sent and cancelled, for which agents have locks.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The datagram, all zeros at first.
    pub(super) fn datagram(&mut self) -> &mut [u8; DATAGRAM] {
        // SAFETY: By the type invariant it is ours; there is room for headers and data.
        unsafe { &mut *(*self.0.as_ptr()).mad.cast::<[u8; DATAGRAM]>() }
    }

    /// Says where it goes, and how often. The address handle outlives the sending.
    pub(super) fn set_way(&mut self, manager: &Manager, tries: Tries) {
        // SAFETY: By the type invariant it is ours.
        let buffer = unsafe { self.0.as_mut() };
        buffer.ah = manager.ah();
        buffer.timeout_ms = tries.timeout_ms;
        buffer.retries = tries.retries;
    }

    /// Sends it, with something that is found again by those who are told of it.
    ///
    /// # Errors
    ///
    /// Those of the agent; nobody is told then.
    ///
    /// # Safety
    ///
    /// It is not sent already, and what [`Manager`] it goes to stays; `context` is what
    /// [`context`](Self::context) is to answer.
    pub(super) unsafe fn post(&self, context: *const c_void) -> Result {
        // SAFETY: By this function's duty nobody else uses the buffer.
        unsafe {
            (*self.0.as_ptr()).context[0] = context.cast_mut();
            to_result(bindings::ib_post_send_mad(self.0.as_ptr(), ptr::null_mut()))
        }
    }

    /// What [`post`](Self::post) was given.
    ///
    /// # Safety
    ///
    /// `raw` is the C part of a buffer that was posted.
    pub(super) unsafe fn context(raw: *const bindings::ib_mad_send_buf) -> *const c_void {
        // SAFETY: By this function's duty.
        unsafe { (*raw).context[0] }
    }

    /// Cancels the datagram, if it is under way. Any context.
    pub(super) fn cancel(&self) {
        // SAFETY: By the type invariant the buffer and its agent are there.
        let _: c_int = unsafe { bindings::ib_modify_mad(self.0.as_ptr(), 0) };
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; whoever drops it knows that it is not under way.
        unsafe { bindings::ib_free_send_mad(self.0.as_ptr()) };
    }
}
