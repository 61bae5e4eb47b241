// SPDX-License-Identifier: GPL-2.0

//! What the connection manager has as the context of an identifier: its user, and for identifiers
//! whose events may end them, which task runs its handler, and what its end takes.
//!
//! An identifier that is dropped is destroyed by a work item: who waits for its handlers in one of them, or
//! under a lock that they take, would wait for ever. A handler could also end its identifier by its
//! return value. But then the queue pair would have to be destroyed before, in the handler, and that
//! may wait for the end of a connection, which iWARP's connection manager tells only after the handler
//! has returned; and the C module forgets its transport's identifier if it was news of a neighbour that
//! was answered so.

use super::CmUser;
use super::Handle;
use super::Outcome;
use crate::errno::edeadlk;
use crate::module::Resident;
use crate::workqueue::system_dfl;
use core::mem;
use core::ptr;
use kernel::ffi::c_void;
use kernel::impl_has_work;
use kernel::new_spinlock;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::SpinLock;
use kernel::task::Task;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;

/// No task.
const NOBODY: usize = 0;

/// Returns the address of the current task, for comparisons.
fn me() -> usize {
    let task: &Task = kernel::current!();
    ptr::from_ref(task).addr()
}

/// An identifier that is to be destroyed, and what goes with it.
pub(super) struct Ended {
    pub(super) handle: Handle,
    pub(super) qp: Option<Arc<dyn Send + Sync>>,
    pub(super) resident: Resident,
}

/// The context of an identifier whose events may end it.
#[pin_data]
pub(super) struct Shared<U: CmUser> {
    user: Arc<U>,
    /// The task that runs a handler of the identifier. Handlers of a listener on a wildcard address
    /// may run in several tasks at a time: then one of them.
    running: Atomic<usize>,
    #[pin]
    work: Work<Self>,
    #[pin]
    ended: SpinLock<Option<Ended>>,
}

impl_has_work! {
    impl{U: CmUser} HasWork<Self> for Shared<U> { self.work }
}

impl<U: CmUser> Shared<U> {
    fn new(user: Arc<U>) -> Result<Arc<Self>> {
        let shared = pin_init!(Self {
            user,
            running: Atomic::new(NOBODY),
            work <- new_work!("CmId::work"),
            ended <- new_spinlock!(None, "CmId::ended"),
        });
        Arc::pin_init(shared, GFP_KERNEL)
    }

    /// The current task begins a handler of the identifier.
    pub(super) fn begin(&self) {
        self.running.store(me(), Relaxed);
    }

    /// Ends [`begin`](Self::begin).
    pub(super) fn over(&self) {
        // Not if a handler in another task has begun since.
        let _other: Result<usize, usize> = self.running.cmpxchg(me(), NOBODY, Relaxed);
    }
}

impl<U: CmUser> WorkItem for Shared<U> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let ended = this.ended.lock().take();
        let Some(Ended {
            handle,
            qp,
            resident,
        }) = ended
        else {
            return;
        };
        // Waits for handlers, which use the rest.
        drop(handle);
        drop((qp, this));
        // Everything else is dropped before the module may be unloaded.
        resident.end_at_return();
    }
}

/// The context of an identifier, as its owner has it.
///
/// # Invariants
///
/// It is `Full` if, and only if, `U::After::MAY_DESTROY`.
pub(super) enum Context<U: CmUser> {
    /// The user alone.
    Bare(Arc<U>),
    /// What the end of the identifier takes, too.
    Full(Arc<Shared<U>>),
}

impl<U: CmUser> Context<U> {
    /// Creates the context of an identifier.
    ///
    /// # Errors
    ///
    /// `ENOMEM`. None, if identifiers of `U` stay after each event.
    pub(super) fn new(user: Arc<U>) -> Result<Self> {
        // INVARIANT: By the constant.
        Ok(if U::After::MAY_DESTROY {
            Self::Full(Shared::new(user)?)
        } else {
            Self::Bare(user)
        })
    }

    /// Returns what C has as the context. It is valid as long as this.
    pub(super) fn place(&self) -> *mut c_void {
        match self {
            Self::Bare(user) => Arc::as_ptr(user).cast_mut().cast(),
            Self::Full(shared) => Arc::as_ptr(shared).cast_mut().cast(),
        }
    }

    /// The current task is in the handler of the request that the identifier is for.
    pub(super) fn begin(&self) {
        if let Self::Full(shared) = self {
            shared.begin();
        }
    }

    /// Checks that waiting for the handlers of the identifier is not waiting for the current task. That is
    /// not known of identifiers that stay after each event.
    ///
    /// # Errors
    ///
    /// `EDEADLK`.
    pub(super) fn may_wait(&self) -> Result {
        match self {
            Self::Full(shared) if shared.running.load(Relaxed) == me() => Err(edeadlk()),
            Self::Full(_) | Self::Bare(_) => Ok(()),
        }
    }

    /// Has the identifier destroyed by a work item. For an identifier of a program, may sleep.
    pub(super) fn end_later(&self, ended: Ended) {
        let shared = match self {
            Self::Bare(user) => Shared::new(user.clone()),
            Self::Full(shared) => Ok(shared.clone()),
        };
        match shared {
            Ok(shared) => {
                *shared.ended.lock() = Some(ended);
                // There is one end of an identifier, so it is not queued yet.
                let _not_queued: Result<(), _> = system_dfl().enqueue(shared);
            }
            Err(_) => {
                // It stays, and its user and the module with it.
                kernel::warn_on!(true);
                mem::forget(ended);
                if let Self::Bare(user) = self {
                    mem::forget(user.clone());
                }
            }
        }
    }
}

/// Returns the user of an identifier, and what else its context has.
///
/// # Safety
///
/// `place` is that of a [`Context`] of `U`, which exists for `'a`.
pub(super) unsafe fn of<'a, U: CmUser>(
    place: *mut c_void,
) -> (ArcBorrow<'a, U>, Option<&'a Shared<U>>) {
    if U::After::MAY_DESTROY {
        // SAFETY: The context exists (contract of this function), and is a `Full` one (invariant of
        // `Context`).
        let shared: &'a Shared<U> = unsafe { &*place.cast_const().cast() };
        (shared.user.as_arc_borrow(), Some(shared))
    } else {
        // SAFETY: As above: it is a `Bare` one, so an `Arc` of the user.
        let user = unsafe { ArcBorrow::from_raw(place.cast_const().cast::<U>()) };
        (user, None)
    }
}
