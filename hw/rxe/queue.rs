// SPDX-License-Identifier: GPL-2.0

//! The queues that user space maps, and the format of their entries.
//!
//! * [`layout`], [`ring`]: the format of a queue and its two ends;
//! * [`wqe`]: work requests, parsed from bytes; [`encode`]: the reverse, for kernel users;
//! * [`cqe`], [`cq`]: completions and completion queues;
//! * [`work`]: send and receive queues with their private slots;
//! * [`lazy`]: storage for such slots, initialised on first use;
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
use rdma::accounted;
use rdma::shared_ring::SharedBuf;

/// A queue's memory: shared with user space, or the same format for kernel users.
///
/// Cloning copies the reference only. The last one must be dropped in process context
/// ([`SharedBuf`]), but objects of the data path may be dropped in softirq, by RCU or with a
/// packet. Each verbs object therefore takes the memory out of the objects below it when it is
/// destroyed ([`Self::take`]), when nobody uses it any more. A user's memory returns to the store
/// of its context.
#[derive(Clone)]
pub(crate) struct RingBuf {
    memory: Option<Arc<SharedBuf>>,
    store: Option<Arc<Store>>,
}

impl RingBuf {
    /// Creates an empty queue; `store` is that of a user's context. Charged to the current task's
    /// memory cgroup, or, if the memory is reused, to that of the task that allocated it in the
    /// same context. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` for invalid sizes.
    pub(crate) fn new(layout: &Layout, store: Option<&Arc<Store>>) -> Result<Self> {
        let size = layout.size();
        let used = store
            .zip(page_align(size))
            .and_then(|(store, len)| store.take(len));
        let memory = match used {
            Some(memory) => {
                // Clear the indices of the previous queue.
                memory.write_bytes(0, &[0; SLOTS])?;
                memory
            }
            None => Arc::new(SharedBuf::new(size)?, accounted::GFP)?,
        };
        let ring = Self {
            memory: Some(memory),
            store: store.cloned(),
        };
        ring::format(&ring, layout).ok_or(EINVAL)?;
        Ok(ring)
    }

    /// Returns the memory, for mapping; `None` if it was taken.
    pub(crate) fn shared(&self) -> Option<&SharedBuf> {
        self.memory.as_deref()
    }

    /// Takes the memory, to be dropped in process context. Later accesses through `self` fail.
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
