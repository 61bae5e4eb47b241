// SPDX-License-Identifier: GPL-2.0

//! Cache of ring memory for one user context.
//!
//! Allocating the memory of a queue costs more than the rest of a queue pair: pages are
//! allocated, cleared and mapped, and later unmapped on all CPUs. So a context keeps some memory
//! of its destroyed queues, within the bounds of [`super::shelf`], for its next queues of the same
//! size. The cache is freed with the context. It stays charged to whoever was charged first.
//!
//! # What users may see of it
//!
//! * A ring is reused only when the kernel alone has it: no process maps it, and none of its pages
//!   is pinned or in a pipe ([`SharedBuf::is_private`]). A child that inherited a mapping keeps the
//!   old queue's memory and never sees a new one's. Memory that is still mapped stays in the
//!   cache unused.
//! * It never leaves the context. Memory of other contexts and of kernel users is always fresh.
//! * The header is cleared and written anew ([`super::RingBuf::new`]), the slots are not: their
//!   contents were written by, or for, users of the same file, which may map every queue of it
//!   anyway. Nothing relies on zeroes in a slot: the kernel reads only slots that were posted,
//!   librxe only those that were completed.
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
