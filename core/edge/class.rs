// SPDX-License-Identifier: GPL-2.0

//! The class `infiniband`, and the memory of its devices.
//!
//! A driver has its own structure begin with a `struct ib_device`, and the core allocates the
//! whole. It is freed with the last reference of the driver model, by RCU, since
//! `ib_device_get_by_netdev` looks at devices that may be going. C header: `linux/device/class.h`.

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::alloc::allocator::Kmalloc;
use kernel::alloc::Allocator;
use kernel::alloc::NumaNode;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::types::Opaque;
use kernel::workqueue::Work;
use rdma::bindings;
use rdma::edge::View;
use rdma::net::Net;

use super::device::CoreDevice;
use super::device::Visible;
use crate::device::alloc;
use crate::device::Device;
use crate::device::State;

/// The class. Every device has its address.
struct ClassCell(Opaque<bindings::class>);

// SAFETY: Written before it is registered; then C's, which locks.
unsafe impl Sync for ClassCell {}

static CLASS: ClassCell = ClassCell(Opaque::uninit());

/// The registered class `infiniband`.
///
/// # Invariants
///
/// `CLASS` is registered.
pub(crate) struct Class(());

impl Class {
    /// Once. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `class_register`.
    pub(crate) fn register() -> Result<Self> {
        // SAFETY: Nobody uses the place before it is registered.
        unsafe {
            CLASS.0.get().write(bindings::class {
                name: c"infiniband".as_char_ptr(),
                dev_release: Some(release),
                dev_uevent: Some(uevent),
                ns_type: bindings::rdma_helper_net_ns_type(),
                namespace: Some(namespace),
                ..Default::default()
            });
            to_result(bindings::class_register(CLASS.0.get()))?;
        }
        // INVARIANT: Just registered.
        Ok(Self(()))
    }
}

impl Drop for Class {
    fn drop(&mut self) {
        // SAFETY: It is registered (type invariant); modules that have devices keep this one.
        unsafe { bindings::class_unregister(CLASS.0.get()) };
    }
}

/// What the announcement of a device says of it.
///
/// # Safety
///
/// For C only, with a device of the class.
unsafe extern "C" fn uevent(
    dev: *const bindings::device,
    env: *mut bindings::kobj_uevent_env,
) -> c_int {
    // SAFETY: The device has a name; format and name are terminated.
    let ret =
        unsafe { bindings::add_uevent_var(env, c"NAME=%s".as_char_ptr(), bindings::dev_name(dev)) };
    if ret == 0 {
        0
    } else {
        ENOMEM.to_errno()
    }
}

/// The namespace in whose sysfs a device, or its copy, is.
///
/// # Safety
///
/// For C only, with a device of the class.
unsafe extern "C" fn namespace(dev: *const bindings::device) -> *const bindings::ns_common {
    let core = dev.cast::<bindings::ib_core_device>();
    // SAFETY: A device of the class is the first field of such a structure.
    unsafe {
        let net = bindings::rdma_helper_read_pnet(&raw const (*core).rdma_net);
        if net.is_null() {
            ptr::null()
        } else {
            bindings::rdma_helper_net_ns_common(net)
        }
    }
}

/// The last reference to a device is gone.
///
/// # Safety
///
/// For C only, with the device of a `struct ib_device`.
unsafe extern "C" fn release(dev: *mut bindings::device) {
    // SAFETY: The device is part of a `struct ib_device`, whose memory is there until the end of
    // this function, and the only one that has this release.
    let device = unsafe { CoreDevice::view(dev.cast()) }.owner();
    alloc::released(device);
    let raw = device.as_raw();
    // SAFETY: Nobody uses the device any more, but for readers under RCU of its ports, counts and
    // methods, which are freed after them. `NewDevice` made the state.
    unsafe {
        if !(*raw).port_data.is_null() {
            let head = (*raw).port_data.cast::<u8>().sub(HEAD);
            bindings::rdma_helper_kfree_rcu(head.cast(), head.cast());
        }
        drop(KBox::from_raw((*raw).res.cast::<State>()));
        bindings::rdma_helper_ib_device_fini(raw);
        bindings::rdma_helper_kfree_rcu(&raw mut (*raw).callback_head, raw.cast());
    }
}

/// The last reference to a copy is gone.
///
/// # Safety
///
/// For C only, with the device of a [`DeviceCopy`].
unsafe extern "C" fn release_copy(dev: *mut bindings::device) {
    // SAFETY: The device is the first field of kmalloc's memory, and nobody uses it any more.
    unsafe { bindings::kfree(dev.cast()) };
}

/// Makes a device of the driver model, of the class, in a namespace.
///
/// # Safety
///
/// `core` is zeroed and has its place for good, `groups` too; `owner` is the device.
unsafe fn init_core_device(
    core: *mut bindings::ib_core_device,
    owner: *mut bindings::ib_device,
    groups: *mut *const bindings::attribute_group,
    net: &Net,
) {
    // SAFETY: This function's contract.
    unsafe {
        (*core).dev.class = CLASS.0.get();
        (*core).dev.groups = groups;
        bindings::device_initialize(&raw mut (*core).dev);
        (*core).owner = owner;
        bindings::INIT_LIST_HEAD(&raw mut (*core).port_list);
        bindings::rdma_helper_write_pnet(&raw mut (*core).rdma_net, net.as_raw());
    }
}

/// Allocates zeroed memory that `kfree` frees. May sleep.
fn zalloc(size: usize, align: usize) -> Result<NonNull<u8>> {
    let layout = Layout::from_size_align(size, align).map_err(|_| ENOMEM)?;
    let memory = Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)?;
    Ok(memory.cast())
}

/// An allocated device: one that was just made, or one that its driver gives back.
///
/// # Invariants
///
/// `0` is a device that is not registered. Nobody uses it but by references of the driver model.
/// The reference that its allocation made is ours.
#[must_use = "a device that is not given to C is never freed"]
pub(crate) struct Allocation(NonNull<bindings::ib_device>);

impl Allocation {
    /// Allocates a device of `size` bytes, the driver's structure, in a namespace. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `size` is too small; `ENOMEM`.
    pub(crate) fn new(size: usize, net: &Net) -> Result<Self> {
        if size < size_of::<bindings::ib_device>() {
            return Err(EINVAL);
        }
        let state = KBox::pin_init(State::new(), GFP_KERNEL)?;
        let memory = zalloc(size, align_of::<bindings::ib_device>())?;
        let device = memory.cast::<bindings::ib_device>().as_ptr();
        // SAFETY: The memory is ours and zeroed, and does not move; the state is pinned in its
        // box, which `release` takes back.
        unsafe {
            (*device).res = KBox::into_raw(Pin::into_inner_unchecked(state)).cast();
            bindings::rdma_helper_ib_device_init(device);
            for pool in &mut (*device).cq_pools {
                bindings::INIT_LIST_HEAD(pool);
            }
            let work = Work::<Device>::new(c"ib_unregister", kernel::static_lock_class!());
            let slot = (&raw mut (*device).unregistration_work).cast::<Work<Device>>();
            let Ok(()) = work.__pinned_init(slot);
            (*device).uverbs_cmd_mask = alloc::command_mask();
            init_core_device(
                (&raw mut (*device).__bindgen_anon_1).cast(),
                device,
                (&raw mut (*device).groups).cast(),
                net,
            );
        }
        // INVARIANT: Just made; `device_initialize` has made the reference.
        Ok(Self(memory.cast()))
    }

    /// # Safety
    ///
    /// The device is not registered, nobody uses it but by references of the driver model, and
    /// its driver leaves its end to the caller.
    pub(crate) unsafe fn of(device: &Device) -> Self {
        // INVARIANT: This function's contract.
        Self(NonNull::from(device).cast())
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        // SAFETY: The device is there (type invariant).
        unsafe { Device::from_raw(self.0.as_ptr()) }
    }

    /// Has the driver forget the device, which may be the end of the driver's own memory of it.
    pub(crate) fn dealloc_driver(&self) {
        if let Some(method) = self.device().ops().dealloc_driver {
            // SAFETY: The driver's own method and device, which is not registered (type
            // invariant).
            unsafe { method(self.0.as_ptr()) };
        }
    }

    /// Drops the reference that the allocation made.
    pub(crate) fn put(self) {
        // SAFETY: It is ours (type invariant).
        unsafe { bindings::put_device(self.device().dev()) };
    }

    /// The device, for C.
    pub(crate) fn into_raw(self) -> *mut bindings::ib_device {
        self.0.as_ptr()
    }
}

rdma::argument! {
    /// A device that is not registered, which the caller does not use any more (`ib_dealloc_device`).
    impl Allocation = |device: NonNull<bindings::ib_device>| Allocation(device);
}

/// Head of the array of a device's ports, which consumers index by port number.
#[repr(C)]
struct PortsHead {
    rcu: bindings::callback_head,
}

/// Bytes before the array.
const HEAD: usize = {
    let align = align_of::<bindings::ib_port_data>();
    size_of::<PortsHead>().next_multiple_of(align)
};

/// Makes the array of the device's ports, if there is none. Drivers set devices up in one
/// thread, before registration. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn make_ports(device: &Device) -> Result {
    if !device.fields().port_data().is_null() {
        return Ok(());
    }
    // The place of port 0 is there in any case; it is a switch's.
    let places = usize::try_from(*device.ports().end())?.checked_add(1);
    let bytes = places
        .and_then(|places| places.checked_mul(size_of::<bindings::ib_port_data>()))
        .and_then(|bytes| bytes.checked_add(HEAD))
        .ok_or(ENOMEM)?;
    let memory = zalloc(bytes, align_of::<bindings::ib_port_data>())?;
    // SAFETY: So many bytes were allocated; all ports are in the array. It is published when it
    // is initialised.
    unsafe {
        let ports = memory.as_ptr().add(HEAD).cast::<bindings::ib_port_data>();
        for port in device.ports() {
            let data = ports.add(port as usize);
            (*data).ib_dev = device.as_raw();
            bindings::rdma_helper_ib_port_data_init(data);
        }
        (&raw mut (*device.as_raw()).port_data).write_volatile(ports);
    }
    Ok(())
}

/// The copy of a device in the sysfs of a namespace.
#[repr(C)]
struct Copied {
    /// First: the driver model gives it back in [`release_copy`].
    core: bindings::ib_core_device,
    /// The device's groups, without hardware counters, which the first namespace only sees.
    groups: [*const bindings::attribute_group; 4],
}

/// The copy of a device in the sysfs of a namespace. It holds one reference of the driver model.
///
/// # Invariants
///
/// `0` is initialised, and one reference to it is ours.
pub(crate) struct DeviceCopy(NonNull<Copied>);

// SAFETY: Devices of the driver model are used from any thread.
unsafe impl Send for DeviceCopy {}

impl DeviceCopy {
    /// Makes one, which has no name yet. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: &Device, net: &Net) -> Result<Self> {
        let memory = zalloc(size_of::<Copied>(), align_of::<Copied>())?.cast::<Copied>();
        let copy = memory.as_ptr();
        let raw = device.as_raw();
        // SAFETY: The memory is ours and zeroed. The groups of a registered device do not change.
        unsafe {
            (*copy).groups = (*raw).groups;
            let counters = usize::from((*raw).hw_stats_attr_index);
            if counters != 0 {
                if let Some(group) = (*copy).groups.get_mut(counters) {
                    *group = ptr::null();
                }
            }
            let core = &raw mut (*copy).core;
            (*core).dev.parent = (*device.dev()).parent;
            init_core_device(core, raw, (&raw mut (*copy).groups).cast(), net);
            (*core).dev.release = Some(release_copy);
        }
        // INVARIANT: `device_initialize` has made the reference.
        Ok(Self(memory))
    }

    /// Its part of the driver model.
    pub(crate) fn model(&self) -> &CoreDevice {
        // SAFETY: It is initialised (type invariant), and begins with this field.
        unsafe { CoreDevice::view(self.0.as_ptr().cast()) }
    }
}

/// A copy that has been added. It is removed when this is dropped.
pub(crate) struct AddedCopy(DeviceCopy);

impl AddedCopy {
    /// Adds a copy, which has been named. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `device_add`.
    pub(crate) fn new(copy: DeviceCopy) -> Result<Self> {
        // SAFETY: A `DeviceCopy` is not added, and this takes it.
        unsafe { copy.model().add() }?.keep();
        Ok(Self(copy))
    }

    /// Its part of the driver model.
    pub(crate) fn model(&self) -> &CoreDevice {
        self.0.model()
    }

    /// Calls `act` with it as what is visible.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&Visible<'_>) -> R) -> R {
        // SAFETY: It was added and kept, and the result is not dropped.
        let visible = ManuallyDrop::new(unsafe { Visible::kept(self.model()) });
        act(&visible)
    }
}

impl Drop for AddedCopy {
    fn drop(&mut self) {
        // SAFETY: It was added and kept, and is removed once.
        drop(unsafe { Visible::kept(self.model()) });
    }
}

impl Drop for DeviceCopy {
    fn drop(&mut self) {
        // SAFETY: The reference is ours (type invariant).
        unsafe { bindings::put_device(self.0.as_ptr().cast()) };
    }
}
