// SPDX-License-Identifier: GPL-2.0

//! Counters: `rdma statistic`.

use kernel::prelude::*;

use super::dev::port;
use super::dev::Who;
use super::request::Answer;
use super::request::Attributes;
use super::request::Dump;
use super::request::Request;
use super::res;
use super::res::Form;
use crate::counter;
use crate::device::Device;
use crate::proto::nla::Full;
use crate::proto::nla::Strictness;
use crate::proto::nldev::stat;
use crate::proto::nldev::stat::PortHandle;
use crate::proto::nldev::stat::Switch;
use crate::proto::nldev::Attr;
use crate::proto::nldev::Command;
use crate::restrack::Kind;
use crate::stats::HwStats;

/// Writes the last read values of the enabled counters. May sleep.
pub(super) fn put_counts(w: &mut Answer<'_>, stats: Option<&HwStats>) -> Result<(), Full> {
    let Some(stats) = stats else {
        return stat::put_values(w, core::iter::empty());
    };
    let values = stats.lock();
    let on = (0..stats.count()).filter(|index| !stats.is_disabled(*index));
    stat::put_values(
        w,
        on.filter_map(|index| Some((stats.name(index)?.to_bytes(), values.get(index)?))),
    )
}

/// Returns the kind of objects whose counters are requested.
fn subject(attrs: &Attributes<'_>) -> Option<Kind> {
    let raw = attrs.u32(Attr::StatRes)?;
    [(Attr::ResQp, Kind::Qp), (Attr::ResMr, Kind::Mr)]
        .into_iter()
        .find(|(attr, _)| u32::from(attr.raw()) == raw)
        .map(|(_, kind)| kind)
}

/// `RDMA_NLDEV_CMD_STAT_GET`: the counters of a port, its binding mode, one bound counter, or the
/// counters of a memory region.
pub(super) fn get(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Liberal)?;
    if !attrs.has(Attr::StatRes) {
        return get_port(request, &attrs);
    }
    match subject(&attrs).ok_or(EINVAL)? {
        Kind::Qp if attrs.has(Attr::StatCounterId) => res::get(request, Kind::Counter, Form::Stat),
        Kind::Qp => get_mode(request, &attrs),
        _ => res::get(request, Kind::Mr, Form::Stat),
    }
}

/// Dump of `RDMA_NLDEV_CMD_STAT_GET`: bound counters, or the counters of memory regions.
pub(super) fn list(dump: &mut Dump<'_>) -> Result {
    let attrs = dump.request.attributes(Strictness::Liberal)?;
    match subject(&attrs).ok_or(EINVAL)? {
        Kind::Qp => res::list(dump, Kind::Counter, Form::Stat),
        _ => res::list(dump, Kind::Mr, Form::Stat),
    }
}

/// Responds with the counters of a port: its own values plus those of bound counters.
fn get_port(request: &Request<'_>, attrs: &Attributes<'_>) -> Result {
    let number = attrs.u32(Attr::PortIndex).ok_or(EINVAL)?;
    let device = request.device(attrs)?;
    let ops = device.ops();
    if ops.alloc_hw_port_stats.is_none() {
        return Err(EINVAL);
    }
    if ops.get_hw_stats.is_none() {
        return Err(EINVAL);
    }
    let stats = device.port_stats(number).ok_or(EINVAL)?;
    let who = Who::of(&device);
    request.answer(Command::StatGet, |w| {
        PortHandle {
            device: who.handle(),
            port: number,
        }
        .put(w)?;
        let mut values = stats.lock();
        let count = values.read_all(&device, number).map_err(|_| EINVAL)?;
        let on = (0..count.min(stats.count())).filter(|index| !stats.is_disabled(*index));
        let counted = on.filter_map(|index| {
            let bound = counter::hwstats(&device, number, index);
            let value = values.get(index)?.wrapping_add(bound);
            Some((stats.name(index)?.to_bytes(), value))
        });
        Ok(stat::put_values(w, counted)?)
    })
}

/// Responds with the mode in which queue pairs of a port are bound to counters.
fn get_mode(request: &Request<'_>, attrs: &Attributes<'_>) -> Result {
    if !attrs.has(Attr::StatMode) {
        return Err(EINVAL);
    }
    let device = request.device(attrs)?;
    let port = port(attrs, &device)?;
    let mode = counter::get_mode(&device, port);
    let who = Who::of(&device);
    request.answer(Command::StatGet, |w| {
        PortHandle {
            device: who.handle(),
            port,
        }
        .put(w)?;
        let mode = stat::PortMode {
            mode: mode.mode.to_raw(),
            mask: mode.mask,
            optional: mode.bind_opcnt,
        };
        Ok(mode.put(w)?)
    })
}

/// `RDMA_NLDEV_CMD_STAT_GET_STATUS`: the counters of a port, and which of them are enabled.
pub(super) fn get_status(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Liberal)?;
    let device = request.device(&attrs)?;
    let port = port(&attrs, &device)?;
    let stats = device.port_stats(port).ok_or(EINVAL)?;
    let who = Who::of(&device);
    request.answer(Command::StatGetStatus, |w| {
        PortHandle {
            device: who.handle(),
            port,
        }
        .put(w)?;
        let _values = stats.lock();
        let counters = (0..stats.count()).filter_map(|index| {
            let switch = if stats.is_optional(index) {
                Switch::Optional(!stats.is_disabled(index))
            } else {
                Switch::Fixed
            };
            Some((stats.name(index)?.to_bytes(), switch))
        });
        Ok(stat::put_status(w, counters)?)
    })
}

/// `RDMA_NLDEV_CMD_STAT_SET`: sets the binding mode or binds a queue pair to a counter, and enables
/// optional counters.
pub(super) fn set(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    let device = request.device(&attrs)?;
    let port = port(&attrs, &device)?;
    let mode = attrs.u32(Attr::StatMode);
    if mode.is_none() && !attrs.has(Attr::StatHwcounters) {
        return Err(EINVAL);
    }
    let who = Who::of(&device);
    request.answer(Command::StatSet, |w| {
        PortHandle {
            device: who.handle(),
            port,
        }
        .put(w)?;
        if let Some(mode) = mode {
            set_mode(request, w, &attrs, &device, port, mode)?;
        }
        if attrs.has(Attr::StatHwcounters) {
            set_optional(&attrs, &device, port)?;
        }
        Ok(())
    })
}

fn set_mode(
    request: &Request<'_>,
    w: &mut Answer<'_>,
    attrs: &Attributes<'_>,
    device: &Device,
    port: u32,
    mode: u32,
) -> Result {
    if subject(attrs) != Some(Kind::Qp) {
        return Err(EINVAL);
    }
    if mode == stat::MODE_AUTO {
        let mask = attrs.u32(Attr::StatAutoModeMask).unwrap_or(0);
        let optional = attrs
            .u8(Attr::StatOpcounterEnabled)
            .is_some_and(|on| on != 0);
        let set = counter::set_auto_mode(device, port, mask, optional);
        if set == Err(EBUSY) {
            request.explain(c"Modifying auto mode is not allowed when there is a bound QP");
        }
        return set;
    }
    let qpn = attrs.u32(Attr::ResLqpn).ok_or(EINVAL)?;
    let counter = match attrs.u32(Attr::StatCounterId) {
        Some(counter) => {
            counter::bind_qpn(device, port, qpn, counter)?;
            counter
        }
        None => counter::bind_qpn_alloc(device, port, qpn)?,
    };
    let mut put = || -> Result<(), Full> {
        w.put_u32(Attr::StatCounterId.raw(), counter)?;
        w.put_u32(Attr::ResLqpn.raw(), qpn)
    };
    if let Err(full) = put() {
        // Undo the binding, since the sender does not get the counter ID.
        let _: Result = counter::unbind_qpn(device, port, qpn, counter);
        return Err(full.into());
    }
    Ok(())
}

/// Enables the optional counters in the request, and disables the other optional counters.
fn set_optional(attrs: &Attributes<'_>, device: &Device, port: u32) -> Result {
    let stats = device.port_stats(port).ok_or(EINVAL)?;
    let named = attrs.get(Attr::StatHwcounters).ok_or(EINVAL)?;
    let mut wanted = KVec::from_elem(false, stats.count(), GFP_KERNEL)?;
    for attr in named.attrs() {
        if attr.payload.len() != size_of::<u32>() {
            return Err(EINVAL);
        }
        let index = attr
            .u32()
            .and_then(|index| usize::try_from(index).ok())
            .filter(|index| stats.is_optional(*index))
            .ok_or(EINVAL)?;
        *wanted.get_mut(index).ok_or(EINVAL)? = true;
    }
    for (index, on) in wanted.iter().enumerate() {
        if stats.is_optional(index) {
            counter::modify(device, port, index, *on)?;
        }
    }
    Ok(())
}

/// `RDMA_NLDEV_CMD_STAT_DEL`: unbinds a queue pair from its counter. For compatibility the response
/// carries `RDMA_NLDEV_CMD_STAT_SET`.
pub(super) fn delete(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Strict)?;
    let counter = attrs.u32(Attr::StatCounterId).ok_or(EINVAL)?;
    let qpn = attrs.u32(Attr::ResLqpn).ok_or(EINVAL)?;
    if subject(&attrs) != Some(Kind::Qp) {
        return Err(EINVAL);
    }
    let device = request.device(&attrs)?;
    let port = port(&attrs, &device)?;
    let who = Who::of(&device);
    request.answer(Command::StatSet, |w| {
        PortHandle {
            device: who.handle(),
            port,
        }
        .put(w)?;
        w.put_u32(Attr::StatCounterId.raw(), counter)?;
        w.put_u32(Attr::ResLqpn.raw(), qpn)?;
        counter::unbind_qpn(&device, port, qpn, counter)
    })
}
