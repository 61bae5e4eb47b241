// SPDX-License-Identifier: GPL-2.0

//! Pools of memory regions that drivers keep for fast registration.

use kernel::prelude::*;

use super::ask::Ask;
use super::ask::Dump;
use crate::proto::nla::Strictness;
use crate::proto::nldev::Attr;
use crate::proto::nldev::Request;

/// `RDMA_NLDEV_CMD_FRMR_POOLS_GET`: the pools of a device. None has any yet.
pub(super) fn list(dump: &mut Dump<'_>) -> Result {
    let request = dump.ask.request(Strictness::Liberal)?;
    let _device = dump.ask.device(&request)?;
    Ok(())
}

/// `RDMA_NLDEV_CMD_FRMR_POOLS_SET`: how long the pools of a device keep what nobody uses, or
/// how much one keeps in any case.
pub(super) fn set(ask: &Ask<'_>) -> Result {
    let request = ask.request(Strictness::Strict)?;
    let _device = ask.device(&request)?;
    if request.has(Attr::FrmrPoolsAgingPeriod) {
        return Err(EINVAL);
    }
    if request.has(Attr::FrmrPoolPinnedHandles) {
        let key = request.get(Attr::FrmrPoolKey).ok_or(EINVAL)?;
        let _key = Request::parse(key.payload, Strictness::Strict).map_err(|_| EINVAL)?;
        return Err(EINVAL);
    }
    Ok(())
}
