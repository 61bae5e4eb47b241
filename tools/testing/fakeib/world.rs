// SPDX-License-Identifier: GPL-2.0

//! The fabric as the devices share it: packets on their way, and who gets them.
//!
//! Verbs put packets into a queue, from any context. A work item in softirq takes them through
//! the fabric ([`crate::proto`]) and hands them to queue pairs. No lock is held from one step to
//! the next; those of a queue pair and its completion queue are taken with none before them but
//! [`Groups`]' own.

use crate::connected;
use crate::device::Fakeib;
use crate::mem::Regions;
use crate::proto::fabric::Arrived;
use crate::proto::fabric::Fabric;
use crate::proto::fabric::Head;
use crate::proto::mad;
use crate::proto::mad::Mad;
use crate::proto::port::pkeys_match;
use crate::proto::port::Events;
use crate::qp::QpCore;
use crate::ring::Ring;
use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;
use kernel::workqueue;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::new_spinlock_irq;
use rdma::new_table;
use rdma::provider::device::PortEvent;
use rdma::provider::DeviceRef;
use rdma::provider::Gid;
use rdma::provider::QpType;
use rdma::sync::SpinLockIrq;
use rdma::table::Table;

/// Packets on their way at most; who sends more is told that there is no room.
const PACKETS: u32 = 4096;
/// Packets of one run of the work item.
const BUDGET: usize = 128;
/// Length of a global route header.
pub(crate) const GRH: usize = 40;

/// A datagram on its way.
pub(crate) struct Packet {
    /// Its LIDs and length.
    pub(crate) head: Head,
    /// Service level.
    pub(crate) sl: u8,
    /// Whether it is of subnet management, on the lane of its own.
    pub(crate) smp: bool,
    /// Partition key.
    pub(crate) pkey: u16,
    /// Queue pair that it goes to.
    pub(crate) dst_qp: u32,
    /// Queue pair that it comes from.
    pub(crate) src_qp: u32,
    /// Queue key.
    pub(crate) qkey: u32,
    /// Global route.
    pub(crate) grh: Option<[u8; GRH]>,
    /// Immediate data.
    pub(crate) imm: Option<[u8; 4]>,
    /// Whether the completion shall count as solicited.
    pub(crate) solicited: bool,
    /// What it carries.
    pub(crate) payload: KVec<u8>,
}

/// What the work item is to do, each for an adapter.
enum Job {
    /// Carry a packet that it sends.
    Carry(usize, Packet),
    /// Go on with the queue pair of this number, which is connected.
    Run(usize, u32),
}

/// What a device shares with the fabric.
#[pin_data]
pub(crate) struct Adapter {
    /// Queue pairs by number.
    #[pin]
    pub(crate) qps: Table<QpCore>,
    /// Memory regions by number.
    #[pin]
    pub(crate) regions: Regions,
    /// Queue pairs that are attached to groups, by number.
    #[pin]
    groups: SpinLockIrq<KVec<(Gid, u32)>>,
    /// Whether there is a device below the device.
    pub(crate) has_below: Atomic<bool>,
    /// The device, from its registration on.
    #[pin]
    device: SpinLockIrq<Option<DeviceRef<Fakeib>>>,
}

impl Adapter {
    /// May sleep.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                qps <- new_table!("fakeib::Adapter::qps"),
                regions <- new_table!("fakeib::Adapter::regions"),
                has_below: Atomic::new(false),
                groups <- new_spinlock_irq!(KVec::new(), "fakeib::Adapter::groups"),
                device <- new_spinlock_irq!(None, "fakeib::Adapter::device"),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the device that events are told to, or none any more.
    pub(crate) fn set_device(&self, device: Option<DeviceRef<Fakeib>>) {
        let old = core::mem::replace(&mut *self.device.lock(), device);
        drop(old);
    }

    /// Attaches a queue pair to a group. May sleep.
    pub(crate) fn attach(&self, gid: &Gid, qpn: u32) -> Result {
        let mut room = KVec::new();
        loop {
            let mut groups = self.groups.lock();
            if groups.contains(&(*gid, qpn)) {
                return Ok(());
            }
            if room.capacity() > groups.len() {
                for entry in groups.drain_all() {
                    room.push_within_capacity(entry).map_err(|_| ENOMEM)?;
                }
                room.push_within_capacity((*gid, qpn)).map_err(|_| ENOMEM)?;
                core::mem::swap(&mut *groups, &mut room);
                return Ok(());
            }
            let need = groups.len().saturating_add(1);
            drop(groups);
            room.reserve(need, GFP_KERNEL)?;
        }
    }

    /// Detaches a queue pair from a group.
    pub(crate) fn detach(&self, gid: &Gid, qpn: u32) -> Result {
        let mut groups = self.groups.lock();
        let at = groups.iter().position(|entry| *entry == (*gid, qpn));
        groups.remove(at.ok_or(EINVAL)?).map_err(|_| EINVAL)?;
        Ok(())
    }

    /// Tells the core what happened to the port. Any context.
    fn tell(&self, events: Events) {
        if events.is_empty() {
            return;
        }
        let device = self.device.lock().clone();
        let Some(live) = device.as_ref().and_then(|d| d.live()) else {
            return;
        };
        for (what, event) in [
            (Events::DOWN, PortEvent::Error),
            (Events::GIDS, PortEvent::GidChange),
            (Events::LID, PortEvent::LidChange),
            (Events::PKEYS, PortEvent::PkeyChange),
            (Events::MANAGER, PortEvent::SmChange),
            (Events::ACTIVE, PortEvent::Active),
            (Events::REREGISTER, PortEvent::ClientReregister),
        ] {
            if events.has(what) {
                live.port_event(crate::proto::fabric::HOST_PORT.into(), event);
            }
        }
    }
}

/// Everything that the devices share.
#[pin_data]
pub(crate) struct World {
    /// What is at the ends, by number in the fabric.
    pub(crate) adapters: KVec<Arc<Adapter>>,
    #[pin]
    fabric: SpinLockIrq<Fabric>,
    #[pin]
    queue: SpinLockIrq<Ring<KBox<Job>>>,
    #[pin]
    work: Work<World>,
}

impl_has_work! {
    impl HasWork<Self> for World { self.work }
}

impl WorkItem for World {
    type Pointer = Arc<World>;

    fn run(this: Arc<World>) {
        for _ in 0..BUDGET {
            let next = this.queue.lock().pop();
            let Some(next) = next else { return };
            match KBox::into_inner(next) {
                Job::Carry(from, packet) if packet.smp => this.carry_smp(from, packet),
                Job::Carry(from, packet) => this.carry(from, packet),
                Job::Run(host, number) => connected::run(&this, host, number),
            }
        }
        // An error means that it is queued already.
        let _ = workqueue::system_bh().enqueue(this);
    }
}

impl World {
    /// A fabric with adapters at its ends. May sleep.
    pub(crate) fn new(fabric: Fabric, adapters: KVec<Arc<Adapter>>) -> Result<Arc<Self>> {
        let queue = Ring::new(PACKETS)?;
        Arc::pin_init(
            pin_init!(Self {
                adapters,
                fabric <- new_spinlock_irq!(fabric, "fakeib::World::fabric"),
                queue <- new_spinlock_irq!(queue, "fakeib::World::queue"),
                work <- new_work!("fakeib::World::work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Looks at or changes the fabric, and tells what came of it. Any context.
    pub(crate) fn with<R>(self: &Arc<Self>, f: impl FnOnce(&mut Fabric) -> R) -> R {
        let result = f(&mut self.fabric.lock());
        self.tell();
        result
    }

    /// Only looks at the fabric. Any context.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&Fabric) -> R) -> R {
        f(&self.fabric.lock())
    }

    /// Tells all devices what happened, and the manager what the switch has to say.
    fn tell(self: &Arc<Self>) {
        for (host, adapter) in self.adapters.iter().enumerate() {
            let events = self.fabric.lock().take_events(host);
            adapter.tell(events);
        }
        let trap = self.fabric.lock().trap();
        if let Some((host, head, mad)) = trap {
            // Without memory the manager sees the change when it looks the next time.
            if let Ok(packet) = smp(head, &mad) {
                self.arrive(host, &packet);
            }
        }
    }

    /// Sends a packet from an adapter. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when too many are on their way.
    pub(crate) fn send(self: &Arc<Self>, from: usize, packet: Packet) -> Result {
        self.enqueue(Job::Carry(from, packet))
    }

    /// Has a connection go on. Any context.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub(crate) fn kick(self: &Arc<Self>, host: usize, number: u32) -> Result {
        self.enqueue(Job::Run(host, number))
    }

    /// Has a connection go on that waited for a receive, if one did. Any context.
    pub(crate) fn wake(self: &Arc<Self>, parked: Option<(usize, u32)>) {
        if let Some((host, number)) = parked {
            // Without memory its next request goes on.
            let _ = self.kick(host, number);
        }
    }

    /// The adapter that a packet of an adapter arrives at. Any context.
    pub(crate) fn reach(&self, from: usize, dlid: u16, len: usize) -> Option<usize> {
        let head = Head {
            slid: 0,
            dlid,
            len: len.min(256),
        };
        let mut to = None;
        self.fabric.lock().send(from, &head, |host| to = Some(host));
        to.filter(|_| !head.is_multicast())
    }

    fn enqueue(self: &Arc<Self>, job: Job) -> Result {
        let item = KBox::new(job, GFP_ATOMIC)?;
        let refused = self.queue.lock().push(item);
        refused.map_err(|_| ENOMEM)?;
        // An error means that it is queued already.
        let _ = workqueue::system_bh().enqueue(self.clone());
        Ok(())
    }

    /// Takes a packet of subnet management to where it goes.
    fn carry_smp(self: &Arc<Self>, from: usize, mut packet: Packet) {
        let Some(mut mad) = packet.payload.first_chunk::<{ mad::LEN }>().copied() else {
            return;
        };
        let to = self.with(|fabric| fabric.send_smp(from, &mut packet.head, &mut mad));
        packet.payload.copy_from_slice(&mad);
        if let Some(to) = to {
            self.arrive(to, &packet);
        }
    }

    /// Takes a packet of data to where it goes.
    fn carry(self: &Arc<Self>, from: usize, mut packet: Packet) {
        let multicast = packet.head.is_multicast();
        // A bit for each adapter.
        let mut to = 0u32;
        let arrived = self
            .fabric
            .lock()
            .send(from, &packet.head, |host| to |= 1 << host);
        if multicast {
            // Members on the adapter itself do not need the switch.
            to |= 1 << from;
        }
        if arrived == Arrived::Switch && packet.dst_qp == 1 {
            let Some(mut mad) = packet.payload.first_chunk::<{ mad::LEN }>().copied() else {
                return;
            };
            if !self.with(|fabric| fabric.switch_mad(&mut mad)) {
                return;
            }
            packet.payload.copy_from_slice(&mad);
            let head = &mut packet.head;
            (head.slid, head.dlid) = (head.dlid, head.slid);
            (packet.dst_qp, packet.src_qp) = (packet.src_qp, 1);
            packet.qkey = mad::GSI_QKEY;
            packet.grh = None;
            if let Some(host) = self.fabric.lock().leave_by_lid(&packet.head) {
                to |= 1 << host;
            }
        }
        for host in (0..self.adapters.len()).filter(|host| to >> *host & 1 != 0) {
            if !multicast {
                self.arrive(host, &packet);
                continue;
            }
            let Some(adapter) = self.adapters.get(host) else {
                return;
            };
            let group = packet.grh.as_ref().and_then(|grh| grh.last_chunk::<16>());
            let groups = adapter.groups.lock();
            for (gid, qpn) in groups.iter() {
                let own = host == from && *qpn == packet.src_qp;
                if Some(gid) != group || own {
                    continue;
                }
                if let Some(qp) = adapter.qps.get(*qpn) {
                    self.hand(host, adapter, &qp, &packet);
                }
            }
        }
    }

    /// A packet has arrived at an adapter and looks for its queue pair.
    fn arrive(self: &Arc<Self>, host: usize, packet: &Packet) {
        let Some(adapter) = self.adapters.get(host) else {
            return;
        };
        if let Some(qp) = adapter.qps.get(packet.dst_qp) {
            self.hand(host, adapter, &qp, packet);
        }
    }

    /// Hands a packet to a queue pair if its keys fit.
    fn hand(&self, host: usize, adapter: &Adapter, qp: &Arc<QpCore>, packet: &Packet) {
        let mut fabric = self.fabric.lock();
        let Some(port) = fabric.host(host).map(|h| &h.port) else {
            return;
        };
        let path_bits = packet.head.dlid & port.lid_mask();
        let index = match qp.kind {
            QpType::Smi => Some(0),
            // Management takes every partition that the port is in.
            QpType::Gsi => port.matching_pkey(packet.pkey),
            _ => {
                let index = usize::from(qp.pkey_index());
                let own = port.pkeys.get(index).copied().unwrap_or(0);
                pkeys_match(own, packet.pkey).then_some(index)
            }
        };
        let Some(index) = index else {
            fabric.bad_pkey(host);
            return;
        };
        if qp.kind != QpType::Smi && qp.qkey() != packet.qkey {
            fabric.bad_qkey(host);
            return;
        }
        drop(fabric);
        // CAST: a path's bits are 7; there are few keys.
        qp.receive(&adapter.regions, packet, index as u16, path_bits as u8);
    }

    /// Nothing is carried any more. May sleep.
    pub(crate) fn stop(self: &Arc<Self>) {
        drop(rdma::workqueue::disable::<World, 0>(self));
        for adapter in &self.adapters {
            adapter.set_device(None);
        }
    }
}

/// A packet of subnet management.
fn smp(head: Head, mad: &Mad) -> Result<Packet> {
    let mut payload = KVec::new();
    payload.extend_from_slice(mad, GFP_ATOMIC)?;
    Ok(Packet {
        head,
        sl: 0,
        smp: true,
        pkey: 0,
        dst_qp: 0,
        src_qp: 0,
        qkey: 0,
        grh: None,
        imm: None,
        solicited: false,
        payload,
    })
}
