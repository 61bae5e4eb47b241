// SPDX-License-Identifier: GPL-2.0

//! Exported functions of what is remembered of ports. None of them sleeps; any context.

use kernel::ffi::c_int;
use kernel::prelude::*;

use super::Known;
use crate::device::Device;
use crate::private::exported_private;
use crate::proto::errno::Errno;
use crate::proto::pkey;
use crate::proto::pkey::Limited;
use crate::proto::pkey::Pkey;
use rdma::bindings::ib_device;
use rdma::bindings::ib_port_state;

/// Looks at what is known of a port; `EINVAL` if there is no such port.
///
/// # Safety
///
/// `device` is a device that fulfils the invariant of [`Device`].
unsafe fn look<R>(
    device: *mut ib_device,
    port: u32,
    look: impl FnOnce(&Known) -> Result<R, Errno>,
) -> Result<R, Errno> {
    // SAFETY: By this function's duty.
    let device = unsafe { Device::from_raw(device) };
    let port = device
        .slot::<super::Copies>()
        .port(port)
        .ok_or(Errno::Einval)?;
    look(&port.lock())
}

/// Writes an answer.
///
/// # Safety
///
/// `to` is writable.
unsafe fn answer<T>(found: Result<T, Errno>, to: *mut T) -> c_int {
    match found {
        Ok(value) => {
            // SAFETY: By this function's duty.
            unsafe { to.write(value) };
            0
        }
        Err(errno) => errno.to_ret(),
    }
}

/// The P_Key of an index. `EINVAL` if there is no such port or index.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn ib_get_cached_pkey(
    device: *mut ib_device,
    port_num: u32,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        let found = look(device, port_num, |known| {
            let table = known.pkeys.as_ref().ok_or(Errno::Einval)?;
            let Pkey(raw) = pkey::get(table, index).map_err(pkey::Refusal::errno)?;
            Ok(raw)
        });
        answer(found, pkey)
    }
}

/// Where a partition's key is; a full member's goes before a limited one's. `EINVAL` if
/// there is no such port, `ENOENT`.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn ib_find_cached_pkey(
    device: *mut ib_device,
    port_num: u32,
    pkey: u16,
    index: *mut u16,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        let found = look(device, port_num, |known| {
            let table = known.pkeys.as_ref().ok_or(Errno::Einval)?;
            pkey::find(table, Pkey(pkey), Limited::Last).map_err(pkey::Refusal::errno)
        });
        if found == Err(Errno::Enoent) {
            // Callers that forget to look at the error must not find an index.
            index.write(u16::MAX);
        }
        answer(found, index)
    }
}

/// How many low bits of the LID are a path's own. `EINVAL` if there is no such port.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn ib_get_cached_lmc(
    device: *mut ib_device,
    port_num: u32,
    lmc: *mut u8,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe { answer(look(device, port_num, |known| Ok(known.port.lmc)), lmc) }
}

/// State of the link. `EINVAL` if there is no such port.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn ib_get_cached_port_state(
    device: *mut ib_device,
    port_num: u32,
    port_state: *mut ib_port_state,
) -> c_int {
    // SAFETY: By this function's duty.
    unsafe {
        let found = look(device, port_num, |known| {
            Ok(ib_port_state::from(known.port.state.0))
        });
        answer(found, port_state)
    }
}

/// Upper half of the port's GIDs; nothing is written if there is no such port.
///
/// # Safety
///
/// As the header has it.
#[no_mangle]
pub unsafe extern "C" fn ib_get_cached_subnet_prefix(
    device: *mut ib_device,
    port_num: u32,
    sn_pfx: *mut u64,
) {
    // SAFETY: By this function's duty.
    unsafe {
        let found = look(device, port_num, |known| Ok(known.port.subnet_prefix));
        let _: c_int = answer(found, sn_pfx);
    }
}

rdma::exported!(
    ib_get_cached_pkey,
    ib_find_cached_pkey,
    ib_get_cached_lmc,
    ib_get_cached_port_state,
);

exported_private!(ib_get_cached_subnet_prefix);
