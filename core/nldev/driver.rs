// SPDX-License-Identifier: GPL-2.0

//! Attributes that drivers add to an answer. Names and formats are the driver's.

use kernel::prelude::*;
use rdma::bindings;

use super::request::Answer;
use crate::netlink::Lent;
use crate::proto::nla::Full;
use crate::proto::nldev::attr::PAD;
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

/// Writes to a driver's message. What does not fit may have been written in part: then the core
/// takes back all that is around it.
fn put(msg: Lent<'_>, fill: impl FnOnce(&mut Answer<'_>) -> Result<(), Full>) -> Result {
    let mut w = msg.0.ok_or(EINVAL)?.writer();
    Ok(fill(&mut w)?)
}

/// A text of the driver's.
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

/// A number of the driver's.
fn put_decimal_u32(msg: Lent<'_>, name: &CStr, value: u32) -> Result {
    put_u32(msg, name, Print::Plain, value)
}

/// A number of the driver's, to be shown as a hexadecimal one.
fn put_hex_u32(msg: Lent<'_>, name: &CStr, value: u32) -> Result {
    put_u32(msg, name, Print::Hex, value)
}

/// A long number of the driver's.
fn put_decimal_u64(msg: Lent<'_>, name: &CStr, value: u64) -> Result {
    put_u64(msg, name, Print::Plain, value)
}

/// A long number of the driver's, to be shown as a hexadecimal one.
fn put_hex_u64(msg: Lent<'_>, name: &CStr, value: u64) -> Result {
    put_u64(msg, name, Print::Hex, value)
}

/// What an object has counted.
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
