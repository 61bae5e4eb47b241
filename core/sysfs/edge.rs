// SPDX-License-Identifier: GPL-2.0

//! The C interface of sysfs: files of devices (`struct device_attribute`) and of their ports
//! (`struct ib_port_attribute`), and pointers that C holds to them.
//!
//! sysfs calls `show` and `store` with the object that the file belongs to and the attribute that
//! describes the file. It waits for running calls before it removes the file. C headers:
//! `include/rdma/ib_sysfs.h`, `include/linux/device.h`.

use super::hw_counters;
use super::port::Port;
use super::Ports;
use crate::device::Device;
use crate::edge::device::CoreDevice;
use crate::edge::device::Unregistered;
use crate::edge::device::Visible;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Release;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::Lent;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::sysfs::constant;
use rdma::sysfs::dynamic;
use rdma::sysfs::Added;
use rdma::sysfs::Attribute;
use rdma::sysfs::Count;
use rdma::sysfs::Directory;
use rdma::sysfs::Extends;
use rdma::sysfs::Fresh;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Input;
use rdma::sysfs::Kind;
use rdma::sysfs::Page;
use rdma::sysfs::Written;

/// A file of a device.
#[repr(C)]
pub(super) struct File {
    raw: bindings::device_attribute,
    show: fn(&Device, &mut Page<'_>) -> Result,
    store: fn(&Device, Input<'_>) -> Result,
}

// SAFETY: It points to constants only.
unsafe impl Send for File {}
// SAFETY: It points to constants only.
unsafe impl Sync for File {}

// SAFETY: A `struct device_attribute` begins with an attribute.
unsafe impl Attribute for File {}

impl File {
    pub(super) const fn new(
        name: &'static CStr,
        show: fn(&Device, &mut Page<'_>) -> Result,
        store: fn(&Device, Input<'_>) -> Result,
    ) -> Self {
        // SAFETY: All zeros are valid for this C structure of integers and pointers.
        let mut raw: bindings::device_attribute = unsafe { core::mem::zeroed() };
        raw.attr = constant(name, 0o644);
        raw.__bindgen_anon_1.show = Some(show_file);
        raw.__bindgen_anon_2.store = Some(store_file);
        Self { raw, show, store }
    }

    pub(super) const fn read_only(
        name: &'static CStr,
        show: fn(&Device, &mut Page<'_>) -> Result,
    ) -> Self {
        let mut file = Self::new(name, show, |_, _| Err(EIO));
        file.raw.attr.mode = 0o444;
        file.raw.__bindgen_anon_2.store = None;
        file
    }
}

// SAFETY: It is `repr(C)` and begins with the structure, which is constant.
unsafe impl View for File {
    type C = bindings::device_attribute;
}

/// The device of a `struct device` of the class, which may belong to a copy.
struct Owner<'a>(&'a Device);

// SAFETY: `from_c` is for a `struct device` at the start of a `struct ib_core_device`. The device
// outlives its copies.
unsafe impl FromC for Owner<'_> {
    type C = *mut bindings::device;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: Contract of `from_c`.
        Self(unsafe { CoreDevice::view(c.cast()) }.owner())
    }
}
// SAFETY: The borrow is limited to `'a`.
unsafe impl<'a> Within<'a> for Owner<'a> {}

fn file_shown(dev: Owner<'_>, file: &File, page: Page<'_>) -> isize {
    page.show(|page| (file.show)(dev.0, page))
}

fn file_stored<'a>(dev: Owner<'_>, file: &File, data: Written<'a>, count: Count<'a>) -> isize {
    data.store(count, |input| (file.store)(dev.0, input))
}

rdma::callback! {
    /// Show method of a [`File`].
    fn show_file(dev: Owner<'_>, file: &File, page: Page<'_>) -> isize = file_shown;
    /// Store method of a [`File`].
    fn store_file(dev: Owner<'_>, file: &File, data: Written<'_>, count: Count<'_>) -> isize
        = file_stored;
}

/// The C part of a port's file (`struct ib_port_attribute`), ours or a driver's.
#[repr(transparent)]
pub(crate) struct PortFile(bindings::ib_port_attribute);

// SAFETY: A file is constant, or does not change after its creation.
unsafe impl Send for PortFile {}
// SAFETY: See `Send`.
unsafe impl Sync for PortFile {}

// SAFETY: A `struct ib_port_attribute` begins with an attribute.
unsafe impl Attribute for PortFile {}

impl PortFile {
    /// For a read-only file in static memory. `show` is called with the attribute at its start.
    const fn constant(name: &'static CStr, show: Show) -> Self {
        Self(bindings::ib_port_attribute {
            attr: constant(name, 0o444),
            show: Some(show),
            store: None,
        })
    }

    /// For a file created at run time; its name must be set after it has settled.
    fn dynamic(mode: u16, show: Show, store: Option<Store>) -> Self {
        Self(bindings::ib_port_attribute {
            attr: dynamic(mode),
            show: Some(show),
            store,
        })
    }
}

/// Show method of a port's file.
type Show = unsafe extern "C" fn(
    *mut bindings::ib_device,
    u32,
    *mut bindings::ib_port_attribute,
    *mut c_char,
) -> isize;

/// Store method of a port's file.
type Store = unsafe extern "C" fn(
    *mut bindings::ib_device,
    u32,
    *mut bindings::ib_port_attribute,
    *const c_char,
    usize,
) -> isize;

/// Content of a file of a port, or of a device (port 0).
pub(crate) trait ShowPort: Send + Sync + 'static {
    /// Writes the content of the file. The device exists while the file is read.
    fn show(&self, device: &Device, port: u32, page: &mut Page<'_>) -> Result;

    /// Name of a file created at run time; must be part of `self` or static.
    fn name(&self) -> Option<&CStr> {
        None
    }

    /// Returns whether a file created at run time is writable.
    fn is_writable(&self) -> bool {
        false
    }

    /// Handles a write to a writable file.
    fn store(&self, _input: Input<'_>) -> Result {
        Err(EIO)
    }

    /// Mode of a file created at run time.
    fn mode(&self) -> u16 {
        if self.is_writable() {
            0o644
        } else {
            0o444
        }
    }
}

/// A file of a port.
#[repr(C)]
pub(crate) struct Shown<T> {
    raw: PortFile,
    of: T,
}

// SAFETY: It begins with a `PortFile`.
unsafe impl<T: ShowPort> Attribute for Shown<T> {
    fn settle(&mut self) {
        if let Some(name) = self.of.name() {
            // The name lives as long as the file: it is part of the file, which has settled, or
            // static.
            self.raw.0.attr.name = name.as_char_ptr();
        }
    }
}
// SAFETY: It begins with a `PortFile`.
unsafe impl<T: ShowPort> Extends<PortFile> for Shown<T> {}

// SAFETY: It is `repr(C)` and begins with the structure, which is not changed after it has settled.
unsafe impl<T: ShowPort> View for Shown<T> {
    type C = bindings::ib_port_attribute;
}

impl<T: ShowPort> Shown<T> {
    /// A read-only file in static memory.
    pub(super) const fn constant(name: &'static CStr, of: T) -> Self {
        Self {
            raw: PortFile::constant(name, show_port::<T>),
            of,
        }
    }

    /// A file created at run time.
    pub(crate) fn dynamic(of: T) -> Self {
        let store = of.is_writable().then_some(store_port::<T> as Store);
        Self {
            raw: PortFile::dynamic(of.mode(), show_port::<T>, store),
            of,
        }
    }
}

/// A file of a device, created at run time.
#[repr(C)]
pub(crate) struct OfDevice<T> {
    raw: DeviceFile,
    of: T,
}

/// The C part of an [`OfDevice`].
#[repr(transparent)]
struct DeviceFile(bindings::device_attribute);

// SAFETY: It does not change after it has settled.
unsafe impl Send for DeviceFile {}
// SAFETY: See `Send`.
unsafe impl Sync for DeviceFile {}

// SAFETY: It begins with an attribute.
unsafe impl<T: ShowPort> Attribute for OfDevice<T> {
    fn settle(&mut self) {
        if let Some(name) = self.of.name() {
            // The name lives as long as the file: it is part of the file, which has settled, or
            // static.
            self.raw.0.attr.name = name.as_char_ptr();
        }
    }
}

// SAFETY: It is `repr(C)` and begins with the structure, which is not changed after it has settled.
unsafe impl<T: ShowPort> View for OfDevice<T> {
    type C = bindings::device_attribute;
}

impl<T: ShowPort> OfDevice<T> {
    /// Creates a file.
    pub(crate) fn dynamic(of: T) -> Self {
        let mut raw = bindings::device_attribute {
            attr: dynamic(of.mode()),
            ..Default::default()
        };
        raw.__bindgen_anon_1.show = Some(show_device::<T>);
        raw.__bindgen_anon_2.store = of.is_writable().then_some(store_device::<T>);
        Self {
            raw: DeviceFile(raw),
            of,
        }
    }
}

fn port_shown<T: ShowPort>(device: &Device, port: u32, file: &Shown<T>, page: Page<'_>) -> isize {
    page.show(|page| file.of.show(device, port, page))
}

fn port_stored<'a, T: ShowPort>(
    _device: &Device,
    _port: u32,
    file: &Shown<T>,
    data: Written<'a>,
    count: Count<'a>,
) -> isize {
    data.store(count, |input| file.of.store(input))
}

fn device_shown<T: ShowPort>(dev: Owner<'_>, file: &OfDevice<T>, page: Page<'_>) -> isize {
    page.show(|page| file.of.show(dev.0, 0, page))
}

fn device_stored<'a, T: ShowPort>(
    _dev: Owner<'_>,
    file: &OfDevice<T>,
    data: Written<'a>,
    count: Count<'a>,
) -> isize {
    data.store(count, |input| file.of.store(input))
}

rdma::callback! {
    /// Show method of a [`Shown`] file; the device exists while its file is read.
    fn show_port<T: ShowPort>(device: &Device, port: u32, file: &Shown<T>, page: Page<'_>) -> isize
        = port_shown;
    /// Store method of a [`Shown`] file; the device exists while its file is written.
    fn store_port<T: ShowPort>(
        device: &Device, port: u32, file: &Shown<T>, data: Written<'_>, count: Count<'_>,
    ) -> isize = port_stored;
    /// Show method of an [`OfDevice`] file.
    fn show_device<T: ShowPort>(dev: Owner<'_>, file: &OfDevice<T>, page: Page<'_>) -> isize
        = device_shown;
    /// Store method of an [`OfDevice`] file.
    fn store_device<T: ShowPort>(
        dev: Owner<'_>, file: &OfDevice<T>, data: Written<'_>, count: Count<'_>,
    ) -> isize = device_stored;
}

/// A directory of a port: `ports/N` or a subdirectory.
pub(crate) trait OfPort: Send + Sync + 'static {
    /// The device.
    fn device(&self) -> &Device;

    /// Port number.
    fn number(&self) -> u32;

    /// See [`Kind::groups`].
    fn groups<'a>(&'a self, add: &mut dyn FnMut(GroupRef<'a, PortFile>) -> Result) -> Result;
}

/// A directory of a port, or a subdirectory.
pub(crate) struct PortFiles<T>(pub(super) T);

impl<T> Deref for PortFiles<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The directory of a port.
pub(crate) type PortDirectory = Directory<PortFiles<Port>>;

impl<T: OfPort> Kind for PortFiles<T> {
    type Attribute = PortFile;

    fn groups<'a>(&'a self, add: &mut dyn FnMut(GroupRef<'a, PortFile>) -> Result) -> Result {
        self.0.groups(add)
    }

    unsafe fn show(&self, file: NonNull<PortFile>, page: *mut c_char) -> isize {
        let file = file.cast::<bindings::ib_port_attribute>().as_ptr();
        // SAFETY: The file belongs to a port and is passed to its own method (contract of this
        // function); the device exists while the file is read.
        unsafe {
            match (*file).show {
                Some(show) => show(self.device().as_raw(), self.number(), file, page),
                // CAST: The errno is a small negative number.
                None => EIO.to_errno() as isize,
            }
        }
    }

    unsafe fn store(&self, file: NonNull<PortFile>, data: *const c_char, count: usize) -> isize {
        let file = file.cast::<bindings::ib_port_attribute>().as_ptr();
        // SAFETY: As in `show`.
        unsafe {
            match (*file).store {
                Some(store) => store(self.device().as_raw(), self.number(), file, data, count),
                // CAST: The errno is a small negative number.
                None => EIO.to_errno() as isize,
            }
        }
    }
}

/// Calls `add` for each of the driver's groups of port files.
pub(super) fn driver_groups<'a>(
    device: &'a Device,
    add: &mut dyn FnMut(GroupRef<'a, PortFile>) -> Result,
) -> Result {
    let groups = device.ops().port_groups.cast_const();
    // SAFETY: The driver's list is constant and contains files of ports
    // (`ib_device_ops::port_groups`).
    unsafe { GroupRef::for_each(groups, add) }
}

/// The device's pointer to the directory of a port: `ib_port_data::sysfs`.
fn directory_of(device: &Device, port: u32) -> Option<&Atomic<*mut bindings::ib_port>> {
    let data = device.port(port)?;
    // SAFETY: An aligned word of the port's data, which exists as long as the device. Only this
    // function gives access to it, and C does not use it: all accesses are atomic.
    Some(unsafe { Atomic::from_ptr(&raw mut (*data.raw()).sysfs) })
}

/// Registration of a port's directory in the device, so that [`find`] finds it.
///
/// # Invariants
///
/// The directory of the port exists, and there is no other registration for the port.
pub(super) struct Findable {
    directory: ARef<PortDirectory>,
}

impl Findable {
    /// Registers the directory of one of the device's ports.
    pub(super) fn new(directory: &Fresh<PortFiles<Port>>) -> Self {
        let directory = directory.hold();
        if let Some(place) = directory_of(directory.device(), directory.number()) {
            place.store(directory.as_raw().cast(), Release);
        }
        Self { directory }
    }
}

impl Drop for Findable {
    fn drop(&mut self) {
        if let Some(place) = directory_of(self.directory.device(), self.directory.number()) {
            place.store(ptr::null_mut(), Release);
        }
    }
}

/// Returns the directory of a port, if the port and its directory exist.
///
/// Context: any, while the device is registered or is being registered by the caller.
pub(crate) fn find(device: &Device, port: u32) -> Option<&PortDirectory> {
    let directory = directory_of(device, port)?.load(Acquire);
    // SAFETY: Null, or a directory that exists while the device is registered: `Findable` holds it.
    unsafe { FromC::from_c(directory.cast::<bindings::kobject>()) }
}

/// Files that a client adds to a port's directory. Only C creates them.
pub(super) struct ClientGroups(*const *const bindings::attribute_group);

rdma::argument! {
    /// A null-terminated list of groups of `struct ib_port_attribute`, valid until the files are
    /// removed.
    impl ClientGroups = |groups: Passed<*const bindings::attribute_group>| {
        ClientGroups(groups.as_ptr())
    };
}

impl ClientGroups {
    /// Adds the files to the directory of a port. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `sysfs_create_groups`.
    pub(super) fn add(&self, port: &PortDirectory) -> Result {
        // SAFETY: The directory exists and handles such files; the list stays valid (contract of
        // `from_c`).
        to_result(unsafe { bindings::sysfs_create_groups(port.as_raw(), self.0) })
    }

    /// Reverses [`add`](Self::add). Waits for readers.
    pub(super) fn remove(&self, port: &PortDirectory) {
        // SAFETY: As in `add`. sysfs warns about files that do not exist.
        unsafe { bindings::sysfs_remove_groups(port.as_raw(), self.0) };
    }
}

/// Adds the directory `ports` of a device or of its copy.
///
/// # Errors
///
/// Those of [`Added::new`].
pub(super) fn add_ports(of: &Visible<'_>, directory: Fresh<Ports>) -> Result<Added<Ports>> {
    // SAFETY: The device has been added (`Visible`).
    unsafe { Added::new(directory, of.model().kobj(), c"ports") }
}

/// Transfers the directory `ports` to the device, for [`take_ports`].
pub(super) fn keep_ports(model: &CoreDevice, ports: Added<Ports>) {
    model.swap_ports_kobj(ports.into_raw());
}

/// Takes the directory `ports` back from the device, if it has one.
pub(super) fn take_ports(model: &CoreDevice) -> Option<Added<Ports>> {
    let kobj = model.swap_ports_kobj(ptr::null_mut())?;
    // SAFETY: Only `keep_ports` writes the field, and the exchange takes it from there once.
    Some(unsafe { Added::from_raw(kobj) })
}

/// Sets the attribute groups of a device, counters among them, before `device_add`. May sleep.
///
/// # Errors
///
/// Those of the driver's counters; `ENOMEM`.
pub(crate) fn set_up_device(alone: &mut Unregistered<'_>) -> Result {
    let device = alone.device();
    let common = super::device::GROUP.as_raw();
    let own = device.ops().device_group;
    let counters = hw_counters::set_up_device(alone);
    // The driver's group may be missing; the list ends at the first null. Groups of a failed
    // registration are overwritten.
    let (index, groups) = match counters {
        Ok(Some(counters)) if own.is_null() => (1, [common, counters, ptr::null(), ptr::null()]),
        Ok(Some(counters)) => (2, [common, own, counters, ptr::null()]),
        Ok(None) | Err(_) => (0, [common, own, ptr::null(), ptr::null()]),
    };
    // SAFETY: Only one thread registers the device (`Unregistered`), so nobody else accesses the
    // groups.
    unsafe {
        (*device.as_raw()).groups = groups;
        (*device.as_raw()).hw_stats_attr_index = index;
    }
    counters.map(drop)
}

/// A driver's reply to a performance management MAD.
pub(super) struct Asked(KBox<bindings::ib_mad>);

impl Asked {
    /// Data of the MAD.
    pub(super) fn data(&self) -> &[u8] {
        &self.0.data
    }
}

/// Passes a MAD to the driver's `process_mad`, without sending it. May sleep.
///
/// # Errors
///
/// `ENOSYS` without `process_mad`, `EINVAL` if the driver does not reply, `ENOMEM`.
pub(super) fn ask_driver(
    device: &Device,
    port: u32,
    fill: impl FnOnce(Lent<'_, bindings::ib_mad>),
) -> Result<Asked> {
    let process = device.ops().process_mad.ok_or_else(rdma::errno::enosys)?;
    let mut question = KBox::new(bindings::ib_mad::default(), GFP_KERNEL)?;
    let mut answer = KBox::new(bindings::ib_mad::default(), GFP_KERNEL)?;
    fill(Lent(&mut question));
    let mut size = size_of::<bindings::ib_mad>();
    let mut pkey_index = 0;
    // CAST: The constants are small.
    let flags = bindings::ib_process_mad_flags_IB_MAD_IGNORE_MKEY as i32;
    let done = (bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS
        | bindings::ib_mad_result_IB_MAD_RESULT_REPLY) as i32;
    // SAFETY: The method is the device's own; the buffers have the size passed to it. A null
    // completion and a null GRH mean that the MAD was not received from the network.
    let result = unsafe {
        process(
            device.as_raw(),
            flags,
            port,
            ptr::null(),
            ptr::null(),
            &*question,
            &mut *answer,
            &mut size,
            &mut pkey_index,
        )
    };
    if result & done != done {
        return Err(EINVAL);
    }
    Ok(Asked(answer))
}
