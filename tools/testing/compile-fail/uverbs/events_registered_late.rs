// SPDX-License-Identifier: GPL-2.0
// compile-fail: E0308 New

//! A file that was destroyed, registered for the events of a device: nothing ends the registration
//! before the handle is freed.

use crate::edge::events::AsyncEvents;
use crate::edge::handle::Handle;
use crate::edge::handle::New;
use crate::object::async_event::AsyncFile;
use rdma::edge::device::Device;

pub(crate) fn start(new: &New<'_, AsyncFile>, old: &Handle<AsyncFile>, device: &Device) {
    #[cfg(not(wrong))]
    AsyncEvents::register(new, device);
    #[cfg(wrong)]
    AsyncEvents::register(old, device);
}
