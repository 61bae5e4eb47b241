// SPDX-License-Identifier: GPL-2.0

//! Memory registered as regions: each is one piece for the device.

use super::edge::regions::Entry;
use super::edge::regions::Pool;
use super::edge::regions::Regions;
use super::edge::regions::Registration;
use super::edge::Rdma;
use super::list::Entries;
use super::Target;
use crate::object::tables::Mr;
use crate::object::Qp;
use crate::proto::rw_plan;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use rdma::bindings;

/// Rights of a region: iWARP's peers write where this side reads.
pub(super) fn access(iwarp: bool) -> c_int {
    let mut access = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
    if iwarp {
        access |= bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
    }
    access as c_int
}

/// Takes a region, with its invalidation if it needs one. Returns how many requests that is.
///
/// # Errors
///
/// `EAGAIN` if all are in use.
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

/// Registers the entries of a mapped list, `offset` bytes into the first. The second of the
/// results is how many requests these are.
///
/// # Errors
///
/// `ENOMEM`; `EAGAIN` if all regions are in use; `EINVAL` for memory that a region cannot
/// have.
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
    let mut list = entries.list();
    for run in runs {
        let (mut entry, invalidations) = take(&mut regions)?;
        let pieces = c_int::try_from(run.end.saturating_sub(run.start))?;
        // CAST: A page's size has 32 bits.
        let mapped = entry.map(&list, pieces, &mut offset, PAGE_SIZE as c_uint);
        if mapped < pieces {
            return Err(EINVAL);
        }
        offset = 0;
        for _ in run {
            list.skip_one();
        }
        into = into.wrapping_add(fill(&mut entry, target.request(into), target, port.iwarp));
        regions.link();
        requests = requests.saturating_add(invalidations).saturating_add(2);
    }
    Ok((regions, requests))
}

/// Fills in registration and transfer of a region that is mapped. Returns how many bytes it has.
fn fill(entry: &mut Entry<'_>, mut rdma: Rdma, target: &Target, iwarp: bool) -> u64 {
    let mr = entry.mr();
    let registration = Registration {
        opcode: bindings::ib_wr_opcode_IB_WR_REG_MR,
        access: access(iwarp),
        addr: mr.iova(),
        // CAST: A region is of 256 entries, and a request of 32 bits of bytes.
        len: mr.length() as u32,
    };
    if iwarp && target.direction == rw_plan::Direction::Read {
        // iWARP invalidates by the read itself.
        rdma.opcode = bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
    }
    entry.set(registration, &rdma);
    registration.len.into()
}

/// Gives the region of a transfer that is about to be posted its next key, and notes whether
/// somebody will have to invalidate it. Not earlier: a transfer that was made, and is not
/// posted, leaves its region as it was.
pub(super) fn renew(mut entry: Entry<'_>) {
    let by_itself = entry.opcode() == bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
    let mut mr = entry.mr();
    let key = rw_plan::next_key(mr.lkey());
    let rkey = mr.rkey() & !0xff | key & 0xff;
    Mr::set_need_inval(&mut mr, !by_itself);
    Mr::set_lkey(&mut mr, key);
    Mr::set_rkey(&mut mr, rkey);
    entry.set_key(key, by_itself.then_some(key));
}
