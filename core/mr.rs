// SPDX-License-Identifier: GPL-2.0

//! Memory regions. The driver allocates and frees them. `ib_uverbs` creates user regions by calling
//! the driver directly; this file creates kernel regions and destroys both. `sg` converts scatter
//! lists to the pages of a region.

mod edge;
mod sg;

use self::edge::MadeMr;
use crate::object::tables::MrInit;
use crate::object::tables::SigAttrs;
use crate::object::tables::UserCall;
use crate::object::Bare;
use crate::object::Mr;
use crate::object::Object;
use crate::object::Owned;
use crate::object::Owner;
use crate::object::Owning;
use crate::object::Pd;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::Passed;
use rdma::errno::eopnotsupp;

type List = Passed<bindings::scatterlist>;

/// Initialises the core's fields of a region that the driver has allocated.
fn fill(pd: &Pd, mr: Bare<Mr>, kind: u32, sig_attrs: Option<Owned<SigAttrs>>) -> Owned<Mr> {
    let mut mr = mr.fill(MrInit {
        dev: pd.device(),
        pd,
        kind,
        dm: None,
        dmah: None,
    });
    if kind != bindings::ib_mr_type_IB_MR_TYPE_USER {
        Mr::set_uobject(&mut mr, Passed::NULL);
        Mr::set_need_inval(&mut mr, false);
        let _garbage: Option<Owned<SigAttrs>> = mr.sig_attrs().put(sig_attrs);
    }
    mr
}

/// Counts the region in its protection domain, and adds it to restrack.
fn publish(pd: &Pd, mut mr: Owned<Mr>) -> Owned<Mr> {
    pd.usecnt().count().keep();
    mr.track(Owner::OfPd(pd));
    mr
}

/// Allocates a region for fast registration, of type `mr_type` and with up to `max_sg` pages.
fn alloc(pd: &Pd, mr_type: bindings::ib_mr_type, max_sg: u32) -> Result<Owned<Mr>> {
    pd.device().needs(|ops| ops.alloc_mr)?;
    if kernel::warn_on!(mr_type == bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY) {
        return Err(EINVAL);
    }
    let mr = pd.driver().alloc_mr(mr_type, max_sg)?;
    Ok(publish(pd, fill(pd, mr, mr_type, None)))
}

/// Allocates a region for data with protection information.
fn alloc_integrity(pd: &Pd, max_data_sg: u32, max_meta_sg: u32) -> Result<Owned<Mr>> {
    pd.device().needs(|ops| ops.alloc_mr_integrity)?;
    pd.device().needs(|ops| ops.map_mr_sg_pi)?;
    if max_meta_sg == 0 {
        return Err(EINVAL);
    }
    let sig_attrs = SigAttrs::new()?;
    match pd.driver().alloc_mr_integrity(max_data_sg, max_meta_sg) {
        Ok(mr) => {
            let kind = bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY;
            Ok(publish(pd, fill(pd, mr, kind, Some(sig_attrs))))
        }
        Err(error) => {
            SigAttrs::free(sig_attrs);
            Err(error)
        }
    }
}

/// Registers user memory for a kernel consumer, in the context of the user's process. May sleep.
fn register_user(pd: &Pd, start: u64, length: u64, iova: u64, access: c_int) -> Result<Owned<Mr>> {
    let device = pd.device();
    let on_demand = access & bindings::ib_access_flags_IB_ACCESS_ON_DEMAND as c_int != 0;
    let can = device.attrs().kernel_cap_flags()
        & u64::from(bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING)
        != 0;
    if on_demand && !can {
        return Err(EINVAL);
    }
    let mr = pd
        .driver()
        .reg_user_mr(start, length, iova, access, None, None)?;
    let mut mr = fill(pd, mr, bindings::ib_mr_type_IB_MR_TYPE_USER, None);
    Mr::set_iova(&mut mr, iova);
    mr.set_length(length);
    Ok(publish(pd, mr))
}

/// Gives the device advice on the use of memory ranges. May sleep.
fn advise(pd: &Pd, advice: u32, flags: u32, list: Passed<bindings::ib_sge>, count: u32) -> Result {
    pd.device().needs(|ops| ops.advise_mr)?;
    if count == 0 {
        return Ok(());
    }
    pd.driver().advise_mr(advice, flags, list, count, None)
}

/// Destroys an unused region of the kernel or of a user. May sleep.
pub(crate) fn dereg(mr: Owned<Mr>, call: Option<&UserCall>) -> Result {
    mr.device().needs(|ops| ops.dereg_mr)?;
    edge::trace_mr_dereg(&mr);
    let sig_attrs = mr.destroy_by_driver(
        |mr| Some(mr.sig_attrs()),
        |mr| crate::object::driver::dereg_mr(mr, call),
    )?;
    if let Some(sig_attrs) = sig_attrs {
        SigAttrs::free(sig_attrs);
    }
    Ok(())
}

/// See [`alloc`]. May sleep.
pub(crate) fn alloc_traced(pd: &Pd, mr_type: u32, max_sg: u32) -> Result<Owned<Mr>> {
    let mr = alloc(pd, mr_type, max_sg);
    edge::trace_mr_alloc(pd, mr_type, max_sg, MadeMr(&mr));
    mr
}

/// See [`alloc_integrity`]. May sleep.
pub(crate) fn alloc_integrity_traced(pd: &Pd, data: u32, meta: u32) -> Result<Owned<Mr>> {
    let mr = alloc_integrity(pd, data, meta);
    edge::trace_mr_integ_alloc(pd, data, meta, MadeMr(&mr));
    mr
}

/// Reads the result of the signature checks of a region. Any context that the driver allows.
fn check(mr: &Mr, mask: u32, status: Passed<bindings::ib_mr_status>) -> Result {
    mr.driver().check_mr_status(mask, status)
}

/// Maps the start of a DMA-mapped list: as many entries as fit into the region as pages of
/// `page_size` bytes. Returns the number of mapped entries. Never sleeps.
pub(crate) fn map(
    mr: &Mr,
    list: List,
    count: c_int,
    offset: Passed<c_uint>,
    page_size: c_uint,
) -> c_int {
    if mr.device().ops().map_mr_sg.is_none() {
        return eopnotsupp().to_errno();
    }
    mr.set_page_size(page_size);
    mr.driver().map_mr_sg(list, count, offset)
}

/// Maps two DMA-mapped lists, for data and for protection information. Never sleeps.
#[expect(clippy::too_many_arguments, reason = "those of C")]
pub(crate) fn map_pi(
    mr: &Mr,
    data: List,
    data_count: c_int,
    data_offset: Passed<c_uint>,
    meta: List,
    meta_count: c_int,
    meta_offset: Passed<c_uint>,
    page_size: c_uint,
) -> c_int {
    if mr.device().ops().map_mr_sg_pi.is_none()
        || kernel::warn_on!(mr.kind() != bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY)
    {
        return eopnotsupp().to_errno();
    }
    mr.set_page_size(page_size);
    mr.driver()
        .map_mr_sg_pi(data, data_count, data_offset, meta, meta_count, meta_offset)
}

rdma::export! {
    in rdma::bindings;

    /// See [`register_user`].
    fn ib_reg_user_mr(pd: &Pd, start: u64, length: u64, iova: u64, access: c_int)
        -> Result<Owned<Mr>> = register_user;
    /// See [`advise`].
    fn ib_advise_mr(
        pd: &Pd, advice: u32, flags: u32, list: Passed<bindings::ib_sge>, count: u32,
    ) -> Result = advise;
    /// See [`dereg`].
    fn ib_dereg_mr_user(mr: Owned<Mr>, call: Option<&UserCall>) -> Result = dereg;
    /// See [`alloc`].
    fn ib_alloc_mr(pd: &Pd, mr_type: u32, max_sg: u32) -> Result<Owned<Mr>> = alloc_traced;
    /// See [`alloc_integrity`].
    fn ib_alloc_mr_integrity(pd: &Pd, max_data_sg: u32, max_meta_sg: u32)
        -> Result<Owned<Mr>> = alloc_integrity_traced;
    /// See [`check`].
    fn ib_check_mr_status(mr: &Mr, mask: u32, status: Passed<bindings::ib_mr_status>)
        -> Result = check;
    /// See [`map`].
    fn ib_map_mr_sg(
        mr: &Mr, list: List, count: c_int, offset: Passed<c_uint>, page_size: c_uint,
    ) -> c_int = map;
    /// See [`map_pi`].
    fn ib_map_mr_sg_pi(
        mr: &Mr, data: List, data_count: c_int, data_offset: Passed<c_uint>,
        meta: List, meta_count: c_int, meta_offset: Passed<c_uint>, page_size: c_uint,
    ) -> c_int = map_pi;
}
