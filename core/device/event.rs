// SPDX-License-Identifier: GPL-2.0

//! Events of devices, and their handlers.
//!
//! A driver reports an event from any context. A worker then updates the caches, for a port event,
//! and calls the handlers. Handlers are list entries in memory of their owners.

use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;

use super::hooks::Core;
use super::hooks::Hooks;
use super::queues;
use super::Device;
use crate::edge::client::Event;
use crate::edge::client::Handler;
use crate::edge::client::PortEvent;
use crate::edge::client::Sent;

mod edge;

pub(crate) use self::edge::Watch;
pub(crate) use self::edge::Watcher;

/// A queued event. Holds a reference to the device.
#[pin_data]
struct Pending {
    device: ARef<Device>,
    event: Event,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Pending { self.work }
}

impl WorkItem for Pending {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Pin<KBox<Self>>) {
        if Core::refresh(&this.device, &this.event) {
            this.event.tell(&this.device);
        }
    }
}

/// Queues an event. The event is lost if memory is short. Does not sleep.
fn send(device: &Device, event: Event) {
    let pending = KBox::pin_init(
        pin_init!(Pending {
            device: device.hold(),
            event,
            work <- new_work!("ib_event"),
        }),
        GFP_ATOMIC,
    );
    if let Ok(pending) = pending {
        queues::events().enqueue(pending);
    }
}

/// Queues an event of a port: a worker updates the caches and calls handlers. Does not sleep.
pub(crate) fn dispatch(device: &Device, event: PortEvent, port: u32) {
    send(device, Event::of_port(device, event, port));
}

/// Calls the handlers now and does not update the caches: for events raised by a cache update. May
/// sleep.
pub(crate) fn tell_port(device: &Device, event: PortEvent, port: u32) {
    Event::of_port(device, event, port).tell(device);
}

fn dispatch_event(sent: Sent<'_>) {
    send(sent.device, sent.event);
}

rdma::export! { in rdma::bindings;
    /// Queues an event: a worker updates the caches and calls the handlers. Any context.
    fn ib_dispatch_event(event: Sent<'_>) = dispatch_event;
    /// Adds a handler to the end of the list. Must not be called from a handler. May sleep.
    fn ib_register_event_handler(handler: Handler) = Handler::add;
    /// Removes a handler. Once this returns, the handler is not running and will not be called.
    /// Must not be called from a handler. May sleep.
    fn ib_unregister_event_handler(handler: Handler) = Handler::remove;
}
