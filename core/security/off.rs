// SPDX-License-Identifier: GPL-2.0

//! Stubs for a kernel without LSM hooks: everything is permitted, and no state is kept.

use crate::device::Device;
use crate::object::tables::Qp;
use crate::object::tables::QpAttr;
use crate::object::Doomed;
use crate::proto::mad::wire::Special;
use crate::proto::qp::Attrs;
use kernel::prelude::*;
use rdma::edge::Writer;

/// No state.
pub(crate) struct Qps(());

impl crate::device::PerDevice for Qps {
    fn new() -> impl PinInit<Self, Error> {
        Ok(Self(()))
    }
}

/// No state.
pub(crate) struct Prepared(());

#[inline]
pub(crate) fn prepare(_device: &Device, _qp: &Qp, _fail: fn(&Qp)) -> Result<Prepared> {
    Ok(Prepared(()))
}

impl Prepared {
    #[inline]
    pub(crate) fn publish(self, _qp: &mut impl Writer<Of = Qp>) {}
}

#[inline]
pub(crate) fn modify(
    _qp: &Qp,
    _attr: &QpAttr,
    _mask: Attrs,
    ask: impl FnOnce() -> Result,
) -> Result {
    ask()
}

#[inline]
pub(crate) fn destroy(_qp: &Doomed<'_, Qp>, ask: impl FnOnce() -> Result) -> Result {
    ask()
}

#[inline]
pub(crate) fn open(_real: &Qp, _handle: &Qp) -> Result {
    Ok(())
}

#[inline]
pub(crate) fn close(_real: &Qp, _handle: &Qp) {}

#[inline]
pub(crate) fn port_changed(_device: &Device, _port: u32) {}

/// No restrictions.
pub(crate) struct AgentRights(());

impl AgentRights {
    #[inline]
    pub(crate) fn new(_device: &Device, _port: u8, _which: Special) -> Result<Self> {
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

/// No state.
pub(crate) struct Subsystem(());

impl Subsystem {
    #[inline]
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(()))
    }
}
