// SPDX-License-Identifier: GPL-2.0

//! Use of a handle by a command: it is found by number or file descriptor, locked as the command
//! uses it, and put at the end.
//!
//! Lookups by number take no lock but RCU. A handle that is being destroyed may be found, and is
//! refused by its `usecnt`. The caller is in a section of the device's `disassociate_srcu`.

use crate::edge::classes;
use crate::edge::classes::Class;
use crate::edge::descriptors::FileRef;
use crate::edge::file;
use crate::edge::handle::Found;
use crate::edge::handle::Looked;
use crate::edge::handle::PutAccess;
use crate::edge::handle::PutHandle;
use crate::edge::handle::Wanted;
use crate::edge::Call;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::edge::uverbs::Access;
use rdma::edge::uverbs::ApiObject;
use rdma::edge::uverbs::UFile;
use rdma::edge::uverbs::Uobject;
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
    let found = found.lock(access)?;
    if let Some(call) = call {
        call.set_context_of(&found);
    }
    Ok(found)
}

fn by_number(file: &UFile, id: i64) -> Result<Looked> {
    let id = usize::try_from(id)?;
    let number = u32::try_from(id).map_err(|_| ENOENT)?;
    let handle = file::find(file, number).ok_or(ENOENT)?;
    Ok(Looked::numbered(handle))
}

fn by_descriptor(kind: &ApiObject, file: &UFile, id: i64, access: Access) -> Result<Looked> {
    let fd = c_int::try_from(id)?;
    if access != Access::Read {
        return Err(unsupported());
    }
    let kind = classes::file_type(kind).ok_or(EIO)?;
    let opened = FileRef::get(u32::try_from(fd).map_err(|_| EBADF)?)?;
    let handle = opened.handle(kind, file).ok_or(EBADF)?;
    Ok(Looked::of_file(handle, opened))
}

/// Unlocks a handle and puts it.
fn put(found: PutHandle<'_>, access: PutAccess<'_>) {
    found.with(access).put();
}

/// Locks a handle. Any context.
///
/// # Errors
///
/// `EBUSY`.
fn try_lock(handle: &Uobject, access: Access) -> Result {
    handle.try_lock(access)
}

rdma::export! {
    in rdma::bindings;

    /// See [`get`].
    fn rdma_lookup_get_uobject(
        wanted: Wanted<'_>, file: &UFile, id: i64, access: Access, call: Option<&Call>,
    ) -> Result<Found> = get;
    /// See [`put`].
    fn rdma_lookup_put_uobject(found: PutHandle<'_>, access: PutAccess<'_>) = put;
    /// See [`try_lock`].
    fn uverbs_try_lock_object(handle: &Uobject, access: Access) -> Result = try_lock;
}
