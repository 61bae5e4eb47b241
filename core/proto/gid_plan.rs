// SPDX-License-Identifier: GPL-2.0

//! Which GIDs a RoCE port should have, and how its table gets there.
//!
//! The C core turns each event of a network device or an address into commands
//! ("delete this, then add that"), and what a port ends up with depends on their
//! history; an event that is lost, for want of memory say, is lost for good. Here
//! an event only says *which network devices to look at again* ([`Dirty`]). What
//! the port should have is a function of the present state alone ([`desired`]),
//! and [`sync`] brings the table there. Every entry belongs to one network device,
//! so that looking at one again touches no other's. Events may be merged, repeated
//! or come late: once the last has been handled, the table is the desired one.
//!
//! # Who has which entries
//!
//! The port has a network device, and there are others above it (VLAN, bridge,
//! macvlan, bond). As the C core's full scan has it (`roce_gid_mgmt.c`):
//!
//! * default GIDs, one for each type: the port's own device, unless it is a slave
//!   of a bond; and every bond master above it, of active and other slaves alike;
//! * an IP GID for each address and type: the port's own device and the VLANs on
//!   it; and every device above it. If that is a bond, or a VLAN on a bond, only
//!   the port of the active slave has them, or every slave's while none is active.
//!   (A macvlan or bridge above a bond is not looked through, as in the peer.)
//! * nothing, once the device is being unregistered.
//!
//! Whether a device is up does not matter; its addresses do.
//!
//! # The host's duties
//!
//! The host takes a snapshot ([`Port`], [`Device`]s, addresses), marks in notifiers, and
//! syncs from one worker. For [`Marks::All`] the snapshot is taken under the lock that
//! keeps topology still (RTNL), since changes of it are announced before they are complete.
//! It takes the marks ([`Dirty::take`]) *before* the snapshot, and afterwards says
//! what was done ([`Dirty::done`]), or puts them back. It goes on until
//! [`Dirty::is_clean`]. The table it hands in is its [`Table`], which asks the driver
//! before an entry comes and after one went.

use super::gid::Gid;
use super::gid::GidTypes;
use super::gid_table::Cell;
use super::gid_table::Entry;
use super::gid_table::GidTable;
use super::gid_table::Ndev;
use super::gid_table::Origin;
use super::gid_table::Place;
use super::gid_table::Slot;
use super::gid_table::View;

/// An address of a network device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// IPv4, most significant byte first.
    V4([u8; 4]),
    /// IPv6, most significant byte first.
    V6([u8; 16]),
}

impl Address {
    /// Its identifier.
    pub const fn gid(self) -> Gid {
        match self {
            Self::V4(ip) => Gid::from_ipv4(ip),
            Self::V6(ip) => Gid::from_ipv6(ip),
        }
    }
}

/// The port, and what its network device is.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// Its network device, if it has one now.
    pub ndev: Option<Ndev>,
    /// Whether that is a slave of a bond.
    pub is_bond_slave: bool,
    /// The types it knows.
    pub types: GidTypes,
}

/// Whether a device is the master of a bond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// It is not.
    No,
    /// It is, and this slave is active; none may be.
    Master(Option<Ndev>),
}

/// A network device as the port sees it.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// Which one.
    pub id: Ndev,
    /// Its MAC address and, if it shares that, its number (`net_device.dev_id`).
    pub mac: [u8; 6],
    /// See [`Gid::link_local`].
    pub dev_id: u16,
    /// False from the moment on that it is being unregistered.
    pub registered: bool,
    /// Whether it is above the port's, at any distance.
    pub above_port: bool,
    /// Whether it is a bond's master itself.
    pub bond: Bond,
    /// For a VLAN, the device below all VLANs; for others, itself.
    pub real: Ndev,
    /// Whether that device is a bond's master.
    pub real_bond: Bond,
    /// Its addresses, in its own order.
    pub addresses: &'a [Address],
}

impl Port {
    /// Whether the device gives the port default GIDs.
    fn has_defaults_of(&self, ndev: Ndev, device: &Device<'_>) -> bool {
        (device.id == ndev && !self.is_bond_slave) || (device.bond != Bond::No && device.above_port)
    }

    /// Whether the device's addresses are the port's.
    fn has_addresses_of(&self, ndev: Ndev, device: &Device<'_>) -> bool {
        let may_use = match device.real_bond {
            Bond::No | Bond::Master(None) => true,
            Bond::Master(Some(active)) => active == ndev,
        };
        (device.above_port && may_use) || device.real == ndev
    }
}

/// The entries that the port should have from one device, default ones first.
pub fn desired<'a>(port: &Port, device: &Device<'a>) -> impl Iterator<Item = Entry> + Clone + 'a {
    let ndev = port.ndev.filter(|_| device.registered);
    let defaults = ndev.is_some_and(|ndev| port.has_defaults_of(ndev, device));
    let addresses = ndev.is_some_and(|ndev| port.has_addresses_of(ndev, device));
    let default = (Origin::Default, Gid::link_local(device.mac, device.dev_id));
    let (id, mac, types) = (device.id, device.mac, port.types);
    let ips = if addresses { device.addresses } else { &[] };
    let [v1, v2] = super::gid::GidType::ROCE;
    defaults
        .then_some(default)
        .into_iter()
        .chain(ips.iter().map(|address| (Origin::Ip, address.gid())))
        .filter(|(_, gid)| !gid.is_zero())
        .flat_map(move |source| [(source, v1), (source, v2)])
        .filter(move |(_, gid_type)| types.has(*gid_type))
        .map(move |((origin, gid), gid_type)| Entry {
            origin,
            gid,
            gid_type,
            ndev: id,
            mac,
        })
}

/// A change of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The entry of this slot goes.
    Delete(usize, Entry),
    /// This entry comes into this slot, which is free.
    Add(usize, Entry),
}

/// The table as the worker has it. Between two calls nobody else adds or deletes
/// entries (the worker holds the writers' mutex); holds may be put.
pub trait Table {
    /// What its slots are.
    type Cell: Cell;

    /// Looks at the table, under the readers' lock.
    fn read<R>(&self, look: impl FnOnce(&View<'_, Self::Cell>) -> R) -> R;

    /// Makes a change: asks the driver, without the readers' lock, and then changes
    /// the slot, under it. False if the driver refused to add.
    fn apply(&mut self, step: Step) -> bool;
}

impl Table for GidTable<'_> {
    type Cell = Slot;

    fn read<R>(&self, look: impl FnOnce(&View<'_, Slot>) -> R) -> R {
        look(&self.view())
    }

    fn apply(&mut self, step: Step) -> bool {
        match step {
            Step::Delete(index, _) => self.delete(index).is_some(),
            Step::Add(index, entry) => self.insert(index, entry),
        }
    }
}

/// What a sync did.
#[must_use = "clients are told of changes, and what did not fit has to be tried again"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// Entries that came.
    pub added: usize,
    /// Entries that went.
    pub deleted: usize,
    /// Entries that found no room. They are tried again when there is some, see
    /// [`Dirty::done`] and [`Event::Room`].
    pub left_out: usize,
    /// Entries that the driver refused. They are tried again at the next sync of
    /// their device, whatever that is for.
    pub refused: usize,
}

impl Synced {
    /// Both together.
    pub fn and(self, other: Synced) -> Synced {
        Synced {
            added: self.added.saturating_add(other.added),
            deleted: self.deleted.saturating_add(other.deleted),
            left_out: self.left_out.saturating_add(other.left_out),
            refused: self.refused.saturating_add(other.refused),
        }
    }

    /// Adds an entry, unless it is there; `near` is where to look for it first, and for the
    /// next one afterwards.
    fn add(&mut self, table: &mut impl Table, entry: Entry, near: &mut usize) {
        let count = match table.read(|t| t.place_near(*near, &entry)) {
            Ok(Place::There(index)) => {
                *near = index.saturating_add(1);
                return;
            }
            Ok(Place::Free(index)) if table.apply(Step::Add(index, entry)) => &mut self.added,
            Ok(Place::Free(_)) => &mut self.refused,
            // Zero GIDs are not desired, so that there is no other reason.
            Err(_) => &mut self.left_out,
        };
        *count = count.saturating_add(1);
    }

    /// Deletes what is not to stay.
    fn retain(&mut self, table: &mut impl Table, mut stays: impl FnMut(&Entry) -> bool) {
        let mut from = 0;
        // Entry by entry: the readers' lock is not for long.
        let next = |t: &View<'_, _>, from| t.next(from).map(|(index, entry)| (index, *entry));
        while let Some((index, entry)) = table.read(|t| next(t, from)) {
            if !stays(&entry) && table.apply(Step::Delete(index, entry)) {
                self.deleted = self.deleted.saturating_add(1);
            }
            from = index.saturating_add(1);
        }
    }
}

/// Brings the part of the table that belongs to one device to what it should be.
/// Entries that are to stay keep their slots.
pub fn sync(table: &mut impl Table, port: &Port, device: &Device<'_>) -> Synced {
    let want = desired(port, device);
    let mut synced = Synced::default();
    // Entries are mostly in the order in which they are wanted, so that the next one is
    // where the last was found. Hundreds of addresses would cost their square otherwise.
    let mut ahead = want.clone();
    synced.retain(table, |e| {
        if e.ndev != device.id || ahead.next() == Some(*e) {
            return true;
        }
        ahead = want.clone();
        ahead.any(|w| w == *e)
    });
    let mut near = 0;
    let is_default = |entry: &Entry| entry.origin == Origin::Default;
    for entry in want.clone().filter(is_default) {
        synced.add(table, entry, &mut near);
        // A GID that came as an address first is in the table once, as the default.
        if table.read(|t| t.entries().any(|(_, e)| *e == entry)) {
            let twin = Entry {
                origin: Origin::Ip,
                ..entry
            };
            synced.retain(table, |e| *e != twin);
        }
    }
    for entry in want.filter(|entry| !is_default(entry)) {
        synced.add(table, entry, &mut near);
    }
    synced
}

/// Syncs all devices, and lets go of the entries of those that are not there
/// any more.
pub fn sync_all<'d, 'a: 'd>(
    table: &mut impl Table,
    port: &Port,
    devices: impl Iterator<Item = &'d Device<'a>> + Clone,
) -> Synced {
    let mut sum = Synced::default();
    sum.retain(table, |entry| {
        devices.clone().any(|device| device.id == entry.ndev)
    });
    loop {
        let pass = devices.clone().fold(Synced::default(), |sum, device| {
            sum.and(sync(table, port, device))
        });
        sum = Synced {
            left_out: pass.left_out,
            refused: pass.refused,
            ..sum.and(pass)
        };
        // What one device gave up, an earlier one may need. This ends: a pass over
        // devices that did not change deletes only what the last one made superfluous.
        if pass.left_out == 0 || pass.deleted == 0 {
            return sum;
        }
    }
}

/// What happened, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A device came, went, changed its MAC, or came up.
    Device(Ndev),
    /// A device got or lost an address.
    Address(Ndev),
    /// A device was put under another or taken from there, another slave of a bond
    /// became active, or the port's own device was changed: who is above the port
    /// may have changed for any device.
    Topology,
    /// A slot became free because the last hold of a pending entry was put.
    Room,
}

/// The most devices that are marked one by one.
pub const MARKS: usize = 16;

/// A set of devices.
#[allow(
    clippy::large_enum_variant,
    reason = "notifiers have no memory to ask for"
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// None.
    #[default]
    None,
    /// These; the places after the last are empty.
    Some([Option<Ndev>; MARKS]),
    /// All of them.
    All,
}

impl Marks {
    /// Adds one. When there are too many, all devices are in the set.
    fn add(&mut self, ndev: Ndev) {
        let marks = match self {
            Marks::All => return,
            Marks::None => {
                *self = Marks::Some([None; MARKS]);
                return self.add(ndev);
            }
            Marks::Some(marks) => marks,
        };
        match marks.iter_mut().find(|m| m.is_none_or(|m| m == ndev)) {
            Some(mark) => *mark = Some(ndev),
            None => *self = Marks::All,
        }
    }

    fn merge(&mut self, other: Marks) {
        match other {
            Marks::None => {}
            Marks::All => *self = Marks::All,
            Marks::Some(marks) => marks.into_iter().flatten().for_each(|m| self.add(m)),
        }
    }
}

/// The devices to look at again. It has a fixed size: no event is ever lost, and
/// none needs memory. Notifiers and the worker share it under a spinlock.
#[derive(Clone, Debug, Default)]
pub struct Dirty {
    marks: Marks,
    /// Some entry found no room.
    starved: bool,
}

impl Dirty {
    /// Takes note of an event.
    pub fn note(&mut self, event: Event) {
        match event {
            Event::Device(ndev) | Event::Address(ndev) => self.marks.add(ndev),
            Event::Topology => self.marks = Marks::All,
            Event::Room => {
                if self.starved {
                    self.marks = Marks::All;
                }
            }
        }
    }

    /// Takes the marks, for a sync. The host does this before it takes its
    /// snapshot: what happens later marks anew.
    pub fn take(&mut self) -> Marks {
        core::mem::take(&mut self.marks)
    }

    /// Puts marks back whose sync could not be done.
    pub fn put_back(&mut self, marks: Marks) {
        self.marks.merge(marks);
    }

    /// Takes note of what a sync of these marks did.
    pub fn done(&mut self, marks: &Marks, synced: &Synced) {
        if *marks == Marks::All {
            // It has used all room there was.
            self.starved = synced.left_out > 0;
            return;
        }
        if synced.deleted > 0 {
            self.note(Event::Room);
        }
        self.starved |= synced.left_out > 0;
    }

    /// Whether nothing is marked.
    pub fn is_clean(&self) -> bool {
        self.marks == Marks::None
    }
}

/// Syncs what is marked. A marked device that is not there any more loses its
/// entries.
pub fn sync_marked<'d, 'a: 'd>(
    table: &mut impl Table,
    port: &Port,
    devices: impl Iterator<Item = &'d Device<'a>> + Clone,
    marks: &Marks,
) -> Synced {
    let marks = match marks {
        Marks::None => return Synced::default(),
        Marks::All => return sync_all(table, port, devices),
        Marks::Some(marks) => marks,
    };
    let mut synced = Synced::default();
    for ndev in marks.iter().flatten() {
        match devices.clone().find(|d| d.id == *ndev) {
            Some(device) => synced = synced.and(sync(table, port, device)),
            None => synced.retain(table, |entry| entry.ndev != *ndev),
        }
    }
    synced
}
