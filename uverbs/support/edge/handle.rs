// SPDX-License-Identifier: GPL-2.0

//! References to handles (`struct ib_uobject`), and the states in which C passes them.
//!
//! | type | state |
//! |---|---|
//! | [`HandleRef`] | none: memory that stays |
//! | [`Creating`], [`Uncommitted`], [`Unlocked`] | from `rdma_alloc_begin_uobject` to commit or abort |
//! | [`Looked`], [`Found`] | from a lookup to `rdma_lookup_put_uobject` |
//! | [`Exclusive`] | locked exclusively, to be destroyed |
//! | [`Released`] | its file is released |
//!
//! The list and the table of an open file have a reference each ([`super::file`]).

use super::classes::Class;
use super::classes::Cleanup;
use super::descriptors::Descriptor;
use super::descriptors::FileRef;
use super::file::Cleaned;
use super::file::FileUse;
use super::Call;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::Access;
use rdma::edge::uverbs::ApiObject;
use rdma::edge::uverbs::AttrAccess;
use rdma::edge::uverbs::UFile;
use rdma::edge::uverbs::Uobject;
use rdma::edge::Answer;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::edge::Within;
use rdma::sync::CReadGuard;

/// A reference to a handle. Dropping the last one frees the memory after an RCU grace period. Any
/// context.
///
/// # Invariants
///
/// `0` is a handle, and one of the references to it is this value's.
pub(crate) struct HandleRef(NonNull<Uobject>);

impl HandleRef {
    /// # Safety
    ///
    /// The caller gives up a reference to the handle.
    pub(super) unsafe fn from_raw(handle: NonNull<Uobject>) -> Self {
        // INVARIANT: By this function's contract.
        Self(handle)
    }

    /// Gives the reference to C, or to a field of a C structure.
    pub(super) fn into_raw(self) -> NonNull<Uobject> {
        core::mem::ManuallyDrop::new(self).0
    }

    /// A handle of a type, exclusively locked, that is in no table or list. `call` has a context.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `EIO`: the device is gone; `ENOMEM`.
    pub(crate) fn alloc(kind: &ApiObject, call: &Call) -> Result<Self> {
        let size = super::classes::size(kind).ok_or(EIO)?;
        if kernel::warn_on!(size < size_of::<bindings::ib_uobject>()) {
            return Err(EINVAL);
        }
        // SAFETY: The function takes any size.
        let memory = unsafe { bindings::rdma_helper_uobject_alloc(size) };
        let memory = NonNull::new(memory).ok_or(ENOMEM)?;
        let c = memory.as_ptr();
        // SAFETY: The memory is zeroed, and ours alone; it has room for the structure.
        unsafe {
            (*c).ufile = call.file().raw();
            (*c).context = call.context_at();
            (*c).uapi_object = kind.raw();
            (*c).usecnt.counter = -1;
            bindings::INIT_LIST_HEAD(&raw mut (*c).list);
            Uobject::view(c).refs().init(1);
        }
        // INVARIANT: The count is one, for this value.
        Ok(Self(memory.cast()))
    }

    /// Another reference.
    pub(crate) fn another(&self) -> Self {
        self.refs().inc();
        // INVARIANT: Just taken.
        Self(self.0)
    }

    /// Whether the handle is of an open file.
    pub(super) fn is_of(&self, file: &UFile) -> bool {
        is_of(self, file)
    }

    /// A reference to a handle that was found under RCU or a lock, if there is one left.
    pub(crate) fn of_found(handle: &Uobject) -> Option<Self> {
        // INVARIANT: Just taken.
        handle
            .refs()
            .inc_not_zero()
            .then(|| Self(NonNull::from(handle)))
    }
}

/// Whether a handle is of an open file.
pub(super) fn is_of(handle: &Uobject, file: &UFile) -> bool {
    // SAFETY: Written when the handle was allocated; the address is only compared.
    core::ptr::eq(unsafe { (*handle.raw()).ufile }, file.raw())
}

/// The owner of a handle's exclusive lock.
///
/// # Safety
///
/// The handle is locked exclusively as long as the value exists.
pub(crate) unsafe trait Sole: Deref<Target = Uobject> {}

// SAFETY: A handle is locked exclusively until it is committed or aborted, which consumes the value.
unsafe impl Sole for Creating {}
// SAFETY: The lock is the value's: type invariant.
unsafe impl Sole for Exclusive<'_> {}

impl Deref for HandleRef {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        // SAFETY: The handle exists: type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for HandleRef {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's: type invariant.
        if unsafe { self.refs().put() } {
            // SAFETY: That was the last reference; `alloc` made the memory with `kzalloc`.
            unsafe { bindings::rdma_helper_uobject_free(self.raw()) };
        }
    }
}

rdma::argument! {
    /// `uverbs_types.h`: `uverbs_uobject_put` gets a reference that the caller gives up.
    impl HandleRef = |handle: NonNull<bindings::ib_uobject>| HandleRef(handle.cast());
}

/// A handle that a command creates; it is exclusively locked, and in neither table nor list. A
/// numbered one has a number that is reserved, and is charged; one of a file has a descriptor that
/// is reserved, and may have a file. To be committed or aborted; dropping it leaks both, and the
/// lock.
///
/// # Invariants
///
/// This task holds the `hw_destroy_rwsem` of the handle's open file for reading, and nobody takes
/// that over but with this value.
#[must_use = "it is committed or aborted"]
pub(crate) struct Creating(HandleRef);

impl Creating {
    /// Takes the lock of the call's file, and gives it to the handle that `make` makes in the call.
    ///
    /// # Errors
    ///
    /// `EIO`: the objects of the file are being destroyed; `EINVAL`: the handle is of another file;
    /// those of `make`.
    pub(crate) fn begin(call: &Call, make: impl FnOnce() -> Result<HandleRef>) -> Result<Self> {
        let held = call.file().hw_destroy_rwsem().try_read().ok_or(EIO)?;
        let handle = make()?;
        if kernel::warn_on!(!handle.is_of(call.file())) {
            return Err(EINVAL);
        }
        held.keep();
        // INVARIANT: The lock of the handle's file was just taken.
        Ok(Self(handle))
    }

    /// The handle, and the lock. Warns if the call is of another file: then both are leaked.
    pub(crate) fn into_parts(self, call: &Call) -> Option<(Uncommitted, CReadGuard<'_>)> {
        if kernel::warn_on!(!self.0.is_of(call.file())) {
            core::mem::forget(self);
            return None;
        }
        // SAFETY: Given up in `begin`, and this value is the only one to take it over: type invariant.
        let held = unsafe { call.file().hw_destroy_rwsem().kept() };
        // INVARIANT: It was being created.
        Some((Uncommitted(self.0), held))
    }
}

/// A handle that was being created, apart from the lock.
///
/// # Invariants
///
/// It is as [`Creating`] says, and nobody else commits or aborts it.
pub(crate) struct Uncommitted(HandleRef);

impl Uncommitted {
    /// Unlocks the handle. Any context.
    pub(crate) fn unlock(self) -> Unlocked {
        // SAFETY: The handle is locked exclusively (type invariant), and `self` ends here.
        unsafe { self.0.unlock_any() };
        Unlocked(self)
    }

    /// Whether the handle is one of a file. Warns if not.
    fn is_file(&self) -> bool {
        !kernel::warn_on!(super::classes::class(self.uapi_object()) != Some(Class::File))
    }

    /// Gives back descriptor and file of a handle of a file, unlocks it, and drops the reference.
    /// May sleep.
    pub(crate) fn discard(self) {
        if !self.is_file() {
            return self.abandon();
        }
        let fd = Descriptor::of_uncommitted(&self);
        if !self.0.object().is_null() {
            if let Some(file) = FileRef::of_object(&self.0) {
                file.discard();
            }
        }
        drop(fd);
        self.abandon();
    }

    /// Unlocks a handle that is not committed, and drops the reference. A lookup that found its
    /// number before that was freed has none. Any context.
    pub(crate) fn abandon(self) {
        drop(self.unlock());
    }
}

/// An [`Uncommitted`] handle that is not locked any more.
pub(crate) struct Unlocked(Uncommitted);

impl Unlocked {
    /// The reference, which is the table's when a numbered handle is committed.
    pub(crate) fn into_ref(self) -> HandleRef {
        self.0 .0
    }

    /// Puts a handle of a file, with a use of the open file, into its file, and the file under the
    /// descriptor. Other tasks may close it from then on. Warns if there is no file.
    pub(crate) fn install(self, file_use: FileUse) {
        if !self.0.is_file() {
            return;
        }
        let fd = Descriptor::of_uncommitted(&self.0);
        let handle = self.into_ref();
        // SAFETY: The descriptor is `fd`'s now, and the number means nothing from now on.
        unsafe { handle.set_id(0) };
        match FileRef::of_object(&handle) {
            Some(file) => file.install(fd, handle, file_use),
            None => drop(fd),
        }
    }
}

impl Deref for Unlocked {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        &self.0
    }
}

impl Deref for Uncommitted {
    type Target = HandleRef;

    fn deref(&self) -> &HandleRef {
        &self.0
    }
}

impl Deref for Creating {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        &self.0
    }
}

impl AnswerOk for Creating {
    type C = *mut bindings::ib_uobject;

    fn ok(self) -> Self::C {
        self.0.into_raw().as_ptr().cast()
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

rdma::argument! {
    /// `uverbs_types.h`: commit and abort get what begin has returned, in the same task, once.
    impl Creating = |handle: HandleRef| Creating(handle);
}

/// A handle that a lookup found, with a reference to it, and to its file if it is a file's. Dropping
/// it puts both.
///
/// # Invariants
///
/// `file` is the handle's, of which there is a reference, unless the handle is numbered.
pub(crate) struct Looked {
    handle: HandleRef,
    file: Option<FileRef>,
}

impl Looked {
    /// A numbered handle.
    pub(crate) fn numbered(handle: HandleRef) -> Self {
        // INVARIANT: It is numbered: it was in the table.
        Self { handle, file: None }
    }

    /// A handle of a file.
    pub(crate) fn of_file(handle: HandleRef, file: FileRef) -> Self {
        // INVARIANT: The caller has found the handle in the file.
        Self {
            handle,
            file: Some(file),
        }
    }

    /// Locks the handle. Any context.
    ///
    /// # Errors
    ///
    /// `EBUSY`.
    pub(crate) fn lock(self, access: Access) -> Result<Found> {
        self.handle.try_lock(access)?;
        // INVARIANT: Just locked.
        Ok(Found {
            looked: self,
            access,
        })
    }
}

impl Deref for Looked {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        &self.handle
    }
}

rdma::argument! {
    /// `uverbs_types.h`: a handle that a lookup has returned, which the caller gives up. Of a file's
    /// handle, `object` is that file until the object is destroyed, which a lookup prevents.
    impl Looked = |handle: HandleRef| {
        let file = match super::classes::class(handle.uapi_object()) {
            Some(Class::File) => FileRef::of_object(&handle),
            Some(Class::Numbered) | None => None,
        };
        Looked { handle, file }
    };
}

/// A handle that a lookup found and locked. Dropping it puts it, but does not unlock it.
///
/// # Invariants
///
/// The handle is locked for `access`, and the lock is this value's.
#[must_use = "it stays locked unless it is put"]
pub(crate) struct Found {
    looked: Looked,
    access: Access,
}

impl Found {
    /// Unlocks the handle and puts it. May sleep.
    pub(crate) fn put(self) {
        // SAFETY: The lock is this value's (type invariant), which ends here.
        unsafe { self.looked.unlock(self.access) };
    }
}

impl Deref for Found {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        &self.looked
    }
}

impl Answer for Found {
    type C = *mut bindings::ib_uobject;

    fn answer(self) -> Self::C {
        let Looked { handle, file } = self.looked;
        if let Some(file) = file {
            file.keep();
        }
        handle.into_raw().as_ptr().cast()
    }
}

impl AnswerOk for Found {
    type C = *mut bindings::ib_uobject;

    fn ok(self) -> Self::C {
        self.answer()
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

/// A handle that C puts; it is locked as the [`PutAccess`] of the same call says.
pub(crate) struct PutHandle<'a>(Looked, PhantomData<&'a ()>);

/// For what the [`PutHandle`] of the same call is locked.
pub(crate) struct PutAccess<'a>(Access, PhantomData<&'a ()>);

rdma::argument! {
    /// `uverbs_types.h`: `rdma_lookup_put_uobject` gets what a lookup has returned.
    impl<'a> PutHandle<'a> = |handle: Looked| PutHandle(handle, PhantomData);
    /// `uverbs_types.h`: the mode of that lookup.
    impl<'a> PutAccess<'a> = |access: Access| PutAccess(access, PhantomData);
}

impl<'a> PutHandle<'a> {
    /// The handle, with its lock.
    pub(crate) fn with(self, access: PutAccess<'a>) -> Found {
        // INVARIANT: Both are arguments of one call, so the lookup has locked the handle so.
        Found {
            looked: self.0,
            access: access.0,
        }
    }
}

/// A handle that is locked exclusively. Dropping this leaves it locked.
///
/// # Invariants
///
/// The lock of `0` is this value's.
#[must_use = "the handle stays locked"]
pub(crate) struct Exclusive<'a>(&'a Uobject);

rdma::argument! {
    /// `uverbs_types.h`: `rdma_assign_uobject` gets a handle that the caller has locked exclusively,
    /// and that it puts as one that was destroyed.
    impl<'a> Exclusive<'a> = |handle: &'a Uobject| Exclusive(handle);
}

impl Deref for Exclusive<'_> {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        self.0
    }
}

impl<'a> Exclusive<'a> {
    /// Locks a handle. Any context.
    ///
    /// # Errors
    ///
    /// `EBUSY`.
    pub(crate) fn lock(handle: &'a Uobject) -> Result<Self> {
        handle.try_lock(Access::Write)?;
        // INVARIANT: Just locked.
        Ok(Self(handle))
    }

    /// Locks a handle of a file whose objects are all being destroyed; `None`, with a warning, if it is
    /// of another file. Warns if a method has left it locked, and takes that lock over. Any context.
    pub(crate) fn of_all(handle: &'a Uobject, cleaned: &Cleaned<'_>) -> Option<Self> {
        if kernel::warn_on!(!is_of(handle, cleaned.file())) {
            return None;
        }
        // SAFETY: No command of the file, which is the handle's, runs (invariant of `Cleaned`).
        Some(unsafe { Self::of_unused(handle) })
    }

    /// # Safety
    ///
    /// No command uses the handle.
    unsafe fn of_unused(handle: &'a Uobject) -> Self {
        if kernel::warn_on!(handle.try_lock(Access::Write).is_err()) {
            // SAFETY: Nobody uses the handle (contract of this function).
            unsafe { handle.seize() };
        }
        // INVARIANT: Locked, by this value.
        Self(handle)
    }

    /// The handle.
    pub(crate) fn handle(&self) -> &'a Uobject {
        self.0
    }

    /// Forgets the object, which was destroyed, or is not to be. Any context.
    pub(crate) fn clear_object(&self) {
        // SAFETY: The lock is this value's (type invariant), so nobody else uses the object, and this
        // value does not lead to it.
        unsafe { self.0.clear_object() };
    }

    /// Unlocks the handle. Any context.
    pub(crate) fn unlock(self) {
        // SAFETY: The lock is this value's (type invariant), which ends here.
        unsafe { self.0.unlock_any() };
    }
}

/// A handle of a file that is released: the reference of the file, and the use of the open file that
/// the handle has had since it was committed.
pub(crate) struct Released {
    /// The use of the open file.
    pub(crate) file_use: FileUse,
    /// The reference.
    pub(crate) handle: HandleRef,
}

impl Released {
    /// Locks the handle. Warns if a method has left it locked, and takes that lock over. Any context.
    pub(crate) fn lock(&self) -> Exclusive<'_> {
        // SAFETY: Commands that use the handle have a reference to its file, which is released (row
        // of `argument!`).
        unsafe { Exclusive::of_unused(&self.handle) }
    }

    /// What the type does with the handle after its object was destroyed, if anything. May sleep.
    pub(crate) fn clean_up(self) {
        if let Some(cleanup) = Cleanup::of(&self.handle) {
            cleanup.run(&self.handle);
        }
    }
}

rdma::argument! {
    /// `uverbs_types.h`: `uverbs_uobject_release` is called once, when the file is released, and
    /// takes both.
    impl Released = |handle: HandleRef| {
        let file_use = FileUse::of_committed(&handle);
        Released { file_use, handle }
    };
}

/// A handle at the end of a method, in the state that the [`EndAccess`] of the same call says. Null
/// if there is none.
pub(crate) struct Ending<'a>(Option<NonNull<bindings::ib_uobject>>, PhantomData<&'a ()>);

/// What a method has done with the handle in the [`Ending`] of the same call.
pub(crate) struct EndAccess<'a>(AttrAccess, PhantomData<&'a ()>);

rdma::argument! {
    /// See [`Ending`].
    impl<'a> Ending<'a>
        = |handle: Option<NonNull<bindings::ib_uobject>>| Ending(handle, PhantomData);
    /// See [`EndAccess`].
    impl<'a> EndAccess<'a> = |access: AttrAccess| EndAccess(access, PhantomData);
}

impl EndAccess<'_> {
    /// The access.
    pub(crate) fn get(&self) -> AttrAccess {
        self.0
    }
}

/// What [`Ending`] is.
pub(crate) enum Ended {
    /// A handle that was created.
    Created(Creating),
    /// A handle that was looked up.
    Used(Found),
    /// None.
    Nothing,
}

impl<'a> Ending<'a> {
    /// The handle.
    pub(crate) fn with(self, access: EndAccess<'a>) -> Ended {
        let Some(handle) = self.0 else {
            return Ended::Nothing;
        };
        // SAFETY: Both are arguments of one call, so the handle is in the state that `access` says
        // (`argument!`'s row), which the method gives up.
        // INVARIANT: A lookup has locked the handle so.
        unsafe {
            match access.0 {
                AttrAccess::New => Ended::Created(Creating::from_c(handle.as_ptr())),
                AttrAccess::Of(access) => Ended::Used(Found {
                    looked: Looked::from_c(handle.as_ptr()),
                    access,
                }),
                AttrAccess::Unknown => Ended::Nothing,
            }
        }
    }
}

/// The type that C asks for.
pub(crate) enum Wanted<'a> {
    /// Any numbered one (`UVERBS_IDR_ANY_OBJECT`).
    Any,
    /// This one.
    Kind(&'a ApiObject),
    /// One that the device does not have.
    Unknown,
}

// SAFETY: `rdma_core.h`: what `uapi_get_object` returns: a description that stays while the open
// file exists, or an error, which is `ENOMSG` for any type.
unsafe impl FromC for Wanted<'_> {
    type C = *const bindings::uverbs_api_object;

    unsafe fn from_c(c: Self::C) -> Self {
        match from_err_ptr(c.cast_mut()) {
            Err(error) if error.to_errno().unsigned_abs() == bindings::ENOMSG => Self::Any,
            Err(_) => Self::Unknown,
            // SAFETY: It is no error, so it is a description, which exists for `'a`: `from_c`'s contract.
            Ok(kind) => Self::Kind(unsafe { ApiObject::view(kind) }),
        }
    }
}
// SAFETY: Its reference is limited to `'a`.
unsafe impl<'a> Within<'a> for Wanted<'a> {}

impl<'a> Wanted<'a> {
    /// The type with a number in the description of the device of a call.
    pub(crate) fn by_id(call: &'a Call, id: u16) -> Self {
        // SAFETY: The file's device has a description as long as the file exists; the helper's
        // result is what `from_c` asks for.
        unsafe { Self::from_c(bindings::rdma_helper_ufile_type(call.file().raw(), id)) }
    }

    /// A type whose objects can be created.
    ///
    /// # Errors
    ///
    /// `EINVAL`: none.
    pub(crate) fn kind(&self) -> Result<&'a ApiObject> {
        match self {
            Self::Kind(kind) => Ok(kind),
            Self::Any | Self::Unknown => Err(EINVAL),
        }
    }
}

/// A file that is released (`uverbs_uobject_fd_release`).
pub(crate) struct ReleasedFile(NonNull<bindings::file>);

rdma::argument! {
    /// `fs.h`: `release` is called once, with the last reference; `private_data` is the file's own.
    impl ReleasedFile = |file: NonNull<bindings::file>| ReleasedFile(file);
}

impl ReleasedFile {
    /// The handle, unless it was not committed.
    pub(crate) fn handle(self) -> Option<Released> {
        // SAFETY: Nobody else uses the file; `private_data` is a handle that was committed, with the
        // file's reference (`FileRef::install`), or null.
        unsafe {
            let handle: *mut bindings::ib_uobject = (*self.0.as_ptr()).private_data.cast();
            (!handle.is_null()).then(|| Released::from_c(handle))
        }
    }
}
