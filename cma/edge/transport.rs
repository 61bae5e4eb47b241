// SPDX-License-Identifier: GPL-2.0

//! IDs of the transports, `ib_cm` and `iw_cm`: who owns one, and who uses it.
//!
//! The owner is an [`Owned`], which an [`Id`] has until it ends, or a listener or a request fails.
//! Calls have a [`Use`] each. The drop of the owner waits until nobody uses the transport's ID any
//! more, then destroys it, which waits for its handler. So it is not the last user who destroys it:
//! that may be the handler, which would wait for itself.
//!
//! Nobody may drop an owner whose user he is.

use super::id::Id;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Completion;
use kernel::sync::Refcount;
use kernel::sync::UniqueArc;

/// A transport's structure of an ID.
///
/// # Safety
///
/// IDs of the type have their own locks, so they may be used from any thread.
pub(crate) unsafe trait Ends: Sized {
    /// Destroys an ID; waits for its handler.
    ///
    /// # Safety
    ///
    /// It exists, is ours, and is not used afterwards.
    unsafe fn destroy(raw: NonNull<Self>);
}

/// # Invariants
///
/// When there is an owner, `raw` exists until that is gone.
#[pin_data]
struct Shared<C: Ends> {
    raw: NonNull<C>,
    users: Refcount,
    #[pin]
    gone: Completion,
    /// The context of the handler.
    _context: Option<Arc<Id>>,
}

// SAFETY: IDs may be used from any thread (contract of `Ends`).
unsafe impl<C: Ends> Send for Shared<C> {}
// SAFETY: As for `Send`: IDs have their own locks.
unsafe impl<C: Ends> Sync for Shared<C> {}

/// The use of a transport's ID. It may be dropped in any context.
///
/// # Invariants
///
/// It is counted in `users`.
pub(crate) struct Use<C: Ends>(Arc<Shared<C>>);

impl<C: Ends> Clone for Use<C> {
    fn clone(&self) -> Self {
        self.0.users.inc();
        // INVARIANT: Counted above.
        Self(self.0.clone())
    }
}

impl<C: Ends> Drop for Use<C> {
    fn drop(&mut self) {
        if self.0.users.dec_and_test() {
            self.0.gone.complete_all();
        }
    }
}

impl<C: Ends> Use<C> {
    /// Returns the C structure, which exists as long as this.
    pub(super) fn raw(&self) -> *mut C {
        self.0.raw.as_ptr()
    }
}

/// The owner of a transport's ID, which it destroys on drop. May sleep then.
///
/// # Invariants
///
/// There is no other owner. The ID is ours unless [`give_up`](Self::give_up) was called.
pub(crate) struct Owned<C: Ends>(Option<Use<C>>);

impl<C: Ends> Drop for Owned<C> {
    fn drop(&mut self) {
        let Some(own) = self.0.take() else { return };
        let shared = own.0.clone();
        drop(own);
        shared.gone.wait_for_completion();
        // SAFETY: The ID exists and is ours (type invariant); nobody uses it, as all uses are counted
        // and none comes when there is none.
        unsafe { C::destroy(shared.raw) };
    }
}

/// Memory for an owner. It is allocated before there is an ID: to destroy one for lack of memory would
/// wait for its handler, which may wait for a lock that the caller holds.
pub(super) struct Vacant<C: Ends>(Pin<UniqueArc<Shared<C>>>);

impl<C: Ends> Vacant<C> {
    /// Memory for the owner of an ID whose handler will have this context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(context: Option<Arc<Id>>) -> Result<Self> {
        let shared = pin_init!(Shared {
            raw: NonNull::dangling(),
            users: Refcount::new(1),
            gone <- Completion::new(),
            _context: context,
        });
        Ok(Self(UniqueArc::pin_init(shared, GFP_KERNEL)?))
    }

    /// Takes an ID.
    ///
    /// # Safety
    ///
    /// The ID exists, is ours, and has no other owner. Its handler has the context of `new`.
    pub(super) unsafe fn own(mut self, raw: NonNull<C>) -> Owned<C> {
        *self.0.as_mut().project().raw = raw;
        // INVARIANT: The only owner (contract of this function), and the first use.
        Owned(Some(Use(self.0.into())))
    }
}

impl<C: Ends> Owned<C> {
    /// A use of the ID.
    pub(crate) fn used(&self) -> Result<Use<C>> {
        self.0.clone().ok_or(ENODEV)
    }

    /// The transport destroys the ID, because its handler, which calls this, will not return 0. The
    /// consumer has promised not to use the ID any more.
    pub(crate) fn give_up(mut self) {
        let own = self.0.take();
        drop(own);
    }
}

/// A transport's ID.
pub(crate) enum Transport {
    /// Of `ib_cm`.
    Ib(Owned<rdma::bindings::ib_cm_id>),
    /// Of `iw_cm`.
    Iw(Owned<rdma::bindings::iw_cm_id>),
}

/// The use of a transport's ID.
pub(crate) enum Used {
    /// Of `ib_cm`.
    Ib(super::ib::IbId),
    /// Of `iw_cm`.
    Iw(super::iw::IwId),
}

impl Transport {
    /// A use of the ID. Any context.
    pub(crate) fn used(&self) -> Option<Used> {
        match self {
            Self::Ib(ib) => ib.used().ok().map(Used::Ib),
            Self::Iw(iw) => iw.used().ok().map(Used::Iw),
        }
    }

    /// The transport destroys the ID; see [`Owned::give_up`].
    pub(crate) fn give_up(self) {
        match self {
            Self::Ib(ib) => ib.give_up(),
            Self::Iw(iw) => iw.give_up(),
        }
    }
}

impl Id {
    /// A use of the transport's ID, if there is one. Any context.
    pub(crate) fn transport(&self) -> Option<Used> {
        self.look(|inner| inner.transport.as_ref().and_then(Transport::used))
    }

    /// Takes the transport's ID, to end it. None of its users may drop it.
    pub(crate) fn take_transport(&self) -> Option<Transport> {
        self.with(|inner| inner.transport.take())
    }

    /// Gives the ID one of a transport.
    ///
    /// # Errors
    ///
    /// The transport's, if the ID is being destroyed: nobody would end it.
    pub(crate) fn set_transport(&self, transport: Transport) -> Result<(), Transport> {
        let old = self.with(|inner| {
            if inner.life.takes_transport() {
                Ok(inner.transport.replace(transport))
            } else {
                Err(transport)
            }
        })?;
        // There is none.
        drop(old);
        Ok(())
    }

    /// Gives the ID one of a transport, made by `wrap`, and returns a use of that. May sleep; not in a
    /// handler of the transport's ID.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the ID is being destroyed. Then so is the transport's.
    pub(crate) fn keep<C: Ends>(
        &self,
        owned: Owned<C>,
        wrap: fn(Owned<C>) -> Transport,
    ) -> Result<Use<C>> {
        let used = owned.used()?;
        if let Err(refused) = self.set_transport(wrap(owned)) {
            // The owner's end waits for it.
            drop(used);
            drop(refused);
            return Err(EINVAL);
        }
        Ok(used)
    }
}
