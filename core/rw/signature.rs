// SPDX-License-Identifier: GPL-2.0

//! Transfers of data with protection information, which the device checks, adds or takes off.

use super::context::Context;
use super::context::Kind;
use super::list::Mapping;
use super::port;
use super::region;
use super::region::Regions;
use super::Qp;
use super::Target;
use crate::verbs::mr::ib_map_mr_sg_pi;
use crate::verbs::object::outcome;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

/// Pages of such regions.
const PAGE: u32 = 4096;

/// A list and how many entries it has.
#[derive(Clone, Copy)]
pub(super) struct List {
    pub(super) sg: *mut bindings::scatterlist,
    pub(super) count: u32,
}

/// Makes a transfer. Returns how many requests it has. May sleep.
///
/// # Errors
///
/// `EINVAL` for longer lists than one region has; `EAGAIN` if all regions are in use;
/// `ENOMEM`; those of mapping, and the driver's.
///
/// # Safety
///
/// Both are lists that stay until the transfer is destroyed, as `context` does at its place.
pub(super) unsafe fn init(
    context: &mut Context,
    qp: Qp,
    number: u32,
    data: List,
    meta: List,
    attrs: &bindings::ib_sig_attrs,
    target: &Target,
) -> Result<u32> {
    let port = port(qp.device(), number);
    let most = port.region_pages(qp.integrity());
    if data.count > most || meta.count > most {
        pr_err!(
            "{} and {} entries are more than a region's {most}\n",
            data.count,
            meta.count
        );
        return Err(EINVAL);
    }
    // SAFETY: By this function's duty.
    let mapping = unsafe { Mapping::new(qp.device(), data.sg, data.count, target.dma) }?;
    let meta_mapping = match meta.count {
        0 => None,
        // SAFETY: As above.
        count => Some(unsafe { Mapping::new(qp.device(), meta.sg, count, target.dma) }?),
    };
    let meta_pieces = meta_mapping.as_ref().map_or(0, Mapping::pieces);
    let mut regions = Regions::new(qp, qp.signed_regions(), 1)?;
    let (place, mr, invalidations) = regions.take()?;
    // SAFETY: The region is ours; those with protection information have a place for how.
    let (iova, length, meta_length) = unsafe {
        let mr = mr.as_ptr();
        let to = (*mr).sig_attrs;
        if to.is_null() {
            return Err(EINVAL);
        }
        core::ptr::copy_nonoverlapping(attrs, to, 1);
        outcome(ib_map_mr_sg_pi(
            mr,
            data.sg,
            c_int::try_from(mapping.pieces())?,
            core::ptr::null_mut(),
            meta.sg,
            c_int::try_from(meta_pieces)?,
            core::ptr::null_mut(),
            PAGE,
        ))
        .inspect_err(|_| {
            pr_err!(
                "{} pieces are not mapped with {meta_pieces} of protection information\n",
                mapping.pieces()
            );
        })?;
        ((*mr).iova, (*mr).length, (*to).meta_length)
    };
    place.reg_wr.wr.opcode = bindings::ib_wr_opcode_IB_WR_REG_MR_INTEGRITY;
    place.reg_wr.access = region::access(port.iwarp);
    place.reg_wr.mr = mr.as_ptr();
    place.reg_wr.wr.next = &raw mut place.wr.wr;
    place.sge.addr = iova;
    // CAST: A region is of 256 entries, and a request of 32 bits of bytes.
    place.sge.length = length as u32;
    if attrs.wire.sig_type == bindings::ib_signature_type_IB_SIG_TYPE_NONE {
        // Nothing of it goes to the peer.
        let meta_length = u32::try_from(meta_length).unwrap_or(0);
        place.sge.length = place.sge.length.saturating_sub(meta_length);
    }
    place.wr.wr.sg_list = &raw mut place.sge;
    place.wr.wr.num_sge = 1;
    place.wr.wr.opcode = target.opcode();
    place.wr.remote_addr = target.remote;
    place.wr.rkey = target.rkey;
    regions.finish(context, Kind::Signature);
    mapping.keep();
    if let Some(mapping) = meta_mapping {
        mapping.keep();
    }
    Ok(invalidations.saturating_add(2))
}

/// Ends a transfer that [`init()`] made.
///
/// # Safety
///
/// It was, of these lists, and is done.
pub(super) unsafe fn destroy(
    context: &mut Context,
    qp: Qp,
    data: List,
    meta: List,
    dma: bindings::dma_data_direction,
) {
    if kernel::warn_on!(context.kind() != Some(Kind::Signature)) {
        return;
    }
    // SAFETY: By this function's duty.
    unsafe { region::destroy(context, qp, qp.signed_regions()) };
    for List { sg, count } in [meta, data] {
        if count == 0 {
            continue;
        }
        let mut table = bindings::sg_table {
            sgl: sg,
            orig_nents: count,
            ..Default::default()
        };
        // SAFETY: As above.
        unsafe {
            bindings::rdma_helper_rw_unmap_sgtable(qp.device().as_raw(), &mut table, dma);
        }
    }
}
