// SPDX-License-Identifier: GPL-2.0

//! A kernel without the hooks: everybody may do everything, and nothing is kept.

use crate::device::Device;
use crate::proto::mad::wire::Special;
use crate::proto::qp::Attrs;
use core::ptr::NonNull;
use kernel::prelude::*;
use rdma::bindings;

/// Nothing.
pub(crate) struct Qps(());

impl Qps {
    #[inline]
    pub(crate) fn new() -> impl PinInit<Self> {
        Self(())
    }
}

/// Nothing.
pub(crate) struct Prepared(());

#[inline]
pub(crate) fn prepare(_device: &Device, _qp: NonNull<bindings::ib_qp>) -> Result<Prepared> {
    Ok(Prepared(()))
}

impl Prepared {
    #[inline]
    pub(crate) fn publish(self) {}
}

/// # Safety
///
/// None.
#[inline]
pub(crate) unsafe fn modify(
    _qp: *mut bindings::ib_qp,
    _attr: *const bindings::ib_qp_attr,
    _mask: Attrs,
    ask: impl FnOnce() -> Result,
) -> Result {
    ask()
}

/// # Safety
///
/// None.
#[inline]
pub(crate) unsafe fn destroy(_qp: *mut bindings::ib_qp, ask: impl FnOnce() -> Result) -> Result {
    ask()
}

/// # Safety
///
/// None.
#[inline]
pub(crate) unsafe fn open(
    _real: *mut bindings::ib_qp,
    _handle: NonNull<bindings::ib_qp>,
) -> Result {
    Ok(())
}

/// # Safety
///
/// None.
#[inline]
pub(crate) unsafe fn close(_real: *mut bindings::ib_qp, _handle: NonNull<bindings::ib_qp>) {}

#[inline]
pub(crate) fn port_changed(_device: &Device, _port: u32) {}

/// Everything.
pub(crate) struct AgentRights(());

impl AgentRights {
    /// # Safety
    ///
    /// None.
    #[inline]
    pub(crate) unsafe fn new(_device: &Device, _port: u8, _which: Special) -> Result<Self> {
        Ok(Self(()))
    }

    #[inline]
    pub(crate) fn admit(&self) -> Result {
        Ok(())
    }

    #[inline]
    pub(crate) fn withdraw(&self) {}

    #[inline]
    pub(crate) fn check(&self, _pkey_index: u16) -> Result {
        Ok(())
    }
}

/// Nothing.
pub(crate) struct Subsystem(());

impl Subsystem {
    #[inline]
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(()))
    }
}
