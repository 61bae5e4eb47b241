// SPDX-License-Identifier: GPL-2.0

//! Transfers of data with protection information, which the device checks, adds or takes off.

use super::edge::mapping::Mapping;
use super::edge::regions::Pool;
use super::edge::regions::Regions;
use super::edge::regions::Registration;
use super::edge::Done;
use super::edge::Kind;
use super::edge::Place;
use super::integrity;
use super::list::List;
use super::port;
use super::region;
use super::Target;
use crate::object::tables::SigAttrs;
use crate::object::Object;
use crate::object::Qp;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

/// Pages of such regions.
const PAGE: u32 = 4096;

/// Makes a transfer. Returns how many requests it has. May sleep.
///
/// # Errors
///
/// `EINVAL` for longer lists than one region has; `EAGAIN` if all regions are in use;
/// `ENOMEM`; those of mapping, and the driver's.
pub(super) fn init(
    place: &mut Place<'_>,
    qp: &Qp,
    number: u32,
    (data, meta): (&List<'_>, &List<'_>),
    attrs: &SigAttrs,
    target: &Target,
) -> Result<u32> {
    let port = port(qp.device(), number);
    let most = port.region_pages(integrity(qp));
    if data.count > most || meta.count > most {
        pr_err!(
            "{} and {} entries are more than a region's {most}\n",
            data.count,
            meta.count
        );
        return Err(EINVAL);
    }
    let mapping = place.map(qp.device(), &data.list, data.count, target.dma)?;
    let meta_mapping = match meta.count {
        0 => None,
        count => Some(place.map(qp.device(), &meta.list, count, target.dma)?),
    };
    let meta_pieces = meta_mapping.as_ref().map_or(0, Mapping::pieces);
    let mut regions = Regions::new(qp, Pool::Signed, 1)?;
    let (mut entry, invalidations) = region::take(&mut regions)?;
    let meta_length = entry
        .map_signed(
            attrs,
            (&data.list, c_int::try_from(mapping.pieces())?),
            (&meta.list, c_int::try_from(meta_pieces)?),
            PAGE,
        )
        .inspect_err(|_| {
            pr_err!(
                "{} pieces are not mapped with {meta_pieces} of protection information\n",
                mapping.pieces()
            );
        })?;
    let mr = entry.mr();
    // CAST: A region is of 256 entries, and a request of 32 bits of bytes.
    let (addr, mut len) = (mr.iova(), mr.length() as u32);
    if attrs.on_wire() == bindings::ib_signature_type_IB_SIG_TYPE_NONE {
        // Nothing of it goes to the peer.
        len = len.saturating_sub(u32::try_from(meta_length).unwrap_or(0));
    }
    let registration = Registration {
        opcode: bindings::ib_wr_opcode_IB_WR_REG_MR_INTEGRITY,
        access: region::access(port.iwarp),
        addr,
        len,
    };
    entry.set(registration, &target.request(0));
    place.regions(regions);
    mapping.keep();
    if let Some(mapping) = meta_mapping {
        mapping.keep();
    }
    Ok(invalidations.saturating_add(2))
}

/// Ends a transfer that [`init()`] made of these lists.
pub(super) fn destroy(
    done: Done<'_>,
    qp: &Qp,
    (data, meta): (&List<'_>, &List<'_>),
    dma: bindings::dma_data_direction,
) {
    if kernel::warn_on!(done.kind() != Some(Kind::Signature)) {
        return;
    }
    let Some((content, unmap)) = done.end(qp, dma) else {
        return;
    };
    drop(content);
    for List { list, count } in [meta, data] {
        if *count != 0 {
            unmap.list(list, *count);
        }
    }
}
