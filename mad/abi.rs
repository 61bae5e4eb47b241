// SPDX-License-Identifier: GPL-2.0

//! What other modules call.

use super::agent::Agent;
use super::agent::Wish;
use super::buffer::flags;
use super::receive::Received;
use super::send::For;
use super::send::Plan;
use super::send::Send;
use super::transact;
use crate::device::Device;
use crate::errno::eprotonosupport;
use crate::proto::mad::registry::Request;
use crate::proto::mad::registry::Rule;
use crate::proto::mad::rmpp;
use crate::proto::mad::wire;
use crate::proto::mad::wire::Special;
use core::ptr;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;

rdma::exported!(
    ib_create_send_mad,
    ib_free_recv_mad,
    ib_free_send_mad,
    ib_get_mad_data_offset,
    ib_get_rmpp_segment,
    ib_is_mad_class_rmpp,
    ib_mad_kernel_rmpp_agent,
    ib_modify_mad,
    ib_post_send_mad,
    ib_register_mad_agent,
    ib_response_mad,
    ib_unregister_mad_agent,
);

/// Whether a MAD answers something. Any context.
///
/// # Safety
///
/// The header is valid.
#[no_mangle]
pub unsafe extern "C" fn ib_response_mad(header: *const bindings::ib_mad_hdr) -> c_int {
    // SAFETY: By this function's duty, and it has as many bytes.
    let bytes = unsafe { &*header.cast::<[u8; wire::HEADER]>() };
    c_int::from(wire::Header::parse(bytes).is_some_and(|header| header.is_response()))
}

/// See [`wire::has_rmpp`]. Any context.
#[no_mangle]
pub unsafe extern "C" fn ib_is_mad_class_rmpp(class: u8) -> c_int {
    c_int::from(wire::has_rmpp(class))
}

/// See [`wire::data_offset`]. Any context.
#[no_mangle]
pub unsafe extern "C" fn ib_get_mad_data_offset(class: u8) -> c_int {
    // 64 at most.
    wire::data_offset(class) as c_int
}

/// Whether the core splits and puts together an agent's transfers. Any context.
///
/// # Safety
///
/// The agent is registered.
#[no_mangle]
pub unsafe extern "C" fn ib_mad_kernel_rmpp_agent(agent: *const bindings::ib_mad_agent) -> c_int {
    // SAFETY: By this function's duty.
    let (version, flags) = unsafe { ((*agent).rmpp_version, (*agent).flags) };
    c_int::from(version != 0 && flags & bindings::IB_MAD_USER_RMPP == 0)
}

/// Registers an agent. May sleep.
///
/// Errors: `EPROTONOSUPPORT` if the port has no such queue pair; `ENODEV` if it has no MADs;
/// `EINVAL` for a request that makes no sense, or that is taken; `ENOMEM`.
///
/// # Safety
///
/// The device is registered until the agent is not; `request` is valid or null; handlers and
/// context are the caller's, who has them work until then.
#[no_mangle]
pub unsafe extern "C" fn ib_register_mad_agent(
    device: *mut bindings::ib_device,
    port: u32,
    qp_type: bindings::ib_qp_type,
    request: *mut bindings::ib_mad_reg_req,
    rmpp_version: u8,
    send: bindings::ib_mad_send_handler,
    recv: bindings::ib_mad_recv_handler,
    context: *mut c_void,
    flags: u32,
) -> *mut bindings::ib_mad_agent {
    // SAFETY: By this function's duty.
    let (device, request) = unsafe { (Device::from_raw(device), request.as_ref()) };
    let wish = |qp| Wish {
        qp,
        rule: None,
        rmpp_version,
        flags,
        send,
        recv,
        context,
    };
    let made = special(device, port, qp_type)
        .and_then(|qp| register(device, port, request.map(read), wish(qp)));
    match made {
        Ok(agent) => Agent::into_raw(agent),
        Err(error) => error.to_ptr(),
    }
}

/// The queue pair of a type, if a port has it.
fn special(device: &Device, port: u32, qp_type: bindings::ib_qp_type) -> Result<Special> {
    let (qp, cap) = match qp_type {
        bindings::ib_qp_type_IB_QPT_SMI => (Special::Smi, bindings::RDMA_CORE_CAP_IB_SMI),
        bindings::ib_qp_type_IB_QPT_GSI => (Special::Gsi, bindings::RDMA_CORE_CAP_IB_CM),
        _ => return Err(EINVAL),
    };
    let caps = device
        .immutable(port)
        .map_or(0, |immutable| immutable.core_cap_flags);
    if caps & cap == 0 {
        return Err(eprotonosupport());
    }
    Ok(qp)
}

/// A request, as the engine has it.
fn read(request: &bindings::ib_mad_reg_req) -> Request {
    let [low, high] = request.method_mask;
    Request {
        class: request.mgmt_class,
        version: request.mgmt_class_version,
        oui: request.oui,
        methods: u128::from(low as u64) | u128::from(high as u64) << 64,
    }
}

fn register(
    device: &Device,
    port: u32,
    request: Option<Request>,
    wish: Wish,
) -> Result<Arc<Agent>> {
    if wish.rmpp_version != 0 && wish.rmpp_version != rmpp::VERSION {
        return Err(EINVAL);
    }
    let rule = match request {
        Some(request) => {
            if wish.recv.is_none() {
                return Err(EINVAL);
            }
            Some(Rule::new(request, wish.qp, wish.rmpp_version != 0).map_err(|_| EINVAL)?)
        }
        None if wish.send.is_none() || wish.flags & bindings::IB_MAD_USER_RMPP != 0 => {
            return Err(EINVAL)
        }
        None => None,
    };
    let port = super::find(device, port).ok_or(ENODEV)?;
    Agent::register(&port, Wish { rule, ..wish })
}

/// Unregisters an agent: its sends end, and nothing is handed to it from when this returns.
/// Waits for sends that are not freed yet. May sleep; not from a handler.
///
/// # Safety
///
/// The agent is registered, and not used any more but for sends that exist.
#[no_mangle]
pub unsafe extern "C" fn ib_unregister_mad_agent(agent: *mut bindings::ib_mad_agent) {
    // SAFETY: By this function's duty.
    let agent = unsafe { Agent::take(agent) };
    Agent::unregister(&agent);
}

/// Allocates a send. The context is that of `gfp`.
///
/// Errors: `EINVAL` if the message does not fit or cannot be split; `ENOMEM`; `ENODEV` if the
/// agent is being unregistered.
///
/// # Safety
///
/// The agent is registered.
#[no_mangle]
pub unsafe extern "C" fn ib_create_send_mad(
    agent: *mut bindings::ib_mad_agent,
    remote_qpn: u32,
    pkey_index: u16,
    rmpp_active: c_int,
    hdr_len: c_int,
    data_len: c_int,
    gfp: bindings::gfp_t,
    base_version: u8,
) -> *mut bindings::ib_mad_send_buf {
    let make = || {
        let plan = Plan {
            remote_qpn,
            pkey_index,
            rmpp: rmpp_active != 0,
            header: usize::try_from(hdr_len).map_err(|_| EINVAL)?,
            data: usize::try_from(data_len).map_err(|_| EINVAL)?,
            base_version,
        };
        // SAFETY: By this function's duty.
        let agent = unsafe { Agent::borrow(agent) };
        Send::new(&agent, &plan, For::Consumer, flags(gfp))
    };
    match make() {
        Ok(send) => {
            let buf = send.buf();
            // The consumer's count.
            let _ = Arc::into_raw(send);
            buf
        }
        Err(error) => error.to_ptr(),
    }
}

/// Frees a send. Any context.
///
/// # Safety
///
/// It was made by [`ib_create_send_mad`], is not posted, and the caller forgets it.
#[no_mangle]
pub unsafe extern "C" fn ib_free_send_mad(buf: *mut bindings::ib_mad_send_buf) {
    // SAFETY: By this function's duty the caller's count is ours now.
    unsafe {
        let send = Send::of_buf(buf);
        drop(Arc::from_raw(Arc::as_ptr(&send)));
        // And that of the line above the last.
        drop(send);
    }
}

/// The data of a segment, from 1. Any context.
///
/// # Safety
///
/// As for [`ib_free_send_mad`], but it is not forgotten.
#[no_mangle]
pub unsafe extern "C" fn ib_get_rmpp_segment(
    buf: *mut bindings::ib_mad_send_buf,
    number: c_int,
) -> *mut c_void {
    // SAFETY: By this function's duty.
    let send = unsafe { Send::of_buf(buf) };
    send.segment(u32::try_from(number).unwrap_or(0))
        .map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Posts sends, which follow one another. Any context.
///
/// Errors: `EINVAL` if the agent cannot send one; the driver's. That send and those after it
/// are the caller's again, and `bad`, unless it is null, is that send.
///
/// # Safety
///
/// They are such as [`ib_create_send_mad`] makes, filled in and not posted.
#[no_mangle]
pub unsafe extern "C" fn ib_post_send_mad(
    mut buf: *mut bindings::ib_mad_send_buf,
    bad: *mut *mut bindings::ib_mad_send_buf,
) -> c_int {
    if buf.is_null() {
        return EINVAL.to_errno();
    }
    while !buf.is_null() {
        // SAFETY: By this function's duty. The next is read first: this one may end, and be
        // freed, before it returns.
        let (send, next) = unsafe { (Send::of_buf(buf), (*buf).next) };
        if let Err(error) = transact::post(&send) {
            if !bad.is_null() {
                // SAFETY: By this function's duty.
                unsafe { *bad = buf };
            }
            return error.to_errno();
        }
        buf = next;
    }
    0
}

/// Changes how long a send waits for its response; 0 cancels it. Any context.
///
/// Errors: `EINVAL` if it is not posted, or has ended.
///
/// # Safety
///
/// Null, or one such as [`ib_create_send_mad`] makes.
#[no_mangle]
pub unsafe extern "C" fn ib_modify_mad(
    buf: *mut bindings::ib_mad_send_buf,
    timeout_ms: u32,
) -> c_int {
    if buf.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: By this function's duty.
    let send = unsafe { Send::of_buf(buf) };
    match transact::modify(&send, timeout_ms) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Frees a message that was handed over. Any context.
///
/// # Safety
///
/// It was, and the caller forgets it.
#[no_mangle]
pub unsafe extern "C" fn ib_free_recv_mad(message: *mut bindings::ib_mad_recv_wc) {
    // SAFETY: By this function's duty.
    drop(unsafe { Received::from_raw(message) });
}
