// SPDX-License-Identifier: GPL-2.0

//! Exported functions of the port cache. None of them sleeps; any context.

use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings::ib_port_state;
use rdma::edge::OutParam;

use super::Copies;
use super::Known;
use crate::device::Device;
use crate::proto::pkey;
use crate::proto::pkey::Limited;
use crate::proto::pkey::Pkey;

/// Reads the cached data of a port.
///
/// # Errors
///
/// `EINVAL` if there is no such port.
fn look<R>(device: &Device, port: u32, look: impl FnOnce(&Known) -> Result<R>) -> Result<R> {
    let port = device.slot::<Copies>().port(port).ok_or(EINVAL)?;
    look(&port.lock())
}

fn errno(refused: pkey::Refusal) -> Error {
    crate::device::errno(refused.errno())
}

fn get_pkey(device: &Device, port: u32, index: c_int, mut pkey: OutParam<'_, u16>) -> Result {
    pkey.set(look(device, port, |known| {
        let table = known.pkeys.as_ref().ok_or(EINVAL)?;
        let Pkey(raw) = pkey::get(table, index).map_err(errno)?;
        Ok(raw)
    })?);
    Ok(())
}

fn find_pkey(device: &Device, port: u32, pkey: u16, mut index: OutParam<'_, u16>) -> Result {
    let found = look(device, port, |known| {
        let table = known.pkeys.as_ref().ok_or(EINVAL)?;
        pkey::find(table, Pkey(pkey), Limited::Last).map_err(errno)
    });
    if found == Err(ENOENT) {
        // Some callers ignore the error: give them an invalid index.
        index.set(u16::MAX);
    }
    index.set(found?);
    Ok(())
}

fn get_lmc(device: &Device, port: u32, mut lmc: OutParam<'_, u8>) -> Result {
    lmc.set(look(device, port, |known| Ok(known.port.lmc))?);
    Ok(())
}

fn get_state(device: &Device, port: u32, mut state: OutParam<'_, ib_port_state>) -> Result {
    state.set(look(device, port, |known| {
        Ok(ib_port_state::from(known.port.state.0))
    })?);
    Ok(())
}

fn get_prefix(device: &Device, port: u32, mut prefix: OutParam<'_, u64>) {
    if let Ok(found) = look(device, port, |known| Ok(known.port.subnet_prefix)) {
        prefix.set(found);
    }
}

rdma::export! { in rdma::bindings;
    /// Reads the P_Key at an index. `EINVAL` if there is no such port or index.
    fn ib_get_cached_pkey(device: &Device, port_num: u32, index: c_int, pkey: OutParam<'_, u16>)
        -> Result = get_pkey;
    /// Finds the index of a P_Key, preferring full over limited membership. `EINVAL` if there is no
    /// such port; `ENOENT` if it is not in the table.
    fn ib_find_cached_pkey(
        device: &Device, port_num: u32, pkey: u16, index: OutParam<'_, u16>,
    ) -> Result = find_pkey;
    /// Reads the LMC, the number of low LID bits that select a path. `EINVAL` if there is no such
    /// port.
    fn ib_get_cached_lmc(device: &Device, port_num: u32, lmc: OutParam<'_, u8>) -> Result
        = get_lmc;
    /// Reads the port state. `EINVAL` if there is no such port.
    fn ib_get_cached_port_state(
        device: &Device, port_num: u32, port_state: OutParam<'_, ib_port_state>,
    ) -> Result = get_state;
}

rdma::export! { in crate::private;
    /// Reads the subnet prefix, the upper half of the port's GIDs. Writes nothing if there is no
    /// such port.
    fn ib_get_cached_subnet_prefix(device: &Device, port_num: u32, sn_pfx: OutParam<'_, u64>)
        = get_prefix;
}
