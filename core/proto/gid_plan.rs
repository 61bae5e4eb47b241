// SPDX-License-Identifier: GPL-2.0

//! Which GIDs a RoCE port should have, and how its table gets there.
//!
//! The C core turns each event of a network device or an address into commands
//! ("delete this, then add that"), and what a port ends up with depends on their
//! history; an event that is lost, for want of memory say, is lost for good. Here
//! an event only says *which network devices to look at again* ([`Dirty`]), or which address
//! of one. What the port should have is a function of the present state alone
//! ([`desired`]), and [`sync`] brings the table there. Every entry belongs to one network device,
//! so that looking at one again touches no other's; [`sync_address`] does the same for one address,
//! since a device may have hundreds. Events may be merged, repeated
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
//!
//! [`Dirty`]: super::gid_marks::Dirty
//! [`Dirty::take`]: super::gid_marks::Dirty::take
//! [`Dirty::done`]: super::gid_marks::Dirty::done
//! [`Dirty::is_clean`]: super::gid_marks::Dirty::is_clean

use super::gid::Gid;
use super::gid::GidTypes;
use super::gid_marks::Marks;
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
    /// The bits of its identifier.
    const fn bits(self) -> u128 {
        match self {
            // CAST: widens.
            Self::V4(ip) => 0xffff_0000_0000 | u32::from_be_bytes(ip) as u128,
            Self::V6(ip) => u128::from_be_bytes(ip),
        }
    }

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
pub fn desired<'a>(port: &Port, device: &Device<'a>) -> Desired<'a> {
    let ndev = port.ndev.filter(|_| device.registered);
    let default = ndev.is_some_and(|ndev| port.has_defaults_of(ndev, device));
    let addresses = ndev.is_some_and(|ndev| port.has_addresses_of(ndev, device));
    Desired {
        id: device.id,
        mac: device.mac,
        types: port.types,
        default: default.then(|| bits(Gid::link_local(device.mac, device.dev_id))),
        addresses: if addresses { device.addresses } else { &[] },
        pending: None,
    }
}

/// The bits of a GID. The compiler moves sixteen bytes one by one, and these at once.
const fn bits(gid: Gid) -> u128 {
    u128::from_be_bytes(gid.0)
}

/// What [`desired`] answers. There are hundreds, and each is looked at in each sync.
#[derive(Clone)]
pub struct Desired<'a> {
    id: Ndev,
    mac: [u8; 6],
    types: GidTypes,
    default: Option<u128>,
    addresses: &'a [Address],
    /// What has been told with its first type, and has a second one.
    pending: Option<(Origin, u128)>,
}

impl Desired<'_> {
    fn source(&mut self) -> Option<(Origin, u128)> {
        if let Some(gid) = self.default.take() {
            return Some((Origin::Default, gid));
        }
        let (first, rest) = self.addresses.split_first()?;
        self.addresses = rest;
        Some((Origin::Ip, first.bits()))
    }
}

impl Iterator for Desired<'_> {
    type Item = Entry;

    // Not inline: it has many callers, all of them in a worker that then asks the driver.
    #[inline(never)]
    fn next(&mut self) -> Option<Entry> {
        let [v1, v2] = super::gid::GidType::ROCE;
        let ((origin, gid), gid_type) = loop {
            if let Some(source) = self.pending.take() {
                break (source, v2);
            }
            let source = self.source()?;
            if source.1 == bits(Gid::ZERO) {
                continue;
            }
            self.pending = self.types.has(v2).then_some(source);
            if self.types.has(v1) {
                break (source, v1);
            }
        };
        Some(Entry {
            origin,
            gid: Gid(gid.to_be_bytes()),
            gid_type,
            ndev: self.id,
            mac: self.mac,
        })
    }
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
    ///
    /// [`Dirty::done`]: super::gid_marks::Dirty::done
    /// [`Event::Room`]: super::gid_marks::Event::Room
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

    /// Adds an entry, unless it is there. Answers where it is.
    fn add(&mut self, table: &mut impl Table, entry: Entry) -> Option<usize> {
        let (count, place) = match table.read(|t| t.place(&entry)) {
            Ok(Place::There(index)) => return Some(index),
            Ok(Place::Free(index)) if table.apply(Step::Add(index, entry)) => {
                (&mut self.added, Some(index))
            }
            Ok(Place::Free(_)) => (&mut self.refused, None),
            // Zero GIDs are not desired, so that there is no other reason.
            Err(_) => (&mut self.left_out, None),
        };
        *count = count.saturating_add(1);
        place
    }

    /// Adds entries, of which many may be there, in order.
    fn add_all(&mut self, table: &mut impl Table, mut entries: impl Iterator<Item = Entry>) {
        let mut near = 0;
        while let Some(entry) = table.read(|t| {
            entries.find(|entry| match t.next(near) {
                Some((index, there)) if there == entry => {
                    near = index.saturating_add(1);
                    false
                }
                Some(_) | None => true,
            })
        }) {
            if let Some(index) = self.add(table, entry) {
                near = index.saturating_add(1);
            }
        }
    }

    /// Deletes what has to go. `goes` is called with the table locked.
    fn delete_where(&mut self, table: &mut impl Table, mut goes: impl FnMut(&Entry) -> bool) {
        let mut from = 0;
        while let Some((index, entry)) = table.read(|t| t.find_from(from, &mut goes)) {
            self.delete(table, index, entry);
            from = index.saturating_add(1);
        }
    }

    fn delete(&mut self, table: &mut impl Table, index: usize, entry: Entry) {
        if table.apply(Step::Delete(index, entry)) {
            self.deleted = self.deleted.saturating_add(1);
        }
    }
}

/// Which entries may be among some: a set of bits that each sets one of.
///
/// It says of nearly all that are not among them that they are not, without a look at each:
/// to let go of hundreds of addresses would cost their square otherwise.
struct Sieve([u64; 64]);

impl Sieve {
    fn of(entries: impl Iterator<Item = Entry>) -> Self {
        let mut sieve = Self([0; 64]);
        for entry in entries {
            let (word, bit) = Self::place(&entry);
            if let Some(word) = sieve.0.get_mut(word) {
                *word |= bit;
            }
        }
        sieve
    }

    fn may_have(&self, entry: &Entry) -> bool {
        let (word, bit) = Self::place(entry);
        self.0.get(word).is_none_or(|word| word & bit != 0)
    }

    /// One of 4096 bits. Most addresses of a device differ in their last bytes.
    fn place(entry: &Entry) -> (usize, u64) {
        let gid = u128::from_be_bytes(entry.gid.0);
        // CAST: both halves are meant.
        let folded = (gid as u64) ^ ((gid >> 64) as u64).rotate_left(32);
        // The golden ratio's bits, which spread neighbours (Knuth, 6.4).
        let hash = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        // CAST: below 64.
        ((hash >> 6) as usize, 1 << (hash & 63))
    }
}

/// The entries that a device's part of a table should have, to go through that part with.
struct Wanted<I> {
    all: I,
    /// Behind [`Self::expected`].
    ahead: I,
    /// What comes next, if nothing has changed.
    expected: Option<Entry>,
    /// Whether all before [`Self::expected`] have been met.
    in_a_row: bool,
    sieve: Sieve,
}

impl<I: Iterator<Item = Entry> + Clone> Wanted<I> {
    fn new(all: I) -> Self {
        let mut ahead = all.clone();
        Self {
            sieve: Sieve::of(all.clone()),
            expected: ahead.next(),
            in_a_row: true,
            all,
            ahead,
        }
    }

    /// Whether the table has all of them.
    fn all_met(&self) -> bool {
        self.in_a_row && self.expected.is_none()
    }

    /// Whether the table's next entry is the expected one: entries are mostly in the order in
    /// which they are wanted.
    fn in_order(&mut self, entry: &Entry) -> bool {
        let found = self.expected == Some(*entry);
        if found {
            self.expected = self.ahead.next();
        }
        found
    }

    /// Whether an entry that is not the expected one is wanted at all. If so, that behind it is
    /// expected next.
    fn has(&mut self, entry: &Entry) -> bool {
        let mut ahead = self.all.clone();
        let found = self.sieve.may_have(entry) && ahead.any(|wanted| wanted == *entry);
        if found {
            self.expected = ahead.next();
            self.ahead = ahead;
            self.in_a_row = false;
        }
        found
    }
}

/// Brings the part of the table that belongs to one device to what it should be.
/// Entries that are to stay keep their slots.
pub fn sync(table: &mut impl Table, port: &Port, device: &Device<'_>) -> Synced {
    let want = desired(port, device);
    let mut synced = Synced::default();
    let mut wanted = Wanted::new(want.clone());
    let mut from = 0;
    // Only what is out of order is looked for, and that with the table unlocked.
    while let Some((index, entry)) = table.read(|t| {
        t.find_from(from, |entry| {
            entry.ndev == device.id && !wanted.in_order(entry)
        })
    }) {
        if !wanted.has(&entry) {
            synced.delete(table, index, entry);
        }
        from = index.saturating_add(1);
    }
    let is_default = |entry: &Entry| entry.origin == Origin::Default;
    for entry in want.clone().take_while(is_default) {
        // A GID that came as an address first is in the table once, as the default.
        let place = synced.add(table, entry);
        if place.is_some_and(|index| table.read(|t| t.get(index) == Ok(&entry))) {
            let twin = Entry {
                origin: Origin::Ip,
                ..entry
            };
            synced.delete_where(table, |entry| *entry == twin);
        }
    }
    // Mostly some went and none came, out of hundreds.
    if !wanted.all_met() {
        synced.add_all(table, want.skip_while(is_default));
    }
    synced
}

/// Brings the entries of one address of a device to what they should be: those that the device
/// gives for it, if it has it now. All others stay as they are.
pub fn sync_address(
    table: &mut impl Table,
    port: &Port,
    device: &Device<'_>,
    address: Address,
) -> Synced {
    let gid = address.gid();
    let mut synced = Synced::default();
    let mut any = false;
    for entry in desired(port, device).filter(|e| e.origin == Origin::Ip && e.gid == gid) {
        any = true;
        if let Some(index) = synced.add(table, entry) {
            // There may be one that was made with another MAC address, or the default GID.
            let there = table.read(|t| t.get(index).ok().copied());
            let old = |there: &Entry| there.origin == Origin::Ip && *there != entry;
            if let Some(there) = there.filter(old) {
                synced.delete(table, index, there);
                let _: Option<usize> = synced.add(table, entry);
            }
        }
    }
    // A device gives entries of all types for an address, or none.
    if !any {
        synced.delete_where(table, |entry| {
            entry.gid == gid && entry.ndev == device.id && entry.origin == Origin::Ip
        });
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
    sum.delete_where(table, |entry| {
        !devices.clone().any(|device| device.id == entry.ndev)
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

/// Syncs what is marked. A device that is marked itself and is not there any more loses its
/// entries. Of a device of which single addresses are marked, `devices` may leave out the others.
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
    for mark in marks.iter().flatten() {
        let device = devices.clone().find(|device| device.id == mark.ndev);
        match (device, mark.address) {
            (Some(device), Some(address)) => {
                synced = synced.and(sync_address(table, port, device, address));
            }
            (Some(device), None) => synced = synced.and(sync(table, port, device)),
            (None, None) => synced.delete_where(table, |entry| entry.ndev == mark.ndev),
            // It is none of the port's, or if it was, it is marked itself for having gone.
            (None, Some(_)) => {}
        }
    }
    synced
}
