// SPDX-License-Identifier: GPL-2.0

//! Creation of a handle: begun before the object is made, committed when it was, or aborted.
//!
//! From begin to commit or abort the command holds the `hw_destroy_rwsem` of the open file for
//! reading, so neither close nor removal of the device comes between. Process context; all of it
//! may sleep.

use crate::destroy;
use crate::edge::charge;
use crate::edge::classes;
use crate::edge::classes::Class;
use crate::edge::descriptors::Descriptor;
use crate::edge::descriptors::FileRef;
use crate::edge::file;
use crate::edge::file::FileUse;
use crate::edge::file::Number;
use crate::edge::handle::Creating;
use crate::edge::handle::HandleRef;
use crate::edge::handle::Wanted;
use crate::edge::Call;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::ApiObject;
use rdma::edge::uverbs::Reason;
use rdma::edge::uverbs::UFile;
use rdma::edge::Passed;

rdma::import! {
    in rdma::bindings;

    /// The context of an open file.
    pub(crate) fn context_of(file: &UFile) -> Result<Passed<bindings::ib_ucontext>>
        = ib_uverbs_get_ucontext_file;
}

/// Begins a handle.
///
/// # Errors
///
/// `EINVAL`: no such type, or no context; `EIO`: the objects of the file are being destroyed, or the
/// device is gone; `ENOMEM`, `EAGAIN` (cgroup), `EMFILE`.
pub(crate) fn begin(wanted: Wanted<'_>, call: &Call) -> Result<Creating> {
    let kind = wanted.kind()?;
    Creating::begin(call, || match classes::class(kind).ok_or(EINVAL)? {
        Class::Numbered => begin_numbered(kind, call),
        Class::File => begin_file(kind, call),
    })
}

fn allocate(kind: &ApiObject, call: &Call) -> Result<HandleRef> {
    if !call.has_context() {
        call.set_context(context_of(call.file())?);
    }
    HandleRef::alloc(kind, call)
}

fn begin_numbered(kind: &ApiObject, call: &Call) -> Result<HandleRef> {
    let handle = allocate(kind, call)?;
    let number = Number::reserve(call.file())?;
    charge::charge(&handle)?;
    number.keep(&handle);
    Ok(handle)
}

fn begin_file(kind: &ApiObject, call: &Call) -> Result<HandleRef> {
    let handle = allocate(kind, call)?;
    let kind = classes::file_type(kind).ok_or(EIO)?;
    if kernel::warn_on!(!classes::tells_release(kind)) {
        return Err(EINVAL);
    }
    let fd = Descriptor::reserve()?;
    if !kind.fops().is_null() {
        FileRef::new(kind)?.keep_for(&handle);
    }
    fd.keep(&handle);
    Ok(handle)
}

/// Shows a handle, whose object was made, to its user. Never fails.
pub(crate) fn commit(handle: Creating, call: &Call) {
    // `ib_uverbs` has a reference to the file during a call; the handle may be gone at the end.
    let Some((handle, held)) = handle.into_parts(call) else {
        return;
    };
    let file = call.file();
    file::list(file, handle.another());
    let handle = handle.unlock();
    match classes::class(handle.uapi_object()) {
        Some(Class::Numbered) => file::publish(file, handle.into_ref()),
        Some(Class::File) => handle.install(FileUse::take(file)),
        None => {}
    }
    drop(held);
}

/// Undoes [`begin`]. `made` says whether the object is there, which is destroyed then. If the driver
/// does not destroy it, the handle is committed, and the object stays until the file is closed.
pub(crate) fn abort(handle: Creating, call: &Call, made: bool) {
    if made && kernel::warn_on!(destroy::object(&handle, Reason::ABORT, call).is_err()) {
        commit(handle, call);
        return;
    }
    let Some((handle, held)) = handle.into_parts(call) else {
        return;
    };
    let file = call.file();
    kernel::warn_on!(handle.context().is_none());
    match classes::class(handle.uapi_object()) {
        Some(Class::Numbered) => {
            charge::uncharge(&handle);
            drop(Number::of(file, &handle));
            handle.clear_context();
            handle.abandon();
        }
        Some(Class::File) => {
            // What releases the file asks for the context of a handle that was committed.
            handle.clear_context();
            handle.discard();
        }
        None => handle.abandon(),
    }
    drop(held);
}

rdma::export! {
    in rdma::bindings;

    /// See [`begin`].
    fn rdma_alloc_begin_uobject(wanted: Wanted<'_>, call: &Call) -> Result<Creating> = begin;
    /// See [`commit`].
    fn rdma_alloc_commit_uobject(handle: Creating, call: &Call) = commit;
    /// See [`abort`].
    fn rdma_alloc_abort_uobject(handle: Creating, call: &Call, made: bool) = abort;
}
