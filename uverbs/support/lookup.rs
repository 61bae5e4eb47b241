// SPDX-License-Identifier: GPL-2.0

//! Use of a handle by a command: it is found by number or file descriptor, locked as the command
//! uses it, and put at the end.
//!
//! Lookups by number take no lock but RCU. A handle that is being destroyed may be found, and is
//! refused by its `usecnt`. The caller is in a section of the device's `disassociate_srcu`.

use crate::begin;
use crate::destroy;
use crate::edge::classes;
use crate::edge::classes::Class;
use crate::edge::classes::Cleanup;
use crate::edge::descriptors::FileRef;
use crate::edge::file;
use crate::edge::file::Associated;
use crate::edge::handle::Ended;
use crate::edge::handle::Ending;
use crate::edge::handle::Found;
use crate::edge::handle::ReleasedFile;
use crate::edge::handle::Wanted;
use crate::edge::Call;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::uverbs::Access;
use rdma::edge::uverbs::ApiObject;
use rdma::edge::uverbs::AttrAccess;
use rdma::edge::uverbs::UFile;
use rdma::edge::uverbs::Uobject;
use rdma::edge::Answer;
use rdma::edge::In;
use rdma::edge::Passed;
use rdma::provider::unsupported;

/// Finds a handle and locks it. `call`, if any, gets its context.
///
/// # Errors
///
/// `EINVAL`: no such type, a handle of another type, or a number that none has; `ENOENT`: no handle;
/// `EBADF`: no file, or none of this type and open file; `EOPNOTSUPP`: a file, but for reading;
/// `EIO`: the device is gone, and the object is not to be destroyed; `EBUSY`.
pub(crate) fn get(
    wanted: Wanted<'_>,
    file: &UFile,
    id: i64,
    access: Access,
    call: Option<&Call>,
) -> Result<Found> {
    let found = match wanted {
        Wanted::Any => by_number(file, id)?,
        Wanted::Unknown => return Err(EINVAL),
        Wanted::Kind(kind) => {
            let found = match classes::class(kind).ok_or(EINVAL)? {
                Class::Numbered => by_number(file, id)?,
                Class::File => by_descriptor(kind, file, id, access)?,
            };
            if !core::ptr::eq(found.uapi_object(), kind) {
                return Err(EINVAL);
            }
            found
        }
    };
    if access != Access::Destroy && !file::has_device(file) {
        return Err(EIO);
    }
    found.try_lock(access)?;
    if let Some(call) = call {
        call.set_context_of(&found);
    }
    Ok(found)
}

fn by_number(file: &UFile, id: i64) -> Result<Found> {
    let id = usize::try_from(id)?;
    let number = u32::try_from(id).map_err(|_| ENOENT)?;
    let handle = file::find(file, number).ok_or(ENOENT)?;
    Ok(Found::numbered(handle))
}

fn by_descriptor(kind: &ApiObject, file: &UFile, id: i64, access: Access) -> Result<Found> {
    let fd = c_int::try_from(id)?;
    if access != Access::Read {
        return Err(unsupported());
    }
    let kind = classes::file_type(kind).ok_or(EIO)?;
    let opened = FileRef::get(u32::try_from(fd).map_err(|_| EBADF)?)?;
    let handle = opened.handle(kind, file).ok_or(EBADF)?;
    Ok(Found::of_file(handle, opened))
}

/// Unlocks a handle and puts it.
fn put(found: Found, access: Access) {
    found.unlock(access);
    drop(found);
}

/// Locks a handle. Any context.
///
/// # Errors
///
/// `EBUSY`.
fn try_lock(handle: &Uobject, access: Access) -> Result {
    handle.try_lock(access)
}

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
        AttrAccess::Of(access) => get(wanted, call.file(), id, access, Some(call)).answer(),
        AttrAccess::New => begin::begin(wanted, call).answer(),
        AttrAccess::Unknown => {
            kernel::warn_on!(true);
            unsupported().to_ptr()
        }
    }
}

/// Ends the use of a handle by a method. A new one is committed or aborted.
fn end_attribute(handle: Ending, access: AttrAccess, made: bool, commit: bool, call: &Call) {
    match handle.with(access) {
        Ended::Used(found, access) => put(found, access),
        Ended::Created(handle) if commit => begin::commit(handle, call),
        Ended::Created(handle) => begin::abort(handle, call, made),
        Ended::Nothing => {
            kernel::warn_on!(access != AttrAccess::Of(Access::Destroy));
        }
    }
}

/// A file of a handle is released: the object is destroyed, and the type is told.
fn release_file(_inode: Passed<bindings::inode>, file: ReleasedFile) -> Result {
    // An aborted handle has left its file.
    let Some(handle) = file.handle() else {
        return Ok(());
    };
    let cleanup = Cleanup::of(&handle.handle).map(|cleanup| (cleanup, handle.handle.another()));
    destroy::released(handle)?;
    if let Some((cleanup, handle)) = cleanup {
        cleanup.run(&handle);
    }
    Ok(())
}

rdma::import! {
    in rdma::bindings;

    fn context_of(file: &UFile) -> Result<Passed<bindings::ib_ucontext>>
        = ib_uverbs_get_ucontext_file;
    fn device_has_raw_cap(device: &Device) -> bool = rdma_dev_has_raw_cap;
}

/// Whether the caller may use raw packets on the device of a call (`CAP_NET_RAW`). Without a context
/// nobody may.
fn has_raw_cap(call: In<'_, Call>) -> bool {
    let _associated = Associated::enter(call.file());
    if context_of(call.file()).is_err() {
        return false;
    }
    let context = call.file().ucontext();
    context.is_some_and(|context| device_has_raw_cap(context.dev()))
}

rdma::export! {
    in rdma::bindings;

    /// See [`get`].
    fn rdma_lookup_get_uobject(
        wanted: Wanted<'_>, file: &UFile, id: i64, access: Access, call: Option<&Call>,
    ) -> Result<Found> = get;
    /// See [`put`].
    fn rdma_lookup_put_uobject(found: Found, access: Access) = put;
    /// See [`try_lock`].
    fn uverbs_try_lock_object(handle: &Uobject, access: Access) -> Result = try_lock;
    /// See [`release_file`].
    fn uverbs_uobject_fd_release(inode: Passed<bindings::inode>, file: ReleasedFile) -> Result
        = release_file;
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
        handle: Ending, access: AttrAccess, made: bool, commit: bool, call: &Call,
    ) = end_attribute;
}
