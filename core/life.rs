// SPDX-License-Identifier: GPL-2.0

//! The life of a device: which parts of the core are called at each step, and in which order.
//!
//! | step | device | other parts, in this order |
//! |---|---|---|
//! | allocation | memory, driver model | [`Slots`] |
//! | registration | name, ports, attributes | `cache` (and GIDs), `sysfs` (and `stats`), `cgroup`, `counter` |
//! | | `device_add` | `sysfs` of ports |
//! | enabling | registry, clients, copies in namespaces | |
//! | announcement | uevent | `nldev` |
//! | event | | `cache` (and GIDs), `security`; then clients' handlers |
//! | move | disabling, rename, enabling | |
//! | disabling | registry, clients, use count, copies | `cq` (before the use count) |
//! | unregistration | disabling, network devices, `device_del` | `nldev`, `sysfs` of ports, `cgroup`, `cache` |
//! | release | | `stats`, GIDs, `counter` |
//!
//! This file implements [`Hooks`] for `device`, which imports nothing of the above. Locks: see
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
use crate::device::Core;
use crate::device::Device;
use crate::device::HasSlot;
use crate::device::Hooks;
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
use crate::restrack;
use crate::sa;
use crate::security;
use crate::stats;
use crate::sysfs;

/// What the parts of the core keep per device. One field per part; `has_slot!` names them again.
#[pin_data]
pub(crate) struct Slots {
    /// Objects that exist on the device.
    #[pin]
    restrack: restrack::Tables,
    /// Memory regions that its driver keeps for reuse.
    #[pin]
    frmr: frmr::Slot,
    /// The GIDs of its ports.
    #[pin]
    gids: gid::Tables,
    /// Cached attributes of its ports.
    #[pin]
    copies: cache::Copies,
    /// Which queue pair is bound to which counter.
    #[pin]
    counters: counter::Bindings,
    /// The driver's counters of the device.
    #[pin]
    stats: stats::OfDevice,
    /// Limits of cgroups.
    #[pin]
    limits: cgroup::Limits,
    /// The subnet manager of its ports, and multicast groups.
    #[pin]
    sa: sa::Slots,
    /// Queue pairs that a security module controls.
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
    stats: stats::OfDevice,
    limits: cgroup::Limits,
    sa: sa::Slots,
    secured: security::Qps,
}

impl Hooks for Core {
    type Slots = Slots;

    fn slots() -> impl PinInit<Slots, Error> {
        Slots::new()
    }

    fn unregister(device: &Device) {
        end(device);
    }

    fn relocate(device: &Device, from: &Net, to: &CountedNet) -> Result {
        relocate(device, from, to)
    }

    fn release(device: &Device) {
        gid::release(device);
        counter::release(device);
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

    fn show_ports(of: &Visible<'_>) -> Result {
        sysfs::set_up_ports(of)
    }

    fn hide_ports(of: &Visible<'_>) {
        sysfs::free_ports(of);
    }
}

/// Shows the device to clients and in namespaces. Gives back a count of it for the caller,
/// in any case. May sleep.
fn enable(device: &Device) -> (Registered, Result) {
    // Before anybody can unregister it.
    sub::open(device);
    let (_still, held) = registry::enable(device);
    (held, show(device))
}

fn show(device: &Device) -> Result {
    if device.ops().enable_driver.is_some() {
        device.driver().enable_driver()?;
    }
    client::add_all(device)?;
    netns::add_copies(device)
}

/// Takes the device from clients and namespaces, and waits until nobody uses it. Under
/// the device's unregistration lock. May sleep.
fn disable(device: &Device) {
    warn_on!(device.uses().none());
    registry::disable(device);
    client::remove_all(device);
    cq::clean_up(device);
    // The registry's count.
    device.uses().put();
    device.uses().wait();
    // Now nobody makes a copy any more.
    netns::remove_copies(device);
}

/// Unregisters the device, if it is registered, and frees it, if its driver wants that.
/// When it returns the device is unregistered, whoever did it. May sleep.
///
/// The caller has a reference of the driver model, and no count.
fn end(device: &Device) {
    sub::close(device);
    let Some(ending) = Ending::of(device) else {
        return;
    };
    disable(device);
    nldev::notify(device, Notice::Unregister);
    // Events that are on their way still find the network devices.
    queues::flush_events();
    netdev::detach_all(device);
    let Some((visible, ended)) = ending.unused() else {
        warn_on!(true);
        return;
    };
    sysfs::free_ports(&visible);
    drop(visible);
    cgroup::unregister(device);
    // What was dispatched may still be asking the driver.
    queues::flush_events();
    cache::clean_up(device);
    // What the driver has dispatched meanwhile asks it, too.
    queues::flush_events();
    if let Some((memory, _one)) = ended.memory() {
        // The caller's reference keeps the memory to the end of this function.
        alloc::dealloc(memory);
    }
}

/// Moves a device that is in `from` to another namespace: clients lose the device and get it
/// again. See [`Hooks::relocate`].
fn relocate(device: &Device, from: &Net, to: &CountedNet) -> Result {
    // Subdevices hold a use count of it.
    if device.is_in(from) {
        sub::close(device);
    }
    let _one = device.lock_registration();
    if device.uses().none() || !device.is_in(from) {
        return Err(ENODEV);
    }
    device.model().uevent(bindings::kobject_action_KOBJ_REMOVE);
    disable(device);
    let moved = netns::change(device, from, to).inspect_err(|_| {
        pr_warn!(
            "{}: cannot be moved
",
            device.name()
        );
    });
    let (held, shown) = enable(device);
    if shown.is_err() {
        // The device stays as it is; the user may try again.
        pr_warn!(
            "{}: not whole after it was moved
",
            device.name()
        );
    }
    device.model().uevent(bindings::kobject_action_KOBJ_ADD);
    drop(held);
    moved.and(shown)
}

fn register(mut fields: Unregistered<'_>, name: &CStr, dma: Passed<bindings::device>) -> Result {
    let device = fields.device();
    registry::assign_name(device, &mut fields, name.to_bytes())?;
    fields.set_dma_device(dma);
    device.judge_ops(&mut fields);
    alloc::set_up_ports(device)?;
    port::set_up(device, &mut fields).inspect_err(|_| {
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
    sysfs::set_up_device(device, &mut fields)?;
    cgroup::register(device);
    undo.cgroup = true;
    counter::set_up(device, &mut fields);
    // The announcement waits until there is something to use.
    device.model().suppress_uevents(true);
    undo.suppressed = true;
    let visible = fields.add()?;
    sysfs::set_up_ports(&visible).inspect_err(|_| {
        pr_warn!("{}: its ports are not in sysfs\n", device.name());
    })?;
    visible.keep();
    core::mem::forget(undo);

    let (held, shown) = enable(device);
    if let Err(error) = shown {
        // The caller frees the device, also if another thread unregisters it now: that one
        // waits for the count that we hold, and then sees the flag.
        device.keep_memory().store(true, Release);
        drop(held);
        end(device);
        device.keep_memory().store(false, Release);
        device.model().suppress_uevents(false);
        return Err(error);
    }
    device.model().suppress_uevents(false);
    announce(&held);
    // The device may go from here on.
    Ok(())
}

/// What a failing registration takes back.
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

/// Tells user space of a new device.
fn announce(device: &Registered) {
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
    // The driver keeps the device, but `end` may free it.
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
    // It may be queued already.
    let _: Result<(), ARef<Device>> = queues::unregister().enqueue(device.hold());
}

rdma::export! { in rdma::bindings;
    /// Registers a device under a name, in which one `%d` stands for the first free number:
    /// clients are told of it. May sleep. The device is allocated, not registered, and described
    /// by its driver; `dma_device` is null or does DMA for it, and stays as long. On failure the
    /// caller frees it. Errors: those of names (`EINVAL`, `ENFILE`, `ENOSPC`), of the driver's
    /// methods, `ENOMEM`.
    fn ib_register_device(
        device: Unregistered<'_>, name: &CStr, dma_device: Passed<bindings::device>,
    ) -> Result = register;
    /// Unregisters a device: clients are told, and nobody uses it when this returns. May sleep;
    /// with no lock held that clients want. With `dealloc_driver` the device is freed. The caller
    /// keeps the device, and calls this once.
    fn ib_unregister_device(device: &Device) = unregister;
    /// As `ib_unregister_device`, with a use count of the caller's that is given up. Several
    /// threads may do this at a time. The driver has `dealloc_driver`.
    fn ib_unregister_device_and_put(device: Registered) = unregister_and_put;
    /// Unregisters all devices of a driver with `dealloc_driver`, and waits for those that are
    /// being unregistered. Its methods are not called after. New devices are the caller's to
    /// prevent. May sleep.
    fn ib_unregister_driver(driver: bindings::rdma_driver_id) = unregister_driver;
    /// Unregisters a device later, in a worker: for callers that hold locks. Does not sleep.
    /// `ib_unregister_driver` waits for it. The driver has `dealloc_driver`.
    fn ib_unregister_device_queued(device: &Device) = unregister_queued;
}
