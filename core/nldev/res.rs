// SPDX-License-Identifier: GPL-2.0

//! Objects of a device: `rdma resource`, and `rdma statistic` of those that have one.
//!
//! What is the same for every kind: finding objects, one or all of them, and who may see
//! what. What is written of each kind is in `object`.

use kernel::prelude::*;

use super::ask::Answer;
use super::ask::Ask;
use super::ask::Dump;
use super::dev::Who;
use super::object;
use super::object::View;
use crate::device::Device;
use crate::proto::nla::Entry;
use crate::proto::nla::Full;
use crate::proto::nla::Strictness;
use crate::proto::nldev::res;
use crate::proto::nldev::Attr;
use crate::proto::nldev::Command;
use crate::proto::nldev::Request;
use crate::restrack::Held;
use crate::restrack::Kind;

/// What is said of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// What the core knows, and the driver adds.
    Plain,
    /// What only the driver can read.
    Raw,
    /// What it has counted.
    Stat,
}

/// Whether objects of a kind are the device's, and not a port's of it.
const fn is_per_device(kind: Kind) -> bool {
    !matches!(kind, Kind::Qp | Kind::CmId | Kind::Counter)
}

/// Why an object is not written, for those who asked for it alone.
fn errno(why: Entry<Error>) -> Error {
    match why {
        Entry::Full(Full) => EMSGSIZE,
        Entry::Skip => EAGAIN,
        Entry::Failed(error) => error,
    }
}

/// The port that is asked for, or 0.
///
/// # Errors
///
/// `EINVAL` if the device has none of that number.
fn port(request: &Request<'_>, device: &Device) -> Result<u32> {
    match request.u32(Attr::PortIndex) {
        None => Ok(0),
        Some(port) if device.has_port(port) => Ok(port),
        Some(_) => Err(EINVAL),
    }
}

fn put(w: &mut Answer<'_>, kind: Kind, form: Form, view: &View<'_>) -> Result<(), Entry<Error>> {
    match (form, kind) {
        (Form::Plain, Kind::Qp) => object::put_qp(w, view),
        (Form::Plain, Kind::CmId) => object::put_cm_id(w, view),
        (Form::Plain, Kind::Cq) => object::put_cq(w, view),
        (Form::Plain, Kind::Mr) => object::put_mr(w, view),
        (Form::Plain, Kind::Pd) => object::put_pd(w, view),
        (Form::Plain, Kind::Ctx) => object::put_ctx(w, view),
        (Form::Plain, Kind::Srq) => object::put_srq(w, view),
        (Form::Stat, Kind::Counter) => object::put_counter(w, view),
        (Form::Stat, Kind::Mr) => object::put_mr_stat(w, view),
        (Form::Raw, _) => object::put_raw(w, kind, view),
        _ => Err(Entry::Failed(EINVAL)),
    }
}

/// One object, by its id.
pub(super) fn get(ask: &Ask<'_>, kind: Kind, form: Form) -> Result {
    let command = ask.command().ok_or(EINVAL)?;
    let request = ask.request(Strictness::Liberal)?;
    let listed = res::table(kind).ok_or(EINVAL)?;
    let id = request.u32(listed.id).ok_or(EINVAL)?;
    let device = ask.device(&request)?;
    let port = port(&request, &device)?;
    if is_per_device(kind) != (port == 0) {
        return Err(EINVAL);
    }
    let held = device
        .slot::<crate::restrack::Tables>()
        .of(kind)
        .get(id)
        .ok_or(ENOENT)?;
    let who = Who::of(&device);
    let admin = ask.is_admin();
    ask.answer(command, |w| {
        who.handle().put(w)?;
        let view = View {
            device: &device,
            held: &held,
            admin,
            port,
        };
        put(w, kind, form, &view).map_err(errno)
    })
}

/// All objects of a kind, or those of a port.
pub(super) fn list(dump: &mut Dump<'_>, kind: Kind, form: Form) -> Result {
    let command = dump.ask.command().ok_or(EINVAL)?;
    let request = dump.ask.request(Strictness::Liberal)?;
    let device = dump.ask.device(&request)?;
    let port = port(&request, &device)?;
    let details = request.u8(Attr::DriverDetails).is_some_and(|on| on != 0);
    let listed = res::table(kind).ok_or(EINVAL)?;
    let table = device.slot::<crate::restrack::Tables>().of(kind);
    let object = |from: Option<u32>| table.next_from(from?, details);
    // A message without objects would not be the end.
    if object(dump.next()).is_none() {
        return Ok(());
    }
    let who = Who::of(&device);
    let admin = dump.ask.is_admin();
    dump.message(command, |_, w, place| {
        who.handle().put(w)?;
        let mut from = place.next();
        let objects = core::iter::from_fn(|| {
            let (id, held) = object(from)?;
            from = id.checked_add(1);
            Some((id, held))
        });
        let fill = |w: &mut Answer<'_>, (id, held): (u32, Held<'_>)| {
            let view = View {
                device: &device,
                held: &held,
                admin,
                port,
            };
            place.at(id);
            let done = put(w, kind, form, &view);
            if !matches!(done, Err(Entry::Full(_))) {
                place.after(id);
            }
            done
        };
        let (table, entry) = (listed.table.raw(), listed.entry.raw());
        let written = w.list(table, entry, objects, fill);
        place.settle(w, table, written)
    })
}

fn put_summary(w: &mut Answer<'_>, device: &Device, details: bool) -> Result {
    let who = Who::of(device);
    let count = |kind| {
        device
            .slot::<crate::restrack::Tables>()
            .of(kind)
            .count(details)
    };
    Ok(res::put_summary(w, &who.handle(), count)?)
}

/// `RDMA_NLDEV_CMD_RES_GET`: how many objects a device has.
pub(super) fn summary(ask: &Ask<'_>) -> Result {
    let request = ask.request(Strictness::Liberal)?;
    let device = ask.device(&request)?;
    let details = request.u8(Attr::DriverDetails).is_some_and(|on| on != 0);
    ask.answer(Command::ResGet, |w| put_summary(w, &device, details))
}

/// The same of all devices.
pub(super) fn summaries(dump: &mut Dump<'_>) -> Result {
    dump.each(Command::ResGet, super::border::next_seen, |_, w, device| {
        put_summary(w, device, false)
    });
    Ok(())
}
