// SPDX-License-Identifier: GPL-2.0

//! DMA mappings of scatter lists and of parts of vectors.

use super::direct;
use super::direct::Requests;
use super::regions::Regions;
use super::vector::Part;
use super::Array;
use super::Content;
use super::Ended;
use super::Lists;
use super::Place;
use super::Unmap;
use super::Vectors;
use crate::device::Device;
use crate::object::Object;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::scatter::Piece;
use rdma::edge::scatter::Scatter;
use rdma::edge::FromC;
use rdma::edge::IntoC;
use rdma::edge::Passed;
use rdma::edge::Tied;

/// A DMA-mapped scatter list. Dropping it, when no device uses it, unmaps it.
///
/// # Invariants
///
/// The list exists, and is mapped on the device, in this direction. There is no other such value.
struct Mapped<'a> {
    device: &'a Device,
    table: bindings::sg_table,
    dma: bindings::dma_data_direction,
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        // SAFETY: The list exists and is mapped (type invariant).
        unsafe {
            bindings::rdma_helper_rw_unmap_sgtable(self.device.as_raw(), &mut self.table, self.dma);
        }
    }
}

/// Tag of C arguments: the list of a transfer's data, and its number of entries.
pub(crate) enum Data {}
/// Tag of C arguments: the list of a transfer's protection information, and its number of entries.
pub(crate) enum Meta {}
/// A scatter list from C.
pub(crate) type ListArg<'a, Of> = Tied<'a, Of, Scatter<'a>>;
/// Number of its entries.
pub(crate) type CountArg<'a, Of> = Tied<'a, Of, u32>;

/// A scatter list of the call that creates or destroys a transfer.
///
/// # Invariants
///
/// `list` has `count` entries.
pub(in crate::rw) struct List<'a, Of> {
    list: Scatter<'a>,
    count: u32,
    _of: PhantomData<Of>,
}

impl<'a, Of> List<'a, Of> {
    /// The list of the call.
    pub(in crate::rw) fn new(list: ListArg<'a, Of>, count: CountArg<'a, Of>) -> Self {
        // INVARIANT: Both arguments have the same tag, so `count` is that of the list.
        Self {
            list: list.get(),
            count: count.get(),
            _of: PhantomData,
        }
    }

    /// Number of entries.
    pub(in crate::rw) fn count(&self) -> u32 {
        self.count
    }

    /// The list, to be passed to the driver.
    pub(super) fn passed(&self) -> Passed<bindings::scatterlist> {
        self.list.passed()
    }

    /// The list for the DMA API.
    fn table(&self) -> bindings::sg_table {
        table(self.list.clone().into_c(), self.count)
    }
}

/// A list for the DMA API.
fn table(list: *mut bindings::scatterlist, count: u32) -> bindings::sg_table {
    bindings::sg_table {
        sgl: list,
        orig_nents: count,
        ..Default::default()
    }
}

/// A DMA-mapped scatter list; unmapped on drop.
///
/// # Invariants
///
/// The list exists during `'a`, or is `own`.
pub(in crate::rw) struct Mapping<'a> {
    // Dropped before the list.
    mapped: Mapped<'a>,
    own: Option<Array<bindings::scatterlist>>,
}

impl<'a> Mapping<'a> {
    /// # Safety
    ///
    /// `table` must describe a list of that many entries, which exists as the type invariant says.
    unsafe fn map(
        device: &'a Device,
        mut table: bindings::sg_table,
        dma: bindings::dma_data_direction,
        own: Option<Array<bindings::scatterlist>>,
    ) -> Result<Self> {
        // SAFETY: By the contract of this function the list exists.
        to_result(unsafe {
            bindings::rdma_helper_rw_map_sgtable(device.as_raw(), &mut table, dma)
        })?;
        // INVARIANT: Just mapped.
        let mapped = Mapped { device, table, dma };
        Ok(Self { mapped, own })
    }

    /// Creates and maps a list of `count` parts of a vector. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of mapping; `ENOMEM`; errors of the parts.
    pub(in crate::rw) fn of_parts(
        device: &'a Device,
        parts: impl Iterator<Item = Result<Part<'a>>>,
        count: u32,
        dma: bindings::dma_data_direction,
    ) -> Result<Self> {
        let mut list = Array::<bindings::scatterlist>::new(usize::try_from(count)?)?;
        // SAFETY: The list has `count` entries.
        unsafe { bindings::sg_init_table(list.as_mut_ptr(), count) };
        for (entry, part) in list.iter_mut().zip(parts) {
            let part = part?.raw();
            let (page, len, offset) = (part.bv_page, part.bv_len, part.bv_offset);
            // SAFETY: The page exists (`Part` invariant).
            unsafe { bindings::rdma_helper_rw_sg_set_page(entry, page, len, offset) };
        }
        // SAFETY: The list has `count` entries, and is kept by the result.
        unsafe { Self::map(device, table(list.as_mut_ptr(), count), dma, Some(list)) }
    }

    /// Number of DMA segments that the device sees.
    pub(in crate::rw) fn pieces(&self) -> u32 {
        self.mapped.table.nents
    }

    /// The list.
    pub(in crate::rw) fn list(&self) -> Scatter<'_> {
        // SAFETY: The list exists (type invariant), and its end is marked.
        unsafe { FromC::from_c(self.mapped.table.sgl) }
    }

    /// Leaves the list mapped: it is unmapped when the transfer is destroyed.
    pub(in crate::rw) fn keep(self) {
        core::mem::forget(self);
    }

    /// Leaves the list mapped; the first of the regions keeps it.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no region, or the first one already keeps a list, or if the list is not
    /// the mapping's own; the list is unmapped then.
    pub(in crate::rw) fn keep_in(mut self, regions: &mut Regions<'_>) -> Result {
        if regions.keeps_list() {
            return Err(EINVAL);
        }
        let place = regions.table().ok_or(EINVAL)?;
        let list = self.own.take().ok_or(EINVAL)?;
        // From now on the regions own the list, whose address is `self.mapped.table.sgl`.
        let _: *mut bindings::scatterlist = list.into_raw();
        *place = core::mem::take(&mut self.mapped.table);
        // Leave it mapped.
        core::mem::forget(self);
        Ok(())
    }
}

impl Place<'_> {
    /// Maps a list of the call that creates the transfer. May sleep.
    ///
    /// # Errors
    ///
    /// Errors of mapping; `EINVAL` for a list without entries.
    pub(in crate::rw) fn map<'a, Of>(
        &self,
        device: &'a Device,
        list: &List<'a, Of>,
        dma: bindings::dma_data_direction,
    ) -> Result<Mapping<'a>> {
        // SAFETY: The list has `count` entries (`List` invariant), and exists during `'a`.
        unsafe { Mapping::map(device, list.table(), dma, None) }
    }
}

/// Iterator over the DMA segments of a mapped list.
///
/// # Invariants
///
/// From `at` on, the list has at least `left` entries, which are mapped.
#[derive(Clone)]
pub(in crate::rw) struct Entries<'a> {
    at: Scatter<'a>,
    left: u32,
}

impl<'a> Entries<'a> {
    /// Starts at the segment `first`.
    pub(in crate::rw) fn from(mapping: &'a Mapping<'_>, first: u32) -> Self {
        // INVARIANT: That many segments are mapped.
        let mut entries = Self {
            at: mapping.list(),
            left: mapping.pieces(),
        };
        for _ in 0..first {
            entries.skip_one();
        }
        entries
    }

    /// Number of segments left.
    pub(in crate::rw) fn left(&self) -> u32 {
        self.left
    }

    /// Advances to the next segment.
    #[inline]
    pub(in crate::rw) fn skip_one(&mut self) {
        if let Some(left) = self.left.checked_sub(1) {
            // INVARIANT: Both advance by one.
            self.at.skip_one();
            self.left = left;
        }
    }

    /// The list from the next segment on.
    pub(super) fn list(&self) -> &Scatter<'a> {
        &self.at
    }
}

impl Iterator for Entries<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let left = self.left.checked_sub(1)?;
        let piece = self.at.next()?;
        self.left = left;
        Some(piece)
    }
}

/// Maps a part of a vector. The caller must unmap it.
///
/// # Errors
///
/// `ENOMEM`.
pub(in crate::rw) fn map(
    device: &Device,
    part: Part<'_>,
    dma: bindings::dma_data_direction,
) -> Result<Piece> {
    let mut part = part.raw();
    // SAFETY: The page exists (`Part` invariant).
    unsafe {
        let addr = bindings::rdma_helper_rw_map_bvec(device.as_raw(), &mut part, dma);
        if bindings::rdma_helper_rw_mapping_error(device.as_raw(), addr) {
            return Err(ENOMEM);
        }
        Ok(Piece {
            addr,
            len: part.bv_len,
        })
    }
}

/// A DMA-mapped segment.
///
/// # Invariants
///
/// It is mapped on the device, in this direction.
struct MappedPiece<'a> {
    device: &'a Device,
    piece: Piece,
    dma: bindings::dma_data_direction,
}

impl MappedPiece<'_> {
    /// Unmaps the segment, when no device uses it.
    fn unmap(self) {
        let len = self.piece.len as usize;
        // SAFETY: The segment is mapped (type invariant).
        unsafe {
            bindings::rdma_helper_rw_unmap_bvec(
                self.device.as_raw(),
                self.piece.addr,
                len,
                self.dma,
            );
        }
    }
}

/// Requests whose SGEs are mapped one by one; unmapped on drop.
///
/// # Invariants
///
/// The first `mapped` SGEs of `requests` are mapped on the device, in this direction.
pub(in crate::rw) struct Pieces<'a> {
    device: &'a Device,
    dma: bindings::dma_data_direction,
    requests: Requests,
    mapped: usize,
}

impl<'a> Pieces<'a> {
    /// No SGE is mapped yet.
    pub(in crate::rw) fn new(
        device: &'a Device,
        dma: bindings::dma_data_direction,
        requests: Requests,
    ) -> Self {
        Self {
            device,
            dma,
            requests,
            mapped: 0,
        }
    }

    /// Maps a part of a vector to the next SGE.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` if no SGE is left.
    pub(in crate::rw) fn push(&mut self, part: Part<'_>, lkey: u32) -> Result {
        let place = self.requests.piece_mut(self.mapped).ok_or(EINVAL)?;
        *place = direct::sge(map(self.device, part, self.dma)?, lkey);
        // INVARIANT: Just mapped. OVERFLOW: `mapped` is an index of the SGEs.
        self.mapped += 1;
        Ok(())
    }

    /// Leaves the SGEs mapped: they are unmapped when the transfer is destroyed.
    pub(in crate::rw) fn keep(self) -> Requests {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, nor dropped.
        unsafe { core::ptr::read(&raw const this.requests) }
    }
}

impl Drop for Pieces<'_> {
    fn drop(&mut self) {
        let (device, dma) = (self.device, self.dma);
        for piece in self.requests.pieces().iter().take(self.mapped) {
            let piece = direct::piece(piece);
            // INVARIANT: The SGE is mapped (type invariant), and was not posted.
            MappedPiece { device, piece, dma }.unmap();
        }
    }
}

impl Ended<'_, Lists> {
    /// Releases the content of the transfer, and unmaps its lists. A list without entries was not
    /// mapped.
    pub(in crate::rw) fn unmap(self, data: List<'_, Data>, meta: Option<List<'_, Meta>>) {
        if let Content::Regions(regions) = &self.content {
            kernel::warn_on!(regions.keeps_list());
        }
        drop(self.content);
        if let Some(meta) = meta {
            self.right.list(meta);
        }
        self.right.list(data);
    }
}

impl Ended<'_, Vectors> {
    /// Unmaps the vector, of at most `count` entries, and releases the content of the transfer.
    pub(in crate::rw) fn unmap(self, count: u32) {
        match self.content {
            Content::Regions(regions) => self.right.kept(regions),
            // Its drop unmaps it.
            Content::Joined(joined) => drop(joined),
            Content::Many(requests) => self.right.pieces(requests.made(count)),
            Content::Single(piece) => self.right.pieces(core::iter::once(piece)),
        }
    }
}

impl<'a> Unmap<'a> {
    /// A mapped list of the transfer.
    fn mapped(&self, table: bindings::sg_table) -> Mapped<'a> {
        // INVARIANT: The transfer has mapped it (type invariant of `Unmap`).
        Mapped {
            device: self.qp.device(),
            table,
            dma: self.dma,
        }
    }

    /// Unmaps a list of the transfer, if it has entries.
    fn list<Of>(&self, list: List<'_, Of>) {
        if list.count != 0 {
            drop(self.mapped(list.table()));
        }
    }

    /// Unmaps DMA segments of the transfer, up to the first empty one.
    fn pieces(self, pieces: impl Iterator<Item = Piece>) {
        let (device, dma) = (self.qp.device(), self.dma);
        for piece in pieces.take_while(|piece| piece.len != 0) {
            // INVARIANT: The transfer has mapped it (type invariant of `Unmap`).
            MappedPiece { device, piece, dma }.unmap();
        }
    }

    /// Unmaps the list that [`Mapping::keep_in`] has stored in the regions, returns the regions to
    /// their pool, and frees the list.
    fn kept(self, mut regions: Regions<'_>) {
        let table = regions.table().map(core::mem::take).unwrap_or_default();
        let Some(list) = NonNull::new(table.sgl) else {
            return;
        };
        drop(self.mapped(table));
        drop(regions);
        // INVARIANT: `keep_in` gave up this array; its length is not needed any more.
        drop(Array {
            ptr: list,
            len: 0,
            _values: PhantomData,
        });
    }
}
