// SPDX-License-Identifier: GPL-2.0

//! Resource tracking for drivers and the other modules of the core (`include/rdma/restrack.h` and
//! the core's `restrack.h`).

use super::edge::NewEntry;
use super::Entry;
use super::Held;
use super::Kind;
use super::OwnerRef;
use crate::device::Device;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::edge::In;
use rdma::features::raw_limit;
use rdma::features::RawLimit;

fn kind(number: u32) -> Option<Kind> {
    super::kinds().get(usize::try_from(number).ok()?).copied()
}

/// Initialises an entry. Any context.
fn new(res: NewEntry<'_>, number: u32) {
    match kind(number) {
        Some(kind) => res.begin(kind),
        None => {
            kernel::warn_on!(true);
        }
    }
}

fn add(mut res: OwnerRef<'_>) {
    res.add();
}

fn del(mut res: OwnerRef<'_>) {
    res.del();
}

fn begin_del(mut res: OwnerRef<'_>) {
    res.begin_del();
}

fn commit_del(mut res: OwnerRef<'_>) {
    res.commit_del();
}

fn abort_del(mut res: OwnerRef<'_>) {
    res.abort_del();
}

fn sync(mut res: OwnerRef<'_>) {
    res.sync();
}

fn set_name(mut res: OwnerRef<'_>, caller: Option<&'static CStr>) {
    res.set_name(caller);
}

fn set_parent(mut res: OwnerRef<'_>, parent: In<'_, Entry>) {
    res.set_parent(&parent);
}

/// Returns the number of objects of a kind. `details` includes objects that only the driver knows.
/// Any context but hard interrupts.
fn count(device: &Device, number: u32, details: bool) -> RawLimit {
    kind(number).map_or(0, |kind| {
        let tables = device.slot::<crate::restrack::Tables>();
        raw_limit(tables.of(kind).count(details))
    })
}

/// Takes a reference. Returns 1, or 0 if the object is being destroyed. Any context.
fn get(res: &Entry) -> c_int {
    // The reference now belongs to the caller.
    c_int::from(res.hold().map(core::mem::ManuallyDrop::new).is_some())
}

/// Drops a reference. Returns 1 if it was the last. Any context.
fn put(res: Held) -> c_int {
    c_int::from(res.release())
}

/// Looks up an object by its id and takes a reference for the caller. Any context but hard
/// interrupts.
///
/// # Errors
///
/// `ENOENT` if there is no such object.
fn get_by_id(device: &Device, number: u32, id: u32) -> Result<Held> {
    let kind = kind(number).ok_or(ENOENT)?;
    device
        .slot::<crate::restrack::Tables>()
        .of(kind)
        .get(id)
        .ok_or(ENOENT)
}

rdma::export! {
    in rdma::bindings;

    /// See [`count`].
    fn rdma_restrack_count(device: &Device, number: u32, details: bool) -> RawLimit = count;
    /// See [`get`].
    fn rdma_restrack_get(res: &Entry) -> c_int = get;
    /// See [`put`].
    fn rdma_restrack_put(res: Held) -> c_int = put;
    /// See [`get_by_id`].
    fn rdma_restrack_get_byid(device: &Device, number: u32, id: u32) -> Result<Held> = get_by_id;
}

rdma::export! {
    in crate::private;

    /// See [`new`].
    fn rdma_restrack_new(res: NewEntry<'_>, number: u32) = new;
    /// See [`OwnerRef::add`].
    fn rdma_restrack_add(res: OwnerRef<'_>) = add;
    /// See [`OwnerRef::del`].
    fn rdma_restrack_del(res: OwnerRef<'_>) = del;
    /// See [`OwnerRef::begin_del`].
    fn rdma_restrack_begin_del(res: OwnerRef<'_>) = begin_del;
    /// See [`OwnerRef::commit_del`].
    fn rdma_restrack_commit_del(res: OwnerRef<'_>) = commit_del;
    /// See [`OwnerRef::abort_del`].
    fn rdma_restrack_abort_del(res: OwnerRef<'_>) = abort_del;
    /// See [`OwnerRef::sync`].
    fn rdma_restrack_sync(res: OwnerRef<'_>) = sync;
    /// See [`OwnerRef::set_name`].
    fn rdma_restrack_set_name(res: OwnerRef<'_>, caller: Option<&'static CStr>) = set_name;
    /// See [`OwnerRef::set_parent`].
    fn rdma_restrack_parent_name(res: OwnerRef<'_>, parent: In<'_, Entry>) = set_parent;
}
