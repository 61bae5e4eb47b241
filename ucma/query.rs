// SPDX-License-Identifier: GPL-2.0

//! Answers to queries.
//!
//! Addresses and paths are read under `Context::cm` and the handler lock, so neither calls nor
//! handlers change them meanwhile.

use crate::command::wrong;
use crate::context::Context;
use crate::edge;
use crate::proto::answer;
use crate::proto::answer::Device;
use crate::proto::answer::PATH;
use crate::proto::command;
use crate::proto::command::Address;
use crate::proto::command::ADDR;
use crate::proto::command::COUNT;
use crate::proto::command::IB;
use crate::proto::command::ROUTE;
use crate::proto::option;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use rdma::accounted;
use rdma::cm::link;
use rdma::cm::Link;
use rdma::cm::Locked;
use rdma::cm::Route;
use rdma::cm::SocketAddress;
use rdma::cm::SERVICE;

/// An answer.
#[allow(
    clippy::large_enum_variant,
    reason = "it is on the stack of one command"
)]
pub(crate) enum Answer {
    /// None, though the query succeeded.
    Nothing,
    /// The first bytes of an array.
    Fixed([u8; ADDR.0], usize),
    /// All bytes of a vector.
    Long(KVVec<u8>),
}

impl Answer {
    fn of(bytes: &[u8], len: usize) -> Self {
        let mut all = [0; ADDR.0];
        for (to, from) in all.iter_mut().zip(bytes) {
            *to = *from;
        }
        Self::Fixed(all, len)
    }

    /// Returns the bytes that the program gets.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::Fixed(all, len) => all.get(..*len).unwrap_or_default(),
            Self::Long(all) => all,
        }
    }
}

fn device(route: &Route) -> Option<Device> {
    route.has_device.then_some(Device {
        node_guid: route.node_guid,
        index: route.index,
        // CAST: Programs know 8 bits.
        port: route.port as u8,
        pkey: route.pkey,
    })
}

/// The default P_Key.
const DEFAULT_PKEY: u16 = 0xffff;

/// Answers QUERY_ROUTE.
pub(crate) fn route(context: &Context, len: usize) -> Result<Answer> {
    context.with_cm(|cm| {
        let cm = cm.lock();
        let route = cm.route();
        let mut count = 0;
        let mut paths = [[0; PATH]; 2];
        match link(&route) {
            how @ (Link::Ib | Link::Roce) => {
                count = route.paths;
                for (path, index) in paths.iter_mut().zip(0..) {
                    if let Some(found) = edge::path(&cm, index) {
                        *path = found;
                    }
                }
                if count == 0 {
                    let pkey = match how {
                        Link::Roce => DEFAULT_PKEY,
                        _ => route.pkey,
                    };
                    let [first, _] = &mut paths;
                    *first = answer::unresolved(&route.dgid, &route.sgid, pkey);
                }
            }
            Link::Iwarp => {
                let [first, _] = &mut paths;
                *first = answer::unresolved(&route.dgid, &route.sgid, 0);
            }
            Link::Other => {}
        }
        let (from, to) = (Address(route.src), Address(route.dst));
        let answer = answer::route(&from, &to, device(&route).as_ref(), count, &paths);
        Ok(Answer::of(&answer, len.min(ROUTE.0)))
    })
}

fn addresses(cm: &Locked<'_, Context>, room: u16) -> Result<Answer> {
    let len = command::response(room, ADDR).map_err(wrong)?;
    let route = cm.route();
    let (from, to) = (Address(route.src), Address(route.dst));
    let answer = answer::addresses(&from, &to, device(&route).as_ref());
    Ok(Answer::of(&answer, len))
}

fn gids(cm: &Locked<'_, Context>, room: u16) -> Result<Answer> {
    let len = command::response(room, ADDR).map_err(wrong)?;
    let route = cm.route();
    let device = device(&route);
    let pkey = device.as_ref().map_or(0, |device| device.pkey);
    let (sgid, dgid) = cm.gids();
    let end = |address: [u8; 128], gid: &[u8; 16]| {
        let known = Address(address);
        if known.family() == IB {
            return known;
        }
        let service = cm.service_id(SocketAddress(address));
        answer::infiniband(pkey, gid, service)
    };
    let (from, to) = (end(route.src, &sgid), end(route.dst, &dgid));
    let answer = answer::addresses(&from, &to, device.as_ref());
    Ok(Answer::of(&answer, len))
}

fn paths(cm: &Locked<'_, Context>, room: u16) -> Result<Answer> {
    let fits = command::records(room, option::PATH).map_err(wrong)?;
    let count = cm.route().paths;
    let mut all = accounted::with_capacity(COUNT + 2 * option::PATH)?;
    append(&mut all, &count.to_ne_bytes())?;
    append(&mut all, &[0; 4])?;
    for (index, _) in (0..count.min(2)).zip(0..fits) {
        let path = cm.packed_path(index).ok_or(EINVAL)?;
        append(&mut all, &option::PRIMARY.to_ne_bytes())?;
        append(&mut all, &[0; 4])?;
        append(&mut all, &path)?;
    }
    Ok(Answer::Long(all))
}

fn append(to: &mut KVVec<u8>, from: &[u8]) -> Result {
    for byte in from {
        to.push_within_capacity(*byte).map_err(|_| ENOMEM)?;
    }
    Ok(())
}

fn services(context: &Context, cm: &Locked<'_, Context>, room: u16) -> Result<Answer> {
    let fits = command::records(room, SERVICE).map_err(wrong)?;
    // Before the event, the records are being written.
    let count = match context.has_services.load(Relaxed) {
        true => cm.service_count(),
        false => 0,
    };
    if count == 0 {
        // CAST, OVERFLOW: The value is below 200.
        return Err(rdma::errno::enodata());
    }
    let number = fits.min(usize::try_from(count)?);
    if number == 0 {
        return Ok(Answer::Nothing);
    }
    let len = number.checked_mul(SERVICE).ok_or(EINVAL)?;
    let mut all = accounted::from_elem(0_u8, len.checked_add(COUNT).ok_or(EINVAL)?)?;
    if let Some((head, records)) = all.split_at_mut_checked(COUNT) {
        for (to, from) in head.iter_mut().zip(count.to_ne_bytes()) {
            *to = from;
        }
        cm.copy_services(records);
        // The C core does not write these two bytes.
        for record in records.chunks_exact_mut(SERVICE) {
            if let Some(gap) = record.get_mut(26..28) {
                gap.fill(0);
            }
        }
    }
    Ok(Answer::Long(all))
}

/// Answers QUERY.
///
/// # Errors
///
/// `ENOSYS` if there is no such option; `ENOSPC`; `ENODATA` without records of services; `ENOMEM`.
pub(crate) fn query(context: &Context, option: u32, room: u16) -> Result<Answer> {
    context.with_cm(|cm| {
        let cm = cm.lock();
        match option {
            0 => addresses(&cm, room),
            1 => paths(&cm, room),
            2 => gids(&cm, room),
            3 => services(context, &cm, room),
            _ => Err(wrong(crate::proto::Wrong::Unknown)),
        }
    })
}
