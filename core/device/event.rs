// SPDX-License-Identifier: GPL-2.0

//! Events of devices, and who handles them.
//!
//! A driver tells of an event from any context; a worker brings the caches up to date, if
//! it is a port's, and then tells handlers. Handlers are lists of their owners' memory.

use core::mem::ManuallyDrop;
use kernel::container_of;
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

mod watch;

pub(crate) use self::watch::Watch;
pub(crate) use self::watch::Watcher;

/// An event on its way to handlers. Keeps the device's memory.
#[pin_data]
struct Pending {
    device: ARef<Device>,
    event: Sent,
    #[pin]
    work: Work<Self>,
}

/// The C form of an event.
struct Sent(bindings::ib_event);

// SAFETY: What it points to belongs to the driver, who keeps it until the events of it have
// been told; the core looks at the port's number only.
unsafe impl Send for Sent {}
// SAFETY: As above.
unsafe impl Sync for Sent {}

impl_has_work! {
    impl HasWork<Self> for Pending { self.work }
}

impl WorkItem for Pending {
    type Pointer = Pin<KBox<Self>>;

    fn run(this: Pin<KBox<Self>>) {
        let mut event = this.event.copy();
        if Core::refresh(&this.device, &event) {
            // SAFETY: The driver keeps what the event is of until the queue is flushed.
            unsafe { tell(&this.device, &mut event) };
        }
    }
}

impl Sent {
    fn copy(&self) -> bindings::ib_event {
        // SAFETY: It is plain data.
        unsafe { (&raw const self.0).read() }
    }
}

/// Puts an event on its way. Does not sleep; the event is lost if there is no memory.
///
/// # Safety
///
/// What the event is of stays until the device's events have been told.
unsafe fn send(device: &Device, event: bindings::ib_event) {
    let pending = KBox::pin_init(
        pin_init!(Pending {
            device: device.hold(),
            event: Sent(event),
            work <- new_work!("ib_event"),
        }),
        GFP_ATOMIC,
    );
    if let Ok(pending) = pending {
        queues::events().enqueue(pending);
    }
}

/// Tells of an event of a port: refreshes what is remembered of it, and calls handlers, in
/// a worker. Does not sleep.
pub(crate) fn dispatch(device: &Device, event: bindings::ib_event_type, port: u32) {
    // SAFETY: It is of nothing but the device, which is kept.
    unsafe { send(device, of_port(device, event, port)) };
}

/// Calls handlers now, and leaves the caches alone: for events by which they have changed.
/// May sleep.
#[allow(dead_code, reason = "for changes of GIDs")]
pub(crate) fn tell_port(device: &Device, event: bindings::ib_event_type, port: u32) {
    // SAFETY: It is of nothing but the device, which is there.
    unsafe { tell(device, &mut of_port(device, event, port)) };
}

fn of_port(device: &Device, event: bindings::ib_event_type, port: u32) -> bindings::ib_event {
    bindings::ib_event {
        device: device.as_raw(),
        element: bindings::ib_event__bindgen_ty_1 {
            port_num: ManuallyDrop::new(port),
        },
        event,
    }
}

/// Calls the handlers of a device, one after the other. May sleep.
///
/// # Safety
///
/// What the event is of is there.
unsafe fn tell(device: &Device, event: &mut bindings::ib_event) {
    let raw = device.as_raw();
    // SAFETY: The list is initialised with the device, and changed under the writer's side
    // of the semaphore only; who is in it stays there until he takes himself out.
    unsafe {
        bindings::down_read(&raw mut (*raw).event_handler_rwsem);
        let head = &raw mut (*raw).event_handler_list;
        let mut at = (*head).next;
        while at != head {
            let handler = container_of!(at, bindings::ib_event_handler, list);
            if let Some(method) = (*handler).handler {
                method(handler, event);
            }
            at = (*at).next;
        }
        bindings::up_read(&raw mut (*raw).event_handler_rwsem);
    }
}

/// Tells handlers of an event, and the caches, later, in a worker. Any context.
///
/// # Safety
///
/// The event is one, of a device that is allocated; what it is of stays until the device is
/// unregistered, or is such that handlers know how long it does.
#[no_mangle]
pub unsafe extern "C" fn ib_dispatch_event(event: *const bindings::ib_event) {
    // SAFETY: By this function's duty.
    unsafe { send(Device::from_raw((*event).device), event.read()) };
}

/// Adds a handler to the end of the list. May sleep; not from a handler.
///
/// # Safety
///
/// The handler is initialised (`INIT_IB_EVENT_HANDLER`), in no list, and stays until it is
/// taken out; its device is there.
#[no_mangle]
pub unsafe extern "C" fn ib_register_event_handler(handler: *mut bindings::ib_event_handler) {
    // SAFETY: By this function's duty.
    unsafe {
        let raw = (*handler).device;
        bindings::down_write(&raw mut (*raw).event_handler_rwsem);
        bindings::list_add_tail(&raw mut (*handler).list, &raw mut (*raw).event_handler_list);
        bindings::up_write(&raw mut (*raw).event_handler_rwsem);
    }
}

/// Takes a handler out: when it returns, it is not called and will not be. May sleep; not
/// from a handler.
///
/// # Safety
///
/// The handler is in its device's list.
#[no_mangle]
pub unsafe extern "C" fn ib_unregister_event_handler(handler: *mut bindings::ib_event_handler) {
    // SAFETY: By this function's duty.
    unsafe {
        let raw = (*handler).device;
        bindings::down_write(&raw mut (*raw).event_handler_rwsem);
        bindings::rdma_helper_list_del(&raw mut (*handler).list);
        bindings::up_write(&raw mut (*raw).event_handler_rwsem);
    }
}

rdma::exported!(
    ib_dispatch_event,
    ib_register_event_handler,
    ib_unregister_event_handler,
);
