// SPDX-License-Identifier: GPL-2.0

//! Devices and their ports: agents, counters, removal.
//!
//! A device is an [`Adapter`] with a [`Port`] for each port that has connection management. Both
//! outlive the device if an ID refers to them; what needs the device is in [`Live`], which is taken
//! out at removal, and in ways, which its connections give up then.
//!
//! A port has two agents, as the C module has: REPs are sent by the second one, so that they do not
//! wait in the window of requests of the first.
//!
//! Locks: `Port::live` is held for reading while a MAD is sent, and for writing only to take `Live`
//! out. Only the locks of agents and `Port::budget` are taken while it is held. Handlers of agents take
//! it for reading, so agents are dropped without it.
//!
//! Agents keep the address handles of their sends. While a port sends, its work item has those
//! dropped that are not used any more.

use crate::counters::Counters;
use crate::edge::counters::Files;
use crate::proto::counters;
use crate::proto::counters::Group;
use crate::proto::ids::Instant;
use crate::proto::repeat::Budget;
use crate::proto::wire::Kind;
use crate::receive;
use crate::send::Ending;
use crate::Cm;
use kernel::impl_has_delayed_work;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::Mutex;
use kernel::time::msecs_to_jiffies;
use kernel::workqueue::new_delayed_work;
use kernel::workqueue::DelayedWork;
use kernel::workqueue::WorkItem;
use rdma::bindings;
use rdma::client::Client;
use rdma::client::ClientSlot;
use rdma::client::DeviceRef;
use rdma::client::NlInfo;
use rdma::edge::device::Device;
use rdma::edge::View;
use rdma::kvec;
use rdma::mad::request::Endpoint;
use rdma::mad::request::How;
use rdma::mad::request::Requester;
use rdma::mad::request::Sent;
use rdma::mad::Received;
use rdma::mad::Registration;
use rdma::mad::Unsolicited;
use rdma::provider::unsupported;
use rdma::sync::new_rwsem;
use rdma::sync::ReadGuard;
use rdma::sync::RwSem;
use rdma::sync::StaticRwSem;
use rdma::workqueue;
use rdma::workqueue::Delayed;
use rdma::workqueue::QueueLease;

/// An address handle is kept for this time after its last use, and twice this time at most.
const KEEP_MS: u32 = 2000;

/// The devices with connection management.
static ADAPTERS: StaticRwSem<KVec<Arc<Adapter>>> = StaticRwSem::new(KVec::new());

/// Makes the list of devices usable.
pub(crate) fn init() {
    ADAPTERS.init(c"ib_cm::ADAPTERS", kernel::static_lock_class!());
}

/// A device, or what is left of it.
pub(crate) struct Adapter {
    /// Address of the device, for comparisons.
    device: usize,
    ports: KVec<Arc<Port>>,
}

impl Adapter {
    /// Returns the adapter of a device, if it has connection management.
    pub(crate) fn of(device: usize) -> Option<Arc<Self>> {
        let all = ADAPTERS.read()?;
        let found = all.iter().find(|it| it.device == device);
        found.cloned()
    }

    /// Returns the device, unless it is being removed.
    pub(crate) fn device(&self) -> Option<DeviceRef> {
        let live = self.ports.first()?.live();
        Some(live.as_ref()?.device.clone())
    }

    /// Returns a port.
    pub(crate) fn port(&self, number: u32) -> Option<&Arc<Port>> {
        self.ports.iter().find(|port| port.number == number)
    }
}

/// Returns a port of a device.
pub(crate) fn find(device: &Device, number: u32) -> Option<Arc<Port>> {
    Adapter::of(device.raw().addr())?.port(number).cloned()
}

/// A port.
#[pin_data]
pub(crate) struct Port {
    pub(crate) number: u32,
    pub(crate) cm: Arc<Cm>,
    /// Node GUID of its device, in host byte order.
    pub(crate) guid: u64,
    /// Time that its device takes to acknowledge (IBTA's exponent).
    pub(crate) ack_delay: u8,
    /// What its device can do (`enum ib_device_cap_flags`).
    pub(crate) device_caps: u64,
    pub(crate) counters: Counters,
    /// Sends that wait for their answers: REPs, and those of the other agent.
    waiting: [Atomic<u32>; 2],
    /// Early repeats that may be sent.
    #[pin]
    budget: Mutex<Budget>,
    #[pin]
    live: RwSem<Option<Live>>,
    /// Upper half of the TIDs of its agent; 0 without `live`.
    hi_tid: Atomic<u32>,
    /// The work item is queued.
    sweeps: Atomic<bool>,
    #[pin]
    work: DelayedWork<Self>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Port { self.work }
}

impl Delayed for Port {
    fn lease(&self) -> &QueueLease {
        &self.cm.lease
    }
}

impl WorkItem for Port {
    type Pointer = Arc<Self>;

    /// Has agents drop the address handles that they do not need any more.
    fn run(this: Arc<Self>) {
        this.sweeps.store(false, Relaxed);
        if let Some(live) = &*this.live() {
            let left = [&live.agent, &live.replies].map(Endpoint::sweep);
            if left.contains(&true) {
                this.sweep_later();
            }
        }
    }
}

/// What needs the device.
pub(crate) struct Live {
    /// Sends all but REPs; receives.
    pub(crate) agent: Endpoint<Port>,
    /// Sends REPs.
    pub(crate) replies: Endpoint<Port>,
    pub(crate) device: DeviceRef,
    _files: Files,
}

impl Port {
    /// Holds off removal, to send. Not recursively: a waiting writer goes before new readers.
    pub(crate) fn live(&self) -> ReadGuard<'_, Option<Live>> {
        self.live.read()
    }

    /// Returns the upper half of the transaction IDs of its agent; 0 if it has none.
    pub(crate) fn hi_tid(&self) -> u32 {
        self.hi_tid.load(Relaxed)
    }

    /// The number of sends that wait for their answers, of the agent that sends messages of this kind.
    fn waiting(&self, kind: Kind) -> &Atomic<u32> {
        let [reps, others] = &self.waiting;
        if kind == Kind::Rep {
            reps
        } else {
            others
        }
    }

    /// Counts a send that will wait for its answer.
    pub(crate) fn wait_begins(&self, kind: Kind) {
        let _: u32 = self.waiting(kind).fetch_add(1u32, Relaxed);
    }

    /// Counts the end of such a send.
    pub(crate) fn wait_ends(&self, kind: Kind) {
        let _: u32 = self.waiting(kind).fetch_sub(1u32, Relaxed);
    }

    /// Returns whether the early repeat of a message of this kind may be sent, which is counted.
    pub(crate) fn may_repeat(&self, kind: Kind, now: Instant) -> bool {
        let waiting = self.waiting(kind).load(Relaxed);
        self.budget.lock().take(now, waiting)
    }

    /// Returns another port of its device.
    pub(crate) fn sibling(&self, device: &DeviceRef, number: u32) -> Option<Arc<Self>> {
        find(device.view(), number)
    }

    /// Has the work item look for address handles that are not used any more. The caller has a guard
    /// of [`live`](Self::live) with the agents, so the work item is not queued after `end`.
    pub(crate) fn sweep_later(self: &Arc<Self>) {
        if !self.sweeps.load(Relaxed) && !self.sweeps.xchg(true, Full) {
            // If it is queued already, that is enough.
            let _ = workqueue::enqueue_delayed(self.clone(), msecs_to_jiffies(KEEP_MS));
        }
    }

    /// Ends all use of the device. May sleep.
    fn end(self: &Arc<Self>) {
        let live = self.live.write().take();
        self.hi_tid.store(0, Relaxed);
        drop(workqueue::cancel_delayed(self));
        if let Some(live) = live {
            let caps = bindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP;
            // The port is going; a driver that refuses changes nothing.
            let _ = live.device.modify_port_caps(self.number, 0, caps);
            drop(live);
        }
    }
}

impl Requester for Port {
    type Data = Ending;

    fn received(this: ArcBorrow<'_, Self>, mad: Received<'_>) {
        receive::received(&this.into(), mad);
    }

    fn ended(this: ArcBorrow<'_, Self>, sent: Arc<Sent<Ending>>, how: How) {
        let ending = sent.data();
        if ending.is_tracked() {
            this.wait_ends(ending.kind);
        }
        let (all, again) = counters::sent(how.retries, ending.count);
        this.counters.add(Group::Sent, ending.kind, all.into());
        if again != 0 {
            this.counters.add(Group::Retries, ending.kind, again.into());
        }
        ending.ended(how);
    }
}

/// Class and version of connection management (IBTA volume 1, 13.4.4).
const CLASS: Unsolicited = Unsolicited {
    // CAST: 7.
    class: bindings::IB_MGMT_CLASS_CM as u8,
    version: 2,
    oui: [0; 3],
    methods: 1 << bindings::IB_MGMT_METHOD_SEND,
};

fn start(cm: &Arc<Cm>, adapter: &DeviceRef, number: u32) -> Result<Arc<Port>> {
    let port = Arc::pin_init(
        pin_init!(Port {
            number,
            cm: cm.clone(),
            guid: u64::from_be(adapter.view().node_guid()),
            ack_delay: adapter.view().attrs().local_ca_ack_delay(),
            device_caps: adapter.view().attrs().device_cap_flags(),
            counters: Counters::new(),
            waiting: [const { Atomic::new(0) }; 2],
            budget <- new_mutex!(Budget::new(cm.now()), "Port::budget"),
            live <- new_rwsem!(None, "Port::live"),
            hi_tid: Atomic::new(0),
            sweeps: Atomic::new(false),
            work <- new_delayed_work!("Port::work"),
        }),
        GFP_KERNEL,
    )?;
    Ok(port)
}

/// Registers files and agents of a port, and announces it. May sleep.
fn run(port: &Arc<Port>, device: &DeviceRef) -> Result {
    let files = Files::add(device, port.number)?;
    let mut how = Registration {
        gsi: true,
        unsolicited: None,
        rmpp_version: 0,
        flags: 0,
    };
    let register = |how: &Registration| {
        Endpoint::register(rdma::resident!(), device, port.number, how, port.clone())
    };
    let replies = register(&how)?;
    how.unsolicited = Some(CLASS);
    // A MAD that comes before `live` is set is dropped, and the peer repeats it.
    let agent = register(&how)?;
    let caps = bindings::ib_port_capability_mask_bits_IB_PORT_CM_SUP;
    device.modify_port_caps(port.number, caps, 0)?;
    port.hi_tid.store(agent.hi_tid(), Relaxed);
    *port.live.write() = Some(Live {
        agent,
        replies,
        device: device.clone(),
        _files: files,
    });
    Ok(())
}

/// Takes a device off the list, and ends its ports, when dropped.
pub(crate) struct Listed(Arc<Adapter>);

impl Drop for Listed {
    fn drop(&mut self) {
        let mut gone = None;
        if let Some(mut all) = ADAPTERS.write() {
            gone = kvec::take(&mut all, |it| Arc::ptr_eq(it, &self.0));
        }
        for port in &self.0.ports {
            port.end();
        }
        // The agents are gone, so no new way can be made.
        if let Some(port) = self.0.ports.first() {
            port.cm.device_gone(self.0.device);
        }
        drop(gone);
    }
}

rdma::static_slot!(impl for Ports: ClientSlot<Ports>);

/// The client of the core.
pub(crate) struct Ports(pub(crate) Arc<Cm>);

impl Client for Ports {
    type Data = Listed;
    const NAME: &'static CStr = c"cm";

    fn add(&self, device: DeviceRef) -> Result<Listed> {
        let mut ports = KVec::new();
        for number in device.ports().filter(|port| device.has_ib_cm(*port)) {
            ports.push(start(&self.0, &device, number)?, GFP_KERNEL)?;
        }
        if ports.is_empty() {
            return Err(unsupported());
        }
        let adapter = Adapter {
            device: device.raw().addr(),
            ports,
        };
        let adapter = Arc::new(adapter, GFP_KERNEL)?;
        // Listed first: files are read as soon as they exist.
        let mut all = ADAPTERS.write().ok_or(ENODEV)?;
        all.push(adapter.clone(), GFP_KERNEL)?;
        drop(all);
        let listed = Listed(adapter.clone());
        for port in &adapter.ports {
            run(port, &device)?;
        }
        Ok(listed)
    }

    fn remove(&self, data: Listed) {
        drop(data);
    }

    fn nl_info<'a>(
        &self,
        _data: &'a Listed,
        _device: &DeviceRef,
        _port: u32,
    ) -> Result<NlInfo<'a>> {
        Err(unsupported())
    }
}
