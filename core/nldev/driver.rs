// SPDX-License-Identifier: GPL-2.0

//! Attributes that drivers add to a response. The driver chooses names and formats.

use kernel::prelude::*;
use rdma::bindings;

use super::request::Answer;
use crate::netlink::Lent;
use crate::proto::nla::Full;
use crate::proto::nldev::attr::PAD;
use crate::proto::nldev::stat;
use crate::proto::nldev::Attr;

/// Requests hexadecimal output of a number (`RDMA_NLDEV_PRINT_TYPE_HEX`).
// CAST: There are only a few types.
const HEX: u8 = bindings::rdma_nldev_print_type_RDMA_NLDEV_PRINT_TYPE_HEX as u8;

/// Output format of a number.
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

/// Appends attributes to a driver's message. On failure some may have been written; the core then
/// removes the enclosing entry.
fn put(msg: Lent<'_>, fill: impl FnOnce(&mut Answer<'_>) -> Result<(), Full>) -> Result {
    let mut w = msg.0.ok_or(EINVAL)?.writer();
    Ok(fill(&mut w)?)
}

/// Writes a string of the driver.
fn put_string(msg: Lent<'_>, name: &CStr, text: &CStr) -> Result {
    put(msg, |w| {
        put_name(w, name, Print::Plain)?;
        w.put_str(Attr::DriverString.raw(), text.to_bytes())
    })
}

fn put_u32(msg: Lent<'_>, name: &CStr, print: Print, value: u32) -> Result {
    put(msg, |w| {
        put_name(w, name, print)?;
        w.put_u32(Attr::DriverU32.raw(), value)
    })
}

fn put_u64(msg: Lent<'_>, name: &CStr, print: Print, value: u64) -> Result {
    put(msg, |w| {
        put_name(w, name, print)?;
        w.put_u64(Attr::DriverU64.raw(), value, PAD)
    })
}

/// Writes a 32-bit number of the driver.
fn put_decimal_u32(msg: Lent<'_>, name: &CStr, value: u32) -> Result {
    put_u32(msg, name, Print::Plain, value)
}

/// Writes a 32-bit number of the driver, for hexadecimal output.
fn put_hex_u32(msg: Lent<'_>, name: &CStr, value: u32) -> Result {
    put_u32(msg, name, Print::Hex, value)
}

/// Writes a 64-bit number of the driver.
fn put_decimal_u64(msg: Lent<'_>, name: &CStr, value: u64) -> Result {
    put_u64(msg, name, Print::Plain, value)
}

/// Writes a 64-bit number of the driver, for hexadecimal output.
fn put_hex_u64(msg: Lent<'_>, name: &CStr, value: u64) -> Result {
    put_u64(msg, name, Print::Hex, value)
}

/// Writes a hardware counter of an object.
fn put_hw_counter(msg: Lent<'_>, name: &CStr, value: u64) -> Result {
    put(msg, |w| stat::put_value(w, name.to_bytes(), value))
}

rdma::export! {
    in rdma::bindings;

    /// See [`put_string`].
    fn rdma_nl_put_driver_string(msg: Lent<'_>, name: &CStr, text: &CStr) -> Result = put_string;
    /// See [`put_decimal_u32`].
    fn rdma_nl_put_driver_u32(msg: Lent<'_>, name: &CStr, value: u32) -> Result = put_decimal_u32;
    /// See [`put_hex_u32`].
    fn rdma_nl_put_driver_u32_hex(msg: Lent<'_>, name: &CStr, value: u32) -> Result = put_hex_u32;
    /// See [`put_decimal_u64`].
    fn rdma_nl_put_driver_u64(msg: Lent<'_>, name: &CStr, value: u64) -> Result = put_decimal_u64;
    /// See [`put_hex_u64`].
    fn rdma_nl_put_driver_u64_hex(msg: Lent<'_>, name: &CStr, value: u64) -> Result = put_hex_u64;
    /// See [`put_hw_counter`].
    fn rdma_nl_stat_hwcounter_entry(msg: Lent<'_>, name: &CStr, value: u64) -> Result
        = put_hw_counter;
}
