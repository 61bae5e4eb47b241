// SPDX-License-Identifier: GPL-2.0

//! The queues that user space maps, and what is in their entries.
//!
//! * [`layout`], [`ring`]: the format of a queue and its two ends;
//! * [`wqe`]: work requests, from bytes to valid values; [`encode`]: and back, for
//!   kernel users;
//! * [`cqe`], [`cq`]: completions and completion queues;
//! * [`work`]: send and receive queues with their private slots;
//! * [`lazy`]: storage for such slots, written only when they are first used;
//! * [`store`], [`shelf`]: a cache of ring memory for each user context.
//!
//! All but this file, [`lazy`], [`store`] and [`work`] is pure and tested on the host.
//!
//! C header: `include/uapi/rdma/rdma_user_rxe.h`.

#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod cq;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod cqe;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod encode;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod layout;
pub(crate) mod lazy;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod ring;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
mod shelf;
pub(crate) mod store;
pub(crate) mod work;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod wqe;

use self::layout::Layout;
use self::layout::SLOTS;
use self::ring::RingMem;
use self::store::Store;
use kernel::page::page_align;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::shared_ring::SharedBuf;

/// A queue's memory: shared with user space, or the same format for kernel users.
///
/// Clones are clones of the reference. The last one must go in process context
/// ([`SharedBuf`]), while objects of the data path may go in a softirq, when RCU or a packet lets
/// go of them. So each verbs object, when it is destroyed, has those below it give the memory
/// back ([`Self::take`]); nobody uses it any more then. A user's goes to the context's store.
#[derive(Clone)]
pub(crate) struct RingBuf {
    memory: Option<Arc<SharedBuf>>,
    store: Option<Arc<Store>>,
}

impl RingBuf {
    /// An empty queue, for a user with the store of its context. Charged to the current task's
    /// memory cgroup, or to that of the task that had the memory before in the same context.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` for absurd sizes.
    pub(crate) fn new(layout: &Layout, store: Option<&Arc<Store>>) -> Result<Self> {
        let size = layout.size();
        let used = store
            .zip(page_align(size))
            .and_then(|(store, len)| store.take(len));
        let memory = match used {
            Some(memory) => {
                // The indices of the queue that it was.
                memory.write_bytes(0, &[0; SLOTS])?;
                memory
            }
            None => Arc::new(SharedBuf::new(size)?, GFP_KERNEL_ACCOUNT)?,
        };
        let ring = Self {
            memory: Some(memory),
            store: store.cloned(),
        };
        ring::format(&ring, layout).ok_or(EINVAL)?;
        Ok(ring)
    }

    /// The memory, to be mapped; none if it was taken.
    pub(crate) fn shared(&self) -> Option<&SharedBuf> {
        self.memory.as_deref()
    }

    /// Takes the memory, to be dropped in process context. What is left here is refused every
    /// access.
    #[must_use = "it is to be dropped where that may sleep, without locks"]
    pub(crate) fn take(&mut self) -> Self {
        Self {
            memory: self.memory.take(),
            store: self.store.take(),
        }
    }
}

impl Drop for RingBuf {
    fn drop(&mut self) {
        if let (Some(memory), Some(store)) = (self.memory.take(), &self.store) {
            store.keep(memory);
        }
    }
}

impl RingMem for RingBuf {
    #[inline]
    fn load_acquire(&self, offset: usize) -> Option<u32> {
        self.memory.as_ref()?.load_acquire_u32(offset)
    }

    #[inline]
    fn store_release(&self, offset: usize, value: u32) -> Option<()> {
        self.memory.as_ref()?.store_release_u32(offset, value).ok()
    }

    #[inline]
    fn read(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        self.memory.as_ref()?.read_bytes(offset, to).ok()
    }

    #[inline]
    fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        self.memory.as_ref()?.write_bytes(offset, from).ok()
    }
}
