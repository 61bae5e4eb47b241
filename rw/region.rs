// SPDX-License-Identifier: GPL-2.0

//! Memory registered as regions: each region is one contiguous range for the device.

use super::edge::mapping::Entries;
use super::edge::regions::Entry;
use super::edge::regions::Pool;
use super::edge::regions::Regions;
use super::edge::regions::Registration;
use super::edge::Rdma;
use super::Target;
use crate::object::tables::Mr;
use crate::object::Qp;
use crate::proto::rw_plan;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;

/// Access flags of a region: with iWARP, an RDMA READ makes the peer write to it.
pub(super) fn access(iwarp: bool) -> c_int {
    let mut access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
    if iwarp {
        access |= bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
    }
    access as c_int
}

/// Takes a region, with an invalidation request if it needs one. Returns the number of added
/// requests.
///
/// # Errors
///
/// `EAGAIN` if all regions are in use.
pub(super) fn take<'a>(regions: &'a mut Regions<'_>) -> Result<(Entry<'a>, u32)> {
    let mut entry = regions.take()?;
    let mr = entry.mr();
    let (used, key) = (mr.need_inval(), mr.lkey());
    if !used {
        return Ok((entry, 0));
    }
    entry.invalidate(key);
    Ok((entry, 1))
}

/// Registers the entries of a mapped list, from `offset` bytes into the first. Returns the regions,
/// and the number of requests.
///
/// # Errors
///
/// `ENOMEM`; `EAGAIN` if all regions are in use; `EINVAL` for memory that does not fit into a
/// region.
pub(super) fn build<'a>(
    qp: &'a Qp,
    port: &rw_plan::Port,
    target: &Target,
    entries: &Entries<'_>,
    offset: u32,
) -> Result<(Regions<'a>, u32)> {
    let runs = rw_plan::runs(entries.left(), port.region_pages(super::integrity(qp)));
    let mut regions = Regions::new(qp, Pool::Plain, runs.len())?;
    let mut requests = 0u32;
    let mut into = 0u64;
    let mut offset: c_uint = offset;
    let mut entries = entries.clone();
    for run in runs {
        let (mut entry, invalidations) = take(&mut regions)?;
        let pieces = c_int::try_from(run.end.saturating_sub(run.start))?;
        // CAST: The page size fits into 32 bits.
        let mapped = entry.map(&entries, pieces, &mut offset, PAGE_SIZE as c_uint);
        if mapped < pieces {
            return Err(EINVAL);
        }
        offset = 0;
        for _ in run {
            entries.skip_one();
        }
        into = into.wrapping_add(fill(&mut entry, target.request(into), target, port.iwarp));
        regions.link();
        requests = requests.saturating_add(invalidations).saturating_add(2);
    }
    Ok((regions, requests))
}

/// Fills in the registration and transfer requests of a mapped region. Returns its length in bytes.
fn fill(entry: &mut Entry<'_>, mut rdma: Rdma, target: &Target, iwarp: bool) -> u64 {
    let mr = entry.mr();
    let registration = Registration {
        opcode: bindings::ib_wr_opcode_IB_WR_REG_MR,
        access: access(iwarp),
        addr: mr.iova(),
        // CAST: A region has at most 256 entries, and a request at most 32 bits of length.
        len: mr.length() as u32,
    };
    if iwarp && target.direction == rw_plan::Direction::Read {
        // With iWARP, the RDMA READ itself invalidates the region.
        rdma.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
    }
    entry.set(registration, &rdma);
    registration.len.into()
}

/// Assigns the region of a transfer that is about to be posted its next key, and records whether it
/// will need an invalidation. Not done earlier: a transfer that is created, but not posted, leaves
/// its region unchanged.
pub(super) fn renew(mut entry: Entry<'_>) {
    let by_itself = entry.opcode() == bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
    let mut mr = entry.mr();
    let key = rw_plan::next_key(mr.lkey());
    let rkey = mr.rkey() & !0xff | key & 0xff;
    Mr::set_need_inval(&mut mr, !by_itself);
    mr.set_lkey(key);
    mr.set_rkey(rkey);
    entry.set_key(key, by_itself.then_some(key));
}
