// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that several users open: the locked lists behind them.
//!
//! A domain of extended reliable connections has its target queue pairs in an array by their
//! numbers ([`Targets`]). Each target has a list of its handles, `ib_qp`s that no driver knows,
//! one for each user that has it open ([`Handles`]).
//!
//! Locks: `tgt_qps_rwsem` of the domain, a semaphore, before `qp_open_list_lock` of the device, a
//! spinlock that excludes interrupts. C header: `include/rdma/ib_verbs.h`.

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
use crate::bindings;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;

impl Xrcd {
    /// Initialises the semaphore and the array of a new domain, which does not move.
    pub fn set_up(this: &mut impl SoleOwner<Of = Self>) {
        let c = this.sole();
        // SAFETY: Nobody else has the object, and a C object does not move.
        unsafe {
            bindings::rdma_helper_xrcd_init_rwsem(&raw mut (*c).tgt_qps_rwsem);
            bindings::xa_init_flags(&raw mut (*c).tgt_qps, 0);
        }
    }

    /// Adds a target queue pair, which [`Closing::last`] removes; `used` is a use of this domain
    /// that the queue pair keeps. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn insert(&self, qp: &Owned<Qp>, used: Use) -> Result {
        // SAFETY: `set_up` initialised the array, which has a lock of its own.
        to_result(unsafe {
            bindings::xa_err(bindings::xa_store(
                &raw mut (*self.raw()).tgt_qps,
                qp.qp_num() as c_ulong,
                qp.raw().cast(),
                bindings::GFP_KERNEL,
            ))
        })?;
        used.keep();
        Ok(())
    }

    /// Whether there are target queue pairs. For a domain that nobody uses any more.
    pub fn has_targets(&self) -> bool {
        // SAFETY: One aligned word of a live object.
        unsafe {
            !(&raw const (*self.raw()).tgt_qps.xa_head)
                .read_volatile()
                .is_null()
        }
    }
}

/// The target queue pairs of a domain, locked against others that close them.
pub struct Targets<'a> {
    xrcd: &'a Xrcd,
}

impl<'a> Targets<'a> {
    /// To look a queue pair up. May sleep.
    pub fn read(xrcd: &'a Xrcd) -> Self {
        // SAFETY: `Xrcd::set_up` initialised the semaphore.
        unsafe { bindings::down_read(&raw mut (*xrcd.raw()).tgt_qps_rwsem) };
        Self { xrcd }
    }

    /// The queue pair of this number, which is not removed while `self` exists.
    pub fn find(&self, number: u32) -> Option<&Qp> {
        // SAFETY: `Xrcd::set_up` initialised the array. Its queue pairs live until they are removed,
        // for which the semaphore is taken for writing.
        unsafe {
            let entry = bindings::xa_load(&raw mut (*self.xrcd.raw()).tgt_qps, number as c_ulong);
            Option::from_c(entry.cast())
        }
    }
}

impl Drop for Targets<'_> {
    fn drop(&mut self) {
        // SAFETY: `read` took the semaphore.
        unsafe { bindings::up_read(&raw mut (*self.xrcd.raw()).tgt_qps_rwsem) };
    }
}

/// A target queue pair of which a handle is closed, with the domain locked against others that open
/// or close it.
///
/// # Invariants
///
/// The semaphore of `xrcd` is held for writing. `real` is in the domain, so it lives: only
/// [`last`](Self::last) removes it. The domain lives, since `real` keeps a use of it.
pub struct Closing {
    xrcd: NonNull<bindings::ib_xrcd>,
    real: NonNull<bindings::ib_qp>,
}

impl Closing {
    /// Locks the domain of a handle's queue pair; none if it is in no domain. May sleep.
    pub fn of(handle: &Owned<Qp>) -> Option<Self> {
        let real = handle.real();
        let xrcd = real.xrcd()?;
        // SAFETY: `Xrcd::set_up` initialised the semaphore.
        unsafe { bindings::down_write(&raw mut (*xrcd.raw()).tgt_qps_rwsem) };
        // INVARIANT: Just locked; the handle, which is closed later, keeps the queue pair.
        Some(Self {
            xrcd: NonNull::from(xrcd).cast(),
            real: NonNull::from(real).cast(),
        })
    }

    /// Removes the queue pair from the domain if the handle, which has been closed, was the last,
    /// and returns it with its use of the domain. Unlocks the domain.
    pub fn last(self) -> Option<(Owned<Qp>, Use)> {
        // SAFETY: Both live, and the array is initialised (type invariant). Nobody has an unused
        // queue pair open, and from here on nobody finds it.
        unsafe {
            let real = Qp::view(self.real.as_ptr());
            if real.usecnt().is_used() {
                return None;
            }
            let xrcd = self.xrcd.as_ptr();
            bindings::xa_erase(&raw mut (*xrcd).tgt_qps, real.qp_num() as c_ulong);
            let used = Use::kept(Xrcd::view(xrcd).usecnt());
            Some((Owned::new(self.real), used))
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        // SAFETY: `of` took the semaphore. The domain lives (type invariant; if `real` was removed,
        // its use of the domain has been handed out and is given back later).
        unsafe { bindings::up_write(&raw mut (*self.xrcd.as_ptr()).tgt_qps_rwsem) };
    }
}

/// The handles of a queue pair. The lock is the device's, and excludes interrupts: nothing sleeps
/// while it is held.
pub struct Handles<'a> {
    real: &'a Qp,
    flags: usize,
}

impl<'a> Handles<'a> {
    /// Locks them. `real` is a queue pair that [`share`] was called for.
    pub fn lock(real: &'a Qp) -> Self {
        // SAFETY: The device outlives its queue pairs; its lock is initialised with it.
        let flags = unsafe {
            bindings::rdma_helper_spin_lock_irqsave(&raw mut (*real.dev().raw()).qp_open_list_lock)
        };
        Self { real, flags }
    }

    /// Adds a handle that [`new_handle`] made for this queue pair. `used` is the use of the queue
    /// pair that the handle keeps.
    pub fn add(&mut self, handle: &Owned<Qp>, used: Use) {
        used.keep();
        // SAFETY: The handle is new, so it is in no list; the list is locked.
        unsafe {
            bindings::rdma_helper_qp_list_add(
                &raw mut (*handle.raw()).open_list,
                &raw mut (*self.real.raw()).open_list,
            );
        }
    }

    /// Removes a handle that was added; returns the use that it kept.
    pub fn remove(&mut self, handle: &Owned<Qp>) -> Use {
        // SAFETY: A handle is in the list from `add` on, and keeps a use as long; the list is
        // locked.
        unsafe {
            bindings::rdma_helper_qp_list_del(&raw mut (*handle.raw()).open_list);
            Use::kept(self.real.usecnt())
        }
    }

    /// Calls `f` for each of them.
    pub fn for_each(&self, mut f: impl FnMut(&Qp)) {
        // SAFETY: The list is locked. Its members are the `open_list` fields of handles, which live
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
        // SAFETY: `lock` took the lock, with these flags.
        unsafe {
            bindings::rdma_helper_spin_unlock_irqrestore(
                &raw mut (*self.real.dev().raw()).qp_open_list_lock,
                self.flags,
            );
        }
    }
}

/// A handle to a queue pair, with all that `init` does not say zero.
///
/// # Errors
///
/// `ENOMEM`.
pub fn new_handle(real: &Qp, init: QpInit<'_>) -> Result<Owned<Qp>> {
    let handle = KBox::into_raw(KBox::new(bindings::ib_qp::default(), GFP_KERNEL)?);
    // SAFETY: The memory is ours; nobody else knows of it.
    unsafe {
        init.fill(handle);
        (*handle).real_qp = real.raw();
        (*handle).qp_num = real.qp_num();
        Ok(Owned::from_c(handle))
    }
}

/// Frees a handle. Does nothing to a queue pair that is no handle.
pub fn free_handle(handle: Owned<Qp>) {
    if handle.is_handle() {
        // SAFETY: `new_handle` made it, with `KBox`; nobody else uses it (`Owned`).
        drop(unsafe { KBox::from_raw(handle.ok()) });
    }
}

/// Prepares a queue pair made just now for being opened by handles. `handler` is called with the
/// queue pair as its context.
pub fn share(qp: &mut Owned<Qp>, xrcd: &Xrcd, handler: Handler) {
    let c = qp.sole();
    // SAFETY: Nobody has it but its driver (`Owned`), which reads these fields only when it makes
    // the queue pair. `handler` takes a queue pair as its context (`Handler`).
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
}

/// Who is told of events of a shared queue pair.
pub trait Told {
    /// Something has happened to the queue pair `real`.
    fn told(event: &QpEvent, real: &Qp);
}

/// A function that drivers call with an event and a queue pair.
pub struct Handler(unsafe extern "C" fn(*mut bindings::ib_event, *mut c_void));

impl Handler {
    /// The function that tells `T`.
    pub const fn of<T: Told>() -> Self {
        Self(on_event::<T>)
    }
}

/// # Safety
///
/// For drivers, as the event handler that [`share`] has set, with a queue pair as its context.
unsafe extern "C" fn on_event<T: Told>(event: *mut bindings::ib_event, real: *mut c_void) {
    // SAFETY: This function's contract.
    let (event, real) = unsafe { (QpEvent::view(event), Qp::view(real.cast())) };
    T::told(event, real);
}
