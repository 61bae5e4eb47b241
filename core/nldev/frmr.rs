// SPDX-License-Identifier: GPL-2.0

//! Commands for pools of fast registration memory regions (FRMR).

use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::dev::Who;
use super::request::Answer;
use super::request::Attributes;
use super::request::Dump;
use super::request::Request;
use crate::frmr::Key;
use crate::frmr::Pool;
use crate::frmr::Pools;
use crate::proto::nla::Entry;
use crate::proto::nla::Strictness;
use crate::proto::nldev::frmr;
use crate::proto::nldev::Attr;
use crate::proto::nldev::Command;

fn put(w: &mut Answer<'_>, pool: &Pool) -> Result<(), Entry<Error>> {
    let (key, counts) = (pool.key(), pool.counts());
    // CAST: Flags of 32 bits, and a size of at most 64 bits.
    let pool = frmr::Pool {
        ats: key.ats,
        access_flags: key.access as u32,
        vendor_key: key.vendor,
        kernel_vendor_key: key.kernel_vendor,
        blocks: key.blocks as u64,
        free: u32::try_from(counts.free).unwrap_or(u32::MAX),
        max_in_use: counts.max_in_use.into(),
        in_use: counts.in_use.into(),
        pinned: counts.pinned,
    };
    Ok(pool.put(w)?)
}

/// Returns the first pool at or after index `from` that the sender is shown, with its index. Pools
/// of the kernel are shown only with `details`.
fn next_from(pools: &Pools, from: u32, details: bool) -> Option<(u32, Arc<Pool>)> {
    let mut at = from;
    loop {
        let pool = pools.at(usize::try_from(at).ok()?)?;
        if details || pool.key().kernel_vendor == 0 {
            return Some((at, pool));
        }
        at = at.checked_add(1)?;
    }
}

/// `RDMA_NLDEV_CMD_FRMR_POOLS_GET`: dumps the pools of a device. The dump is empty if the driver
/// has no pools.
pub(super) fn list(dump: &mut Dump<'_>) -> Result {
    let attrs = dump.request.attributes(Strictness::Liberal)?;
    let device = dump.request.device(&attrs)?;
    let details = attrs.u8(Attr::DriverDetails).is_some_and(|on| on != 0);
    let who = Who::of(&device);
    let Some(first) = dump.next() else {
        return Ok(());
    };
    let mut write = |pools: &Pools| {
        // Write no message at the end: one without pools would not end the dump.
        if next_from(pools, first, details).is_none() {
            return Ok(());
        }
        dump.message(Command::FrmrPoolsGet, |_, w, cursor| {
            who.handle().put(w)?;
            let mut from = Some(first);
            let all = core::iter::from_fn(|| {
                let (at, pool) = next_from(pools, from?, details)?;
                from = at.checked_add(1);
                Some((at, pool))
            });
            let fill = |w: &mut Answer<'_>, (at, pool): (u32, Arc<Pool>)| {
                cursor.at(at);
                put(w, &pool)?;
                cursor.after(at);
                Ok(())
            };
            let (table, entry) = (Attr::FrmrPools.raw(), Attr::FrmrPoolEntry.raw());
            let listed = w.list(table, entry, all, fill);
            cursor.settle(w, table, listed)
        })
    };
    device
        .slot::<crate::frmr::Slot>()
        .with(&mut write)
        .unwrap_or(Ok(()))
}

/// Parses the key of a pool. Keys of kernel pools are rejected.
fn key<'a>(request: &Request<'a>, attrs: &Attributes<'a>) -> Result<Key> {
    let named = attrs.get(Attr::FrmrPoolKey).ok_or(EINVAL)?;
    let named = request.parse(named.payload, Strictness::Strict)?;
    if named.has(Attr::FrmrPoolKeyKernelVendorKey) {
        return Err(EINVAL);
    }
    let blocks = named.u64(Attr::FrmrPoolKeyNumDmaBlocks).unwrap_or(0);
    Ok(Key {
        ats: named.u8(Attr::FrmrPoolKeyAts).is_some_and(|ats| ats != 0),
        // CAST: Flags of 32 bits.
        access: named.u32(Attr::FrmrPoolKeyAccessFlags).unwrap_or(0) as c_int,
        vendor: named.u64(Attr::FrmrPoolKeyVendorKey).unwrap_or(0),
        kernel_vendor: 0,
        blocks: usize::try_from(blocks).map_err(|_| EINVAL)?,
    })
}

/// `RDMA_NLDEV_CMD_FRMR_POOLS_SET`: sets the aging period of unused handles for all pools of a
/// device, or the number of pinned handles of one pool. May sleep for a long time.
pub(super) fn set(request: &Request<'_>) -> Result {
    let attrs = request.parse(request.body(), Strictness::Strict)?;
    let device = request.device(&attrs)?;
    let slot = device.slot::<crate::frmr::Slot>();
    if let Some(seconds) = attrs.u32(Attr::FrmrPoolsAgingPeriod) {
        let set = slot.with(|pools| pools.set_period(seconds));
        return set.unwrap_or(Err(EINVAL));
    }
    if let Some(pinned) = attrs.u32(Attr::FrmrPoolPinnedHandles) {
        let key = key(request, &attrs)?;
        let set = slot.with(|pools| pools.set_pinned(key, pinned));
        return set.unwrap_or(Err(EINVAL));
    }
    Ok(())
}
