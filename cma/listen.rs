// SPDX-License-Identifier: GPL-2.0

//! Listeners. One with an address listens on its device; one without has an internal ID for each
//! device, present and future.
//!
//! Locks: `Id::starts` is held while an internal ID begins to listen, so that a device has one. That may
//! take seconds if a port mapper does not answer, so no handler waits for this lock: requests take only
//! `Id::children`, to which the internal ID is added before it listens.

use crate::deliver;
use crate::device;
use crate::device::CmaDevice;
use crate::edge::core::caps;
use crate::edge::errno;
use crate::edge::ib::IbId;
use crate::edge::id::Consumer;
use crate::edge::id::Id;
use crate::edge::id::Kind;
use crate::edge::iw::IwId;
use crate::edge::transport::Transport;
use crate::ports;
use crate::proto::addr::Family;
use crate::proto::service;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::errno::enosys;
use rdma::kvec;

/// Listens; an ID that is not bound is bound to any IPv4 address before. May sleep.
pub(crate) fn listen(id: &Arc<Id>, backlog: c_int) -> Result {
    if id.with(|inner| inner.life.listen()).is_err() {
        crate::bind::bind(id, Some(Family::V4.unspecified()))?;
        id.with(|inner| inner.life.listen()).map_err(errno)?;
    }
    let result = try_listen(id, backlog);
    if result.is_err() {
        id.with(|inner| {
            inner.backlog = 0;
            inner.life.listen_failed();
        });
    }
    result
}

fn try_listen(id: &Arc<Id>, backlog: c_int) -> Result {
    ports::claim(id)?;
    id.with(|inner| inner.backlog = backlog);
    match id.device() {
        Some(_) => on_own_device(id, backlog),
        None => everywhere(id),
    }
}

/// Listens on the device of an ID.
fn on_own_device(id: &Arc<Id>, backlog: c_int) -> Result {
    let (device, _) = id.device().ok_or(ENODEV)?;
    let caps = caps(device.view(), 1);
    // The consumer may end the ID meanwhile, by its answer to the removal of the device.
    if caps.ib_cm() {
        let (source, _) = id.addrs();
        let service_id = service::id(id.words().port_space(), &source);
        drop(id.keep(IbId::listen(&device, service_id)?, Transport::Ib)?);
    } else if caps.iw_cm() {
        drop(id.keep(IwId::listen(&device, id, backlog)?, Transport::Iw)?);
    } else {
        return Err(enosys());
    }
    Ok(())
}

/// Listens on all devices.
fn everywhere(id: &Arc<Id>) -> Result {
    id.starts.lock().closed = false;
    let devices = device::add_anywhere(id)?;
    for device in &devices {
        if let Err(error) = on_device(id, device) {
            close(id);
            return Err(error);
        }
    }
    id.with(|inner| inner.open = true);
    Ok(())
}

/// Whether the consumer of a listener may be told of requests. While a listener without address
/// still begins to listen, it may not, as that may fail.
pub(crate) fn is_open(listener: &Id) -> bool {
    match &listener.kind {
        Kind::Internal(parent) => parent.with(|inner| inner.open),
        Kind::Plain | Kind::Program | Kind::Request => true,
    }
}

/// Gives a listener an internal ID on a device, if it has none there. May sleep.
///
/// # Errors
///
/// `ENOMEM`; those of the transport.
pub(crate) fn on_device(listener: &Arc<Id>, device: &Arc<CmaDevice>) -> Result {
    let view = device.view();
    let (source, _) = listener.addrs();
    let (options, afonly, backlog) =
        listener.with(|inner| (inner.options, inner.afonly, inner.backlog));
    let no_ib = source.family() == Family::Ib && !caps(view, 1).ib_cm();
    if no_ib || !options.node.allows(view.node_type()) {
        return Ok(());
    }
    let starts = listener.starts.lock();
    let present = listener.children.lock().iter().any(|child| {
        child
            .attached()
            .is_some_and(|attached| Arc::ptr_eq(&attached.device, device))
    });
    if starts.closed || present {
        return Ok(());
    }
    let child = Id::new(
        listener.net_ref(),
        Consumer::NONE,
        Kind::Internal(listener.clone()),
        listener.words().port_space(),
        listener.words().qp_type(),
    )?;
    child.name_from(listener);
    child.with(|inner| {
        inner.options = options;
        inner.options.reuse = false;
        inner.afonly = afonly;
    });
    child.set_source(source);
    if let Some(tos) = options.tos {
        child.mirror_tos(tos);
    }
    if let Err(error) = device::attach(&child, device, 0, None) {
        drop(starts);
        deliver::destroy(&child);
        // The device is being removed.
        return if error == ENODEV { Ok(()) } else { Err(error) };
    }
    let listed = child.track().and_then(|()| {
        let mut children = listener.children.lock();
        Ok(children.push(child.clone(), GFP_KERNEL)?)
    });
    let begun = listed
        .and_then(|()| listen(&child, backlog).inspect_err(|_| drop(take_child(listener, &child))));
    drop(starts);
    if begun.is_err() {
        deliver::destroy(&child);
    }
    begun
}

/// Takes an internal ID of a listener out of the list.
fn take_child(listener: &Id, child: &Arc<Id>) -> Option<Arc<Id>> {
    kvec::take(&mut listener.children.lock(), |one| Arc::ptr_eq(one, child))
}

/// Ends a listener without address: destroys its internal IDs. May sleep.
pub(crate) fn close(listener: &Id) {
    device::remove_anywhere(listener);
    listener.with(|inner| inner.open = false);
    let children = {
        let mut starts = listener.starts.lock();
        starts.closed = true;
        core::mem::take(&mut *listener.children.lock())
    };
    for child in &children {
        deliver::destroy(child);
    }
}

/// Destroys an internal ID, whose device is being removed, if nobody else does. May sleep.
pub(crate) fn remove_child(listener: &Id, child: &Arc<Id>) {
    let found = {
        // It may be about to listen.
        let _starts = listener.starts.lock();
        take_child(listener, child)
    };
    if let Some(child) = found {
        deliver::destroy(&child);
    }
}
