// SPDX-License-Identifier: GPL-2.0

//! Destruction of objects: one at its user's request, or when its file is released; all of an open
//! file when that is closed or the device is removed. And the end of an open file.
//!
//! The caller of all of these has the handle exclusively and holds `hw_destroy_rwsem`. A driver may
//! refuse to destroy an object; then nothing has changed. Handles of objects that were destroyed
//! with all of a file keep their numbers, so that their users can still take the counts of events
//! from them. Process context; all of it may sleep.

use crate::edge::charge;
use crate::edge::classes;
use crate::edge::classes::Class;
use crate::edge::file;
use crate::edge::file::Cleaned;
use crate::edge::file::DeadFile;
use crate::edge::file::WithoutTable;
use crate::edge::handle::Exclusive;
use crate::edge::handle::Found;
use crate::edge::handle::HandleRef;
use crate::edge::handle::Released;
use crate::edge::handle::ReleasedFile;
use crate::edge::handle::Sole;
use crate::edge::handle::Wanted;
use crate::edge::with_call;
use crate::edge::Call;
use crate::lookup;
use core::ptr;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::Access;
use rdma::edge::uverbs::Reason;
use rdma::edge::uverbs::Uobject;
use rdma::edge::Passed;

/// Destroys the object of a handle through its type, and gives back what was charged for it, but
/// not if a handle is aborted.
///
/// # Errors
///
/// Those of the type; `EIO` if the type is gone.
pub(crate) fn object(handle: &impl Sole, reason: Reason, call: &Call) -> Result {
    match classes::class(handle.uapi_object()).ok_or(EINVAL)? {
        Class::Numbered => {
            classes::destroy_numbered(handle, reason, call)?;
            if reason != Reason::ABORT {
                charge::uncharge(handle);
            }
            Ok(())
        }
        Class::File => classes::destroy_file(handle, reason),
    }
}

/// Destroys the object of a handle that was committed, if it still has one. The handle leaves the
/// list; and the table, if its user destroys it: then it stays locked. Otherwise the handle is
/// unlocked.
///
/// # Errors
///
/// Those of [`object`]; the handle is unlocked, and nothing else has changed.
fn destroy(locked: Exclusive<'_>, reason: Reason, call: &Call) -> Result {
    let file = call.file();
    let handle = locked.handle();
    file.hw_destroy_rwsem().assert_held();
    handle.assert_locked(Access::Write);
    if !handle.object().is_null() {
        if let Err(error) = object(&locked, reason, call) {
            locked.unlock();
            return Err(error);
        }
        locked.clear_object();
    }
    handle.clear_context();
    let shown = if reason == Reason::DESTROY {
        match classes::class(handle.uapi_object()) {
            Some(Class::Numbered) => file::unpublish(file, handle),
            Some(Class::File) | None => None,
        }
    } else {
        locked.unlock();
        None
    };
    drop(file::unlist(file, handle));
    drop(shown);
    Ok(())
}

/// Destroys the object of a handle that its user has looked up to destroy it. The handle stays
/// exclusively locked: lookups that found it meanwhile are refused.
///
/// # Errors
///
/// `EBUSY`: it is in use; those of the type. The handle is as it was.
fn at_request(handle: &Uobject, call: &Call) -> Result {
    let _held = call.file().hw_destroy_rwsem().read();
    destroy(Exclusive::lock(handle)?, Reason::DESTROY, call)
}

/// Finds a handle and destroys its object.
///
/// # Errors
///
/// Those of the lookup and of [`at_request`].
fn by_number(wanted: Wanted<'_>, number: u32, call: &Call) -> Result<Found> {
    let found = lookup::get(
        wanted,
        call.file(),
        number.into(),
        Access::Destroy,
        Some(call),
    )?;
    at_request(&found, call)?;
    Ok(found)
}

/// As [`by_number`], for a caller who does not need the handle.
///
/// # Errors
///
/// Those of [`by_number`].
fn by_number_only(wanted: Wanted<'_>, number: u32, call: &Call) -> Result {
    by_number(wanted, number, call).map(drop)
}

/// Gives the number of a handle to a new one, which is to be committed next, and destroys the object
/// of the old one, which is exclusively locked, and stays so. If its driver does not destroy it, it
/// is unlocked, and has another number, under which the program may destroy it later.
fn replace(locked: Exclusive<'_>, new: &Uobject, call: &Call) {
    let old = locked.handle();
    new.assert_locked(Access::Write);
    let same = ptr::eq(old.uapi_object(), new.uapi_object());
    let numbered = classes::class(old.uapi_object()) == Some(Class::Numbered);
    if kernel::warn_on!(!same || !numbered) {
        return;
    }
    if file::swap_numbers(call.file(), old, new) {
        // The caller puts it as one that was destroyed, which does not unlock it. The C module
        // ignores the error here as well.
        let _ = destroy(locked, Reason::DESTROY, call);
    }
}

/// Destroys the objects of an open file, the newest first; those that their driver refuses to
/// destroy stay. Objects that use others are newer, but users may have changed that, so `ib_uverbs`
/// calls this as long as it succeeds.
///
/// With `DRIVER_FAILURE` all objects are forgotten.
///
/// # Errors
///
/// `EINVAL`: none was destroyed.
fn all(cleaned: Cleaned<'_>, reason: Reason) -> Result {
    let file = cleaned.file();
    cleaned.tell_driver();
    let forget = reason == Reason::DRIVER_FAILURE;
    let mut outcome = Err(EINVAL);
    let mut next = file::first(file);
    with_call(file, |call| {
        while let Some(handle) = next.take() {
            next = file::after(file, &handle);
            call.set_context_of(&handle);
            let Some(locked) = Exclusive::of_all(&handle, &cleaned) else {
                continue;
            };
            if forget {
                locked.clear_object();
            }
            if destroy(locked, reason, call).is_ok() {
                outcome = Ok(());
            }
        }
    });
    if forget {
        kernel::warn_on!(!file::is_empty(file));
        return Ok(());
    }
    outcome
}

/// A file of a handle is released: its object is destroyed, unless all of the open file are being
/// destroyed, or were.
fn destroy_released(released: &Released) {
    if let Some(held) = released.file_use.hw_destroy_rwsem().try_read() {
        with_call(&released.file_use, |call| {
            call.set_context_of(&released.handle);
            // Objects of files are always destroyed.
            let _ = destroy(released.lock(), Reason::CLOSE, call);
        });
        drop(held);
    }
}

/// See [`destroy_released`].
fn released(released: Released) -> Result {
    destroy_released(&released);
    Ok(())
}

/// A file of a handle is released: the object is destroyed, and the type is told.
fn release_file(_inode: Passed<bindings::inode>, file: ReleasedFile) -> Result {
    // An aborted handle has left its file.
    let Some(released) = file.handle() else {
        return Ok(());
    };
    destroy_released(&released);
    // The use of the open file is given back after this: its type may refer to handles of other
    // objects, which the end of the open file frees.
    released.clean_up();
    Ok(())
}

/// Frees an open file. Its objects were destroyed when it was closed.
pub(crate) fn end(file: DeadFile) {
    while let Some(handle) = file.take_handle() {
        kernel::warn_on!(!handle.object().is_null());
    }
    drop(file);
}

fn put(handle: HandleRef) {
    drop(handle);
}

rdma::export! {
    in rdma::bindings;

    /// See [`by_number`].
    fn __uobj_get_destroy(wanted: Wanted<'_>, number: u32, call: &Call) -> Result<Found>
        = by_number;
    /// See [`by_number_only`].
    fn __uobj_perform_destroy(wanted: Wanted<'_>, number: u32, call: &Call) -> Result
        = by_number_only;
    /// See [`replace`].
    fn rdma_assign_uobject(old: Exclusive<'_>, new: &Uobject, call: &Call) = replace;
    /// See [`released`].
    fn uverbs_uobject_release(handle: Released) -> Result = released;
    /// See [`release_file`].
    fn uverbs_uobject_fd_release(inode: Passed<bindings::inode>, file: ReleasedFile) -> Result
        = release_file;
    /// Puts a reference to a handle. Any context.
    fn uverbs_uobject_put(handle: HandleRef) = put;
}

rdma::export! {
    in crate::private;

    /// See [`at_request`].
    fn uobj_destroy(handle: &Uobject, call: &Call) -> Result = at_request;
    /// See [`all`].
    fn __uverbs_cleanup_ufile(file: Cleaned<'_>, reason: Reason) -> Result = all;
    /// See [`end`].
    fn ib_uverbs_release_file(file: DeadFile) = end;
    /// See [`WithoutTable::init`].
    fn setup_ufile_idr_uobject(file: WithoutTable) = WithoutTable::init;
}
