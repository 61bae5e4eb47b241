// SPDX-License-Identifier: GPL-2.0

//! Completion queues (`struct ib_cq`).

use super::entry;
use super::make;
use super::qp;
use crate::edge::call::Call;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Handle;
use crate::edge::handle::Kept;
use crate::edge::handle::Made;
use crate::edge::handle::New;
use crate::edge::object::device::Port;
use crate::edge::unsupported;
use crate::object::cq::Cq;
use crate::object::qp::Qp;
use core::ffi::c_void;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use rdma::bindings;
use rdma::edge::device::Device;
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

/// Whether the driver can make queues for programs.
pub(crate) fn can_create(device: &Device) -> bool {
    let ops = device.ops();
    ops.create_user_cq.is_some() || ops.create_cq.is_some()
}

/// Makes a queue, whose events go to what is beside the handle. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver has no method for it; `ENOMEM`; those of the driver.
pub(crate) fn create<'c>(new: New<'c, Cq>, wanted: &Wanted) -> Result<Made<'c, Cq>> {
    let device = new.device()?;
    let ops = device.ops();
    let attr = bindings::ib_cq_init_attr {
        cqe: wanted.cqe,
        comp_vector: wanted.vector,
        flags: wanted.flags,
    };
    let method = ops
        .create_user_cq
        .or(ops.create_cq)
        .ok_or_else(unsupported)?;
    let handle = new.handle().raw();
    // SAFETY: The size is that of the driver's queues; the handle outlives the queue, and is what
    // its handlers expect.
    let cq = unsafe {
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
        )?
    };
    Ok(new.made_with(cq))
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

/// Changes the number of entries. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`; those of the driver.
pub(crate) fn resize(call: &Call, cq: &verbs::Cq, entries: u32) -> Result {
    let resize = cq.dev().ops().resize_user_cq.ok_or_else(unsupported)?;
    // SAFETY: The queue exists, and is a program's.
    to_result(unsafe { resize(cq.raw(), entries, call.udata().raw()) })
}

/// Requests an event for the next completion, or the next solicited one.
///
/// # Errors
///
/// `EOPNOTSUPP`. The driver's answer tells of missed completions, which nobody has asked for.
pub(crate) fn request_notify(cq: &verbs::Cq, solicited: bool) -> Result {
    let request = cq.dev().ops().req_notify_cq.ok_or_else(unsupported)?;
    let flags = match solicited {
        true => bindings::ib_cq_notify_flags_IB_CQ_SOLICITED,
        false => bindings::ib_cq_notify_flags_IB_CQ_NEXT_COMP,
    };
    // SAFETY: The driver's method, for a queue that is borrowed.
    unsafe { request(cq.raw(), flags) };
    Ok(())
}

/// Sets after how many completions, and after which time in microseconds, an event is raised.
///
/// # Errors
///
/// `EOPNOTSUPP`; those of the driver.
pub(crate) fn moderate(cq: &verbs::Cq, count: u16, period: u16) -> Result {
    // SAFETY: The queue exists: it is borrowed.
    to_result(unsafe { bindings::rdma_set_cq_moderation(cq.raw(), count, period) })
}

/// The handle of the queue pair of the last completion: most completions of a call have the same.
pub(crate) struct LastQp(Option<Kept<Qp>>);

impl LastQp {
    /// No completion was taken yet.
    pub(crate) const NONE: Self = Self(None);

    /// The number of a queue pair; 0 if there is no handle of it any more. Between two completions
    /// the program may have destroyed it, and have made another one at its address: the handle knows.
    fn number(&mut self, call: &Call, qp: *const bindings::ib_qp) -> u32 {
        if qp.is_null() {
            return 0;
        }
        if !self.0.as_deref().is_some_and(|last| qp::is_of(last, qp)) {
            self.0 = qp::handle_of(call.file(), qp);
        }
        let handle = self.0.as_deref();
        handle.map_or(0, |handle| handle.beside().number.load(Relaxed))
    }
}

/// Takes a completion. Its queue pair has the number 0 if there is no handle of it any more.
///
/// # Errors
///
/// Those of the driver.
pub(crate) fn poll(
    call: &Call,
    cq: &verbs::Cq,
    last: &mut LastQp,
) -> Result<Option<bindings::ib_uverbs_wc>> {
    let poll = cq.dev().ops().poll_cq.ok_or_else(unsupported)?;
    let mut wc = bindings::ib_wc::default();
    // SAFETY: The queue exists, and there is room for one completion.
    let count = unsafe { poll(cq.raw(), 1, &raw mut wc) };
    if count < 0 {
        return Err(Error::from_errno(count));
    }
    if count == 0 {
        return Ok(None);
    }
    let mut to = bindings::ib_uverbs_wc::default();
    // SAFETY: The driver has filled the completion in, or left zeros. All members of the unions are
    // numbers.
    unsafe {
        to.wr_id = *wc.__bindgen_anon_1.wr_id;
        to.ex.imm_data = wc.ex.imm_data;
    }
    to.qp_num = last.number(call, wc.qp);
    to.status = wc.status;
    to.opcode = wc.opcode;
    to.vendor_err = wc.vendor_err;
    to.byte_len = wc.byte_len;
    to.src_qp = wc.src_qp;
    // CAST: Flags, whose sign has no meaning.
    to.wc_flags = wc.wc_flags as u32;
    to.pkey_index = wc.pkey_index;
    // CAST: A completion without a port has a LID of 16 bits.
    to.slid = Port::of(cq.dev(), wc.port_num).map_or(wc.slid as u16, |port| port.lid(wc.slid));
    to.sl = wc.sl;
    to.dlid_path_bits = wc.dlid_path_bits;
    // CAST: The structure has no room for higher numbers.
    to.port_num = wc.port_num as u8;
    Ok(Some(to))
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
    let (handle, kind) = unsafe {
        (
            <&Handle<Cq> as FromC>::from_c(context.cast()),
            (*event).event,
        )
    };
    handle.beside().events.push(handle.user_handle(), kind);
}
