// SPDX-License-Identifier: GPL-2.0

//! The GIDs of a device's ports, and how they follow the network devices.
//!
//! | file | what |
//! |---|---|
//! | `edge::entry` | an entry, counted, that outlives its place in the table |
//! | `port` | a port's table, and lookups |
//! | `snapshot` | what the network devices of a RoCE port are like now |
//! | `writer` | changes of a table, of which the driver is told |
//! | `events` | notifiers that mark what has to be looked at again |
//! | `abi` | exported functions |
//!
//! What a RoCE port should have is computed by `proto::gid_plan`. Here are its hosts: each
//! device has marks ([`Gids::note`]) and a work item that syncs what is marked.
//!
//! Locks: the mutex of passes, then RTNL for a moment, then the writer's mutex, then slots or
//! marks; the list of devices, then marks. Marks are taken before the snapshots, and both
//! under the mutex of passes, so that an older snapshot is never applied after a newer one.

mod abi;
pub(crate) mod edge;
mod events;
mod port;
mod snapshot;
mod writer;

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::sync::barrier::smp_mb;
use kernel::sync::new_mutex;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::sync::SetOnce;
use kernel::time::delay::fsleep;
use kernel::time::Delta;
use kernel::workqueue::new_work;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;

use self::port::Kind;
use self::port::Port;
use self::snapshot::Snapshot;
use self::writer::Writer;
use crate::device::event;
use crate::device::Device;
use crate::proto::gid_marks::Dirty;
use crate::proto::gid_marks::Event;
use crate::proto::gid_marks::Marks;
use crate::proto::gid_plan;
use crate::proto::gid_plan::Synced;
use rdma::bindings;
use rdma::net::rtnl;
use rdma::net::NetDevice;
use rdma::sync::SpinLockIrq;
use rdma::workqueue;

pub(crate) use self::abi::find_by;
pub(crate) use self::abi::find_by_port;
pub(crate) use self::abi::get_ref;
pub(crate) use self::edge::entry::GidRef;
pub(crate) use self::events::Subsystem;
pub(crate) use self::writer::Name;

/// How long the worker waits when there was no memory.
const BREATH: Delta = Delta::from_millis(100);

/// The GID tables of a device, one for each port.
#[pin_data]
pub(crate) struct Tables {
    gids: SetOnce<Arc<Gids>>,
}

impl crate::device::PerDevice for Tables {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            gids: SetOnce::new(),
        })
    }
}

impl Tables {
    fn port(&self, port: u32) -> Option<&Port> {
        self.gids.as_ref()?.port(port)
    }

    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.gids.as_ref().into_iter().flat_map(|gids| gids.ports())
    }
}

/// The device whose tables may be written, until it is cleaned up.
struct Followed(Option<ARef<Device>>);

/// What is to be looked at again.
struct Pending {
    dirty: Dirty,
    /// False before the tables are set up and after they were cleaned: nothing is queued.
    open: bool,
}

/// The tables of a device. Entries keep it, so that it may outlive the device.
#[pin_data]
struct Gids {
    #[pin]
    work: Work<Self>,
    /// Who may look and then change. Not taken under RTNL.
    #[pin]
    pass: Mutex<Followed>,
    /// Who may change. Drivers may want something deleted while they hold RTNL.
    #[pin]
    writer: Mutex<()>,
    #[pin]
    pending: SpinLockIrq<Pending>,
    ports: KVec<PortOf>,
}

/// A port of a device.
struct PortOf {
    table: Pin<KBox<Port>>,
    /// Clients have not been told of a change yet.
    changed: Atomic<bool>,
    /// Some GIDs are not in the table that should be, and the log has it.
    lacks: Atomic<bool>,
}

kernel::impl_has_work! {
    impl HasWork<Self> for Gids { self.work }
}

impl WorkItem for Gids {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        while let Err(error) = this.catch_up() {
            pr_warn!("GIDs have to wait: {error:?}\n");
            fsleep(BREATH);
        }
    }
}

impl Gids {
    /// Tables for a device whose ports are set up. May sleep.
    fn new(device: &Device) -> Result<Arc<Self>> {
        let mut ports = KVec::new();
        for number in device.ports() {
            let len = usize::try_from(table_len(device, number)).map_err(|_| EINVAL)?;
            let port = PortOf {
                table: Port::new(device, number, len)?,
                changed: Atomic::new(false),
                lacks: Atomic::new(false),
            };
            ports.push(port, GFP_KERNEL)?;
        }
        Arc::pin_init(
            pin_init!(Self {
                work <- new_work!("Gids::work"),
                pass <- new_mutex!(Followed(None), "Gids::pass"),
                writer <- new_mutex!((), "GidTable::writer"),
                pending <- rdma::new_spinlock_irq!(Pending {
                    dirty: Dirty::default(),
                    open: false,
                }, "GidEvents::dirty"),
                ports,
            }),
            GFP_KERNEL,
        )
    }

    /// Whether the tables are those that the device needs.
    fn fits(&self, device: &Device) -> bool {
        device
            .ports()
            .map(|port| (port, usize::try_from(table_len(device, port)).ok()))
            .eq(self.ports().map(|port| (port.number(), Some(port.len()))))
    }

    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().map(|port| &*port.table)
    }

    /// The table of a port, if there is such a port.
    fn port(&self, number: u32) -> Option<&Port> {
        // Ports are numbered in sequence, from 1, or 0 alone.
        let first = self.ports.first()?.table.number();
        let index = usize::try_from(number.checked_sub(first)?).ok()?;
        self.ports.get(index).map(|port| &*port.table)
    }

    /// Whether some port of the device may be that of a network device. Any context.
    fn may_have(&self, device: &Device, ndev: &NetDevice) -> bool {
        // Only such a driver knows where its network devices are.
        let asks_driver = device.ops().get_netdev.is_some();
        self.ports().any(|port| {
            let is_tied = |number| match device.port(number) {
                Some(data) => core::ptr::eq(data.tied(), ndev.as_raw()),
                None => true,
            };
            matches!(port.kind(), Kind::Roce { .. }) && (asks_driver || is_tied(port.number()))
        })
    }

    /// Marks, and has the worker look. Any context.
    fn note(self: &Arc<Self>, event: Event) {
        let mut pending = self.pending.lock();
        if !pending.open {
            return;
        }
        pending.dirty.note(event);
        if !pending.dirty.is_clean() {
            // If it is queued already, it has not taken the marks yet.
            let _: Result<(), Arc<Self>> = workqueue::system_dfl().enqueue(self.clone());
        }
    }

    /// A slot became free. Any context.
    fn room(self: &Arc<Self>) {
        self.note(Event::Room);
    }

    /// Syncs until nothing is marked, and tells clients. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: what was not done is still marked.
    fn catch_up(self: &Arc<Self>) -> Result {
        loop {
            let pass = self.pass.lock();
            let Some(device) = &pass.0 else {
                return Ok(());
            };
            let marks = {
                let mut pending = self.pending.lock();
                if pending.dirty.is_clean() {
                    return Ok(());
                }
                pending.dirty.take()
            };
            let result = self.sync(device, &marks).inspect_err(|_| {
                // Before the mutex goes: who waits for it must not find that there is nothing
                // to do.
                self.pending.lock().dirty.put_back(marks);
            });
            // Clients there are only while it is registered.
            let live = device.live();
            // A handler may ask for a rescan, which takes the mutex.
            drop(pass);
            if let Some(device) = live {
                self.tell(&device);
            }
            result?;
        }
    }

    /// Looks at the network devices of all RoCE ports.
    fn look(&self, device: &Device, marks: &Marks) -> Result<KVec<(&PortOf, Snapshot)>> {
        // Who changes what is above what, or a bond, announces it in the middle, and goes on
        // after that. All of it is done when we have RTNL; what comes later, marks anew.
        let _rtnl = matches!(marks, Marks::All).then(rtnl::lock);
        // What was stacked or tied before comes before the addresses: see `events`.
        smp_mb();
        let mut snapshots = KVec::new();
        for port in &self.ports {
            if let Kind::Roce { types, .. } = port.table.kind() {
                let snapshot = Snapshot::take(device, port.table.number(), types, marks)?;
                snapshots.push((port, snapshot), GFP_KERNEL)?;
            }
        }
        Ok(snapshots)
    }

    /// Brings what is marked to what it should be, in a pass.
    fn sync(self: &Arc<Self>, device: &Device, marks: &Marks) -> Result {
        let snapshots = self.look(device, marks)?;
        let _writer = self.writer.lock();
        let mut all = Synced::default();
        for (port, snapshot) in &snapshots {
            let devices = snapshot.devices()?;
            let mut writer = Writer::new(self, device, &port.table, snapshot);
            let synced = gid_plan::sync_marked(&mut writer, snapshot.port(), devices.iter(), marks);
            let short_of_memory = writer.is_short_of_memory();
            if synced.added > 0 || synced.deleted > 0 {
                port.changed.store(true, Relaxed);
            }
            let lacks = synced.left_out > 0 || synced.refused > 0;
            if !port.lacks.xchg(lacks, Full) && lacks {
                pr_warn!(
                    "{}: of the GIDs of port {}, {} do not fit into the table, and the driver refuses {}\n",
                    writer::Name(device),
                    port.table.number(),
                    synced.left_out,
                    synced.refused
                );
            }
            all = all.and(synced);
            if short_of_memory {
                return Err(ENOMEM);
            }
        }
        self.pending.lock().dirty.done(marks, &all);
        Ok(())
    }

    /// Tells clients of changes. May sleep; no lock is held.
    fn tell(&self, device: &Device) {
        for port in &self.ports {
            if port.changed.xchg(false, Full) {
                let port = port.table.number();
                event::tell_port(device, bindings::ib_event_type_IB_EVENT_GID_CHANGE, port);
            }
        }
    }
}

/// How many GIDs the driver says that a port has.
fn table_len(device: &Device, port: u32) -> i32 {
    device.immutable(port).map_or(0, |port| port.gid_tbl_len)
}

/// Makes the tables of a device that is about to be registered, and fills those that follow
/// network devices. May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` if a port has more GIDs than there are indices, or others than when
/// the device was registered before.
pub(crate) fn set_up(device: &Device) -> Result {
    let tables = device.slot::<Tables>();
    if tables.gids.as_ref().is_none() {
        // Only one registers a device at a time.
        let _: bool = tables.gids.populate(Gids::new(device)?);
    }
    let gids = tables.gids.as_ref().ok_or(ENOMEM)?;
    if !gids.fits(device) {
        return Err(EINVAL);
    }
    gids.pass.lock().0 = Some(device.hold());
    gids.pending.lock().open = true;
    events::follow(gids, device).inspect_err(|_| clean_up(device))?;
    rescan(device);
    Ok(())
}

/// Empties the tables: the device is not registered any more. May sleep.
pub(crate) fn clean_up(device: &Device) {
    let Some(gids) = device.slot::<Tables>().gids.as_ref() else {
        return;
    };
    events::unfollow(gids);
    gids.pending.lock().open = false;
    {
        let mut pass = gids.pass.lock();
        if pass.0.take().is_some() {
            let _writer = gids.writer.lock();
            for port in gids.ports() {
                writer::empty(device, port);
            }
        }
    }
    drop(workqueue::cancel::<Gids, 0>(gids));
}

/// Looks for entries that somebody holds still: the memory of the device is about to go.
pub(crate) fn release(device: &Device) {
    for port in device.slot::<Tables>().ports() {
        let held = port.held();
        if held > 0 {
            pr_err!(
                "{}: {held} GIDs of port {} are held by somebody who has not put them\n",
                writer::Name(device),
                port.number()
            );
        }
    }
}

/// Brings all RoCE ports up to date before it returns. May sleep.
pub(crate) fn rescan(device: &Device) {
    let Some(gids) = device.slot::<Tables>().gids.as_ref() else {
        return;
    };
    gids.pending.lock().dirty.note(Event::Topology);
    if gids.catch_up().is_err() {
        // The marks are there: the worker goes on when there is memory.
        gids.note(Event::Topology);
    }
}

/// Deletes all GIDs that a port has from a network device, default ones too. May sleep.
fn del_ndev(device: &Device, port: u32, ndev: &NetDevice) {
    let Some(gids) = device.slot::<Tables>().gids.as_ref() else {
        return;
    };
    {
        let _writer = gids.writer.lock();
        let Some(port) = gids.ports.iter().find(|p| p.table.number() == port) else {
            return;
        };
        if writer::delete_of(device, &port.table, ndev) {
            port.changed.store(true, Relaxed);
        }
    }
    if let Some(device) = device.live() {
        gids.tell(&device);
    }
}

/// Asks the driver for the GIDs of a port that does not follow network devices. Answers the
/// port's subnet prefix, if there is a first GID. May sleep.
///
/// # Errors
///
/// Those of the driver's `query_gid`, and `ENODEV` once the tables were cleaned.
pub(crate) fn refresh(device: &Device, port: u32, len: u32) -> Result<Option<u64>> {
    let gids = device.slot::<Tables>().gids.as_ref().ok_or(ENODEV)?;
    let port = gids.port(port).ok_or(EINVAL)?;
    let pass = gids.pass.lock();
    if pass.0.is_none() {
        return Err(ENODEV);
    }
    let _writer = gids.writer.lock();
    if matches!(port.kind(), Kind::Roce { .. }) {
        return Ok(None);
    }
    writer::ask_driver(gids, device, port, len)
}

/// The GID at a place. Any context.
///
/// # Errors
///
/// `EINVAL` if there is no such port or place, `ENOENT` if it is empty.
pub(crate) fn query(device: &Device, port: u32, index: usize) -> Result<crate::proto::gid::Gid> {
    use crate::proto::gid_table::Refusal;
    let port = device.slot::<Tables>().port(port).ok_or(EINVAL)?;
    match port.read(|table| table.get(index).map(|entry| entry.gid)) {
        Ok(gid) => Ok(gid),
        Err(Refusal::Empty) => Err(ENOENT),
        Err(_) => Err(EINVAL),
    }
}

/// The C structure of a network device, or null.
fn raw_ndev(ndev: Option<&NetDevice>) -> *mut bindings::net_device {
    ndev.map_or(core::ptr::null_mut(), NetDevice::as_raw)
}
