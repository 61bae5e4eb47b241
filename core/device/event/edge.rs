// SPDX-License-Identifier: GPL-2.0

//! Event handlers in the core itself.

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::View;

use crate::device::Device;
use crate::edge::client::Handler;
use crate::edge::client::Told;

/// Receiver of events of a device.
pub(crate) trait Watcher: Send + Sync + 'static {
    /// Called for each event; `port` is meaningful for port events only. Must not register or
    /// unregister a handler. May sleep.
    fn event(&self, event: bindings::ib_event_type, port: u32);
}

/// Registration of a watcher; dropping it unregisters the watcher. It keeps the memory of the
/// device, which has the list of handlers.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct Watch<W: Watcher> {
    #[pin]
    handler: Opaque<bindings::ib_event_handler>,
    watcher: Arc<W>,
    _device: ARef<Device>,
}

// SAFETY: The handler is only accessed by the device's list, under its lock.
unsafe impl<W: Watcher> Send for Watch<W> {}
// SAFETY: Same as for `Send`.
unsafe impl<W: Watcher> Sync for Watch<W> {}

// SAFETY: `repr(C)`, and the structure is the first field.
unsafe impl<W: Watcher> View for Watch<W> {
    type C = bindings::ib_event_handler;
}

impl<W: Watcher> Watch<W> {
    fn handler(&self) -> Handler {
        // SAFETY: The handler is initialised and pinned, and `_device` keeps its device; `drop`
        // removes it from the list.
        unsafe { Handler::from_c(self.handler.get()) }
    }

    fn told(this: &Self, event: Told<'_>) {
        this.watcher.event(event.0.kind(), event.0.port());
    }

    /// Registers a watcher. Must not be called from a handler. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn register(device: &Device, watcher: Arc<W>) -> Result<Pin<KBox<Self>>> {
        let handler = bindings::ib_event_handler {
            device: device.as_raw(),
            handler: Some(handle::<W>),
            ..Default::default()
        };
        let this = KBox::pin_init(
            pin_init!(Self {
                handler: Opaque::new(handler),
                watcher,
                _device: device.hold(),
            }),
            GFP_KERNEL,
        )?;
        this.handler().add();
        Ok(this)
    }
}

#[pinned_drop]
impl<W: Watcher> PinnedDrop for Watch<W> {
    fn drop(self: Pin<&mut Self>) {
        self.handler().remove();
    }
}

rdma::callback! {
    /// Handler in the device's list; the entry is part of a [`Watch`].
    fn handle<W: Watcher>(watch: &Watch<W>, event: Told<'_>) = Watch::told;
}
