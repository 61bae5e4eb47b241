// SPDX-License-Identifier: GPL-2.0

//! Queue pairs shared by several users: XRC targets.
//!
//! The real queue pair belongs to the kernel, is in the table of its XRC domain by its number, and
//! counts its handles. Each user has a handle: an `ib_qp` that the driver does not know, in the
//! list of the real queue pair. The device's `qp_open_list_lock` guards that list. The domain's
//! semaphore is held for reading to open a queue pair by its number, and for writing to close a
//! handle and destroy the queue pair after the last one.
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
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::xrcd::Closing;
use rdma::edge::xrcd::Handler;
use rdma::edge::xrcd::NewTarget;
use rdma::edge::xrcd::Shared;
use rdma::edge::xrcd::Targets;
use rdma::edge::xrcd::Told;
use rdma::edge::xrcd::Unlisted;

/// All handles of a queue pair.
struct Users;

impl Told for Users {
    fn told(event: &QpEvent, real: Shared<'_>) {
        real.for_each(|handle| handle.raise(event.kind()));
    }
}

/// Creates a handle to a queue pair created by [`create`].
fn open(real: Shared<'_>, attr: &OpenAttr, uobject: Option<&UQp>) -> Result<Owned<Qp>> {
    let handle = Unlisted::new(
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
    // Undone by `close`.
    if let Err(error) = security::open(&real, &handle) {
        handle.free();
        return Err(error);
    }
    Ok(handle.list())
}

/// Frees a handle that is no longer in use.
///
/// # Errors
///
/// `EINVAL` for a real queue pair.
fn close(handle: Owned<Qp>) -> Result {
    let handle = Unlisted::of(handle)?;
    security::close(handle.real(), &handle);
    handle.free();
    Ok(())
}

/// Creates a queue pair and its first handle. May sleep.
pub(super) fn create(
    device: &Device,
    pd: Option<&Pd>,
    attr: &QpMake,
    uobject: Option<&UQp>,
    caller: Option<&'static CStr>,
) -> Result<Owned<Qp>> {
    let xrcd = attr.xrcd().ok_or(EINVAL)?;
    let real = create_real(device, pd, attr, For::Kernel(caller))?;
    share(real, xrcd, attr, uobject).map_err(|(error, real)| {
        let _: Result = destroy_real(Given::of(real), None);
        error
    })
}

/// Adds a new queue pair to its domain, and opens the first handle for its creator.
///
/// # Errors
///
/// Those of [`open`] and [`NewTarget::insert`], with the queue pair, which no handle has open.
fn share(
    real: Owned<Qp>,
    xrcd: &Xrcd,
    attr: &QpMake,
    uobject: Option<&UQp>,
) -> Result<Owned<Qp>, (Error, Owned<Qp>)> {
    let real = NewTarget::new(real, xrcd, Handler::of::<Users>());
    let wish = OpenAttr::new(attr.event_handler(), attr.qp_context());
    let handle = match open(real.shared(), &wish, uobject) {
        Ok(handle) => handle,
        Err(error) => return Err((error, real.into_owned())),
    };
    if let Err(refused) = real.insert() {
        let _: Result = close(handle);
        return Err(refused);
    }
    Ok(handle)
}

/// Closes a handle, and destroys the queue pair if it was the last one. May sleep.
///
/// If the driver refuses, the queue pair stays without handles and keeps its domain in use.
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

/// Opens a queue pair of a domain by its number. Returns `EINVAL` if there is none. May sleep.
fn open_by_number(xrcd: &Xrcd, attr: &OpenAttr) -> Result<Owned<Qp>> {
    if attr.qp_type() != bindings::ib_qp_type_IB_QPT_XRC_TGT {
        return Err(EINVAL);
    }
    let targets = Targets::read(xrcd);
    let real = targets.find(attr.qp_num()).ok_or(EINVAL)?;
    open(real, attr, None)
}

/// Closes a handle that is no longer in use, without destroying the queue pair. May sleep.
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
