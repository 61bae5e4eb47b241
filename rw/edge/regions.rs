// SPDX-License-Identifier: GPL-2.0

//! Regions of a transfer. A region's requests are its invalidation, if it was used before, its
//! registration, and the transfer.

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
    /// Regions.
    Plain,
    /// Regions with protection information.
    Signed,
}

impl Pool {
    /// That of a queue pair.
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
    /// `ENOMEM`; the driver's. The pool is empty then.
    pub(in crate::rw) fn fill(self, qp: &Qp, count: u32, kind: crate::mr_pool::Kind) -> Result {
        crate::mr_pool::fill(self.of(qp), count, kind)
    }

    /// Empties the pool of a queue pair. Regions that transfers have are not in it. May sleep.
    pub(in crate::rw) fn empty(self, qp: &Qp) {
        crate::mr_pool::empty(self.of(qp));
    }
}

/// A region that a transfer has of a pool, which nobody else uses.
///
/// # Invariants
///
/// As said.
pub(in crate::rw) struct Taken<'a>(&'a Mr);

impl Deref for Taken<'_> {
    type Target = Mr;

    #[inline]
    fn deref(&self) -> &Mr {
        self.0
    }
}

// SAFETY: Nobody else uses the region (type invariant).
unsafe impl Writer for Taken<'_> {
    type Of = Mr;

    #[inline]
    fn place(&mut self) -> *mut bindings::ib_mr {
        self.0.raw()
    }
}

/// Where a region's requests are, and the region.
///
/// # Invariants
///
/// `0` is an entry of an array of entries, whose region is one that the transfer has of a pool.
/// Only this uses it during `'a`.
pub(in crate::rw) struct Entry<'a>(NonNull<CRegion>, PhantomData<&'a mut CRegion>);

/// What a region's registration says.
#[derive(Clone, Copy)]
pub(in crate::rw) struct Registration {
    /// `enum ib_wr_opcode`.
    pub(in crate::rw) opcode: u32,
    /// `enum ib_access_flags`.
    pub(in crate::rw) access: c_int,
    /// Where the transfer begins in it.
    pub(in crate::rw) addr: u64,
    /// How many bytes are transferred.
    pub(in crate::rw) len: u32,
}

impl Entry<'_> {
    /// The region.
    #[inline]
    pub(in crate::rw) fn mr(&mut self) -> Taken<'_> {
        // SAFETY: The region is one of a pool, which lives (type invariant).
        // INVARIANT: The transfer has it.
        Taken(unsafe { Mr::view((*self.0.as_ptr()).mr) })
    }

    /// Maps the first `count` entries of a list, as much as the region takes. Returns how many, or
    /// a negative error.
    pub(in crate::rw) fn map(
        &mut self,
        entries: &Entries<'_>,
        count: c_int,
        offset: &mut u32,
        page_size: u32,
    ) -> c_int {
        let list = entries.list().passed();
        // There are no more.
        let count = count.min(c_int::try_from(entries.left()).unwrap_or(c_int::MAX));
        // SAFETY: What is passed is followed during the call only.
        let offset = unsafe { Passed::from_c(offset) };
        mr::map(&self.mr(), list, count, offset, page_size)
    }

    /// Maps two lists, data and protection information, which is checked as `attrs` says. The second
    /// may have no entries; else it is mapped. Returns how many bytes it is.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a region without protection information; the driver's.
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
        // SAFETY: The region has a place for how it is checked, which its driver keeps, or none.
        // What C gave is the consumer's, so another one. The driver writes the length.
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
        // SAFETY: Only this uses the entry (type invariant).
        unsafe { self.0.as_mut() }
    }

    /// Has the region invalidated by this key first.
    pub(in crate::rw) fn invalidate(&mut self, key: u32) {
        let entry = self.c();
        entry.inv_wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        entry.inv_wr.ex.invalidate_rkey = ManuallyDrop::new(key);
        entry.inv_wr.next = &raw mut entry.reg_wr.wr;
    }

    /// Writes registration and transfer.
    pub(in crate::rw) fn set(&mut self, registration: Registration, rdma: &Rdma) {
        let entry = self.c();
        entry.reg_wr.wr.opcode = registration.opcode;
        entry.reg_wr.mr = entry.mr;
        entry.reg_wr.access = registration.access;
        // The entry stays at its place.
        entry.reg_wr.wr.next = &raw mut entry.wr.wr;
        entry.sge.addr = registration.addr;
        entry.sge.length = registration.len;
        entry.wr.wr.sg_list = &raw mut entry.sge;
        entry.wr.wr.num_sge = 1;
        entry.wr.remote_addr = rdma.remote;
        entry.wr.rkey = rdma.rkey;
        entry.wr.wr.opcode = rdma.opcode;
    }

    /// The transfer's operation (`enum ib_wr_opcode`).
    #[inline]
    pub(in crate::rw) fn opcode(&mut self) -> u32 {
        self.c().wr.wr.opcode
    }

    /// Writes the region's key into the requests, and which one the transfer itself invalidates.
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

/// Where a chain goes on with a region.
fn first_request(entry: &mut CRegion) -> *mut bindings::ib_send_wr {
    if entry.inv_wr.next.is_null() {
        &raw mut entry.reg_wr.wr
    } else {
        &raw mut entry.inv_wr
    }
}

/// Regions of a transfer in the making, or of one that is done; given back on drop.
///
/// # Invariants
///
/// The first `taken` entries own regions that this pool lent.
pub(in crate::rw) struct Regions<'a> {
    array: Array<CRegion>,
    taken: usize,
    qp: &'a Qp,
    pool: Pool,
}

impl<'a> Regions<'a> {
    /// Room for so many. May sleep.
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

    /// Those of a transfer that is done.
    ///
    /// # Safety
    ///
    /// The first are of [`into_raw`](Self::into_raw), once, for this queue pair and pool.
    pub(super) unsafe fn from_raw(
        regions: *mut CRegion,
        taken: usize,
        qp: &'a Qp,
        pool: Pool,
    ) -> Option<Self> {
        // INVARIANT: This function's contract.
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

    /// Where they are from.
    pub(super) fn pool(&self) -> Pool {
        self.pool
    }

    /// Takes the next region.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if all are in use; `EINVAL` if there is no room.
    pub(in crate::rw) fn take(&mut self) -> Result<Entry<'_>> {
        let entry = self.array.get_mut(self.taken).ok_or(EINVAL)?;
        let mr = self.pool.of(self.qp).lend().ok_or(EAGAIN)?;
        // INVARIANT: The entry owns it from now on.
        entry.mr = mr.into_raw().as_ptr();
        // OVERFLOW: there was a place.
        self.taken += 1;
        Ok(Entry(NonNull::from(entry), PhantomData))
    }

    /// Has the region that was taken last follow the one before in the chain.
    pub(in crate::rw) fn link(&mut self) {
        if let Some([.., before, last]) = self.array.get_mut(..self.taken) {
            before.wr.wr.next = first_request(last);
        }
    }

    /// A place of the first region for a list.
    pub(super) fn table(&mut self) -> Option<&mut bindings::sg_table> {
        self.array.first_mut().map(|first| &mut first.sgt)
    }

    /// Whether [`Mapping::keep_in`](super::mapping::Mapping::keep_in) has kept a list in them.
    pub(in crate::rw) fn keeps_list(&self) -> bool {
        self.array
            .first()
            .is_some_and(|first| !first.sgt.sgl.is_null())
    }

    /// Gives the entries away, with their number.
    pub(super) fn into_raw(self) -> (*mut CRegion, usize) {
        let mut this = ManuallyDrop::new(self);
        (this.array.as_mut_ptr(), this.taken)
    }
}

impl Drop for Regions<'_> {
    fn drop(&mut self) {
        for entry in self.array.iter().take(self.taken) {
            if let Some(mr) = NonNull::new(entry.mr) {
                // SAFETY: The entry owns it (type invariant), and gives it up.
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
/// They are the entries, one at least, of a transfer that was made and is not under way.
pub(in crate::rw) struct Prepared<'a>(&'a mut [CRegion]);

impl<'a> Prepared<'a> {
    /// # Safety
    ///
    /// There are so many entries at `regions`, of a transfer that was made and is not under way.
    pub(super) unsafe fn new(regions: *mut CRegion, count: usize) -> Option<Self> {
        if count == 0 || regions.is_null() {
            return None;
        }
        // SAFETY: This function's contract. INVARIANT: The same.
        Some(Self(unsafe {
            core::slice::from_raw_parts_mut(regions, count)
        }))
    }

    /// Does something with each.
    #[inline]
    pub(in crate::rw) fn for_each(&mut self, mut f: impl FnMut(Entry<'_>)) {
        for entry in self.0.iter_mut() {
            // INVARIANT: Of the transfer, of which `self` is the only user.
            f(Entry(NonNull::from(entry), PhantomData));
        }
    }

    /// Their chain.
    pub(in crate::rw) fn ends(self) -> Option<Ends<'a>> {
        let last = &raw mut self.0.last_mut()?.wr.wr;
        Some(Ends {
            first: NonNull::new(first_request(self.0.first_mut()?))?,
            last: NonNull::new(last)?,
            _of: PhantomData,
        })
    }
}
