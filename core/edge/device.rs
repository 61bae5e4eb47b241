// SPDX-License-Identifier: GPL-2.0

//! C structures of devices: core-only fields, ports, driver methods.
//!
//! Must match `include/rdma/ib_verbs.h`. The methods are those of `struct ib_device_ops` that take
//! a device. A driver writes its method table before it registers the device. A method gets its own
//! driver's device, and the types of the other arguments guarantee that they are valid. So a method
//! is safe to call from every context that its comment in the header allows.

use core::mem::offset_of;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::sync::atomic::Relaxed;
use kernel::workqueue::HasWork;
use kernel::workqueue::Work;
use rdma::bindings;
use rdma::edge::device::Device as EdgeDevice;
use rdma::edge::verbs::GidAttr;
use rdma::edge::FromC;
use rdma::edge::In;
use rdma::edge::IntoC;
use rdma::edge::Lent;
use rdma::edge::Passed;
use rdma::edge::Refused;
use rdma::edge::Reply;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::edge::Writer;
use rdma::net::CountedNet;
use rdma::net::NetDevice;
use rdma::sync::CRefcount;
use rdma::sync::Completion;

use super::client::ClientData;
use crate::counter::edge::PortCounter;
use crate::device::registry::Devices;
use crate::device::Device;
use crate::device::Registered;
use crate::device::RegistrationLock;
use crate::proto::names;
use crate::stats;
use rdma::errno::eopnotsupp;

rdma::c_struct! {
    /// The fields of a device that only the core uses; [`rdma::edge::device::Device`] has others.
    pub(crate) struct Fields: bindings::ib_device;
    fields {
        /// Use count of the registered device; 0 while it is not registered. Consumers also take
        /// it, by `ib_device_try_get`.
        embed refcount: CRefcount;
        /// Completed when the last use ends.
        embed unreg_completion: Completion;
        /// Private data of clients.
        embed client_data: ClientData;
        /// The driver model device, initialised together with this device.
        embed model in __bindgen_anon_1.coredev: CoreDevice;
        /// Parent of a subdevice, which is unregistered after the subdevice. Written before the
        /// subdevice's driver registers it.
        const parent: Option<&Device>;
        /// Port array. Written once, before registration.
        racy port_data: *mut bindings::ib_port_data;
    }
}

impl Device {
    /// Returns the core-only fields.
    #[inline(always)]
    pub(crate) fn fields(&self) -> &Fields {
        // SAFETY: Both types are views of `struct ib_device`, which is valid (type invariant of
        // `Device`). `Allocation::new` initialises the embedded structures.
        unsafe { Fields::view(self.as_raw()) }
    }

    /// Returns the driver model device.
    #[inline(always)]
    pub(crate) fn model(&self) -> &CoreDevice {
        self.fields().model()
    }

    /// Returns the port of this number; `None` if there is none, or if the port array is not
    /// allocated yet.
    #[inline]
    pub(crate) fn port(&self, port: u32) -> Option<&PortData> {
        let ports = self.fields().port_data();
        if ports.is_null() || !self.has_port(port) {
            return None;
        }
        // SAFETY: The array has an element for each port of the device, and is freed after the
        // device.
        Some(unsafe { PortData::view(ports.add(usize::try_from(port).ok()?)) })
    }

    /// Returns whether the link layer of a port is InfiniBand.
    pub(crate) fn is_infiniband(&self, port: u32) -> bool {
        let layer = match self.driver().get_link_layer(port) {
            Some(layer) => layer,
            None => match u32::from(self.node_type()) {
                bindings::RDMA_NODE_IB_CA
                | bindings::RDMA_NODE_IB_SWITCH
                | bindings::RDMA_NODE_IB_ROUTER => {
                    bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND
                }
                _ => bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET,
            },
        };
        layer == bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND
    }

    /// Writes the copy of the name that consumers read.
    pub(crate) fn write_name(&self, _list: &mut Devices, name: &names::Name) {
        // SAFETY: The field is an array of that size. The lock of the list is held for writing (only
        // that lends the list mutably), as it is to borrow the name; other readers tolerate concurrent
        // changes.
        unsafe {
            (&raw mut (*self.as_raw()).name)
                .cast::<[u8; names::NAME_MAX]>()
                .write_volatile(*name.as_c_array());
        }
    }

    /// Returns the node description, written by the driver or by a user. A concurrent change may
    /// tear it.
    pub(crate) fn node_desc(&self) -> [u8; 64] {
        const {
            assert!(offset_of!(bindings::ib_device, node_desc) % align_of::<u64>() == 0);
        }
        // SAFETY: The field is an array of that size, and aligned (see above). It is read by words;
        // concurrent changes are tolerated.
        unsafe {
            let words = (&raw const (*self.as_raw()).node_desc).cast::<[u64; 8]>();
            core::mem::transmute::<[u64; 8], [u8; 64]>(words.read_volatile())
        }
    }
}

impl RegistrationLock<'_> {
    /// Sets the network namespace of the device, which must be disabled. The removal of a namespace,
    /// which has not begun as long as the namespace is counted, moves the devices out of it, one
    /// at a time by this lock.
    pub(crate) fn set_net(&self, net: &CountedNet) {
        // SAFETY: The field is a word, which changes under this lock; for its readers see
        // `Device::net`.
        unsafe {
            bindings::rdma_helper_write_pnet(
                &raw mut (*self.device().model().raw()).rdma_net,
                net.as_raw(),
            );
        }
    }
}

/// A device that is not registered yet, or is being registered.
///
/// # Invariants
///
/// Only the thread that has this uses the fields that registration writes, and consumers cannot
/// find the device.
pub(crate) struct Unregistered<'a>(&'a Device);

rdma::argument! {
    /// An allocated device that is not registered and that only the caller uses
    /// (`ib_set_device_ops`, `ib_register_device`).
    impl<'a> Unregistered<'a> = |device: &'a Device| Unregistered(device);
}

// SAFETY: No other thread uses the fields that registration writes (type invariant of `Unregistered`).
unsafe impl Writer for Unregistered<'_> {
    type Of = EdgeDevice;

    fn place(&mut self) -> *mut bindings::ib_device {
        self.0.as_raw()
    }
}

impl<'a> Unregistered<'a> {
    /// The device.
    pub(crate) fn device(&self) -> &'a Device {
        self.0
    }

    /// Sets the name. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn set_name(&mut self, name: &names::Name) -> Result {
        // SAFETY: An unregistered device is not added; `add` takes `self`.
        unsafe { self.0.model().set_name(name) }
    }

    /// Sets the device index.
    pub(crate) fn set_index(&mut self, index: u32) {
        EdgeDevice::set_index(self, index);
    }

    /// Sets the device that does DMA for this device, and the flags that depend on it.
    pub(crate) fn set_dma_device(&mut self, dma: Passed<bindings::device>) {
        let dma: *mut bindings::device = dma.into_c();
        // SAFETY: No other thread uses the fields (type invariant of `Unregistered`). `dma` is null, or
        // valid as long as this device (`ib_register_device`).
        unsafe {
            kernel::warn_on!(!dma.is_null() && (*dma).dma_parms.is_null());
            (*self.0.as_raw()).dma_device = dma;
            if !dma.is_null() && bindings::rdma_helper_dma_may_bounce() {
                (*self.0.as_raw()).set_cc_dma_bounce(1);
            }
        }
    }

    /// Sets whether the device supports kernel verbs.
    pub(crate) fn set_kverbs_provider(&mut self, is: bool) {
        EdgeDevice::set_kverbs_provider(self, is);
    }

    /// Adds the device to the driver model, where others can find it. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of `device_add`.
    pub(crate) fn add(self) -> Result<Visible<'a>> {
        // SAFETY: An unregistered device is not added, and this function takes `self`.
        unsafe { self.0.model().add() }
    }

    /// Queries the device attributes from the driver.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`; errors of the driver.
    pub(crate) fn query(&mut self) -> Result {
        let device = self.0;
        let method = device.ops().query_device.ok_or_else(eopnotsupp)?;
        // SAFETY: No other thread uses the attributes (type invariant of `Unregistered`), for which
        // zeros are valid. The method belongs to the device's driver.
        unsafe {
            let attrs = &raw mut (*device.as_raw()).attrs;
            attrs.write_bytes(0, 1);
            to_result(method(device.as_raw(), attrs, core::ptr::null_mut()))
        }
    }

    /// Queries the immutable attributes of a port from the driver.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port or method; errors of the driver.
    pub(crate) fn query_immutable(&mut self, port: u32) -> Result<&'a PortImmutable> {
        let device = self.0;
        let method = device.ops().get_port_immutable.ok_or(EINVAL)?;
        let immutable = device.port(port).ok_or(EINVAL)?.immutable();
        // SAFETY: No other thread uses the field (type invariant of `Unregistered`). The method belongs
        // to the device's driver.
        to_result(unsafe { method(device.as_raw(), port, immutable.raw()) })?;
        Ok(immutable)
    }
}

rdma::c_struct! {
    /// The core's data of a port.
    pub(crate) struct PortData: bindings::ib_port_data;
    fields {
        /// The device. Written when the port array is allocated.
        const device at ib_dev: Option<&Device>;
        /// Immutable attributes of the port, queried at registration.
        embed immutable: PortImmutable;
        /// Network device of the port, for comparison only. Changed under `netdev_lock`.
        racy tied at netdev: *mut bindings::net_device;
        /// Counter state: how queue pairs of the port are bound to counters.
        embed counter at port_counter: PortCounter;
        /// Last state that clients were notified of (`enum ib_port_state`).
        racy last_state at cache.last_port_state: u32, set_last_state;
    }
}

// SAFETY: The rules of the table above hold for access from any thread.
unsafe impl Sync for PortData {}

rdma::c_struct! {
    /// Immutable attributes of a port, which the driver reports at registration.
    pub(crate) struct PortImmutable: bindings::ib_port_immutable;
    fields {
        /// Number of P_Key table entries.
        const pkey_tbl_len: i32;
        /// Number of GID table entries.
        const gid_tbl_len: i32;
        /// `RDMA_CORE_CAP_*`.
        const core_cap_flags: u32;
        /// Maximum MAD size in bytes; 0 if MADs are not supported.
        const max_mad_size: u32;
    }
}

impl PortImmutable {
    /// Returns a copy of the attributes.
    #[inline(always)]
    pub(crate) fn get(&self) -> bindings::ib_port_immutable {
        bindings::ib_port_immutable {
            pkey_tbl_len: self.pkey_tbl_len(),
            gid_tbl_len: self.gid_tbl_len(),
            core_cap_flags: self.core_cap_flags(),
            max_mad_size: self.max_mad_size(),
        }
    }
}

impl PortData {
    /// Replaces [`last_state`](Self::last_state), and returns the old value.
    pub(crate) fn swap_last_state(&self, state: u32) -> u32 {
        // SAFETY: The field is `racy` in the table: every access is to the whole word.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).cache.last_port_state) }.xchg(state, Full)
    }

    /// Locks the network device field of the port. Any context.
    pub(crate) fn lock_netdev(&self) -> PortNetdev<'_> {
        // SAFETY: The lock is initialised with the port.
        let flags =
            unsafe { bindings::rdma_helper_spin_lock_irqsave(&raw mut (*self.raw()).netdev_lock) };
        // INVARIANT: Just locked.
        PortNetdev { port: self, flags }
    }
}

/// The network device field of a port, locked.
///
/// # Invariants
///
/// `netdev_lock` of `port` is held. The field `netdev` is null, or a device to which the port holds
/// a reference.
pub(crate) struct PortNetdev<'a> {
    port: &'a PortData,
    flags: c_ulong,
}

impl PortNetdev<'_> {
    /// Returns the network device.
    pub(crate) fn get(&self) -> Option<&NetDevice> {
        let netdev = NonNull::new(self.port.tied())?;
        // SAFETY: The port holds a reference, and keeps it while the lock is held (type invariant).
        Some(unsafe { NetDevice::from_raw(netdev.as_ptr()) })
    }

    /// Sets the network device of the port. `None` clears it.
    pub(crate) fn set(&mut self, netdev: Option<&NetDevice>) {
        let port = self.port.raw();
        let old = self.port.tied();
        let new = netdev.map_or(core::ptr::null_mut(), NetDevice::as_raw);
        // SAFETY: The lock is held (type invariant); RCU readers only compare the pointer.
        // INVARIANT: Drops the reference to the old device, and takes one to the new device.
        unsafe {
            (&raw mut (*port).netdev).write_volatile(new);
            let tracker = &raw mut (*port).netdev_tracker;
            if !old.is_null() {
                bindings::rdma_helper_netdev_put(old, tracker);
            }
            if !new.is_null() {
                bindings::rdma_helper_netdev_hold(new, tracker);
            }
        }
    }
}

impl Drop for PortNetdev<'_> {
    fn drop(&mut self) {
        // SAFETY: `lock_netdev` took the lock and returned these flags; it is still held (type
        // invariant).
        unsafe {
            bindings::rdma_helper_spin_unlock_irqrestore(
                &raw mut (*self.port.raw()).netdev_lock,
                self.flags,
            )
        };
    }
}

rdma::c_struct! {
    /// The driver model part of a `struct ib_device`, or of its copy in another network namespace.
    /// A reference implies that `class::init_core_device` has initialised it.
    pub(crate) struct CoreDevice: bindings::ib_core_device;
    fields {
        /// The device that this is part of, or a copy of. It outlives its copies. Written by
        /// `init_core_device`.
        const owner: &Device;
        /// The `struct device`.
        embed dev: ModelDevice;
    }
}

rdma::c_struct! {
    /// An initialised `struct device`.
    pub(crate) struct ModelDevice: bindings::device;
    fields {
        /// Its sysfs directory.
        embed directory at kobj: Kobject;
    }
}

rdma::c_struct! {
    /// An initialised `struct kobject`.
    pub(crate) struct Kobject: bindings::kobject;
    fields {}
}

impl CoreDevice {
    /// Its sysfs directory.
    pub(crate) fn kobj(&self) -> *mut bindings::kobject {
        self.dev().directory().raw()
    }

    /// Replaces the kobject of the ports directory, which `sysfs` owns, and returns the old one.
    pub(crate) fn swap_ports_kobj(
        &self,
        new: *mut bindings::kobject,
    ) -> Option<NonNull<bindings::kobject>> {
        // SAFETY: The field is a word that only this function accesses.
        let place = unsafe { Atomic::from_ptr(&raw mut (*self.raw()).ports_kobj) };
        NonNull::new(place.xchg(new, Full))
    }

    /// Sets the name. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The device is not added, so that nobody reads the old name.
    pub(super) unsafe fn set_name(&self, name: &names::Name) -> Result {
        // SAFETY: The device is initialised, and nobody reads the old name (contract of this
        // function). The new name is NUL-terminated, and copied.
        to_result(unsafe {
            bindings::dev_set_name(
                self.dev().raw(),
                c"%s".as_char_ptr(),
                name.as_c_array().as_ptr(),
            )
        })
    }

    /// Renames an added device, or moves its sysfs directory after a change of its namespace. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Errors of `device_rename`.
    pub(crate) fn rename(&self, _list: &mut Devices, name: &names::Name) -> Result {
        // SAFETY: The device is initialised; the name is NUL-terminated, and copied. One thread
        // renames at a time: the lock of the list is held for writing (only that lends it mutably).
        to_result(unsafe {
            bindings::device_rename(self.dev().raw(), name.as_c_array().as_ptr().cast())
        })
    }

    /// Does the second half of [`rename`](Self::rename) once more, where memory was missing for it. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Errors of `kobject_rename`.
    pub(crate) fn rename_directory(&self, _list: &mut Devices, name: &names::Name) -> Result {
        // SAFETY: As for `rename`.
        to_result(unsafe {
            bindings::kobject_rename(self.kobj(), name.as_c_array().as_ptr().cast())
        })
    }

    /// Sends a uevent to user space.
    pub(crate) fn uevent(&self, action: bindings::kobject_action) {
        // SAFETY: The device is initialised (see `CoreDevice`).
        unsafe { bindings::kobject_uevent(self.kobj(), action) };
    }

    /// Suppresses uevents of the device, or allows them again.
    pub(crate) fn suppress_uevents(&self, suppress: bool) {
        // SAFETY: The device is initialised (see `CoreDevice`).
        unsafe { bindings::rdma_helper_dev_set_uevent_suppress(self.dev().raw(), suppress) };
    }

    /// Adds the device to the driver model. It stays visible until the result is dropped. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Those of `device_add`: `EINVAL` if the device has no name.
    ///
    /// # Safety
    ///
    /// The device is not added.
    pub(super) unsafe fn add(&self) -> Result<Visible<'_>> {
        // SAFETY: The device is initialised, and not added yet (contract of this function).
        to_result(unsafe { bindings::device_add(self.dev().raw()) })?;
        // INVARIANT: Just added.
        Ok(Visible(self))
    }
}

/// A device that was added to the driver model. Dropping this removes it, and waits for running
/// accesses to its sysfs files.
///
/// # Invariants
///
/// The device is added, and only `self` deletes it.
pub(crate) struct Visible<'a>(&'a CoreDevice);

impl<'a> Visible<'a> {
    /// Restores the value that [`keep`](Self::keep) consumed.
    ///
    /// # Safety
    ///
    /// The device is added, `keep` was called, and this function is called once after each `keep`.
    pub(crate) unsafe fn kept(device: &'a CoreDevice) -> Self {
        // INVARIANT: By the contract of this function.
        Self(device)
    }

    /// The device.
    pub(crate) fn model(&self) -> &'a CoreDevice {
        self.0
    }

    /// Leaves the device added.
    pub(crate) fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Visible<'_> {
    fn drop(&mut self) {
        // SAFETY: The device is added, and deleted here only (type invariant).
        unsafe { bindings::device_del(self.0.dev().raw()) };
    }
}

/// A subdevice that the parent's driver made by `add_sub_dev`. [`delete`](Self::delete) has the
/// driver delete it; dropping this does not.
///
/// # Invariants
///
/// `0` is such a device, and only the owner of `self` may have the driver delete it.
pub(crate) struct SubDevice(NonNull<bindings::ib_device>);

// SAFETY: Devices may be used from any thread.
unsafe impl Send for SubDevice {}

rdma::argument! {
    /// A new device that the driver passes to the caller (`add_sub_dev`).
    impl SubDevice = |device: NonNull<bindings::ib_device>| SubDevice(device);
}

impl SubDevice {
    /// Returns whether `device` is this subdevice.
    pub(crate) fn is(&self, device: &Device) -> bool {
        self.0 == NonNull::from(device).cast()
    }

    /// Sets the type and the parent of the subdevice.
    pub(crate) fn adopt(&mut self, kind: bindings::rdma_nl_dev_type, parent: &Device) {
        // SAFETY: The subdevice is valid (type invariant). The fields are not read before it is in
        // the list of its parent: deletion starts with a search there, and the driver reads the
        // parent only on deletion.
        unsafe {
            (*self.0.as_ptr()).type_ = kind;
            (*self.0.as_ptr()).parent = parent.as_raw();
        }
    }

    /// Has the parent's driver delete the subdevice. May sleep.
    pub(crate) fn delete(self, parent: &Device) {
        if let Some(method) = parent.ops().del_sub_dev {
            // SAFETY: That driver made the subdevice, and only the owner of `self` has it deleted
            // (type invariant).
            unsafe { method(self.0.as_ptr()) };
        }
    }
}

/// Driver methods that take the device.
pub(crate) struct DeviceDriver<'a>(&'a Device);

impl Device {
    /// Returns the methods of the device's driver.
    #[inline(always)]
    pub(crate) fn driver(&self) -> DeviceDriver<'_> {
        DeviceDriver(self)
    }
}

/// Wrappers of driver methods; `EOPNOTSUPP` if the driver does not implement the method.
macro_rules! methods {
    ($(
        $(#[$meta:meta])*
        fn $method:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )*) => {
        impl DeviceDriver<'_> { $(
            $(#[$meta])*
            #[inline]
            pub(crate) fn $method(&self, $($arg: $ty),*) -> $ret {
                let Some(method) = self.0.ops().$method else {
                    return <$ret as Refused>::refused(eopnotsupp());
                };
                // SAFETY: The method belongs to the device's driver, and the arguments are valid by
                // their types (header of this file).
                unsafe { Reply::reply(method(self.0.as_raw(), $(IntoC::into_c($arg)),*)) }
            }
        )* }
    };
}

methods! {
    fn enable_driver() -> Result;
    fn query_port(port: u32, attr: Lent<'_, bindings::ib_port_attr>) -> Result;
    fn query_pkey(port: u32, index: u16, pkey: Lent<'_, u16>) -> Result;
    fn query_gid(port: u32, index: c_int, gid: Lent<'_, bindings::ib_gid>) -> Result;
    fn modify_device(mask: c_int, modify: Lent<'_, bindings::ib_device_modify>) -> Result;
    fn modify_port(port: u32, mask: c_int, modify: Lent<'_, bindings::ib_port_modify>) -> Result;
    fn add_sub_dev(kind: u32, name: &CStr) -> Result<SubDevice>;
    fn set_vf_link_state(vf: c_int, port: u32, state: c_int) -> Result;
    fn get_vf_config(vf: c_int, port: u32, info: Passed<bindings::ifla_vf_info>) -> Result;
    fn get_vf_stats(vf: c_int, port: u32, stats: Passed<bindings::ifla_vf_stats>) -> Result;
    fn set_vf_guid(vf: c_int, port: u32, guid: u64, kind: c_int) -> Result;
    fn get_vf_guid(
        vf: c_int, port: u32,
        node: Passed<bindings::ifla_vf_guid>, of_port: Passed<bindings::ifla_vf_guid>,
    ) -> Result;
    fn modify_hw_stat(port: u32, index: u32, enable: bool) -> Result;
    fn alloc_hw_device_stats() -> Result<stats::Owned>;
    fn alloc_hw_port_stats(port: u32) -> Result<stats::Owned>;
    fn get_hw_stats(values: &mut stats::Values<'_>, port: u32, index: c_int) -> c_int;
    fn rdma_netdev_get_params(
        port: u32, kind: u32, params: Lent<'_, bindings::rdma_netdev_alloc_params>,
    ) -> Result;
    fn report_port_event(netdev: &NetDevice, event: c_ulong) -> ();
}

/// Driver data of a GID (`add_gid`). Only the driver writes it, while it adds or deletes the GID.
pub(crate) struct GidContext(Atomic<*mut c_void>);

impl GidContext {
    /// No data yet.
    pub(crate) fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// Returns the pointer that the driver has written.
    pub(crate) fn get(&self) -> Passed<c_void> {
        // SAFETY: The pointer was written by the driver, and is only passed back to it.
        unsafe { Passed::from_c(self.0.load(Relaxed)) }
    }
}

impl IntoC<*mut *mut c_void> for &GidContext {
    fn into_c(self) -> *mut *mut c_void {
        self.0.as_ptr()
    }
}

/// Type of the methods that notify a driver of GIDs.
type GidMethod = unsafe extern "C" fn(*const bindings::ib_gid_attr, *mut *mut c_void) -> c_int;

/// Calls a method of the GID's device.
///
/// # Errors
///
/// `EINVAL`: the GID belongs to another device; `EOPNOTSUPP`; errors of the driver.
fn call_gid(
    device: &Device,
    method: impl FnOnce(&bindings::ib_device_ops) -> Option<GidMethod>,
    attr: In<'_, GidAttr>,
    context: &GidContext,
) -> Result {
    if kernel::warn_on!(!attr.belongs_to(device)) {
        return Err(EINVAL);
    }
    let method = method(device.ops()).ok_or_else(eopnotsupp)?;
    // SAFETY: The method is from the table of the GID's device, and the arguments are valid by
    // their types (header of this file). The driver may write the context.
    unsafe { Reply::reply(method(attr.into_c(), context.into_c())) }
}

impl DeviceDriver<'_> {
    /// Notifies the driver of a new GID of the device.
    ///
    /// # Errors
    ///
    /// Those of [`call_gid`].
    pub(crate) fn add_gid(&self, attr: In<'_, GidAttr>, context: &GidContext) -> Result {
        call_gid(self.0, |ops| ops.add_gid, attr, context)
    }

    /// Notifies the driver that a GID is deleted. Errors: as [`add_gid`](Self::add_gid).
    pub(crate) fn del_gid(&self, attr: In<'_, GidAttr>, context: &GidContext) -> Result {
        call_gid(self.0, |ops| ops.del_gid, attr, context)
    }
}

/// Size of a firmware version string in bytes, with its NUL.
pub(crate) const FW_VERSION: usize = bindings::IB_FW_VERSION_NAME_MAX as usize;

/// Buffer for a firmware version string, lent by C.
pub(crate) struct FwString<'a>(pub(crate) &'a mut [c_char; FW_VERSION]);

// SAFETY: `from_c`'s contract: points to a buffer of `FW_VERSION` bytes that only the callee uses
// during the call (`ib_get_device_fw_str`). Callers may leave it uninitialised.
unsafe impl FromC for FwString<'_> {
    type C = *mut c_char;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Self(unsafe { &mut *c.cast() })
    }
}
// SAFETY: Its reference is limited to `'a`.
unsafe impl<'a> Within<'a> for FwString<'a> {}

impl DeviceDriver<'_> {
    /// Writes the firmware version as a string. Writes nothing if the driver has no method for it.
    pub(crate) fn get_dev_fw_str(&self, text: Lent<'_, [c_char; FW_VERSION]>) {
        if let Some(method) = self.0.ops().get_dev_fw_str {
            // SAFETY: Calls of methods: header of this file. The buffer has the size that
            // `ib_verbs.h` guarantees to drivers.
            unsafe { method(self.0.as_raw(), text.0.as_mut_ptr()) };
        }
    }

    /// Returns the link layer of a port (`enum rdma_link_layer`); `None` if the driver has no
    /// method for it.
    pub(crate) fn get_link_layer(&self, port: u32) -> Option<u32> {
        let method = self.0.ops().get_link_layer?;
        // SAFETY: Calls of methods: header of this file.
        Some(unsafe { method(self.0.as_raw(), port) })
    }

    /// Returns the network device of a port. The outer `None` means that the driver has no method
    /// for it.
    pub(crate) fn get_netdev(&self, port: u32) -> Option<Option<ARef<NetDevice>>> {
        let method = self.0.ops().get_netdev?;
        // SAFETY: Calls of methods: header of this file.
        let netdev = NonNull::new(unsafe { method(self.0.as_raw(), port) });
        // SAFETY: The driver returns a reference that the caller owns; the type is transparent.
        Some(netdev.map(|netdev| unsafe { ARef::from_raw(netdev.cast()) }))
    }
}

/// A device with a use count that the C caller passes to the callee.
// SAFETY: `from_c`'s contract: a non-null pointer to a device, with a use count that the caller
// passes on.
unsafe impl FromC for Registered {
    type C = *mut bindings::ib_device;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: By `from_c`'s contract, `c` is not null, and its use count passes to the result.
        unsafe { Self::from_raw(NonNull::new_unchecked(c)) }
    }
}
// SAFETY: The value owns its use count, so it is not limited to a call.
unsafe impl Within<'_> for Registered {}

/// A device with a use count that passes to the C caller, or null.
pub(crate) struct OrNull(pub(crate) Option<Registered>);

impl rdma::edge::Answer for OrNull {
    type C = *mut bindings::ib_device;

    fn answer(self) -> Self::C {
        self.0.map_or(core::ptr::null_mut(), Registered::into_raw)
    }
}

// SAFETY: `Allocation::new` initialises the field as a `Work<Device>`, and the two functions are
// inverses of each other.
unsafe impl HasWork<Device> for Device {
    unsafe fn raw_get_work(ptr: *mut Self) -> *mut Work<Self> {
        let raw = ptr.cast::<bindings::ib_device>();
        // SAFETY: `ptr` is a device (this method's contract).
        unsafe { (&raw mut (*raw).unregistration_work).cast() }
    }

    unsafe fn work_container_of(ptr: *mut Work<Self>) -> *mut Self {
        let work = ptr.cast::<bindings::work_struct>();
        // SAFETY: `ptr` is that field of a device (this method's contract).
        unsafe { kernel::container_of!(work, bindings::ib_device, unregistration_work) }.cast()
    }
}
