// SPDX-License-Identifier: GPL-2.0

//! /sys/class/infiniband.
//!
//! ```text
//! DEVICE/                  device.rs
//!   node_type, node_guid, ...
//!   hw_counters/           hw_counters.rs
//!   ports/                 this file
//!     N/                   port.rs
//!       state, lid, ...
//!       gids/ pkeys/       tables.rs
//!       gid_attrs/{ndevs,types}/
//!       counters/          pma.rs
//!       hw_counters/       hw_counters.rs
//! ```
//!
//! A copy of a device in another namespace has the same files except `counters`, `hw_counters` and
//! the driver's files.
//!
//! Ownership: a `ports` directory belongs to `ib_core_device::ports_kobj` and owns the directories
//! of the ports, which hold a reference to the device. All are created after the device is added
//! and removed before it is deleted.

pub(crate) mod abi;
mod device;
mod edge;
mod hw_counters;
mod pma;
mod port;
mod tables;

pub(crate) use self::edge::set_up_device;
pub(crate) use self::edge::PortFile;
pub(crate) use self::hw_counters::Slot as Counters;

use crate::device::Device;
use crate::edge::device::Visible;
use crate::stats::HwStats;
use kernel::prelude::*;
use kernel::sync::Mutex;
use rdma::sysfs::Directory;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Kind;

/// The directory `ports` and its children.
#[pin_data]
struct Ports {
    #[pin]
    list: Mutex<KVec<port::Tree>>,
}

impl Kind for Ports {
    type Attribute = PortFile;

    fn groups<'a>(&'a self, _: &mut dyn FnMut(GroupRef<'a, PortFile>) -> Result) -> Result {
        Ok(())
    }
}

/// Returns the driver's counters of a port. The device must be registered.
pub(crate) fn port_stats(device: &Device, port: u32) -> Option<&HwStats> {
    edge::find(device, port)?
        .hw_counters()
        .map(hw_counters::PortCounters::stats)
}

/// Creates `ports/` for a device or its copy in a namespace, after `device_add`. May sleep.
///
/// # Errors
///
/// Those of the driver's `query_port` and counters; `ENOMEM`; `EEXIST` if a driver's file has the
/// name of another file. Nothing is left behind on failure.
pub(crate) fn set_up_ports(of: &Visible<'_>) -> Result {
    let model = of.model();
    let device = model.owner();
    let full = core::ptr::eq(device.model(), model);

    let ports = try_pin_init!(Ports {
        list <- kernel::new_mutex!(KVec::new(), "Ports::list"),
    }? Error);
    let ports = Directory::new(rdma::resident!(), ports)?;
    let ports = edge::add_ports(of, ports)?;
    let mut list = KVec::new();
    let made = device.ports().try_for_each(|port| {
        list.reserve(1, GFP_KERNEL)?;
        let tree = port::Tree::new(&ports, device, port, full)?;
        list.push(tree, GFP_KERNEL)?;
        Ok(())
    });
    if let Err(e) = made {
        drop(list);
        return Err(e);
    }
    *ports.list.lock() = list;
    edge::keep_ports(model, ports);
    Ok(())
}

/// Reverses [`set_up_ports`], before `device_del`. Waits for readers of the files.
pub(crate) fn free_ports(of: &Visible<'_>) {
    let Some(ports) = edge::take_ports(of.model()) else {
        return;
    };
    let list = core::mem::take(&mut *ports.list.lock());
    // Remove the ports before their parent.
    drop(list);
    drop(ports);
}
