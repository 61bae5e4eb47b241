// SPDX-License-Identifier: GPL-2.0

//! What drivers write of their own into an answer.

use core::ffi::CStr;
use core::ptr::NonNull;
use kernel::ffi::c_char;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

use super::request::Answer;
use crate::netlink::Tail;
use crate::proto::nla::Full;
use crate::proto::nldev::stat;
use crate::proto::nldev::Attr;

/// Numbers are to be shown as hexadecimal ones (`RDMA_NLDEV_PRINT_TYPE_HEX`).
// CAST: There are few types.
const HEX: u8 = bindings::rdma_nldev_print_type_RDMA_NLDEV_PRINT_TYPE_HEX as u8;

/// How a number is to be shown.
#[derive(Clone, Copy)]
enum Print {
    Plain,
    Hex,
}

fn put_name(w: &mut Answer<'_>, name: &CStr, print: Print) -> Result<(), Full> {
    w.put_str(Attr::DriverString.raw(), name.to_bytes())?;
    match print {
        Print::Plain => Ok(()),
        Print::Hex => w.put_u8(Attr::DriverPrintType.raw(), HEX),
    }
}

/// Writes to a driver's message. What does not fit may have been written in part: then the
/// core takes back all that is around it.
///
/// # Safety
///
/// `msg` is what the core lent the driver; `name` is a text.
unsafe fn put(
    msg: *mut bindings::sk_buff,
    name: *const c_char,
    fill: impl FnOnce(&mut Answer<'_>, &CStr) -> Result<(), Full>,
) -> c_int {
    let Some(msg) = NonNull::new(msg) else {
        return EINVAL.to_errno();
    };
    // SAFETY: By this function's duty; the driver alone has the buffer now.
    let (mut w, name) = unsafe { (Tail::new(msg).writer(), CStr::from_ptr(name.cast())) };
    match fill(&mut w, name) {
        Ok(()) => 0,
        Err(Full) => EMSGSIZE.to_errno(),
    }
}

/// A text of the driver's.
///
/// # Safety
///
/// `msg` is what the core lent the driver; `name` and `text` are texts.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_put_driver_string(
    msg: *mut bindings::sk_buff,
    name: *const c_char,
    text: *const c_char,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        let text = CStr::from_ptr(text.cast());
        put(msg, name, |w, name| {
            put_name(w, name, Print::Plain)?;
            w.put_str(Attr::DriverString.raw(), text.to_bytes())
        })
    }
}

/// # Safety
///
/// As of [`put`].
unsafe fn put_u32(
    msg: *mut bindings::sk_buff,
    name: *const c_char,
    print: Print,
    value: u32,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        put(msg, name, |w, name| {
            put_name(w, name, print)?;
            w.put_u32(Attr::DriverU32.raw(), value)
        })
    }
}

/// # Safety
///
/// As of [`put`].
unsafe fn put_u64(
    msg: *mut bindings::sk_buff,
    name: *const c_char,
    print: Print,
    value: u64,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        put(msg, name, |w, name| {
            put_name(w, name, print)?;
            w.put_u64(Attr::DriverU64.raw(), value, crate::proto::nldev::attr::PAD)
        })
    }
}

/// A number of the driver's.
///
/// # Safety
///
/// `msg` is what the core lent the driver; `name` is a text.
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_put_driver_u32(
    msg: *mut bindings::sk_buff,
    name: *const c_char,
    value: u32,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe { put_u32(msg, name, Print::Plain, value) }
}

/// A number of the driver's, to be shown as a hexadecimal one.
///
/// # Safety
///
/// As of [`rdma_nl_put_driver_u32`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_put_driver_u32_hex(
    msg: *mut bindings::sk_buff,
    name: *const c_char,
    value: u32,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe { put_u32(msg, name, Print::Hex, value) }
}

/// A long number of the driver's.
///
/// # Safety
///
/// As of [`rdma_nl_put_driver_u32`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_put_driver_u64(
    msg: *mut bindings::sk_buff,
    name: *const c_char,
    value: u64,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe { put_u64(msg, name, Print::Plain, value) }
}

/// A long number of the driver's, to be shown as a hexadecimal one.
///
/// # Safety
///
/// As of [`rdma_nl_put_driver_u32`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_put_driver_u64_hex(
    msg: *mut bindings::sk_buff,
    name: *const c_char,
    value: u64,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe { put_u64(msg, name, Print::Hex, value) }
}

/// What an object has counted.
///
/// # Safety
///
/// As of [`rdma_nl_put_driver_u32`].
#[no_mangle]
pub(crate) unsafe extern "C" fn rdma_nl_stat_hwcounter_entry(
    msg: *mut bindings::sk_buff,
    name: *const c_char,
    value: u64,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        put(msg, name, |w, name| {
            stat::put_value(w, name.to_bytes(), value)
        })
    }
}

rdma::exported!(
    rdma_nl_put_driver_string,
    rdma_nl_put_driver_u32,
    rdma_nl_put_driver_u32_hex,
    rdma_nl_put_driver_u64,
    rdma_nl_put_driver_u64_hex,
    rdma_nl_stat_hwcounter_entry,
);
