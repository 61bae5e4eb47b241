// SPDX-License-Identifier: GPL-2.0

//! The ports of a network namespace, and the IDs that own them.
//!
//! Locks: `Ports::table`, then `Id::inner` of its owners.

use crate::edge::core::may_bind_privileged;
use crate::edge::core::port_range;
use crate::edge::core::random_port;
use crate::edge::errno;
use crate::edge::id::Id;
use crate::proto::port;
use crate::proto::port::Owner;
use crate::proto::service;
use crate::proto::service::Space;
use crate::proto::Refusal;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use rdma::net::pernet::AfterDevices;
use rdma::net::pernet::PernetData;
use rdma::net::CountedNet;
use rdma::net::NewNet;
use rdma::net::Pernet;
use rdma::net::PernetSlot;

/// A port of a port space.
pub(crate) type Key = (Space, u16);

/// The ports of a namespace.
#[pin_data]
pub(crate) struct Ports {
    #[pin]
    table: Mutex<Table>,
}

struct Table {
    /// Owners of each port, oldest first.
    owners: RBTree<Key, KVec<Arc<Id>>>,
    /// The automatic port that was given last.
    last: Option<u16>,
}

rdma::static_slot!(impl for Ports: PernetSlot);

impl PernetData for Ports {
    type Dropped = AfterDevices;

    fn new(_net: &NewNet) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            table <- kernel::new_mutex!(
                Table { owners: RBTree::new(), last: None },
                "Ports::table"
            ),
        })
    }
}

/// The ports of a namespace.
fn of(net: &CountedNet) -> Result<Pin<&Ports>> {
    crate::edge::core::pernet(net).ok_or(ENODEV)
}

/// What an ID says of itself.
fn owner(id: &Id) -> Owner {
    id.with(|inner| Owner {
        source: inner.source,
        destination: inner.destination,
        reuse: inner.options.reuse,
        afonly: inner.afonly,
    })
}

impl Table {
    fn others<'a>(&'a self, key: &Key, id: &'a Id) -> impl Iterator<Item = Owner> + 'a {
        let owners = self.owners.get(key).map_or(&[][..], |owners| owners);
        owners
            .iter()
            .rev()
            .filter(move |one| !core::ptr::eq(&***one, id))
            .map(|one| owner(one))
    }

    /// Makes an ID an owner of a port.
    fn insert(&mut self, key: Key, id: &Arc<Id>) -> Result<(), Refusal> {
        let no_memory = |_| Refusal::NoMemory;
        if let Some(owners) = self.owners.get_mut(&key) {
            return owners.push(id.clone(), GFP_KERNEL).map_err(no_memory);
        }
        let mut owners = KVec::new();
        owners.push(id.clone(), GFP_KERNEL).map_err(no_memory)?;
        match self.owners.try_create_and_insert(key, owners, GFP_KERNEL) {
            Ok(_) => Ok(()),
            Err(_) => Err(Refusal::NoMemory),
        }
    }
}

/// Takes the port of an ID's local address, or an automatic one. May sleep.
///
/// # Errors
///
/// `EPROTONOSUPPORT`, `EACCES`, `EADDRINUSE`, `EADDRNOTAVAIL`, `ENOMEM`.
pub(crate) fn take(id: &Arc<Id>) -> Result {
    let (source, _) = id.addrs();
    let (space, source) = service::select(id.words().port_space(), source)
        .ok_or(Refusal::NoProtocol)
        .map_err(errno)?;
    id.set_source(source);
    let ports = of(id.net())?;
    let mut table = ports.get_ref().table.lock();
    let me = owner(id);
    let number = source.port();
    let taken = if number == 0 {
        let range = port_range(id);
        let last = table.last;
        let taken = port::automatic(range, random_port(range), last, |number| {
            let key = (space, number);
            port::share_automatic(table.others(&key, id), &me)?;
            table.insert(key, id)
        });
        taken.inspect(|number| table.last = Some(*number))
    } else {
        let key = (space, number);
        port::take(number, may_bind_privileged, table.others(&key, id), &me)
            .and_then(|()| table.insert(key, id))
            .map(|()| number)
    };
    let number = taken.map_err(errno)?;
    // Others that look at the port see the whole address.
    id.set_source(source.with_port(number));
    id.with(|inner| inner.port = Some((space, number)));
    Ok(())
}

/// Ends the sharing of an ID's port, because the ID listens.
///
/// # Errors
///
/// `EADDRINUSE`, `EADDRNOTAVAIL`: it is shared.
pub(crate) fn claim(id: &Arc<Id>) -> Result {
    let Some(key) = id.with(|inner| inner.port) else {
        return Ok(());
    };
    let ports = of(id.net())?;
    let table = ports.get_ref().table.lock();
    let me = owner(id);
    if !me.reuse {
        return Ok(());
    }
    port::share(table.others(&key, id), &me, false).map_err(errno)?;
    id.with(|inner| inner.options.reuse = false);
    Ok(())
}

/// Gives the port of an ID back.
pub(crate) fn release(id: &Id) {
    let Some(key) = id.with(|inner| inner.port.take()) else {
        return;
    };
    let Ok(ports) = of(id.net()) else { return };
    let removed = {
        let mut table = ports.get_ref().table.lock();
        let mut removed = (None, None);
        if let Some(owners) = table.owners.get_mut(&key) {
            let at = owners.iter().position(|one| core::ptr::eq(&**one, id));
            removed.0 = at.and_then(|at| owners.remove(at).ok());
            if owners.is_empty() {
                removed.1 = table.owners.remove(&key);
            }
        }
        removed
    };
    drop(removed);
}

/// Calls `each` with the owners of a port, newest first, until it returns something.
pub(crate) fn find<T>(
    net: &CountedNet,
    key: Key,
    each: impl FnMut(&Arc<Id>) -> Option<T>,
) -> Option<T> {
    let ports = of(net).ok()?;
    let table = ports.get_ref().table.lock();
    table.owners.get(&key)?.iter().rev().find_map(each)
}

/// Gives each namespace its ports, as long as it exists.
pub(crate) fn register() -> Result<Pernet<Ports>> {
    Pernet::register(rdma::resident!())
}
