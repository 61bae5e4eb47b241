// SPDX-License-Identifier: GPL-2.0

//! `gid_plan` against tables of the C core, recorded while VLANs, macvlans, a
//! bridge and a bond came and went.

use rdma_core_engines::proto::gid::Gid;
use rdma_core_engines::proto::gid::GidType;
use rdma_core_engines::proto::gid::GidTypes;
use rdma_core_engines::proto::gid_plan::sync_all;
use rdma_core_engines::proto::gid_plan::Address;
use rdma_core_engines::proto::gid_plan::Bond;
use rdma_core_engines::proto::gid_plan::Device;
use rdma_core_engines::proto::gid_plan::Port;
use rdma_core_engines::proto::gid_table::GidTable;
use rdma_core_engines::proto::gid_table::Ndev;
use rdma_core_engines::proto::gid_table::Slot;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

#[derive(Debug)]
struct Dev {
    kind: String,
    other: Option<u64>,
    master: Option<u64>,
    mac: [u8; 6],
    addresses: Vec<Address>,
}

type Row = (GidType, u64, Gid);

#[derive(Debug, Default)]
struct Snapshot {
    name: String,
    devs: BTreeMap<u64, Dev>,
    ports: Vec<(u64, BTreeSet<Row>)>,
}

fn bytes<const N: usize>(hex: &str) -> [u8; N] {
    assert_eq!(hex.len(), 2 * N);
    std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
}

fn snapshots() -> Vec<Snapshot> {
    let mut all: Vec<Snapshot> = Vec::new();
    for line in include_str!("gid_peer.txt").lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let id = |i: usize| words[i].parse().ok();
        let now = all.last_mut();
        match words[0] {
            "=" => all.push(Snapshot {
                name: words[1].to_owned(),
                ..Snapshot::default()
            }),
            "d" => {
                let address = |hex: &&str| match hex.len() {
                    8 => Address::V4(bytes(hex)),
                    _ => Address::V6(bytes(hex)),
                };
                let dev = Dev {
                    kind: words[2].to_owned(),
                    other: id(3),
                    master: id(4),
                    mac: bytes(words[5]),
                    addresses: words[6..].iter().map(address).collect(),
                };
                now.unwrap().devs.insert(id(1).unwrap(), dev);
            }
            "p" => now.unwrap().ports.push((id(1).unwrap(), BTreeSet::new())),
            "g" => {
                let gid_type = match words[2] {
                    "v1" => GidType::RoceV1,
                    _ => GidType::RoceV2,
                };
                let row = (gid_type, id(3).unwrap(), Gid(bytes(words[4])));
                now.unwrap().ports.last_mut().unwrap().1.insert(row);
            }
            _ => assert!(line.starts_with('#')),
        }
    }
    all
}

impl Snapshot {
    fn stacked(&self, id: u64) -> Option<u64> {
        let dev = &self.devs[&id];
        dev.other
            .filter(|_| ["vlan", "macvlan"].contains(&dev.kind.as_str()))
    }

    fn is_above(&self, id: u64, port: u64) -> bool {
        let below = self.stacked(id).into_iter();
        let slaves = self.devs.iter().filter(|(_, d)| d.master == Some(id));
        below
            .chain(slaves.map(|(id, _)| *id))
            .any(|lower| lower == port || self.is_above(lower, port))
    }

    fn real(&self, id: u64) -> u64 {
        match self.devs[&id].kind.as_str() {
            "vlan" => self.real(self.devs[&id].other.unwrap()),
            _ => id,
        }
    }

    fn bond(&self, id: u64) -> Bond {
        let dev = &self.devs[&id];
        match dev.kind.as_str() {
            "bond" => Bond::Master(dev.other.map(Ndev)),
            _ => Bond::No,
        }
    }

    /// What the engine puts into an empty table.
    fn planned(&self, port: u64) -> BTreeSet<Row> {
        let devices: Vec<Device<'_>> = self
            .devs
            .iter()
            .map(|(id, dev)| Device {
                id: Ndev(*id),
                mac: dev.mac,
                dev_id: 0,
                registered: true,
                above_port: self.is_above(*id, port),
                bond: self.bond(*id),
                real: Ndev(self.real(*id)),
                real_bond: self.bond(self.real(*id)),
                addresses: &dev.addresses,
            })
            .collect();
        let master = self.devs[&port].master;
        let port = Port {
            ndev: Some(Ndev(port)),
            is_bond_slave: master.is_some_and(|m| self.bond(m) != Bond::No),
            types: GidTypes::roce(false, true),
        };
        let mut slots = vec![Slot::default(); 64];
        let mut table = GidTable::new(&mut slots, port.types);
        let synced = sync_all(&mut table, &port, devices.iter());
        assert_eq!(synced.left_out, 0);
        table
            .entries()
            .map(|(_, e)| (e.gid_type, e.ndev.0, e.gid))
            .collect()
    }
}

#[test]
fn tables_are_the_peers() {
    let all = snapshots();
    assert!(all.len() > 20);
    let mut differences = Vec::new();
    for snapshot in &all {
        for (port, theirs) in &snapshot.ports {
            let ours = snapshot.planned(*port);
            for row in ours.difference(theirs) {
                differences.push(format!("{} port {port}: only ours {row:?}", snapshot.name));
            }
            for row in theirs.difference(&ours) {
                differences.push(format!(
                    "{} port {port}: only theirs {row:?}",
                    snapshot.name
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
