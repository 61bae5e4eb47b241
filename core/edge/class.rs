// SPDX-License-Identifier: GPL-2.0

//! The device class `infiniband`, and allocation of its devices.
//!
//! A driver's structure begins with a `struct ib_device`, and the core allocates the whole
//! structure. When the last driver model reference is dropped, the memory is freed after an RCU
//! grace period, because `ib_device_get_by_netdev` may still read a device that is being released.
//! C header: `linux/device/class.h`.

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
use rdma::features::init_slot;
use rdma::net::Net;

use super::device::CoreDevice;
use super::device::Visible;
use crate::device::alloc;
use crate::device::Device;
use crate::device::LastReference;
use crate::device::State;
use crate::proto::names;

/// Storage of the class. Every device points to it.
struct ClassCell(Opaque<bindings::class>);

// SAFETY: Written only before `class_register`; from then on the driver core owns it and does its
// own locking.
unsafe impl Sync for ClassCell {}

static CLASS: ClassCell = ClassCell(Opaque::uninit());

/// The registered class `infiniband`.
///
/// # Invariants
///
/// `CLASS` is registered.
pub(crate) struct Class(());

impl Class {
    /// Registers the class. Must be called once only. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of `class_register`.
    pub(crate) fn register() -> Result<Self> {
        // SAFETY: Nobody accesses `CLASS` before it is registered.
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
        // SAFETY: `CLASS` is registered (type invariant). No device of it is left: modules with
        // devices hold a reference to this module.
        unsafe { bindings::class_unregister(CLASS.0.get()) };
    }
}

/// Adds the name of the device to its uevent.
///
/// # Safety
///
/// Called by C only, with a device of the class.
unsafe extern "C" fn uevent(
    dev: *const bindings::device,
    env: *mut bindings::kobj_uevent_env,
) -> c_int {
    // SAFETY: The device has a name; format and name are NUL-terminated.
    let ret =
        unsafe { bindings::add_uevent_var(env, c"NAME=%s".as_char_ptr(), bindings::dev_name(dev)) };
    if ret == 0 {
        0
    } else {
        ENOMEM.to_errno()
    }
}

/// Returns the network namespace whose sysfs shows a device, or its copy.
///
/// # Safety
///
/// Called by C only, with a device of the class.
unsafe extern "C" fn namespace(dev: *const bindings::device) -> *const bindings::ns_common {
    let core = dev.cast::<bindings::ib_core_device>();
    // SAFETY: A device of the class is the first field of a `struct ib_core_device`.
    unsafe {
        let net = bindings::rdma_helper_read_pnet(&raw const (*core).rdma_net);
        if net.is_null() {
            ptr::null()
        } else {
            bindings::rdma_helper_net_ns_common(net)
        }
    }
}

/// Called when the last reference to a device is dropped: frees the device.
///
/// # Safety
///
/// Called by C only, with the device embedded in a `struct ib_device`.
unsafe extern "C" fn release(dev: *mut bindings::device) {
    // SAFETY: Only the device embedded in a `struct ib_device` has this release function. Its
    // memory is valid until the end of this function.
    let device = unsafe { CoreDevice::view(dev.cast()) }.owner();
    // SAFETY: The driver model calls this when the last reference is dropped.
    alloc::released(&unsafe { LastReference::of(device) });
    let raw = device.as_raw();
    // SAFETY: The only users left are RCU readers of the ports, the use count and the methods,
    // which are freed after a grace period. `Allocation::new` allocated the state.
    unsafe {
        if !(*raw).port_data.is_null() {
            let head = (*raw).port_data.cast::<u8>().sub(HEAD);
            bindings::rdma_helper_kfree_rcu(head.cast(), head.cast());
        }
        drop(KBox::from_raw((*raw).res.cast::<State>()));
        bindings::rdma_helper_ib_device_fini(raw);
        bindings::rdma_helper_kfree_rcu((&raw mut (*raw).callback_head).cast(), raw.cast());
    }
}

/// Called when the last reference to a copy is dropped: frees the copy.
///
/// # Safety
///
/// Called by C only, with the device of a [`DeviceCopy`].
unsafe extern "C" fn release_copy(dev: *mut bindings::device) {
    // SAFETY: The device is the first field of a [`Copied`], which `kmalloc` allocated. Nobody uses
    // it any more.
    unsafe { bindings::kfree(dev.cast()) };
}

/// Initialises the driver model device in `core` as a member of the class, in a network namespace.
///
/// # Safety
///
/// `core` is zeroed. `core` and `groups` do not move. `owner` is the device that `core` belongs to.
unsafe fn init_core_device(
    core: *mut bindings::ib_core_device,
    owner: *mut bindings::ib_device,
    groups: *mut *const bindings::attribute_group,
    net: &Net,
) {
    // SAFETY: `core` and `groups` are valid (contract of this function); the class is static.
    unsafe {
        (*core).dev.class = CLASS.0.get();
        (*core).dev.groups = groups;
        bindings::device_initialize(&raw mut (*core).dev);
        (*core).owner = owner;
        bindings::INIT_LIST_HEAD(&raw mut (*core).port_list);
        bindings::rdma_helper_write_pnet(&raw mut (*core).rdma_net, net.as_raw());
    }
}

/// Allocates zeroed memory. Free it with `kfree`. May sleep.
fn zalloc(size: usize, align: usize) -> Result<NonNull<u8>> {
    let layout = Layout::from_size_align(size, align).map_err(|_| ENOMEM)?;
    let memory = Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)?;
    Ok(memory.cast())
}

/// An unregistered device: newly allocated, or returned by its driver for deallocation.
///
/// # Invariants
///
/// `0` is a device that is not registered. Nobody uses it except through driver model references.
/// `self` owns the reference that the allocation took.
#[must_use = "a device that is not given to C is never freed"]
pub(crate) struct Allocation(NonNull<bindings::ib_device>);

impl Allocation {
    /// Allocates a device in a network namespace. `size` is the size of the driver's structure in
    /// bytes. May sleep.
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
        // SAFETY: The memory is zeroed, not shared yet and does not move. The state is pinned in
        // its box, which `release` frees.
        unsafe {
            (*device).res = KBox::into_raw(Pin::into_inner_unchecked(state)).cast();
            bindings::rdma_helper_ib_device_init(device);
            for pool in &mut (*device).cq_pools {
                bindings::INIT_LIST_HEAD(pool);
            }
            let work = Work::<Device>::new(c"ib_unregister", kernel::static_lock_class!());
            let slot = (&raw mut (*device).unregistration_work).cast::<Work<Device>>();
            let Ok(()) = init_slot(slot, work);
            (*device).uverbs_cmd_mask = alloc::command_mask();
            init_core_device(
                (&raw mut (*device).__bindgen_anon_1).cast(),
                device,
                (&raw mut (*device).groups).cast(),
                net,
            );
        }
        // INVARIANT: Just allocated and not registered; `device_initialize` set the reference count
        // to 1.
        Ok(Self(memory.cast()))
    }

    /// # Safety
    ///
    /// The device is not registered, nobody uses it except through driver model references, and its
    /// driver leaves deallocation to the caller.
    pub(crate) unsafe fn of(device: &Device) -> Self {
        // INVARIANT: By the contract of this function.
        Self(NonNull::from(device).cast())
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        // SAFETY: The device is valid while `self` owns a reference (type invariant).
        unsafe { Device::from_raw(self.0.as_ptr()) }
    }

    /// Calls the driver's `dealloc_driver`, which releases the driver's resources of the device.
    pub(crate) fn dealloc_driver(&self) {
        if let Some(method) = self.device().ops().dealloc_driver {
            // SAFETY: The method belongs to the driver of the device, which is not registered (type
            // invariant).
            unsafe { method(self.0.as_ptr()) };
        }
    }

    /// Drops the reference that the allocation took.
    pub(crate) fn put(self) {
        // SAFETY: `self` owns the reference (type invariant) and is consumed.
        unsafe { bindings::put_device(self.device().dev()) };
    }

    /// Passes the device and its reference to C.
    pub(crate) fn into_raw(self) -> *mut bindings::ib_device {
        self.0.as_ptr()
    }
}

rdma::argument! {
    /// A device that is not registered and that the caller does not use any more
    /// (`ib_dealloc_device`).
    impl Allocation = |device: NonNull<bindings::ib_device>| Allocation(device);
}

/// Header in front of the port array of a device. Consumers index the array by port number.
#[repr(C)]
struct PortsHead {
    rcu: bindings::callback_head,
}

/// Offset of the array in its allocation, in bytes.
const HEAD: usize = {
    let align = align_of::<bindings::ib_port_data>();
    size_of::<PortsHead>().next_multiple_of(align)
};

/// Allocates the port array of the device, unless it exists. Drivers set up a device from one
/// thread, before registration. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn make_ports(device: &Device) -> Result {
    if !device.fields().port_data().is_null() {
        return Ok(());
    }
    // The array always has an element for port 0, which only switches use.
    let places = usize::try_from(*device.ports().end())?.checked_add(1);
    let bytes = places
        .and_then(|places| places.checked_mul(size_of::<bindings::ib_port_data>()))
        .and_then(|bytes| bytes.checked_add(HEAD))
        .ok_or(ENOMEM)?;
    let memory = zalloc(bytes, align_of::<bindings::ib_port_data>())?;
    // SAFETY: `bytes` bytes were allocated, so the array has an element for each port. It is
    // published after its initialisation.
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

/// Memory of a [`DeviceCopy`].
#[repr(C)]
struct Copied {
    /// First field: [`release_copy`] casts its address to that of the whole.
    core: bindings::ib_core_device,
    /// Attribute groups of the device without hardware counters, which only the device's own
    /// namespace shows.
    groups: [*const bindings::attribute_group; 4],
}

/// The copy of a device in the sysfs of another network namespace. Holds a driver model reference
/// to the copy.
///
/// # Invariants
///
/// `0` is initialised, and `self` owns a reference to it.
pub(crate) struct DeviceCopy(NonNull<Copied>);

// SAFETY: Driver model devices may be used from any thread.
unsafe impl Send for DeviceCopy {}

impl DeviceCopy {
    /// Allocates a copy, which has no name yet. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: &Device, net: &Net) -> Result<Self> {
        let memory = zalloc(size_of::<Copied>(), align_of::<Copied>())?.cast::<Copied>();
        let copy = memory.as_ptr();
        let raw = device.as_raw();
        // SAFETY: The memory is zeroed and not shared yet. The groups of a registered device do not
        // change.
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
        // INVARIANT: `device_initialize` initialised the copy and set its reference count to 1.
        Ok(Self(memory))
    }

    /// Sets the name. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn set_name(&mut self, name: &names::Name) -> Result {
        // SAFETY: A `DeviceCopy` is not added; `AddedCopy::new` takes it.
        unsafe { self.model().set_name(name) }
    }

    /// The driver model device of the copy.
    pub(crate) fn model(&self) -> &CoreDevice {
        // SAFETY: `0` is initialised (type invariant) and begins with `core`.
        unsafe { CoreDevice::view(self.0.as_ptr().cast()) }
    }
}

/// A copy that was added to the driver model. Dropping this removes it.
pub(crate) struct AddedCopy(DeviceCopy);

impl AddedCopy {
    /// Adds a copy that has a name. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of `device_add`.
    pub(crate) fn new(copy: DeviceCopy) -> Result<Self> {
        // SAFETY: A `DeviceCopy` is not added, and this function takes it.
        unsafe { copy.model().add() }?.keep();
        Ok(Self(copy))
    }

    /// The driver model device of the copy.
    pub(crate) fn model(&self) -> &CoreDevice {
        self.0.model()
    }

    /// Calls `act` with the copy as a [`Visible`] device.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&Visible<'_>) -> R) -> R {
        // SAFETY: `new` added the copy and called `keep`. The `ManuallyDrop` prevents its removal
        // here.
        let visible = ManuallyDrop::new(unsafe { Visible::kept(self.model()) });
        act(&visible)
    }
}

impl Drop for AddedCopy {
    fn drop(&mut self) {
        // SAFETY: `new` added the copy and called `keep`. It is removed only here, once.
        drop(unsafe { Visible::kept(self.model()) });
    }
}

impl Drop for DeviceCopy {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference (type invariant).
        unsafe { bindings::put_device(self.0.as_ptr().cast()) };
    }
}
