// SPDX-License-Identifier: GPL-2.0

//! GID tables of device ports, and their synchronisation with network devices.
//!
//! | file | what |
//! |---|---|
//! | `edge::entry` | a reference-counted table entry, which may outlive its slot |
//! | `port` | table of a port, and lookups |
//! | `snapshot` | current state of the network devices of a RoCE port |
//! | `writer` | changes of a table, with driver notification |
//! | `events` | notifiers that mark network devices and addresses for a sync |
//! | `abi` | exported functions |
//!
//! `proto::gid_plan` computes the GIDs that a RoCE port should have. This module drives it: each
//! device has marks ([`Gids::note`]) and a work item that syncs what is marked.
//!
//! Lock order: `Gids::pass`, then RTNL (held briefly), then `Gids::writer`, then slots or marks;
//! also the list of followers, then marks. A pass takes the marks before the snapshots, and both
//! under `Gids::pass`, so that an older snapshot is never applied after a newer one.

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
use crate::edge::client::PortEvent;
use crate::proto::gid_marks::Dirty;
use crate::proto::gid_marks::Event;
use crate::proto::gid_marks::Marks;
use crate::proto::gid_plan;
use crate::proto::gid_plan::Synced;
use rdma::bindings;
use rdma::features::smp_mb;
use rdma::module::Resident;
use rdma::net::rtnl;
use rdma::net::NetDevice;
use rdma::sync::SpinLockIrq;
use rdma::workqueue;
use rdma::workqueue::KeepsModule;

pub(crate) use self::abi::find_by;
pub(crate) use self::abi::find_by_port;
pub(crate) use self::abi::get_ref;
pub(crate) use self::edge::entry::GidRef;
pub(crate) use self::events::Subsystem;
pub(crate) use self::writer::Name;

/// Delay before the worker retries after an allocation failure.
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

/// The device whose tables may be changed; `None` before set-up and after clean-up.
struct Followed(Option<ARef<Device>>);

/// Marks for the next pass.
struct Pending {
    dirty: Dirty,
    /// False before set-up and after clean-up: nothing is queued then.
    open: bool,
}

/// The tables of a device. Each entry holds a reference, so this may outlive the device.
#[pin_data]
struct Gids {
    #[pin]
    work: Work<Self>,
    /// Serialises passes, which take a snapshot and apply it. Must not be taken under RTNL.
    #[pin]
    pass: Mutex<Followed>,
    /// Serialises changes of the tables. May be taken under RTNL, since drivers delete GIDs there.
    #[pin]
    writer: Mutex<()>,
    #[pin]
    pending: SpinLockIrq<Pending>,
    ports: KVec<PortOf>,
    resident: Resident,
}

/// A port of a device.
struct PortOf {
    table: Pin<KBox<Port>>,
    /// A change that clients were not notified of yet.
    changed: Atomic<bool>,
    /// Some GIDs could not be added, and this was logged.
    lacks: Atomic<bool>,
}

kernel::impl_has_work! {
    impl HasWork<Self> for Gids { self.work }
}

impl KeepsModule for Gids {
    fn resident(&self) -> &Resident {
        &self.resident
    }
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
    /// Allocates the tables of a device whose ports are set up. May sleep.
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
                resident: rdma::resident!(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns whether ports and table sizes are those of the device.
    fn fits(&self, device: &Device) -> bool {
        device
            .ports()
            .map(|port| (port, usize::try_from(table_len(device, port)).ok()))
            .eq(self.ports().map(|port| (port.number(), Some(port.len()))))
    }

    fn ports(&self) -> impl Iterator<Item = &Port> {
        self.ports.iter().map(|port| &*port.table)
    }

    /// Returns the table of a port; `None` if there is no such port.
    fn port(&self, number: u32) -> Option<&Port> {
        // Port numbers are consecutive from 1; a device with port 0 has no other port.
        let first = self.ports.first()?.table.number();
        let index = usize::try_from(number.checked_sub(first)?).ok()?;
        self.ports.get(index).map(|port| &*port.table)
    }

    /// Returns whether a port of the device may belong to a network device. Any context.
    fn may_have(&self, device: &Device, ndev: &NetDevice) -> bool {
        // With `get_netdev`, only the driver knows the network devices of its ports.
        let asks_driver = device.ops().get_netdev.is_some();
        self.ports().any(|port| {
            let is_tied = |number| match device.port(number) {
                Some(data) => core::ptr::eq(data.tied(), ndev.as_raw()),
                None => true,
            };
            matches!(port.kind(), Kind::Roce { .. }) && (asks_driver || is_tied(port.number()))
        })
    }

    /// Adds marks for an event, and queues the worker. Any context.
    fn note(self: &Arc<Self>, event: Event) {
        let mut pending = self.pending.lock();
        if !pending.open {
            return;
        }
        pending.dirty.note(event);
        if !pending.dirty.is_clean() {
            // A worker that is already queued has not taken the marks yet.
            let _: Result<(), Arc<Self>> = workqueue::enqueue_system::<Self, 0>(self.clone());
        }
    }

    /// Notes that a slot became free. Any context.
    fn room(self: &Arc<Self>) {
        self.note(Event::Room);
    }

    /// Syncs until nothing is marked, and notifies clients. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: what was not synced is still marked.
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
                // Before the mutex is released: the next pass must find these marks.
                self.pending.lock().dirty.put_back(marks);
            });
            // Only a registered device has clients.
            let live = device.live();
            // A handler may call for a rescan, which takes the mutex.
            drop(pass);
            if let Some(device) = live {
                self.tell(&device);
            }
            result?;
        }
    }

    /// Takes snapshots of the network devices of all RoCE ports.
    fn look(&self, device: &Device, marks: &Marks) -> Result<KVec<(&PortOf, Snapshot)>> {
        // A change of upper devices or of a bond calls its notifiers halfway, with RTNL held.
        // Taking RTNL waits until the change is complete; a later change sets marks again.
        let _rtnl = matches!(marks, Marks::All).then(rtnl::lock);
        // Reads of upper devices and of port bindings come before reads of addresses. Pairs with
        // the barrier in `events`.
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

    /// Syncs what is marked. The caller must hold `pass`.
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

    /// Notifies clients of changed tables. May sleep; no lock may be held.
    fn tell(&self, device: &Device) {
        for port in &self.ports {
            if port.changed.xchg(false, Full) {
                let port = port.table.number();
                event::tell_port(device, PortEvent::GidChange, port);
            }
        }
    }
}

/// GID table size of a port, as reported by the driver.
fn table_len(device: &Device, port: u32) -> i32 {
    device.immutable(port).map_or(0, |port| port.gid_tbl_len)
}

/// Sets up the tables of a device that is about to be registered, and fills those of RoCE ports.
/// May sleep.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` if a table is larger than the index space, or if ports or table sizes differ
/// from those of an earlier registration.
pub(crate) fn set_up(device: &Device) -> Result {
    let tables = device.slot::<Tables>();
    if tables.gids.as_ref().is_none() {
        // Registrations of one device are serialised.
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

/// Empties the tables of a device that was unregistered. May sleep.
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

/// Logs entries that are still held when the memory of the device is about to be freed.
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

/// Syncs all RoCE ports before it returns. May sleep.
pub(crate) fn rescan(device: &Device) {
    let Some(gids) = device.slot::<Tables>().gids.as_ref() else {
        return;
    };
    gids.pending.lock().dirty.note(Event::Topology);
    if gids.catch_up().is_err() {
        // The marks are still set: the worker retries until memory is available.
        gids.note(Event::Topology);
    }
}

/// Deletes all GIDs of a network device from a port, including default GIDs. May sleep.
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

/// Queries the GIDs of a port from the driver, unless the port is a RoCE port. Returns the subnet
/// prefix of the port, if there is a first GID. May sleep.
///
/// # Errors
///
/// Errors of the driver's `query_gid`; `EINVAL` if there is no such port; `ENODEV` after the
/// clean-up of the tables.
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

/// Returns the GID at an index. Any context.
///
/// # Errors
///
/// `EINVAL` if there is no such port or index, `ENOENT` if the entry is empty.
pub(crate) fn query(device: &Device, port: u32, index: usize) -> Result<crate::proto::gid::Gid> {
    use crate::proto::gid_table::Refusal;
    let port = device.slot::<Tables>().port(port).ok_or(EINVAL)?;
    match port.read(|table| table.get(index).map(|entry| entry.gid)) {
        Ok(gid) => Ok(gid),
        Err(Refusal::Empty) => Err(ENOENT),
        Err(_) => Err(EINVAL),
    }
}

/// Returns the C structure of a network device, or null.
fn raw_ndev(ndev: Option<&NetDevice>) -> *mut bindings::net_device {
    ndev.map_or(core::ptr::null_mut(), NetDevice::as_raw)
}
