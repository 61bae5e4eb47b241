// SPDX-License-Identifier: GPL-2.0

//! Devices at the edge: the fields that only the core uses, their ports, the driver's methods.
//!
//! To be held against `include/rdma/ib_verbs.h`. The methods are those of `struct ib_device_ops`
//! that take a device. A driver writes the table before it registers the device; the device is
//! the driver's own, and the other arguments are valid by their types, so that a method is safe
//! to call from any context that its comment in the header allows.

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
use kernel::sync::Refcount;
use kernel::workqueue::HasWork;
use kernel::workqueue::Work;
use rdma::bindings;
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
use rdma::net::Net;
use rdma::net::NetDevice;
use rdma::sync::Completion;

use super::client::ClientData;
use crate::counter::edge::PortCounter;
use crate::device::Device;
use crate::device::Registered;
use crate::errno::eopnotsupp;
use crate::proto::names;
use crate::stats;

rdma::c_struct! {
    /// The fields of a device that only the core uses; [`rdma::edge::device::Device`] has others.
    pub(crate) struct Fields: bindings::ib_device;
    fields {
        /// Uses of the registered device; 0 while it is not registered. `ib_device_try_get` of
        /// consumers counts, too.
        embed refcount: Refcount;
        /// Completed with the last use.
        embed unreg_completion: Completion;
        /// What clients keep of the device.
        embed client_data: ClientData;
        /// Its part of the driver model, initialised with it.
        embed model in __bindgen_anon_1.coredev: CoreDevice;
        /// Whether kernel consumers are told of it. Written at registration.
        bit kverbs_provider: bool, set_kverbs_provider;
        /// Its number. Written at registration.
        const index: u32, set_index;
        /// The device that it was made under. Written before its driver registers it.
        const parent: Option<&Device>;
        /// The array of ports. Written before registration, once.
        racy port_data: *mut bindings::ib_port_data;
    }
}

impl Device {
    /// The fields that only the core uses.
    #[inline(always)]
    pub(crate) fn fields(&self) -> &Fields {
        // SAFETY: One structure; the type invariant of `Device` says that it is there, and
        // `alloc` initialises what the table embeds.
        unsafe { Fields::view(self.as_raw()) }
    }

    /// Its part of the driver model.
    #[inline(always)]
    pub(crate) fn model(&self) -> &CoreDevice {
        self.fields().model()
    }

    /// A port, if there is one of this number and the ports have been made.
    #[inline]
    pub(crate) fn port(&self, port: u32) -> Option<&PortData> {
        let ports = self.fields().port_data();
        if ports.is_null() || !self.has_port(port) {
            return None;
        }
        // SAFETY: The array has an element for each port of the device, and is freed after it.
        Some(unsafe { PortData::view(ports.add(usize::try_from(port).ok()?)) })
    }

    /// Whether the link layer of a port is InfiniBand's.
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

    /// Writes the copy of the name that consumers read. The list of devices is held for writing,
    /// or the device is not in it yet.
    pub(crate) fn write_name(&self, name: &names::Name) {
        // SAFETY: The field is an array of that size. Readers without the lock expect bytes that
        // change.
        unsafe {
            (&raw mut (*self.as_raw()).name)
                .cast::<[u8; names::NAME_MAX]>()
                .write_volatile(*name.as_c_array());
        }
    }

    /// What a user wrote of the device, or the driver did. It may change meanwhile.
    pub(crate) fn node_desc(&self) -> [u8; 64] {
        // SAFETY: The field is an array of that size; bytes that change are tolerated.
        unsafe {
            (&raw const (*self.as_raw()).node_desc)
                .cast::<[u8; 64]>()
                .read_volatile()
        }
    }
}

/// A device that is being registered, or not registered yet: one thread sets it up, and no
/// consumer can find it.
pub(crate) struct Unregistered<'a>(&'a Device);

rdma::argument! {
    /// A device that was allocated and is not registered, and the caller's alone
    /// (`ib_set_device_ops`, `ib_register_device`).
    impl<'a> Unregistered<'a> = |device: &'a Device| Unregistered(device);
}

// SAFETY: No other thread uses the fields that registration writes (this type's promise).
unsafe impl Writer for Unregistered<'_> {
    type Of = Fields;

    fn place(&mut self) -> *mut bindings::ib_device {
        self.0.as_raw()
    }
}

impl<'a> Unregistered<'a> {
    /// The device.
    pub(crate) fn device(&self) -> &'a Device {
        self.0
    }

    /// Writes its index.
    pub(crate) fn set_index(&mut self, index: u32) {
        Fields::set_index(self, index);
    }

    /// Writes which device does its DMA, and what that implies.
    pub(crate) fn set_dma_device(&mut self, dma: Passed<bindings::device>) {
        let dma: *mut bindings::device = dma.into_c();
        // SAFETY: No other thread uses the fields (this type's promise). The device that does DMA
        // is null or stays as long as this one (`ib_register_device`).
        unsafe {
            kernel::warn_on!(!dma.is_null() && (*dma).dma_parms.is_null());
            (*self.0.as_raw()).dma_device = dma;
            if !dma.is_null() && bindings::rdma_helper_dma_may_bounce() {
                (*self.0.as_raw()).set_cc_dma_bounce(1);
            }
        }
    }

    /// Writes whether kernel consumers are told of the device.
    pub(crate) fn set_kverbs_provider(&mut self, is: bool) {
        Fields::set_kverbs_provider(self, is);
    }

    /// Makes the device visible. It is somebody else's, too, from now on. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `device_add`.
    pub(crate) fn add(self) -> Result<Visible<'a>> {
        // SAFETY: A device that is not registered is not added, and this takes `self`.
        unsafe { self.0.model().add() }
    }

    /// Has the driver write the attributes of the device.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`, and the driver's.
    pub(crate) fn query(&mut self) -> Result {
        let device = self.0;
        let method = device.ops().query_device.ok_or_else(eopnotsupp)?;
        // SAFETY: No other thread uses the attributes (this type's promise), for which zeros are
        // valid. The method is the device's own.
        unsafe {
            let attrs = &raw mut (*device.as_raw()).attrs;
            attrs.write_bytes(0, 1);
            to_result(method(device.as_raw(), attrs, core::ptr::null_mut()))
        }
    }

    /// Has the driver write what a port is.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port or method, and the driver's.
    pub(crate) fn query_immutable(&mut self, port: u32) -> Result<&'a PortImmutable> {
        let device = self.0;
        let method = device.ops().get_port_immutable.ok_or(EINVAL)?;
        let immutable = device.port(port).ok_or(EINVAL)?.immutable();
        // SAFETY: No other thread uses the field (this type's promise). The method is the
        // device's own.
        to_result(unsafe { method(device.as_raw(), port, immutable.raw()) })?;
        Ok(immutable)
    }
}

rdma::c_struct! {
    /// What the core keeps of a port.
    pub(crate) struct PortData: bindings::ib_port_data;
    fields {
        /// The device. Written when the ports are made.
        const device at ib_dev: Option<&Device>;
        /// What the driver has said of the port at registration.
        embed immutable: PortImmutable;
        /// The network device of the port, to be compared only. Changed under `netdev_lock`.
        racy tied at netdev: *mut bindings::net_device;
        /// How its queue pairs get counters.
        embed counter at port_counter: PortCounter;
        /// The last state that clients were told of (`enum ib_port_state`).
        racy last_state at cache.last_port_state: u32, set_last_state;
    }
}

// SAFETY: What the table says of the fields holds in all threads.
unsafe impl Sync for PortData {}

rdma::c_struct! {
    /// What a driver has said of a port at registration.
    pub(crate) struct PortImmutable: bindings::ib_port_immutable;
    fields {
        /// Entries of the P_Key table.
        const pkey_tbl_len: i32;
        /// Entries of the GID table.
        const gid_tbl_len: i32;
        /// `RDMA_CORE_CAP_*`.
        const core_cap_flags: u32;
        /// Bytes of a MAD, 0 without MADs.
        const max_mad_size: u32;
    }
}

impl PortImmutable {
    /// All of it.
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
    /// Replaces [`last_state`](Self::last_state).
    pub(crate) fn swap_last_state(&self, state: u32) -> u32 {
        // SAFETY: `racy` in the table: all access is by whole words.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).cache.last_port_state) }.xchg(state, Full)
    }

    /// Takes the lock of the port's network device. Any context.
    pub(crate) fn lock_netdev(&self) -> PortNetdev<'_> {
        // SAFETY: The lock is initialised with the port.
        let flags =
            unsafe { bindings::rdma_helper_spin_lock_irqsave(&raw mut (*self.raw()).netdev_lock) };
        // INVARIANT: Just locked.
        PortNetdev { port: self, flags }
    }
}

/// The network device of a port, under its lock.
///
/// # Invariants
///
/// `netdev_lock` of `port` is held. The field `netdev` is null or a device of which the port has
/// a reference.
pub(crate) struct PortNetdev<'a> {
    port: &'a PortData,
    flags: c_ulong,
}

impl PortNetdev<'_> {
    /// The network device.
    pub(crate) fn get(&self) -> Option<&NetDevice> {
        let netdev = NonNull::new(self.port.tied())?;
        // SAFETY: The port has a reference, and keeps it while the lock is held (type invariant).
        Some(unsafe { NetDevice::from_raw(netdev.as_ptr()) })
    }

    /// Ties the port to another network device, or to none.
    pub(crate) fn set(&mut self, netdev: Option<&NetDevice>) {
        let port = self.port.raw();
        let old = self.port.tied();
        let new = netdev.map_or(core::ptr::null_mut(), NetDevice::as_raw);
        // SAFETY: The lock is held (type invariant); readers under RCU compare the pointer only.
        // INVARIANT: The reference of the old device is dropped, and one of the new one taken.
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
        // SAFETY: The lock is held (type invariant), since `lock_netdev` with these flags.
        unsafe {
            bindings::rdma_helper_spin_unlock_irqrestore(
                &raw mut (*self.port.raw()).netdev_lock,
                self.flags,
            )
        };
    }
}

rdma::c_struct! {
    /// A device of the driver model: that of a `struct ib_device`, or of its copy in a namespace.
    /// A reference promises that `alloc::init_core_device` has initialised it.
    pub(crate) struct CoreDevice: bindings::ib_core_device;
    fields {
        /// The device that it is, or is a copy of, which outlives its copies. Written by
        /// `init_core_device`.
        const owner: &Device;
        /// The driver model's part.
        embed dev: ModelDevice;
    }
}

rdma::c_struct! {
    /// A device of the driver model, initialised.
    pub(crate) struct ModelDevice: bindings::device;
    fields {
        /// Its directory in sysfs.
        embed directory at kobj: Kobject;
    }
}

rdma::c_struct! {
    /// A directory in sysfs, initialised.
    pub(crate) struct Kobject: bindings::kobject;
    fields {}
}

impl CoreDevice {
    /// Its directory in sysfs.
    pub(crate) fn kobj(&self) -> *mut bindings::kobject {
        self.dev().directory().raw()
    }

    /// Replaces the directory of its ports, which `sysfs` owns.
    pub(crate) fn swap_ports_kobj(
        &self,
        new: *mut bindings::kobject,
    ) -> Option<NonNull<bindings::kobject>> {
        // SAFETY: A word that only this function accesses.
        let place = unsafe { Atomic::from_ptr(&raw mut (*self.raw()).ports_kobj) };
        NonNull::new(place.xchg(new, Full))
    }

    /// Writes the namespace that it is in. The caller holds the registration lock of its device,
    /// which is disabled.
    pub(crate) fn set_net(&self, net: &Net) {
        // SAFETY: The field is a word; see `Device::net` for its readers.
        unsafe {
            bindings::rdma_helper_write_pnet(&raw mut (*self.raw()).rdma_net, net.as_raw());
        }
    }

    /// Names it before it is added. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn set_name(&self, name: &names::Name) -> Result {
        // SAFETY: It is initialised; the name is terminated, and copied.
        to_result(unsafe {
            bindings::dev_set_name(
                self.dev().raw(),
                c"%s".as_char_ptr(),
                name.as_c_array().as_ptr(),
            )
        })
    }

    /// Renames it, or moves its directory if its namespace has changed. Of an added device. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// Those of `device_rename`.
    pub(crate) fn rename(&self, name: &names::Name) -> Result {
        // SAFETY: It is initialised; the name is terminated, and copied.
        to_result(unsafe {
            bindings::device_rename(self.dev().raw(), name.as_c_array().as_ptr().cast())
        })
    }

    /// Announces it to user space, or its end.
    pub(crate) fn uevent(&self, action: bindings::kobject_action) {
        // SAFETY: It is initialised.
        unsafe { bindings::kobject_uevent(self.kobj(), action) };
    }

    /// Has the driver model announce nothing of it.
    pub(crate) fn suppress_uevents(&self, suppress: bool) {
        // SAFETY: It is initialised.
        unsafe { bindings::rdma_helper_dev_set_uevent_suppress(self.dev().raw(), suppress) };
    }

    /// Adds it to the driver model: visible until the result is deleted. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `device_add`: `EINVAL` if it has no name.
    ///
    /// # Safety
    ///
    /// It is not added.
    pub(super) unsafe fn add(&self) -> Result<Visible<'_>> {
        // SAFETY: It is initialised; the rest is this function's contract.
        to_result(unsafe { bindings::device_add(self.dev().raw()) })?;
        // INVARIANT: Just added.
        Ok(Visible(self))
    }
}

/// A device that has been added to the driver model. Dropping this removes it, and waits for
/// readers of its files.
///
/// # Invariants
///
/// It is added, and only this deletes it.
pub(crate) struct Visible<'a>(&'a CoreDevice);

impl<'a> Visible<'a> {
    /// Takes over from [`keep`](Self::keep).
    ///
    /// # Safety
    ///
    /// The device is added, `keep` was called, and this is called once after.
    pub(crate) unsafe fn kept(device: &'a CoreDevice) -> Self {
        // INVARIANT: This function's contract.
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
        // SAFETY: It is added (type invariant).
        unsafe { bindings::device_del(self.0.dev().raw()) };
    }
}

/// A device that its driver has made under another with `add_sub_dev`. Its driver deletes it
/// with [`delete`](Self::delete); a value that is dropped leaves it as it is.
///
/// # Invariants
///
/// `0` is such a device, and only the holder of this may have the driver delete it.
pub(crate) struct SubDevice(NonNull<bindings::ib_device>);

// SAFETY: Devices are used from any thread.
unsafe impl Send for SubDevice {}

rdma::argument! {
    /// A new device, which the driver gives to the caller (`add_sub_dev`).
    impl SubDevice = |device: NonNull<bindings::ib_device>| SubDevice(device);
}

impl SubDevice {
    /// Whether it is this device.
    pub(crate) fn is(&self, device: &Device) -> bool {
        self.0 == NonNull::from(device).cast()
    }

    /// Says what it is, and under which device.
    pub(crate) fn adopt(&mut self, kind: bindings::rdma_nl_dev_type, parent: &Device) {
        // SAFETY: It is there (type invariant). Whoever wants to delete it looks for it in the
        // list of its parent first, and its driver looks at the parent when it deletes it.
        unsafe {
            (*self.0.as_ptr()).type_ = kind;
            (*self.0.as_ptr()).parent = parent.as_raw();
        }
    }

    /// Has the driver of its parent delete it. May sleep.
    pub(crate) fn delete(self, parent: &Device) {
        if let Some(method) = parent.ops().del_sub_dev {
            // SAFETY: That driver made it, and only we have it deleted (type invariant).
            unsafe { method(self.0.as_ptr()) };
        }
    }
}

/// The methods of a device's driver that take the device.
pub(crate) struct DeviceDriver<'a>(&'a Device);

impl Device {
    /// The methods of its driver.
    #[inline(always)]
    pub(crate) fn driver(&self) -> DeviceDriver<'_> {
        DeviceDriver(self)
    }
}

/// Methods; `EOPNOTSUPP` where the driver has none.
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
                // SAFETY: See the module's page: the method is of the device's driver, and the
                // arguments are what their types say.
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

/// What a driver keeps of a GID (`add_gid`). The driver alone writes it, while it adds or deletes
/// the GID.
pub(crate) struct GidContext(Atomic<*mut c_void>);

impl GidContext {
    /// Nothing.
    pub(crate) fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// What the driver has written.
    pub(crate) fn get(&self) -> Passed<c_void> {
        // SAFETY: The pointer is the driver's, and goes back to it only.
        unsafe { Passed::from_c(self.0.load(Relaxed)) }
    }
}

impl IntoC<*mut *mut c_void> for &GidContext {
    fn into_c(self) -> *mut *mut c_void {
        self.0.as_ptr()
    }
}

/// A method of drivers that keep GIDs themselves.
type GidMethod = unsafe extern "C" fn(*const bindings::ib_gid_attr, *mut *mut c_void) -> c_int;

/// # Safety
///
/// The method is of the table of the GID's device.
unsafe fn call_gid(
    method: Option<GidMethod>,
    attr: In<'_, GidAttr>,
    context: &GidContext,
) -> Result {
    let method = method.ok_or_else(eopnotsupp)?;
    // SAFETY: A method of the device (contract), of which the module's page says how it is called.
    // The context is the driver's to write.
    unsafe { Reply::reply(method(attr.into_c(), context.into_c())) }
}

impl DeviceDriver<'_> {
    /// Tells the driver of a GID of the device.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`, and the driver's.
    pub(crate) fn add_gid(&self, attr: In<'_, GidAttr>, context: &GidContext) -> Result {
        // SAFETY: Its own table.
        unsafe { call_gid(self.0.ops().add_gid, attr, context) }
    }

    /// Tells the driver of the end of a GID. Errors: as [`add_gid`](Self::add_gid).
    pub(crate) fn del_gid(&self, attr: In<'_, GidAttr>, context: &GidContext) -> Result {
        // SAFETY: Its own table.
        unsafe { call_gid(self.0.ops().del_gid, attr, context) }
    }
}

/// Bytes of a firmware version, with its end marker.
pub(crate) const FW_VERSION: usize = bindings::IB_FW_VERSION_NAME_MAX as usize;

/// Room for a firmware version that C lends.
pub(crate) struct FwString<'a>(pub(crate) &'a mut [c_char; FW_VERSION]);

// SAFETY: `from_c`'s contract: room for so many bytes (`ib_get_device_fw_str`), the callee's during
// the call. Callers may not have initialised it.
unsafe impl FromC for FwString<'_> {
    type C = *mut c_char;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract.
        Self(unsafe { &mut *c.cast() })
    }
}
// SAFETY: It is limited to `'a`.
unsafe impl<'a> Within<'a> for FwString<'a> {}

impl DeviceDriver<'_> {
    /// Writes the version of the firmware as a string; nothing if the driver has no method.
    pub(crate) fn get_dev_fw_str(&self, text: Lent<'_, [c_char; FW_VERSION]>) {
        if let Some(method) = self.0.ops().get_dev_fw_str {
            // SAFETY: See the module's page; the header promises a driver so many bytes.
            unsafe { method(self.0.as_raw(), text.0.as_mut_ptr()) };
        }
    }

    /// The link layer of a port (`enum rdma_link_layer`), of a driver with a method for it.
    pub(crate) fn get_link_layer(&self, port: u32) -> Option<u32> {
        let method = self.0.ops().get_link_layer?;
        // SAFETY: See the module's page.
        Some(unsafe { method(self.0.as_raw(), port) })
    }

    /// The network device of a port, of a driver with a method for it: the outer `None` if it has
    /// none.
    pub(crate) fn get_netdev(&self, port: u32) -> Option<Option<ARef<NetDevice>>> {
        let method = self.0.ops().get_netdev?;
        // SAFETY: See the module's page.
        let netdev = NonNull::new(unsafe { method(self.0.as_raw(), port) });
        // SAFETY: The driver gives a reference; the type is transparent.
        Some(netdev.map(|netdev| unsafe { ARef::from_raw(netdev.cast()) }))
    }
}

/// Use counts of devices: an argument that gives one away, and an answer.
// SAFETY: `from_c`'s contract: the caller has a count of the device to give away.
unsafe impl FromC for Registered {
    type C = *mut bindings::ib_device;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: A device, not null, of which a count is ours.
        unsafe { Self::from_raw(NonNull::new_unchecked(c)) }
    }
}
// SAFETY: It owns its count, so it is not limited by a call.
unsafe impl Within<'_> for Registered {}

/// A device with a use count for the C caller, or null.
pub(crate) struct OrNull(pub(crate) Option<Registered>);

impl rdma::edge::Answer for OrNull {
    type C = *mut bindings::ib_device;

    fn answer(self) -> Self::C {
        self.0.map_or(core::ptr::null_mut(), Registered::into_raw)
    }
}

// SAFETY: The field is of this type: `NewDevice` makes a `Work<Device>` of it, and
// both functions are inverses.
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
