// SPDX-License-Identifier: GPL-2.0

//! sysfs at the edge: files of devices (`struct device_attribute`) and of their ports
//! (`struct ib_port_attribute`), and what C refers to.
//!
//! sysfs calls `show` and `store` with the object that the file is of and the attribute that
//! describes it, and waits for them before the file is gone. To be held against
//! `include/rdma/ib_sysfs.h`, `include/linux/device.h`.

use super::port::Port;
use super::Ports;
use crate::device::Device;
use crate::edge::device::CoreDevice;
use crate::edge::device::Unregistered;
use crate::edge::device::Visible;
use crate::stats;
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
use rdma::edge::View;
use rdma::edge::Within;
use rdma::sysfs::constant;
use rdma::sysfs::dynamic;
use rdma::sysfs::Added;
use rdma::sysfs::Attribute;
use rdma::sysfs::Directory;
use rdma::sysfs::Extends;
use rdma::sysfs::Fresh;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Input;
use rdma::sysfs::Kind;
use rdma::sysfs::Page;

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
        // SAFETY: Of a C structure of integers and pointers.
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

/// # Safety
///
/// For C only, as a method of a [`File`].
unsafe extern "C" fn show_file(
    dev: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: The attribute is that of a `File`; the page is sysfs's.
    unsafe {
        let file = &*attribute.cast::<File>();
        Page::fill(page, |page| (file.show)(owner(dev), page))
    }
}

/// # Safety
///
/// For C only, as a method of a [`File`].
unsafe extern "C" fn store_file(
    dev: *mut bindings::device,
    attribute: *mut bindings::device_attribute,
    data: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: The attribute is that of a `File`; data and length are sysfs's.
    unsafe {
        let file = &*attribute.cast::<File>();
        Input::take(data, count, |input| (file.store)(owner(dev), input))
    }
}

/// The device of a `struct device` of our class, that of a copy among them.
///
/// # Safety
///
/// `dev` begins a `struct ib_core_device` that lives for `'a`.
pub(crate) unsafe fn owner<'a>(dev: *mut bindings::device) -> &'a Device {
    // SAFETY: This function's contract. The device outlives its copies, so the owner of a copy
    // that lives for `'a` does.
    unsafe { Device::from_raw((*dev.cast::<bindings::ib_core_device>()).owner) }
}

/// What files of ports begin with (`struct ib_port_attribute`), our own and those of drivers.
#[repr(transparent)]
pub(crate) struct PortFile(bindings::ib_port_attribute);

// SAFETY: A file is constant, or not changed after it is made.
unsafe impl Send for PortFile {}
// SAFETY: As for `Send`.
unsafe impl Sync for PortFile {}

// SAFETY: A `struct ib_port_attribute` begins with an attribute.
unsafe impl Attribute for PortFile {}

impl PortFile {
    /// Of a file that is read only. `show` is called with the attribute that this begins.
    const fn constant(name: &'static CStr, show: Show) -> Self {
        Self(bindings::ib_port_attribute {
            attr: constant(name, 0o444),
            show: Some(show),
            store: None,
        })
    }

    /// The same, made at run time; its name is to be set when it is settled.
    pub(crate) fn dynamic(mode: u16, show: Show, store: Option<Store>) -> Self {
        Self(bindings::ib_port_attribute {
            attr: dynamic(mode),
            show: Some(show),
            store,
        })
    }

    /// Sets the name.
    ///
    /// # Safety
    ///
    /// `name` ends with a NUL and stays as long as the file.
    pub(crate) unsafe fn set_name(&mut self, name: *const c_char) {
        self.0.attr.name = name;
    }
}

/// A method of a port's file.
pub(crate) type Show = unsafe extern "C" fn(
    *mut bindings::ib_device,
    u32,
    *mut bindings::ib_port_attribute,
    *mut c_char,
) -> isize;

/// A method of a port's file.
pub(crate) type Store = unsafe extern "C" fn(
    *mut bindings::ib_device,
    u32,
    *mut bindings::ib_port_attribute,
    *const c_char,
    usize,
) -> isize;

/// What shows a file of a port.
pub(super) trait ShowPort: Send + Sync + 'static {
    /// Writes what the file says. The device stays while the file is read.
    fn show(&self, device: &Device, port: u32, page: &mut Page<'_>) -> Result;

    /// The name of a file that is made at run time.
    fn name(&self) -> Option<&CStr> {
        None
    }
}

/// A file of a port that is read only.
#[repr(C)]
pub(super) struct Shown<T> {
    raw: PortFile,
    of: T,
}

// SAFETY: It begins with a `PortFile`.
unsafe impl<T: ShowPort> Attribute for Shown<T> {
    fn settle(&mut self) {
        if let Some(name) = self.of.name() {
            let name = name.as_char_ptr();
            // SAFETY: The name is a part of the file, which has settled.
            unsafe { self.raw.set_name(name) };
        }
    }
}
// SAFETY: It begins with a `PortFile`.
unsafe impl<T: ShowPort> Extends<PortFile> for Shown<T> {}

impl<T: ShowPort> Shown<T> {
    /// Of a file that stays in static memory.
    pub(super) const fn constant(name: &'static CStr, of: T) -> Self {
        Self {
            raw: PortFile::constant(name, show_port::<T>),
            of,
        }
    }

    /// The same, made at run time.
    pub(super) fn dynamic(of: T) -> Self {
        Self {
            raw: PortFile::dynamic(0o444, show_port::<T>, None),
            of,
        }
    }
}

/// # Safety
///
/// For C only, as a method of a [`Shown`] file.
unsafe extern "C" fn show_port<T: ShowPort>(
    device: *mut bindings::ib_device,
    port: u32,
    file: *mut bindings::ib_port_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: The device is there while its file is read; the file is `Shown`; the page sysfs's.
    unsafe {
        let file = &*file.cast::<Shown<T>>();
        Page::fill(page, |page| {
            file.of.show(Device::from_raw(device), port, page)
        })
    }
}

/// What is below a port's directory: the directory itself, or one within it.
pub(crate) trait OfPort: Send + Sync + 'static {
    /// The device.
    fn device(&self) -> &Device;

    /// The number of the port.
    fn number(&self) -> u32;

    /// As [`Kind::groups`].
    fn groups<'a>(&'a self, add: &mut dyn FnMut(GroupRef<'a, PortFile>) -> Result) -> Result;
}

/// A directory of a port, or one below it.
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
        // SAFETY: A file of a port, with its own methods (this function's contract); the device is
        // there while it is read.
        unsafe {
            match (*file).show {
                Some(show) => show(self.device().as_raw(), self.number(), file, page),
                // CAST: a small negative number.
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
                // CAST: a small negative number.
                None => EIO.to_errno() as isize,
            }
        }
    }
}

/// Calls `add` for each group of files that the driver has for ports.
pub(super) fn driver_groups<'a>(
    device: &'a Device,
    add: &mut dyn FnMut(GroupRef<'a, PortFile>) -> Result,
) -> Result {
    let groups = device.ops().port_groups.cast_const();
    // SAFETY: The driver's list is constant, of files of ports (`ib_device_ops::port_groups`).
    unsafe { GroupRef::for_each(groups, add) }
}

/// Where a device has a port's directory: `ib_port_data::sysfs`.
fn directory_of(device: &Device, port: u32) -> Option<&Atomic<*mut bindings::ib_port>> {
    let data = device.port(port)?;
    // SAFETY: A word of the port's data, which nothing but this accesses.
    Some(unsafe { Atomic::from_ptr(&raw mut (*data.raw()).sysfs) })
}

/// That a device has a port's directory, which [`find`] finds.
///
/// # Invariants
///
/// The directory of the port is there, and nobody else says where it is.
pub(super) struct Findable {
    directory: ARef<PortDirectory>,
}

impl Findable {
    /// Has the device know the directory of one of its ports.
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

/// The directory of a port, if the device has that port and its directory is made.
///
/// Context: any, while the device is registered, or is being registered by the caller.
pub(crate) fn find(device: &Device, port: u32) -> Option<&PortDirectory> {
    let directory = directory_of(device, port)?.load(Acquire);
    // SAFETY: Null, or a directory that is there while the device is registered: `Findable` has it.
    unsafe { FromC::from_c(directory.cast::<bindings::kobject>()) }
}

/// Files of a client's for the directory of a port. Only C makes one.
pub(super) struct ClientGroups(*const *const bindings::attribute_group);

// SAFETY: `from_c`'s contract: a list, ended by null, of groups of `struct ib_port_attribute`, that
// stays until the files are removed.
unsafe impl FromC for ClientGroups {
    type C = *mut *const bindings::attribute_group;

    unsafe fn from_c(c: Self::C) -> Self {
        Self(c.cast_const())
    }
}
// SAFETY: There is no reference in it.
unsafe impl Within<'_> for ClientGroups {}

impl ClientGroups {
    /// Adds the files to the directory of a port. May sleep.
    ///
    /// # Errors
    ///
    /// Those of `sysfs_create_groups`.
    pub(super) fn add(&self, port: &PortDirectory) -> Result {
        // SAFETY: The directory is there, and shows such files; they stay (`from_c`'s contract).
        to_result(unsafe { bindings::sysfs_create_groups(port.as_raw(), self.0) })
    }

    /// The reverse of [`add`](Self::add). Waits for readers.
    pub(super) fn remove(&self, port: &PortDirectory) {
        // SAFETY: As in `add`. sysfs warns of files that are not there.
        unsafe { bindings::sysfs_remove_groups(port.as_raw(), self.0) };
    }
}

/// Makes the directory `ports` of a device or of its copy visible.
///
/// # Errors
///
/// Those of [`Added::new`].
pub(super) fn add_ports(of: &Visible<'_>, directory: Fresh<Ports>) -> Result<Added<Ports>> {
    // SAFETY: The device is added (`Visible`).
    unsafe { Added::new(directory, of.model().kobj(), c"ports") }
}

/// Leaves the directory `ports` to the device, for [`take_ports`].
pub(super) fn keep_ports(model: &CoreDevice, ports: Added<Ports>) {
    model.swap_ports_kobj(ports.into_raw());
}

/// The directory `ports` that was kept, if it was.
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
pub(crate) fn set_up_device(device: &Device, _alone: &mut Unregistered<'_>) -> Result {
    let common = super::device::GROUP.as_raw();
    let own = device.ops().device_group;
    let counters = stats::set_up_device(device);
    // The driver's group may be missing; the list ends at the first null. What a registration that
    // failed left is not there any more.
    let (index, groups) = match counters {
        Ok(Some(counters)) if own.is_null() => (1, [common, counters, ptr::null(), ptr::null()]),
        Ok(Some(counters)) => (2, [common, own, counters, ptr::null()]),
        Ok(None) | Err(_) => (0, [common, own, ptr::null(), ptr::null()]),
    };
    // SAFETY: One thread registers the device (`Unregistered`), so nobody else looks at the groups.
    unsafe {
        (*device.as_raw()).groups = groups;
        (*device.as_raw()).hw_stats_attr_index = index;
    }
    counters.map(drop)
}

/// The answer of a driver to a MAD that asks for an attribute of performance management.
pub(super) struct Asked(KBox<bindings::ib_mad>);

impl Asked {
    /// The data.
    pub(super) fn data(&self) -> &[u8] {
        &self.0.data
    }
}

/// Has the driver answer a MAD that is never sent. May sleep.
///
/// # Errors
///
/// `ENOSYS` without an agent, `EINVAL` if it does not answer, `ENOMEM`.
pub(super) fn ask_driver(
    device: &Device,
    port: u32,
    fill: impl FnOnce(Lent<'_, bindings::ib_mad>),
) -> Result<Asked> {
    // CAST: a small number. The kernel crate has no constant for it.
    let no_agent = || Error::from_errno(-(bindings::ENOSYS as i32));
    let process = device.ops().process_mad.ok_or_else(no_agent)?;
    let mut question = KBox::new(bindings::ib_mad::default(), GFP_KERNEL)?;
    let mut answer = KBox::new(bindings::ib_mad::default(), GFP_KERNEL)?;
    fill(Lent(&mut question));
    let mut size = size_of::<bindings::ib_mad>();
    let mut pkey_index = 0;
    // CAST: small constants.
    let flags = bindings::ib_process_mad_flags_IB_MAD_IGNORE_MKEY as i32;
    let done = (bindings::ib_mad_result_IB_MAD_RESULT_SUCCESS
        | bindings::ib_mad_result_IB_MAD_RESULT_REPLY) as i32;
    // SAFETY: The method is the device's, with buffers of the size that it is told; no completion
    // and no GRH mean that it was not received.
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
