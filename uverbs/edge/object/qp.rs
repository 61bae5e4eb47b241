// SPDX-License-Identifier: GPL-2.0

//! Queue pairs (`struct ib_qp`).

use crate::edge::call::Call;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Handle;
use crate::edge::handle::Kept;
use crate::edge::handle::Made;
use crate::edge::handle::New;
use crate::object::mcast::Group;
use crate::object::qp::Qp;
use crate::private;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::uverbs::UFile;
use rdma::edge::uverbs::Uobject;
use rdma::edge::verbs;
use rdma::edge::verbs::QpAttr;
use rdma::edge::verbs::QpMake;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::sync::rcu;

/// The name of the module, for `rdma resource`.
const CALLER: &CStr = c"ib_uverbs";

/// Objects that a queue pair uses.
#[derive(Default)]
pub(crate) struct Parts<'a> {
    /// Protection domain.
    pub(crate) pd: Option<&'a verbs::Pd>,
    /// Completion queue of sends.
    pub(crate) send_cq: Option<&'a verbs::Cq>,
    /// Completion queue of receives.
    pub(crate) recv_cq: Option<&'a verbs::Cq>,
    /// Shared receive queue.
    pub(crate) srq: Option<&'a verbs::Srq>,
    /// XRC domain, of a target.
    pub(crate) xrcd: Option<&'a verbs::Xrcd>,
    /// Indirection table of receive work queues.
    pub(crate) table: Option<&'a verbs::RwqTable>,
}

/// What a queue pair is to be.
pub(crate) struct Asked {
    /// `enum ib_qp_type`.
    pub(crate) kind: u32,
    /// Sizes of its queues.
    pub(crate) cap: bindings::ib_uverbs_qp_cap,
    /// `enum ib_qp_create_flags`.
    pub(crate) flags: u32,
    /// Number that its packets bear as their source.
    pub(crate) source_qpn: Option<u32>,
    /// Whether all sends are completed with an entry.
    pub(crate) signals_all: bool,
}

fn c<V: View>(view: Option<&V>) -> *mut V::C {
    view.map_or(ptr::null_mut(), View::raw)
}

/// Makes a queue pair, which counts as a use of its parts. Returns it, and the sizes of its queues.
/// Its events are told to what is beside the handle. May sleep.
///
/// # Errors
///
/// `EINVAL`: the type does not fit the parts; `ENOMEM`; those of the driver.
pub(crate) fn create<'c>(
    new: New<'c, Qp>,
    parts: &Parts<'_>,
    asked: &Asked,
) -> Result<(Made<'c, Qp>, bindings::ib_uverbs_qp_cap)> {
    let device = new.device()?;
    let handle = new.handle().raw();
    let source = match asked.source_qpn {
        Some(_) => bindings::ib_qp_create_flags_IB_QP_CREATE_SOURCE_QPN,
        None => 0,
    };
    let mut attr = bindings::ib_qp_init_attr {
        event_handler: Some(event),
        qp_context: handle.cast(),
        send_cq: c(parts.send_cq),
        recv_cq: c(parts.recv_cq),
        srq: c(parts.srq),
        xrcd: c(parts.xrcd),
        rwq_ind_tbl: c(parts.table),
        cap: bindings::ib_qp_cap {
            max_send_wr: asked.cap.max_send_wr,
            max_recv_wr: asked.cap.max_recv_wr,
            max_send_sge: asked.cap.max_send_sge,
            max_recv_sge: asked.cap.max_recv_sge,
            max_inline_data: asked.cap.max_inline_data,
            max_rdma_ctxs: 0,
        },
        sq_sig_type: match asked.signals_all {
            true => bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
            false => bindings::ib_sig_type_IB_SIGNAL_REQ_WR,
        },
        qp_type: asked.kind,
        // CAST: A bit.
        create_flags: asked.flags | source as u32,
        source_qpn: asked.source_qpn.unwrap_or(0),
        ..Default::default()
    };
    // SAFETY: The parts are borrowed, and are counted as used before they are given back; the
    // handle begins with the structure that C has there, of which others only look at the handle,
    // and outlives the queue pair.
    let qp = unsafe {
        let qp = from_err_ptr(private::ib_create_qp_user(
            device.raw(),
            c(parts.pd),
            &mut attr,
            new.call().raw(),
            handle.cast(),
            CALLER.as_char_ptr(),
        ))?;
        private::ib_qp_usecnt_inc(qp);
        // Made, and nobody else uses it.
        Owned::new(NonNull::new(qp).ok_or(EINVAL)?)
    };
    let cap = bindings::ib_uverbs_qp_cap {
        max_send_wr: attr.cap.max_send_wr,
        max_recv_wr: attr.cap.max_recv_wr,
        max_send_sge: attr.cap.max_send_sge,
        max_recv_sge: attr.cap.max_recv_sge,
        max_inline_data: attr.cap.max_inline_data,
    };
    Ok((new.made_with(qp), cap))
}

/// Whether a queue pair, of which only the address is known, is that of a handle.
pub(super) fn is_of(handle: &Uobject, qp: *const bindings::ib_qp) -> bool {
    ptr::eq(handle.object().cast(), qp)
}

/// Finds the handle of the queue pair of a completion; `None` if no handle of the open file has that
/// queue pair. It may have been destroyed when the completion was taken, so the pointer is only
/// compared. A program may have any number of handles, so they are looked through in short sections,
/// without a lock. May sleep.
pub(super) fn handle_of(file: &UFile, qp: *const bindings::ib_qp) -> Option<Kept<Qp>> {
    const TURN: usize = 64;
    let mut from = 0;
    loop {
        let reader = rcu::read_lock();
        for _ in 0..TURN {
            let (number, handle) = file.idr().find(from, &reader)?;
            if is_of(handle, qp) {
                if let Some(handle) = Handle::<Qp>::of(handle).and_then(Handle::keep_found) {
                    return Some(handle);
                }
            }
            from = number.checked_add(1)?;
        }
    }
}

/// Opens the target of an XRC domain that has the number `qpn`. May sleep.
///
/// # Errors
///
/// `EINVAL`: there is none, or the type is not that of a target; `ENOMEM`.
pub(crate) fn open<'c>(
    new: New<'c, Qp>,
    xrcd: &verbs::Xrcd,
    (qpn, kind): (u32, u32),
) -> Result<Made<'c, Qp>> {
    let handle = new.handle().raw();
    let mut attr = bindings::ib_qp_open_attr {
        event_handler: Some(event),
        qp_context: handle.cast(),
        qp_num: qpn,
        qp_type: kind,
    };
    // SAFETY: The domain is borrowed; the handle outlives the queue pair, which nobody else has.
    let qp = unsafe {
        let qp = from_err_ptr(bindings::ib_open_qp(xrcd.raw(), &mut attr))?;
        (*qp).uobject = handle.cast();
        Owned::new(NonNull::new(qp).ok_or(EINVAL)?)
    };
    Ok(new.made_with(qp))
}

/// Destroys a queue pair, or closes an opened one. May sleep.
///
/// # Errors
///
/// `EBUSY`: it is a member of a multicast group; those of the driver.
pub(crate) fn destroy(qp: Dying<'_, Qp>) -> Result<Dead<'_, Qp>> {
    // SAFETY: Nobody else uses the queue pair (`Dying`), which exists until the call succeeds.
    unsafe {
        to_result(bindings::ib_destroy_qp_user(
            qp.raw(),
            qp.call().udata().raw(),
        ))?;
        Ok(qp.gone())
    }
}

/// The handler of events of queue pairs.
///
/// # Safety
///
/// For the core and drivers only, with an event, and the handle that is the context of the queue
/// pair, which it outlives.
unsafe extern "C" fn event(event: *mut bindings::ib_event, context: *mut c_void) {
    // SAFETY: This function's contract.
    let (handle, kind) = unsafe {
        (
            <&Handle<Qp> as FromC>::from_c(context.cast()),
            (*event).event,
        )
    };
    handle.beside().events.push(handle.user_handle(), kind);
}

/// Asks the driver for attributes. What the driver does not fill in is zero. May sleep.
///
/// # Errors
///
/// Those of the driver.
pub(crate) fn query(qp: &verbs::Qp, mask: u32) -> Result<(QpAttr, QpMake)> {
    let (attr, made) = (QpAttr::default(), QpMake::default());
    // CAST: C takes the bits as an `int`.
    let mask = mask as c_int;
    // SAFETY: The queue pair exists, and the structures are ours and initialised.
    to_result(unsafe { bindings::ib_query_qp(qp.raw(), attr.raw(), mask, made.raw()) })?;
    Ok((attr, made))
}

/// Changes the attributes in `mask` (`enum ib_qp_attr_mask`). May sleep.
///
/// # Errors
///
/// `EINVAL`, and those of the driver.
pub(crate) fn modify(call: &Call, qp: &verbs::Qp, attr: &QpAttr, mask: u32) -> Result {
    let mask = c_int::try_from(mask)?;
    // SAFETY: The queue pair exists, and the attributes are the caller's alone (`OfCall`).
    to_result(unsafe {
        bindings::ib_modify_qp_with_udata(qp.raw(), attr.raw(), mask, call.udata().raw())
    })
}

/// Whether programs without rights may use controlled Q_Keys. Any context.
pub(crate) fn has_open_qkeys() -> bool {
    // SAFETY: The function has no preconditions.
    unsafe { private::rdma_nl_get_privileged_qkey() }
}

/// Whether the task may send raw packets in the device's net namespace.
pub(crate) fn has_raw_right(call: &Call) -> bool {
    // SAFETY: The call is running, and is a program's.
    unsafe { bindings::rdma_uattrs_has_raw_cap(call.raw()) }
}

fn gid_of(group: &Group) -> bindings::ib_gid {
    bindings::ib_gid {
        raw: core::mem::ManuallyDrop::new(group.gid),
    }
}

/// Attaches a queue pair to a multicast group. May sleep.
///
/// # Errors
///
/// `EINVAL`: the group is none, or the queue pair is not for datagrams; those of the driver.
pub(crate) fn attach(qp: &verbs::Qp, group: &Group) -> Result {
    let mut gid = gid_of(group);
    // SAFETY: The queue pair exists; the function only reads the GID.
    to_result(unsafe { bindings::ib_attach_mcast(qp.raw(), &mut gid, group.lid) })
}

/// Detaches a queue pair from a multicast group. May sleep.
///
/// # Errors
///
/// As for [`attach`].
pub(crate) fn detach(qp: &verbs::Qp, group: &Group) -> Result {
    let mut gid = gid_of(group);
    // SAFETY: As in `attach`.
    to_result(unsafe { bindings::ib_detach_mcast(qp.raw(), &mut gid, group.lid) })
}
