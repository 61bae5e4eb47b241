// SPDX-License-Identifier: GPL-2.0

//! A device, from allocation to deallocation.
//!
//! ```text
//!   Unregistered --register--> Registration --release--> (owned by the core)
//!        |                          |                         |
//!       drop                       drop            unregister_queued, rdma link delete,
//!        |                          |              unregister_driver
//!        v                          v                         v
//!   ib_dealloc_device <---- unregistered: no clients, no verb runs any more
//!        |
//!        +-- dealloc_driver: the driver's data is dropped
//!        +-- memory is freed with the last DeviceRef
//! ```
//!
//! There are three strengths of reference. Verbs get a `&Device`, which is valid for the call.
//! [`Live`] keeps the device registered; hold it briefly, because unregistration waits for it.
//! [`DeviceRef`] keeps only the memory; a data path or a notifier stores it and converts it to a
//! [`Live`] when necessary.
//!
//! C header: `include/rdma/ib_verbs.h`.

use super::adapter::Adapter;
use super::Provider;
use crate::bindings;
use crate::edge::device::model;
use crate::edge::device::Device as Fields;
use crate::edge::View;
use crate::edge::Writer;
use crate::features::init_slot;
use crate::link::LinkOps;
use crate::link::LinkSlot;
use crate::module::Resident;
use crate::net::CountedNet;
use crate::net::NetDevice;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::CStrExt;
use kernel::types::Opaque;
use kernel::ThisModule;

/// A device of the driver `P`; dereferences to the driver's data.
///
/// # Invariants
///
/// A reference to it is to a device that [`Unregistered::new`] allocated and whose driver's data is
/// initialised and not yet dropped.
#[repr(C)]
pub struct Device<P: Provider> {
    c: Opaque<bindings::ib_device>,
    data: P,
    /// The device's operations are the module's code.
    resident: Resident,
}

// SAFETY: The C part is accessed only under the rules of the core; the data is `Send`.
unsafe impl<P: Provider> Send for Device<P> {}
// SAFETY: As for `Send`, and the data is `Sync`.
unsafe impl<P: Provider> Sync for Device<P> {}

impl<P: Provider> Deref for Device<P> {
    type Target = P;

    #[inline]
    fn deref(&self) -> &P {
        &self.data
    }
}

impl<P: Provider> Device<P> {
    /// # Safety
    ///
    /// For `'a`, `ptr` must be a device that fulfils the type invariant.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: Such a device, for `'a` (contract of this function); the C part is at offset 0.
        unsafe { &*ptr.cast() }
    }

    /// Returns the C structure, for code at the edge to C.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::ib_device {
        self.c.get()
    }

    /// Returns the name, for messages only: an administrator may change it while the device is
    /// registered.
    pub fn name(&self) -> impl fmt::Display + '_ {
        Name(self.as_raw(), core::marker::PhantomData)
    }

    /// # Safety
    ///
    /// `ptr` must be a device that fulfils the type invariant and has no other users any more.
    pub(super) unsafe fn drop_data(ptr: *mut bindings::ib_device) {
        let this = ptr.cast::<Self>();
        // SAFETY: The device has no users any more (contract of this function). Only the C part, at
        // offset 0, is used afterwards.
        unsafe {
            core::ptr::drop_in_place(&raw mut (*this).data);
            core::ptr::drop_in_place(&raw mut (*this).resident);
        }
    }

    /// Returns a reference that keeps the memory, but not the device.
    pub fn reference(&self) -> DeviceRef<P> {
        // SAFETY: The device is not freed while `self` exists.
        unsafe { DeviceRef::get(self.as_raw()) }
    }

    /// Keeps the device registered. `None` if it is not, or is being unregistered. Any context.
    pub fn live(&self) -> Option<Live<'_, P>> {
        // SAFETY: The device is allocated while `self` exists.
        if unsafe { bindings::rdma_helper_ib_device_try_get(self.as_raw()) } {
            // INVARIANT: Counted above.
            Some(Live(self))
        } else {
            None
        }
    }

    /// Returns speed and width of an Ethernet port, `IB_SPEED_*` and `IB_WIDTH_*`, according to its
    /// network device. May sleep.
    pub fn port_speed(&self, port: u32) -> Result<(u16, u8)> {
        let (mut speed, mut width) = (0, 0);
        // SAFETY: The device is valid, and the two variables outlive the call.
        to_result(unsafe {
            bindings::ib_get_eth_speed(self.as_raw(), port, &mut speed, &mut width)
        })?;
        Ok((speed, width))
    }

    /// Changes the node description, which users see. It is truncated to 64 bytes, which need no
    /// NUL (IBTA 14.2.5.2). For [`Provider::modify_device`].
    pub fn set_node_desc(&self, desc: &[u8]) {
        // SAFETY: The device is valid. The core reads this array without a lock, and only its 64
        // bytes.
        unsafe { write_desc(self.as_raw(), desc) }
    }
}

/// Writes a node description.
///
/// # Safety
///
/// `dev` must be a device.
unsafe fn write_desc(dev: *mut bindings::ib_device, desc: &[u8]) {
    // SAFETY: The array is part of the device.
    let to = unsafe { (&raw mut (*dev).node_desc).cast::<u8>() };
    let mut desc = desc.iter().copied().take_while(|c| *c != 0).fuse();
    for i in 0..bindings::IB_DEVICE_NODE_DESC_MAX as usize {
        let c = desc.next().unwrap_or(0);
        // SAFETY: `i` is within the array.
        unsafe { to.add(i).write_volatile(c) };
    }
}

/// Displays the name of a device.
struct Name<'a>(*mut bindings::ib_device, core::marker::PhantomData<&'a ()>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: The device exists as long as it is borrowed.
        let name = unsafe { (&raw const (*self.0).name).cast::<u8>() };
        for i in 0..bindings::IB_DEVICE_NAME_MAX as usize {
            // SAFETY: `i` is within the array. A rename may change it concurrently.
            match unsafe { name.add(i).read_volatile() } {
                0 => break,
                c => fmt::Write::write_char(f, c.into())?,
            }
        }
        Ok(())
    }
}

/// Events of a port (IBTA 11.6.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PortEvent {
    /// The port became active.
    Active = bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
    /// The port is not active any more.
    Error = bindings::ib_event_type_IB_EVENT_PORT_ERR,
    /// The LID has changed.
    LidChange = bindings::ib_event_type_IB_EVENT_LID_CHANGE,
    /// The P_Key table has changed.
    PkeyChange = bindings::ib_event_type_IB_EVENT_PKEY_CHANGE,
    /// The subnet manager has changed.
    SmChange = bindings::ib_event_type_IB_EVENT_SM_CHANGE,
    /// The subnet manager requests that clients register again.
    ClientReregister = bindings::ib_event_type_IB_EVENT_CLIENT_REREGISTER,
    /// The GID table has changed.
    GidChange = bindings::ib_event_type_IB_EVENT_GID_CHANGE,
}

/// A device that stays registered as long as this exists.
///
/// # Invariants
///
/// It holds one count of the device's `refcount`.
pub struct Live<'a, P: Provider>(&'a Device<P>);

impl<P: Provider> Live<'_, P> {
    /// Notifies the core and all listeners of an event of a port. Without effect, but for a
    /// warning, if there is no such port: listeners use the number unchecked. Any context.
    pub fn port_event(&self, port: u32, kind: PortEvent) {
        // SAFETY: The device is valid and registered (type invariant).
        let fields = unsafe { Fields::view(self.0.as_raw()) };
        if kernel::warn_on!(!fields.has_port(port)) {
            return;
        }
        let event = bindings::ib_event {
            device: self.0.as_raw(),
            element: bindings::ib_event__bindgen_ty_1 {
                port_num: ManuallyDrop::new(port),
            },
            // CAST: The enum is `repr(u32)` with the C numbers.
            event: kind as u32,
        };
        // SAFETY: The device is registered. The core copies the event for its work item, and
        // flushes these before a device is freed.
        unsafe { bindings::ib_dispatch_event(&event) };
    }

    /// Has the core unregister the device later, from a work item. For callers that hold locks,
    /// such as RTNL. Any context; does not sleep.
    ///
    /// The module must call [`unregister_driver`] on exit.
    pub fn unregister_queued(&self) {
        // SAFETY: The device is registered and has `dealloc_driver`.
        unsafe { bindings::ib_unregister_device_queued(self.0.as_raw()) };
    }
}

impl<P: Provider> Deref for Live<'_, P> {
    type Target = Device<P>;

    fn deref(&self) -> &Device<P> {
        self.0
    }
}

impl<P: Provider> Drop for Live<'_, P> {
    fn drop(&mut self) {
        // SAFETY: A count is held (type invariant).
        unsafe { bindings::ib_device_put(self.0.as_raw()) };
    }
}

/// A reference that keeps the memory of a device, but not the device.
///
/// # Invariants
///
/// `0` points to a device of `P`, and this holds a reference to its embedded `struct device`.
pub struct DeviceRef<P: Provider>(NonNull<Device<P>>);

// SAFETY: It gives access only to a `Device`, which is `Send` and `Sync`.
unsafe impl<P: Provider> Send for DeviceRef<P> {}
// SAFETY: As for `Send`.
unsafe impl<P: Provider> Sync for DeviceRef<P> {}

impl<P: Provider> DeviceRef<P> {
    /// # Safety
    ///
    /// `ptr` must be a device of `P` whose memory is allocated.
    unsafe fn get(ptr: *mut bindings::ib_device) -> Self {
        // SAFETY: The embedded device is initialised as long as the memory is allocated.
        unsafe { bindings::get_device(model(ptr)) };
        // INVARIANT: The reference was taken above.
        // SAFETY: A valid device is not at address 0.
        Self(unsafe { NonNull::new_unchecked(ptr.cast()) })
    }

    pub(super) fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.as_ptr().cast()
    }

    /// Keeps the device registered. `None` if it is not, or is being unregistered. Any context.
    pub fn live(&self) -> Option<Live<'_, P>> {
        // SAFETY: The memory is allocated (type invariant).
        if unsafe { bindings::rdma_helper_ib_device_try_get(self.as_raw()) } {
            // SAFETY: The device is registered, so the driver's data is initialised, and it stays
            // registered while the count is held.
            // INVARIANT: Counted above.
            Some(Live(unsafe { self.0.as_ref() }))
        } else {
            None
        }
    }
}

impl<P: Provider> Clone for DeviceRef<P> {
    fn clone(&self) -> Self {
        // SAFETY: A device of `P` whose memory is allocated (type invariant).
        unsafe { Self::get(self.as_raw()) }
    }
}

impl<P: Provider> Drop for DeviceRef<P> {
    fn drop(&mut self) {
        // SAFETY: A reference is held (type invariant).
        unsafe { bindings::put_device(model(self.as_raw())) };
    }
}

/// A device that is allocated and not yet registered. Drop frees it.
///
/// # Invariants
///
/// `0` points to a device of `P` that fulfils the invariant of [`Device`], and that this owns.
pub struct Unregistered<P: Provider>(NonNull<Device<P>>);

// SAFETY: It owns a `Device`, which is `Send`.
unsafe impl<P: Provider> Send for Unregistered<P> {}

// SAFETY: The device is owned (type invariant); others read its C fields only after it is
// registered.
unsafe impl<P: Provider> Writer for Unregistered<P> {
    type Of = Fields;

    fn place(&mut self) -> *mut bindings::ib_device {
        self.as_raw()
    }
}

impl<P: Provider> Unregistered<P> {
    /// Allocates a device in the initial network namespace. May sleep. `resident` is
    /// [`resident!()`](crate::resident).
    ///
    /// # Errors
    ///
    /// `ENOMEM`; those of `data`.
    pub fn new(
        resident: Resident,
        module: &'static ThisModule,
        data: impl PinInit<P, Error>,
    ) -> Result<Self> {
        // SAFETY: The initial namespace always exists.
        unsafe { Self::alloc(resident, module, &raw mut bindings::init_net, data) }
    }

    /// [`Self::new`] in the namespace `net`.
    pub fn new_in(
        resident: Resident,
        module: &'static ThisModule,
        net: &CountedNet,
        data: impl PinInit<P, Error>,
    ) -> Result<Self> {
        // SAFETY: The namespace is valid while it is borrowed.
        unsafe { Self::alloc(resident, module, net.as_raw(), data) }
    }

    /// # Safety
    ///
    /// `net` must be a namespace that is valid during the call.
    unsafe fn alloc(
        resident: Resident,
        module: &'static ThisModule,
        net: *mut bindings::net,
        data: impl PinInit<P, Error>,
    ) -> Result<Self> {
        // SAFETY: The size is at least that of the C structure; the core takes the references to
        // the namespace that it needs.
        let dev = unsafe { bindings::_ib_alloc_device(core::mem::size_of::<Device<P>>(), net) };
        let this = NonNull::new(dev.cast::<Device<P>>()).ok_or(ENOMEM)?;
        // SAFETY: The field is zeroed memory of the right size, which does not move.
        if let Err(e) = unsafe { init_slot(&raw mut (*this.as_ptr()).data, data) } {
            // SAFETY: The device is new and has no operations, so the data, which is not
            // initialised, is not dropped.
            unsafe { bindings::ib_dealloc_device(dev) };
            return Err(e);
        }
        // SAFETY: The device is new. The table is static, and in a module that is not unloaded
        // before `resident` is dropped.
        unsafe {
            (&raw mut (*this.as_ptr()).resident).write(resident);
            bindings::ib_set_device_ops(dev, Adapter::<P>::OPS);
            (*dev).ops.owner = module.as_ptr().cast();
            (*dev).node_type = P::NODE_TYPE;
            (*dev).phys_port_cnt = P::PORTS;
            (*dev).num_comp_vectors = 1;
            (*dev).uverbs_cmd_mask |= P::UVERBS_CMDS;
            write_desc(dev, P::NODE_DESC.to_bytes());
        }
        // INVARIANT: The data is initialised, and the device is not shared.
        Ok(Self(this))
    }

    /// Returns the device.
    pub fn device(&self) -> &Device<P> {
        // SAFETY: The device is valid (type invariant).
        unsafe { self.0.as_ref() }
    }

    fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.as_ptr().cast()
    }

    /// Sets the GUID of the node, in network order.
    pub fn set_node_guid(&mut self, guid: [u8; 8]) {
        Fields::set_node_guid(self, u64::from_ne_bytes(guid));
    }

    /// Sets the number of completion vectors.
    pub fn set_comp_vectors(&mut self, vectors: u32) {
        let vectors = i32::try_from(vectors).unwrap_or(i32::MAX);
        Fields::set_num_comp_vectors(self, vectors);
    }

    /// Sets the key for all local memory, for kernel consumers. Used only if
    /// [`Provider::query_device`] sets `IBK_LOCAL_DMA_LKEY`.
    pub fn set_local_dma_lkey(&mut self, lkey: u32) {
        Fields::set_local_dma_lkey(self, lkey);
    }

    /// Allows `rdma link delete` to delete the device.
    pub fn set_link<T: LinkOps>(&mut self, slot: &'static LinkSlot<T>) {
        // SAFETY: The device is owned (type invariant); the slot is static.
        unsafe { (*self.as_raw()).link_ops = slot.as_raw() };
    }

    /// Associates a port with its network device, to which the core then holds a reference. May
    /// sleep.
    pub fn set_netdev(&mut self, port: u32, netdev: &NetDevice) -> Result {
        // SAFETY: The device is owned (type invariant); the network device is valid.
        to_result(unsafe { bindings::ib_device_set_netdev(self.as_raw(), netdev.as_raw(), port) })
    }

    /// Registers the device as `name`, in which `%d` is replaced by a number. May sleep.
    ///
    /// The device has no DMA: consumers pass kernel virtual addresses.
    ///
    /// # Errors
    ///
    /// `ENFILE` if the name is in use; `ENOMEM`; those of the methods of `P` that are called during
    /// registration. The device is then freed.
    pub fn register(self, name: &CStr) -> Result<Registration<P>> {
        let reference = self.device().reference();
        // SAFETY: The device is owned (type invariant) and set up. A null DMA device means that
        // there is none.
        to_result(unsafe {
            bindings::ib_register_device(self.as_raw(), name.as_char_ptr(), core::ptr::null_mut())
        })?;
        // The core owns the device from here on; it may even be unregistered already.
        core::mem::forget(self);
        Ok(Registration(reference))
    }
}

impl<P: Provider> Drop for Unregistered<P> {
    fn drop(&mut self) {
        // SAFETY: The device is owned (type invariant), and not registered.
        unsafe { bindings::ib_dealloc_device(self.as_raw()) };
    }
}

/// A registered device. Drop unregisters it, and may sleep.
pub struct Registration<P: Provider>(DeviceRef<P>);

impl<P: Provider> Registration<P> {
    /// Keeps the device registered. `None` if it was unregistered by others.
    pub fn live(&self) -> Option<Live<'_, P>> {
        self.0.live()
    }

    /// Leaves the device to the core, for drivers whose devices are created and deleted by `rdma
    /// link`. The module must call [`unregister_driver`] on exit.
    pub fn release(self) -> DeviceRef<P> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used nor dropped afterwards, so there is one owner.
        unsafe { core::ptr::read(&this.0) }
    }
}

impl<P: Provider> Drop for Registration<P> {
    fn drop(&mut self) {
        // SAFETY: The device was registered and its memory is allocated. If it was unregistered by
        // others, its `refcount` is 0 and the function does nothing.
        unsafe { bindings::ib_unregister_device(self.0.as_raw()) };
    }
}

/// Unregisters all devices of the driver, and waits for those being unregistered by others. For the
/// exit of a module, when no devices can be created any more. May sleep.
///
/// Devices are found by [`Provider::DRIVER_ID`], which the driver must have.
pub fn unregister_driver<P: Provider>() {
    const {
        assert!(P::DRIVER_ID != bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN);
    }
    // SAFETY: All devices of the driver have `dealloc_driver`.
    unsafe { bindings::ib_unregister_driver(P::DRIVER_ID) };
}
