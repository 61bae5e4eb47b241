// SPDX-License-Identifier: GPL-2.0

//! Events of devices, and who handles them.
//!
//! A driver tells of an event from any context; a worker brings the caches up to date, if
//! it is a port's, and then tells handlers. Handlers are lists of their owners' memory.

use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::bindings;

use super::hooks::Core;
use super::hooks::Hooks;
use super::queues;
use super::Device;
use crate::edge::client::Event;
use crate::edge::client::Handler;
use crate::edge::client::Sent;

mod edge;

pub(crate) use self::edge::Watch;
pub(crate) use self::edge::Watcher;

/// An event on its way to handlers. Keeps the device's memory.
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

/// Queues an event. Does not sleep; the event is lost if there is no memory.
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

/// Sends an event of a port: a worker refreshes the caches and calls handlers. Does not sleep.
pub(crate) fn dispatch(device: &Device, event: bindings::ib_event_type, port: u32) {
    send(device, Event::of_port(device, event, port));
}

/// Calls handlers now, and leaves the caches alone: for events by which they have changed.
/// May sleep.
pub(crate) fn tell_port(device: &Device, event: bindings::ib_event_type, port: u32) {
    Event::of_port(device, event, port).tell(device);
}

fn dispatch_event(sent: Sent<'_>) {
    send(sent.device, sent.event);
}

rdma::export! { in rdma::bindings;
    /// Tells handlers of an event, and the caches, later, in a worker. Any context.
    fn ib_dispatch_event(event: Sent<'_>) = dispatch_event;
    /// Adds a handler to the end of the list. May sleep; not from a handler.
    fn ib_register_event_handler(handler: Handler) = Handler::add;
    /// Takes a handler out: when it returns, it is not called and will not be. May sleep; not
    /// from a handler.
    fn ib_unregister_event_handler(handler: Handler) = Handler::remove;
}
