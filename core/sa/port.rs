// SPDX-License-Identifier: GPL-2.0

//! A port whose subnet has an SA, and what is known of the SA.

use core::convert::Infallible;
use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::UniqueArc;
use kernel::time::Delta;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::bindings;
use rdma::gate::Gate;
use rdma::sync::SpinLockIrq;
use rdma::timer::impl_has_timer;
use rdma::timer::new_timer;
use rdma::timer::Armed;
use rdma::timer::Timer;
use rdma::timer::TimerCallback;
use rdma::workqueue;

use super::agent::Agent;
use super::query;
use super::sm_ah::Manager;
use super::state;
use crate::device::queues;
use crate::device::Device;
use crate::proto::sa::record::ClassPortInfo;

/// Number of retries of the ClassPortInfo query.
const CLASS_RETRIES: u8 = 3;
/// Delay before each ClassPortInfo query.
const CLASS_WAIT: Delta = Delta::from_secs(1);

/// What is known of the SA's capabilities.
#[derive(Default)]
struct Class {
    known: Option<ClassPortInfo>,
    retries: u8,
}

/// A port.
#[pin_data]
pub(super) struct Port {
    /// Keeps the device's memory. The device is registered until [`close`](Self::close) returns.
    device: ARef<Device>,
    number: u32,
    agent: Agent,
    /// Entered while a query is created, until its buffer keeps the agent registered.
    #[pin]
    pub(super) gate: Gate,
    #[pin]
    manager: SpinLockIrq<Option<Arc<Manager>>>,
    #[pin]
    class: SpinLockIrq<Class>,
    #[pin]
    look: Work<Self, 0>,
    #[pin]
    ask: Work<Self, 1>,
    #[pin]
    pause: Timer<Self>,
}

impl_has_work! {
    impl HasWork<Self, 0> for Port { self.look }
    impl HasWork<Self, 1> for Port { self.ask }
}
impl_has_timer! {
    impl HasTimer for Port { self.pause }
}

impl Port {
    /// Registers an agent on the port. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the agent.
    pub(super) fn open(device: &Device, number: u32) -> Result<Arc<Self>> {
        // Allocate first: nothing can fail after the agent is registered.
        let memory = UniqueArc::<Self>::new_uninit(GFP_KERNEL)?;
        let agent = Agent::register(device, number)?;
        let device = device.hold();
        let Ok(port) = memory.pin_init_with::<Infallible>(pin_init!(Self {
            device,
            number,
            agent,
            gate <- Gate::new(),
            manager <- rdma::new_spinlock_irq!(None, "SaPort::manager"),
            class <- rdma::new_spinlock_irq!(Class::default(), "SaPort::class"),
            look <- new_work!("SaPort::look"),
            ask <- new_work!("SaPort::ask"),
            pause <- new_timer!("SaPort::pause"),
        }));
        Ok(port.into())
    }

    /// Ends all operations on the port. Called once, while the device is still registered. May
    /// sleep.
    pub(super) fn close(self: &Arc<Self>) {
        self.gate.close_and_wait();
        Timer::<Self>::shutdown(self);
        drop(workqueue::disable::<Self, 0>(self));
        drop(workqueue::disable::<Self, 1>(self));
        state::abandon(self);
        // The gate is closed, so no more buffers are created.
        self.agent.unregister();
        drop(self.set_manager(None));
    }

    /// Port number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The device, which is registered as long as the caller is inside the gate or has a buffer.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// The agent, which is registered as long as the caller is inside the gate or has a buffer.
    pub(super) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Address handle of the SA, if known.
    pub(super) fn manager(&self) -> Option<Arc<Manager>> {
        self.manager.lock().clone()
    }

    fn set_manager(&self, manager: Option<Arc<Manager>>) -> Option<Arc<Manager>> {
        core::mem::replace(&mut *self.manager.lock(), manager)
    }

    /// Determines the address of the SA. May sleep.
    pub(super) fn look(&self) {
        let found = Manager::find(&self.device, self.number, &self.agent);
        let Some(found) = found
            .and_then(|found| Ok(Arc::new(found, GFP_KERNEL)?))
            .ok()
        else {
            return;
        };
        drop(self.set_manager(Some(found)));
    }

    /// Handles an event on the port, which invalidates the address of the SA.
    pub(super) fn disturbed(self: &Arc<Self>, event: bindings::ib_event_type) {
        let asks = match event {
            bindings::ib_event_type_IB_EVENT_PORT_ERR
            | bindings::ib_event_type_IB_EVENT_PKEY_CHANGE => false,
            bindings::ib_event_type_IB_EVENT_PORT_ACTIVE
            | bindings::ib_event_type_IB_EVENT_LID_CHANGE
            | bindings::ib_event_type_IB_EVENT_SM_CHANGE
            | bindings::ib_event_type_IB_EVENT_CLIENT_REREGISTER => true,
            _ => return,
        };
        drop(self.set_manager(None));
        if asks {
            *self.class.lock() = Class::default();
            let _: Armed = Timer::<Self>::arm_after(self.as_arc_borrow(), CLASS_WAIT);
        }
        let _ = queues::events().enqueue::<Arc<Self>, 0>(self.clone());
    }

    /// Returns whether the SA has announced support for Omni-Path path records.
    pub(super) fn knows_opa_paths(&self) -> bool {
        let class = self.class.lock();
        class.known.is_some_and(|known| known.knows_opa_paths())
    }

    /// Handles the result of the ClassPortInfo query; `None` if it failed.
    pub(super) fn class_is(self: &Arc<Self>, said: Option<ClassPortInfo>) {
        let mut class = self.class.lock();
        class.known = class.known.or(said);
        if class.known.is_some() || class.retries >= CLASS_RETRIES {
            return;
        }
        class.retries = class.retries.saturating_add(1);
        drop(class);
        let _: Armed = Timer::<Self>::arm_after(self.as_arc_borrow(), CLASS_WAIT);
    }
}

impl TimerCallback for Port {
    fn run(this: ArcBorrow<'_, Self>) {
        let _ = queues::events().enqueue::<Arc<Self>, 1>(this.into());
    }
}

impl WorkItem<0> for Port {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.look();
    }
}

impl WorkItem<1> for Port {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if this.class.lock().known.is_none() && query::ask_class(&this).is_err() {
            this.class_is(None);
        }
    }
}
