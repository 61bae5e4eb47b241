// SPDX-License-Identifier: GPL-2.0

//! What methods of `ioctl` calls need of handles: those that attributes name, from before the
//! method's handler runs until after it; and whether the caller may use raw packets.
//!
//! Process context; may sleep.

use crate::begin;
use crate::edge::file::Associated;
use crate::edge::handle::EndAccess;
use crate::edge::handle::Ended;
use crate::edge::handle::Ending;
use crate::edge::handle::Wanted;
use crate::edge::Call;
use crate::lookup;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::uverbs::Access;
use rdma::edge::uverbs::AttrAccess;
use rdma::edge::Answer;
use rdma::edge::In;
use rdma::provider::unsupported;

/// Gets the handle that an attribute of a method names, as the method uses it. Returns an error
/// pointer if that is refused.
fn begin_attribute(
    kind: u16,
    access: AttrAccess,
    id: i64,
    call: &Call,
) -> *mut bindings::ib_uobject {
    let wanted = Wanted::by_id(call, kind);
    match access {
        AttrAccess::Of(access) => lookup::get(wanted, call.file(), id, access, Some(call)).answer(),
        AttrAccess::New => begin::begin(wanted, call).answer(),
        AttrAccess::Unknown => {
            kernel::warn_on!(true);
            unsupported().to_ptr()
        }
    }
}

/// Ends the use of a handle by a method. A new one is committed or aborted.
fn end_attribute(handle: Ending<'_>, access: EndAccess<'_>, made: bool, commit: bool, call: &Call) {
    let asked = access.get();
    match handle.with(access) {
        Ended::Used(found) => found.put(),
        Ended::Created(handle) if commit => begin::commit(handle, call),
        Ended::Created(handle) => begin::abort(handle, call, made),
        Ended::Nothing => {
            kernel::warn_on!(asked != AttrAccess::Of(Access::Destroy));
        }
    }
}

rdma::import! {
    in rdma::bindings;

    fn device_has_raw_cap(device: &Device) -> bool = rdma_dev_has_raw_cap;
}

/// Whether the caller may use raw packets on the device of a call (`CAP_NET_RAW`). Without a context
/// nobody may.
fn has_raw_cap(call: In<'_, Call>) -> bool {
    let associated = Associated::enter(call.file());
    let context = associated.ucontext();
    context.is_some_and(|context| device_has_raw_cap(context.dev()))
}

rdma::export! {
    in rdma::bindings;

    /// See [`has_raw_cap`].
    fn rdma_uattrs_has_raw_cap(call: In<'_, Call>) -> bool = has_raw_cap;
}

rdma::export! {
    in crate::private;

    /// See [`begin_attribute`].
    fn uverbs_get_uobject_from_file(kind: u16, access: AttrAccess, id: i64, call: &Call)
        -> *mut bindings::ib_uobject = begin_attribute;
    /// See [`end_attribute`].
    fn uverbs_finalize_object(
        handle: Ending<'_>, access: EndAccess<'_>, made: bool, commit: bool, call: &Call,
    ) = end_attribute;
}
