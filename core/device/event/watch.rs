// SPDX-License-Identifier: GPL-2.0

//! Handlers of events in the core itself.

use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;
use rdma::bindings;

use super::ib_register_event_handler;
use super::ib_unregister_event_handler;
use crate::device::Device;

/// Who is told of events of a device.
pub(crate) trait Watcher: Send + Sync + 'static {
    /// Something happened; the number is that of the port, if it happened to one. May sleep,
    /// and may not register or unregister a handler.
    fn event(&self, event: bindings::ib_event_type, port: u32);
}

/// The registration of a watcher, for as long as this exists. It is dropped while the device
/// is there.
#[pin_data(PinnedDrop)]
pub(crate) struct Watch<W: Watcher> {
    #[pin]
    handler: Opaque<bindings::ib_event_handler>,
    watcher: Arc<W>,
}

// SAFETY: The handler is in the device's list, under its lock.
unsafe impl<W: Watcher> Send for Watch<W> {}
// SAFETY: As above.
unsafe impl<W: Watcher> Sync for Watch<W> {}

impl<W: Watcher> Watch<W> {
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
        // SAFETY: It stays where it is until it is taken out, in `drop`.
        unsafe { ib_register_event_handler(this.handler.get()) };
        Ok(this)
    }
}

#[pinned_drop]
impl<W: Watcher> PinnedDrop for Watch<W> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: It was put in when it was made.
        unsafe { ib_unregister_event_handler(self.handler.get()) };
    }
}

/// # Safety
///
/// For the list of handlers only, in which it is part of a [`Watch`].
unsafe extern "C" fn handle<W: Watcher>(
    handler: *mut bindings::ib_event_handler,
    event: *mut bindings::ib_event,
) {
    // SAFETY: By this function's duty. The number is plain bytes of the union.
    unsafe {
        let watch = container_of!(Opaque::cast_from(handler).cast_mut(), Watch<W>, handler);
        (*watch)
            .watcher
            .event((*event).event, *(*event).element.port_num);
    }
}
