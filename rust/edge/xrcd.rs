// SPDX-License-Identifier: GPL-2.0

//! Shared queue pairs, which several users open, and the locked lists of them.
//!
//! An XRC domain has its target queue pairs in an array, by number ([`Targets`]). Each target has a
//! list of its handles: `ib_qp`s that are not known to the driver, one for each user that has
//! opened it ([`Unlisted::list`]).
//!
//! Lock order: `tgt_qps_rwsem` of the domain, a semaphore, before `qp_open_list_lock` of the
//! device, a spinlock taken with interrupts disabled. C header: `include/rdma/ib_verbs.h`.

use super::object::Owned;
use super::object::Use;
use super::verbs::Qp;
use super::verbs::QpEvent;
use super::verbs::QpInit;
use super::verbs::Xrcd;
use super::AnswerOk;
use super::FromC;
use super::Init;
use super::IntoC;
use super::SoleOwner;
use super::View;
use crate::accounted;
use crate::bindings;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;

impl Xrcd {
    /// Initialises the semaphore and the array of a new domain.
    pub fn set_up(this: &mut impl SoleOwner<Of = Self>) {
        let c = this.sole();
        // SAFETY: No other reference to the object exists (contract of `SoleOwner`), and C objects
        // do not move.
        unsafe {
            bindings::rdma_helper_xrcd_init_rwsem(&raw mut (*c).tgt_qps_rwsem);
            bindings::xa_init_flags(&raw mut (*c).tgt_qps, 0);
        }
    }

    /// Returns whether there are target queue pairs. For a domain that is no longer in use.
    pub fn has_targets(&self) -> bool {
        // SAFETY: An aligned word of a live object, read as a whole.
        unsafe {
            !(&raw const (*self.raw()).tgt_qps.xa_head)
                .read_volatile()
                .is_null()
        }
    }
}

/// A queue pair that handles can open.
///
/// # Invariants
///
/// The list of its handles is initialised.
#[derive(Clone, Copy)]
pub struct Shared<'a>(&'a Qp);

impl Deref for Shared<'_> {
    type Target = Qp;

    fn deref(&self) -> &Qp {
        self.0
    }
}

impl Shared<'_> {
    /// Calls `f` for each handle, with the device's lock held: `f` must not sleep.
    pub fn for_each(self, f: impl FnMut(&Qp)) {
        Handles::lock(self).for_each(f);
    }
}

/// A new queue pair that handles can open, not in its domain yet.
///
/// # Invariants
///
/// The list of its handles is initialised.
#[must_use = "a queue pair that is dropped is leaked"]
pub struct NewTarget<'a>(Owned<Qp>, PhantomData<&'a Xrcd>);

impl<'a> NewTarget<'a> {
    /// Prepares a new queue pair of the domain. `handler` is called with the queue pair as its
    /// context.
    pub fn new(mut qp: Owned<Qp>, xrcd: &'a Xrcd, handler: Handler) -> Self {
        let c = qp.sole();
        // SAFETY: Only its driver uses the queue pair (`Owned`), and reads these fields only while
        // it creates it. `handler` takes a shared queue pair as its context (`Handler`).
        unsafe {
            (*c).event_handler = Some(handler.0);
            (*c).qp_context = c.cast();
            (*c).pd = core::ptr::null_mut();
            (*c).send_cq = core::ptr::null_mut();
            (*c).recv_cq = core::ptr::null_mut();
            (*c).srq = core::ptr::null_mut();
            (*c).xrcd = xrcd.into_c();
            bindings::INIT_LIST_HEAD(&raw mut (*c).open_list);
        }
        // INVARIANT: Just initialised.
        Self(qp, PhantomData)
    }

    /// Returns the queue pair, to be opened.
    pub fn shared(&self) -> Shared<'_> {
        // INVARIANT: The type invariant.
        Shared(&self.0)
    }

    /// Adds the queue pair to its domain, which it keeps in use until [`Closing::last`] removes it.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, with the queue pair.
    pub fn insert(self) -> Result<(), (Error, Owned<Qp>)> {
        let Some(xrcd) = self.0.xrcd() else {
            return Err((EINVAL, self.0));
        };
        let used = xrcd.usecnt().count();
        // SAFETY: `Xrcd::set_up` initialised the array, which has its own lock.
        let stored = to_result(unsafe {
            bindings::xa_err(bindings::xa_store(
                &raw mut (*xrcd.raw()).tgt_qps,
                self.0.qp_num() as c_ulong,
                self.0.raw().cast(),
                accounted::FLAGS,
            ))
        });
        match stored {
            Ok(()) => {
                used.keep();
                Ok(())
            }
            Err(error) => Err((error, self.0)),
        }
    }

    /// Returns a queue pair that no handle has open any more.
    pub fn into_owned(self) -> Owned<Qp> {
        self.0
    }
}

/// The target queue pairs of a domain, with its semaphore held for reading: no queue pair is
/// removed.
pub struct Targets<'a> {
    xrcd: &'a Xrcd,
}

impl<'a> Targets<'a> {
    /// Takes the semaphore for reading. May sleep.
    pub fn read(xrcd: &'a Xrcd) -> Self {
        // SAFETY: `Xrcd::set_up` initialised the semaphore.
        unsafe { bindings::down_read(&raw mut (*xrcd.raw()).tgt_qps_rwsem) };
        Self { xrcd }
    }

    /// Returns the queue pair of this number, which is not removed while `self` exists.
    pub fn find(&self, number: u32) -> Option<Shared<'_>> {
        // SAFETY: `Xrcd::set_up` initialised the array. Its queue pairs exist until they are
        // removed, which requires the semaphore for writing.
        let qp: Option<&Qp> = unsafe {
            let entry = bindings::xa_load(&raw mut (*self.xrcd.raw()).tgt_qps, number as c_ulong);
            Option::from_c(entry.cast())
        };
        // INVARIANT: `NewTarget::insert` stored it.
        qp.map(Shared)
    }
}

impl Drop for Targets<'_> {
    fn drop(&mut self) {
        // SAFETY: `read` took the semaphore for reading.
        unsafe { bindings::up_read(&raw mut (*self.xrcd.raw()).tgt_qps_rwsem) };
    }
}

/// A target queue pair, one of whose handles is being closed. The domain's semaphore is held for
/// writing, so nobody else opens or closes the queue pair.
///
/// # Invariants
///
/// The semaphore of `xrcd` is held for writing. `real` exists: only [`last`](Self::last) removes it
/// from the domain. The domain exists, because `real` holds a use of it.
pub struct Closing {
    xrcd: NonNull<bindings::ib_xrcd>,
    real: NonNull<bindings::ib_qp>,
}

impl Closing {
    /// Locks the domain of a handle's queue pair; `None` if it is in no domain, or `handle` is no
    /// handle. May sleep.
    pub fn of(handle: &Owned<Qp>) -> Option<Self> {
        let real = Some(handle.real()).filter(|_| handle.is_handle())?;
        let xrcd = real.xrcd()?;
        // SAFETY: `Xrcd::set_up` initialised the semaphore.
        unsafe { bindings::down_write(&raw mut (*xrcd.raw()).tgt_qps_rwsem) };
        // INVARIANT: Just locked; the handle, which is closed later, keeps the queue pair.
        Some(Self {
            xrcd: NonNull::from(xrcd).cast(),
            real: NonNull::from(real).cast(),
        })
    }

    /// Call after the handle was closed. If it was the last one, removes the queue pair from the
    /// domain and returns it, with its use of the domain. Unlocks the domain.
    pub fn last(self) -> Option<(Owned<Qp>, Use)> {
        // SAFETY: Both exist, and the array is initialised (type invariant). A queue pair without
        // uses has no handles, and from here on lookups do not find it.
        unsafe {
            let real = Qp::view(self.real.as_ptr());
            let (xrcd, number) = (self.xrcd.as_ptr(), real.qp_num() as c_ulong);
            let targets = &raw mut (*xrcd).tgt_qps;
            // A queue pair that is not in the domain has another owner.
            if real.usecnt().is_used() || bindings::xa_load(targets, number) != real.raw().cast() {
                return None;
            }
            bindings::xa_erase(targets, number);
            let used = Use::kept(Xrcd::view(xrcd).usecnt());
            Some((Owned::new(self.real), used))
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        // SAFETY: `of` took the semaphore for writing. The domain exists (type invariant): if
        // `real` was removed, the caller of `last` has its use of the domain, which is dropped
        // later.
        unsafe { bindings::up_write(&raw mut (*self.xrcd.as_ptr()).tgt_qps_rwsem) };
    }
}

/// The handles of a shared queue pair, with the device's lock held. The lock is a spinlock taken
/// with interrupts disabled, so nothing may sleep.
struct Handles<'a> {
    real: Shared<'a>,
    flags: usize,
}

impl<'a> Handles<'a> {
    /// Takes the lock.
    fn lock(real: Shared<'a>) -> Self {
        // SAFETY: The device outlives its queue pairs; its lock is initialised with it.
        let flags = unsafe {
            bindings::rdma_helper_spin_lock_irqsave(&raw mut (*real.dev().raw()).qp_open_list_lock)
        };
        Self { real, flags }
    }

    /// Calls `f` for each handle, with the lock held.
    fn for_each(&self, mut f: impl FnMut(&Qp)) {
        // SAFETY: The lock is held. The entries are the `open_list` fields of handles, which exist
        // until they are removed.
        unsafe {
            let head = &raw mut (*self.real.raw()).open_list;
            let mut at = (*head).next;
            while at != head {
                let handle = kernel::container_of!(at, bindings::ib_qp, open_list);
                at = (*at).next;
                f(Qp::view(handle));
            }
        }
    }
}

impl Drop for Handles<'_> {
    fn drop(&mut self) {
        // SAFETY: `lock` took the lock and returned these flags.
        unsafe {
            bindings::rdma_helper_spin_unlock_irqrestore(
                &raw mut (*self.real.dev().raw()).qp_open_list_lock,
                self.flags,
            );
        }
    }
}

/// A handle that is not in the list of its queue pair: new, or closed.
///
/// # Invariants
///
/// [`new`](Self::new) allocated `handle`. Its queue pair is shared, and exists: it is borrowed for
/// `'a`, or `used` is a use of it.
#[must_use = "a handle that is dropped is leaked"]
pub struct Unlisted<'a> {
    handle: Owned<Qp>,
    used: Option<Use>,
    _real: PhantomData<&'a Qp>,
}

impl Deref for Unlisted<'_> {
    type Target = Qp;

    fn deref(&self) -> &Qp {
        &self.handle
    }
}

impl<'a> Unlisted<'a> {
    /// Allocates a handle to a queue pair. Fields that `init` does not set are zero. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(real: Shared<'a>, init: QpInit<'_>) -> Result<Self> {
        let handle = KBox::into_raw(KBox::new(bindings::ib_qp::default(), accounted::GFP)?);
        // SAFETY: The memory is newly allocated and has no other user.
        // INVARIANT: The handle is in no list.
        unsafe {
            init.fill(handle);
            (*handle).real_qp = real.raw();
            (*handle).qp_num = real.qp_num();
            Ok(Self {
                handle: Owned::from_c(handle),
                used: None,
                _real: PhantomData,
            })
        }
    }

    /// Takes a handle out of the list. The result has the use of the queue pair that it held.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue pair that is not a handle.
    pub fn of(handle: Owned<Qp>) -> Result<Self> {
        if !handle.is_handle() {
            return Err(EINVAL);
        }
        // INVARIANT: The queue pair of a handle is shared (type invariant).
        let handles = Handles::lock(Shared(handle.real()));
        // SAFETY: A handle that has an owner is in the list and holds a use: only `list` returns
        // one. The lock is held.
        let used = unsafe {
            bindings::rdma_helper_qp_list_del(&raw mut (*handle.raw()).open_list);
            Use::kept(handles.real.usecnt())
        };
        drop(handles);
        // INVARIANT: Just removed.
        Ok(Self {
            handle,
            used: Some(used),
            _real: PhantomData,
        })
    }

    /// Adds the handle to the list. From now on it keeps its queue pair in use.
    pub fn list(self) -> Owned<Qp> {
        // INVARIANT: The queue pair of a handle is shared (type invariant).
        let handles = Handles::lock(Shared(self.handle.real()));
        match self.used {
            Some(used) => used.keep(),
            None => handles.real.usecnt().count().keep(),
        }
        // SAFETY: The handle is in no list (type invariant); the lock is held.
        unsafe {
            bindings::rdma_helper_qp_list_add(
                &raw mut (*self.handle.raw()).open_list,
                &raw mut (*handles.real.raw()).open_list,
            );
        }
        drop(handles);
        self.handle
    }

    /// Frees the handle, and removes its use of the queue pair, if any.
    pub fn free(self) {
        drop(self.used);
        // SAFETY: `new` allocated it in a `KBox` (type invariant); nobody else uses it (`Owned`).
        drop(unsafe { KBox::from_raw(self.handle.ok()) });
    }
}

/// Receiver of the events of a shared queue pair.
pub trait Told {
    /// Handles an event of the queue pair `real`.
    fn told(event: &QpEvent, real: Shared<'_>);
}

/// An event handler for drivers, whose context is a shared queue pair.
pub struct Handler(unsafe extern "C" fn(*mut bindings::ib_event, *mut c_void));

impl Handler {
    /// Returns the handler that calls `T`.
    pub const fn of<T: Told>() -> Self {
        Self(on_event::<T>)
    }
}

/// Event handler of a shared queue pair.
///
/// # Safety
///
/// For drivers only, as the event handler that [`NewTarget::new`] has set, with the queue pair as
/// its context.
unsafe extern "C" fn on_event<T: Told>(event: *mut bindings::ib_event, real: *mut c_void) {
    // SAFETY: The event and the queue pair exist during the call (contract of this function).
    let (event, real) = unsafe { (QpEvent::view(event), Qp::view(real.cast())) };
    // INVARIANT: `NewTarget::new` has initialised the list (contract of this function).
    T::told(event, Shared(real));
}
