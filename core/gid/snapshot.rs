// SPDX-License-Identifier: GPL-2.0

//! Current state of the network devices of a RoCE port: its own, and all upper devices. If single
//! addresses of a network device are marked, only these are included; addresses that were just
//! added are not looked up.
//!
//! Later changes set marks again. A snapshot holds references to its network devices, so that their
//! IDs are not reused.

use core::net::IpAddr;
use core::net::Ipv4Addr;
use core::net::Ipv6Addr;
use core::ops::Range;

use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::rcu;

use super::edge::entry::ndev_id;
use crate::device::Device;
use crate::proto::gid::GidTypes;
use crate::proto::gid_marks::Marks;
use crate::proto::gid_marks::Word;
use crate::proto::gid_plan;
use crate::proto::gid_plan::Address;
use crate::proto::gid_plan::Bond;
use crate::proto::gid_table::Ndev;
use rdma::net::NetDevice;

/// Maximum number of addresses per network device; no table is larger.
const MOST_ADDRESSES: usize = 1 << 16;

/// State of one network device.
struct Seen {
    ndev: ARef<NetDevice>,
    /// Sort key: devices of other network namespaces last, then by interface index, which
    /// approximates the order of creation.
    place: (bool, u32),
    above_port: bool,
    bond: Bond,
    real: Ndev,
    real_bond: Bond,
    addresses: Range<usize>,
}

/// State of the port and of its marked network devices.
pub(super) struct Snapshot {
    port: gid_plan::Port,
    seen: KVec<Seen>,
    addresses: KVec<Address>,
}

impl Snapshot {
    /// Takes a snapshot of a port. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn take(device: &Device, port: u32, types: GidTypes, marks: &Marks) -> Result<Self> {
        let own = device.netdev(port);
        let mut snapshot = Self {
            port: gid_plan::Port {
                ndev: own.as_ref().map(|own| ndev_id(own.as_raw())),
                is_bond_slave: own.as_ref().is_some_and(|own| own.is_bond_slave()),
                types,
            },
            seen: KVec::new(),
            addresses: KVec::new(),
        };
        let Some(own) = own else {
            return Ok(snapshot);
        };
        snapshot.see(&own, &own, marks, GFP_KERNEL)?;
        {
            let rcu = rcu::read_lock();
            own.for_each_upper(&rcu, |upper| snapshot.see(upper, &own, marks, GFP_ATOMIC))?;
        }
        let Self {
            seen, addresses, ..
        } = &mut snapshot;
        for seen in seen {
            seen.look_up()?;
            let start = addresses.len();
            if let Some(marked) = marks.addresses_of(ndev_id(seen.ndev.as_raw())) {
                for (address, word) in marked {
                    if word == Word::Has || seen.ndev.has_address(restore(address)) {
                        addresses.push(address, GFP_KERNEL)?;
                    }
                }
            } else {
                seen.ndev.for_each_address(|address| {
                    if addresses.len().wrapping_sub(start) < MOST_ADDRESSES {
                        addresses.push(convert(address), GFP_ATOMIC)?;
                    }
                    Ok(())
                })?;
            }
            seen.addresses = start..addresses.len();
        }
        Ok(snapshot)
    }

    /// Adds a network device (`own` or one of its upper devices) if it is marked and not included
    /// yet.
    fn see(&mut self, ndev: &NetDevice, own: &NetDevice, marks: &Marks, flags: Flags) -> Result {
        let id = ndev_id(ndev.as_raw());
        let there = self.seen.iter().any(|seen| *seen.ndev == *ndev);
        if !marks.has(id) || there {
            return Ok(());
        }
        let elsewhere = {
            let rcu = rcu::read_lock();
            ndev.net(&rcu) != own.net(&rcu)
        };
        let place = (elsewhere, ndev.ifindex());
        let index = self.seen.partition_point(|seen| seen.place < place);
        self.seen.reserve(1, flags)?;
        let seen = Seen {
            ndev: ndev.hold(),
            place,
            above_port: ndev != own,
            bond: Bond::No,
            real: id,
            real_bond: Bond::No,
            addresses: 0..0,
        };
        self.seen
            .insert_within_capacity(index, seen)
            .map_err(|_| ENOMEM)
    }

    /// The port.
    pub(super) fn port(&self) -> &gid_plan::Port {
        &self.port
    }

    /// Returns the network devices in the form that `gid_plan` takes. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn devices(&self) -> Result<KVec<gid_plan::Device<'_>>> {
        let mut devices = KVec::with_capacity(self.seen.len(), GFP_KERNEL)?;
        for seen in &self.seen {
            let device = gid_plan::Device {
                id: ndev_id(seen.ndev.as_raw()),
                mac: seen.ndev.mac(),
                dev_id: seen.ndev.dev_id(),
                registered: !seen.ndev.is_leaving(),
                above_port: seen.above_port,
                bond: seen.bond,
                real: seen.real,
                real_bond: seen.real_bond,
                addresses: self.addresses.get(seen.addresses.clone()).unwrap_or(&[]),
            };
            devices.push(device, GFP_KERNEL)?;
        }
        Ok(devices)
    }

    /// Returns a reference to a network device of the snapshot.
    pub(super) fn hold(&self, id: Ndev) -> Option<ARef<NetDevice>> {
        let seen = self.seen.iter().find(|s| ndev_id(s.ndev.as_raw()) == id)?;
        Some(seen.ndev.clone())
    }
}

impl Seen {
    /// Reads bond and VLAN state.
    fn look_up(&mut self) -> Result {
        let rcu = rcu::read_lock();
        self.bond = bond(&self.ndev, &rcu);
        let (real, real_bond) = match self.ndev.vlan() {
            Some((real, _)) => (ndev_id(real.as_raw()), bond(real, &rcu)),
            None => (ndev_id(self.ndev.as_raw()), self.bond),
        };
        self.real = real;
        self.real_bond = real_bond;
        Ok(())
    }
}

fn bond(ndev: &NetDevice, rcu: &rcu::Guard) -> Bond {
    if !ndev.is_bond_master() {
        return Bond::No;
    }
    let active = ndev.active_slave(rcu);
    Bond::Master(active.map(|slave| ndev_id(slave.as_raw())))
}

/// Converts an address for `gid_plan`.
pub(super) fn convert(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(ip) => Address::V4(ip.octets()),
        IpAddr::V6(ip) => Address::V6(ip.octets()),
    }
}

fn restore(address: Address) -> IpAddr {
    match address {
        Address::V4(bytes) => Ipv4Addr::from(bytes).into(),
        Address::V6(bytes) => Ipv6Addr::from(bytes).into(),
    }
}
