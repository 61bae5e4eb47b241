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
//! the ports. All are made after the device is added and removed before it is deleted, so each
//! file's handler may use the device.

pub(crate) mod abi;
mod device;
mod edge;
mod pma;
mod port;
mod tables;

pub(crate) use self::edge::owner;
pub(crate) use self::port::find as port_directory;
pub(crate) use self::port::File as PortFile;

use crate::device::Device;
use crate::edge::device::Visible;
use crate::stats;
use core::ptr::NonNull;
use kernel::prelude::*;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::edge::View;
use rdma::sysfs::Added;
use rdma::sysfs::Directory;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Kind;

/// Sets the attribute groups of a device, counters among them, before `device_add`. May sleep.
///
/// # Errors
///
/// Those of the driver's counters; `ENOMEM`.
pub(crate) fn set_up_device(device: &Device) -> Result {
    let raw = device.as_raw();
    let own = device.ops().device_group;
    // SAFETY: Whoever registers the device is alone with it, so nobody else looks at the groups.
    let groups = unsafe { &mut (*raw).groups };
    // What a registration that failed left is not there any more.
    *groups = [
        device::GROUP.as_raw(),
        own,
        core::ptr::null(),
        core::ptr::null(),
    ];
    let Some(counters) = stats::set_up_device(device)? else {
        return Ok(());
    };
    // The driver's group may be missing; the list ends at the first null.
    let free = groups.iter_mut().enumerate().find(|(_, g)| g.is_null());
    let Some((index, group)) = free else {
        return Err(EINVAL);
    };
    *group = counters;
    // SAFETY: As above.
    // CAST: an index below four.
    unsafe { (*raw).hw_stats_attr_index = index as u8 };
    Ok(())
}

/// The directory `ports`, with those in it.
#[pin_data]
struct Ports {
    #[pin]
    list: Mutex<KVec<port::Tree>>,
}

impl Kind for Ports {
    type Attribute = port::File;

    fn groups<'a>(&'a self, _: &mut dyn FnMut(GroupRef<'a, port::File>) -> Result) -> Result {
        Ok(())
    }

    unsafe fn show(&self, _: NonNull<port::File>, _: *mut kernel::ffi::c_char) -> isize {
        // There are no files in it.
        // CAST: a small negative number.
        EIO.to_errno() as isize
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
    // SAFETY: The device is added (`Visible`), and `free_ports` is called before it is deleted.
    let ports = unsafe { Added::new(ports, model.kobj(), c"ports") }?;
    let mut list = KVec::new();
    let made = device.ports().try_for_each(|port| {
        list.reserve(1, GFP_KERNEL)?;
        // SAFETY: The list is dropped before `ports`, here or in `free_ports`.
        let tree = unsafe { port::Tree::new(&ports, device, port, full) }?;
        list.push(tree, GFP_KERNEL)?;
        Ok(())
    });
    if let Err(e) = made {
        drop(list);
        return Err(e);
    }
    *ports.list.lock() = list;
    model.swap_ports_kobj(ports.into_raw());
    Ok(())
}

/// What the core keeps of a port, if the device has that port and is set up.
pub(crate) fn port_data(device: &Device, port: u32) -> Option<NonNull<bindings::ib_port_data>> {
    NonNull::new(device.port(port)?.raw())
}

/// The reverse of [`set_up_ports`], before `device_del`. Waits for readers of the files.
pub(crate) fn free_ports(of: &Visible<'_>) {
    let Some(kobj) = of.model().swap_ports_kobj(core::ptr::null_mut()) else {
        return;
    };
    // SAFETY: Only `set_up_ports` writes the field, and it is taken from there only once.
    let ports = unsafe { Added::<Ports>::from_raw(kobj) };
    let list = core::mem::take(&mut *ports.list.lock());
    // The ports, then what holds them.
    drop(list);
    drop(ports);
}
