// SPDX-License-Identifier: GPL-2.0

//! Completion queues (`struct ib_cq`).

use super::entry;
use super::make;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Handle;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::cq::Cq;
use core::ffi::c_void;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::verbs;
use rdma::edge::FromC;
use rdma::edge::View;

/// What a program asks of a queue.
pub(crate) struct Wanted {
    /// Number of entries.
    pub(crate) cqe: u32,
    /// Completion vector.
    pub(crate) vector: u32,
    /// `enum ib_uverbs_ex_create_cq_flags`.
    pub(crate) flags: u32,
}

/// Makes a queue, whose events go to what is beside the handle. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver has no method for it; `ENOMEM`; those of the driver.
pub(crate) fn create(new: &New<'_, Cq>, wanted: &Wanted) -> Result<Owned<verbs::Cq>> {
    let device = new.device()?;
    let ops = device.ops();
    let attr = bindings::ib_cq_init_attr {
        cqe: wanted.cqe,
        comp_vector: wanted.vector,
        flags: wanted.flags,
    };
    let method = ops.create_user_cq.or(ops.create_cq).ok_or(unsupported())?;
    let handle = new.handle().raw();
    // SAFETY: The size is that of the driver's queues; the handle outlives the queue, and is what
    // its handlers expect.
    unsafe {
        make(
            device,
            ops.size_ib_cq,
            entry!(bindings::ib_cq, rdma_restrack_type_RDMA_RESTRACK_CQ),
            |cq: *mut bindings::ib_cq| {
                (*cq).device = device.raw();
                (*cq).uobject = handle.cast();
                (*cq).comp_handler = Some(completion);
                (*cq).event_handler = Some(event);
                (*cq).cq_context = handle.cast();
            },
            |cq| method(cq, &raw const attr, new.call().raw()),
        )
    }
}

/// Destroys a queue. May sleep.
///
/// # Errors
///
/// `EBUSY`: other queues use it; those of the driver.
pub(crate) fn destroy(cq: Dying<'_, Cq>) -> Result<Dead<'_, Cq>> {
    // SAFETY: Nobody else uses the queue (`Dying`).
    unsafe {
        to_result(bindings::ib_destroy_cq_user(
            cq.raw(),
            cq.call().udata().raw(),
        ))?;
        Ok(cq.gone())
    }
}

/// The handler of completions.
///
/// # Safety
///
/// For drivers only, with the context of a queue of this module.
unsafe extern "C" fn completion(_: *mut bindings::ib_cq, context: *mut c_void) {
    // SAFETY: This function's contract: the context is the queue's handle (`create`).
    let handle = unsafe { <&Handle<Cq> as FromC>::from_c(context.cast()) };
    handle.beside().completions.push(handle.user_handle());
}

/// The handler of events.
///
/// # Safety
///
/// For drivers only, with an event of a queue of this module, and its context.
unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
    // SAFETY: This function's contract: the context is the queue's handle (`create`).
    let (handle, kind) =
        unsafe { (<&Handle<Cq> as FromC>::from_c(context.cast()), (*event).event) };
    handle.beside().events.push(handle.user_handle(), kind);
}
