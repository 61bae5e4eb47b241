// SPDX-License-Identifier: GPL-2.0

//! Hardware counters (`hw_counters` in sysfs, `rdma statistic`).
//!
//! A driver has the core allocate counters with names and values ([`HwStats`]) and fills in the
//! values when it is asked. The core asks again when they are older than their *lifespan*.
//!
//! Lock: `HwStats::values`, the mutex in the C structure, around each reading.

pub(crate) mod abi;
mod edge;
mod files;

use crate::device::Device;
use crate::edge::device::Unregistered;
use crate::sysfs;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::time;
use rdma::bindings;
use rdma::timer::jiffies;

use self::edge::Locked;
use self::files::DeviceCounters;

pub(crate) use self::edge::HwStats;
pub(crate) use self::edge::Owned;
pub(crate) use self::files::PortCounters;

impl HwStats {
    /// Whether a counter counts only if somebody switches it on.
    pub(crate) fn is_optional(&self, index: usize) -> bool {
        self.desc(index)
            .is_some_and(|desc| bindings::ib_stat_flag_IB_STAT_FLAG_OPTIONAL & desc.flags() != 0)
    }

    /// Whether an optional counter is switched off. Any context; [`lock`](Self::lock) to rely on
    /// it.
    pub(crate) fn is_disabled(&self, index: usize) -> bool {
        self.disabled(index)
            .is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// Takes the lock of the values. May sleep.
    pub(crate) fn lock(&self) -> Values<'_> {
        Values {
            stats: self,
            lock: self.mutex().lock(),
        }
    }
}

/// The values of counters, which stay as they are meanwhile.
pub(crate) struct Values<'a> {
    stats: &'a HwStats,
    lock: Locked<'a>,
}

impl Values<'_> {
    /// What they are the values of.
    fn stats(&self) -> &HwStats {
        self.stats
    }

    /// The value of a counter, when it was last asked for.
    pub(crate) fn get(&self, index: usize) -> Option<u64> {
        self.stats.shared(index).map(|value| value.load(Relaxed))
    }

    /// Asks the driver for the counter, or all of them if `index` is the count, unless the values
    /// are new enough.
    ///
    /// # Errors
    ///
    /// That of the driver.
    pub(crate) fn refresh(&mut self, device: &Device, port: u32, index: usize) -> Result {
        let since = self.stats.timestamp(&self.lock);
        let until = since.wrapping_add(self.stats.lifespan_jiffies(&self.lock));
        let now = jiffies();
        // Numbers of a circle: what is behind has the top bit.
        // CAST: for the sign.
        if until.wrapping_sub(now) as isize >= 0 {
            return Ok(());
        }
        if self.ask(device, port, index)? {
            self.stamp();
        }
        Ok(())
    }

    /// Asks the driver for all counters, for the first time.
    ///
    /// # Errors
    ///
    /// That of the driver; `EINVAL` if it does not tell all of them.
    fn fill(&mut self, device: &Device, port: u32) -> Result {
        if !self.ask(device, port, self.stats.count())? {
            pr_warn!("a driver does not know all of its counters\n");
            return Err(EINVAL);
        }
        self.stamp();
        Ok(())
    }

    fn stamp(&mut self) {
        self.stats.set_timestamp(&mut self.lock, jiffies());
    }

    /// Asks the driver. Returns whether it told all counters.
    fn ask(&mut self, device: &Device, port: u32, index: usize) -> Result<bool> {
        Ok(self.read(device, port, index)? == self.stats.count())
    }

    /// Asks the driver for a counter, or for all if `index` is the count. Returns how many it read.
    ///
    /// # Errors
    ///
    /// The driver's; `EOPNOTSUPP` if it cannot.
    fn read(&mut self, device: &Device, port: u32, index: usize) -> Result<usize> {
        let index = i32::try_from(index)?;
        let told = device.driver().get_hw_stats(self, port, index);
        usize::try_from(told).map_err(|_| Error::from_errno(told))
    }

    /// Asks the driver for all counters now. Returns how many it read.
    ///
    /// # Errors
    ///
    /// That of the driver.
    pub(crate) fn read_all(&mut self, device: &Device, port: u32) -> Result<usize> {
        self.read(device, port, 0)
    }

    /// How long values stay new enough, in milliseconds.
    pub(crate) fn lifespan(&self) -> u32 {
        edge::to_msecs(self.stats.lifespan_jiffies(&self.lock))
    }

    /// Sets it, in milliseconds.
    pub(crate) fn set_lifespan(&mut self, msecs: u32) {
        let jiffies = time::msecs_to_jiffies(msecs);
        self.stats.set_lifespan_jiffies(&mut self.lock, jiffies);
    }

    /// Notes that an optional counter is switched on or off.
    pub(crate) fn set_disabled(&mut self, index: usize, disabled: bool) {
        if let Some((word, bit)) = self.stats.disabled(index) {
            // The lock is held, so nobody else writes.
            let old = word.load(Relaxed);
            word.store(if disabled { old | bit } else { old & !bit }, Relaxed);
        }
    }
}

impl Owned {
    /// Has the driver allocate the counters of a port, if it can.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if it does not.
    pub(crate) fn of_port(device: &Device, port: u32) -> Result<Option<Self>> {
        if device.ops().alloc_hw_port_stats.is_none() {
            return Ok(None);
        }
        device.driver().alloc_hw_port_stats(port).map(Some)
    }

    /// As [`of_port`](Self::of_port), those of the device.
    fn of_device(device: &Device) -> Result<Option<Self>> {
        if device.ops().alloc_hw_device_stats.is_none() {
            return Ok(None);
        }
        device.driver().alloc_hw_device_stats().map(Some)
    }

    /// With names, and read once: so that it can be shown.
    fn ready(self, device: &Device, port: u32) -> Result<Arc<Self>> {
        // As the C core does, which takes it for a failed allocation.
        if self.desc(0).is_none() {
            return Err(ENOMEM);
        }
        self.lock().fill(device, port)?;
        Ok(Arc::new(self, GFP_KERNEL)?)
    }
}

/// The counters of a port, if its driver has any. Whoever asks has the device registered.
pub(crate) fn of_port(device: &Device, port: u32) -> Option<&HwStats> {
    sysfs::port_directory(device, port)?
        .hw_counters()
        .map(PortCounters::stats)
}

/// The counters of a device, until its memory goes.
#[pin_data]
pub(crate) struct OfDevice {
    #[pin]
    counters: Mutex<Option<DeviceCounters>>,
}

impl crate::device::PerDevice for OfDevice {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            counters <- kernel::new_mutex!(None, "stats::OfDevice"),
        })
    }
}

/// Makes the counters of a device that is about to be registered, and the group that shows them.
/// `None` if it has none of its own. May sleep.
///
/// What a registration that failed left is freed: there are no files of it (`Unregistered`).
///
/// # Errors
///
/// Those of the driver; `ENOMEM`.
pub(crate) fn set_up_device(
    device: &Device,
    _alone: &mut Unregistered<'_>,
) -> Result<Option<*const bindings::attribute_group>> {
    let Some(counters) = DeviceCounters::new(device)? else {
        return Ok(None);
    };
    let group = counters.group();
    *device.slot::<OfDevice>().counters.lock() = Some(counters);
    Ok(Some(group))
}
