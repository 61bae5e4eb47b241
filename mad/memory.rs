// SPDX-License-Identifier: GPL-2.0

//! Allocation of sends: in which context, and at whose cost.
//!
//! A consumer says so by C's allocation flags. Memory that is charged to a user must not invoke the OOM
//! killer, so its flags are those of [`rdma::accounted`].
//!
//! C header: `include/linux/gfp_types.h`.

use super::edge::dma;
use kernel::alloc::Flags;
use kernel::prelude::*;
use rdma::accounted;
use rdma::bindings;

/// How memory is allocated.
#[derive(Clone, Copy)]
pub(crate) enum Memory {
    /// In any context.
    Atomic,
    /// May sleep.
    Kernel,
    /// May sleep. Charged to the memory cgroup of the current task; `ENOMEM` at its limit.
    Accounted,
}

impl Memory {
    /// As C's flags say.
    pub(super) const fn of(gfp: bindings::gfp_t) -> Self {
        if gfp & 1 << bindings::___GFP_DIRECT_RECLAIM_BIT == 0 {
            Self::Atomic
        } else if gfp & 1 << bindings::___GFP_ACCOUNT_BIT != 0 {
            Self::Accounted
        } else {
            Self::Kernel
        }
    }

    /// Flags for a single object.
    pub(crate) const fn flags(self) -> Flags {
        match self {
            Self::Atomic => GFP_ATOMIC,
            Self::Kernel => GFP_KERNEL,
            Self::Accounted => accounted::GFP,
        }
    }

    /// Allocates `len` zeroed bytes, at least one, that can be mapped for DMA.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn zeros(self, len: usize) -> Result<KVec<u8>> {
        match self {
            Self::Atomic | Self::Kernel => dma::zeros(len, self.flags()),
            Self::Accounted => accounted::zeros(len),
        }
    }

    /// Allocates an empty list with room for `capacity` values.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn list<T>(self, capacity: usize) -> Result<KVVec<T>> {
        match self {
            Self::Atomic | Self::Kernel => Ok(KVVec::with_capacity(capacity, self.flags())?),
            Self::Accounted => accounted::with_capacity(capacity),
        }
    }
}
