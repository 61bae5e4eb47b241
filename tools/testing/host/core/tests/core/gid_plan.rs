// SPDX-License-Identifier: GPL-2.0

//! `gid_plan`: a small world of network devices, in which things happen at random.
//! Whatever is heard of it, and how late, the table ends as if it had been made
//! from the last state alone.

use rdma_core_engines::proto::gid::Gid;
use rdma_core_engines::proto::gid::GidType;
use rdma_core_engines::proto::gid::GidTypes;
use rdma_core_engines::proto::gid_marks::Dirty;
use rdma_core_engines::proto::gid_marks::Event;
use rdma_core_engines::proto::gid_marks::Marks;
use rdma_core_engines::proto::gid_marks::Word;
use rdma_core_engines::proto::gid_plan::sync_all;
use rdma_core_engines::proto::gid_plan::sync_marked;
use rdma_core_engines::proto::gid_plan::Address;
use rdma_core_engines::proto::gid_plan::Bond;
use rdma_core_engines::proto::gid_plan::Device;
use rdma_core_engines::proto::gid_plan::Port;
use rdma_core_engines::proto::gid_plan::Step;
use rdma_core_engines::proto::gid_plan::Synced;
use rdma_core_engines::proto::gid_plan::Table;
use rdma_core_engines::proto::gid_table::Entry;
use rdma_core_engines::proto::gid_table::GidTable;
use rdma_core_engines::proto::gid_table::Ndev;
use rdma_core_engines::proto::gid_table::Origin;
use rdma_core_engines::proto::gid_table::Slot;
use rdma_core_engines::proto::gid_table::View;
use rdma_core_engines::rng::Rng;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Plain,
    Bridge,
    Bond { active: Option<u64> },
    Vlan { below: u64 },
    Macvlan { below: u64 },
}

#[derive(Clone, Debug)]
struct Dev {
    kind: Kind,
    mac: [u8; 6],
    master: Option<u64>,
    registered: bool,
    addresses: Vec<Address>,
}

#[derive(Clone, Debug)]
struct World {
    devs: BTreeMap<u64, Dev>,
    port: Option<u64>,
    next: u64,
}

impl World {
    fn new() -> Self {
        let mut world = World {
            devs: BTreeMap::new(),
            port: Some(1),
            next: 1,
        };
        world.make(Kind::Plain);
        world
    }

    fn make(&mut self, kind: Kind) -> u64 {
        let id = self.next;
        self.next += 1;
        let dev = Dev {
            kind,
            mac: [2, 0, 0, 0, 0, id as u8],
            master: None,
            registered: true,
            addresses: Vec::new(),
        };
        self.devs.insert(id, dev);
        id
    }

    fn directly_above(&self, id: u64) -> Vec<u64> {
        let stacked = self.devs.iter().filter(|(_, d)| match d.kind {
            Kind::Vlan { below } | Kind::Macvlan { below } => below == id,
            _ => false,
        });
        let master = self.devs.get(&id).and_then(|d| d.master);
        stacked.map(|(id, _)| *id).chain(master).collect()
    }

    fn above(&self, id: u64) -> BTreeSet<u64> {
        let mut seen = BTreeSet::new();
        let mut todo = vec![id];
        while let Some(id) = todo.pop() {
            for upper in self.directly_above(id) {
                if seen.insert(upper) {
                    todo.push(upper);
                }
            }
        }
        seen
    }

    fn real(&self, id: u64) -> u64 {
        match self.devs[&id].kind {
            Kind::Vlan { below } => self.real(below),
            _ => id,
        }
    }

    fn bond(&self, id: u64) -> Bond {
        match self.devs[&id].kind {
            Kind::Bond { active } => Bond::Master(active.map(Ndev)),
            _ => Bond::No,
        }
    }

    fn port(&self, types: GidTypes) -> Port {
        let master = self.port.and_then(|p| self.devs[&p].master);
        Port {
            ndev: self.port.map(Ndev),
            is_bond_slave: master.is_some_and(|m| self.bond(m) != Bond::No),
            types,
        }
    }

    fn devices(&self) -> Vec<Device<'_>> {
        let above = self.port.map(|p| self.above(p)).unwrap_or_default();
        let devs = self.devs.iter().map(|(id, dev)| Device {
            id: Ndev(*id),
            mac: dev.mac,
            dev_id: 0,
            registered: dev.registered,
            above_port: above.contains(id),
            bond: self.bond(*id),
            real: Ndev(self.real(*id)),
            real_bond: self.bond(self.real(*id)),
            addresses: &dev.addresses,
        });
        devs.collect()
    }

    /// The rules once more, device by device and from the other end.
    fn should_have(&self, types: GidTypes) -> BTreeSet<Entry> {
        let mut all = BTreeSet::new();
        let Some(port) = self.port else {
            return all;
        };
        let above = self.above(port);
        let is_bond = |id: u64| matches!(self.devs[&id].kind, Kind::Bond { .. });
        let slave = self.devs[&port].master.is_some_and(is_bond);
        for (id, dev) in self.devs.iter().filter(|(_, d)| d.registered) {
            let default = Gid::link_local(dev.mac, 0);
            let has_default = (*id == port && !slave) || (is_bond(*id) && above.contains(id));
            let waits = match self.devs[&self.real(*id)].kind {
                Kind::Bond { active: Some(one) } => one != port,
                _ => false,
            };
            let has_ips = self.real(*id) == port || (above.contains(id) && !waits);
            for gid_type in types.iter() {
                let mut put = |origin, gid| {
                    all.insert(Entry {
                        origin,
                        gid,
                        gid_type,
                        ndev: Ndev(*id),
                        mac: dev.mac,
                    })
                };
                if has_default {
                    put(Origin::Default, default);
                }
                for gid in dev.addresses.iter().map(|a| a.gid()).filter(|_| has_ips) {
                    if !(has_default && gid == default) {
                        put(Origin::Ip, gid);
                    }
                }
            }
        }
        all
    }

    fn any(&self, rng: &mut Rng) -> u64 {
        rng.pick(&self.devs.keys().copied().collect::<Vec<_>>())
    }

    fn address(&self, rng: &mut Rng, id: u64) -> Address {
        match rng.below(3) {
            0 => Address::V6(Gid::link_local(self.devs[&id].mac, 0).0),
            1 => Address::V6([
                0xfd,
                1,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                rng.below(4) as u8,
            ]),
            _ => Address::V4([10, 0, rng.below(2) as u8, rng.below(4) as u8]),
        }
    }

    /// Something happens; answers the events that the kernel would send.
    fn happen(&mut self, rng: &mut Rng) -> Vec<Event> {
        let id = self.any(rng);
        match rng.below(12) {
            0 if self.devs.len() < 8 => {
                let kind = match rng.below(5) {
                    0 => Kind::Plain,
                    1 => Kind::Bridge,
                    2 => Kind::Bond { active: None },
                    3 => Kind::Vlan { below: id },
                    _ => Kind::Macvlan { below: id },
                };
                let new = self.make(kind);
                vec![Event::Device(Ndev(new)), Event::Topology]
            }
            1 => {
                // Under a master, or out from under it.
                let dev = &self.devs[&id];
                let new = match dev.master {
                    Some(_) => None,
                    None => {
                        let over = self.any(rng);
                        let is_master =
                            matches!(self.devs[&over].kind, Kind::Bond { .. } | Kind::Bridge);
                        let circle = over == id || self.above(over).contains(&id);
                        let down_circle = self.above(id).contains(&over);
                        if !is_master || circle || down_circle {
                            return vec![];
                        }
                        Some(over)
                    }
                };
                if let Some(Kind::Bond { active }) = dev
                    .master
                    .and_then(|m| self.devs.get_mut(&m))
                    .map(|d| &mut d.kind)
                {
                    if *active == Some(id) {
                        *active = None;
                    }
                }
                self.devs.get_mut(&id).unwrap().master = new;
                vec![Event::Topology]
            }
            2 => {
                let slaves: Vec<u64> = (self.devs.iter())
                    .filter(|(_, d)| d.master == Some(id))
                    .map(|(id, _)| *id)
                    .collect();
                let one = (!slaves.is_empty() && !rng.one_in(4)).then(|| rng.pick(&slaves));
                match &mut self.devs.get_mut(&id).unwrap().kind {
                    Kind::Bond { active } => *active = one,
                    _ => return vec![],
                }
                vec![Event::Topology]
            }
            3 => {
                let mac = [2, 0, 0, 1, 0, rng.below(200) as u8];
                self.devs.get_mut(&id).unwrap().mac = mac;
                vec![Event::Device(Ndev(id))]
            }
            4 if id != 1 && rng.one_in(2) => {
                // Unregistered: first it is said so, then it is gone.
                if self.devs[&id].registered {
                    self.devs.get_mut(&id).unwrap().registered = false;
                    return vec![Event::Device(Ndev(id))];
                }
                if !self.directly_above(id).is_empty()
                    || self.devs.values().any(|d| d.master == Some(id))
                    || self.devs[&id].master.is_some()
                {
                    return vec![];
                }
                let port_gone = self.port == Some(id);
                if port_gone {
                    self.port = None;
                }
                self.devs.remove(&id);
                match port_gone {
                    true => vec![Event::Topology],
                    false => vec![Event::Device(Ndev(id))],
                }
            }
            5 if rng.one_in(6) => {
                self.port = (!rng.one_in(3)).then(|| self.any(rng));
                vec![Event::Topology]
            }
            6..=9 => {
                let address = self.address(rng, id);
                let addresses = &mut self.devs.get_mut(&id).unwrap().addresses;
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
                // As the kernel does: of IPv4 it is certain that what came is there.
                let word = match address {
                    Address::V4(_) => Word::Has,
                    Address::V6(_) => Word::Unknown,
                };
                vec![Event::Address(Ndev(id), address, word)]
            }
            _ => {
                let addresses = &mut self.devs.get_mut(&id).unwrap().addresses;
                if addresses.is_empty() {
                    return vec![];
                }
                let gone = addresses.remove(rng.below(addresses.len()));
                vec![Event::Address(Ndev(id), gone, Word::Unknown)]
            }
        }
    }
}

/// A sync of what is marked, which sees nothing else.
fn sync_seen(table: &mut impl Table, types: GidTypes, world: &World, marks: &Marks) -> Synced {
    let mut devices = world.devices();
    devices.retain(|device| marks.has(device.id));
    let seen: Vec<Vec<Address>> = (devices.iter())
        .map(|device| match marks.addresses_of(device.id) {
            Some(marked) => marked
                .filter(|(address, word)| *word == Word::Has || device.addresses.contains(address))
                .map(|(address, _)| address)
                .collect(),
            None => device.addresses.to_vec(),
        })
        .collect();
    for (device, seen) in devices.iter_mut().zip(&seen) {
        device.addresses = seen;
    }
    sync_marked(table, &world.port(types), devices.iter(), marks)
}

/// The worker: syncs until nothing is marked.
fn work(table: &mut GidTable<'_>, world: &World, dirty: &mut Dirty) {
    work_while(table, world, dirty, |_| false);
}

/// The same, while others put what they hold, as told by `put`: whether a slot became free.
fn work_while(
    table: &mut GidTable<'_>,
    world: &World,
    dirty: &mut Dirty,
    mut put: impl FnMut(&mut GidTable<'_>) -> bool,
) {
    for _ in 0..10 {
        if dirty.is_clean() {
            return;
        }
        let marks = dirty.take();
        let synced = sync_seen(table, table.types(), world, &marks);
        if put(table) {
            dirty.note(Event::Room);
        }
        dirty.done(&marks, &synced);
    }
    panic!("the worker never comes to rest");
}

fn has(table: &GidTable<'_>) -> BTreeSet<Entry> {
    table.entries().map(|(_, entry)| *entry).collect()
}

#[test]
fn histories_end_where_a_fresh_start_does() {
    let mut compared = 0;
    for seed in 0..4_000 {
        let mut rng = Rng::new(seed);
        let types = GidTypes::roce(!rng.one_in(4), true);
        let mut world = World::new();
        // Enough slots, so that all fits but default GIDs of nested bonds.
        let mut slots = vec![Slot::default(); 400];
        let mut table = GidTable::new(&mut slots, types);
        let mut dirty = Dirty::default();
        dirty.note(Event::Topology);
        let patience = rng.pick(&[1, 1, 4, 200]);
        for _ in 0..60 {
            for event in world.happen(&mut rng) {
                dirty.note(event);
            }
            if rng.one_in(8) {
                // A sync that cannot be done, and others before its marks are put back.
                let marks = dirty.take();
                for event in world.happen(&mut rng) {
                    dirty.note(event);
                }
                if rng.one_in(2) {
                    work(&mut table, &world, &mut dirty);
                }
                dirty.put_back(marks);
            }
            if rng.one_in(patience) {
                work(&mut table, &world, &mut dirty);
            }
        }
        work(&mut table, &world, &mut dirty);

        let mut fresh_slots = vec![Slot::default(); 400];
        let mut fresh = GidTable::new(&mut fresh_slots, types);
        let devices = world.devices();
        let synced = sync_all(&mut fresh, &world.port(types), devices.iter());
        if synced.left_out == 0 {
            compared += 1;
            assert_eq!(
                has(&table),
                world.should_have(types),
                "seed {seed}: {world:#?}"
            );
            assert_eq!(has(&table), has(&fresh), "seed {seed}");
        }
        // Nothing is to be done twice.
        let again = sync_all(&mut table, &world.port(types), devices.iter());
        assert_eq!((again.added, again.deleted), (0, 0), "seed {seed}");
    }
    assert!(compared > 3_000, "{compared} histories compared");
}

#[test]
fn gids_that_did_not_fit_are_added_when_slots_are_free() {
    let mut starved = 0;
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let types = GidTypes::roce(true, true);
        let mut world = World::new();
        let mut slots = vec![Slot::default(); 3 + rng.below(8)];
        let len = slots.len();
        let mut table = GidTable::new(&mut slots, types);
        let mut dirty = Dirty::default();
        dirty.note(Event::Topology);
        let mut holds = Vec::new();
        for step in 0..80 {
            // The worker may be late.
            for _ in 0..rng.pick(&[1, 1, 3]) {
                for event in world.happen(&mut rng) {
                    dirty.note(event);
                }
            }
            if let Ok(hold) = table.hold(rng.below(len)) {
                holds.push(hold);
            }
            if rng.one_in(2) && !holds.is_empty() {
                let hold = holds.swap_remove(rng.below(holds.len()));
                if table.put(hold) {
                    dirty.note(Event::Room);
                }
            }
            let mut late = holds.pop().filter(|_| rng.one_in(2));
            work_while(&mut table, &world, &mut dirty, |table| {
                late.take().is_some_and(|hold| table.put(hold))
            });
            let (want, have) = (world.should_have(types), has(&table));
            for entry in &have {
                // The twin of a default GID that found no room is right, too.
                let as_default = Entry {
                    origin: Origin::Default,
                    ..*entry
                };
                assert!(
                    want.contains(entry) || want.contains(&as_default),
                    "{seed}.{step}: {entry:?} has no place here"
                );
            }
            let mut full = |origin| {
                let probe = Entry {
                    origin,
                    gid: Gid([0xee; 16]),
                    gid_type: GidType::RoceV1,
                    ndev: Ndev(u64::MAX),
                    mac: [0; 6],
                };
                let refused = table.add(probe).is_err();
                refused || table.del_ndev(probe.ndev) == 0
            };
            for origin in [Origin::Default, Origin::Ip] {
                if want.iter().any(|e| e.origin == origin && !have.contains(e)) {
                    starved += 1;
                    assert!(full(origin), "seed {seed}, step {step}: room, and not used");
                }
            }
        }
        for hold in holds {
            if table.put(hold) {
                dirty.note(Event::Room);
            }
        }
    }
    assert!(starved > 1_000, "{starved} times starved");
}

/// Somebody's slot becomes free after it was looked for, and nothing else happens.
#[test]
fn a_slot_that_becomes_free_late_is_used() {
    let types = GidTypes::roce(false, true);
    let (old, new) = (Address::V4([10, 0, 0, 1]), Address::V4([10, 0, 0, 2]));
    let both = [new, old].map(|address| Event::Address(Ndev(1), address, Word::Unknown));
    for held in [true, false] {
        let mut world = World::new();
        // The default GID's, and one more.
        let mut slots = vec![Slot::default(); 2];
        let mut table = GidTable::new(&mut slots, types);
        let mut dirty = Dirty::default();
        world.devs.get_mut(&1).unwrap().addresses = vec![old];
        dirty.note(Event::Device(Ndev(1)));
        work(&mut table, &world, &mut dirty);
        let mut hold = held.then(|| table.hold(1).unwrap());
        // That which comes is looked at before that which goes.
        world.devs.get_mut(&1).unwrap().addresses = vec![new];
        both.into_iter().for_each(|event| dirty.note(event));
        work_while(&mut table, &world, &mut dirty, |table| {
            hold.take().is_some_and(|hold| table.put(hold))
        });
        assert_eq!(has(&table), world.should_have(types), "held: {held}");
    }
}

/// In the kernel each slot that a sync empties is told of in its middle, too.
/// One that has no room for all comes to rest all the same.
#[test]
fn a_full_table_comes_to_rest() {
    let types = GidTypes::roce(false, true);
    let mut world = World::new();
    let mut slots = vec![Slot::default(); 4];
    let mut table = GidTable::new(&mut slots, types);
    let mut dirty = Dirty::default();
    for first in [0, 2, 4] {
        let addresses = (first..first + 6).map(|i| Address::V4([10, 0, 0, i]));
        world.devs.get_mut(&1).unwrap().addresses = addresses.collect();
        dirty.note(Event::Topology);
        let mut freed = has(&table);
        work_while(&mut table, &world, &mut dirty, |table| {
            let there = has(table);
            let any = !freed.is_subset(&there);
            freed = there;
            any
        });
        assert_eq!(has(&table).len(), 4);
        assert!(has(&table).is_subset(&world.should_have(types)));
    }
}

/// A table behind a driver that keeps its own, and refuses now and then.
struct Driven<'a, 's> {
    table: &'a mut GidTable<'s>,
    hardware: BTreeMap<usize, Entry>,
    rng: Rng,
    moody: bool,
}

impl Table for Driven<'_, '_> {
    type Cell = Slot;

    fn read<R>(&self, look: impl FnOnce(&View<'_, Slot>) -> R) -> R {
        look(&self.table.view())
    }

    fn apply(&mut self, step: Step) -> bool {
        match step {
            Step::Delete(index, entry) => {
                assert_eq!(self.table.delete(index), Some(entry));
                assert_eq!(self.hardware.remove(&index), Some(entry));
                true
            }
            Step::Add(_, _) if self.moody && self.rng.one_in(3) => false,
            Step::Add(index, entry) => {
                assert!(self.table.insert(index, entry));
                assert_eq!(self.hardware.insert(index, entry), None);
                true
            }
        }
    }
}

#[test]
fn a_driver_sees_every_change_and_may_refuse() {
    let mut refused = 0;
    for seed in 0..1_000 {
        let mut rng = Rng::new(seed);
        let types = GidTypes::roce(true, true);
        let mut world = World::new();
        let mut slots = vec![Slot::default(); 400];
        let mut table = GidTable::new(&mut slots, types);
        let mut driven = Driven {
            table: &mut table,
            hardware: BTreeMap::new(),
            rng: Rng::new(!seed),
            moody: true,
        };
        for _ in 0..60 {
            let events = world.happen(&mut rng);
            let mut dirty = Dirty::default();
            events.into_iter().for_each(|event| dirty.note(event));
            let marks = dirty.take();
            refused += sync_seen(&mut driven, types, &world, &marks).refused;
            let table: BTreeMap<usize, Entry> =
                driven.table.entries().map(|(i, e)| (i, *e)).collect();
            assert_eq!(driven.hardware, table, "seed {seed}");
        }
        driven.moody = false;
        let devices = world.devices();
        let synced = sync_all(&mut driven, &world.port(types), devices.iter());
        if synced.left_out == 0 {
            assert_eq!(synced.refused, 0);
            assert_eq!(has(driven.table), world.should_have(types), "seed {seed}");
        }
    }
    assert!(refused > 1_000, "{refused} times refused");
}

#[test]
fn a_storm_marks_everything() {
    let mut dirty = Dirty::default();
    assert!(dirty.is_clean());
    for i in 0..1_000 {
        dirty.note(Event::Address(
            Ndev(i),
            Address::V4([10, 1, 0, 1]),
            Word::Unknown,
        ));
    }
    assert_eq!(dirty.clone().take(), Marks::All);
    let mut world = World::new();
    for i in 0..20 {
        let id = world.make(Kind::Macvlan { below: 1 });
        world.devs.get_mut(&id).unwrap().addresses = vec![Address::V4([10, 1, 0, i])];
    }
    let types = GidTypes::roce(false, true);
    let mut slots = vec![Slot::default(); 64];
    let mut table = GidTable::new(&mut slots, types);
    work(&mut table, &world, &mut dirty);
    assert_eq!(has(&table), world.should_have(types));
    assert_eq!(table.entries().count(), 21);
    // A sync that failed half-way is done again.
    let gone = world.devs.get_mut(&2).unwrap().addresses.remove(0);
    let marks = {
        dirty.note(Event::Address(Ndev(2), gone, Word::Unknown));
        dirty.take()
    };
    assert!(dirty.is_clean());
    dirty.put_back(marks);
    work(&mut table, &world, &mut dirty);
    assert_eq!(has(&table), world.should_have(types));
}

#[test]
fn a_bond_moves_its_addresses_to_the_active_slave() {
    let types = GidTypes::roce(false, true);
    let mut world = World::new();
    let bond = world.make(Kind::Bond { active: None });
    let other = world.make(Kind::Plain);
    let vlan = world.make(Kind::Vlan { below: bond });
    for id in [1, other] {
        world.devs.get_mut(&id).unwrap().master = Some(bond);
    }
    world.devs.get_mut(&1).unwrap().addresses = vec![Address::V4([10, 0, 0, 1])];
    world.devs.get_mut(&bond).unwrap().addresses = vec![Address::V4([10, 0, 0, 2])];
    world.devs.get_mut(&vlan).unwrap().addresses = vec![Address::V4([10, 0, 0, 3])];
    let mut slots = vec![Slot::default(); 16];
    let mut table = GidTable::new(&mut slots, types);
    let mut seen = |active| {
        world.devs.get_mut(&bond).unwrap().kind = Kind::Bond { active };
        let devices = world.devices();
        let _ = sync_all(&mut table, &world.port(types), devices.iter());
        has(&table)
            .into_iter()
            .map(|e| (e.origin, e.ndev.0, e.gid.0[15]))
            .collect::<Vec<_>>()
    };
    let default = (Origin::Default, bond, bond as u8);
    let own = (Origin::Ip, 1, 1);
    let of_bond = [(Origin::Ip, bond, 2), (Origin::Ip, vlan, 3)];
    assert_eq!(seen(None), [&[default, own], &of_bond[..]].concat());
    assert_eq!(seen(Some(1)), [&[default, own], &of_bond[..]].concat());
    assert_eq!(seen(Some(other)), [default, own]);
}

/// What a driver refused is tried again whenever something happens to its device.
#[test]
fn a_refused_gid_is_replaced_by_the_next_address() {
    let types = GidTypes::roce(false, true);
    let mut world = World::new();
    let (one, two) = (Address::V4([10, 0, 0, 1]), Address::V4([10, 0, 0, 2]));
    let mut slots = vec![Slot::default(); 16];
    let mut table = GidTable::new(&mut slots, types);
    let mut dirty = Dirty::default();
    world.devs.get_mut(&1).unwrap().addresses = vec![one, two];
    dirty.note(Event::Address(Ndev(1), one, Word::Unknown));
    let marks = dirty.take();
    // Meanwhile.
    dirty.note(Event::Address(Ndev(1), two, Word::Unknown));
    let refused = Synced {
        refused: 1,
        ..Synced::default()
    };
    dirty.done(&marks, &refused);
    work(&mut table, &world, &mut dirty);
    assert_eq!(has(&table), world.should_have(types));
    // And later.
    let three = Address::V4([10, 0, 0, 3]);
    world.devs.get_mut(&1).unwrap().addresses.push(three);
    dirty.done(&marks, &refused);
    dirty.note(Event::Address(Ndev(1), three, Word::Unknown));
    assert!(dirty.clone().take().addresses_of(Ndev(1)).is_none());
}

/// Hundreds of addresses that come or go at once cost so many looks, not their square.
#[test]
fn hundreds_of_addresses_are_cheap() {
    struct Counted<'a, 's>(&'a mut GidTable<'s>, std::cell::Cell<usize>);
    impl Table for Counted<'_, '_> {
        type Cell = Slot;
        fn read<R>(&self, look: impl FnOnce(&View<'_, Slot>) -> R) -> R {
            self.1.set(self.1.get() + 1);
            look(&self.0.view())
        }
        fn apply(&mut self, step: Step) -> bool {
            self.0.apply(step)
        }
    }
    let types = GidTypes::roce(false, true);
    let mut world = World::new();
    let mut slots = vec![Slot::default(); 1024];
    let mut table = GidTable::new(&mut slots, types);
    let mut counted = Counted(&mut table, Default::default());
    let all: Vec<_> = (0..500)
        .map(|i| Address::V4([10, 0, (i / 250) as u8, (i % 250) as u8 + 1]))
        .collect();
    let mut looks = |world: &World, event| {
        let mut dirty = Dirty::default();
        dirty.note(event);
        counted.1.set(0);
        let synced = sync_seen(&mut counted, types, world, &dirty.take());
        assert_eq!(has(counted.0), world.should_have(types));
        (synced.added, synced.deleted, counted.1.get())
    };
    let set = |world: &mut World, list: &[Address]| {
        world.devs.get_mut(&1).unwrap().addresses = list.to_vec()
    };
    set(&mut world, &all[..499]);
    assert!(looks(&world, Event::Device(Ndev(1))).2 < 1_100);
    set(&mut world, &all);
    let (added, _, few) = looks(&world, Event::Address(Ndev(1), all[499], Word::Has));
    assert!(added == 1 && few < 5, "{added} {few}");
    // Nothing to do, and none of the table looked at twice.
    let (_, _, few) = looks(&world, Event::Device(Ndev(1)));
    assert!(few < 8, "{few}");
    set(&mut world, &all[250..]);
    let (_, deleted, some) = looks(&world, Event::Device(Ndev(1)));
    assert!(deleted == 250 && some < 270, "{deleted} {some}");
}
