// SPDX-License-Identifier: GPL-2.0

//! Counters (`struct ib_counters`).

use super::make;
use crate::edge::call::Call;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::counters::Counters;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::object::Owned;
use rdma::edge::object::UseCount;
use rdma::edge::View;

rdma::c_struct! {
    /// A set of counters.
    pub(crate) struct Set: bindings::ib_counters;
    fields {
        /// The device.
        const device: &Device;
        /// Number of flows that count in it.
        embed usecnt: UseCount;
    }
}

/// Makes a set of counters. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`, `ENOMEM`; those of the driver.
pub(crate) fn create(new: &New<'_, Counters>) -> Result<Owned<Set>> {
    let device = new.device()?;
    let ops = device.ops();
    let create = ops.create_counters.ok_or_else(unsupported)?;
    // SAFETY: The size is that of the driver's counters; the handle outlives them. The count of
    // uses is zero, as the memory is.
    unsafe {
        make(
            device,
            ops.size_ib_counters,
            None,
            |set: *mut bindings::ib_counters| {
                (*set).device = device.raw();
                (*set).uobject = new.handle().raw();
            },
            |set| create(set, new.call().raw()),
        )
    }
}

/// Destroys counters that no flow uses. May sleep.
///
/// # Errors
///
/// `EBUSY`: it is in use; those of the driver.
pub(crate) fn destroy(set: Dying<'_, Counters>) -> Result<Dead<'_, Counters>> {
    if set.object().usecnt().is_used() {
        return Err(EBUSY);
    }
    let destroy = set.object().device().ops().destroy_counters;
    let destroy = destroy.ok_or_else(unsupported)?;
    // SAFETY: Nobody else uses the counters (`Dying`). Their memory was allocated by `make`.
    unsafe {
        let c = set.raw();
        to_result(destroy(c))?;
        bindings::kfree(c.cast());
        Ok(set.gone())
    }
}

/// A set of counters, with its driver's method that reads it.
pub(crate) struct Read<'a> {
    set: &'a Set,
    method: unsafe extern "C" fn(
        *mut bindings::ib_counters,
        *mut bindings::ib_counters_read_attr,
        *mut bindings::uverbs_attr_bundle,
    ) -> c_int,
}

impl<'a> Read<'a> {
    /// That of a set.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`.
    pub(crate) fn of(set: &'a Set) -> Result<Self> {
        let method = set.device().ops().read_counters.ok_or_else(unsupported)?;
        Ok(Self { set, method })
    }

    /// Reads values, and returns how many the driver has read. May sleep. `flags` are
    /// `enum ib_uverbs_read_counters_flags`.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn call(&self, call: &Call, flags: u32, values: &mut [u64]) -> Result<usize> {
        let mut attr = bindings::ib_counters_read_attr {
            counters_buff: values.as_mut_ptr(),
            ncounters: u32::try_from(values.len())?,
            flags,
        };
        // SAFETY: The method of the set's driver (`of`), with room for so many values.
        to_result(unsafe { (self.method)(self.set.raw(), &mut attr, call.raw()) })?;
        Ok(usize::try_from(attr.ncounters)?.min(values.len()))
    }
}
