// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues (`struct ib_srq`).

use crate::edge::call::Call;
use crate::edge::handle;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Handle;
use crate::edge::handle::New;
use crate::edge::unsupported;
use crate::object::srq::Srq;
use core::ffi::c_void;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::verbs;
use rdma::edge::FromC;
use rdma::edge::View;

/// What a program asks of a queue.
pub(crate) struct Wanted<'a> {
    /// Maximum number of posted receives.
    pub(crate) max_wr: u32,
    /// Maximum number of scatter list entries of a receive.
    pub(crate) max_sge: u32,
    /// Number of receives below which an event is raised.
    pub(crate) limit: u32,
    /// The type.
    pub(crate) kind: Type<'a>,
}

/// The type of a queue, with what only queues of the type have.
#[derive(Clone, Copy)]
pub(crate) enum Type<'a> {
    /// For queue pairs of all types but XRC.
    Basic,
    /// For XRC: completion queue and domain.
    Xrc(&'a verbs::Cq, &'a verbs::Xrcd),
    /// With tag matching: completion queue, and maximum number of tags.
    TagMatching(&'a verbs::Cq, u32),
}

/// A queue that was made.
pub(crate) struct Made<'c> {
    /// The queue.
    pub(crate) srq: handle::Made<'c, Srq>,
    /// See [`Wanted`].
    pub(crate) max_wr: u32,
    /// See [`Wanted`].
    pub(crate) max_sge: u32,
    /// The number, of an XRC queue.
    pub(crate) number: Option<u32>,
}

/// Makes a queue, whose events go to what is beside the handle. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`: the driver has no method for it; `ENOMEM`; those of the driver.
pub(crate) fn create<'c>(
    new: New<'c, Srq>,
    pd: &verbs::Pd,
    wanted: &Wanted<'_>,
) -> Result<Made<'c>> {
    if pd.dev().ops().create_srq.is_none() {
        return Err(unsupported());
    }
    let handle = new.handle().raw();
    let mut attr = bindings::ib_srq_init_attr {
        event_handler: Some(event),
        srq_context: handle.cast(),
        attr: bindings::ib_srq_attr {
            max_wr: wanted.max_wr,
            max_sge: wanted.max_sge,
            srq_limit: wanted.limit,
        },
        ..Default::default()
    };
    match wanted.kind {
        Type::Basic => attr.srq_type = bindings::ib_srq_type_IB_SRQT_BASIC,
        Type::Xrc(cq, domain) => {
            attr.srq_type = bindings::ib_srq_type_IB_SRQT_XRC;
            attr.ext.cq = cq.raw();
            attr.ext.__bindgen_anon_1.xrc = ManuallyDrop::new(
                bindings::ib_srq_init_attr__bindgen_ty_1__bindgen_ty_1__bindgen_ty_1 {
                    xrcd: domain.raw(),
                },
            );
        }
        Type::TagMatching(cq, tags) => {
            attr.srq_type = bindings::ib_srq_type_IB_SRQT_TM;
            attr.ext.cq = cq.raw();
            attr.ext.__bindgen_anon_1.tag_matching = ManuallyDrop::new(
                bindings::ib_srq_init_attr__bindgen_ty_1__bindgen_ty_1__bindgen_ty_2 {
                    max_num_tags: tags,
                },
            );
        }
    }
    // SAFETY: Domains and queues are locked for the call, and are counted by the new queue. The
    // handle outlives it, and is what its handler expects.
    let srq: Owned<verbs::Srq> = unsafe {
        let srq = from_err_ptr(bindings::ib_create_srq_user(
            pd.raw(),
            &raw mut attr,
            handle.cast(),
            new.call().udata().raw(),
        ))?;
        Owned::new(NonNull::new(srq).ok_or(ENOMEM)?)
    };
    let number = match wanted.kind {
        // SAFETY: The type determines the member of the union. Nobody else uses the queue yet.
        Type::Xrc(..) => Some(unsafe { (*srq.raw()).ext.__bindgen_anon_1.xrc.srq_num }),
        Type::Basic | Type::TagMatching(..) => None,
    };
    Ok(Made {
        srq: new.made_with(srq),
        max_wr: attr.attr.max_wr,
        max_sge: attr.attr.max_sge,
        number,
    })
}

/// Changes what `mask` says (`enum ib_srq_attr_mask`). May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`; those of the driver.
pub(crate) fn modify(call: &Call, srq: &verbs::Srq, max_wr: u32, limit: u32, mask: u32) -> Result {
    let modify = srq.dev().ops().modify_srq.ok_or_else(unsupported)?;
    let mut attr = bindings::ib_srq_attr {
        max_wr,
        max_sge: 0,
        srq_limit: limit,
    };
    // SAFETY: The queue exists, and is a program's.
    to_result(unsafe { modify(srq.raw(), &raw mut attr, mask, call.udata().raw()) })
}

/// Returns size and limit. May sleep.
///
/// # Errors
///
/// `EOPNOTSUPP`; those of the driver.
pub(crate) fn query(srq: &verbs::Srq) -> Result<bindings::ib_srq_attr> {
    let mut attr = bindings::ib_srq_attr::default();
    // SAFETY: The queue exists: it is borrowed.
    to_result(unsafe { bindings::ib_query_srq(srq.raw(), &raw mut attr) })?;
    Ok(attr)
}

/// Destroys a queue. May sleep.
///
/// # Errors
///
/// `EBUSY`: queue pairs use it; those of the driver.
pub(crate) fn destroy(srq: Dying<'_, Srq>) -> Result<Dead<'_, Srq>> {
    // SAFETY: Nobody else uses the queue (`Dying`).
    unsafe {
        to_result(bindings::ib_destroy_srq_user(
            srq.raw(),
            srq.call().udata().raw(),
        ))?;
        Ok(srq.gone())
    }
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
            <&Handle<Srq> as FromC>::from_c(context.cast()),
            (*event).event,
        )
    };
    handle.beside().events.push(handle.user_handle(), kind);
}
