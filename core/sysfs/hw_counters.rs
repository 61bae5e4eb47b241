// SPDX-License-Identifier: GPL-2.0

//! The group `hw_counters` of a device or port: one file for each counter that is not optional, and
//! `lifespan`.

use super::edge::OfDevice;
use super::edge::PortFile;
use super::edge::ShowPort;
use super::edge::Shown;
use crate::counter;
use crate::device::Device;
use crate::device::PerDevice;
use crate::edge::device::Unregistered;
use crate::stats::HwStats;
use crate::stats::Owned;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::sysfs::Attribute;
use rdma::sysfs::Group;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Input;
use rdma::sysfs::Page;

/// Longest lifespan that a user may set, in milliseconds.
const MAX_LIFESPAN: u32 = 10_000;

/// Content of a file.
#[derive(Clone, Copy)]
enum What {
    Counter(usize),
    Lifespan,
}

/// A file of counters.
pub(crate) struct File {
    stats: Arc<Owned>,
    what: What,
}

impl ShowPort for File {
    fn show(&self, device: &Device, port: u32, page: &mut Page<'_>) -> Result {
        let mut values = self.stats.lock();
        let shown = match self.what {
            What::Counter(index) => {
                values.refresh(device, port, index)?;
                // Add the share of bound counters, which is not included in the port's value.
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

    fn name(&self) -> Option<&CStr> {
        match self.what {
            What::Counter(index) => self.stats.name(index),
            What::Lifespan => Some(c"lifespan"),
        }
    }

    fn is_writable(&self) -> bool {
        match self.what {
            What::Counter(_) => false,
            What::Lifespan => true,
        }
    }

    fn store(&self, input: Input<'_>) -> Result {
        let msecs = u32::try_from(input.number()?)
            .ok()
            .filter(|msecs| *msecs <= MAX_LIFESPAN)
            .ok_or(EINVAL)?;
        self.stats.lock().set_lifespan(msecs);
        Ok(())
    }
}

/// Creates the group `hw_counters`, with files from `make`.
fn group<A: Attribute>(stats: &Arc<Owned>, make: impl Fn(File) -> A) -> Result<Group<A>> {
    let count = stats.count();
    let mut files = KVVec::with_capacity(count.saturating_add(1), GFP_KERNEL)?;
    let counters = (0..count).filter(|index| !stats.is_optional(*index));
    for what in Iterator::chain(counters.map(What::Counter), [What::Lifespan]) {
        let file = File {
            stats: stats.clone(),
            what,
        };
        if file.name().is_none() {
            return Err(EINVAL);
        }
        files.push(make(file), GFP_KERNEL)?;
    }
    Group::new(c"hw_counters", files)
}

/// The counters of a port, and their files.
pub(crate) struct PortCounters {
    group: Group<Shown<File>>,
    stats: Arc<Owned>,
}

impl PortCounters {
    /// Has the driver allocate the counters; `None` if it has none for ports. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver; `ENOMEM`.
    pub(crate) fn new(device: &Device, port: u32) -> Result<Option<Self>> {
        let Some(stats) = Owned::of_port(device, port)? else {
            return Ok(None);
        };
        let stats = stats.ready(device, port)?;
        let group = group(&stats, Shown::dynamic)?;
        Ok(Some(Self { group, stats }))
    }

    /// The files.
    pub(crate) fn group(&self) -> GroupRef<'_, PortFile> {
        self.group.get()
    }

    /// The counters.
    pub(crate) fn stats(&self) -> &HwStats {
        &self.stats
    }
}

/// The files of the counters of a device.
pub(crate) struct DeviceCounters(Group<OfDevice<File>>);

impl DeviceCounters {
    /// Has the driver allocate the counters; `None` if it has none for the device. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver; `ENOMEM`.
    pub(super) fn new(device: &Device) -> Result<Option<Self>> {
        let Some(stats) = Owned::of_device(device)? else {
            return Ok(None);
        };
        let stats = stats.ready(device, 0)?;
        Ok(Some(Self(group(&stats, OfDevice::dynamic)?)))
    }

    /// The files.
    pub(super) fn group(&self) -> *const bindings::attribute_group {
        self.0.as_raw()
    }
}

/// The counters of a device, kept until its memory is freed.
#[pin_data]
pub(crate) struct Slot {
    #[pin]
    counters: Mutex<Option<DeviceCounters>>,
}

impl PerDevice for Slot {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            counters <- kernel::new_mutex!(None, "sysfs::hw_counters"),
        })
    }
}

/// Allocates the counters of a device that is about to be registered. Returns the group of their
/// files, or `None` if the device has no counters of its own. May sleep.
///
/// Counters from a failed registration are freed; they have no files (`Unregistered`).
///
/// # Errors
///
/// Those of the driver; `ENOMEM`.
pub(super) fn set_up_device(
    alone: &mut Unregistered<'_>,
) -> Result<Option<*const bindings::attribute_group>> {
    let device = alone.device();
    let Some(counters) = DeviceCounters::new(device)? else {
        return Ok(None);
    };
    let group = counters.group();
    *device.slot::<Slot>().counters.lock() = Some(counters);
    Ok(Some(group))
}
