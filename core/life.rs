// SPDX-License-Identifier: GPL-2.0

//! The lifecycle of a device: which parts of the core each step calls, and in which order.
//!
//! | step | device | other parts, in this order |
//! |---|---|---|
//! | allocation | memory, driver model | [`Slots`] |
//! | registration | name, ports, attributes | `cache` (and GIDs), `sysfs` (and `stats`), `cgroup`, `counter` |
//! | | `device_add` | `sysfs` of ports |
//! | enabling | registry, clients, copies in namespaces | |
//! | notification | uevent | `nldev` |
//! | event | | `cache` (and GIDs), `security`; then clients' handlers |
//! | namespace change | disabling, rename, enabling | |
//! | disabling | registry, clients, use count, copies | `cq` (before the use count) |
//! | unregistration | disabling, network devices, `device_del` | `nldev`, `sysfs` of ports, `cgroup`, `cache` |
//! | release | | `stats`, GIDs, `counter` |
//!
//! This file implements [`Hooks`] for `device`, which does not import the other parts. Locks: see
//! sections 4 and 7 of `core_locking.md`.

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Release;
use kernel::warn_on;
use kernel::workqueue::WorkItem;
use pin_init::PinInit;
use rdma::bindings;
use rdma::edge::Passed;
use rdma::net::CountedNet;
use rdma::net::Net;

use crate::cache;
use crate::cgroup;
use crate::counter;
use crate::cq;
use crate::device::alloc;
use crate::device::client;
use crate::device::netdev;
use crate::device::netns;
use crate::device::port;
use crate::device::queues;
use crate::device::registry;
use crate::device::sub;
use crate::device::sub::Closed;
use crate::device::Core;
use crate::device::Device;
use crate::device::HasSlot;
use crate::device::Hooks;
use crate::device::LastReference;
use crate::device::Notice;
use crate::device::PerDevice;
use crate::device::Registered;
use crate::edge::client::Event;
use crate::edge::device::Unregistered;
use crate::edge::device::Visible;
use crate::edge::end::Ending;
use crate::frmr;
use crate::gid;
use crate::nldev;
use crate::proto::names::Naming;
use crate::restrack;
use crate::sa;
use crate::security;
use crate::stats;
use crate::sysfs;

/// Per-device data of the parts of the core, one field per part. `has_slot!` must list the same
/// fields.
#[pin_data]
pub(crate) struct Slots {
    /// Objects of the device (resource tracking).
    #[pin]
    restrack: restrack::Tables,
    /// Fast registration memory region (FRMR) pools.
    #[pin]
    frmr: frmr::Slot,
    /// GID tables of the ports.
    #[pin]
    gids: gid::Tables,
    /// Cached attributes of the ports.
    #[pin]
    copies: cache::Copies,
    /// Bindings of queue pairs to counters.
    #[pin]
    counters: counter::Bindings,
    /// Hardware counters of the device and of its ports.
    #[pin]
    stats: sysfs::Counters,
    /// Registration with the rdma cgroup controller.
    #[pin]
    limits: cgroup::Limits,
    /// Subnet manager address of the ports, and multicast groups.
    #[pin]
    sa: sa::Slots,
    /// Queue pairs that are subject to LSM checks.
    #[pin]
    secured: security::Qps,
}

/// Implements [`HasSlot`] for each field, and the constructor.
macro_rules! has_slot {
    ($( $name:ident: $ty:ty, )*) => {
        impl Slots {
            fn new() -> impl PinInit<Self, Error> {
                try_pin_init!(Self {
                    $( $name <- <$ty as PerDevice>::new(), )*
                })
            }
        }

        $(
            impl HasSlot<$ty> for Slots {
                #[inline(always)]
                fn slot(&self) -> &$ty {
                    &self.$name
                }
            }
        )*
    };
}

has_slot! {
    restrack: restrack::Tables,
    frmr: frmr::Slot,
    gids: gid::Tables,
    copies: cache::Copies,
    counters: counter::Bindings,
    stats: sysfs::Counters,
    limits: cgroup::Limits,
    sa: sa::Slots,
    secured: security::Qps,
}

impl Hooks for Core {
    type Slots = Slots;
    type Stats = stats::HwStats;

    fn slots() -> impl PinInit<Slots, Error> {
        Slots::new()
    }

    fn unregister(device: &Device) {
        end(device);
    }

    fn relocate(
        device: &Device,
        _closed: Closed<'_>,
        from: &Net,
        to: &CountedNet,
        naming: Naming<'_>,
    ) -> Result {
        let one = device.lock_registration();
        if !device.is_in(from) {
            return Err(ENODEV);
        }
        if device.uses().none() {
            // It keeps its name, which others may have elsewhere, so it moves only if it must.
            if from.try_hold().is_none() {
                one.set_net(to);
            }
            return Err(ENODEV);
        }
        // A device that cannot have its name there is not taken from its users.
        registry::check_move(device, to, naming)?;
        uevent(device, bindings::kobject_action_KOBJ_REMOVE);
        disable(device);
        let moved = registry::relocate(&one, from, to, naming);
        let (held, shown) = enable(device);
        if shown.is_err() {
            // Leave the device as it is; the user may retry.
            pr_warn!("{}: not whole after it was moved\n", device.name());
        }
        uevent(device, bindings::kobject_action_KOBJ_ADD);
        drop(held);
        moved.and(shown)
    }

    fn release(last: &LastReference<'_>) {
        gid::release(last.device());
        counter::release(last);
    }

    fn refresh(device: &Device, event: &Event) -> bool {
        cache::refresh(device, event, |port| security::port_changed(device, port))
    }

    fn notify(device: &Device, notice: Notice) {
        nldev::notify(device, notice);
    }

    fn subnet_prefix(device: &Device, port: u32) -> u64 {
        cache::subnet_prefix(device, port)
    }

    fn port_stats(device: &Device, port: u32) -> Option<&stats::HwStats> {
        sysfs::port_stats(device, port)
    }

    fn show_ports(of: &Visible<'_>) -> Result {
        sysfs::set_up_ports(of)
    }

    fn hide_ports(of: &Visible<'_>) {
        sysfs::free_ports(of);
    }
}

/// Enables the device: adds it to clients, and copies of it to network namespaces. Also returns a
/// use count, which a device has even if a client or the driver fails. May sleep.
fn enable(device: &Device) -> (Option<Registered>, Result) {
    match registry::enable(device) {
        Ok((_still, held)) => (Some(held), show(device)),
        Err(error) => (None, Err(error)),
    }
}

fn show(device: &Device) -> Result {
    if device.ops().enable_driver.is_some() {
        device.driver().enable_driver()?;
    }
    client::add_all(device)?;
    netns::add_copies(device)
}

/// Disables the device: removes it from clients and network namespaces, and waits until its last
/// use ends. The caller must hold the device's registration lock. May sleep.
fn disable(device: &Device) {
    warn_on!(device.uses().none());
    let own = registry::disable(device);
    client::remove_all(device);
    cq::clean_up(device);
    drop(own);
    device.uses().wait();
    // No more copies are made from here on.
    netns::remove_copies(device);
}

/// Unregisters the device, if it is registered, and frees it if its driver has `dealloc_driver`.
/// The device is unregistered when this returns, even if another thread unregistered it. May sleep.
///
/// The caller must hold a driver model reference, and no use count.
fn end(device: &Device) {
    sub::close(device).for_ever();
    let Some(ending) = Ending::of(device) else {
        return;
    };
    disable(device);
    nldev::notify(device, Notice::Unregister);
    // Deliver pending events, which may use the network devices.
    queues::flush_events();
    netdev::detach_all(device);
    let Some((visible, ended)) = ending.unused() else {
        warn_on!(true);
        return;
    };
    sysfs::free_ports(&visible);
    drop(visible);
    cgroup::unregister(device);
    // Handlers of earlier events may still call the driver.
    queues::flush_events();
    cache::clean_up(device);
    // The same goes for events that the driver dispatched in the meantime.
    queues::flush_events();
    if let Some((memory, _one)) = ended.memory() {
        // The caller's reference keeps the memory until the end of this function.
        alloc::dealloc(memory);
    }
}

fn register(mut fields: Unregistered<'_>, name: &CStr, dma: Passed<bindings::device>) -> Result {
    let device = fields.device();
    registry::assign_name(&mut fields, name.to_bytes())?;
    fields.set_dma_device(dma);
    fields.judge_ops();
    alloc::set_up_ports(device)?;
    port::set_up(&mut fields).inspect_err(|_| {
        pr_warn!(
            "{}: the driver does not describe its ports\n",
            device.name()
        );
    })?;
    fields.query().inspect_err(|_| {
        pr_warn!(
            "{}: the driver does not answer for the device\n",
            device.name()
        );
    })?;
    cache::set_up(device).inspect_err(|_| {
        pr_warn!("{}: no caches of P_Keys and GIDs\n", device.name());
    })?;
    let mut undo = Undo {
        device,
        cgroup: false,
        suppressed: false,
    };
    sysfs::set_up_device(&mut fields)?;
    cgroup::register(device);
    undo.cgroup = true;
    counter::set_up(&mut fields);
    // Send the uevent only when the device is ready for use.
    device.model().suppress_uevents(true);
    undo.suppressed = true;
    let visible = fields.add()?;
    sysfs::set_up_ports(&visible).inspect_err(|_| {
        pr_warn!("{}: its ports are not in sysfs\n", device.name());
    })?;
    visible.keep();
    core::mem::forget(undo);

    // Before another thread can unregister the device.
    sub::open(device);
    let (held, shown) = enable(device);
    if let Err(error) = shown {
        // The caller frees the device, even if another thread unregisters it now: that thread waits
        // for the use count held here, and then sees the flag.
        device.keep_memory().store(true, Release);
        drop(held);
        end(device);
        device.keep_memory().store(false, Release);
        device.model().suppress_uevents(false);
        return Err(error);
    }
    device.model().suppress_uevents(false);
    announce(device);
    // The device may be unregistered from here on.
    drop(held);
    Ok(())
}

/// Undoes the steps of a failed registration on drop.
struct Undo<'a> {
    device: &'a Device,
    cgroup: bool,
    suppressed: bool,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if self.suppressed {
            self.device.model().suppress_uevents(false);
        }
        if self.cgroup {
            cgroup::unregister(self.device);
        }
        queues::flush_events();
        cache::clean_up(self.device);
        queues::flush_events();
    }
}

/// Sends a uevent, which has the name of the device: it is not renamed meanwhile. May sleep.
fn uevent(device: &Device, action: bindings::kobject_action) {
    let _still = registry::hold();
    device.model().uevent(action);
}

/// Notifies user space of a new device.
fn announce(device: &Device) {
    let _still = registry::hold();
    device.model().uevent(bindings::kobject_action_KOBJ_ADD);
    nldev::notify(device, Notice::Register);
    for port in device.ports() {
        if device.netdev(port).is_some() {
            nldev::notify(device, Notice::NetdevAttach { port });
        }
    }
}

impl WorkItem for Device {
    type Pointer = ARef<Self>;

    fn run(this: ARef<Self>) {
        end(&this);
    }
}

fn unregister(device: &Device) {
    // The driver keeps the device until here, but `end` may free it.
    let kept = device.hold();
    end(&kept);
}

fn unregister_and_put(device: Registered) {
    warn_on!(device.ops().dealloc_driver.is_none());
    crate::device::unregister(device);
}

fn unregister_driver(driver: bindings::rdma_driver_id) {
    let mut index = 0;
    while let Some(device) = registry::next_named_from(index) {
        index = device.index().saturating_add(1);
        if device.ops().driver_id == driver {
            warn_on!(device.ops().dealloc_driver.is_none());
            end(&device);
        }
    }
}

fn unregister_queued(device: &Device) {
    warn_on!(device.uses().none());
    warn_on!(device.ops().dealloc_driver.is_none());
    // The work item may be queued already.
    let _: Result<(), ARef<Device>> = queues::unregister().enqueue(device.hold());
}

rdma::export! { in rdma::bindings;
    /// Registers a device and notifies clients. One `%d` in `name` is replaced by the first free
    /// number. May sleep. The device must be allocated, not registered, and set up by its driver.
    /// `dma_device` does DMA for the device; it is null, or valid as long as the device. On failure
    /// the caller frees the device. Errors: those of the name (`EINVAL`, `ENFILE`, `ENOSPC`), those
    /// of driver methods, `ENOMEM`.
    fn ib_register_device(
        device: Unregistered<'_>, name: &CStr, dma_device: Passed<bindings::device>,
    ) -> Result = register;
    /// Unregisters a device and notifies clients. The device has no users when this returns. May
    /// sleep; the caller must hold no lock that clients take. Frees the device if its driver has
    /// `dealloc_driver`. The caller keeps the device valid, and calls this once.
    fn ib_unregister_device(device: &Device) = unregister;
    /// As `ib_unregister_device`, and drops a use count of the caller. May be called by several
    /// threads at the same time. The driver must have `dealloc_driver`.
    fn ib_unregister_device_and_put(device: Registered) = unregister_and_put;
    /// Unregisters all devices of a driver that has `dealloc_driver`, and waits for unregistrations
    /// in progress. The driver's methods are not called afterwards. The caller must prevent new
    /// registrations. May sleep.
    fn ib_unregister_driver(driver: bindings::rdma_driver_id) = unregister_driver;
    /// Queues the unregistration of a device, for callers that hold locks. Does not sleep.
    /// `ib_unregister_driver` waits for it. The driver must have `dealloc_driver`.
    fn ib_unregister_device_queued(device: &Device) = unregister_queued;
}
