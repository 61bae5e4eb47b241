// SPDX-License-Identifier: GPL-2.0

//! XRC domains (`struct ib_xrcd`), and the inodes by which programs share them.

use crate::edge::call::Call;
use crate::edge::handle::Dead;
use crate::edge::handle::Dying;
use crate::edge::handle::Ended;
use crate::edge::handle::Ends;
use crate::edge::handle::Handle;
use crate::edge::handle::Kept;
use crate::edge::handle::New;
use crate::object::xrcd::Xrcd;
use crate::xrcd::Entry;
use crate::xrcd::Table;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::fs::LocalFile;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::object::Use;
use rdma::edge::verbs;
use rdma::edge::View;

/// A reference to an inode. Dropping it may sleep.
///
/// # Invariants
///
/// `0` is an inode, and one of the references to it is this value's.
pub(crate) struct Inode(NonNull<bindings::inode>);

// SAFETY: Only the address is used, and references may be dropped by any task.
unsafe impl Send for Inode {}
// SAFETY: As for `Send`.
unsafe impl Sync for Inode {}

impl Inode {
    /// The inode of an open file.
    ///
    /// # Errors
    ///
    /// `EBADF`: there is no such file.
    pub(crate) fn of_file(fd: u32) -> Result<Self> {
        let file = LocalFile::fget(fd)?;
        // SAFETY: An open file has an inode, and a reference to it.
        let inode = unsafe {
            let inode = (*file.as_ptr()).f_inode;
            bindings::ihold(inode);
            NonNull::new(inode)
        };
        // INVARIANT: Just taken.
        inode.map(Self).ok_or(EBADF)
    }

    /// The address, by which inodes are told apart.
    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's: type invariant.
        unsafe { bindings::iput(self.0.as_ptr()) };
    }
}

/// A domain in the table of a device.
///
/// # Invariants
///
/// `0` is a domain that at least one handle counts, under the mutex of the table.
pub(crate) struct Domain(NonNull<bindings::ib_xrcd>);

// SAFETY: It is used under the mutex of the table only.
unsafe impl Send for Domain {}
// SAFETY: As for `Send`.
unsafe impl Sync for Domain {}

impl Domain {
    /// The first handle's count of a domain that handles are to share.
    fn first(domain: &Owned<verbs::Xrcd>) -> Self {
        domain.usecnt().count().keep();
        // INVARIANT: Just counted; `close` removes the domain from the table with the last count.
        Self(NonNull::from(&**domain).cast())
    }

    /// Makes a handle one of those that share the domain. The mutex of the table is held.
    fn share<'c>(&self, new: New<'c, Xrcd>) -> &'c Handle<Xrcd> {
        // SAFETY: The domain exists: type invariant.
        let domain = unsafe { verbs::Xrcd::view(self.0.as_ptr()) };
        domain.usecnt().count().keep();
        // SAFETY: An XRC domain, for a new handle of that type, which has the use just counted.
        unsafe { (**new.handle()).set_object(self.0.as_ptr().cast()) };
        new.ready()
    }
}

/// Makes a domain that no other handle shares. May sleep.
///
/// # Errors
///
/// `ENOMEM`; those of the driver.
pub(crate) fn alloc(new: &New<'_, Xrcd>) -> Result<Owned<verbs::Xrcd>> {
    // SAFETY: There is no inode.
    unsafe { alloc_of(new, ptr::null_mut()) }
}

/// Opens the domain of an inode, or makes it, as `flags` say (`open(2)`). May sleep.
///
/// # Errors
///
/// `EAGAIN`: there is none, and none is to be made; `EINVAL`: there is one, and it is to be made;
/// those of [`New::begin`] and of [`alloc`].
pub(crate) fn open(call: &Call, inode: Inode, flags: u32) -> Result<&Handle<Xrcd>> {
    let mut table = call.char_device().xrcds.lock();
    match table.find(&inode) {
        None if flags & bindings::O_CREAT == 0 => return Err(EAGAIN),
        Some(_) if flags & bindings::O_EXCL != 0 => return Err(EINVAL),
        _ => {}
    }
    let new = New::<Xrcd>::begin(call)?;
    if let Some(domain) = table.find(&inode) {
        return Ok(domain.share(new));
    }
    let reserved = Table::reserve()?;
    // SAFETY: The domain gets into the table, with the inode, if it is made.
    let made = unsafe { alloc_of(&new, inode.0.as_ptr())? };
    table.insert(reserved, inode, Domain::first(&made));
    Ok(new.made(made))
}

/// Makes a domain; one that handles may share has an inode.
///
/// # Safety
///
/// The inode, if any, exists as long as the domain.
unsafe fn alloc_of(new: &New<'_, Xrcd>, inode: *mut bindings::inode) -> Result<Owned<verbs::Xrcd>> {
    let device = new.device()?;
    // SAFETY: The device exists, and so does the inode: this function's contract.
    unsafe {
        let domain = from_err_ptr(bindings::ib_alloc_xrcd_user(
            device.raw(),
            inode,
            new.call().udata().raw(),
        ))?;
        Ok(Owned::new(NonNull::new(domain).ok_or(ENOMEM)?))
    }
}

/// Ends a handle's use of a domain, and destroys the domain if no other handle uses it. May sleep.
///
/// # Errors
///
/// `EBUSY`: other objects use it; those of the driver.
pub(crate) fn close(object: Dying<'_, Xrcd>) -> Result<Dead<'_, Xrcd>> {
    let device = object.call().char_device();
    // The entry goes after the lock.
    let (dead, _entry) = {
        let mut table = device.xrcds.lock();
        close_in(object, &mut table)?
    };
    Ok(dead)
}

/// As [`close`], of a domain that is in the table if it is in any. Returns what the table had of it.
fn close_in<'a>(
    object: Dying<'a, Xrcd>,
    table: &mut Table,
) -> Result<(Dead<'a, Xrcd>, Option<Entry>)> {
    let c = object.raw();
    // SAFETY: The domain exists as long as the handle has it. The field does not change.
    let inode = unsafe { (*c).inode }.addr();
    let shared = inode != 0;
    if shared {
        let count = object.object().usecnt();
        // SAFETY: This handle's count (`Domain`), which nobody else removes.
        drop(unsafe { Use::kept(count) });
        if count.is_used() {
            // SAFETY: The domain is the others' now; this handle does not use it any more.
            return Ok((unsafe { object.gone() }, None));
        }
    }
    // SAFETY: Nobody else uses the domain: it has no count, and the table, which is locked, would be
    // the only way to get one.
    let status = unsafe { bindings::ib_dealloc_xrcd_user(c, object.call().udata().raw()) };
    let result = to_result(status);
    if let Err(error) = result {
        if shared {
            object.object().usecnt().count().keep();
        }
        return Err(error);
    }
    // SAFETY: `ib_dealloc_xrcd_user` has succeeded: the domain does not exist any more.
    Ok((unsafe { object.gone() }, table.remove(inode)))
}

/// The use of a domain by an object that was made with it, beside the object's handle. It keeps the
/// handle of the domain from being destroyed.
///
/// # Invariants
///
/// `0` is null, or a handle to which a reference, and one of its users, are this value's.
pub(crate) struct DomainUse(Atomic<*mut Handle<Xrcd>>);

impl DomainUse {
    /// No domain.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(ptr::null_mut()))
    }

    /// The object was made with this domain, which is locked for the call. Warns if it has one
    /// already, which stays.
    pub(crate) fn attach(&self, domain: &Handle<Xrcd>) {
        domain.beside().add();
        let handle = domain.keep().into_raw();
        // INVARIANT: Just taken.
        if self.0.cmpxchg(ptr::null_mut(), handle, Full).is_err() {
            kernel::warn_on!(true);
            // SAFETY: `into_raw` has given it, and the field has not taken it.
            drop(unsafe { Kept::from_raw(handle) });
            domain.beside().remove();
        }
    }
}

impl Ends for DomainUse {
    fn end(this: Ended<'_, Self>) {
        let domain = this.0.xchg(ptr::null_mut(), Full);
        // SAFETY: `attach` has given the reference; the exchange gives it to one caller.
        if let Some(domain) = unsafe { Kept::from_raw(domain) } {
            domain.beside().remove();
        }
    }
}
