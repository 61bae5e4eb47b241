// SPDX-License-Identifier: GPL-2.0

//! A device, from allocation to its end.
//!
//! ```text
//!   Unregistered --register--> Registration --release--> (the core owns it)
//!        |                          |                         |
//!       drop                       drop            unregister_queued, rdma link delete,
//!        |                          |              unregister_driver
//!        v                          v                         v
//!   ib_dealloc_device <---- unregistered: clients gone, no verb runs any more
//!        |
//!        +-- dealloc_driver: the driver's data is dropped
//!        +-- memory is freed when the last DeviceRef is gone
//! ```
//!
//! So three strengths of reference exist. `&Device` is what verbs get, valid for the call.
//! [`Live`] keeps the device from being unregistered; keep it shortly, as it blocks whoever
//! unregisters. [`DeviceRef`] keeps only the memory; a data path or a notifier stores it and tries
//! to make it [`Live`] when there is need.
//!
//! C header: `include/rdma/ib_verbs.h`.

use super::adapter::Adapter;
use super::Provider;
use crate::bindings;
use crate::edge::device::Device as Fields;
use crate::edge::Writer;
use crate::features::init_slot;
use crate::link::LinkOps;
use crate::link::LinkSlot;
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
/// A reference to it is to a device that [`Unregistered::new`] allocated and whose driver's data
/// is initialised and not yet dropped.
#[repr(C)]
pub struct Device<P: Provider> {
    c: Opaque<bindings::ib_device>,
    data: P,
}

// SAFETY: The C part is only touched under the rules of the core; the data is `Send`.
unsafe impl<P: Provider> Send for Device<P> {}
// SAFETY: As above, and the data is `Sync`.
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
    /// For `'a`, `ptr` is a device that fulfils the type invariant.
    #[inline]
    pub unsafe fn from_raw<'a>(ptr: *mut bindings::ib_device) -> &'a Self {
        // SAFETY: Such a device, for `'a` (contract); the C part is at offset 0.
        unsafe { &*ptr.cast() }
    }

    /// The C structure, for code at the edge to C.
    #[inline]
    pub fn as_raw(&self) -> *mut bindings::ib_device {
        self.c.get()
    }

    /// The name; while the device is registered an administrator may change it, so this is for
    /// messages only.
    pub fn name(&self) -> impl fmt::Display + '_ {
        Name(self.as_raw(), core::marker::PhantomData)
    }

    /// # Safety
    ///
    /// `ptr` is a device that fulfils the type invariant, and nobody has or gets a reference to it
    /// any more.
    pub(super) unsafe fn drop_data(ptr: *mut bindings::ib_device) {
        // SAFETY: Nobody has or gets a reference (contract); the C part, at offset 0, is left as it is.
        unsafe { core::ptr::drop_in_place(&raw mut (*ptr.cast::<Self>()).data) };
    }

    /// A reference that keeps the memory, but not the device.
    pub fn reference(&self) -> DeviceRef<P> {
        // SAFETY: The device is not freed while `self` exists.
        unsafe { DeviceRef::get(self.as_raw()) }
    }

    /// Keeps the device registered, unless it is not, or is being unregistered. Any context.
    pub fn live(&self) -> Option<Live<'_, P>> {
        // SAFETY: The memory of the device is there.
        if unsafe { bindings::rdma_helper_ib_device_try_get(self.as_raw()) } {
            // INVARIANT: We just counted one.
            Some(Live(self))
        } else {
            None
        }
    }

    /// Speed and width of an Ethernet port, `IB_SPEED_*` and `IB_WIDTH_*`, after those of its
    /// network device. May sleep.
    pub fn port_speed(&self, port: u32) -> Result<(u16, u8)> {
        let (mut speed, mut width) = (0, 0);
        // SAFETY: The device is valid, and the two variables live for the call.
        to_result(unsafe {
            bindings::ib_get_eth_speed(self.as_raw(), port, &mut speed, &mut width)
        })?;
        Ok((speed, width))
    }

    /// Changes the node description, which users see; cut after 64 bytes, which
    /// need no terminator (IBA 14.2.5.2). For
    /// [`Provider::modify_device`].
    pub fn set_node_desc(&self, desc: &[u8]) {
        // SAFETY: The device is live. The core reads this array without a lock, and no further
        // than its 64 bytes.
        unsafe { write_desc(self.as_raw(), desc) }
    }
}

/// Writes a node description.
///
/// # Safety
///
/// `dev` is a device.
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

/// Prints the name of a device.
struct Name<'a>(*mut bindings::ib_device, core::marker::PhantomData<&'a ()>);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: The device is there as long as we are borrowed from it.
        let name = unsafe { (&raw const (*self.0).name).cast::<u8>() };
        for i in 0..bindings::IB_DEVICE_NAME_MAX as usize {
            // SAFETY: `i` is within the array. It may change meanwhile, by a rename.
            match unsafe { name.add(i).read_volatile() } {
                0 => break,
                c => fmt::Write::write_char(f, c.into())?,
            }
        }
        Ok(())
    }
}

/// Events of a port (IBA 11.6.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PortEvent {
    /// The port came up.
    Active = bindings::ib_event_type_IB_EVENT_PORT_ACTIVE,
    /// The port went down.
    Error = bindings::ib_event_type_IB_EVENT_PORT_ERR,
    /// Its local identifier changed.
    LidChange = bindings::ib_event_type_IB_EVENT_LID_CHANGE,
    /// Its table of partition keys changed.
    PkeyChange = bindings::ib_event_type_IB_EVENT_PKEY_CHANGE,
    /// Its subnet manager changed.
    SmChange = bindings::ib_event_type_IB_EVENT_SM_CHANGE,
    /// Clients shall register again with the subnet.
    ClientReregister = bindings::ib_event_type_IB_EVENT_CLIENT_REREGISTER,
    /// Its table of GIDs changed.
    GidChange = bindings::ib_event_type_IB_EVENT_GID_CHANGE,
}

/// A device that stays registered as long as this exists.
///
/// # Invariants
///
/// Holds one count of the device's `refcount`.
pub struct Live<'a, P: Provider>(&'a Device<P>);

impl<P: Provider> Live<'_, P> {
    /// Tells the core, and all who listen, of an event of a port. Any context.
    pub fn port_event(&self, port: u32, kind: PortEvent) {
        let event = bindings::ib_event {
            device: self.0.as_raw(),
            element: bindings::ib_event__bindgen_ty_1 {
                port_num: ManuallyDrop::new(port),
            },
            // CAST: the enum is `repr(u32)` with the C numbers.
            event: kind as u32,
        };
        // SAFETY: The device is registered. The core copies the event for its work item, and
        // flushes these before a device goes.
        unsafe { bindings::ib_dispatch_event(&event) };
    }

    /// Has the core unregister the device soon, from a work item. For callers that hold locks,
    /// RTNL for instance. Any context that may allocate nothing: it does not sleep.
    ///
    /// The module must call [`unregister_driver`] before it goes.
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
        // SAFETY: By the type invariant we hold a count.
        unsafe { bindings::ib_device_put(self.0.as_raw()) };
    }
}

/// A reference that keeps the memory of a device, but not the device.
///
/// # Invariants
///
/// `0` points to a device of `P`, of whose embedded `struct device` we hold a reference.
pub struct DeviceRef<P: Provider>(NonNull<Device<P>>);

// SAFETY: It gives access only to a `Device`, which is `Send` and `Sync`.
unsafe impl<P: Provider> Send for DeviceRef<P> {}
// SAFETY: See `Send`.
unsafe impl<P: Provider> Sync for DeviceRef<P> {}

impl<P: Provider> DeviceRef<P> {
    /// # Safety
    ///
    /// `ptr` is a device of `P` whose memory is there.
    unsafe fn get(ptr: *mut bindings::ib_device) -> Self {
        // SAFETY: The embedded device is initialised as long as the memory is there.
        unsafe { bindings::get_device((&raw mut (*ptr).__bindgen_anon_1).cast()) };
        // INVARIANT: We just took a reference.
        // SAFETY: A valid device is not at address 0.
        Self(unsafe { NonNull::new_unchecked(ptr.cast()) })
    }

    pub(super) fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.as_ptr().cast()
    }

    /// The device, if it is registered and is not being unregistered. Any context.
    pub fn live(&self) -> Option<Live<'_, P>> {
        // SAFETY: By the type invariant the memory is there.
        if unsafe { bindings::rdma_helper_ib_device_try_get(self.as_raw()) } {
            // SAFETY: The device is registered, so the driver's data is there, and it stays
            // registered while we hold the count.
            // INVARIANT: We just counted one.
            Some(Live(unsafe { self.0.as_ref() }))
        } else {
            None
        }
    }
}

impl<P: Provider> Clone for DeviceRef<P> {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant.
        unsafe { Self::get(self.as_raw()) }
    }
}

impl<P: Provider> Drop for DeviceRef<P> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant we hold a reference.
        unsafe { bindings::put_device((&raw mut (*self.as_raw()).__bindgen_anon_1).cast()) };
    }
}

/// A device that has been allocated and not yet registered. Dropping it frees the device.
///
/// # Invariants
///
/// `0` points to a device of `P` that fulfils the invariant of [`Device`], and that we own.
pub struct Unregistered<P: Provider>(NonNull<Device<P>>);

// SAFETY: It owns a `Device`, which is `Send`.
unsafe impl<P: Provider> Send for Unregistered<P> {}

// SAFETY: We own the device (type invariant), whose C fields others read once it is registered.
unsafe impl<P: Provider> Writer for Unregistered<P> {
    type Of = Fields;

    fn place(&mut self) -> *mut bindings::ib_device {
        self.as_raw()
    }
}

impl<P: Provider> Unregistered<P> {
    /// Allocates a device with one port in the first network namespace. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what `data` fails with.
    pub fn new(module: &'static ThisModule, data: impl PinInit<P, Error>) -> Result<Self> {
        // SAFETY: The first namespace is always there.
        unsafe { Self::alloc(module, &raw mut bindings::init_net, data) }
    }

    /// As [`Self::new`], in the namespace `net`.
    pub fn new_in(
        module: &'static ThisModule,
        net: &CountedNet,
        data: impl PinInit<P, Error>,
    ) -> Result<Self> {
        // SAFETY: The namespace is there while we borrow it.
        unsafe { Self::alloc(module, net.as_raw(), data) }
    }

    /// # Safety
    ///
    /// `net` is a namespace that is there during the call.
    unsafe fn alloc(
        module: &'static ThisModule,
        net: *mut bindings::net,
        data: impl PinInit<P, Error>,
    ) -> Result<Self> {
        // SAFETY: The size is at least that of the C structure; the core takes what references to
        // the namespace it needs.
        let dev = unsafe { bindings::_ib_alloc_device(core::mem::size_of::<Device<P>>(), net) };
        let this = NonNull::new(dev.cast::<Device<P>>()).ok_or(ENOMEM)?;
        // SAFETY: The slot is zeroed memory of the right size, which is not moved.
        if let Err(e) = unsafe { init_slot(&raw mut (*this.as_ptr()).data, data) } {
            // SAFETY: We own the device. It has no operations, so the data, which is not there,
            // is not dropped.
            unsafe { bindings::ib_dealloc_device(dev) };
            return Err(e);
        }
        // SAFETY: We own the device, and the table is static. `owner` keeps the module, whose
        // code the table points to.
        unsafe {
            bindings::ib_set_device_ops(dev, Adapter::<P>::OPS);
            (*dev).ops.owner = module.as_ptr().cast();
            (*dev).node_type = P::NODE_TYPE;
            (*dev).phys_port_cnt = 1;
            (*dev).num_comp_vectors = 1;
            (*dev).uverbs_cmd_mask |= P::UVERBS_CMDS;
            write_desc(dev, P::NODE_DESC.to_bytes());
        }
        // INVARIANT: The data is initialised, and nobody else knows of the device.
        Ok(Self(this))
    }

    /// The device.
    pub fn device(&self) -> &Device<P> {
        // SAFETY: By the type invariant.
        unsafe { self.0.as_ref() }
    }

    fn as_raw(&self) -> *mut bindings::ib_device {
        self.0.as_ptr().cast()
    }

    /// Sets the GUID of the node, in network order.
    pub fn set_node_guid(&mut self, guid: [u8; 8]) {
        Fields::set_node_guid(self, u64::from_ne_bytes(guid));
    }

    /// Sets the number of ports.
    pub fn set_ports(&mut self, ports: u32) {
        Fields::set_phys_port_cnt(self, ports);
    }

    /// Sets the number of completion vectors.
    pub fn set_comp_vectors(&mut self, vectors: u32) {
        let vectors = i32::try_from(vectors).unwrap_or(i32::MAX);
        Fields::set_num_comp_vectors(self, vectors);
    }

    /// Sets the key by which kernel consumers name all of local memory. Only of use if
    /// [`Provider::query_device`] sets `IBK_LOCAL_DMA_LKEY`.
    pub fn set_local_dma_lkey(&mut self, lkey: u32) {
        Fields::set_local_dma_lkey(self, lkey);
    }

    /// Makes the device one that `rdma link delete` can delete.
    pub fn set_link<T: LinkOps>(&mut self, slot: &'static LinkSlot<T>) {
        // SAFETY: We own the device; the slot is static.
        unsafe { (*self.as_raw()).link_ops = slot.as_raw() };
    }

    /// Ties a port to its network device, of which the core then holds a reference. May sleep.
    pub fn set_netdev(&mut self, port: u32, netdev: &NetDevice) -> Result {
        // SAFETY: We own the device; the network device is there.
        to_result(unsafe { bindings::ib_device_set_netdev(self.as_raw(), netdev.as_raw(), port) })
    }

    /// Registers the device under `name`, in which a `%d` becomes a number. May sleep.
    ///
    /// The device has no DMA of its own: consumers give kernel virtual addresses.
    ///
    /// # Errors
    ///
    /// `ENFILE` if the name is taken, `ENOMEM`, or what the methods of `P` which run during
    /// registration fail with. The device is then freed.
    pub fn register(self, name: &CStr) -> Result<Registration<P>> {
        let reference = self.device().reference();
        // SAFETY: We own the device, and it is set up. A null DMA device stands for none.
        to_result(unsafe {
            bindings::ib_register_device(self.as_raw(), name.as_char_ptr(), core::ptr::null_mut())
        })?;
        // From here the core owns the device; somebody may even have unregistered it already.
        core::mem::forget(self);
        Ok(Registration(reference))
    }
}

impl<P: Provider> Drop for Unregistered<P> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant we own the device, which is not registered.
        unsafe { bindings::ib_dealloc_device(self.as_raw()) };
    }
}

/// A device that was registered, and is unregistered when this is dropped, which may sleep.
pub struct Registration<P: Provider>(DeviceRef<P>);

impl<P: Provider> Registration<P> {
    /// The device, if nobody else has unregistered it.
    pub fn live(&self) -> Option<Live<'_, P>> {
        self.0.live()
    }

    /// Leaves the device to the core, for drivers whose devices come and go by `rdma link`.
    /// The module must call [`unregister_driver`] before it goes.
    pub fn release(self) -> DeviceRef<P> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used any more, nor dropped, so there is one owner.
        unsafe { core::ptr::read(&this.0) }
    }
}

impl<P: Provider> Drop for Registration<P> {
    fn drop(&mut self) {
        // SAFETY: The device was registered and its memory is there. If it has been unregistered
        // meanwhile, its `refcount` is 0 and the function does nothing.
        unsafe { bindings::ib_unregister_device(self.0.as_raw()) };
    }
}

/// Unregisters all devices of the driver, and waits for those being unregistered by others. For
/// the end of a module, when nobody can make devices any more. May sleep.
///
/// It goes by [`Provider::DRIVER_ID`], so a driver without one cannot use it.
pub fn unregister_driver<P: Provider>() {
    const {
        assert!(P::DRIVER_ID != bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN);
    }
    // SAFETY: All our devices have `dealloc_driver`.
    unsafe { bindings::ib_unregister_driver(P::DRIVER_ID) };
}
