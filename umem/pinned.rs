// SPDX-License-Identifier: GPL-2.0

//! Memory of a process that stays where it is.
//!
//! A [`Pinned`] owns, in the order in which it gets them: a charge against the process's
//! limit of locked memory, pins on its pages, a mapping for the device. Dropping it gives
//! back what there is, in the opposite order, whichever process does so and whether the
//! one that was charged still lives.

use super::edge;
use super::edge::pinned::can_do_mlock;
use super::edge::pinned::capable;
use super::edge::pinned::max_segment;
use super::edge::pinned::pinned_vm_add;
use super::edge::pinned::pinned_vm_sub;
use super::edge::pinned::rlimit_memlock;
use super::edge::pinned::Batch;
use super::edge::pinned::Pins;
use super::edge::pinned::Room;
use super::edge::pinned::BATCH;
use super::scatter;
use super::Span;
use core::mem::MaybeUninit;
use kernel::ffi::c_int;
use kernel::mm::Mm;
use kernel::page::PAGE_SHIFT;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::edge::umem::HostDevice;
use rdma::edge::umem::Umem;
use rdma::provider::unsupported;

/// The pointers of as many pages are kept on the stack, and no memory is allocated for them.
const FEW: usize = 16;

/// Rights of a region: its memory comes on demand.
const ON_DEMAND: c_int = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND as c_int;

/// Rights of a region: what the device writes may pass what it wrote before.
const RELAXED_ORDERING: c_int = bindings::ib_access_flags_IB_ACCESS_RELAXED_ORDERING as c_int;

/// Pinned memory.
pub(super) struct Pinned {
    pins: Pins,
    /// Given back last.
    charge: Charge,
}

impl Pinned {
    /// Pins and maps `len` bytes at `addr` of the current process. May sleep, for long.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the device cannot reach such memory, or it is to come on demand;
    /// `EINVAL` for no pages, or an end beyond the address space; `EPERM` or `ENOMEM` if
    /// the process may not lock as much; `EFAULT` if it has no such memory, or none that it
    /// may write to and `access` is to write; `EINTR` if it is being killed; those of the
    /// mapping.
    pub(super) fn get(host: HostDevice, addr: usize, len: usize, access: c_int) -> Result<Self> {
        if host.cc_dma_bounce() {
            return Err(unsupported());
        }
        let span = Span::of(addr, len).ok_or(EINVAL)?;
        if !can_do_mlock() {
            return Err(EPERM);
        }
        if access & ON_DEMAND != 0 {
            return Err(unsupported());
        }
        if span.count == 0 || u32::try_from(span.count).is_err() {
            return Err(EINVAL);
        }
        // CAST: a few bits.
        let mut attrs = bindings::DMA_ATTR_REQUIRE_COHERENT as usize;
        if access & RELAXED_ORDERING != 0 {
            attrs |= bindings::DMA_ATTR_WEAK_ORDERING as usize;
        }

        let mut few = [const { MaybeUninit::uninit() }; FEW];
        let mut many: Option<KVec<*mut bindings::page>> = None;
        let room: &mut Room = if span.count <= FEW {
            &mut few
        } else {
            let many = many.insert(KVec::with_capacity(span.count.min(BATCH), GFP_KERNEL)?);
            many.spare_capacity_mut()
        };
        let charge = Charge::current(span.count)?;
        let writable = edge::writable(access);
        let mut pinned = Self {
            pins: Pins::new(host, &charge.mm, (addr, len), attrs, writable)?,
            charge,
        };
        pinned.pin(span, room)?;
        pinned.pins.map()?;
        Ok(pinned)
    }

    /// Pins all pages of `span` into the table, as many at once as there is room for, which is
    /// at least one.
    fn pin(&mut self, span: Span, room: &mut Room) -> Result {
        let max_segment = max_segment(&self.pins.host());
        let mut flags = bindings::FOLL_LONGTERM;
        if self.pins.writable() {
            flags |= bindings::FOLL_WRITE;
        }
        let mut at = span.first;
        let mut left = span.count;
        while left != 0 {
            edge::cond_resched();
            let batch = Batch::pin(at, left, flags, room)?;
            // Never more than was wanted; the span is within the address space.
            at = at.wrapping_add(batch.count() << PAGE_SHIFT);
            left = left.saturating_sub(batch.count());
            // CAST: `get` has checked that the count has 32 bits.
            self.pins.append(batch, max_segment, left as u32)?;
        }
        Ok(())
    }

    /// Memory that C gives back, with its reference to the process's memory.
    pub(super) fn of(pins: Pins, mm: ARef<Mm>) -> Self {
        // What was charged follows from what nobody writes to, not from `iova`.
        let pages = scatter::page_count(&pins);
        // INVARIANT: `get` added as many, and the reference is that of its charge.
        Self {
            pins,
            charge: Charge { mm, pages },
        }
    }

    /// The part that all kinds have.
    pub(super) fn head(&self) -> &Umem {
        &self.pins
    }

    /// Gives it to C.
    pub(super) fn into_raw(self) -> *mut bindings::ib_umem {
        let Self { pins, charge } = self;
        // The reference to the process's memory is the structure's from now on.
        core::mem::forget(charge);
        pins.into_raw()
    }
}

/// Pages that a process is charged with.
///
/// # Invariants
///
/// We have added `pages` to what `mm` has pinned.
struct Charge {
    mm: ARef<Mm>,
    pages: usize,
}

impl Charge {
    /// Charges the current process. `ENOMEM` if that is beyond its limit, and it has not
    /// the right to go beyond.
    fn current(pages: usize) -> Result<Self> {
        let mm: ARef<Mm> = ARef::from(&**current!().mm().ok_or(EINVAL)?);
        // CAST: the caller's count has 32 bits.
        let pinned = pinned_vm_add(&mm, pages as i64);
        // INVARIANT: Just added. If it was too much, the drop takes it back.
        let charge = Self { mm, pages };
        let limit = rlimit_memlock() >> PAGE_SHIFT;
        let beyond = usize::try_from(pinned).map_or(true, |pinned| pinned > limit);
        // CAST: a small number.
        if beyond && !capable(bindings::CAP_IPC_LOCK as c_int) {
            return Err(ENOMEM);
        }
        Ok(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // CAST: as when it was added.
        pinned_vm_sub(&self.mm, self.pages as i64);
    }
}
