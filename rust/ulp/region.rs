// SPDX-License-Identifier: GPL-2.0

//! Memory that the peer of a connection may access by RDMA.
//!
//! ```text
//!   Region, Buffer --Queues::expose--> Exposed --Queues::invalidate--> Done::Invalidated: Region, Buffer
//!                                         +-----Received::invalidates-----------------> Region, Buffer
//! ```
//!
//! The regions belong to a queue pair and are as old as it is. This is what makes a completion of a
//! SEND with invalidate a proof: no other region can get the key that it names before all
//! completions are handled.

use super::Buffer;
use super::Pd;
use crate::bindings;
use crate::edge::verbs;
use crate::edge::View;
use crate::new_spinlock_irq;
use crate::sync::SpinLockIrq;
use core::cell::UnsafeCell;
use core::mem;
use core::mem::ManuallyDrop;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What a peer may do with exposed memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// RDMA READ.
    Read,
    /// RDMA WRITE.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Returns the flags of a registration (`enum ib_access_flags`).
    pub(super) fn flags(self) -> u32 {
        let write = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
        match self {
            Self::Read => bindings::ib_access_flags_IB_ACCESS_REMOTE_READ,
            Self::Write => write,
            Self::ReadWrite => bindings::ib_access_flags_IB_ACCESS_REMOTE_READ | write,
        }
    }
}

/// Memory of a peer, as it has told: nothing of it is known to be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Address of the first byte.
    pub addr: u64,
    /// Remote key.
    pub key: u32,
}

/// A memory region of a queue pair.
///
/// # Invariants
///
/// `parked` belongs to who has taken the index of the place from `Regions::free`. It is `Some` only
/// if the index will not be given back: then a peer may have access to its memory.
struct Place {
    mr: NonNull<bindings::ib_mr>,
    parked: UnsafeCell<Option<Buffer>>,
}

// SAFETY: A region may be used from any thread, and so may a buffer; its owner is the type
// invariant's.
unsafe impl Send for Place {}
// SAFETY: As for `Send`.
unsafe impl Sync for Place {}

/// The memory regions of a queue pair. Drop may sleep.
///
/// # Invariants
///
/// The regions of `all` are fast registration regions of `pd`, and belong to this. A request that
/// refers to one is outstanding only while the queue pair exists, which keeps this.
#[pin_data(PinnedDrop)]
pub(super) struct Regions {
    all: KVec<Place>,
    /// Indices of the places that no [`Region`] has. Its capacity is their number.
    #[pin]
    free: SpinLockIrq<KVec<u16>>,
    pd: Arc<Pd>,
}

impl Regions {
    /// Creates `count` regions for up to `size` bytes each. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EOPNOTSUPP`, if the device has no fast registration; those of the driver.
    pub(super) fn new(pd: &Arc<Pd>, count: u16, size: usize) -> Result<Arc<Self>> {
        let all = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        let free = KVec::with_capacity(count.into(), GFP_KERNEL)?;
        // The memory may start anywhere in its first page.
        let pages = size.div_ceil(PAGE_SIZE).saturating_add(1);
        let pages = u32::try_from(pages).map_err(|_| EINVAL)?;
        // With its owner from the start, so that those made are destroyed if one fails.
        let mut this = kernel::sync::UniqueArc::pin_init(
            try_pin_init!(Self {
                all,
                free <- new_spinlock_irq!(free, "Regions::free"),
                pd: pd.clone(),
            }? Error),
            GFP_KERNEL,
        )?;
        for index in 0..count {
            // SAFETY: The protection domain exists (`Pd`).
            let mr = from_err_ptr(unsafe {
                bindings::ib_alloc_mr(pd.raw(), bindings::ib_mr_type_IB_MR_TYPE_MEM_REG, pages)
            })?;
            let place = Place {
                mr: NonNull::new(mr).ok_or(ENOMEM)?,
                parked: UnsafeCell::new(None),
            };
            let this = this.as_mut().project();
            // INVARIANT: Created above, in this protection domain. Nothing is registered.
            this.all.push(place, GFP_KERNEL)?;
            this.free.lock().push(index, GFP_ATOMIC)?;
        }
        Ok(this.into())
    }

    /// Takes a region that is free.
    pub(super) fn take(this: &Arc<Self>) -> Option<Region> {
        let index = this.free.lock().pop()?;
        let place = this.all.get(usize::from(index))?;
        // INVARIANT: The index was taken above. Who has put it there had a `Region`.
        Some(Region {
            index,
            mr: place.mr,
            of: this.clone(),
        })
    }
}

#[pinned_drop]
impl PinnedDrop for Regions {
    fn drop(self: Pin<&mut Self>) {
        let this = self.project();
        for place in this.all.iter_mut() {
            // SAFETY: The region belongs to this, and the queue pair is gone, so no request refers
            // to it (type invariant).
            let left = unsafe { bindings::ib_dereg_mr_user(place.mr.as_ptr(), ptr::null_mut()) };
            if left != 0 {
                // A region of the kernel, without windows. The peer may have access still.
                kernel::warn_on!(true);
                mem::forget(place.parked.get_mut().take());
            }
        }
    }
}

/// A memory region of a queue pair by which no peer has access to memory. Drop gives it back to the
/// queue pair; it may sleep if that is gone.
///
/// # Invariants
///
/// `index` was taken from `Regions::free` of `of`. `mr` is the region of this place, and is not
/// registered.
pub struct Region {
    index: u16,
    mr: NonNull<bindings::ib_mr>,
    of: Arc<Regions>,
}

// SAFETY: A region may be used from any thread.
unsafe impl Send for Region {}
// SAFETY: As for `Send`.
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // There is room for all indices, and each is here once.
        let _ = self.of.free.lock().push_within_capacity(self.index);
    }
}

impl Region {
    /// Returns whether it is one of these.
    pub(super) fn is_of(&self, regions: &Arc<Regions>) -> bool {
        Arc::ptr_eq(&self.of, regions)
    }

    /// Maps a buffer, under a key of its own, and returns what a registration needs to expose it.
    ///
    /// # Errors
    ///
    /// Those, with `EINVAL`, if it is larger than the region or of another protection domain.
    pub(super) fn map(self, buffer: Buffer) -> Result<Exposed, (Self, Buffer, Error)> {
        if !Arc::ptr_eq(buffer.pd(), &self.of.pd) {
            return Err((self, buffer, EINVAL));
        }
        let mr = self.mr.as_ptr();
        // SAFETY: The region exists (invariant of `Regions`), and is not registered (type
        // invariant). The memory is mapped for its device: one protection domain.
        let mapped =
            unsafe { bindings::rdma_helper_map_mr_piece(mr, buffer.addr(), buffer.length()) };
        // SAFETY: The region exists (invariant of `Regions`).
        let view = unsafe { verbs::Mr::view(mr) };
        if mapped != 1 || view.length() != u64::from(buffer.length()) {
            return Err((self, buffer, EINVAL));
        }
        // As `ib_update_fast_reg_key` does: a key that the peer has had is of no use.
        self.turn_keys(1);
        let at = Remote {
            addr: view.iova(),
            key: view.rkey(),
        };
        buffer.sync_for_device();
        // INVARIANT: The region maps the memory of the buffer, under this key.
        Ok(Exposed {
            region: ManuallyDrop::new(self),
            buffer: ManuallyDrop::new(buffer),
            at,
        })
    }

    /// Moves the low byte of the keys, which consumers choose, by `step`.
    fn turn_keys(&self, step: u8) {
        // SAFETY: The region exists (invariant of `Regions`).
        let view = unsafe { verbs::Mr::view(self.mr.as_ptr()) };
        let turned = |key: u32| {
            let [low, ..] = key.to_le_bytes();
            (key & !0xff) | u32::from(low.wrapping_add(step))
        };
        view.set_rkey(turned(view.rkey()));
        view.set_lkey(turned(view.lkey()));
    }

    /// Keeps memory that a peer may have access to until the region is destroyed, with which this is
    /// not given back.
    fn park(self, buffer: Buffer) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used nor dropped afterwards, but for the index.
        let of = unsafe { ptr::read(&this.of) };
        match of.all.get(usize::from(this.index)) {
            // SAFETY: The index was taken, by this (type invariant), and is not given back (type
            // invariant of `Place`).
            Some(place) => unsafe { *place.parked.get() = Some(buffer) },
            // Indices are those of places.
            None => mem::forget(buffer),
        }
    }
}

/// Memory that a peer may have access to. Nobody else can use it until the peer has no access any
/// more: after [`Queues::invalidate`](super::Queues::invalidate) or
/// [`Received::invalidates`](super::Received::invalidates). If this is dropped, the memory and the
/// region are freed with the queue pair. Drop may sleep if that is gone.
///
/// # Invariants
///
/// A peer may have access to the memory of `buffer`, by `at`, and to nothing else by the region.
#[must_use = "memory comes back by an invalidation only"]
pub struct Exposed {
    region: ManuallyDrop<Region>,
    buffer: ManuallyDrop<Buffer>,
    at: Remote,
}

impl Exposed {
    /// Returns what the peer needs for access.
    pub fn remote(&self) -> Remote {
        self.at
    }

    /// Returns whether its region is one of these.
    pub(super) fn is_of(&self, regions: &Arc<Regions>) -> bool {
        self.region.is_of(regions)
    }

    /// Returns the region, which exists as long as this.
    pub(super) fn mr(&self) -> *mut bindings::ib_mr {
        self.region.mr.as_ptr()
    }

    /// Returns the region and the buffer of a registration that was not posted. The key was not used,
    /// and will be the next one: [`Received::invalidates`](super::Received::invalidates) rests on it
    /// that a region is registered under all of its other keys before it has one again.
    ///
    /// # Safety
    ///
    /// The registration was not posted.
    pub(super) unsafe fn refused(self) -> (Region, Buffer) {
        self.region.turn_keys(u8::MAX);
        // SAFETY: Not registered (contract of this function).
        unsafe { self.end() }
    }

    /// Returns the region and the buffer.
    ///
    /// # Safety
    ///
    /// No peer has access by the region: it was invalidated, or never registered.
    pub(super) unsafe fn end(self) -> (Region, Buffer) {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is neither used nor dropped afterwards. The invariant of `Region` is the
        // contract of this function.
        let (region, buffer) = unsafe {
            (
                ManuallyDrop::take(&mut this.region),
                ManuallyDrop::take(&mut this.buffer),
            )
        };
        buffer.sync_for_cpu();
        (region, buffer)
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        // SAFETY: Neither is used afterwards.
        let (region, buffer) = unsafe {
            (
                ManuallyDrop::take(&mut self.region),
                ManuallyDrop::take(&mut self.buffer),
            )
        };
        region.park(buffer);
    }
}
