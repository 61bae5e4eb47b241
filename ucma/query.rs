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
use crate::proto::answer::SOCKADDR_IB;
use crate::proto::command;
use crate::proto::command::Named;
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
pub(crate) struct Answer {
    /// Zeros, and what is written over them.
    fixed: [u8; ADDR.0],
    /// Bytes of `fixed` that the program gets.
    len: usize,
    /// An answer that has no room in `fixed`.
    long: Option<KVVec<u8>>,
}

impl Answer {
    /// No bytes, though the query may succeed.
    pub(crate) const fn new() -> Self {
        Self {
            fixed: [0; ADDR.0],
            len: 0,
            long: None,
        }
    }

    /// Returns the bytes that the program gets.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.long {
            None => self.fixed.get(..self.len).unwrap_or_default(),
            Some(long) => long,
        }
    }

    /// Makes it the first `len` bytes of what `write` writes over zeros. Only once.
    fn fix<const N: usize>(&mut self, len: usize, write: impl FnOnce(&mut [u8; N])) {
        self.len = len;
        if let Some(all) = self.fixed.first_chunk_mut() {
            write(all);
        }
    }

    /// Appends bytes.
    fn append(&mut self, from: &[u8]) -> Result {
        let end = self.len.checked_add(from.len()).ok_or(EINVAL)?;
        let to = self.fixed.get_mut(self.len..end).ok_or(EINVAL)?;
        to.copy_from_slice(from);
        self.len = end;
        Ok(())
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
pub(crate) fn route(context: &Context, len: usize, to_program: &mut Answer) -> Result {
    context.with_cm(|cm| {
        let cm = cm.lock()?;
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
        let (from, to) = (Named::new(&route.src), Named::new(&route.dst));
        to_program.fix(len.min(ROUTE.0), |answer| {
            answer::route(answer, from, to, device(&route).as_ref(), count, &paths);
        });
        Ok(())
    })
}

fn addresses(cm: &Locked<'_, Context>, room: u16, to_program: &mut Answer) -> Result {
    let len = command::response(room, ADDR).map_err(wrong)?;
    let route = cm.route();
    let (from, to) = (Named::new(&route.src), Named::new(&route.dst));
    to_program.fix(len, |answer| {
        answer::addresses(answer, from, to, device(&route).as_ref());
    });
    Ok(())
}

#[inline(never)]
fn gids(cm: &Locked<'_, Context>, room: u16, to_program: &mut Answer) -> Result {
    let len = command::response(room, ADDR).map_err(wrong)?;
    let route = cm.route();
    let device = device(&route);
    let pkey = device.as_ref().map_or(0, |device| device.pkey);
    let (sgid, dgid) = cm.gids();
    let end = |address: &[u8; SOCKADDR_IB], gid: &[u8; 16]| {
        if Named::new(address).family() == IB {
            return *address;
        }
        let service = cm.service_id(SocketAddress::of(address));
        answer::infiniband(pkey, gid, service)
    };
    let (from, to) = (end(&route.src, &sgid), end(&route.dst, &dgid));
    to_program.fix(len, |answer| {
        let (from, to) = (Named::new(&from), Named::new(&to));
        answer::addresses(answer, from, to, device.as_ref());
    });
    Ok(())
}

fn paths(cm: &Locked<'_, Context>, room: u16, to_program: &mut Answer) -> Result {
    let fits = command::records(room, option::PATH).map_err(wrong)?;
    let count = cm.route().paths;
    to_program.append(&count.to_ne_bytes())?;
    to_program.append(&[0; 4])?;
    for (index, _) in (0..count.min(2)).zip(0..fits) {
        let path = cm.packed_path(index).ok_or(EINVAL)?;
        to_program.append(&option::PRIMARY.to_ne_bytes())?;
        to_program.append(&[0; 4])?;
        to_program.append(&path)?;
    }
    Ok(())
}

// The count and two paths.
const _: () = assert!(COUNT + 2 * option::PATH <= ADDR.0);

fn services(
    context: &Context,
    cm: &Locked<'_, Context>,
    room: u16,
    to_program: &mut Answer,
) -> Result {
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
        return Ok(());
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
    to_program.long = Some(all);
    Ok(())
}

/// Answers QUERY.
///
/// # Errors
///
/// `ENOSYS` if there is no such option; `ENOSPC`; `ENODATA` without records of services; `ENOMEM`.
pub(crate) fn query(context: &Context, option: u32, room: u16, answer: &mut Answer) -> Result {
    context.with_cm(|cm| {
        let cm = cm.lock()?;
        match option {
            0 => addresses(&cm, room, answer),
            1 => paths(&cm, room, answer),
            2 => gids(&cm, room, answer),
            3 => services(context, &cm, room, answer),
            _ => Err(wrong(crate::proto::Wrong::Unknown)),
        }
    })
}
