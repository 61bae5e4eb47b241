// SPDX-License-Identifier: GPL-2.0

//! The group `hw_counters` of a device or port: a file for each counter that is not optional, and
//! `lifespan`.

use super::HwStats;
use super::Owned;
use crate::counter;
use crate::device::Device;
use crate::sysfs;
use core::ptr::NonNull;
use kernel::ffi::c_char;
use kernel::prelude::*;
use rdma::bindings;
use rdma::sysfs::dynamic;
use rdma::sysfs::Attribute;
use rdma::sysfs::Extends;
use rdma::sysfs::Group;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Input;
use rdma::sysfs::Page;

/// The longest lifespan that a user may set, in milliseconds.
const MAX_LIFESPAN: u32 = 10_000;

/// What a file shows.
#[derive(Clone, Copy)]
enum What {
    Counter(usize),
    Lifespan,
}

/// A file that begins with an `A`, of the counters `stats`.
///
/// # Invariants
///
/// `stats` outlives the file.
#[repr(C)]
pub(crate) struct File<A> {
    raw: A,
    stats: NonNull<HwStats>,
    what: What,
}

// SAFETY: It points to `HwStats`, which is `Send` and `Sync`, and to constants.
unsafe impl<A> Send for File<A> {}
// SAFETY: As above.
unsafe impl<A> Sync for File<A> {}

/// The attribute of a device's file, `struct device_attribute`.
#[repr(transparent)]
struct OfDevice(bindings::device_attribute);

// SAFETY: `OfDevice` and `PortFile` begin with an attribute.
unsafe impl Attribute for File<OfDevice> {}
// SAFETY: As above.
unsafe impl Attribute for File<sysfs::PortFile> {}
// SAFETY: As above.
unsafe impl Extends<sysfs::PortFile> for File<sysfs::PortFile> {}

impl<A> File<A> {
    fn show(&self, device: &Device, port: u32, page: &mut Page<'_>) -> Result {
        // SAFETY: By the type invariant.
        let stats = unsafe { self.stats.as_ref() };
        let mut values = stats.lock();
        let shown = match self.what {
            What::Counter(index) => {
                values.refresh(device, port, index)?;
                // What bound counters took away from the port's is still the port's.
                values
                    .get(index)
                    .unwrap_or(0)
                    .wrapping_add(counter::hwstats(device, port, index))
            }
            What::Lifespan => values.lifespan().into(),
        };
        drop(values);
        page.text(fmt!("{shown}\n"))
    }

    fn store(&self, input: Input<'_>) -> Result {
        let msecs = u32::try_from(input.number()?)
            .ok()
            .filter(|msecs| *msecs <= MAX_LIFESPAN)
            .ok_or(EINVAL)?;
        // SAFETY: By the type invariant.
        unsafe { self.stats.as_ref() }.lock().set_lifespan(msecs);
        Ok(())
    }
}

/// Makes the files: `make` gets the name and whether the file may be written.
fn group<A>(stats: &HwStats, make: impl Fn(*const c_char, bool) -> A) -> Result<Group<File<A>>>
where
    File<A>: Attribute,
{
    let count = stats.count();
    let mut files = KVVec::with_capacity(count.saturating_add(1), GFP_KERNEL)?;
    for index in (0..count).filter(|index| !stats.is_optional(*index)) {
        let file = File {
            raw: make(stats.name(index).ok_or(EINVAL)?.as_char_ptr(), false),
            stats: NonNull::from(stats),
            what: What::Counter(index),
        };
        files.push(file, GFP_KERNEL)?;
    }
    let lifespan = File {
        raw: make(c"lifespan".to_bytes_with_nul().as_ptr().cast(), true),
        stats: NonNull::from(stats),
        what: What::Lifespan,
    };
    files.push(lifespan, GFP_KERNEL)?;
    Group::new(c"hw_counters", files)
}

/// The mode of a file.
const fn mode(writable: bool) -> u16 {
    if writable {
        0o644
    } else {
        0o444
    }
}

/// The counters of a port, and their files. Fields are dropped in this order.
pub(crate) struct PortCounters {
    group: Group<File<sysfs::PortFile>>,
    stats: Owned,
}

impl PortCounters {
    /// Has the driver make them; `None` if it has none for ports. May sleep.
    ///
    /// # Errors
    ///
    /// That of the driver; `ENOMEM`.
    pub(crate) fn new(device: &Device, port: u32) -> Result<Option<Self>> {
        let Some(stats) = Owned::of_port(device, port)? else {
            return Ok(None);
        };
        let stats = stats.ready(device, port)?;
        let group = group(&stats, |name, writable| {
            let store = writable.then_some(store_port as _);
            let mut file = sysfs::PortFile::dynamic(mode(writable), show_port, store);
            // SAFETY: Names of counters are constants.
            unsafe { file.set_name(name) };
            file
        })?;
        Ok(Some(Self { group, stats }))
    }

    /// The files.
    pub(crate) fn group(&self) -> GroupRef<'_, sysfs::PortFile> {
        self.group.get()
    }

    /// The counters.
    pub(crate) fn stats(&self) -> &HwStats {
        &self.stats
    }
}

/// The counters of a device, and their files (`struct hw_stats_device_data`). Fields are dropped
/// in this order.
pub(crate) struct DeviceCounters {
    group: Group<File<OfDevice>>,
    _stats: Owned,
}

impl DeviceCounters {
    /// Has the driver make them; `None` if it has none for the device. May sleep.
    ///
    /// # Errors
    ///
    /// That of the driver; `ENOMEM`.
    pub(super) fn new(device: &Device) -> Result<Option<Self>> {
        let Some(alloc) = device.ops().alloc_hw_device_stats else {
            return Ok(None);
        };
        // SAFETY: The method is the device's; what it returns is the core's.
        let stats = unsafe { Owned::from_raw(alloc(device.as_raw())) }.ok_or(ENOMEM)?;
        let stats = stats.ready(device, 0)?;
        let group = group(&stats, |name, writable| {
            let mut file = bindings::device_attribute::default();
            file.attr = dynamic(mode(writable));
            file.attr.name = name;
            file.__bindgen_anon_1.show = Some(show_device);
            if writable {
                file.__bindgen_anon_2.store = Some(store_device);
            }
            OfDevice(file)
        })?;
        Ok(Some(Self {
            group,
            _stats: stats,
        }))
    }

    /// The files.
    pub(super) fn group(&self) -> *const bindings::attribute_group {
        self.group.as_raw()
    }
}

/// # Safety
///
/// For C only, as a method of a [`File`] of a port.
unsafe extern "C" fn show_port(
    device: *mut bindings::ib_device,
    port: u32,
    file: *mut bindings::ib_port_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: The device is there while its file is read; the file is ours; the page sysfs's.
    unsafe {
        let file = &*file.cast::<File<sysfs::PortFile>>();
        Page::fill(page, |page| file.show(Device::from_raw(device), port, page))
    }
}

/// # Safety
///
/// For C only, as a method of a [`File`] of a port.
unsafe extern "C" fn store_port(
    _: *mut bindings::ib_device,
    _: u32,
    file: *mut bindings::ib_port_attribute,
    data: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: The file is ours; the data sysfs's.
    unsafe {
        let file = &*file.cast::<File<sysfs::PortFile>>();
        Input::take(data, count, |input| file.store(input))
    }
}

/// # Safety
///
/// For C only, as a method of a [`File`] of a device.
unsafe extern "C" fn show_device(
    dev: *mut bindings::device,
    file: *mut bindings::device_attribute,
    page: *mut c_char,
) -> isize {
    // SAFETY: The device is there while its file is read; the file is ours; the page sysfs's.
    unsafe {
        let file = &*file.cast::<File<OfDevice>>();
        Page::fill(page, |page| file.show(sysfs::owner(dev), 0, page))
    }
}

/// # Safety
///
/// For C only, as a method of a [`File`] of a device.
unsafe extern "C" fn store_device(
    _: *mut bindings::device,
    file: *mut bindings::device_attribute,
    data: *const c_char,
    count: usize,
) -> isize {
    // SAFETY: The file is ours; the data sysfs's.
    unsafe {
        let file = &*file.cast::<File<OfDevice>>();
        Input::take(data, count, |input| file.store(input))
    }
}
