// SPDX-License-Identifier: GPL-2.0

//! Completion counters (`struct ib_comp_cntr`).
//!
//! A queue pair has a table of the counters that count its operations. It changes while a call has the
//! queue pair alone; `ib_core` gives the counters back when the queue pair is destroyed.

use super::entry;
use super::make;
use crate::edge::call::Alone;
use crate::edge::call::Call;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::comp_cntr::CompCntr;
use crate::private;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::object::Owned;
use rdma::edge::object::UseCount;
use rdma::edge::verbs;
use rdma::edge::verbs::Restrack;
use rdma::edge::View;
use rdma::features::comp_cntr::ib_comp_cntr;
use rdma::features::comp_cntr::ib_comp_cntr_caps;
use rdma::features::comp_cntr::ib_qp_attach_comp_cntr_attr;
use rdma::features::comp_cntr::methods;
use rdma::features::comp_cntr::of_qp;
use rdma::features::comp_cntr::Methods;
use rdma::features::comp_cntr::KIND;

rdma::c_struct! {
    /// A completion counter.
    pub(crate) struct Counter: ib_comp_cntr;
    fields {
        /// Restrack entry.
        embed res: Restrack;
        /// Number of uses by queue pairs.
        embed usecnt: UseCount;
    }
}

impl Counter {
    /// Its device.
    fn dev(&self) -> &Device {
        // SAFETY: `create` has set the device, which exists as long as its counters.
        unsafe { Device::view((*self.raw()).device) }
    }

    /// The methods of its driver.
    fn methods(&self) -> Methods {
        methods(self.dev())
    }
}

/// Makes a counter. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver cannot make, destroy or attach one; `ENOMEM`; those of the driver.
pub(crate) fn create(new: &New<'_, CompCntr>) -> Result<Owned<Counter>> {
    let device = new.device()?;
    let Methods {
        size,
        create: Some(create),
        destroy: Some(_),
        attach: Some(_),
        ..
    } = methods(device)
    else {
        return Err(unsupported());
    };
    // SAFETY: The size is that of the driver's counters; the handle outlives them. The count of uses
    // is zero, as the memory is.
    unsafe {
        make(
            device,
            size,
            entry!(ib_comp_cntr, as KIND),
            |counter: *mut ib_comp_cntr| {
                (*counter).device = device.raw();
                (*counter).uobject = new.handle().raw();
            },
            |counter| create(counter, new.call().raw()),
        )
    }
}

/// Destroys a counter that no queue pair uses. May sleep.
///
/// # Errors
///
/// `EBUSY`: it is in use; those of the driver.
pub(crate) fn destroy(counter: Dying<'_, CompCntr>) -> Result<Dead<'_, CompCntr>> {
    if counter.object().usecnt().is_used() {
        return Err(EBUSY);
    }
    let destroy = counter.object().methods().destroy;
    let destroy = destroy.ok_or_else(unsupported)?;
    let entry = counter.object().res().raw();
    // SAFETY: Nobody else uses the counter (`Dying`), but readers of its entry, which is taken out
    // before the driver is called, and put back if the driver fails. `make` has allocated the memory.
    unsafe {
        private::rdma_restrack_begin_del(entry);
        if let Err(error) = to_result(destroy(counter.raw())) {
            private::rdma_restrack_abort_del(entry);
            return Err(error);
        }
        private::rdma_restrack_commit_del(entry);
        bindings::kfree(counter.raw().cast());
        Ok(counter.gone())
    }
}

/// A counter, with its driver's method that changes it.
pub(crate) struct Modify<'a> {
    counter: &'a Counter,
    method: unsafe extern "C" fn(*mut ib_comp_cntr, u32, u32, u64) -> c_int,
}

impl<'a> Modify<'a> {
    /// That of a counter.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`.
    pub(crate) fn of(counter: &'a Counter) -> Result<Self> {
        let method = counter.methods().modify.ok_or_else(unsupported)?;
        Ok(Self { counter, method })
    }

    /// Changes the value of an entry (`enum ib_comp_cntr_entry`) as `op` says
    /// (`enum ib_comp_cntr_modify_op`). The driver knows both. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn call(&self, entry: u32, op: u32, value: u64) -> Result {
        // SAFETY: The method of the counter's driver (`of`).
        to_result(unsafe { (self.method)(self.counter.raw(), entry, op, value) })
    }
}

/// A counter, with its driver's method that reads it.
pub(crate) struct Read<'a> {
    counter: &'a Counter,
    method: unsafe extern "C" fn(*mut ib_comp_cntr, u32, *mut u64) -> c_int,
}

impl<'a> Read<'a> {
    /// That of a counter.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`.
    pub(crate) fn of(counter: &'a Counter) -> Result<Self> {
        let method = counter.methods().read.ok_or_else(unsupported)?;
        Ok(Self { counter, method })
    }

    /// Reads the value of an entry (`enum ib_comp_cntr_entry`). May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn call(&self, entry: u32) -> Result<u64> {
        let mut value = 0;
        // SAFETY: The method of the counter's driver (`of`), which writes to `value` only.
        to_result(unsafe { (self.method)(self.counter.raw(), entry, &mut value) })?;
        Ok(value)
    }
}

/// A counter and a queue pair, with the driver's method that attaches them.
pub(crate) struct Attach<'a> {
    counter: &'a Counter,
    qp: Alone<'a, verbs::Qp>,
    method: unsafe extern "C" fn(
        *mut bindings::ib_qp,
        *mut ib_comp_cntr,
        *mut ib_qp_attach_comp_cntr_attr,
    ) -> c_int,
}

impl<'a> Attach<'a> {
    /// That of a counter and a queue pair.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`: the driver has no such method; `EINVAL`: the queue pair is a handle of a shared
    /// one, or of another device.
    pub(crate) fn of(counter: &'a Counter, qp: Alone<'a, verbs::Qp>) -> Result<Self> {
        let method = counter.methods().attach.ok_or_else(unsupported)?;
        if qp.is_handle() || !core::ptr::eq(counter.dev(), qp.dev()) {
            return Err(EINVAL);
        }
        Ok(Self {
            counter,
            qp,
            method,
        })
    }

    /// Attaches the counter to the queue pair for operations (`enum ib_qp_attach_comp_cntr_op`). May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`: no operation; `EBUSY`: one of them is counted already; `ENOMEM`; those of the driver.
    pub(crate) fn call(self, operations: u32) -> Result {
        if operations == 0 {
            return Err(EINVAL);
        }
        // SAFETY: The queue pair exists: it is borrowed.
        let (table, counted) = unsafe { of_qp(self.qp.raw()) }.ok_or_else(unsupported)?;
        let index = c_ulong::try_from(operations)?;
        let mut attr = ib_qp_attach_comp_cntr_attr {
            op_mask: operations,
        };
        // SAFETY: `ib_core` has initialised the table, since the queue pair is no handle (`of`). Nobody else
        // uses it, nor `counted`, while the call has the queue pair alone (`Alone`). The counter stays
        // in the table only if it is counted as used, so it is not destroyed before the queue pair.
        // The method is that of the driver of both (`of`).
        unsafe {
            if *counted & operations != 0 {
                return Err(EBUSY);
            }
            to_result(bindings::xa_err(bindings::xa_store(
                table,
                index,
                self.counter.raw().cast(),
                bindings::GFP_KERNEL,
            )))?;
            if let Err(error) =
                to_result((self.method)(self.qp.raw(), self.counter.raw(), &mut attr))
            {
                bindings::xa_erase(table, index);
                return Err(error);
            }
            *counted |= operations;
        }
        self.counter.usecnt().count().keep();
        Ok(())
    }
}

/// A call, with the method of its device's driver that tells what the device can count.
pub(crate) struct QueryCaps<'a> {
    call: &'a Call,
    device: &'a Device,
    method: unsafe extern "C" fn(
        *mut bindings::ib_device,
        *mut ib_comp_cntr_caps,
        *mut bindings::uverbs_attr_bundle,
    ) -> c_int,
}

impl<'a> QueryCaps<'a> {
    /// That of the call's device.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the file has no context; `EOPNOTSUPP`.
    pub(crate) fn of(call: &'a Call) -> Result<Self> {
        let device = call.ucontext()?.dev();
        let method = methods(device).query_caps.ok_or_else(unsupported)?;
        Ok(Self {
            call,
            device,
            method,
        })
    }

    /// Asks the driver. May sleep.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub(crate) fn call(&self) -> Result<ib_comp_cntr_caps> {
        let mut caps = ib_comp_cntr_caps::default();
        // SAFETY: The method of the device's driver (`of`), which writes to `caps` only; the call is
        // running.
        to_result(unsafe { (self.method)(self.device.raw(), &mut caps, self.call.raw()) })?;
        Ok(caps)
    }
}
