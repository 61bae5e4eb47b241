// SPDX-License-Identifier: GPL-2.0

//! Memory of queues that comes back to the user context that had it.
//!
//! To make a queue's memory costs more than all the rest of a queue pair: pages to be found,
//! cleared and mapped, and when it goes, unmapped on all CPUs. So a context keeps some of what
//! its destroyed queues had, within the bounds of [`super::shelf`], and its next queues of the
//! same size get that. It goes when the context goes, since nobody else holds it.
//!
//! # What users may see of it
//!
//! * A ring is used again only when nothing but the kernel has it any more: no mapping, in
//!   whatever process, and no page of it pinned or in a pipe ([`SharedBuf::is_private`]). A child
//!   that inherited a mapping and was then taken the device away keeps the old queue's memory and
//!   never gets to see a new one's. So until its user has unmapped it, memory just lies here.
//! * It never leaves the context. Another context's, or the kernel's own, is always fresh.
//! * The header is cleared and written anew ([`super::RingBuf::new`]), the slots are not: what is
//!   in them was put there by, or for, users of the same file, who may map every queue of it
//!   anyway. Nobody counts on zeroes in a slot, since each is used many times as it is: the
//!   kernel reads only slots that were posted, librxe only those that were completed.
//!
//! # Locks
//!
//! The shelf's is taken in process context alone; memory is freed outside of it.

use super::shelf::Shelf;
use core::pin::Pin;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::SpinLock;
use kernel::sync::UniqueArc;
use rdma::shared_ring::SharedBuf;

/// What a user context keeps of its queues' memory.
#[pin_data]
pub(crate) struct Store {
    #[pin]
    shelf: SpinLock<Shelf<Pin<UniqueArc<SharedBuf>>>>,
}

impl Store {
    /// An empty store. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                shelf <- new_spinlock!(Shelf::new(), "rxe::Store::shelf"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Memory of `len` bytes, whole pages, which nobody has mapped; what is in it is whatever
    /// its last users left. Process context.
    pub(super) fn take(&self, len: usize) -> Option<Arc<SharedBuf>> {
        let found = self.shelf.lock().take(len, |memory| memory.is_private())?;
        Some(found.into())
    }

    /// Keeps `memory` if nobody else in the kernel has it. Process context, without locks;
    /// may sleep.
    pub(super) fn keep(&self, memory: Arc<SharedBuf>) {
        let Some(memory) = Arc::into_unique_or_drop(memory) else {
            return;
        };
        let len = memory.len();
        loop {
            let Some(oldest) = self.shelf.lock().make_room(len) else {
                break;
            };
            drop(oldest);
        }
        // Another may have been quicker; then it goes, after the lock.
        let refused = self.shelf.lock().put(len, memory);
        drop(refused);
    }
}
