// SPDX-License-Identifier: GPL-2.0

//! Memory regions. The driver allocates and frees them. `ib_uverbs` makes those of users
//! through the driver's own method; here they are destroyed, and those of the kernel made.

use super::object::code;
use super::object::keep;
use super::object::method;
use super::object::outcome;
use super::object::pointer;
use super::object::track_made;
use super::object::usecnt;
use super::object::Mr;
use super::object::Object;
use super::object::Owner;
use super::object::Pd;
use super::object::Use;
use crate::errno::eopnotsupp;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use rdma::bindings;

/// What a new region of the kernel is.
struct Made {
    mr_type: bindings::ib_mr_type,
    /// Of kmalloc; owned by the region from now on.
    sig_attrs: *mut bindings::ib_sig_attrs,
}

/// Makes a region that the driver has returned known.
///
/// # Safety
///
/// `mr` is what a method of `pd`'s driver that makes regions has just returned.
unsafe fn finish(pd: &Pd, mr: NonNull<bindings::ib_mr>, made: &Made) {
    let c = mr.as_ptr();
    // SAFETY: By this function's duty the region lives and is ours.
    unsafe {
        (*c).device = pd.device().as_raw();
        (*c).pd = pd.as_raw();
        (*c).dm = core::ptr::null_mut();
        (*c).type_ = made.mr_type;
        if made.mr_type != bindings::ib_mr_type_IB_MR_TYPE_USER {
            (*c).__bindgen_anon_1.uobject = ManuallyDrop::new(core::ptr::null_mut());
            (*c).need_inval = false;
            (*c).sig_attrs = made.sig_attrs;
        }
        keep([Use::of(pd.usecnt())]);
        track_made::<Mr>(mr, Owner::OfPd(pd));
    }
}

/// # Safety
///
/// `mr` is what a method of a driver returned.
unsafe fn returned(mr: *mut bindings::ib_mr) -> Result<NonNull<bindings::ib_mr>> {
    NonNull::new(from_err_ptr(mr)?).ok_or(ENOMEM)
}

/// A region for fast registration, of this type and of so many pages.
fn alloc(pd: &Pd, mr_type: bindings::ib_mr_type, max_sg: u32) -> Result<NonNull<bindings::ib_mr>> {
    let alloc = method(pd.device().ops().alloc_mr)?;
    if kernel::warn_on!(mr_type == bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY) {
        return Err(EINVAL);
    }
    let made = Made {
        mr_type,
        sig_attrs: core::ptr::null_mut(),
    };
    // SAFETY: The domain lives; the method is the driver's own, and what it returns is made.
    unsafe {
        let mr = returned(alloc(pd.as_raw(), mr_type, max_sg))?;
        finish(pd, mr, &made);
        Ok(mr)
    }
}

/// A region with protection information beside the data.
fn alloc_integrity(
    pd: &Pd,
    max_data_sg: u32,
    max_meta_sg: u32,
) -> Result<NonNull<bindings::ib_mr>> {
    let ops = pd.device().ops();
    let alloc = method(ops.alloc_mr_integrity)?;
    method(ops.map_mr_sg_pi)?;
    if max_meta_sg == 0 {
        return Err(EINVAL);
    }
    let sig_attrs = KBox::new(bindings::ib_sig_attrs::default(), GFP_KERNEL)?;
    // SAFETY: The domain lives; the method is the driver's own, and what it returns is made.
    unsafe {
        let mr = returned(alloc(pd.as_raw(), max_data_sg, max_meta_sg))?;
        let made = Made {
            mr_type: bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY,
            sig_attrs: KBox::into_raw(sig_attrs),
        };
        finish(pd, mr, &made);
        Ok(mr)
    }
}

/// A region of a user's memory, registered by a part of the kernel in the user's call.
fn register_user(
    pd: &Pd,
    start: u64,
    length: u64,
    virt_addr: u64,
    access: c_int,
) -> Result<NonNull<bindings::ib_mr>> {
    let device = pd.device();
    // SAFETY: Written before the device is registered.
    let caps = unsafe { (*device.as_raw()).attrs.kernel_cap_flags };
    let on_demand = access & bindings::ib_access_flags_IB_ACCESS_ON_DEMAND as c_int != 0;
    if on_demand && caps & u64::from(bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING) == 0 {
        return Err(EINVAL);
    }
    let register = method(device.ops().reg_user_mr)?;
    let made = Made {
        mr_type: bindings::ib_mr_type_IB_MR_TYPE_USER,
        sig_attrs: core::ptr::null_mut(),
    };
    let none = core::ptr::null_mut();
    // SAFETY: The domain lives; the method is the driver's own, and what it returns is made.
    unsafe {
        let mr = returned(register(
            pd.as_raw(),
            start,
            length,
            virt_addr,
            access,
            core::ptr::null_mut(),
            none,
        ))?;
        (*mr.as_ptr()).iova = virt_addr;
        (*mr.as_ptr()).length = length;
        finish(pd, mr, &made);
        Ok(mr)
    }
}

rdma::exported!(
    ib_reg_user_mr,
    ib_advise_mr,
    ib_dereg_mr_user,
    ib_alloc_mr,
    ib_alloc_mr_integrity,
    ib_check_mr_status,
    ib_map_mr_sg,
    ib_map_mr_sg_pi,
);

/// See [`register_user`]. May sleep.
///
/// # Safety
///
/// `pd` lives.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_reg_user_mr(
    pd: *mut bindings::ib_pd,
    start: u64,
    length: u64,
    virt_addr: u64,
    access: c_int,
) -> *mut bindings::ib_mr {
    // SAFETY: By this function's duty.
    let pd = unsafe { Pd::from_raw(pd) };
    pointer(register_user(pd, start, length, virt_addr, access))
}

/// Advises the device of what will be used. May sleep.
///
/// # Safety
///
/// `pd` lives, and `list` has `count` entries.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_advise_mr(
    pd: *mut bindings::ib_pd,
    advice: bindings::ib_uverbs_advise_mr_advice,
    flags: u32,
    list: *mut bindings::ib_sge,
    count: u32,
) -> c_int {
    // SAFETY: By this function's duty.
    let ops = unsafe { Pd::from_raw(pd) }.device().ops();
    code(method(ops.advise_mr).and_then(|advise| {
        if count == 0 {
            return Ok(());
        }
        // SAFETY: By this function's duty; the method is the driver's own.
        outcome(unsafe { advise(pd, advice, flags, list, count, core::ptr::null_mut()) })
    }))
}

/// Destroys a region, whoever made it. May sleep.
///
/// # Safety
///
/// `mr` lives and nobody uses it any more; `udata` is null or a user's call.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_dereg_mr_user(
    mr: *mut bindings::ib_mr,
    udata: *mut bindings::ib_udata,
) -> c_int {
    let dereg = || {
        // SAFETY: By this function's duty.
        let method = method(unsafe { Mr::from_raw(mr) }.device().ops().dereg_mr)?;
        // SAFETY: As above. The driver frees the region, so all is read before.
        unsafe {
            bindings::rdma_helper_trace_mr_dereg(mr);
            let uses = [usecnt!((*mr).pd), usecnt!((*mr).dm), usecnt!((*mr).dmah)];
            let sig_attrs = (*mr).sig_attrs;
            crate::private::rdma_restrack_del(Mr::entry(mr));
            outcome(method(mr, udata))?;
            drop(uses.map(|count| Use::kept(count)));
            bindings::kfree(sig_attrs.cast());
        }
        Ok(())
    };
    code(dereg())
}

/// See [`alloc`]. May sleep.
///
/// # Safety
///
/// `pd` lives.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_alloc_mr(
    pd: *mut bindings::ib_pd,
    mr_type: bindings::ib_mr_type,
    max_sg: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: By this function's duty.
    let mr = pointer(alloc(unsafe { Pd::from_raw(pd) }, mr_type, max_sg));
    // SAFETY: The event takes error pointers too.
    unsafe { bindings::rdma_helper_trace_mr_alloc(pd, mr_type, max_sg, mr) };
    mr
}

/// See [`alloc_integrity`]. May sleep.
///
/// # Safety
///
/// `pd` lives.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_alloc_mr_integrity(
    pd: *mut bindings::ib_pd,
    max_data_sg: u32,
    max_meta_sg: u32,
) -> *mut bindings::ib_mr {
    // SAFETY: By this function's duty.
    let mr = pointer(alloc_integrity(
        unsafe { Pd::from_raw(pd) },
        max_data_sg,
        max_meta_sg,
    ));
    // SAFETY: The event takes error pointers too.
    unsafe { bindings::rdma_helper_trace_mr_integ_alloc(pd, max_data_sg, max_meta_sg, mr) };
    mr
}

/// Reads what checks of a region have found. Any context that the driver allows.
///
/// # Safety
///
/// `mr` lives and `status` is valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_check_mr_status(
    mr: *mut bindings::ib_mr,
    mask: u32,
    status: *mut bindings::ib_mr_status,
) -> c_int {
    // SAFETY: By this function's duty.
    let ops = unsafe { Mr::from_raw(mr) }.device().ops();
    code(method(ops.check_mr_status).and_then(|check| {
        // SAFETY: By this function's duty; the method is the driver's own.
        outcome(unsafe { check(mr, mask, status) })
    }))
}

/// Maps the beginning of a list that is mapped for DMA: as much as pages of `page_size` bytes
/// and the region's size take. Returns how many entries. Never sleeps.
///
/// # Safety
///
/// `mr` lives, `sg` is a list of `count` entries, `offset` null or valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_map_mr_sg(
    mr: *mut bindings::ib_mr,
    sg: *mut bindings::scatterlist,
    count: c_int,
    offset: *mut c_uint,
    page_size: c_uint,
) -> c_int {
    // SAFETY: By this function's duty.
    let Some(map) = unsafe { Mr::from_raw(mr) }.device().ops().map_mr_sg else {
        return eopnotsupp().to_errno();
    };
    // SAFETY: By this function's duty; the method is the driver's own.
    unsafe {
        (*mr).page_size = page_size;
        map(mr, sg, count, offset)
    }
}

/// Maps two lists that are mapped for DMA, data and protection information. Never sleeps.
///
/// # Safety
///
/// `mr` lives, the lists are of so many entries, offsets null or valid.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_map_mr_sg_pi(
    mr: *mut bindings::ib_mr,
    data: *mut bindings::scatterlist,
    data_count: c_int,
    data_offset: *mut c_uint,
    meta: *mut bindings::scatterlist,
    meta_count: c_int,
    meta_offset: *mut c_uint,
    page_size: c_uint,
) -> c_int {
    // SAFETY: By this function's duty.
    let Some(map) = unsafe { Mr::from_raw(mr) }.device().ops().map_mr_sg_pi else {
        return eopnotsupp().to_errno();
    };
    // SAFETY: As above.
    if kernel::warn_on!(unsafe { (*mr).type_ } != bindings::ib_mr_type_IB_MR_TYPE_INTEGRITY) {
        return eopnotsupp().to_errno();
    }
    // SAFETY: By this function's duty; the method is the driver's own.
    unsafe {
        (*mr).page_size = page_size;
        map(
            mr,
            data,
            data_count,
            data_offset,
            meta,
            meta_count,
            meta_offset,
        )
    }
}
