// SPDX-License-Identifier: GPL-2.0

//! Transfers of data with protection information, which the device checks, inserts or strips.

use super::edge::mapping::Data;
use super::edge::mapping::List;
use super::edge::mapping::Mapping;
use super::edge::mapping::Meta;
use super::edge::regions::Pool;
use super::edge::regions::Regions;
use super::edge::regions::Registration;
use super::edge::DmaArg;
use super::edge::Done;
use super::edge::Kind;
use super::edge::Lists;
use super::edge::Place;
use super::edge::QpArg;
use super::integrity;
use super::port;
use super::region;
use super::Target;
use crate::object::tables::SigAttrs;
use crate::object::Object;
use crate::object::Qp;
use kernel::prelude::*;
use rdma::bindings;

/// Page size of such regions, in bytes.
const PAGE: u32 = 4096;

/// Creates a transfer. Returns the number of its requests. May sleep.
///
/// # Errors
///
/// `EINVAL` for lists that exceed a region; `EAGAIN` if all regions are in use; `ENOMEM`; errors of
/// mapping and of the driver.
pub(super) fn init(
    place: &mut Place<'_>,
    qp: &Qp,
    number: u32,
    (data, meta): (&List<'_, Data>, &List<'_, Meta>),
    attrs: &SigAttrs,
    target: &Target,
) -> Result<u32> {
    let port = port(qp.device(), number);
    let most = port.region_pages(integrity(qp));
    if data.count() > most || meta.count() > most {
        pr_err!(
            "{} and {} entries are more than a region's {most}\n",
            data.count(),
            meta.count()
        );
        return Err(EINVAL);
    }
    let mapping = place.map(qp.device(), data, target.dma)?;
    let meta_mapping = match meta.count() {
        0 => None,
        1.. => Some(place.map(qp.device(), meta, target.dma)?),
    };
    let mut regions = Regions::new(qp, Pool::Signed, 1)?;
    let (mut entry, invalidations) = region::take(&mut regions)?;
    if entry.mr().sig_attrs().is_empty() {
        return Err(EINVAL);
    }
    let meta_length = entry
        .map_signed(attrs, &mapping, (meta, meta_mapping.as_ref()), PAGE)
        .inspect_err(|_| {
            pr_err!(
                "{} pieces are not mapped with {} of protection information\n",
                mapping.pieces(),
                meta_mapping.as_ref().map_or(0, Mapping::pieces)
            );
        })?;
    let mr = entry.mr();
    // CAST: A region has at most 256 entries, and a request at most 32 bits of length.
    let (addr, mut len) = (mr.iova(), mr.length() as u32);
    if attrs.on_wire() == bindings::ib_signature_type_IB_SIG_TYPE_NONE {
        // The protection information is not transferred.
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

/// Destroys a transfer that [`init()`] created of these lists.
pub(super) fn destroy(
    done: Done<'_, Lists>,
    qp: QpArg<'_>,
    (data, meta): (List<'_, Data>, List<'_, Meta>),
    dma: DmaArg<'_>,
) {
    if kernel::warn_on!(done.kind() != Some(Kind::Signature)) {
        return;
    }
    if let Some(ended) = done.end(qp, dma) {
        ended.unmap(data, Some(meta));
    }
}
