// SPDX-License-Identifier: GPL-2.0

//! Changes of a port's table. The caller must hold the device's `writer` mutex.
//!
//! A driver with `add_gid` and `del_gid` is called before an entry is inserted, and after an entry
//! was hidden. These methods may sleep.

use kernel::fmt;
use kernel::pr_warn_once;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;

use super::edge;
use super::edge::entry::ndev_id;
use super::edge::entry::Entry;
use super::port::Kind;
use super::port::Port;
use super::port::Slot;
use super::snapshot::Snapshot;
use super::Gids;
use crate::device::Device;
use crate::proto::gid::GidType;
use crate::proto::gid_plan::Step;
use crate::proto::gid_plan::Table;
use crate::proto::gid_table;
use crate::proto::gid_table::Origin;
use crate::proto::gid_table::View;
use rdma::bindings;
use rdma::edge::Lent;
use rdma::net::NetDevice;

/// A RoCE port's table, as changed by `gid_plan`.
pub(super) struct Writer<'a> {
    gids: &'a Arc<Gids>,
    device: &'a Device,
    port: &'a Port,
    snapshot: &'a Snapshot,
    short_of_memory: bool,
}

impl<'a> Writer<'a> {
    /// Creates a writer of the table of `port`, with the network devices of `snapshot`.
    pub(super) fn new(
        gids: &'a Arc<Gids>,
        device: &'a Device,
        port: &'a Port,
        snapshot: &'a Snapshot,
    ) -> Self {
        Self {
            gids,
            device,
            port,
            snapshot,
            short_of_memory: false,
        }
    }

    /// Returns whether an allocation failed.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.short_of_memory
    }
}

impl Table for Writer<'_> {
    type Cell = Slot;

    fn read<R>(&self, look: impl FnOnce(&View<'_, Slot>) -> R) -> R {
        self.port.read(look)
    }

    fn apply(&mut self, step: Step) -> bool {
        match step {
            Step::Delete(index, _) => delete(self.device, self.port, index),
            Step::Add(index, entry) => {
                let Some(ndev) = self.snapshot.hold(entry.ndev) else {
                    return false;
                };
                match add(self.gids, self.device, self.port, index, &entry, Some(ndev)) {
                    Ok(()) => true,
                    Err(error) => {
                        self.short_of_memory |= error == ENOMEM;
                        false
                    }
                }
            }
        }
    }
}

/// Inserts an entry into a free slot, if the driver accepts it.
///
/// # Errors
///
/// `ENOMEM`; `EINVAL` for every error of the driver; `EBUSY` if the slot is not free.
fn add(
    gids: &Arc<Gids>,
    device: &Device,
    port: &Port,
    index: usize,
    entry: &gid_table::Entry,
    ndev: Option<ARef<NetDevice>>,
) -> Result {
    let slot = u16::try_from(index).map_err(|_| EINVAL)?;
    let entry = Entry::new(gids.clone(), device, port.number(), slot, entry, ndev)?;
    let driver = matches!(port.kind(), Kind::Roce { driver: true, .. });
    if driver {
        // The driver's errno is not passed on.
        entry.add_gid(device).map_err(|_| EINVAL)?;
    }
    port.insert(entry).map_err(|entry| {
        tell_driver(device, port, &entry);
        EBUSY
    })
}

/// Deletes the entry of an index. Returns false if there is none.
fn delete(device: &Device, port: &Port, index: usize) -> bool {
    let Some(entry) = port.retire(index) else {
        return false;
    };
    tell_driver(device, port, &entry);
    entry.drop_ndev();
    true
}

fn tell_driver(device: &Device, port: &Port, entry: &Entry) {
    let driver = matches!(port.kind(), Kind::Roce { driver: true, .. });
    if driver {
        entry.del_gid(device);
    }
}

/// Deletes all entries.
pub(super) fn empty(device: &Device, port: &Port) {
    for index in 0..port.len() {
        delete(device, port, index);
    }
}

/// Deletes all entries of a network device. Returns whether there were any.
pub(super) fn delete_of(device: &Device, port: &Port, ndev: &NetDevice) -> bool {
    let id = ndev_id(ndev.as_raw());
    let mut any = false;
    for index in 0..port.len() {
        if port.read(|table| table.get(index).is_ok_and(|entry| entry.ndev == id)) {
            any |= delete(device, port, index);
        }
    }
    any
}

/// Updates a table with the GIDs that the driver reports; see [`super::refresh`].
pub(super) fn ask_driver(
    gids: &Arc<Gids>,
    device: &Device,
    port: &Port,
    len: u32,
) -> Result<Option<u64>> {
    if device.ops().query_gid.is_none() {
        return Ok(None);
    }
    let mut prefix = None;
    // `len` may differ from the table size reported at registration.
    let len = port.len().min(usize::try_from(len).unwrap_or(usize::MAX));
    for (index, number) in (0..len).zip(0_i32..) {
        let mut gid = bindings::ib_gid::default();
        device
            .driver()
            .query_gid(port.number(), number, Lent(&mut gid))
            .inspect_err(|error| {
                pr_warn!("{}: query_gid of index {number}: {error:?}\n", Name(device));
            })?;
        let gid = edge::read(gid);
        let ndev = match port.kind() {
            Kind::Iwarp => match device.netdev(port.number()) {
                Some(ndev) => Some(ndev),
                None => continue,
            },
            Kind::Ib | Kind::Roce { .. } => None,
        };
        let (high, _) = gid.0.split_at(8);
        if index == 0 {
            prefix = high.try_into().ok().map(u64::from_be_bytes);
        }
        let entry = gid_table::Entry {
            origin: Origin::Ip,
            gid,
            gid_type: GidType::Ib,
            ndev: ndev_id(super::raw_ndev(ndev.as_deref())),
            mac: ndev.as_deref().map_or([0; 6], NetDevice::mac),
        };
        // Keep an unchanged entry, and so its references.
        if port.read(|table| table.get(index) == Ok(&entry)) {
            continue;
        }
        delete(device, port, index);
        // Drivers report unused entries as zero GIDs.
        if !gid.is_zero() {
            // Log the error and continue with the other entries. The next event queries this entry
            // again, since it is still missing.
            if let Err(error) = add(gids, device, port, index, &entry, ndev) {
                pr_warn_once!("{}: no GID at index {number}: {error:?}\n", Name(device));
            }
        }
    }
    Ok(prefix)
}

/// Formats the name of a device for log messages.
pub(crate) struct Name<'a>(pub(crate) &'a Device);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.name(), f)
    }
}
