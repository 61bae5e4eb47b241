// SPDX-License-Identifier: GPL-2.0

//! The directory of a port, and the files that every port has.

use super::pma;
use super::tables;
use super::Ports;
use crate::device::Device;
use crate::proto::rates::Width;
use crate::stats::PortCounters;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::sysfs::constant;
use rdma::sysfs::dynamic;
use rdma::sysfs::Added;
use rdma::sysfs::Attribute;
use rdma::sysfs::Directory;
use rdma::sysfs::Extends;
use rdma::sysfs::Group;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Kind;
use rdma::sysfs::Page;
use rdma::sysfs::StaticGroup;

/// What files of ports begin with (`struct ib_port_attribute`), our own and those of drivers.
#[repr(transparent)]
pub(crate) struct File(bindings::ib_port_attribute);

// SAFETY: A file is constant, or not changed after it is made.
unsafe impl Send for File {}
// SAFETY: As above.
unsafe impl Sync for File {}

// SAFETY: A `struct ib_port_attribute` begins with an attribute.
unsafe impl Attribute for File {}

impl File {
    /// Of a file that is read only. `show` is called with the attribute that this begins.
    pub(crate) const fn constant(name: &'static CStr, show: Show) -> Self {
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

/// A port of a device or of a copy of it.
///
/// # Invariants
///
/// `device` outlives the files of the directory. `full` says that it is not of a copy.
pub(crate) struct Port {
    device: NonNull<Device>,
    port: u32,
    full: bool,
    gids: Group<tables::Row>,
    pkeys: Option<Group<tables::Row>>,
    counters: Option<GroupRef<'static, File>>,
    hw_counters: Option<PortCounters>,
}

// SAFETY: A `Device` is `Send` and `Sync`, groups are constant or `Send` and `Sync`.
unsafe impl Send for Port {}
// SAFETY: As above.
unsafe impl Sync for Port {}

impl Port {
    fn new(device: &Device, port: u32, full: bool, attr: &bindings::ib_port_attr) -> Result<Self> {
        Ok(Self {
            gids: tables::gids(attr)?,
            pkeys: tables::pkeys(attr)?,
            // A switch's port 0 has no counters of its own: they are the device's.
            hw_counters: if full && port != 0 {
                PortCounters::new(device, port)?
            } else {
                None
            },
            counters: full.then(|| pma::group(device, port)).flatten(),
            device: NonNull::from(device),
            port,
            full,
        })
    }

    /// The device.
    pub(crate) fn device(&self) -> &Device {
        // SAFETY: By the type invariant: only files and whoever has the device ask.
        unsafe { self.device.as_ref() }
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.port
    }

    /// The driver's counters of the port.
    pub(crate) fn hw_counters(&self) -> Option<&PortCounters> {
        self.hw_counters.as_ref()
    }
}

impl Kind for Port {
    type Attribute = File;

    fn groups<'a>(&'a self, add: &mut dyn FnMut(GroupRef<'a, File>) -> Result) -> Result {
        add(GROUP.get())?;
        add(self.gids.get())?;
        if let Some(pkeys) = &self.pkeys {
            add(pkeys.get())?;
        }
        if let Some(counters) = &self.hw_counters {
            add(counters.group())?;
        }
        if let Some(counters) = &self.counters {
            add(*counters)?;
        }
        if self.full {
            let groups = self.device().ops().port_groups;
            // SAFETY: The driver's list is constant, of files of ports.
            unsafe { GroupRef::for_each(groups.cast_const(), add) }?;
        }
        Ok(())
    }

    unsafe fn show(&self, file: NonNull<File>, page: *mut c_char) -> isize {
        let file = file.cast::<bindings::ib_port_attribute>().as_ptr();
        // SAFETY: By this function's duty.
        match unsafe { (*file).show } {
            // SAFETY: The method is that of this file; the device is there while it is read.
            Some(show) => unsafe { show(self.device().as_raw(), self.port, file, page) },
            // CAST: a small negative number.
            None => EIO.to_errno() as isize,
        }
    }

    unsafe fn store(&self, file: NonNull<File>, data: *const c_char, count: usize) -> isize {
        let file = file.cast::<bindings::ib_port_attribute>().as_ptr();
        // SAFETY: By this function's duty.
        match unsafe { (*file).store } {
            // SAFETY: The method is that of this file; the device is there while it is written.
            Some(store) => unsafe { store(self.device().as_raw(), self.port, file, data, count) },
            // CAST: a small negative number.
            None => EIO.to_errno() as isize,
        }
    }
}

/// The directory of a port with what is below; dropping it removes both.
pub(super) struct Tree {
    _gid_attrs: Added<tables::GidAttrs>,
    _port: Known,
}

impl Tree {
    /// Makes `ports/N`.
    ///
    /// # Safety
    ///
    /// It is dropped before `parent`, and `device` stays until then.
    pub(super) unsafe fn new(
        parent: &Added<Ports>,
        device: &Device,
        port: u32,
        full: bool,
    ) -> Result<Self> {
        let mut attr = bindings::ib_port_attr::default();
        // SAFETY: The device has this port; it is being registered, so it stays.
        to_result(unsafe { bindings::ib_query_port(device.as_raw(), port, &mut attr) })?;

        let directory = Directory::new(Port::new(device, port, full, &attr))?;
        let name = CString::try_from_fmt(fmt!("{port}"))?;
        // Files of drivers may ask for what is found by the device, so that comes first.
        let known = full.then(|| Pointer::set(device, port, &directory));
        // SAFETY: By this function's duty.
        let added = unsafe { parent.child(directory, &name) }?;
        let port = Known {
            added,
            _pointer: known.flatten(),
        };
        let attrs = tables::GidAttrs::new(device, port.added.number(), &attr);
        // SAFETY: It is the field before that of the port, so dropped before that.
        let gid_attrs = unsafe { port.added.child(Directory::new(attrs)?, c"gid_attrs") }?;
        Ok(Self {
            _gid_attrs: gid_attrs,
            _port: port,
        })
    }
}

/// A port's directory, and that the device knows it. Dropped in this order.
struct Known {
    added: Added<Port>,
    _pointer: Option<Pointer>,
}

/// That `ib_port_data::sysfs` points to the port's directory.
///
/// # Invariants
///
/// `field` is one of a device that outlives this, and points to the directory.
struct Pointer {
    field: NonNull<*mut bindings::ib_port>,
    _directory: ARef<Directory<Port>>,
}

// SAFETY: The field is written by who registers or unregisters the device only.
unsafe impl Send for Pointer {}

impl Pointer {
    fn set(device: &Device, port: u32, directory: &ARef<Directory<Port>>) -> Option<Self> {
        let field = field(device, port)?;
        // SAFETY: The field is there as long as the device's memory.
        unsafe { field.as_ptr().write(directory.as_raw().cast()) };
        // INVARIANT: The device's memory outlives its files, and with them this.
        Some(Self {
            field,
            _directory: directory.clone(),
        })
    }
}

impl Drop for Pointer {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { self.field.as_ptr().write(ptr::null_mut()) };
    }
}

fn field(device: &Device, port: u32) -> Option<NonNull<*mut bindings::ib_port>> {
    let data = super::port_data(device, port)?;
    // SAFETY: It is an element of the array.
    NonNull::new(unsafe { &raw mut (*data.as_ptr()).sysfs })
}

/// The directory of a port, if the device has that port and its directory is made.
///
/// Context: any, while the device is registered, or is being registered by the caller.
pub(crate) fn find(device: &Device, port: u32) -> Option<&Directory<Port>> {
    let field = field(device, port)?;
    // SAFETY: The field is there as long as the device.
    let directory = unsafe { field.as_ptr().read() };
    if directory.is_null() {
        return None;
    }
    // SAFETY: The directory is there while the device is registered.
    Some(unsafe { Directory::from_raw(directory.cast()) })
}

/// A file of every port, of what its driver says when it is asked.
#[repr(C)]
struct Plain {
    raw: File,
    /// Whether the driver is asked for the port's attributes first.
    asks: bool,
    show: fn(&Device, u32, &mut bindings::ib_port_attr, &mut Page<'_>) -> Result,
}

// SAFETY: It begins with a `File`.
unsafe impl Attribute for Plain {}
// SAFETY: As above.
unsafe impl Extends<File> for Plain {}

impl Plain {
    const fn new(
        name: &'static CStr,
        show: fn(&Device, u32, &mut bindings::ib_port_attr, &mut Page<'_>) -> Result,
    ) -> Self {
        Self {
            raw: File::constant(name, show_plain),
            asks: true,
            show,
        }
    }

    /// What is known without the driver, so that it can be read whatever state that is in.
    const fn known(mut self) -> Self {
        self.asks = false;
        self
    }
}

/// # Safety
///
/// For C only, as a method of a [`Plain`] file.
unsafe extern "C" fn show_plain(
    device: *mut bindings::ib_device,
    port: u32,
    file: *mut bindings::ib_port_attribute,
    page: *mut c_char,
) -> isize {
    let mut attr = bindings::ib_port_attr::default();
    // SAFETY: The device is there while its file is read; the file is `Plain`; the page sysfs's.
    unsafe {
        let file = &*file.cast::<Plain>();
        Page::fill(page, |page| {
            if file.asks {
                to_result(bindings::ib_query_port(device, port, &mut attr))?;
            }
            (file.show)(Device::from_raw(device), port, &mut attr, page)
        })
    }
}

static GROUP: StaticGroup<Plain> = StaticGroup::new(None, &FILES);

static FILES: [Option<&Plain>; 10] = [
    Some(&Plain::new(c"state", |_, _, attr, page| {
        let name = match attr.state {
            0 => "NOP",
            1 => "DOWN",
            2 => "INIT",
            3 => "ARMED",
            4 => "ACTIVE",
            5 => "ACTIVE_DEFER",
            _ => "UNKNOWN",
        };
        // CAST: C shows it with a sign.
        page.text(fmt!("{}: {name}\n", attr.state as i32))
    })),
    Some(&Plain::new(c"lid", |_, _, attr, page| {
        page.text(fmt!("{:#x}\n", attr.lid))
    })),
    Some(&Plain::new(c"lid_mask_count", |_, _, attr, page| {
        page.text(fmt!("{}\n", attr.lmc))
    })),
    Some(&Plain::new(c"sm_lid", |_, _, attr, page| {
        page.text(fmt!("{:#x}\n", attr.sm_lid))
    })),
    Some(&Plain::new(c"sm_sl", |_, _, attr, page| {
        page.text(fmt!("{}\n", attr.sm_sl))
    })),
    Some(&Plain::new(c"cap_mask", |_, _, attr, page| {
        page.text(fmt!("{:#010x}\n", attr.port_cap_flags))
    })),
    Some(&Plain::new(c"rate", rate)),
    Some(&Plain::new(c"phys_state", |_, _, attr, page| {
        let name = match attr.phys_state {
            1 => "Sleep",
            2 => "Polling",
            3 => "Disabled",
            4 => "PortConfigurationTraining",
            5 => "LinkUp",
            6 => "LinkErrorRecovery",
            7 => "Phy Test",
            _ => "<unknown>",
        };
        page.text(fmt!("{}: {name}\n", attr.phys_state))
    })),
    Some(&Plain::new(c"link_layer", link_layer).known()),
    None,
];

fn rate(_: &Device, _: u32, attr: &mut bindings::ib_port_attr, page: &mut Page<'_>) -> Result {
    let mut info = bindings::ib_port_speed_info::default();
    // SAFETY: Both are there.
    to_result(unsafe { bindings::ib_port_attr_to_speed_info(attr, &mut info) })?;
    let half = if info.rate % 10 == 0 { "" } else { ".5" };
    let lanes = match Width::from_raw(attr.active_width.into()) {
        Some(width) => i64::from(width.lanes()),
        None => -1,
    };
    page.text(fmt!("{}{half} Gb/sec ({lanes}X", info.rate / 10))?;
    if !info.str_.is_null() {
        // SAFETY: A constant string of the core's.
        page.bytes(unsafe { CStr::from_char_ptr(info.str_) }.to_bytes());
    }
    page.bytes(b")\n");
    Ok(())
}

fn link_layer(
    device: &Device,
    port: u32,
    _: &mut bindings::ib_port_attr,
    page: &mut Page<'_>,
) -> Result {
    // SAFETY: The device is there, and has the port.
    page.bytes(
        match unsafe { bindings::rdma_port_get_link_layer(device.as_raw(), port) } {
            bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND => b"InfiniBand\n",
            bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET => b"Ethernet\n",
            _ => b"Unknown\n",
        },
    );
    Ok(())
}
