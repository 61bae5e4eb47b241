// SPDX-License-Identifier: GPL-2.0

//! Which GIDs a RoCE port should have, and how its table is brought there.
//!
//! The C core turns each event of a network device or an address into commands ("delete this, then
//! add that"). There, the table depends on the history of events, and a lost event (no memory, say)
//! is lost for good. Here, an event only says *which network devices to look at again* ([`Dirty`]),
//! or which address of a device. What the port should have is a function of the present state alone
//! ([`desired`]), and [`sync`] brings the table there. Every entry belongs to one network device,
//! so that syncing one device touches no entry of another; [`sync_address`] does the same for one
//! address, since a device may have hundreds. Events may be merged, repeated or late: once the last
//! one has been handled, the table is as desired.
//!
//! # Which device contributes which entries
//!
//! The port has a network device, with others above it (VLAN, bridge, macvlan, bond). The rules are
//! those of the C core's full scan (`roce_gid_mgmt.c`):
//!
//! * default GIDs, one per type: from the port's own device, unless it is a slave of a bond, and
//!   from every bond master above it, for active and inactive slaves alike;
//! * IP GIDs, one per address and type: from the port's own device, the VLANs on it, and every
//!   device above it. If that is a bond, or a VLAN on a bond, only the port of the active slave has
//!   them, or the port of every slave while none is active. (A bond below a macvlan or bridge is
//!   not looked for, as in the C core.)
//! * none, once the device is being unregistered.
//!
//! Whether a device is up does not matter; its addresses do.
//!
//! # What the host must do
//!
//! The host takes a snapshot ([`Port`], [`Device`]s, addresses), sets marks in notifiers, and syncs
//! from one worker. For [`Marks::All`] it takes the snapshot under RTNL, which keeps the topology
//! stable, since topology changes are announced before they are complete. It takes the marks
//! ([`Dirty::take`]) *before* the snapshot, and afterwards reports the result ([`Dirty::done`]) or
//! puts the marks back. It repeats this until [`Dirty::is_clean`]. The table is passed as a
//! [`Table`], which calls the driver before it adds an entry and after it deletes one.
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
    /// The GID of the address, as a number.
    const fn bits(self) -> u128 {
        match self {
            // CAST: widens.
            Self::V4(ip) => 0xffff_0000_0000 | u32::from_be_bytes(ip) as u128,
            Self::V6(ip) => u128::from_be_bytes(ip),
        }
    }

    /// The GID of the address.
    pub const fn gid(self) -> Gid {
        match self {
            Self::V4(ip) => Gid::from_ipv4(ip),
            Self::V6(ip) => Gid::from_ipv6(ip),
        }
    }
}

/// A port and its network device.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// The port's network device, if it has one.
    pub ndev: Option<Ndev>,
    /// Whether `ndev` is a slave of a bond.
    pub is_bond_slave: bool,
    /// The GID types that the port supports.
    pub types: GidTypes,
}

/// Whether a device is a bond master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// It is not.
    No,
    /// It is; the active slave, if there is one.
    Master(Option<Ndev>),
}

/// A network device as the port sees it.
#[derive(Clone, Copy, Debug)]
pub struct Device<'a> {
    /// Identity of the device.
    pub id: Ndev,
    /// MAC address of the device.
    pub mac: [u8; 6],
    /// `net_device.dev_id`, nonzero if the MAC address is shared. See [`Gid::link_local`].
    pub dev_id: u16,
    /// False as soon as the device is being unregistered.
    pub registered: bool,
    /// Whether it is above the port's network device, at any distance.
    pub above_port: bool,
    /// Whether the device itself is a bond master.
    pub bond: Bond,
    /// For a VLAN, the device below all VLANs; for other devices, the device itself.
    pub real: Ndev,
    /// Whether `real` is a bond master.
    pub real_bond: Bond,
    /// IP addresses of the device, in the device's order.
    pub addresses: &'a [Address],
}

impl Port {
    /// Returns whether the port has default GIDs of the device.
    fn has_defaults_of(&self, ndev: Ndev, device: &Device<'_>) -> bool {
        (device.id == ndev && !self.is_bond_slave) || (device.bond != Bond::No && device.above_port)
    }

    /// Returns whether the port has IP GIDs of the device.
    fn has_addresses_of(&self, ndev: Ndev, device: &Device<'_>) -> bool {
        let may_use = match device.real_bond {
            Bond::No | Bond::Master(None) => true,
            Bond::Master(Some(active)) => active == ndev,
        };
        (device.above_port && may_use) || device.real == ndev
    }
}

/// Returns the entries that the port should have from one device, default GIDs first.
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

/// The GID as a number. Sixteen bytes are copied one by one, a number at once.
const fn bits(gid: Gid) -> u128 {
    u128::from_be_bytes(gid.0)
}

/// Iterator returned by [`desired`]. It may have hundreds of items, all visited in each sync.
#[derive(Clone)]
pub struct Desired<'a> {
    id: Ndev,
    mac: [u8; 6],
    types: GidTypes,
    default: Option<u128>,
    addresses: &'a [Address],
    /// Source whose first type was returned, and whose second type is due.
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

    // Not inlined: many callers, all in a worker that then calls the driver.
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
    /// Delete the entry of this slot.
    Delete(usize, Entry),
    /// Add this entry to this slot, which is free.
    Add(usize, Entry),
}

/// The table as the worker sees it. Between two calls nothing else adds or deletes entries (the
/// worker holds the writers' mutex); holds may be put.
pub trait Table {
    /// Type of a slot.
    type Cell: Cell;

    /// Calls `look` with the table, under the readers' lock.
    fn read<R>(&self, look: impl FnOnce(&View<'_, Self::Cell>) -> R) -> R;

    /// Applies a change: calls the driver without the readers' lock, then changes the slot under
    /// it. Returns false if the driver refused to add the entry.
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

/// Result of a sync.
#[must_use = "clients are told of changes, and what did not fit has to be tried again"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// Entries added.
    pub added: usize,
    /// Entries deleted.
    pub deleted: usize,
    /// Entries for which no slot was free. They are retried when one is, see [`Dirty::done`] and
    /// [`Event::Room`].
    ///
    /// [`Dirty::done`]: super::gid_marks::Dirty::done
    /// [`Event::Room`]: super::gid_marks::Event::Room
    pub left_out: usize,
    /// Entries that the driver refused. They are retried at the next sync of their device, whatever
    /// its reason.
    pub refused: usize,
}

impl Synced {
    /// The sums of both.
    pub fn and(self, other: Synced) -> Synced {
        Synced {
            added: self.added.saturating_add(other.added),
            deleted: self.deleted.saturating_add(other.deleted),
            left_out: self.left_out.saturating_add(other.left_out),
            refused: self.refused.saturating_add(other.refused),
        }
    }

    /// Adds an entry unless it is there. Returns its slot.
    fn add(&mut self, table: &mut impl Table, entry: Entry) -> Option<usize> {
        let (count, place) = match table.read(|t| t.place(&entry)) {
            Ok(Place::There(index)) => return Some(index),
            Ok(Place::Free(index)) if table.apply(Step::Add(index, entry)) => {
                (&mut self.added, Some(index))
            }
            Ok(Place::Free(_)) => (&mut self.refused, None),
            // Zero GIDs are not desired, so the table must be full.
            Err(_) => (&mut self.left_out, None),
        };
        *count = count.saturating_add(1);
        place
    }

    /// Adds entries, in order. Many of them may be there already.
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

    /// Deletes the entries for which `goes` returns true. `goes` is called with the table locked.
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

/// Bloom filter of a set of entries, with one hash: each entry sets one bit.
///
/// It rules out nearly all entries that are not in the set without a comparison with each member.
/// Otherwise deleting hundreds of addresses would take quadratic time.
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

    /// One of 4096 bits. Most addresses of a device differ only in their last bytes.
    fn place(entry: &Entry) -> (usize, u64) {
        let gid = u128::from_be_bytes(entry.gid.0);
        // CAST: truncation to each half is intended.
        let folded = (gid as u64) ^ ((gid >> 64) as u64).rotate_left(32);
        // Fractional bits of the golden ratio, which spread neighbouring values (Knuth, 6.4).
        let hash = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        // CAST: below 64.
        ((hash >> 6) as usize, 1 << (hash & 63))
    }
}

/// The entries that a device's part of a table should have, for one pass over that part.
struct Wanted<I> {
    all: I,
    /// The entries after [`Self::expected`].
    ahead: I,
    /// The next entry, if the table is in order.
    expected: Option<Entry>,
    /// Whether all entries before [`Self::expected`] were found in the table.
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

    /// Returns whether the table has all of them.
    fn all_met(&self) -> bool {
        self.in_a_row && self.expected.is_none()
    }

    /// Returns whether the table's next entry is the expected one. Entries are mostly in the
    /// desired order.
    fn in_order(&mut self, entry: &Entry) -> bool {
        let found = self.expected == Some(*entry);
        if found {
            self.expected = self.ahead.next();
        }
        found
    }

    /// Returns whether an entry other than the expected one is wanted. If so, its successor is
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

/// Brings the part of the table that belongs to one device to its desired state. Entries that stay
/// keep their slots.
pub fn sync(table: &mut impl Table, port: &Port, device: &Device<'_>) -> Synced {
    let want = desired(port, device);
    let mut synced = Synced::default();
    let mut wanted = Wanted::new(want.clone());
    let mut from = 0;
    // Only entries out of order are searched for, with the table unlocked.
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
        // A GID that was first added as an address is now the default; it must be in the table
        // once.
        let place = synced.add(table, entry);
        if place.is_some_and(|index| table.read(|t| t.get(index) == Ok(&entry))) {
            let twin = Entry {
                origin: Origin::Ip,
                ..entry
            };
            synced.delete_where(table, |entry| *entry == twin);
        }
    }
    // The usual case: some of hundreds of entries were deleted and none has to be added.
    if !wanted.all_met() {
        synced.add_all(table, want.skip_while(is_default));
    }
    synced
}

/// Brings the entries of one address of a device to their desired state: adds them if the device
/// has the address now, else deletes them. All other entries stay as they are.
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
            // The slot may hold an entry with an old MAC address, or the default GID.
            let there = table.read(|t| t.get(index).ok().copied());
            let old = |there: &Entry| there.origin == Origin::Ip && *there != entry;
            if let Some(there) = there.filter(old) {
                synced.delete(table, index, there);
                let _: Option<usize> = synced.add(table, entry);
            }
        }
    }
    // For an address, `desired` returns entries of all types, or none.
    if !any {
        synced.delete_where(table, |entry| {
            entry.gid == gid && entry.ndev == device.id && entry.origin == Origin::Ip
        });
    }
    synced
}

/// Syncs all devices, and deletes the entries of devices that are gone.
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
        // An earlier device may need a slot that a later one released. This ends: a pass over
        // unchanged devices deletes only what the previous pass made superfluous.
        if pass.left_out == 0 || pass.deleted == 0 {
            return sum;
        }
    }
}

/// Syncs what is marked. A device that is marked itself and is gone loses its entries. For a device
/// of which only single addresses are marked, `devices` may omit the other addresses.
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
            // The device never was the port's, or its removal has set a mark of its own.
            (None, Some(_)) => {}
        }
    }
    synced
}
