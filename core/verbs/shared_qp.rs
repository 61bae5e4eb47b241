// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that several users open: the targets of extended reliable connections.
//!
//! The queue pair proper belongs to the kernel, is in its domain by its number, and counts
//! those who have it open. Each of them has a handle, an `ib_qp` of its own that no driver
//! knows, in the list of the queue pair proper. That list is under the device's
//! `qp_open_list_lock`; who opens and closes excludes others by the domain's semaphore.
//!
//! ```text
//!   Xrcd -- tgt_qps --> real qp (usecnt = handles) <-- real_qp -- handle, handle, ...
//! ```

use super::qp::create as create_real;
use super::qp::destroy as destroy_real;
use super::qp::For;
use crate::device::Device;
use crate::object::tables::OpenAttr;
use crate::object::tables::QpEvent;
use crate::object::tables::QpInit;
use crate::object::tables::QpMake;
use crate::object::tables::UQp;
use crate::object::Given;
use crate::object::Owned;
use crate::object::Pd;
use crate::object::Qp;
use crate::object::Xrcd;
use crate::security;
use core::ptr::NonNull;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::xrcd::free_handle;
use rdma::edge::xrcd::new_handle;
use rdma::edge::xrcd::share as make_shared;
use rdma::edge::xrcd::Closing;
use rdma::edge::xrcd::Handler;
use rdma::edge::xrcd::Handles;
use rdma::edge::xrcd::Targets;
use rdma::edge::xrcd::Told;

/// Everybody who has a queue pair open.
struct Users;

impl Told for Users {
    fn told(event: &QpEvent, real: &Qp) {
        let handles = Handles::lock(real);
        let named = event.qp();
        handles.for_each(|handle| {
            event.set_qp(handle);
            handle.pass_on(event);
        });
        event.set_qp(named);
    }
}

/// Makes a handle to a queue pair made by [`create`].
fn open(real: &Qp, attr: &OpenAttr, uobject: Option<&UQp>) -> Result<Owned<Qp>> {
    let handle = new_handle(
        real,
        QpInit {
            dev: real.dev(),
            pd: None,
            send_cq: None,
            recv_cq: None,
            srq: None,
            rwq_ind_tbl: None,
            uobject,
            event_handler: attr.event_handler(),
            registered_event_handler: None,
            qp_context: attr.qp_context(),
            qp_type: real.qp_type(),
        },
    )?;
    // `close` closes it.
    if let Err(error) = security::open(real, NonNull::from(&*handle).cast()) {
        free_handle(handle);
        return Err(error);
    }
    Handles::lock(real).add(&handle, real.usecnt().count());
    Ok(handle)
}

/// Frees a handle that nobody uses any more.
///
/// # Errors
///
/// `EINVAL` for a queue pair proper.
fn close(handle: Owned<Qp>) -> Result {
    if !handle.is_handle() {
        return Err(EINVAL);
    }
    let real = handle.real();
    let used = Handles::lock(real).remove(&handle);
    security::close(real, NonNull::from(&*handle).cast());
    drop(used);
    free_handle(handle);
    Ok(())
}

/// Makes a queue pair and the first handle to it. May sleep.
pub(super) fn create(
    device: &Device,
    pd: Option<&Pd>,
    attr: &QpMake,
    uobject: Option<&UQp>,
    caller: Option<&'static CStr>,
) -> Result<Owned<Qp>> {
    let xrcd = attr.xrcd().ok_or(EINVAL)?;
    let mut real = create_real(device, pd, attr, For::Kernel(caller))?;
    match share(&mut real, xrcd, attr, uobject) {
        Ok(handle) => Ok(handle),
        Err(error) => {
            // What `share` did it has undone.
            let _: Result = destroy_real(Given::of(real), None);
            Err(error)
        }
    }
}

/// Puts a new queue pair into its domain, and opens it for the one who made it.
fn share(
    real: &mut Owned<Qp>,
    xrcd: &Xrcd,
    attr: &QpMake,
    uobject: Option<&UQp>,
) -> Result<Owned<Qp>> {
    make_shared(real, xrcd, Handler::of::<Users>());
    // The count keeps the domain as long as the queue pair.
    let used = xrcd.usecnt().count();
    let wish = OpenAttr::new(attr.event_handler(), attr.qp_context());
    let handle = open(real, &wish, uobject)?;
    // Given back when the last handle is closed.
    if let Err(error) = xrcd.insert(real, used) {
        let _: Result = close(handle);
        return Err(error);
    }
    Ok(handle)
}

/// Closes a handle, and destroys the queue pair if it was the last. May sleep.
///
/// A driver that refuses leaves a queue pair that nobody can reach any more, which keeps its
/// domain busy.
pub(super) fn close_and_destroy(handle: Owned<Qp>) {
    let closing = Closing::of(&handle);
    let _: Result = close(handle);
    let Some((real, used)) = closing.and_then(Closing::last) else {
        return;
    };
    if destroy_real(Given::of(real), None).is_err() {
        used.keep();
    }
}

/// Opens a queue pair of a domain by its number: `EINVAL` if there is none. May sleep.
fn open_by_number(xrcd: &Xrcd, attr: &OpenAttr) -> Result<Owned<Qp>> {
    if attr.qp_type() != bindings::ib_qp_type_IB_QPT_XRC_TGT {
        return Err(EINVAL);
    }
    let targets = Targets::read(xrcd);
    let real = targets.find(attr.qp_num()).ok_or(EINVAL)?;
    open(real, attr, None)
}

/// Closes a handle that nobody uses any more, and nothing else. May sleep.
fn close_only(handle: Given<Qp>) -> Result {
    close(handle.owned()?)
}

rdma::export! {
    in rdma::bindings;

    /// See [`open_by_number`].
    fn ib_open_qp(xrcd: &Xrcd, attr: &OpenAttr) -> Result<Owned<Qp>> = open_by_number;
    /// See [`close_only`].
    fn ib_close_qp(qp: Given<Qp>) -> Result = close_only;
}
