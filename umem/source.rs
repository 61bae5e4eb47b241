// SPDX-License-Identifier: GPL-2.0

//! Which memory a user's call means.
//!
//! A call may name memory by an attribute of the kind "buffer", which is a descriptor; by
//! older attributes of its own (completion queues); or by an address in the driver's own
//! part of the call. The first two exclude each other, the last is what remains.

use super::dmabuf;
use super::pinned::Pinned;
use super::ptr_or_err;
use bindings::ib_device;
use bindings::ib_umem;
use bindings::ib_uverbs_buffer_desc;
use bindings::uverbs_attr_bundle;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::ffi::c_void;
use kernel::prelude::*;
use rdma::bindings;

/// Memory as a descriptor names it, got and mapped.
///
/// # Errors
///
/// `EINVAL` for unknown flags or an unknown kind; `EOVERFLOW` for numbers that are no
/// addresses here; those of the kind.
///
/// # Safety
///
/// The device exists until the memory is released.
unsafe fn get(
    device: *mut ib_device,
    desc: &ib_uverbs_buffer_desc,
    access: c_int,
) -> Result<NonNull<ib_umem>> {
    // No flag is known that must be understood (`IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK`).
    if desc.flags != 0 {
        return Err(EINVAL);
    }
    let addr = usize::try_from(desc.addr).map_err(|_| EOVERFLOW)?;
    let len = usize::try_from(desc.length).map_err(|_| EOVERFLOW)?;
    match desc.type_ {
        bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_DMABUF => {
            // SAFETY: By this function's duty.
            let buf = unsafe {
                dmabuf::get_pinned(device, (*device).dma_device, addr, len, desc.fd, access)
            }?;
            // CAST: the head is the first field.
            Ok(buf.cast())
        }
        bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_VA => {
            // SAFETY: By this function's duty.
            Ok(unsafe { Pinned::get(device, addr, len, access) }?.into_raw())
        }
        _ => Err(EINVAL),
    }
}

/// What a call names.
struct Call<'a>(&'a uverbs_attr_bundle);

impl Call<'_> {
    /// The descriptor of an attribute of the kind "buffer".
    fn descriptor(&self, attr: u16) -> Result<Option<ib_uverbs_buffer_desc>> {
        let mut desc = ib_uverbs_buffer_desc::default();
        // SAFETY: The call's attributes exist, and the descriptor is ours.
        match to_result(unsafe { bindings::uverbs_get_buffer_desc(self.0, attr, &mut desc) }) {
            Ok(()) => Ok(Some(desc)),
            Err(e) if e == ENOENT => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn has(&self, attr: u32) -> bool {
        // CAST: identifiers of attributes have 16 bits.
        // SAFETY: The call's attributes exist.
        unsafe { bindings::rdma_helper_uverbs_attr_is_valid(self.0, attr as u16) }
    }

    fn number(&self, attr: u32) -> Result<u64> {
        let mut value = 0u64;
        let to: *mut c_void = core::ptr::from_mut(&mut value).cast();
        // SAFETY: The call's attributes exist, and there is room for eight bytes.
        to_result(unsafe { bindings::rdma_helper_uverbs_copy_from(to, self.0, attr as usize, 8) })?;
        Ok(value)
    }

    fn fd(&self, attr: u32) -> Result<c_int> {
        let mut value = 0i64;
        // SAFETY: The call's attributes exist, and the value is ours.
        to_result(unsafe {
            bindings::_uverbs_get_const_signed(
                &mut value,
                self.0,
                attr as usize,
                c_int::MIN.into(),
                c_int::MAX as u64,
                core::ptr::null_mut(),
            )
        })?;
        Ok(c_int::try_from(value)?)
    }

    /// The attributes with which "create completion queue" named its memory before there
    /// were descriptors: address and length, or file, offset and length.
    ///
    /// # Errors
    ///
    /// `EINVAL` for parts of either or of both, or if the driver takes no such memory;
    /// those of missing attributes.
    fn old_cq(&self) -> Result<Option<ib_uverbs_buffer_desc>> {
        const VA: u32 =
            bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_VA;
        const LENGTH: u32 =
            bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH;
        const FD: u32 =
            bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_FD;
        const OFFSET: u32 =
            bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET;

        let mut desc = ib_uverbs_buffer_desc::default();
        let alone = if self.has(VA) {
            desc.type_ = bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_VA;
            desc.addr = self.number(VA)?;
            desc.length = self.number(LENGTH)?;
            !self.has(FD) && !self.has(OFFSET)
        } else if self.has(FD) {
            desc.type_ = bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_DMABUF;
            desc.fd = self.fd(FD)?;
            desc.addr = self.number(OFFSET)?;
            desc.length = self.number(LENGTH)?;
            true
        } else if self.has(OFFSET) || self.has(LENGTH) {
            return Err(EINVAL);
        } else {
            return Ok(None);
        };
        // SAFETY: The call has a context as long as it runs, and that has its device.
        let able = unsafe {
            let context = self.0.__bindgen_anon_1.__bindgen_anon_1.context;
            !context.is_null() && (*(*context).device).ops.create_user_cq.is_some()
        };
        if alone && able {
            Ok(Some(desc))
        } else {
            Err(EINVAL)
        }
    }
}

/// Where else but in a descriptor a call may name memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Old {
    Nowhere,
    CqAttributes,
}

/// What the call names, if it does.
///
/// # Safety
///
/// `attrs` is null, or the attributes of a call that runs.
unsafe fn named(
    attrs: *const uverbs_attr_bundle,
    attr: u16,
    old: Old,
) -> Result<Option<ib_uverbs_buffer_desc>> {
    // SAFETY: By this function's duty.
    let Some(attrs) = (unsafe { attrs.as_ref() }) else {
        return Ok(None);
    };
    let call = Call(attrs);
    let by_descriptor = call.descriptor(attr)?;
    let by_old = match old {
        Old::Nowhere => None,
        Old::CqAttributes => match call.old_cq() {
            // Half of what it takes is as good as nothing, also beside a descriptor: drivers
            // have always gone on to where else memory may be named.
            Err(e) if e == ENOENT => return Ok(None),
            old => old?,
        },
    };
    match (by_descriptor, by_old) {
        (Some(_), Some(_)) => Err(EINVAL),
        (desc, None) | (None, desc) => Ok(desc),
    }
}

/// Gets what is described, of which there must be `min` bytes.
///
/// # Safety
///
/// The device exists until the memory is released.
unsafe fn get_at_least(
    device: *mut ib_device,
    desc: &ib_uverbs_buffer_desc,
    min: usize,
    access: c_int,
) -> Result<NonNull<ib_umem>> {
    // SAFETY: By this function's duty.
    let umem = unsafe { get(device, desc, access) }?;
    // SAFETY: We have just got it.
    unsafe {
        if umem.as_ref().length < min {
            super::ib_umem_release(umem.as_ptr());
            return Err(EINVAL);
        }
    }
    Ok(umem)
}

/// What the call names, or null.
///
/// # Safety
///
/// That of [`named`] and of [`get`].
unsafe fn get_named(
    device: *mut ib_device,
    attrs: *const uverbs_attr_bundle,
    attr: u16,
    old: Old,
    size: usize,
    access: c_int,
) -> *mut ib_umem {
    // SAFETY: By this function's duty.
    match unsafe { named(attrs, attr, old) } {
        // SAFETY: By this function's duty.
        Ok(Some(desc)) => ptr_or_err(unsafe { get_at_least(device, &desc, size, access) }),
        Ok(None) => core::ptr::null_mut(),
        Err(e) => e.to_ptr(),
    }
}

/// What the call names, or `size` bytes at `addr`.
///
/// # Safety
///
/// That of [`named`] and of [`get`].
unsafe fn get_named_or_va(
    device: *mut ib_device,
    attrs: *const uverbs_attr_bundle,
    attr: u16,
    old: Old,
    (addr, size): (u64, usize),
    access: c_int,
) -> *mut ib_umem {
    // SAFETY: By this function's duty.
    let desc = match unsafe { named(attrs, attr, old) } {
        Ok(Some(desc)) => desc,
        Ok(None) => ib_uverbs_buffer_desc {
            type_: bindings::ib_uverbs_buffer_type_IB_UVERBS_BUFFER_TYPE_VA,
            addr,
            length: size as u64,
            ..ib_uverbs_buffer_desc::default()
        },
        Err(e) => return e.to_ptr(),
    };
    // SAFETY: By this function's duty.
    ptr_or_err(unsafe { get_at_least(device, &desc, size, access) })
}

/// The attribute by which "create completion queue" names its memory.
const CQ_BUFFER: u16 =
    // CAST: identifiers of attributes have 16 bits.
    bindings::uverbs_attrs_create_cq_cmd_attr_ids_UVERBS_ATTR_CREATE_CQ_BUF_UMEM as u16;

/// The memory that a descriptor names; an error pointer on failure ([`get`]).
///
/// # Safety
///
/// The descriptor is readable; the device exists until the memory is released.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_get_desc(
    device: *mut ib_device,
    desc: *const ib_uverbs_buffer_desc,
    access: c_int,
) -> *mut ib_umem {
    // SAFETY: By this function's duty.
    ptr_or_err(unsafe { get(device, &*desc, access) })
}

/// The memory that the attribute `attr_id` of a call names, of at least `size` bytes; null
/// if the call has no such attribute.
///
/// # Safety
///
/// `attrs` is null or the attributes of a call that runs; the device exists until the
/// memory is released.
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_get_attr(
    device: *mut ib_device,
    attrs: *const uverbs_attr_bundle,
    attr_id: u16,
    size: usize,
    access: c_int,
) -> *mut ib_umem {
    // SAFETY: By this function's duty.
    unsafe { get_named(device, attrs, attr_id, Old::Nowhere, size, access) }
}

/// As [`ib_umem_get_attr`]; without the attribute, `size` bytes at `addr` of the process.
///
/// # Safety
///
/// That of [`ib_umem_get_attr`].
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_get_attr_or_va(
    device: *mut ib_device,
    attrs: *const uverbs_attr_bundle,
    attr_id: u16,
    addr: u64,
    size: usize,
    access: c_int,
) -> *mut ib_umem {
    // SAFETY: By this function's duty.
    unsafe { get_named_or_va(device, attrs, attr_id, Old::Nowhere, (addr, size), access) }
}

/// The memory for a completion queue that the call which makes it names, of at least `size`
/// bytes; null if it names none.
///
/// # Safety
///
/// That of [`ib_umem_get_attr`].
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_get_cq_buf(
    device: *mut ib_device,
    attrs: *const uverbs_attr_bundle,
    size: usize,
    access: c_int,
) -> *mut ib_umem {
    // SAFETY: By this function's duty.
    unsafe { get_named(device, attrs, CQ_BUFFER, Old::CqAttributes, size, access) }
}

/// As [`ib_umem_get_cq_buf`]; if the call names none, `size` bytes at `addr` of the process.
///
/// # Safety
///
/// That of [`ib_umem_get_attr`].
#[no_mangle]
pub(crate) unsafe extern "C" fn ib_umem_get_cq_buf_or_va(
    device: *mut ib_device,
    attrs: *const uverbs_attr_bundle,
    addr: u64,
    size: usize,
    access: c_int,
) -> *mut ib_umem {
    // SAFETY: By this function's duty.
    unsafe {
        get_named_or_va(
            device,
            attrs,
            CQ_BUFFER,
            Old::CqAttributes,
            (addr, size),
            access,
        )
    }
}

rdma::exported!(
    ib_umem_get_desc,
    ib_umem_get_attr,
    ib_umem_get_attr_or_va,
    ib_umem_get_cq_buf,
    ib_umem_get_cq_buf_or_va,
);
