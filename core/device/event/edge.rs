// SPDX-License-Identifier: GPL-2.0

//! Handlers of events in the core itself.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::View;

use crate::device::Device;
use crate::edge::client::Handler;
use crate::edge::client::Told;

/// Who is told of events of a device.
pub(crate) trait Watcher: Send + Sync + 'static {
    /// Something happened; the number is that of the port, if it happened to one. May sleep,
    /// and may not register or unregister a handler.
    fn event(&self, event: bindings::ib_event_type, port: u32);
}

/// The registration of a watcher, for as long as this exists. It is dropped while the device
/// is there.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub(crate) struct Watch<W: Watcher> {
    #[pin]
    handler: Opaque<bindings::ib_event_handler>,
    watcher: Arc<W>,
}

// SAFETY: The handler is in the device's list, under its lock.
unsafe impl<W: Watcher> Send for Watch<W> {}
// SAFETY: As for `Send`.
unsafe impl<W: Watcher> Sync for Watch<W> {}

// SAFETY: `repr(C)`, and begins with the structure.
unsafe impl<W: Watcher> View for Watch<W> {
    type C = bindings::ib_event_handler;
}

impl<W: Watcher> Watch<W> {
    fn handler(&self) -> Handler {
        // SAFETY: It is initialised, and pinned: it stays until it is taken out, in `drop`.
        unsafe { Handler::from_c(self.handler.get()) }
    }

    fn told(this: &Self, event: Told<'_>) {
        this.watcher.event(event.0.kind(), event.0.port());
    }

    /// Registers a watcher. May sleep; not from a handler.
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
    /// For the list of handlers, in which it is part of a [`Watch`].
    fn handle<W: Watcher>(watch: &Watch<W>, event: Told<'_>) = Watch::told;
}
