// SPDX-License-Identifier: GPL-2.0

//! Memory registered as regions: each is one piece for the device. A region's requests are its
//! invalidation, if it was used before, its registration, and the transfer.

use super::context::Array;
use super::context::Context;
use super::context::Kind;
use super::context::Region;
use super::Qp;
use super::Target;
use crate::mr_pool;
use crate::proto::rw_plan;
use crate::verbs::mr::ib_map_mr_sg;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;

/// Regions of a transfer in the making; given back on drop.
///
/// # Invariants
///
/// The first `taken` regions have one of the queue pair's list `from`.
pub(super) struct Regions {
    array: Array<Region>,
    taken: usize,
    qp: Qp,
    from: NonNull<bindings::list_head>,
}

impl Regions {
    /// Room for so many. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(qp: Qp, from: NonNull<bindings::list_head>, count: usize) -> Result<Self> {
        // INVARIANT: None is taken.
        Ok(Self {
            array: Array::new(count)?,
            taken: 0,
            qp,
            from,
        })
    }

    /// Takes the next region, with its invalidation if it needs one. Returns the place and how
    /// many requests that is.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if all are in use.
    pub(super) fn take(&mut self) -> Result<(&mut Region, NonNull<bindings::ib_mr>, u32)> {
        let place = self.array.get_mut(self.taken).ok_or(EINVAL)?;
        // SAFETY: The queue pair lives, and the list is its own.
        let mr = unsafe { mr_pool::get(self.qp.0.as_ptr(), self.from) }.ok_or(EAGAIN)?;
        place.mr = mr.as_ptr();
        // INVARIANT: Just taken.
        self.taken += 1;
        // SAFETY: The region is ours until it is given back.
        let (used, key) = unsafe { ((*mr.as_ptr()).need_inval, (*mr.as_ptr()).lkey) };
        if !used {
            return Ok((place, mr, 0));
        }
        place.inv_wr.opcode = bindings::ib_wr_opcode_IB_WR_LOCAL_INV;
        place.inv_wr.ex.invalidate_rkey = ManuallyDrop::new(key);
        place.inv_wr.next = &raw mut place.reg_wr.wr;
        Ok((place, mr, 1))
    }

    /// The first.
    pub(super) fn first(&mut self) -> Option<&mut Region> {
        self.array.first_mut()
    }

    /// The transfer is made.
    pub(super) fn finish(self, context: &mut Context, kind: Kind) {
        let mut this = ManuallyDrop::new(self);
        context.made(kind, this.taken);
        // SAFETY: `this` is not used any more, nor dropped.
        let array = unsafe { core::ptr::read(&raw mut this.array) };
        context.set_regions(array.into_raw());
    }
}

impl Drop for Regions {
    fn drop(&mut self) {
        for place in self.array.iter().take(self.taken) {
            if let Some(mr) = NonNull::new(place.mr) {
                // SAFETY: By the type invariant.
                unsafe { mr_pool::put(self.qp.0.as_ptr(), self.from, mr) };
            }
        }
    }
}

/// Rights of a region: iWARP's peers write where this side reads.
pub(super) fn access(iwarp: bool) -> c_int {
    let mut access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
    if iwarp {
        access |= bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
    }
    access as c_int
}

/// Where a chain goes on with this region.
fn entry(place: &mut Region) -> *mut bindings::ib_send_wr {
    if place.inv_wr.next.is_null() {
        &raw mut place.reg_wr.wr
    } else {
        &raw mut place.inv_wr
    }
}

/// Registers `count` pieces of a mapped list from `sg` on, `offset` bytes into the first. The
/// second of the results is how many requests these are.
///
/// # Errors
///
/// `ENOMEM`; `EAGAIN` if all regions are in use; `EINVAL` for memory that a region cannot
/// have.
///
/// # Safety
///
/// `sg` is a list of so many entries at least, mapped for DMA.
pub(super) unsafe fn build(
    qp: Qp,
    port: &rw_plan::Port,
    target: &Target,
    sg: *mut bindings::scatterlist,
    count: u32,
    offset: u32,
) -> Result<(Regions, u32)> {
    let runs = rw_plan::runs(count, port.region_pages(qp.integrity()));
    let mut regions = Regions::new(qp, qp.regions(), runs.len())?;
    let mut requests = 0u32;
    let mut remote = target.remote;
    let mut offset: c_uint = offset;
    let mut sg = sg;
    let mut link: *mut bindings::ib_send_wr = core::ptr::null_mut();
    for run in runs {
        let (place, mr, invalidations) = regions.take()?;
        let pieces = c_int::try_from(run.len())?;
        // SAFETY: By this function's duty; the region is ours.
        let mapped =
            unsafe { ib_map_mr_sg(mr.as_ptr(), sg, pieces, &mut offset, PAGE_SIZE as c_uint) };
        if mapped < pieces {
            return Err(EINVAL);
        }
        offset = 0;
        // SAFETY: The list has as many entries; after the last comes null, which is not used.
        sg = unsafe {
            run.fold(sg, |sg, _| {
                if sg.is_null() {
                    sg
                } else {
                    bindings::sg_next(sg)
                }
            })
        };
        fill(place, mr, target, remote, port.iwarp);
        remote = remote.wrapping_add(u64::from(place.sge.length));
        if !link.is_null() {
            // SAFETY: A request of the region before this one, in the same array.
            unsafe { (*link).next = entry(place) };
        }
        link = &raw mut place.wr.wr;
        requests = requests.saturating_add(invalidations).saturating_add(2);
    }
    Ok((regions, requests))
}

/// Fills in registration and transfer of a region that is mapped.
fn fill(
    place: &mut Region,
    mr: NonNull<bindings::ib_mr>,
    target: &Target,
    remote: u64,
    iwarp: bool,
) {
    // SAFETY: The region is ours.
    let (iova, length) = unsafe { ((*mr.as_ptr()).iova, (*mr.as_ptr()).length) };
    place.reg_wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR;
    place.reg_wr.mr = mr.as_ptr();
    place.reg_wr.access = access(iwarp);
    place.reg_wr.wr.next = &raw mut place.wr.wr;
    place.sge.addr = iova;
    // CAST: A region is of 256 entries, and a request of 32 bits of bytes.
    place.sge.length = length as u32;
    place.wr.wr.sg_list = &raw mut place.sge;
    place.wr.wr.num_sge = 1;
    place.wr.remote_addr = remote;
    place.wr.rkey = target.rkey;
    place.wr.wr.opcode = target.opcode();
    if iwarp && target.direction == rw_plan::Direction::Read {
        // iWARP invalidates by the read itself.
        place.wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
    }
}

/// Gives the region of a transfer that is about to be posted its next key, and notes whether
/// somebody will have to invalidate it. Not earlier: a transfer that was made, and is not
/// posted, leaves its region as it was.
fn renew(place: &mut Region) {
    let by_itself = bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
    // SAFETY: The region is the transfer's.
    let mr = unsafe { &mut *place.mr };
    let key = rw_plan::next_key(mr.lkey);
    mr.need_inval = place.wr.wr.opcode != by_itself;
    if !mr.need_inval {
        place.wr.wr.ex.invalidate_rkey = ManuallyDrop::new(key);
    }
    mr.lkey = key;
    mr.rkey = mr.rkey & !0xff | key & 0xff;
    place.reg_wr.key = key;
    place.sge.lkey = key;
}

/// The first and the last request of a transfer, whose regions get new keys.
///
/// # Safety
///
/// It was made here, or with protection information.
pub(super) unsafe fn ends(
    context: &mut Context,
) -> Option<(*mut bindings::ib_send_wr, *mut bindings::ib_send_wr)> {
    // SAFETY: By this function's duty there are as many.
    let places = unsafe { core::slice::from_raw_parts_mut(context.regions(), context.ops()) };
    places.iter_mut().for_each(renew);
    let last = &raw mut places.last_mut()?.wr.wr;
    Some((entry(places.first_mut()?), last))
}

/// Gives the regions of a transfer back, and frees their memory.
///
/// # Safety
///
/// It was made of regions of this list, and is done.
pub(super) unsafe fn destroy(context: &mut Context, qp: Qp, from: NonNull<bindings::list_head>) {
    let places = context.regions();
    for at in 0..context.ops() {
        // SAFETY: By this function's duty there are as many, with regions that are lent.
        unsafe {
            if let Some(mr) = NonNull::new((*places.add(at)).mr) {
                mr_pool::put(qp.0.as_ptr(), from, mr);
            }
        }
    }
    // SAFETY: The memory is the context's.
    unsafe { bindings::kfree(places.cast()) };
}
