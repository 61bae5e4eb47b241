// SPDX-License-Identifier: GPL-2.0

//! Vectors of pages (`struct bio_vec`), and mapping them to a contiguous range with an IOMMU.

use super::direct;
use super::CJoined;
use super::Kind;
use super::Place;
use super::Rdma;
use crate::device::Device;
use crate::proto::rw_plan;
use crate::proto::rw_plan::Segment;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::scatter::Piece;
use rdma::edge::FromC;
use rdma::edge::Tied;
use rdma::edge::Within;
use rdma::features::bvec_done;

/// A part of a vector.
///
/// # Invariants
///
/// The pages of the entries exist during `'a`.
#[derive(Clone, Copy)]
pub(in crate::rw) struct Vector<'a> {
    entries: &'a [bindings::bio_vec],
    /// Start in the entries, and length.
    iter: bindings::bvec_iter,
}

/// A part of an entry.
///
/// # Invariants
///
/// Its pages exist during `'a`.
#[derive(Clone, Copy)]
pub(in crate::rw) struct Part<'a>(bindings::bio_vec, PhantomData<&'a [bindings::bio_vec]>);

impl Part<'_> {
    /// The C structure.
    pub(super) fn raw(self) -> bindings::bio_vec {
        self.0
    }

    /// Length in bytes.
    fn len(&self) -> u32 {
        self.0.bv_len
    }
}

/// Tag of C arguments: there are that many entries, which exist with their pages until the transfer
/// is destroyed.
pub(crate) enum OfVector {}
/// The first entry.
pub(crate) type EntriesArg<'a> = Tied<'a, OfVector, *const bindings::bio_vec>;
/// Number of entries.
pub(crate) type CountArg<'a> = Tied<'a, OfVector, u32>;
/// The part of the entries to be transferred.
pub(crate) struct Iter(bindings::bvec_iter);

// SAFETY: Every value is valid.
unsafe impl FromC for Iter {
    type C = bindings::bvec_iter;

    #[inline]
    unsafe fn from_c(c: Self::C) -> Self {
        Self(c)
    }
}
// SAFETY: It contains no reference.
unsafe impl Within<'_> for Iter {}

impl<'a> Vector<'a> {
    /// The vector of a call; `None` without entries.
    pub(in crate::rw) fn new(
        entries: EntriesArg<'a>,
        count: CountArg<'a>,
        iter: Iter,
    ) -> Option<Self> {
        let (entries, count) = (NonNull::new(entries.get().cast_mut())?, count.get());
        if count == 0 {
            return None;
        }
        // SAFETY: There are that many entries, by the tag `OfVector`.
        // CAST: `usize` has at least 32 bits.
        let entries = unsafe { core::slice::from_raw_parts(entries.as_ptr(), count as usize) };
        // INVARIANT: The pages exist, by the tag `OfVector`.
        Some(Self {
            entries,
            iter: iter.0,
        })
    }

    /// Length in bytes.
    pub(in crate::rw) fn bytes(&self) -> u32 {
        self.iter.bi_size
    }

    /// The parts of the entries that the vector covers.
    pub(in crate::rw) fn segments(&self) -> impl Iterator<Item = Segment> + 'a {
        let (first, done) = (self.iter.bi_idx, bvec_done(&self.iter));
        rw_plan::segments(self.entries, first, done, self.bytes(), |entry| {
            entry.bv_len
        })
    }

    /// The parts as C structures.
    pub(in crate::rw) fn parts(&self) -> impl Iterator<Item = Result<Part<'a>>> + 'a {
        let entries = self.entries;
        self.segments().map(move |segment| {
            let entry = entries.get(segment.entry).ok_or(EINVAL)?;
            let offset = entry.bv_offset.checked_add(segment.offset).ok_or(EINVAL)?;
            let part = bindings::bio_vec {
                bv_page: entry.bv_page,
                bv_len: segment.len,
                bv_offset: offset,
            };
            // INVARIANT: A part of the vector, whose pages exist.
            Ok(Part(part, PhantomData))
        })
    }
}

/// Parts that an IOMMU maps to one contiguous range, in the memory of a context. Unmapped on drop.
///
/// # Invariants
///
/// `place` is the content of a context, which exists during `'a`. The state in it has an IOVA range
/// on the device, to which `linked` bytes are linked in this direction. No device uses them.
pub(in crate::rw) struct Joined<'a> {
    place: NonNull<CJoined>,
    device: &'a Device,
    dma: bindings::dma_data_direction,
    linked: usize,
}

impl Joined<'_> {
    fn state(&self) -> *mut bindings::dma_iova_state {
        const STATE: usize = core::mem::offset_of!(CJoined, state);
        self.place.as_ptr().wrapping_byte_add(STATE).cast()
    }
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let (device, state) = (self.device.as_raw(), self.state());
        // SAFETY: By the type invariant the state has a range with `linked` bytes, which no device
        // uses.
        unsafe { bindings::rdma_helper_rw_iova_destroy(device, state, self.linked, self.dma) };
    }
}

/// A context of a transfer to be created, and the parts linked so far.
pub(in crate::rw) struct Joining<'p, 'a> {
    place: &'p mut Place<'a>,
    joined: Joined<'p>,
}

impl<'a> Place<'a> {
    /// Allocates an IOVA range for `total` bytes, of which `first` are the first; `None` if that is
    /// not possible. May sleep.
    pub(in crate::rw) fn join<'p>(
        &'p mut self,
        device: &'p Device,
        first: Part<'_>,
        total: usize,
        dma: bindings::dma_data_direction,
    ) -> Option<Joining<'p, 'a>> {
        let place: NonNull<CJoined> = NonNull::new(self.0.place())?;
        let mut first = first.raw();
        // SAFETY: The memory belongs to the context, and the page exists (`Part` invariant).
        let begun = unsafe {
            let state = &raw mut (*place.as_ptr()).state;
            bindings::rdma_helper_rw_iova_try_alloc(device.as_raw(), state, &mut first, total)
        };
        if !begun {
            return None;
        }
        // INVARIANT: The range is just allocated; nothing is linked.
        let joined = Joined {
            place,
            device,
            dma,
            linked: 0,
        };
        Some(Joining {
            place: self,
            joined,
        })
    }
}

rdma::import! {
    in rdma::bindings;

    /// Returns whether a device uses kernel virtual addresses for DMA, so that it has no IOMMU.
    fn uses_virt_dma(device: &Device) -> bool = rdma_helper_ib_uses_virt_dma;
}

/// Returns whether a device may have an IOMMU that maps parts to one range.
pub(in crate::rw) fn may_join(device: &Device) -> bool {
    !uses_virt_dma(device)
}

impl Joining<'_, '_> {
    /// Links the next part.
    ///
    /// # Errors
    ///
    /// Errors of the IOMMU.
    pub(in crate::rw) fn link(&mut self, part: Part<'_>) -> Result {
        let mut raw = part.raw();
        let joined = &mut self.joined;
        let (device, state) = (joined.device.as_raw(), joined.state());
        // SAFETY: The state has a range (type invariant), and the page exists (`Part` invariant).
        to_result(unsafe {
            bindings::rdma_helper_rw_iova_link(device, state, &mut raw, joined.linked, joined.dma)
        })?;
        // INVARIANT: Just linked.
        joined.linked = joined.linked.saturating_add(part.len() as usize);
        Ok(())
    }

    /// Makes the linked parts visible to the device, and creates a transfer of them with a single
    /// SGE. `bytes` is the length of all parts.
    ///
    /// # Errors
    ///
    /// Errors of the IOMMU.
    pub(in crate::rw) fn finish(self, bytes: u32, lkey: u32, rdma: &Rdma) -> Result {
        let joined = self.joined;
        let (device, state) = (joined.device.as_raw(), joined.state());
        let at = joined.place.as_ptr();
        // SAFETY: The state has a range with `linked` bytes (`Joined` invariant). The memory
        // belongs to the context, which stays in place until the transfer is completed
        // (`rdma_rw_ctx_init_bvec`); the member of this kind is written just before `made`.
        unsafe {
            to_result(bindings::rdma_helper_rw_iova_sync(
                device,
                state,
                joined.linked,
            ))?;
            (*at).mapped_len = joined.linked;
            let piece = Piece {
                addr: (*state).addr,
                len: bytes,
            };
            direct::write_one(&raw mut (*at).sge, &raw mut (*at).wr, piece, lkey, rdma);
            self.place.made(Kind::Joined, 1);
        }
        // The context owns the range from now on.
        core::mem::forget(joined);
        Ok(())
    }
}

impl<'a> Joined<'a> {
    /// The contiguous range of a completed transfer.
    ///
    /// # Safety
    ///
    /// `place` must be the content of its context, as [`Joining::finish`] wrote it; `device` and
    /// `dma` those of its creation. Must be called once.
    pub(super) unsafe fn from_raw(
        place: *mut CJoined,
        device: &'a Device,
        dma: bindings::dma_data_direction,
    ) -> Option<Self> {
        let place = NonNull::new(place)?;
        // SAFETY: By the contract of this function the content is initialised.
        let linked = unsafe { (*place.as_ptr()).mapped_len };
        // INVARIANT: By the contract of this function.
        Some(Self {
            place,
            device,
            dma,
            linked,
        })
    }
}

/// A vector that C passes, but that is not needed.
pub(in crate::rw) struct Unused;

// SAFETY: The pointer is not dereferenced.
unsafe impl FromC for Unused {
    type C = *const bindings::bio_vec;

    unsafe fn from_c(_: Self::C) -> Self {
        Self
    }
}
// SAFETY: It contains no reference.
unsafe impl Within<'_> for Unused {}
