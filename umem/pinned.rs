// SPDX-License-Identifier: GPL-2.0

//! Pinned memory of a process.
//!
//! A [`Pinned`] owns, in order of acquisition: a charge against the process's limit of locked
//! memory, pins on its pages, a mapping for the device. Dropping it releases them in reverse order,
//! in the context of any process, even if the charged process has exited.

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

/// Up to this many page pointers are kept on the stack instead of in allocated memory.
const FEW: usize = 16;

/// Access flag: on-demand memory.
const ON_DEMAND: c_int = bindings::ib_access_flags_IB_ACCESS_ON_DEMAND as c_int;

/// Access flag: writes of the device may be reordered.
const RELAXED_ORDERING: c_int = bindings::ib_access_flags_IB_ACCESS_RELAXED_ORDERING as c_int;

/// Pinned memory.
pub(super) struct Pinned {
    pins: Pins,
    /// Released last.
    charge: Charge,
}

impl Pinned {
    /// Pins and maps `len` bytes at `addr` of the current process. May sleep for a long time.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the device cannot access such memory, or for on-demand memory; `EINVAL` for
    /// an empty range, or an end beyond the address space; `EPERM` or `ENOMEM` if the process may
    /// not lock that much; `EFAULT` if the process has no such memory, or `access` requests writes
    /// to read-only memory; `EINTR` if the process is being killed; those of the mapping.
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
        // CAST: The flag is a low bit.
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

    /// Pins all pages of `span` into the table, in batches of at most `room.len()` pages, which
    /// must not be 0.
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
            // A batch has at most `left` pages; the span is within the address space.
            at = at.wrapping_add(batch.count() << PAGE_SHIFT);
            left = left.saturating_sub(batch.count());
            // CAST: `get` has checked that the count fits in 32 bits.
            self.pins.append(batch, max_segment, left as u32)?;
        }
        Ok(())
    }

    /// Takes back memory from C, with its reference to the process's `mm`.
    pub(super) fn of(pins: Pins, mm: ARef<Mm>) -> Self {
        // The charge is computed from fields that never change, unlike `iova`.
        let pages = scatter::page_count(&pins);
        // INVARIANT: `get` charged as many pages, and the reference is that of its charge.
        Self {
            pins,
            charge: Charge { mm, pages },
        }
    }

    /// The head, common to all kinds.
    pub(super) fn head(&self) -> &Umem {
        &self.pins
    }

    /// Gives the memory to C.
    pub(super) fn into_raw(self) -> *mut bindings::ib_umem {
        let Self { pins, charge } = self;
        // The reference to the `mm` now belongs to the structure.
        core::mem::forget(charge);
        pins.into_raw()
    }
}

/// Pages charged to a process.
///
/// # Invariants
///
/// This value has added `pages` to the pinned pages of `mm`.
struct Charge {
    mm: ARef<Mm>,
    pages: usize,
}

impl Charge {
    /// Charges the current process. Returns `ENOMEM` if that exceeds its limit and it lacks
    /// `CAP_IPC_LOCK`.
    fn current(pages: usize) -> Result<Self> {
        let mm: ARef<Mm> = ARef::from(&**current!().mm().ok_or(EINVAL)?);
        // CAST: The caller's count fits in 32 bits.
        let pinned = pinned_vm_add(&mm, pages as i64);
        // INVARIANT: The pages were just added. If they exceed the limit, the drop removes them.
        let charge = Self { mm, pages };
        let limit = rlimit_memlock() >> PAGE_SHIFT;
        let beyond = usize::try_from(pinned).map_or(true, |pinned| pinned > limit);
        // CAST: The constant is small.
        if beyond && !capable(bindings::CAP_IPC_LOCK as c_int) {
            return Err(ENOMEM);
        }
        Ok(charge)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        // CAST: See `current`.
        pinned_vm_sub(&self.mm, self.pages as i64);
    }
}
