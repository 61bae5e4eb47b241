// SPDX-License-Identifier: GPL-2.0

//! Objects of a device: `rdma resource`, and `rdma statistic` for objects with counters.
//!
//! This file has the common part: finding one object or all of them, and access checks. `object`
//! writes the attributes of each kind.

use kernel::prelude::*;
use rdma::features::comp_cntr::max_counters;
use rdma::features::limit;
use rdma::features::COMP_CNTR;

use super::dev::Who;
use super::object;
use super::object::Subject;
use super::request::Answer;
use super::request::Attributes;
use super::request::Dump;
use super::request::Request;
use crate::device::Device;
use crate::proto::nla::Entry;
use crate::proto::nla::Full;
use crate::proto::nla::Strictness;
use crate::proto::nldev::res;
use crate::proto::nldev::Attr;
use crate::proto::nldev::Command;
use crate::restrack::kinds;
use crate::restrack::Held;
use crate::restrack::Kind;

/// Selects the attributes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Attributes of the core, and those that the driver adds.
    Plain,
    /// Raw state that only the driver can read.
    Raw,
    /// Counters.
    Stat,
}

/// Returns whether objects of a kind belong to the device, not to one of its ports.
const fn is_per_device(kind: Kind) -> bool {
    !matches!(kind, Kind::Qp | Kind::CmId | Kind::Counter)
}

/// Converts the error for a request for a single object.
fn errno(why: Entry<Error>) -> Error {
    match why {
        Entry::Full(Full) => EMSGSIZE,
        Entry::Skip => EAGAIN,
        Entry::Failed(error) => error,
    }
}

/// Returns the port number of the request; 0 if there is none.
///
/// # Errors
///
/// `EINVAL` if the device has no such port.
fn port(attrs: &Attributes<'_>, device: &Device) -> Result<u32> {
    match attrs.u32(Attr::PortIndex) {
        None => Ok(0),
        Some(port) if device.has_port(port) => Ok(port),
        Some(_) => Err(EINVAL),
    }
}

fn put(
    w: &mut Answer<'_>,
    kind: Kind,
    form: Form,
    subject: &Subject<'_>,
) -> Result<(), Entry<Error>> {
    match (form, kind) {
        (Form::Plain, Kind::Qp) => object::put_qp(w, subject),
        (Form::Plain, Kind::CmId) => object::put_cm_id(w, subject),
        (Form::Plain, Kind::Cq) => object::put_cq(w, subject),
        (Form::Plain, Kind::Mr) => object::put_mr(w, subject),
        (Form::Plain, Kind::Pd) => object::put_pd(w, subject),
        (Form::Plain, Kind::Ctx) => object::put_ctx(w, subject),
        (Form::Plain, Kind::Srq) => object::put_srq(w, subject),
        (Form::Stat, Kind::Counter) => object::put_counter(w, subject),
        (Form::Stat, Kind::Mr) => object::put_mr_stat(w, subject),
        (Form::Raw, _) => object::put_raw(w, kind, subject),
        (Form::Plain, Kind::Counter | Kind::Dmah | Kind::CompCntr)
        | (
            Form::Stat,
            Kind::Pd
            | Kind::Cq
            | Kind::Qp
            | Kind::CmId
            | Kind::Ctx
            | Kind::Srq
            | Kind::Dmah
            | Kind::CompCntr,
        ) => Err(Entry::Failed(EINVAL)),
    }
}

/// Responds with one object, by its ID.
pub(super) fn get(request: &Request<'_>, kind: Kind, form: Form) -> Result {
    let command = request.command().ok_or(EINVAL)?;
    let attrs = request.attributes(Strictness::Liberal)?;
    let listed = res::table(kind).ok_or(EINVAL)?;
    let id = attrs.u32(listed.id).ok_or(EINVAL)?;
    let device = request.device(&attrs)?;
    let port = port(&attrs, &device)?;
    if is_per_device(kind) != (port == 0) {
        return Err(EINVAL);
    }
    let held = device
        .slot::<crate::restrack::Tables>()
        .of(kind)
        .get(id)
        .ok_or(ENOENT)?;
    let who = Who::of(&device);
    let admin = request.is_admin();
    request.answer(command, |w| {
        who.handle().put(w)?;
        let subject = Subject {
            device: &device,
            held: &held,
            admin,
            port,
        };
        put(w, kind, form, &subject).map_err(errno)
    })
}

/// Dumps all objects of a kind, or those of a port.
pub(super) fn list(dump: &mut Dump<'_>, kind: Kind, form: Form) -> Result {
    let command = dump.request.command().ok_or(EINVAL)?;
    let attrs = dump.request.attributes(Strictness::Liberal)?;
    let device = dump.request.device(&attrs)?;
    let port = port(&attrs, &device)?;
    let details = attrs.u8(Attr::DriverDetails).is_some_and(|on| on != 0);
    let listed = res::table(kind).ok_or(EINVAL)?;
    let table = device.slot::<crate::restrack::Tables>().of(kind);
    let object = |from: Option<u32>| table.next_from(from?, details);
    // Write no message at the end: one without objects would not end the dump.
    if object(dump.next()).is_none() {
        return Ok(());
    }
    let who = Who::of(&device);
    let admin = dump.request.is_admin();
    dump.message(command, |_, w, cursor| {
        who.handle().put(w)?;
        let mut from = cursor.next();
        let objects = core::iter::from_fn(|| {
            let (id, held) = object(from)?;
            from = id.checked_add(1);
            Some((id, held))
        });
        let fill = |w: &mut Answer<'_>, (id, held): (u32, Held)| {
            let subject = Subject {
                device: &device,
                held: &held,
                admin,
                port,
            };
            cursor.at(id);
            let done = put(w, kind, form, &subject);
            if !matches!(done, Err(Entry::Full(_))) {
                cursor.after(id);
            }
            done
        };
        let (table, entry) = (listed.table.raw(), listed.entry.raw());
        let written = w.list(table, entry, objects, fill);
        cursor.settle(w, table, written)
    })
}

/// Returns how many objects of a kind a device can have; 0 if that is not known.
fn most(device: &Device, kind: Kind) -> u32 {
    match kind {
        Kind::Pd => limit(device.attrs().max_pd()),
        Kind::Cq => limit(device.attrs().max_cq()),
        Kind::Qp => limit(device.attrs().max_qp()),
        Kind::Mr => limit(device.attrs().max_mr()),
        Kind::Srq => limit(device.attrs().max_srq()),
        Kind::CompCntr => max_counters(device),
        Kind::CmId | Kind::Ctx | Kind::Counter | Kind::Dmah => 0,
    }
}

fn put_summary(w: &mut Answer<'_>, device: &Device, details: bool) -> Result {
    let who = Who::of(device);
    let tables = device.slot::<crate::restrack::Tables>();
    let number = |kind| res::Number {
        now: tables.of(kind).count(details),
        max: if COMP_CNTR { most(device, kind) } else { 0 },
    };
    Ok(res::put_summary(w, &who.handle(), kinds(), number)?)
}

/// `RDMA_NLDEV_CMD_RES_GET`: the number of objects of a device, by kind.
pub(super) fn summary(request: &Request<'_>) -> Result {
    let attrs = request.attributes(Strictness::Liberal)?;
    let device = request.device(&attrs)?;
    let details = attrs.u8(Attr::DriverDetails).is_some_and(|on| on != 0);
    request.answer(Command::ResGet, |w| put_summary(w, &device, details))
}

/// Dump of `RDMA_NLDEV_CMD_RES_GET`: all devices.
pub(super) fn summaries(dump: &mut Dump<'_>) -> Result {
    dump.each(Command::ResGet, super::lookup::next_seen, |_, w, device| {
        put_summary(w, device, false)
    });
    Ok(())
}
