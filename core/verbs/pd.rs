// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::object::code;
use super::object::destroy;
use super::object::method;
use super::object::outcome;
use super::object::pointer;
use super::object::From;
use super::object::New;
use super::object::Object;
use super::object::Owner;
use super::object::Pd;
use crate::device::Device;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::error::from_err_ptr;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::ffi::c_uint;
use kernel::prelude::*;
use rdma::bindings;

impl Pd {
    /// How many objects use it, or null for no domain.
    pub(crate) fn usecnt(&self) -> *mut bindings::atomic_t {
        // SAFETY: The object lives; only the place is computed.
        unsafe { &raw mut (*self.as_raw()).usecnt }
    }
}

/// Makes a protection domain for a part of the kernel, with the keys that it asks for: one
/// for its own memory always, one for peers to all memory if it wants to be unsafe. May sleep.
///
/// # Safety
///
/// `caller` is a string that stays as long as the domain.
unsafe fn alloc(
    device: &Device,
    flags: c_uint,
    caller: *const c_char,
) -> Result<NonNull<bindings::ib_pd>> {
    let make = method(device.ops().alloc_pd)?;
    let mut pd = New::<Pd>::alloc(device, From::Anywhere)?;
    pd.c().device = device.as_raw();
    pd.c().flags = flags;
    // SAFETY: By this function's duty.
    unsafe { pd.track(Owner::Caller(caller)) };
    // SAFETY: The object is filled in; the method is the driver's own.
    outcome(unsafe { make(pd.as_raw(), core::ptr::null_mut()) })?;
    let pd = pd.finish();
    // SAFETY: Just made, and not handed out.
    unsafe { add_keys(device, pd, flags, caller) }.inspect_err(|_| {
        // SAFETY: As above; nobody uses it.
        let _: Result = unsafe { dealloc(pd, core::ptr::null_mut()) };
    })?;
    Ok(pd)
}

/// # Safety
///
/// `pd` is a domain of the device that is not handed out yet; `caller` is a string.
unsafe fn add_keys(
    device: &Device,
    pd: NonNull<bindings::ib_pd>,
    flags: c_uint,
    caller: *const c_char,
) -> Result {
    // SAFETY: Attributes and key are written before the device is registered.
    let (own_key, has_own_key) = unsafe {
        let raw = device.as_raw();
        (
            (*raw).local_dma_lkey,
            (*raw).attrs.kernel_cap_flags
                & u64::from(bindings::ib_kernel_cap_flags_IBK_LOCAL_DMA_LKEY)
                != 0,
        )
    };
    let unsafe_key = flags & bindings::ib_pd_flags_IB_PD_UNSAFE_GLOBAL_RKEY != 0;
    let mut access = 0;
    if has_own_key {
        // SAFETY: By this function's duty.
        unsafe { (*pd.as_ptr()).local_dma_lkey = own_key };
    } else {
        access |= bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
    }
    if unsafe_key {
        // SAFETY: By this function's duty.
        let caller = unsafe { CStr::from_char_ptr(caller) };
        pr_warn!(
            "{}: enabling unsafe global rkey\n",
            kernel::str::BStr::from_bytes(caller.to_bytes())
        );
        access |= bindings::ib_access_flags_IB_ACCESS_REMOTE_READ
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
    }
    if access == 0 {
        return Ok(());
    }
    let get = method(device.ops().get_dma_mr)?;
    let access = c_int::try_from(access).map_err(|_| EINVAL)?;
    // SAFETY: The domain is made; the method is the driver's own.
    let mr = from_err_ptr(unsafe { get(pd.as_ptr(), access) })?;
    // SAFETY: The driver has just made the region, and the domain is ours.
    unsafe {
        (*mr).device = device.as_raw();
        (*mr).pd = pd.as_ptr();
        (*mr).type_ = bindings::ib_mr_type_IB_MR_TYPE_DMA;
        (*mr).__bindgen_anon_1.uobject = ManuallyDrop::new(core::ptr::null_mut());
        (*mr).need_inval = false;
        let pd = pd.as_ptr();
        (*pd).__internal_mr = mr;
        if !has_own_key {
            (*pd).local_dma_lkey = (*mr).lkey;
        }
        if unsafe_key {
            (*pd).unsafe_global_rkey = (*mr).rkey;
        }
    }
    Ok(())
}

/// Destroys a domain. May sleep.
///
/// # Safety
///
/// Nothing uses `pd` any more; `udata` is null or a user's call.
unsafe fn dealloc(pd: NonNull<bindings::ib_pd>, udata: *mut bindings::ib_udata) -> Result {
    // SAFETY: By this function's duty.
    let this = unsafe { Pd::from_raw(pd.as_ptr()) };
    let ops = this.device().ops();
    let method_of = method(ops.dealloc_pd)?;
    let ask = || {
        // SAFETY: By this function's duty; the region is the one of `add_keys`.
        unsafe {
            let mr = (*pd.as_ptr()).__internal_mr;
            if let (false, Some(dereg)) = (mr.is_null(), ops.dereg_mr) {
                kernel::warn_on!(dereg(mr, core::ptr::null_mut()) != 0);
                (*pd.as_ptr()).__internal_mr = core::ptr::null_mut();
            }
            outcome(method_of(pd.as_ptr(), udata))
        }
    };
    // SAFETY: By this function's duty.
    unsafe { destroy::<Pd>(pd, ask, || ()) }
}

rdma::exported!(__ib_alloc_pd, ib_dealloc_pd_user);

/// See [`alloc`].
///
/// # Safety
///
/// `device` is registered; `caller` is a string that stays as long as the domain.
#[no_mangle]
pub(crate) unsafe extern "C" fn __ib_alloc_pd(
    device: *mut bindings::ib_device,
    flags: c_uint,
    caller: *const c_char,
) -> *mut bindings::ib_pd {
    // SAFETY: By this function's duty.
    pointer(unsafe { alloc(Device::from_raw(device), flags, caller) })
}

/// See [`dealloc`].
///
/// # Safety
///
/// Nothing uses `pd` any more; `udata` is null or a user's call.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_dealloc_pd_user(
    pd: *mut bindings::ib_pd,
    udata: *mut bindings::ib_udata,
) -> c_int {
    let pd = NonNull::new(pd).ok_or(EINVAL);
    // SAFETY: By this function's duty.
    code(pd.and_then(|pd| unsafe { dealloc(pd, udata) }))
}
