// SPDX-License-Identifier: GPL-2.0

//! Answers about counters: those of a port, and those that are bound to queue pairs.

use super::super::nla::Full;
use super::super::nla::Sink;
use super::super::nla::Writer;
use super::attr::PAD;
use super::dev::Handle;
use super::res::put_owner;
use super::res::Owner;
use super::Attr;

/// Nothing is counted apart (`RDMA_COUNTER_MODE_NONE`).
pub const MODE_NONE: u32 = 0;
/// Queue pairs are bound by a rule (`RDMA_COUNTER_MODE_AUTO`).
pub const MODE_AUTO: u32 = 1;
/// Queue pairs are bound one by one (`RDMA_COUNTER_MODE_MANUAL`).
pub const MODE_MANUAL: u32 = 2;
/// The rule looks at the type of a queue pair (`RDMA_COUNTER_MASK_QP_TYPE`).
pub const MASK_QP_TYPE: u32 = 1;
/// The rule looks at its process (`RDMA_COUNTER_MASK_PID`).
pub const MASK_PID: u32 = 2;

/// A port, at the beginning of an answer about it.
#[derive(Clone, Copy, Debug)]
pub struct PortHandle<'a> {
    /// Its device.
    pub device: Handle<'a>,
    /// Its number.
    pub port: u32,
}

impl PortHandle<'_> {
    /// Writes it.
    pub fn put(&self, w: &mut Writer<impl Sink>) -> Result<(), Full> {
        self.device.put(w)?;
        w.put_u32(Attr::PortIndex.raw(), self.port)
    }
}

/// Writes the value of a counter.
pub fn put_value(w: &mut Writer<impl Sink>, name: &[u8], value: u64) -> Result<(), Full> {
    w.nest(Attr::StatHwcounterEntry.raw(), |w| {
        w.put_str(Attr::StatHwcounterEntryName.raw(), name)?;
        w.put_u64(Attr::StatHwcounterEntryValue.raw(), value, PAD)
    })
}

/// Writes values with the names of counters, in a list.
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

/// What may be switched of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// It always counts.
    Fixed,
    /// It counts if somebody wants it to; whether it does.
    Optional(bool),
}

/// Writes which counters there are and which of them count, in a list:
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
    /// What the rule looks at.
    pub mask: u32,
    /// Whether optional counters are bound, too.
    pub optional: bool,
}

impl PortMode {
    /// Writes it.
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
    /// Its port.
    pub port: u32,
    /// Its number.
    pub id: u32,
    /// `enum rdma_nl_counter_mode`.
    pub mode: u32,
    /// The type that all its queue pairs have, if the rule looks at that.
    pub qp_type: Option<u8>,
    /// Their process, if the rule looks at that.
    pub owner: Option<Owner<'a>>,
    /// The queue pairs, by number.
    pub qpns: Q,
}

impl<Q: Iterator<Item = u32> + Clone> Counter<'_, Q> {
    /// Writes it, without values.
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
