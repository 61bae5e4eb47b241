// SPDX-License-Identifier: GPL-2.0

//! Vectors of pages (`struct bio_vec`), and their joining by an IOMMU.

use super::direct;
use super::Arg;
use super::CJoined;
use super::Kind;
use super::Place;
use super::Rdma;
use crate::device::Device;
use crate::object::Qp;
use crate::proto::rw_plan;
use crate::proto::rw_plan::Segment;
use crate::rw::abi;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::scatter::Piece;
use rdma::edge::During;
use rdma::edge::FromC;
use rdma::edge::Within;

/// A part of a vector.
///
/// # Invariants
///
/// The pages of the entries exist during `'a`.
#[derive(Clone, Copy)]
pub(in crate::rw) struct Vector<'a> {
    entries: &'a [bindings::bio_vec],
    /// Where in them it begins, and how long it is.
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
    /// As C has it.
    pub(super) fn raw(self) -> bindings::bio_vec {
        self.0
    }

    /// Bytes.
    fn len(&self) -> u32 {
        self.0.bv_len
    }
}

impl<'a> Vector<'a> {
    /// Bytes.
    pub(in crate::rw) fn bytes(&self) -> u32 {
        self.iter.bi_size
    }

    /// Its parts in the entries.
    pub(in crate::rw) fn segments(&self) -> impl Iterator<Item = Segment> + 'a {
        let (first, done) = (self.iter.bi_idx, self.iter.bi_bvec_done);
        rw_plan::segments(self.entries, first, done, self.bytes(), |entry| {
            entry.bv_len
        })
    }

    /// Its parts, as C has them.
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
            // INVARIANT: A part of the vector.
            Ok(Part(part, PhantomData))
        })
    }
}

/// Parts that an IOMMU has joined to one piece, in the place of a context. Undone on drop.
///
/// # Invariants
///
/// `place` is the content of a context, which exists during `'a`. The state in it has a range of
/// addresses on the device, to which `linked` bytes are linked in this direction. No device uses
/// them.
pub(in crate::rw) struct Joined<'a> {
    place: NonNull<CJoined>,
    device: &'a Device,
    dma: bindings::dma_data_direction,
    linked: usize,
}

impl Joined<'_> {
    fn state(&self) -> *mut bindings::dma_iova_state {
        // SAFETY: Only a place is computed.
        unsafe { &raw mut (*self.place.as_ptr()).state }
    }
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let (device, state) = (self.device.as_raw(), self.state());
        // SAFETY: What was linked, and all of the range (type invariant).
        unsafe { bindings::rdma_helper_rw_iova_destroy(device, state, self.linked, self.dma) };
    }
}

/// A context that is to be made of what is joined.
pub(in crate::rw) struct Joining<'p, 'a> {
    place: &'p mut Place<'a>,
    joined: Joined<'p>,
}

impl<'a> Place<'a> {
    /// Begins to join `total` bytes, of which these are the first; none if that is impossible.
    /// May sleep.
    pub(in crate::rw) fn join<'p>(
        &'p mut self,
        device: &'p Device,
        first: Part<'_>,
        total: usize,
        dma: bindings::dma_data_direction,
    ) -> Option<Joining<'p, 'a>> {
        let place: NonNull<CJoined> = NonNull::new(self.0.place())?;
        let mut first = first.raw();
        // SAFETY: The place is the context's own, and the page exists (invariant of `Part`).
        let begun = unsafe {
            let state = &raw mut (*place.as_ptr()).state;
            bindings::rdma_helper_rw_iova_try_alloc(device.as_raw(), state, &mut first, total)
        };
        if !begun {
            return None;
        }
        // INVARIANT: Just begun; nothing is linked.
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

    /// Whether the DMA addresses of a device are those of memory: it has no IOMMU.
    fn uses_virt_dma(device: &Device) -> bool = rdma_helper_ib_uses_virt_dma;
}

/// Whether a device can have an IOMMU that joins.
pub(in crate::rw) fn may_join(device: &Device) -> bool {
    !uses_virt_dma(device)
}

impl Joining<'_, '_> {
    /// Links the next part.
    ///
    /// # Errors
    ///
    /// The IOMMU's.
    pub(in crate::rw) fn link(&mut self, part: Part<'_>) -> Result {
        let mut raw = part.raw();
        let joined = &mut self.joined;
        let (device, state) = (joined.device.as_raw(), joined.state());
        // SAFETY: The state is there (type invariant), and the page exists (invariant of `Part`).
        to_result(unsafe {
            bindings::rdma_helper_rw_iova_link(device, state, &mut raw, joined.linked, joined.dma)
        })?;
        // INVARIANT: Just linked.
        joined.linked = joined.linked.saturating_add(part.len() as usize);
        Ok(())
    }

    /// Has the device see what was linked, and makes a transfer of that as one piece. `bytes` are
    /// those of all parts.
    ///
    /// # Errors
    ///
    /// The IOMMU's.
    pub(in crate::rw) fn finish(self, bytes: u32, lkey: u32, rdma: &Rdma) -> Result {
        let joined = self.joined;
        let (device, state) = (joined.device.as_raw(), joined.state());
        let at = joined.place.as_ptr();
        // SAFETY: The state is there, with so many bytes (invariant of `Joined`). The place is the
        // context's own, where it stays until the transfer is done (`rdma_rw_ctx_init_bvec`); it is
        // written for this kind.
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
        // The transfer's from now on.
        core::mem::forget(joined);
        Ok(())
    }
}

impl<'a> Joined<'a> {
    /// What was joined for a transfer that is done.
    ///
    /// # Safety
    ///
    /// `place` is the content of its context, as [`Joining::finish`] wrote it; the rest is what it
    /// was joined with. Once.
    pub(super) unsafe fn from_raw(
        place: *mut CJoined,
        device: &'a Device,
        dma: bindings::dma_data_direction,
    ) -> Option<Self> {
        let place = NonNull::new(place)?;
        // SAFETY: This function's contract.
        let linked = unsafe { (*place.as_ptr()).mapped_len };
        // INVARIANT: This function's contract.
        Some(Self {
            place,
            device,
            dma,
            linked,
        })
    }
}

/// A vector that C does not need any more.
pub(in crate::rw) struct Unused;

// SAFETY: The pointer is not followed.
unsafe impl FromC for Unused {
    type C = *const bindings::bio_vec;

    unsafe fn from_c(_: Self::C) -> Self {
        Self
    }
}
// SAFETY: There is no reference in it.
unsafe impl Within<'_> for Unused {}

rdma::exported!(rdma_rw_ctx_init_bvec);

/// See [`abi::init_vector`].
///
/// # Safety
///
/// As for an export whose arguments are [`Arg`], a nullable [`Qp`], and `count` entries at
/// `entries`, which with their pages exist until the transfer is destroyed.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_rw_ctx_init_bvec(
    ctx: *mut bindings::rdma_rw_ctx,
    qp: *mut bindings::ib_qp,
    port: u32,
    entries: *const bindings::bio_vec,
    count: u32,
    iter: bindings::bvec_iter,
    remote: u64,
    rkey: u32,
    dma: bindings::dma_data_direction,
) -> c_int {
    let Some(entries) = NonNull::new(entries.cast_mut()).filter(|_| count != 0) else {
        return EINVAL.to_errno();
    };
    let during = During;
    // SAFETY: This function's contract. INVARIANT: The same, for the vector.
    let (place, qp, vector) = unsafe {
        let entries = core::slice::from_raw_parts(entries.as_ptr(), count as usize);
        (
            rdma::edge::within::<Arg<Place<'_>>>(ctx, &during),
            rdma::edge::within::<Option<&Qp>>(qp, &during),
            Vector { entries, iter },
        )
    };
    abi::init_vector(place, qp, port, &vector, remote, rkey, dma)
}
