// SPDX-License-Identifier: GPL-2.0

//! Identifiers that are dropped by a work item, because their handler is running.
//!
//! A handler could also end its identifier by its return value. But then the queue pair would have to
//! be destroyed before, in the handler, and that may wait for the end of a connection, which iWARP's
//! connection manager tells only after the handler has returned; and the C module forgets its
//! transport's identifier if it was news of a neighbour that was answered so.

use super::CmId;
use super::CmUser;
use super::Outcome;
use crate::workqueue::system_dfl;
use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;

/// What dropping an identifier later takes; `None` if it stays after each of its events.
pub(super) type End<U> = Option<Pin<KBox<EndLater<U>>>>;

/// A work item that drops an identifier.
#[pin_data]
pub(super) struct EndLater<U: CmUser> {
    #[pin]
    work: Work<Self>,
    id: Option<CmId<U>>,
}

impl_has_work! {
    impl{U: CmUser} HasWork<Self> for EndLater<U> { self.work }
}

impl<U: CmUser> EndLater<U> {
    /// Creates what an identifier of `U` needs.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn for_id() -> Result<End<U>> {
        if !U::After::MAY_DESTROY {
            return Ok(None);
        }
        let later = pin_init!(Self {
            work <- new_work!("EndLater::work"),
            id: None,
        });
        Ok(Some(KBox::pin_init(later, GFP_KERNEL)?))
    }
}

impl<U: CmUser> WorkItem for EndLater<U> {
    type Pointer = Pin<KBox<Self>>;

    fn run(mut this: Pin<KBox<Self>>) {
        let id = this.as_mut().project().id.take();
        drop(this);
        let Some(id) = id else {
            return;
        };
        // Everything else is dropped before the module may be unloaded.
        id.end().end_at_return();
    }
}

/// Drops an identifier by a work item. For its handler.
pub(super) fn drop_later<U: CmUser>(mut id: CmId<U>) {
    match id.end.take() {
        Some(mut later) => {
            *later.as_mut().project().id = Some(id);
            system_dfl().enqueue(later);
        }
        None => {
            // Its user has no way to return it. It stays, and the module with it.
            kernel::warn_on!(true);
            core::mem::forget(id);
        }
    }
}
