// SPDX-License-Identifier: GPL-2.0

//! User contexts, and the description of a mapped queue that user space receives: `struct mminfo` of
//! `include/uapi/rdma/rdma_user_rxe.h`.

use crate::device::Dev;
use crate::device::Rxe;
use crate::faults::Share;
use crate::queue::store::Store;
use crate::queue::RingBuf;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::provider::Mappable;
use rdma::provider::MmapEntry;
use rdma::shared_ring::SharedBuf;
use rdma::udata::Udata;

/// `struct mminfo`.
#[derive(Clone, Copy, Default, zerocopy_derive::IntoBytes, zerocopy_derive::Immutable)]
#[repr(C)]
pub(crate) struct MapInfo {
    offset: u64,
    size: u32,
    pad: u32,
}

const _: () = assert!(size_of::<MapInfo>() == size_of::<rdma::bindings::mminfo>());

/// A queue that its user may map. Dropping it prevents new mappings; existing ones stay.
pub(crate) struct QueueMap {
    entry: MmapEntry,
    size: u32,
}

/// The driver's data of a user context.
pub(crate) struct Context {
    store: Arc<Store>,
    faults: Arc<Share>,
}

impl Context {
    /// Creates the data of a context that the current task opens. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(dev: &Dev) -> Result<Self> {
        Ok(Self {
            store: Store::new()?,
            faults: Share::new(&dev.faults)?,
        })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.faults.end();
    }
}

/// Returns the store of the caller's context; `None` for kernel callers.
pub(crate) fn store<'a>(udata: &'a Udata<'_>) -> Option<&'a Arc<Store>> {
    udata.ucontext::<Rxe>().map(|context| &context.store)
}

/// Returns the page faults of the caller's context; `None` for kernel callers.
pub(crate) fn faults<'a>(udata: &'a Udata<'_>) -> Option<&'a Arc<Share>> {
    udata.ucontext::<Rxe>().map(|context| &context.faults)
}

/// Holds the `RingBuf`, not only its memory, so that the last owner returns the memory to the
/// store.
struct Shared(RingBuf);

impl Mappable for Shared {
    fn len(&self) -> usize {
        self.0.shared().map_or(0, SharedBuf::len)
    }

    fn map(&self, vma: &VmaNew) -> Result {
        self.0.shared().ok_or(EINVAL)?.mmap(vma)
    }
}

impl QueueMap {
    /// Makes `ring` mappable by the caller; `None` for kernel callers. May sleep.
    pub(crate) fn new(udata: &Udata<'_>, ring: &RingBuf) -> Result<Option<Self>> {
        let Some(context) = udata.ucontext::<Rxe>() else {
            return Ok(None);
        };
        let size = u32::try_from(ring.shared().ok_or(EINVAL)?.len())?;
        let entry = MmapEntry::new(context, Shared(ring.clone()))?;
        Ok(Some(Self { entry, size }))
    }

    /// Returns what the user needs to map the queue.
    pub(crate) fn info(&self) -> MapInfo {
        MapInfo {
            offset: self.entry.offset(),
            size: self.size,
            pad: 0,
        }
    }
}
