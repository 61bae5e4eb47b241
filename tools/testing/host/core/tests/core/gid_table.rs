// SPDX-License-Identifier: GPL-2.0

//! `gid` and `gid_table`: fixed values, rules by hand, and random histories
//! against a naive table.

use rdma_core_engines::proto::errno::Errno;
use rdma_core_engines::proto::gid::Gid;
use rdma_core_engines::proto::gid::GidType;
use rdma_core_engines::proto::gid::GidTypes;
use rdma_core_engines::proto::gid_table::Change;
use rdma_core_engines::proto::gid_table::Entry;
use rdma_core_engines::proto::gid_table::GidTable;
use rdma_core_engines::proto::gid_table::Hold;
use rdma_core_engines::proto::gid_table::Ndev;
use rdma_core_engines::proto::gid_table::Origin;
use rdma_core_engines::proto::gid_table::Refusal;
use rdma_core_engines::proto::gid_table::Slot;
use rdma_core_engines::proto::gid_table::Used;
use rdma_core_engines::proto::gid_table::View;
use rdma_core_engines::rng::Rng;

const BOTH: GidTypes = GidTypes::roce(true, true);

fn ip(last: u8, gid_type: GidType, ndev: u64) -> Entry {
    Entry {
        origin: Origin::Ip,
        gid: Gid::from_ipv4([10, 0, 0, last]),
        gid_type,
        ndev: Ndev(ndev),
        mac: [2, 0, 0, 0, 0, 1],
    }
}

#[test]
fn identifiers_of_addresses() {
    assert_eq!(
        Gid::from_ipv4([192, 0, 2, 1]).0,
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1]
    );
    // 52:54:00:12:34:56 is fe80::5054:ff:fe12:3456.
    assert_eq!(
        Gid::link_local([0x52, 0x54, 0, 0x12, 0x34, 0x56], 0).0,
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x50, 0x54, 0, 0xff, 0xfe, 0x12, 0x34, 0x56]
    );
    assert_eq!(
        Gid::link_local([0x52, 0x54, 0, 0x12, 0x34, 0x56], 0x0102).0,
        [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0x52, 0x54, 0, 1, 2, 0x12, 0x34, 0x56]
    );
    let gid = Gid::link_local([0x52, 0x54, 0, 0x12, 0x34, 0x9a], 0x0b02);
    assert_eq!(&gid.text(), b"fe80:0000:0000:0000:5254:000b:0212:349a");
    assert_eq!(GidType::Ib as u8, 0);
    assert_eq!(GidType::RoceV1 as u8, 1);
    assert_eq!(GidType::RoceV2 as u8, 2);
}

#[test]
fn default_slots_are_for_defaults() {
    let mut slots = vec![Slot::default(); 4];
    let mut table = GidTable::new(&mut slots, BOTH);
    let v2 = GidType::RoceV2;
    assert_eq!(table.add(ip(1, v2, 1)), Ok(Change::Made(2)));
    assert_eq!(table.add(ip(2, v2, 1)), Ok(Change::Made(3)));
    assert_eq!(table.add(ip(3, v2, 1)), Err(Refusal::Full));
    assert_eq!(Refusal::Full.errno(), Errno::Enospc);
    let default = Entry {
        origin: Origin::Default,
        gid: Gid::link_local([2, 0, 0, 0, 0, 1], 0),
        ..ip(0, v2, 1)
    };
    assert_eq!(table.add(default), Ok(Change::Made(0)));
    // Same type and device: there already, though the MAC is another.
    let other_mac = Entry {
        gid: Gid::link_local([2, 0, 0, 0, 0, 2], 0),
        ..default
    };
    assert_eq!(table.add(other_mac), Ok(Change::Nothing(0)));
    // The link-local address of the MAC is there as a default, and is not to be
    // deleted as an address.
    let twin = Entry {
        origin: Origin::Ip,
        ..default
    };
    assert_eq!(table.add(twin), Ok(Change::Nothing(0)));
    assert_eq!(
        table.del_ip(&default.gid, v2, Ndev(1)),
        Err(Refusal::NotThere)
    );
    let zero = Entry {
        gid: Gid::ZERO,
        ..twin
    };
    assert_eq!(table.add(zero), Err(Refusal::ZeroGid));
    assert_eq!(table.get(1), Err(Refusal::Empty));
    assert_eq!(table.get(4), Err(Refusal::NoSuchIndex));
    assert_eq!(Refusal::Empty.errno(), Errno::Enodata);
    assert_eq!(table.del_ndev(Ndev(1)), 3);
    assert_eq!(table.entries().count(), 0);
}

#[test]
fn a_table_smaller_than_its_defaults() {
    let mut slots = vec![Slot::default(); 1];
    let mut table = GidTable::new(&mut slots, BOTH);
    assert_eq!(table.add(ip(1, GidType::RoceV2, 1)), Err(Refusal::Full));
    let mut none = [];
    assert!(GidTable::new(&mut none, BOTH).is_empty());
}

#[test]
fn a_hold_outlives_its_entry() {
    let mut slots = vec![Slot::default(); 3];
    let mut table = GidTable::new(&mut slots, GidTypes::roce(false, true));
    let one = ip(1, GidType::RoceV2, 7);
    assert_eq!(table.add(one), Ok(Change::Made(1)));
    let hold = table.hold(1).unwrap();
    assert_eq!(table.held_ndev(&hold), Ok(Ndev(7)));
    assert_eq!(
        table.del_ip(&one.gid, one.gid_type, one.ndev),
        Ok(Change::Made(1))
    );
    // Found by nobody, read by its holder, without its device.
    assert_eq!(
        table.find(&one.gid, one.gid_type, None),
        Err(Refusal::NotFound)
    );
    assert_eq!(table.hold(1), Err(Refusal::Empty));
    assert_eq!(table.held_gid(&hold), Some((one.gid, one.gid_type)));
    assert_eq!(table.held_ndev(&hold), Err(Refusal::NoNdev));
    // The same again goes elsewhere.
    assert_eq!(table.add(one), Ok(Change::Made(2)));
    assert_eq!(table.add(ip(2, GidType::RoceV2, 7)), Err(Refusal::Full));
    let second = table.hold_again(&hold).unwrap();
    assert!(!table.put(hold));
    assert!(table.put(second));
    assert_eq!(table.add(ip(2, GidType::RoceV2, 7)), Ok(Change::Made(1)));
}

#[test]
fn find_looks_at_what_it_is_told_to() {
    let mut slots = vec![Slot::default(); 8];
    let mut table = GidTable::new(&mut slots, BOTH);
    for entry in [
        ip(1, GidType::RoceV1, 1),
        ip(1, GidType::RoceV2, 1),
        ip(1, GidType::RoceV2, 2),
    ] {
        let _ = table.add(entry).unwrap();
    }
    let gid = Gid::from_ipv4([10, 0, 0, 1]);
    assert_eq!(table.find(&gid, GidType::RoceV2, None), Ok(3));
    assert_eq!(table.find(&gid, GidType::RoceV2, Some(Ndev(2))), Ok(4));
    assert_eq!(
        table.find(&gid, GidType::RoceV1, Some(Ndev(2))),
        Err(Refusal::NotFound)
    );
    assert_eq!(table.find_by(&gid, |e| e.ndev == Ndev(2)), Ok(4));
    assert_eq!(table.find_by(&gid, |_| false), Err(Refusal::NotFound));
    assert_eq!(table.find_by(&Gid::ZERO, |_| true), Err(Refusal::NotFound));
}

/// A table as one would write it without thinking of memory or slots in a row.
#[derive(Default, Clone)]
struct Naive {
    /// The entry, whether it is valid, and who holds it.
    slots: Vec<Option<(Entry, bool, usize)>>,
}

impl Naive {
    fn valid(&self, index: usize) -> Option<Entry> {
        self.slots[index].filter(|s| s.1).map(|s| s.0)
    }

    fn add(&mut self, entry: Entry, defaults: usize) -> Result<Change, Refusal> {
        for index in 0..self.slots.len() {
            if let Some(e) = self.valid(index) {
                let same = match entry.origin {
                    Origin::Ip => e.gid == entry.gid,
                    Origin::Default => e.origin == Origin::Default,
                };
                if same && (e.gid_type, e.ndev) == (entry.gid_type, entry.ndev) {
                    return Ok(Change::Nothing(index));
                }
            }
        }
        for index in 0..self.slots.len() {
            let kind_fits = (index < defaults) == (entry.origin == Origin::Default);
            if kind_fits && self.slots[index].is_none() {
                self.slots[index] = Some((entry, true, 0));
                return Ok(Change::Made(index));
            }
        }
        Err(Refusal::Full)
    }

    fn del(&mut self, index: usize) {
        let slot = self.slots[index].as_mut().unwrap();
        slot.1 = false;
        if slot.2 == 0 {
            self.slots[index] = None;
        }
    }
}

#[test]
fn random_histories() {
    for seed in 0..3_000 {
        let mut rng = Rng::new(seed);
        let len = 2 + rng.below(8);
        let mut slots = vec![Slot::default(); len];
        let mut table = GidTable::new(&mut slots, BOTH);
        let mut naive = Naive {
            slots: vec![None; len],
        };
        let mut holds: Vec<(Hold, Entry)> = Vec::new();
        for step in 0..120 {
            let entry = Entry {
                origin: rng.pick(&[Origin::Default, Origin::Ip, Origin::Ip]),
                gid: Gid::from_ipv4([0, 0, 0, rng.below(4) as u8]),
                gid_type: rng.pick(&GidType::ROCE),
                ndev: Ndev(rng.below(3) as u64),
                mac: [2, 0, 0, 0, 0, 1],
            };
            let index = rng.below(len);
            match rng.below(8) {
                0..=2 => assert_eq!(table.add(entry), naive.add(entry, 2), "{seed}.{step}"),
                3 => {
                    let ours = match entry.origin {
                        Origin::Ip => table.del_ip(&entry.gid, entry.gid_type, entry.ndev),
                        Origin::Default => table.del_default(entry.gid_type, entry.ndev),
                    };
                    let theirs = (0..len).find(|i| {
                        naive.valid(*i).is_some_and(|e| {
                            let gid = if entry.origin == Origin::Ip {
                                entry.gid
                            } else {
                                e.gid
                            };
                            e == Entry { gid, ..entry }
                        })
                    });
                    if let Some(index) = theirs {
                        naive.del(index);
                    }
                    assert_eq!(ours, theirs.map(Change::Made).ok_or(Refusal::NotThere));
                }
                4 if rng.one_in(4) => {
                    let there: Vec<_> = (0..len)
                        .filter(|i| naive.valid(*i).is_some_and(|e| e.ndev == entry.ndev))
                        .collect();
                    assert_eq!(table.del_ndev(entry.ndev), there.len());
                    there.into_iter().for_each(|i| naive.del(i));
                }
                5 => match (table.hold(index), naive.valid(index)) {
                    (Ok(hold), Some(entry)) => {
                        naive.slots[index].as_mut().unwrap().2 += 1;
                        holds.push((hold, entry));
                    }
                    (Err(Refusal::Empty), None) => {}
                    other => panic!("{seed}.{step}: {other:?}"),
                },
                _ if !holds.is_empty() => {
                    let (hold, entry) = holds.swap_remove(rng.below(holds.len()));
                    let index = hold.index();
                    assert_eq!(table.held_gid(&hold), Some((entry.gid, entry.gid_type)));
                    let freed = table.put(hold);
                    let slot = naive.slots[index].as_mut().unwrap();
                    slot.2 -= 1;
                    assert_eq!(freed, !slot.1 && slot.2 == 0, "{seed}.{step}");
                    if freed {
                        naive.slots[index] = None;
                    }
                }
                _ => {}
            }
            for index in 0..len {
                assert_eq!(
                    table.get(index).ok().copied(),
                    naive.valid(index),
                    "seed {seed}, step {step}, slot {index}"
                );
            }
        }
    }
}

/// Who looks at the used part alone sees what all of the table would show.
#[test]
fn later_slots_are_searched() {
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let len = 1 + rng.below(9);
        let mut slots = vec![Slot::default(); len];
        let mut used = Used::default();
        let mut holds: Vec<Hold> = Vec::new();
        for step in 0..120 {
            let entry = Entry {
                origin: rng.pick(&[Origin::Default, Origin::Ip, Origin::Ip]),
                gid: Gid::from_ipv4([0, 0, 0, rng.below(4) as u8]),
                gid_type: rng.pick(&GidType::ROCE),
                ndev: Ndev(rng.below(3) as u64),
                mac: [2, 0, 0, 0, 0, 1],
            };
            let front = View::new(&slots, BOTH, used);
            let (place, found) = (front.place(&entry), front.find_by(&entry.gid, |_| true));
            let seen: Vec<_> = front.entries().map(|(i, e)| (i, *e)).collect();
            let mut table = GidTable::new(&mut slots, BOTH);
            assert_eq!(place, table.place(&entry), "{seed}.{step}");
            assert_eq!(found, table.find_by(&entry.gid, |_| true));
            assert!(table.entries().map(|(i, e)| (i, *e)).eq(seen));
            match rng.below(4) {
                0 | 1 => {
                    if let Ok(Change::Made(index)) = table.add(entry) {
                        used.took(index);
                    }
                }
                2 => {
                    let index = rng.below(len);
                    holds.extend(rng.one_in(3).then(|| table.hold(index).ok()).flatten());
                    table.delete(index);
                }
                _ if !holds.is_empty() => {
                    table.put(holds.swap_remove(rng.below(holds.len())));
                }
                _ => {}
            }
            used.freed(&slots);
            let last = slots.iter().rposition(|slot| !slot.is_free());
            assert_eq!(
                used.of(&slots).len(),
                last.map_or(0, |i| i + 1),
                "{seed}.{step}"
            );
        }
    }
}
