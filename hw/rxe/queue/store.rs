// SPDX-License-Identifier: GPL-2.0

//! Cache of ring memory for one user context.
//!
//! Allocating the memory of a queue costs more than the rest of a queue pair: pages are allocated,
//! cleared and mapped, and later unmapped on all CPUs. A context therefore keeps some memory of its
//! destroyed queues, within the bounds of [`super::shelf`], for new queues of the same size. The
//! cache is freed with the context. The memory stays charged to the task that allocated it.
//!
//! # Visibility to users
//!
//! * A ring is reused only when the kernel alone has it: no process maps it, and none of its pages
//!   is pinned or in a pipe ([`SharedBuf::is_private`]). A child that inherited a mapping keeps the
//!   old queue's memory and never sees a new one's. Memory that is still mapped stays in the cache
//!   unused.
//! * Memory never leaves the context. Other contexts and kernel users always get new memory.
//! * The header is cleared and rewritten ([`super::RingBuf::new`]), the slots are not: their
//!   contents were written by, or for, users of the same file, who may map every queue of it
//!   anyway. Nothing relies on zeroed slots: the kernel reads only posted slots, librxe only
//!   completed ones.
//!
//! # Locks
//!
//! The shelf's lock is taken in process context only; memory is freed outside of it.

use super::shelf::Shelf;
use core::pin::Pin;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::SpinLock;
use kernel::sync::UniqueArc;
use rdma::accounted;
use rdma::shared_ring::SharedBuf;

/// Cache of ring memory of a user context.
#[pin_data]
pub(crate) struct Store {
    #[pin]
    shelf: SpinLock<Shelf<Pin<UniqueArc<SharedBuf>>>>,
}

impl Store {
    /// Creates an empty store. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                shelf <- new_spinlock!(Shelf::new(), "rxe::Store::shelf"),
            }),
            accounted::GFP,
        )
    }

    /// Returns cached memory of `len` bytes (whole pages) that nobody maps. It still has its old
    /// contents. Process context.
    pub(super) fn take(&self, len: usize) -> Option<Arc<SharedBuf>> {
        let found = self.shelf.lock().take(len, |memory| memory.is_private())?;
        Some(found.into())
    }

    /// Caches `memory` if no other references exist in the kernel. Process context, without locks;
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
        // A concurrent caller may have taken the room; then the memory is dropped after unlocking.
        let refused = self.shelf.lock().put(len, memory);
        drop(refused);
    }
}
