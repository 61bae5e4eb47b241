// SPDX-License-Identifier: GPL-2.0

//! Registration of a device, and its end; see section 4 of `core_locking.md`.

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
use rdma::bindings;

use super::alloc;
use super::client;
use super::netdev;
use super::netns;
use super::port;
use super::queues;
use super::registry;
use super::sub;
use super::Device;
use super::Registered;
use crate::cache;
use crate::cgroup;
use crate::counter;
use crate::cq;
use crate::errno::eopnotsupp;
use crate::nldev;
use crate::sysfs;

/// Shows the device to clients and in namespaces. Gives back a count of it for the caller,
/// in any case. May sleep.
pub(super) fn enable(device: &Device) -> (Registered, Result) {
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
pub(super) fn disable(device: &Device) {
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
    let _one = device.state().unregistration.lock();
    if device.uses().none() {
        return;
    }
    disable(device);
    nldev::notify(device, nldev::Notice::Unregister);
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
    if device.ops().dealloc_driver.is_some() && !device.state().keep_memory.load(Acquire) {
        // SAFETY: It is unregistered, and such a driver leaves this to us. The caller's
        // reference keeps it to the end of this function.
        unsafe { alloc::ib_dealloc_device(device.as_raw()) };
    }
}

/// Unregisters a device that the caller holds. May sleep.
pub(crate) fn unregister(device: Registered) {
    let kept = device.hold();
    drop(device);
    end(&kept);
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
        device.state().keep_memory.store(true, Release);
        drop(held);
        end(device);
        device.state().keep_memory.store(false, Release);
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
    // SAFETY: The device is added.
    unsafe {
        bindings::kobject_uevent(
            &raw mut (*device.dev()).kobj,
            bindings::kobject_action_KOBJ_ADD,
        )
    };
    nldev::notify(device, nldev::Notice::Register);
    for port in device.ports() {
        if device.netdev(port).is_some() {
            nldev::notify(device, nldev::Notice::NetdevAttach { port });
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
            unregister(Registered::from_raw(device));
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
