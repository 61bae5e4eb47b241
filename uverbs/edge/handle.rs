// SPDX-License-Identifier: GPL-2.0

//! Handles of objects (`struct ib_uobject`) as commands use them.
//!
//! | type | state |
//! |---|---|
//! | [`Handle`] | memory that stays; what a type has beside its object |
//! | [`New`] | begun: it has a number that nobody else can use yet. Dropped: aborted |
//! | [`Made`] | its object was made: the end of the call commits or destroys it |
//! | [`Shared`], [`Exclusive`] | looked up and locked, until dropped |
//! | [`Used`] | the same as [`Shared`], in a quick call |
//! | [`Destroyed`] | its object was destroyed; only what is beside it is left |
//! | [`Dying`], [`Dead`] | an object that its type destroys |
//! | [`Ended`] | what was beside an object that is gone |
//! | [`Kept`] | a reference that outlives the call |
//!
//! `ib_uverbs_support` keeps them: it allocates the memory of a handle, zeroed, and frees it after
//! an RCU grace period, without a drop. So what is beside an object ([`Kind::Beside`]) needs no drop.
//!
//! The descriptions of their types are in [`types`].

mod types;
mod used;

pub(crate) use self::types::FileType;
pub(crate) use self::types::NumberedType;
pub(crate) use self::types::Type;
pub(crate) use self::used::Used;

use super::call::Call;
use core::marker::PhantomData;
use core::mem::needs_drop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::device::Device;
use rdma::edge::object::Owned;
use rdma::edge::uverbs::Reason;
use rdma::edge::uverbs::UContext;
use rdma::edge::uverbs::Uobject;
use rdma::edge::FromC;
use rdma::edge::View;
use rdma::features::init_slot;

/// A type of handles. [`super::kinds`] implements it.
///
/// # Safety
///
/// No other type has the number.
pub(crate) unsafe trait Id: Sized + 'static {
    /// The number of the type (`enum uverbs_default_objects`).
    const ID: u32;
}

/// A type of handles whose objects have numbers. [`super::kinds`] implements it.
///
/// # Safety
///
/// The object of each handle with the number of the type is an `Of`.
pub(crate) unsafe trait Holds: Id {
    /// The object.
    type Of: View;
}

/// A type of handles.
pub(crate) trait Kind: Id {
    /// What a handle has beside its object.
    type Beside: Ends;

    /// Makes what is beside a new handle.
    fn beside() -> impl PinInit<Self::Beside>;
}

/// What a handle has beside its object.
pub(crate) trait Ends: Sync + Send + Sized + 'static {
    /// The object was destroyed or forgotten, or was not made. Others that this has told of itself
    /// forget it, since the handle may go from now on; references of this are dropped. Called once
    /// or more. May sleep.
    fn end(this: Ended<'_, Self>);
}

impl Ends for () {
    fn end(_: Ended<'_, Self>) {}
}

/// What was beside an object that is gone, or a part of that.
///
/// # Invariants
///
/// There is no object, or it was forgotten: only this task changes what `0` is.
pub(crate) struct Ended<'a, T>(&'a T);

impl<T> Deref for Ended<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

impl<'a, T: 'static> Ended<'a, T> {
    /// A part.
    pub(crate) fn part<P>(&self, part: impl for<'b> FnOnce(&'b T) -> &'b P) -> Ended<'a, P> {
        // INVARIANT: A part of what there was.
        Ended(part(self.0))
    }
}

/// A type of handles that have a number.
pub(crate) trait Object: Kind + Holds {
    /// Destroys an object, which nobody else uses; what is beside it is ended then. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY`: other objects use it; those of the driver. The object is as it was.
    fn destroy<'a>(object: Dying<'a, Self>) -> Result<Dead<'a, Self>>;
}

/// A type of handles that are file descriptors.
pub(crate) trait File: Kind {
    /// Called when the file is released, after [`destroy`](Self::destroy). May sleep.
    const RELEASE: Option<fn(&Handle<Self>)> = None;

    /// The file is closed, or the device is removed. May sleep.
    fn destroy(handle: &Handle<Self>, why: Reason);
}

/// A handle.
#[repr(C)]
pub(crate) struct Handle<K: Kind> {
    c: Opaque<bindings::ib_uobject>,
    beside: K::Beside,
}

// SAFETY: It is `repr(C)`, and `struct ib_uobject` is its first field.
unsafe impl<K: Kind> View for Handle<K> {
    type C = bindings::ib_uobject;
}

impl<K: Kind> Deref for Handle<K> {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        // SAFETY: The structure is initialised as long as the reference exists.
        unsafe { Uobject::view(self.raw()) }
    }
}

impl<K: Kind> Handle<K> {
    const WITHOUT_DROP: () = assert!(!needs_drop::<K::Beside>());

    /// A handle, if it is of this type.
    pub(super) fn of(uobject: &Uobject) -> Option<&Self> {
        // SAFETY: A handle has the description of its type as long as it exists.
        let id = unsafe { (*uobject.uapi_object().raw()).id };
        // SAFETY: The type is `K` (`Id`), whose handles have the size of this structure (`NumberedType`,
        // `FileType`), and what is beside was made before anybody could find the handle (`New::begun`).
        (id == K::ID).then(|| unsafe { Self::view(uobject.raw()) })
    }

    /// The number by which the program names it, or its file descriptor while it is new.
    pub(crate) fn number(&self) -> u32 {
        // CAST: C keeps the number in an `int`.
        (**self).id() as u32
    }

    /// What the handle has beside its object.
    pub(crate) fn beside(&self) -> &K::Beside {
        &self.beside
    }

    /// A reference to a handle that was found under RCU, if there is one left. Any context.
    pub(super) fn keep_found(&self) -> Option<Kept<K>> {
        // INVARIANT: Just taken.
        self.refs()
            .inc_not_zero()
            .then(|| Kept(NonNull::from(self)))
    }

    /// Another reference to the handle, which outlives the call. Any context.
    pub(crate) fn keep(&self) -> Kept<K> {
        self.refs().inc();
        // INVARIANT: Just taken.
        Kept(NonNull::from(self))
    }
}

impl<K: Object> Handle<K> {
    /// # Safety
    ///
    /// The caller has the handle locked as long as the result is used.
    pub(super) unsafe fn object(&self) -> Option<&K::Of> {
        // SAFETY: The object of a handle of the type is such a one (`Holds`); it is not destroyed while the
        // handle is locked, which the caller guarantees.
        unsafe { self.object_at().cast::<K::Of>().as_ref() }
    }

    fn object_at(&self) -> *mut <K::Of as View>::C {
        (**self).object().cast()
    }
}

/// A reference to a handle. Dropping it may sleep.
///
/// # Invariants
///
/// `0` is a handle, and one of the references to it is this value's.
pub(crate) struct Kept<K: Kind>(NonNull<Handle<K>>);

// SAFETY: The fields of `struct ib_uobject` that change have a lock or are atomic; `Beside` is `Send`
// and `Sync`.
unsafe impl<K: Kind> Send for Kept<K> {}
// SAFETY: As for `Send`.
unsafe impl<K: Kind> Sync for Kept<K> {}

impl<K: Kind> Kept<K> {
    /// Gives the reference to a field, for [`from_raw`](Self::from_raw).
    pub(crate) fn into_raw(self) -> *mut Handle<K> {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }

    /// Takes the reference back.
    ///
    /// # Safety
    ///
    /// `into_raw` has given it, and it is taken once.
    pub(crate) unsafe fn from_raw(handle: *mut Handle<K>) -> Option<Self> {
        // INVARIANT: By this function's contract.
        NonNull::new(handle).map(Self)
    }
}

impl<K: Kind> Deref for Kept<K> {
    type Target = Handle<K>;

    fn deref(&self) -> &Handle<K> {
        // SAFETY: The handle exists: type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl<K: Kind> Drop for Kept<K> {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's: type invariant.
        unsafe { bindings::uverbs_uobject_put(self.raw()) };
    }
}

/// A handle that is being made. Nobody else can find it, and neither close nor removal of the
/// device comes between. Dropping it aborts it, unless an attribute has it: then the end of the call
/// does that.
///
/// # Invariants
///
/// The handle was begun in `call`, and is neither committed nor aborted.
pub(crate) struct New<'c, K: Kind> {
    handle: &'c Handle<K>,
    call: &'c Call,
    by: By,
}

#[derive(Clone, Copy)]
enum By {
    Command,
    Attribute(u16),
}

impl<'c, K: Kind> New<'c, K> {
    /// Begins a handle for a command. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the device has no such type, or there is no context but one that is being made;
    /// `EIO`: the device is gone, or the file is being closed; `ENOMEM`; `EAGAIN` (cgroup); `EMFILE`.
    pub(crate) fn begin(call: &'c Call) -> Result<Self> {
        if call.has_other_context() {
            return Err(EINVAL);
        }
        Self::begin_in_any(call)
    }

    /// As [`begin`](Self::begin), also if the call's context may go before the call.
    pub(super) fn begin_in_any(call: &'c Call) -> Result<Self> {
        let kind = call.char_device().object(K::ID).ok_or(EINVAL)?;
        // SAFETY: The description stays as long as the open file; the call is running.
        let uobject =
            unsafe { from_err_ptr(bindings::rdma_alloc_begin_uobject(kind.raw(), call.raw()))? };
        // SAFETY: The handle was begun above, with the description of `K`.
        unsafe {
            made_beside::<K>(uobject);
            Ok(Self {
                handle: View::view(uobject),
                call,
                by: By::Command,
            })
        }
    }

    /// # Safety
    ///
    /// The handle is the new one in the attribute `id` of the call, and nobody else takes it.
    pub(super) unsafe fn of_attribute(
        handle: &'c Handle<K>,
        call: &'c Call,
        id: u32,
    ) -> Result<Self> {
        let by = By::Attribute(u16::try_from(id)?);
        // INVARIANT: Guaranteed by the caller.
        Ok(Self { handle, call, by })
    }

    /// The handle, which goes if this is dropped.
    pub(crate) fn handle(&self) -> &Handle<K> {
        self.handle
    }

    /// The call that makes it.
    pub(crate) fn call(&self) -> &'c Call {
        self.call
    }

    /// The context that the handle is of.
    pub(crate) fn context(&self) -> Result<&'c UContext> {
        self.call.context().ok_or(EINVAL)
    }

    /// The device.
    pub(crate) fn device(&self) -> Result<&'c Device> {
        Ok(self.context()?.dev())
    }

    /// Sets the value that events tell to the program.
    pub(crate) fn set_user_handle(&mut self, value: u64) {
        // SAFETY: Only this call uses the handle until it is committed.
        unsafe { (*self.handle.raw()).user_handle = value };
    }

    /// The handle is complete, and is committed if the call succeeds. If it does not, it is
    /// destroyed as its type does it.
    pub(crate) fn ready(self) -> &'c Handle<K> {
        let this = core::mem::ManuallyDrop::new(self);
        match this.by {
            By::Command => this.call.set_made(this.handle.raw()),
            By::Attribute(id) => {
                // SAFETY: The call is running, and the attribute is one of its.
                unsafe { bindings::uverbs_finalize_uobj_create(this.call.raw(), id) };
            }
        }
        this.handle
    }

    /// The handle is complete, and is shown at once; that of an attribute when the call ends.
    pub(crate) fn commit(self) {
        if let By::Attribute(_) = self.by {
            self.ready();
            return;
        }
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: The handle was begun in this call, and is committed once: `self` is consumed.
        unsafe { bindings::rdma_alloc_commit_uobject(this.handle.raw(), this.call.raw()) };
    }
}

impl<'c, K: Object> New<'c, K> {
    /// The object was made, and is the handle's now. See [`ready`](Self::ready).
    pub(crate) fn made(self, object: Owned<K::Of>) -> &'c Handle<K> {
        // SAFETY: An object of the type of the handle, `K`, which is given to it.
        unsafe { (**self.handle).set_object(object.into_raw().as_ptr().cast()) };
        self.ready()
    }

    /// As [`made`](Self::made), if the caller needs the object.
    pub(super) fn made_with(self, object: Owned<K::Of>) -> Made<'c, K> {
        // INVARIANT: The object was just given to the handle.
        Made(self.made(object))
    }
}

/// A handle whose object was made in this call, which has it: the object is destroyed if the call
/// fails.
///
/// # Invariants
///
/// The handle has an object, and nobody else can find it before the end of `'c`, at which the call
/// ends.
pub(crate) struct Made<'c, K: Object>(&'c Handle<K>);

impl<'c, K: Object> Made<'c, K> {
    /// The handle.
    pub(crate) fn handle(&self) -> &'c Handle<K> {
        self.0
    }
}

impl<K: Object> Deref for Made<'_, K> {
    type Target = K::Of;

    fn deref(&self) -> &K::Of {
        // SAFETY: There is an object, which nobody can destroy yet: type invariant.
        unsafe { K::Of::view(self.0.object_at()) }
    }
}

impl<K: Kind> Drop for New<'_, K> {
    fn drop(&mut self) {
        // INVARIANT: No object was made: that consumes the `New`.
        K::Beside::end(Ended(self.handle.beside()));
        if let By::Command = self.by {
            // SAFETY: The handle was begun in this call, and is not complete.
            unsafe {
                bindings::rdma_alloc_abort_uobject(self.handle.raw(), self.call.raw(), false);
            }
        }
    }
}

/// Makes what is beside a handle that was just begun.
///
/// # Safety
///
/// `uobject` is a new handle of the type `K`, which nobody else uses.
pub(super) unsafe fn made_beside<K: Kind>(uobject: *mut bindings::ib_uobject) {
    const { Handle::<K>::WITHOUT_DROP };
    let place = uobject.cast::<Handle<K>>();
    // SAFETY: The memory has the size of the structure (`NumberedType`, `FileType`), and is the
    // caller's.
    let Ok(()) = unsafe {
        init_slot::<K::Beside, core::convert::Infallible>(&raw mut (*place).beside, K::beside())
    };
}

/// Ends what is beside a handle whose object is gone.
///
/// # Safety
///
/// `uobject` is a handle of the type `K`, whose object was destroyed, or is to be forgotten, which
/// only this task does.
unsafe fn ended<K: Kind>(uobject: *mut bindings::ib_uobject) {
    // SAFETY: This function's contract.
    let handle = unsafe { <&Handle<K> as FromC>::from_c(uobject) };
    // INVARIANT: This function's contract.
    K::Beside::end(Ended(handle.beside()));
}

/// A lookup's access.
trait Access {
    const MODE: bindings::rdma_lookup_mode;
    /// Whether the handle must have an object ([`Uses`]).
    const HOLDS: bool;
}

/// Access together with others.
pub(crate) struct Read;
/// Access alone.
pub(crate) struct Write;
/// After destruction.
pub(crate) struct Gone;

impl Access for Read {
    const MODE: bindings::rdma_lookup_mode = bindings::rdma_lookup_mode_UVERBS_LOOKUP_READ;
    const HOLDS: bool = true;
}
impl Access for Write {
    const MODE: bindings::rdma_lookup_mode = bindings::rdma_lookup_mode_UVERBS_LOOKUP_WRITE;
    const HOLDS: bool = true;
}
impl Access for Gone {
    const MODE: bindings::rdma_lookup_mode = bindings::rdma_lookup_mode_UVERBS_LOOKUP_DESTROY;
    const HOLDS: bool = false;
}

/// A handle that was looked up, until it is dropped.
///
/// # Invariants
///
/// The lookup has locked the handle as `A` says; it has an object if `A::HOLDS`.
#[allow(private_bounds, reason = "only this file has accesses")]
pub(crate) struct Found<'c, K: Kind, A: Access> {
    handle: &'c Handle<K>,
    _access: PhantomData<A>,
}

/// A handle that others may use at the same time.
pub(crate) type Shared<'c, K> = Found<'c, K, Read>;
/// A handle that nobody else uses.
pub(crate) type Exclusive<'c, K> = Found<'c, K, Write>;
/// A handle whose object was destroyed.
pub(crate) type Destroyed<'c, K> = Found<'c, K, Gone>;

#[allow(private_bounds, reason = "only this file has accesses")]
impl<'c, K: Kind, A: Access> Found<'c, K, A> {
    fn look_up(call: &'c Call, number: i64) -> Result<Self> {
        let kind = call.char_device().object(K::ID).ok_or(EINVAL)?;
        // SAFETY: The description and the open file stay; the call is running.
        let uobject = unsafe {
            from_err_ptr(bindings::rdma_lookup_get_uobject(
                kind.raw(),
                call.file().raw(),
                number,
                A::MODE,
                call.raw(),
            ))?
        };
        // INVARIANT: The lookup has locked it; one without an object is refused below.
        let found = Self {
            // SAFETY: The lookup has checked the type, and has taken a reference.
            handle: unsafe { View::view(uobject) },
            _access: PhantomData,
        };
        // A method of the driver has made the handle, and no object.
        if A::HOLDS && (**found.handle).object().is_null() {
            return Err(EINVAL);
        }
        Ok(found)
    }

    /// The handle.
    pub(crate) fn handle(&self) -> &Handle<K> {
        self.handle
    }
}

impl<'c, K: Kind> Shared<'c, K> {
    /// Finds a handle by its number. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `EINVAL`: another type, or no object; `EBUSY`: somebody has it alone; `EIO`: the
    /// device is gone.
    pub(crate) fn get(call: &'c Call, number: u32) -> Result<Self> {
        Self::look_up(call, number.into())
    }

    /// Finds a handle by its file descriptor.
    ///
    /// # Errors
    ///
    /// `EBADF`, and those of [`get`](Self::get).
    pub(crate) fn by_file(call: &'c Call, fd: i32) -> Result<Self> {
        Self::look_up(call, fd.into())
    }
}

impl<'c, K: Kind> Exclusive<'c, K> {
    /// Finds a handle by its number. May sleep.
    ///
    /// # Errors
    ///
    /// As for [`Shared::get`]; `EBUSY`: somebody uses it.
    pub(crate) fn get(call: &'c Call, number: u32) -> Result<Self> {
        Self::look_up(call, number.into())
    }

    /// Gives the number of this handle to a new one that was made, and destroys this one's object.
    pub(super) fn replace(self, new: New<'c, K>, object: Owned<K::Of>)
    where
        K: Object,
    {
        let old = core::mem::ManuallyDrop::new(self);
        // SAFETY: As in `made`: an object of the type of the handle, which is given to it.
        unsafe { (**new.handle).set_object(object.into_raw().as_ptr().cast()) };
        // SAFETY: The old handle is locked exclusively, the new one was begun in this call.
        unsafe {
            bindings::rdma_assign_uobject(old.handle.raw(), new.handle.raw(), new.call.raw());
        }
        new.commit();
        // SAFETY: The old handle was looked up; it is put as one that was destroyed.
        unsafe {
            bindings::rdma_lookup_put_uobject(
                old.handle.raw(),
                bindings::rdma_lookup_mode_UVERBS_LOOKUP_DESTROY,
            );
        }
    }
}

impl<'c, K: Object> Destroyed<'c, K> {
    /// Finds a handle by its number, and destroys its object. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOENT`, `EINVAL`, `EBUSY`; those of the type.
    pub(crate) fn destroy(call: &'c Call, number: u32) -> Result<Self> {
        let kind = call.char_device().object(K::ID).ok_or(EINVAL)?;
        // SAFETY: As in `look_up`.
        let uobject =
            unsafe { from_err_ptr(bindings::__uobj_get_destroy(kind.raw(), number, call.raw()))? };
        // INVARIANT: It is locked as destroyed ones are.
        Ok(Self {
            // SAFETY: As in `look_up`.
            handle: unsafe { View::view(uobject) },
            _access: PhantomData,
        })
    }
}

/// The access to a handle whose object may be used: one that is not destroyed meanwhile.
trait Uses: Access {}
impl Uses for Read {}
impl Uses for Write {}

#[allow(private_bounds, reason = "only this file has accesses")]
impl<K: Object, A: Uses> Deref for Found<'_, K, A> {
    type Target = K::Of;

    fn deref(&self) -> &K::Of {
        // SAFETY: The handle has an object, which is not destroyed while the lock is held: type
        // invariant.
        unsafe { K::Of::view(self.handle.object_at()) }
    }
}

#[allow(private_bounds, reason = "only this file has accesses")]
impl<K: Kind, A: Access> Drop for Found<'_, K, A> {
    fn drop(&mut self) {
        // SAFETY: The lookup has locked it so: type invariant.
        unsafe { bindings::rdma_lookup_put_uobject(self.handle.raw(), A::MODE) };
    }
}

/// Finds a handle by its number, and destroys its object. May sleep.
///
/// # Errors
///
/// `ENOENT`, `EINVAL`, `EBUSY`; those of the type.
pub(crate) fn destroy<K: Object>(call: &Call, number: u32) -> Result {
    let kind = call.char_device().object(K::ID).ok_or(EINVAL)?;
    // SAFETY: The description stays as long as the open file; the call is running.
    to_result(unsafe { bindings::__uobj_perform_destroy(kind.raw(), number, call.raw()) })
}

/// An object that is to be destroyed. Dropping it changes nothing.
///
/// # Invariants
///
/// Nobody else uses the object.
pub(crate) struct Dying<'a, K: Object> {
    handle: &'a Handle<K>,
    call: &'a Call,
    why: Reason,
}

/// The object of a handle was destroyed.
pub(crate) struct Dead<'a, K: Object>(&'a Handle<K>);

impl<'a, K: Object> Dying<'a, K> {
    /// The object.
    pub(crate) fn object(&self) -> &K::Of {
        // SAFETY: There is one (`destroy_object`), and nobody else destroys it (type invariant).
        unsafe { K::Of::view(self.handle.object_at()) }
    }

    /// The handle.
    pub(crate) fn handle(&self) -> &'a Handle<K> {
        self.handle
    }

    /// The call that destroys it; one of no program if the file is closed.
    pub(crate) fn call(&self) -> &'a Call {
        self.call
    }

    /// Why it is destroyed.
    pub(crate) fn why(&self) -> Reason {
        self.why
    }

    /// The driver has destroyed the object.
    ///
    /// # Safety
    ///
    /// It has.
    pub(crate) unsafe fn gone(self) -> Dead<'a, K> {
        Dead(self.handle)
    }

    /// The C structure, which the caller destroys.
    pub(crate) fn raw(&self) -> *mut <K::Of as View>::C {
        self.handle.object_at()
    }
}
