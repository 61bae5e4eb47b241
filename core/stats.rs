// SPDX-License-Identifier: GPL-2.0

//! Hardware counters (`hw_counters` in sysfs, `rdma statistic`).
//!
//! The driver has the core allocate counters with names and values ([`HwStats`]), and updates the
//! values on request. The core requests an update when the values are older than their *lifespan*.
//! Counters of ports and devices belong to their sysfs directories (`sysfs/hw_counters.rs`), those
//! of bound counters to [`crate::counter`].
//!
//! Lock: `HwStats::values`, the mutex in the C structure, held while values are updated and read.

pub(crate) mod abi;
mod edge;

use crate::device::Device;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::time;
use rdma::bindings;
use rdma::timer::jiffies;

use self::edge::Locked;

pub(crate) use self::edge::HwStats;
pub(crate) use self::edge::Owned;

impl HwStats {
    /// Returns whether a counter is optional: it counts only while it is enabled.
    pub(crate) fn is_optional(&self, index: usize) -> bool {
        self.desc(index)
            .is_some_and(|desc| bindings::ib_stat_flag_IB_STAT_FLAG_OPTIONAL & desc.flags() != 0)
    }

    /// Returns whether an optional counter is disabled. Any context; stable only under
    /// [`lock`](Self::lock).
    pub(crate) fn is_disabled(&self, index: usize) -> bool {
        self.disabled(index)
            .is_some_and(|(word, bit)| word.load(Relaxed) & bit != 0)
    }

    /// Locks the values. May sleep.
    pub(crate) fn lock(&self) -> Values<'_> {
        Values {
            stats: self,
            lock: self.mutex().lock(),
        }
    }
}

/// The values of counters, locked against updates.
pub(crate) struct Values<'a> {
    stats: &'a HwStats,
    lock: Locked<'a>,
}

impl Values<'_> {
    /// The counters that the values belong to.
    fn stats(&self) -> &HwStats {
        self.stats
    }

    /// The value of a counter at the last update.
    pub(crate) fn get(&self, index: usize) -> Option<u64> {
        self.stats.shared(index).map(|value| value.load(Relaxed))
    }

    /// Has the driver update a counter, or all of them if `index` is the count, unless the values
    /// have been updated within their lifespan.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn refresh(&mut self, device: &Device, port: u32, index: usize) -> Result {
        let since = self.stats.timestamp(&self.lock);
        let until = since.wrapping_add(self.stats.lifespan_jiffies(&self.lock));
        let now = jiffies();
        // Jiffies wrap: the lifespan has expired if the difference is negative.
        // CAST: Reinterprets the difference as signed.
        if until.wrapping_sub(now) as isize >= 0 {
            return Ok(());
        }
        if self.ask(device, port, index)? {
            self.stamp();
        }
        Ok(())
    }

    /// Has the driver update all counters for the first time.
    ///
    /// # Errors
    ///
    /// Those of the driver; `EINVAL` if it does not update all of them.
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

    /// Has the driver update a counter, or all. Returns whether it updated all of them.
    fn ask(&mut self, device: &Device, port: u32, index: usize) -> Result<bool> {
        Ok(self.read(device, port, index)? == self.stats.count())
    }

    /// Has the driver update a counter, or all if `index` is the count. Returns the number of
    /// updated counters.
    ///
    /// # Errors
    ///
    /// Those of the driver; `EOPNOTSUPP` if it has no such operation.
    fn read(&mut self, device: &Device, port: u32, index: usize) -> Result<usize> {
        let index = i32::try_from(index)?;
        let told = device.driver().get_hw_stats(self, port, index);
        usize::try_from(told).map_err(|_| Error::from_errno(told))
    }

    /// Has the driver update all counters now. Returns the number of updated counters.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn read_all(&mut self, device: &Device, port: u32) -> Result<usize> {
        self.read(device, port, 0)
    }

    /// Lifespan of values, in milliseconds.
    pub(crate) fn lifespan(&self) -> u32 {
        edge::to_msecs(self.stats.lifespan_jiffies(&self.lock))
    }

    /// Sets the lifespan, in milliseconds.
    pub(crate) fn set_lifespan(&mut self, msecs: u32) {
        let jiffies = time::msecs_to_jiffies(msecs);
        self.stats.set_lifespan_jiffies(&mut self.lock, jiffies);
    }

    /// Records that an optional counter was disabled or enabled.
    pub(crate) fn set_disabled(&mut self, index: usize, disabled: bool) {
        if let Some((word, bit)) = self.stats.disabled(index) {
            // The lock excludes other writers.
            let old = word.load(Relaxed);
            word.store(if disabled { old | bit } else { old & !bit }, Relaxed);
        }
    }
}

impl Owned {
    /// Has the driver allocate the counters of a port. Returns `None` if it does not support any.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the driver fails to allocate them.
    pub(crate) fn of_port(device: &Device, port: u32) -> Result<Option<Self>> {
        if device.ops().alloc_hw_port_stats.is_none() {
            return Ok(None);
        }
        device.driver().alloc_hw_port_stats(port).map(Some)
    }

    /// Like [`of_port`](Self::of_port), for the counters of the device.
    pub(crate) fn of_device(device: &Device) -> Result<Option<Self>> {
        if device.ops().alloc_hw_device_stats.is_none() {
            return Ok(None);
        }
        device.driver().alloc_hw_device_stats().map(Some)
    }

    /// Checks that the counters have descriptions, and has the driver update them all once.
    pub(crate) fn ready(self, device: &Device, port: u32) -> Result<Arc<Self>> {
        // The C core also reports missing descriptions as a failed allocation.
        if self.desc(0).is_none() {
            return Err(ENOMEM);
        }
        self.lock().fill(device, port)?;
        Ok(Arc::new(self, GFP_KERNEL)?)
    }
}
