// SPDX-License-Identifier: GPL-2.0

//! The queues that user space maps, and what is in their entries.
//!
//! * [`layout`], [`ring`]: the format of a queue and its two ends;
//! * [`wqe`]: work requests, from bytes to valid values; [`encode`]: and back, for
//!   kernel users;
//! * [`cqe`], [`cq`]: completions and completion queues;
//! * [`work`]: send and receive queues with their private slots;
//! * [`lazy`]: room for such slots, paid for as it is used.
//!
//! All but this file, [`lazy`] and [`work`] is pure and tested on the host.
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
pub(crate) mod work;
#[expect(
    unreachable_pub,
    reason = "on the host it is part of a crate's interface"
)]
pub(crate) mod wqe;

use self::layout::Layout;
use self::ring::RingMem;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::shared_ring::SharedBuf;

/// A queue's memory: shared with user space, or the same format for kernel users.
///
/// Clones are clones of the reference. The last one must go in process context
/// ([`SharedBuf`]), while objects of the data path may go in a softirq, when RCU or a packet lets
/// go of them. So each verbs object, when it is destroyed, has those below it give the memory
/// back ([`Self::take`]); nobody uses it any more then.
#[derive(Clone)]
pub(crate) struct RingBuf(Option<Arc<SharedBuf>>);

impl RingBuf {
    /// An empty queue. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` for absurd sizes.
    pub(crate) fn new(layout: &Layout) -> Result<Self> {
        let ring = Self(Some(SharedBuf::new(layout.size())?));
        ring::format(&ring, layout).ok_or(EINVAL)?;
        Ok(ring)
    }

    /// The memory, to be mapped; none if it was taken.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedBuf>> {
        self.0.as_ref()
    }

    /// Takes the memory, to be dropped in process context. What is left here is refused every
    /// access.
    #[must_use = "it is to be dropped where that may sleep, without locks"]
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }
}

impl RingMem for RingBuf {
    #[inline]
    fn load_acquire(&self, offset: usize) -> Option<u32> {
        self.0.as_ref()?.load_acquire_u32(offset)
    }

    #[inline]
    fn store_release(&self, offset: usize, value: u32) -> Option<()> {
        self.0.as_ref()?.store_release_u32(offset, value).ok()
    }

    #[inline]
    fn read(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        self.0.as_ref()?.read_bytes(offset, to).ok()
    }

    #[inline]
    fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        self.0.as_ref()?.write_bytes(offset, from).ok()
    }
}
