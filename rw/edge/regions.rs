// SPDX-License-Identifier: GPL-2.0

//! Regions of a transfer. The requests of a region are its invalidation, if it was used before, its
//! registration, and the data transfer.

use super::mapping::Entries;
use super::mapping::List;
use super::mapping::Mapping;
use super::mapping::Meta;
use super::Array;
use super::CRegion;
use super::Ends;
use super::Rdma;
use crate::edge::mr_pool;
use crate::mr;
use crate::object::tables::SigAttrs;
use crate::object::Mr;
use crate::object::Qp;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::FromC;
use rdma::edge::Passed;
use rdma::edge::View;
use rdma::edge::Writer;

/// A pool of regions of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::rw) enum Pool {
    /// Regions without protection information.
    Plain,
    /// Regions with protection information.
    Signed,
}

impl Pool {
    /// The pool of a queue pair.
    fn of(self, qp: &Qp) -> mr_pool::Pool<'_> {
        match self {
            Self::Plain => mr_pool::Pool::plain(qp),
            Self::Signed => mr_pool::Pool::signed(qp),
        }
    }

    /// Fills the pool of a queue pair. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; errors of the driver. The pool is empty then.
    pub(in crate::rw) fn fill(self, qp: &Qp, count: u32, kind: crate::mr_pool::Kind) -> Result {
        crate::mr_pool::fill(self.of(qp), count, kind)
    }

    /// Empties the pool of a queue pair. Regions in use by transfers are not in it. May sleep.
    pub(in crate::rw) fn empty(self, qp: &Qp) {
        crate::mr_pool::empty(self.of(qp));
    }
}

/// A region that a transfer has taken from a pool.
///
/// # Invariants
///
/// Nothing else uses the region.
pub(in crate::rw) struct Taken<'a>(&'a Mr);

impl Deref for Taken<'_> {
    type Target = Mr;

    #[inline]
    fn deref(&self) -> &Mr {
        self.0
    }
}

// SAFETY: Nothing else uses the region (type invariant).
unsafe impl Writer for Taken<'_> {
    type Of = Mr;

    #[inline]
    fn place(&mut self) -> *mut bindings::ib_mr {
        self.0.raw()
    }
}

/// The requests of a region, and the region.
///
/// # Invariants
///
/// `0` is an entry of an array of entries, whose region the transfer has taken from a pool. Nothing
/// else uses the entry during `'a`.
pub(in crate::rw) struct Entry<'a>(NonNull<CRegion>, PhantomData<&'a mut CRegion>);

/// Parameters of the registration of a region.
#[derive(Clone, Copy)]
pub(in crate::rw) struct Registration {
    /// `enum ib_wr_opcode`.
    pub(in crate::rw) opcode: u32,
    /// `enum ib_access_flags`.
    pub(in crate::rw) access: c_int,
    /// Address in the region at which the transfer begins.
    pub(in crate::rw) addr: u64,
    /// Number of bytes to transfer.
    pub(in crate::rw) len: u32,
}

impl Entry<'_> {
    /// The region.
    #[inline]
    pub(in crate::rw) fn mr(&mut self) -> Taken<'_> {
        // SAFETY: The region belongs to a pool and is live (type invariant).
        // INVARIANT: The transfer has taken it.
        Taken(unsafe { Mr::view((*self.0.as_ptr()).mr) })
    }

    /// Maps the first `count` entries of a list, as far as they fit into the region. Returns the
    /// number of mapped entries, or a negative errno.
    pub(in crate::rw) fn map(
        &mut self,
        entries: &Entries<'_>,
        count: c_int,
        offset: &mut u32,
        page_size: u32,
    ) -> c_int {
        let list = entries.list().passed();
        // The list has no more entries.
        let count = count.min(c_int::try_from(entries.left()).unwrap_or(c_int::MAX));
        // SAFETY: The pointer is dereferenced only during the call.
        let offset = unsafe { Passed::from_c(offset) };
        mr::map(&self.mr(), list, count, offset, page_size)
    }

    /// Maps two lists, data and protection information, which is checked as `attrs` says. The
    /// second list may be empty; otherwise it must be mapped. Returns the length of the protection
    /// information in bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a region without protection information; errors of the driver.
    pub(in crate::rw) fn map_signed(
        &mut self,
        attrs: &SigAttrs,
        data: &Mapping<'_>,
        (meta, mapped): (&List<'_, Meta>, Option<&Mapping<'_>>),
        page_size: u32,
    ) -> Result<c_int> {
        let mr = self.mr();
        let pieces = c_int::try_from(data.pieces())?;
        let meta_pieces = c_int::try_from(mapped.map_or(0, Mapping::pieces))?;
        let (data, meta, none) = (data.list().passed(), meta.passed(), Passed::NULL);
        // SAFETY: `sig_attrs` is null or the region's own attributes, kept by its driver. `attrs`
        // belongs to the consumer, so both do not overlap. The driver has written the length.
        unsafe {
            let to = NonNull::new((*mr.raw()).sig_attrs).ok_or(EINVAL)?;
            to.copy_from_nonoverlapping(NonNull::from(attrs).cast(), 1);
            let mapped = mr::map_pi(&mr, data, pieces, none, meta, meta_pieces, none, page_size);
            crate::object::outcome(mapped)?;
            Ok((*to.as_ptr()).meta_length)
        }
    }

    #[inline]
    fn c(&mut self) -> &mut CRegion {
        // SAFETY: Nothing else uses the entry (type invariant).
        unsafe { self.0.as_mut() }
    }

    /// Adds a request that invalidates `key` before the registration.
    pub(in crate::rw) fn invalidate(&mut self, key: u32) {
        let entry = self.c();
        entry.inv_wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        entry.inv_wr.ex.invalidate_rkey = ManuallyDrop::new(key);
        entry.inv_wr.next = &raw mut entry.reg_wr.wr;
    }

    /// Fills in the registration and the data transfer.
    pub(in crate::rw) fn set(&mut self, registration: Registration, rdma: &Rdma) {
        let entry = self.c();
        entry.reg_wr.wr.opcode = registration.opcode;
        entry.reg_wr.mr = entry.mr;
        entry.reg_wr.access = registration.access;
        // The entry stays in place, so its requests may point to each other.
        entry.reg_wr.wr.next = &raw mut entry.wr.wr;
        entry.sge.addr = registration.addr;
        entry.sge.length = registration.len;
        entry.wr.wr.sg_list = &raw mut entry.sge;
        entry.wr.wr.num_sge = 1;
        entry.wr.remote_addr = rdma.remote;
        entry.wr.rkey = rdma.rkey;
        entry.wr.wr.opcode = rdma.opcode;
    }

    /// Operation of the data transfer (`enum ib_wr_opcode`).
    #[inline]
    pub(in crate::rw) fn opcode(&mut self) -> u32 {
        self.c().wr.wr.opcode
    }

    /// Writes the region's key into the requests, and the key that the data transfer invalidates.
    #[inline]
    pub(in crate::rw) fn set_key(&mut self, key: u32, invalidates: Option<u32>) {
        let entry = self.c();
        if let Some(key) = invalidates {
            entry.wr.wr.ex.invalidate_rkey = ManuallyDrop::new(key);
        }
        entry.reg_wr.key = key;
        entry.sge.lkey = key;
    }
}

/// The first request of a region in the chain.
fn first_request(entry: &mut CRegion) -> *mut bindings::ib_send_wr {
    if entry.inv_wr.next.is_null() {
        &raw mut entry.reg_wr.wr
    } else {
        &raw mut entry.inv_wr
    }
}

/// Regions of a transfer that is being created, or is completed; returned to their pool on drop.
///
/// # Invariants
///
/// The first `taken` entries own regions that the pool lent.
pub(in crate::rw) struct Regions<'a> {
    array: Array<CRegion>,
    taken: usize,
    qp: &'a Qp,
    pool: Pool,
}

impl<'a> Regions<'a> {
    /// Allocates entries for `count` regions. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in crate::rw) fn new(qp: &'a Qp, pool: Pool, count: usize) -> Result<Self> {
        // INVARIANT: None is taken.
        Ok(Self {
            array: Array::new(count)?,
            taken: 0,
            qp,
            pool,
        })
    }

    /// The regions of a completed transfer.
    ///
    /// # Safety
    ///
    /// `regions` and `taken` must come from [`into_raw`](Self::into_raw), with this queue pair and
    /// pool, and be used once.
    pub(super) unsafe fn from_raw(
        regions: *mut CRegion,
        taken: usize,
        qp: &'a Qp,
        pool: Pool,
    ) -> Option<Self> {
        // INVARIANT: By the contract of this function the entries own regions of this pool.
        let array = Array {
            ptr: NonNull::new(regions)?,
            len: taken,
            _values: PhantomData,
        };
        Some(Self {
            array,
            taken,
            qp,
            pool,
        })
    }

    /// The pool that the regions are taken from.
    pub(super) fn pool(&self) -> Pool {
        self.pool
    }

    /// Takes the next region.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if all are in use; `EINVAL` if no entry is left.
    pub(in crate::rw) fn take(&mut self) -> Result<Entry<'_>> {
        let entry = self.array.get_mut(self.taken).ok_or(EINVAL)?;
        let mr = self.pool.of(self.qp).lend().ok_or(EAGAIN)?;
        // INVARIANT: The entry owns the region from now on.
        entry.mr = mr.into_raw().as_ptr();
        // OVERFLOW: `taken` was an index of the array.
        self.taken += 1;
        Ok(Entry(NonNull::from(entry), PhantomData))
    }

    /// Links the region that was taken last to the one before.
    pub(in crate::rw) fn link(&mut self) {
        if let Some([.., before, last]) = self.array.get_mut(..self.taken) {
            before.wr.wr.next = first_request(last);
        }
    }

    /// Storage for a scatter list in the first region.
    pub(super) fn table(&mut self) -> Option<&mut bindings::sg_table> {
        self.array.first_mut().map(|first| &mut first.sgt)
    }

    /// Returns whether [`Mapping::keep_in`](super::mapping::Mapping::keep_in) has stored a list.
    pub(in crate::rw) fn keeps_list(&self) -> bool {
        self.array
            .first()
            .is_some_and(|first| !first.sgt.sgl.is_null())
    }

    /// Gives up ownership of the entries. Returns them with their number.
    pub(super) fn into_raw(self) -> (*mut CRegion, usize) {
        let mut this = ManuallyDrop::new(self);
        (this.array.as_mut_ptr(), this.taken)
    }
}

impl Drop for Regions<'_> {
    fn drop(&mut self) {
        for entry in self.array.iter().take(self.taken) {
            if let Some(mr) = NonNull::new(entry.mr) {
                // SAFETY: The entry owns the region (type invariant), and gives it up.
                let mr = unsafe { Owned::new(mr) };
                self.pool.of(self.qp).take_back(mr);
            }
        }
    }
}

/// Regions of a transfer that is about to be posted.
///
/// # Invariants
///
/// They are the entries, at least one, of a transfer that was created and is not in progress.
pub(in crate::rw) struct Prepared<'a>(&'a mut [CRegion]);

impl<'a> Prepared<'a> {
    /// # Safety
    ///
    /// `regions` must have `count` entries, of a transfer that was created and is not in progress.
    pub(super) unsafe fn new(regions: *mut CRegion, count: usize) -> Option<Self> {
        if count == 0 || regions.is_null() {
            return None;
        }
        // SAFETY: By the contract of this function. INVARIANT: The same contract.
        Some(Self(unsafe {
            core::slice::from_raw_parts_mut(regions, count)
        }))
    }

    /// Calls `f` for each region.
    #[inline]
    pub(in crate::rw) fn for_each(&mut self, mut f: impl FnMut(Entry<'_>)) {
        for entry in self.0.iter_mut() {
            // INVARIANT: The entry belongs to the transfer, and only `self` uses it.
            f(Entry(NonNull::from(entry), PhantomData));
        }
    }

    /// First and last request of the chain.
    pub(in crate::rw) fn ends(self) -> Option<Ends<'a>> {
        let last = &raw mut self.0.last_mut()?.wr.wr;
        Some(Ends {
            first: NonNull::new(first_request(self.0.first_mut()?))?,
            last: NonNull::new(last)?,
            _of: PhantomData,
        })
    }
}
