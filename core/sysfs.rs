// SPDX-License-Identifier: GPL-2.0

//! /sys/class/infiniband.
//!
//! ```text
//! DEVICE/                  device.rs
//!   node_type, node_guid, ...
//!   hw_counters/           ../stats/files.rs
//!   ports/                 here
//!     N/                   port.rs
//!       state, lid, ...
//!       gids/ pkeys/       tables.rs
//!       gid_attrs/{ndevs,types}/
//!       counters/          pma.rs
//!       hw_counters/       ../stats/files.rs
//! ```
//!
//! A copy of a device in another namespace has the same but for what counts: no `counters`, no
//! `hw_counters`, no files of the driver's.
//!
//! Who owns what: a `ports` directory belongs to `ib_core_device::ports_kobj`, and owns those of
//! the ports, which hold the device. All are made after the device is added and removed before it
//! is deleted.

pub(crate) mod abi;
mod device;
mod edge;
mod pma;
mod port;
mod tables;

pub(crate) use self::edge::find as port_directory;
pub(crate) use self::edge::set_up_device;
pub(crate) use self::edge::OfDevice;
pub(crate) use self::edge::PortFile;
pub(crate) use self::edge::ShowPort;
pub(crate) use self::edge::Shown;

use crate::edge::device::Visible;
use kernel::prelude::*;
use kernel::sync::Mutex;
use rdma::sysfs::Directory;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Kind;

/// The directory `ports`, with those in it.
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

/// Makes `ports/` of a device or of its copy in a namespace, after `device_add`. May sleep.
///
/// # Errors
///
/// Those of the driver's `query_port` and counters; `ENOMEM`; `EEXIST` if a driver's file has the
/// name of another. Nothing is left behind.
pub(crate) fn set_up_ports(of: &Visible<'_>) -> Result {
    let model = of.model();
    let device = model.owner();
    let full = core::ptr::eq(device.model(), model);

    let ports = Directory::new(try_pin_init!(Ports {
        list <- kernel::new_mutex!(KVec::new(), "Ports::list"),
    }? Error))?;
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

/// The reverse of [`set_up_ports`], before `device_del`. Waits for readers of the files.
pub(crate) fn free_ports(of: &Visible<'_>) {
    let Some(ports) = edge::take_ports(of.model()) else {
        return;
    };
    let list = core::mem::take(&mut *ports.list.lock());
    // The ports, then what holds them.
    drop(list);
    drop(ports);
}
