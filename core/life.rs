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

use core::ffi::CStr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Release;
use kernel::warn_on;
use kernel::workqueue::HasWork;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use pin_init::PinInit;
use rdma::bindings;
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
use crate::errno::eopnotsupp;
use crate::frmr;
use crate::gid;
use crate::nldev;
use crate::restrack;
use crate::sa;
use crate::security;
use crate::stats;
use crate::sysfs;

/// What the parts of the core keep per device. One field per part; [`has_slot!`] names them again.
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

    fn relocate(device: &Device, from: &Net, to: &Net) -> Result {
        relocate(device, from, to)
    }

    fn release(device: &Device) {
        stats::release(device);
        gid::release(device);
        counter::release(device);
    }

    fn refresh(device: &Device, event: &bindings::ib_event) -> bool {
        cache::refresh(device, event, |port| security::port_changed(device, port))
    }

    fn notify(device: &Device, notice: Notice) {
        nldev::notify(device, notice);
    }

    fn subnet_prefix(device: &Device, port: u32) -> u64 {
        cache::subnet_prefix(device, port)
    }

    unsafe fn show_ports(copy: *mut bindings::ib_core_device) -> Result {
        // SAFETY: The contract of this method is that of the function.
        unsafe { sysfs::set_up_ports(copy) }
    }

    unsafe fn hide_ports(copy: *mut bindings::ib_core_device) {
        // SAFETY: The contract of this method is that of the function.
        unsafe { sysfs::free_ports(copy) };
    }
}

/// Shows the device to clients and in namespaces. Gives back a count of it for the caller,
/// in any case. May sleep.
fn enable(device: &Device) -> (Registered, Result) {
    // Before anybody can unregister it.
    sub::open(device);
    let _still = registry::enable(device);
    // SAFETY: The caller's count, of the two that were set there.
    let held = unsafe { Registered::from_raw(core::ptr::NonNull::from(device).cast()) };
    (held, show(device))
}

fn show(device: &Device) -> Result {
    if let Some(method) = device.ops().enable_driver {
        // SAFETY: The driver's own method and device.
        to_result(unsafe { method(device.as_raw()) })?;
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
    let _one = device.lock_registration();
    if device.uses().none() {
        return;
    }
    disable(device);
    nldev::notify(device, Notice::Unregister);
    // Events that are on their way still find the network devices.
    queues::flush_events();
    netdev::detach_all(device);
    // SAFETY: Registration has made the ports and added the device.
    unsafe {
        sysfs::free_ports(device.core_device());
        bindings::device_del(device.dev());
    }
    cgroup::unregister(device);
    // What was dispatched may still be asking the driver.
    queues::flush_events();
    cache::clean_up(device);
    // What the driver has dispatched meanwhile asks it, too.
    queues::flush_events();
    if device.ops().dealloc_driver.is_some() && !device.keep_memory().load(Acquire) {
        // SAFETY: It is unregistered, and such a driver leaves this to us. The caller's
        // reference keeps it to the end of this function.
        unsafe { alloc::ib_dealloc_device(device.as_raw()) };
    }
}

/// Moves a device that is in `from` to another namespace: clients lose the device and get it
/// again. See [`Hooks::relocate`].
fn relocate(device: &Device, from: &Net, to: &Net) -> Result {
    // Subdevices hold a use count of it.
    if *device.net() == *from {
        sub::close(device);
    }
    let _one = device.lock_registration();
    if device.uses().none() || *device.net() != *from {
        return Err(ENODEV);
    }
    device.uevent(bindings::kobject_action_KOBJ_REMOVE);
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
    device.uevent(bindings::kobject_action_KOBJ_ADD);
    drop(held);
    moved.and(shown)
}

fn register(device: &Device, name: &[u8], dma: *mut bindings::device) -> Result {
    registry::assign_name(device, name)?;
    // SAFETY: The device is not registered; nobody else writes. `dma` is a device or null.
    unsafe {
        warn_on!(!dma.is_null() && (*dma).dma_parms.is_null());
        (*device.as_raw()).dma_device = dma;
        if !dma.is_null() && bindings::rdma_helper_dma_may_bounce() {
            (*device.as_raw()).set_cc_dma_bounce(1);
        }
    }
    device.judge_ops();
    alloc::set_up_ports(device)?;
    port::set_up(device).inspect_err(|_| {
        pr_warn!(
            "{}: the driver does not describe its ports\n",
            device.name()
        );
    })?;
    query(device).inspect_err(|_| {
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
        added: false,
    };
    sysfs::set_up_device(device)?;
    cgroup::register(device);
    undo.cgroup = true;
    counter::set_up(device);
    // The announcement waits until there is something to use.
    announce_later(device, true);
    undo.suppressed = true;
    // SAFETY: It is initialised and named, and its groups are set.
    to_result(unsafe { bindings::device_add(device.dev()) })?;
    undo.added = true;
    // SAFETY: It is added.
    unsafe { sysfs::set_up_ports(device.core_device()) }.inspect_err(|_| {
        pr_warn!("{}: its ports are not in sysfs\n", device.name());
    })?;
    core::mem::forget(undo);

    let (held, shown) = enable(device);
    if let Err(error) = shown {
        // The caller frees the device, also if another thread unregisters it now: that one
        // waits for the count that we hold, and then sees the flag.
        device.keep_memory().store(true, Release);
        drop(held);
        end(device);
        device.keep_memory().store(false, Release);
        announce_later(device, false);
        return Err(error);
    }
    announce_later(device, false);
    announce(&held);
    // The device may go from here on.
    Ok(())
}

/// What a failing registration takes back.
struct Undo<'a> {
    device: &'a Device,
    cgroup: bool,
    suppressed: bool,
    added: bool,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if self.added {
            // SAFETY: It was added.
            unsafe { bindings::device_del(self.device.dev()) };
        }
        if self.suppressed {
            announce_later(self.device, false);
        }
        if self.cgroup {
            cgroup::unregister(self.device);
        }
        queues::flush_events();
        cache::clean_up(self.device);
        queues::flush_events();
    }
}

fn announce_later(device: &Device, later: bool) {
    // SAFETY: The device is initialised.
    unsafe { bindings::rdma_helper_dev_set_uevent_suppress(device.dev(), later) };
}

/// Tells user space of a new device.
fn announce(device: &Registered) {
    let _still = registry::hold();
    device.uevent(bindings::kobject_action_KOBJ_ADD);
    nldev::notify(device, Notice::Register);
    for port in device.ports() {
        if device.netdev(port).is_some() {
            nldev::notify(device, Notice::NetdevAttach { port });
        }
    }
}

/// Asks the driver for the attributes of the device.
fn query(device: &Device) -> Result {
    let method = device.ops().query_device.ok_or_else(eopnotsupp)?;
    // SAFETY: The device is not registered; nobody else reads or writes the attributes.
    // Zeros are valid for them.
    unsafe {
        let attrs = &raw mut (*device.as_raw()).attrs;
        attrs.write_bytes(0, 1);
        to_result(method(device.as_raw(), attrs, core::ptr::null_mut()))
    }
}

// SAFETY: The field is of this type: `_ib_alloc_device` makes a `Work<Device>` of it, and
// both functions are inverses.
unsafe impl HasWork<Device> for Device {
    unsafe fn raw_get_work(ptr: *mut Self) -> *mut Work<Self> {
        let raw = ptr.cast::<bindings::ib_device>();
        // SAFETY: By this function's duty it points to a device.
        unsafe { (&raw mut (*raw).unregistration_work).cast() }
    }

    unsafe fn work_container_of(ptr: *mut Work<Self>) -> *mut Self {
        let work = ptr.cast::<bindings::work_struct>();
        // SAFETY: By this function's duty it is the field of a device.
        unsafe { kernel::container_of!(work, bindings::ib_device, unregistration_work) }.cast()
    }
}

impl WorkItem for Device {
    type Pointer = ARef<Self>;

    fn run(this: ARef<Self>) {
        end(&this);
    }
}

/// Registers a device under a name, in which one `%d` stands for the first free number:
/// clients are told of it. May sleep. On failure the caller frees it.
///
/// Errors: those of names (`EINVAL`, `ENFILE`, `ENOSPC`), of the driver's methods,
/// `ENOMEM`.
///
/// # Safety
///
/// The device is allocated, not registered, and described by its driver; `name` is a
/// string; `dma_device` is null or does DMA for it, and stays as long.
#[no_mangle]
pub unsafe extern "C" fn ib_register_device(
    device: *mut bindings::ib_device,
    name: *const kernel::ffi::c_char,
    dma_device: *mut bindings::device,
) -> kernel::ffi::c_int {
    // SAFETY: By this function's duty.
    let (device, name) = unsafe { (Device::from_raw(device), CStr::from_char_ptr(name)) };
    match register(device, name.to_bytes(), dma_device) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Unregisters a device: clients are told, and nobody uses it when this returns. May sleep;
/// with no lock held that clients want. With `dealloc_driver` the device is freed.
///
/// # Safety
///
/// The device has been registered, and the caller keeps it: calls this once.
#[no_mangle]
pub unsafe extern "C" fn ib_unregister_device(device: *mut bindings::ib_device) {
    // SAFETY: By this function's duty.
    let kept = unsafe { Device::from_raw(device) }.hold();
    end(&kept);
}

/// As [`ib_unregister_device`], with a count of the caller's that is given up. Several
/// threads may do this at a time. The driver has `dealloc_driver`.
///
/// # Safety
///
/// The caller has a count of the device.
#[no_mangle]
pub unsafe extern "C" fn ib_unregister_device_and_put(device: *mut bindings::ib_device) {
    // SAFETY: By this function's duty.
    unsafe {
        warn_on!(Device::from_raw(device).ops().dealloc_driver.is_none());
        if let Some(device) = core::ptr::NonNull::new(device) {
            crate::device::unregister(Registered::from_raw(device));
        }
    }
}

/// Unregisters all devices of a driver, and waits for those that are being unregistered.
/// Its methods are not called after. New devices are the caller's to prevent. May sleep.
///
/// # Safety
///
/// The driver's devices have `dealloc_driver`.
#[no_mangle]
pub unsafe extern "C" fn ib_unregister_driver(driver: bindings::rdma_driver_id) {
    let mut index = 0;
    while let Some(device) = registry::next_named_from(index) {
        index = device.index().saturating_add(1);
        if device.ops().driver_id == driver {
            warn_on!(device.ops().dealloc_driver.is_none());
            end(&device);
        }
    }
}

/// Unregisters a device later, in a worker: for callers that hold locks. Does not sleep.
/// [`ib_unregister_driver`] waits for it.
///
/// # Safety
///
/// The device has been registered, its memory is there, and the driver has
/// `dealloc_driver`.
#[no_mangle]
pub unsafe extern "C" fn ib_unregister_device_queued(device: *mut bindings::ib_device) {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    warn_on!(device.uses().none());
    warn_on!(device.ops().dealloc_driver.is_none());
    // If it is queued already, so much the better.
    let _: Result<(), ARef<Device>> = queues::unregister().enqueue(device.hold());
}

rdma::exported!(
    ib_register_device,
    ib_unregister_device,
    ib_unregister_device_and_put,
    ib_unregister_driver,
    ib_unregister_device_queued,
);
