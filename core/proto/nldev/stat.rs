// SPDX-License-Identifier: GPL-2.0

//! Responses about counters: those of a port, and those bound to queue pairs.

use super::super::nla::Full;
use super::super::nla::Sink;
use super::super::nla::Writer;
use super::attr::PAD;
use super::dev::Handle;
use super::res::put_owner;
use super::res::Owner;
use super::Attr;

/// No queue pair is bound to a counter (`RDMA_COUNTER_MODE_NONE`).
pub const MODE_NONE: u32 = 0;
/// Queue pairs are bound by criteria (`RDMA_COUNTER_MODE_AUTO`).
pub const MODE_AUTO: u32 = 1;
/// Queue pairs are bound individually (`RDMA_COUNTER_MODE_MANUAL`).
pub const MODE_MANUAL: u32 = 2;
/// Criterion: type of the queue pair (`RDMA_COUNTER_MASK_QP_TYPE`).
pub const MASK_QP_TYPE: u32 = 1;
/// Criterion: process of the queue pair (`RDMA_COUNTER_MASK_PID`).
pub const MASK_PID: u32 = 2;

/// Identifies a port, at the start of a response about it.
#[derive(Clone, Copy, Debug)]
pub struct PortHandle<'a> {
    /// Device of the port.
    pub device: Handle<'a>,
    /// Port number.
    pub port: u32,
}

impl PortHandle<'_> {
    /// Writes the attributes.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        self.device.put(w)?;
        w.put_u32(Attr::PortIndex.raw(), self.port)
    }
}

/// Writes name and value of a counter.
pub fn put_value(w: &mut Writer<impl Sink>, name: &[u8], value: u64) -> Result<(), Full> {
    w.nest(Attr::StatHwcounterEntry.raw(), |w| {
        w.put_str(Attr::StatHwcounterEntryName.raw(), name)?;
        w.put_u64(Attr::StatHwcounterEntryValue.raw(), value, PAD)
    })
}

/// Writes a list of counters with their values.
pub fn put_values<'a>(
    w: &mut Writer<impl Sink>,
    values: impl Iterator<Item = (&'a [u8], u64)>,
) -> Result<(), Full> {
    w.nest(Attr::StatHwcounters.raw(), |w| {
        for (name, value) in values {
            put_value(w, name, value)?;
        }
        Ok(())
    })
}

/// Whether a counter can be enabled and disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// It always counts.
    Fixed,
    /// It can; whether it is enabled now.
    Optional(bool),
}

/// Writes a list of the counters and which of the optional ones are enabled:
/// `RDMA_NLDEV_CMD_STAT_GET_STATUS`.
pub fn put_status<'a>(
    w: &mut Writer<impl Sink>,
    counters: impl Iterator<Item = (&'a [u8], Switch)>,
) -> Result<(), Full> {
    w.nest(Attr::StatHwcounters.raw(), |w| {
        let mut index = 0_u32;
        for (name, switch) in counters {
            w.nest(Attr::StatHwcounterEntry.raw(), |w| {
                w.put_str(Attr::StatHwcounterEntryName.raw(), name)?;
                w.put_u32(Attr::StatHwcounterIndex.raw(), index)?;
                match switch {
                    Switch::Fixed => Ok(()),
                    Switch::Optional(on) => {
                        w.put_u8(Attr::StatHwcounterDynamic.raw(), u8::from(on))
                    }
                }
            })?;
            index = index.checked_add(1).ok_or(Full)?;
        }
        Ok(())
    })
}

/// How queue pairs of a port are bound to counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMode {
    /// `enum rdma_nl_counter_mode`.
    pub mode: u32,
    /// Criteria of [`MODE_AUTO`] (`MASK_*`).
    pub mask: u32,
    /// Whether optional counters are bound, too.
    pub optional: bool,
}

impl PortMode {
    /// Writes the attributes; mask and `optional` in [`MODE_AUTO`] only.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.put_u32(Attr::StatMode.raw(), self.mode)?;
        if self.mode != MODE_AUTO {
            return Ok(());
        }
        w.put_u32(Attr::StatAutoModeMask.raw(), self.mask)?;
        w.put_u8(Attr::StatOpcounterEnabled.raw(), u8::from(self.optional))
    }
}

/// A counter that is bound to queue pairs.
#[derive(Clone, Debug)]
pub struct Counter<'a, Q> {
    /// Port number.
    pub port: u32,
    /// Counter number.
    pub id: u32,
    /// `enum rdma_nl_counter_mode`.
    pub mode: u32,
    /// Type of all its queue pairs, if that is a criterion.
    pub qp_type: Option<u8>,
    /// Process of all its queue pairs, if that is a criterion.
    pub owner: Option<Owner<'a>>,
    /// Numbers of the bound queue pairs.
    pub qpns: Q,
}

impl<Q: Iterator<Item = u32> + Clone> Counter<'_, Q> {
    /// Writes the attributes of the counter, without values.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        w.put_u32(Attr::PortIndex.raw(), self.port)?;
        w.put_u32(Attr::StatCounterId.raw(), self.id)?;
        w.put_u32(Attr::StatMode.raw(), self.mode)?;
        if self.mode == MODE_AUTO {
            if let Some(qp_type) = self.qp_type {
                w.put_u8(Attr::ResType.raw(), qp_type)?;
            }
            if let Some(owner) = &self.owner {
                put_owner(w, owner)?;
            }
        }
        w.nest(Attr::ResQp.raw(), |w| {
            for qpn in self.qpns.clone() {
                w.nest(Attr::ResQpEntry.raw(), |w| {
                    w.put_u32(Attr::ResLqpn.raw(), qpn)
                })?;
            }
            Ok(())
        })
    }
}
