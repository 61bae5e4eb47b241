// SPDX-License-Identifier: GPL-2.0

//! The directory of a port, and the files common to all ports.

use super::edge;
use super::edge::Findable;
use super::edge::OfPort;
use super::edge::PortFile;
use super::edge::PortFiles;
use super::edge::ShowPort;
use super::edge::Shown;
use super::hw_counters::PortCounters;
use super::pma;
use super::tables;
use super::Ports;
use crate::device::Device;
use crate::proto::rates::Width;
use crate::verbs;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::aref::ARef;
use rdma::bindings;
use rdma::sysfs::Added;
use rdma::sysfs::Directory;
use rdma::sysfs::Group;
use rdma::sysfs::GroupRef;
use rdma::sysfs::Page;
use rdma::sysfs::StaticGroup;

/// A port of a device or of a copy of it.
pub(crate) struct Port {
    device: ARef<Device>,
    port: u32,
    /// Whether the device is the original, not a copy.
    full: bool,
    gids: Group<tables::File>,
    pkeys: Option<Group<tables::File>>,
    counters: Option<GroupRef<'static, PortFile>>,
    hw_counters: Option<PortCounters>,
}

impl Port {
    fn new(device: &Device, port: u32, full: bool, sizes: tables::Sizes) -> Result<Self> {
        Ok(Self {
            gids: tables::gids(sizes)?,
            pkeys: tables::pkeys(sizes)?,
            // Port 0 of a switch has no counters of its own: they belong to the device.
            hw_counters: if full && port != 0 {
                PortCounters::new(device, port)?
            } else {
                None
            },
            counters: full.then(|| pma::group(device, port)).flatten(),
            device: device.hold(),
            port,
            full,
        })
    }

    /// The driver's counters of the port.
    pub(crate) fn hw_counters(&self) -> Option<&PortCounters> {
        self.hw_counters.as_ref()
    }
}

impl OfPort for Port {
    fn device(&self) -> &Device {
        &self.device
    }

    fn number(&self) -> u32 {
        self.port
    }

    fn groups<'a>(&'a self, add: &mut dyn FnMut(GroupRef<'a, PortFile>) -> Result) -> Result {
        add(GROUP.get())?;
        add(self.gids.get())?;
        if let Some(pkeys) = &self.pkeys {
            add(pkeys.get())?;
        }
        if let Some(counters) = &self.hw_counters {
            add(counters.group())?;
        }
        if let Some(counters) = &self.counters {
            add(*counters)?;
        }
        if self.full {
            edge::driver_groups(&self.device, add)?;
        }
        Ok(())
    }
}

/// The directory of a port and its subdirectory `gid_attrs`, removed on drop.
pub(super) struct Tree {
    _gid_attrs: Added<PortFiles<tables::GidAttrs>>,
    _port: Known,
}

impl Tree {
    /// Creates `ports/N`.
    pub(super) fn new(
        parent: &Added<Ports>,
        device: &Device,
        port: u32,
        full: bool,
    ) -> Result<Self> {
        let attr = device.query_port(port)?;
        let sizes = tables::Sizes {
            gids: attr.gid_tbl_len,
            pkeys: attr.pkey_tbl_len,
        };
        let directory = Port::new(device, port, full, sizes).map(PortFiles);
        let directory = Directory::new(rdma::resident!(), directory)?;
        let name = CString::try_from_fmt(fmt!("{port}"))?;
        // Must come first: a driver's file may look up the directory as soon as the file is
        // visible.
        let findable = full.then(|| Findable::new(&directory));
        let port = Known {
            added: parent.child(directory, &name)?,
            _findable: findable,
        };
        let attrs = tables::GidAttrs::new(device, port.added.number(), sizes).map(PortFiles);
        let gid_attrs = Directory::new(rdma::resident!(), attrs)?;
        let gid_attrs = port.added.child(gid_attrs, c"gid_attrs")?;
        Ok(Self {
            _gid_attrs: gid_attrs,
            _port: port,
        })
    }
}

/// The directory of a port, and its entry in the device. Fields are dropped in this order.
struct Known {
    added: Added<PortFiles<Port>>,
    _findable: Option<Findable>,
}

/// A file common to all ports.
struct Plain {
    /// Whether to query the port's attributes first.
    asks: bool,
    show: fn(&Device, u32, bindings::ib_port_attr, &mut Page<'_>) -> Result,
}

type File = Shown<Plain>;

const fn plain(
    name: &'static CStr,
    show: fn(&Device, u32, bindings::ib_port_attr, &mut Page<'_>) -> Result,
) -> File {
    Shown::constant(name, Plain { asks: true, show })
}

/// A file that does not query the driver, so it is readable in any state of the driver.
const fn known(
    name: &'static CStr,
    show: fn(&Device, u32, bindings::ib_port_attr, &mut Page<'_>) -> Result,
) -> File {
    Shown::constant(name, Plain { asks: false, show })
}

impl ShowPort for Plain {
    fn show(&self, device: &Device, port: u32, page: &mut Page<'_>) -> Result {
        let attr = if self.asks {
            device.query_port(port)?
        } else {
            bindings::ib_port_attr::default()
        };
        (self.show)(device, port, attr, page)
    }
}

static GROUP: StaticGroup<File> = StaticGroup::new(None, &FILES);

static FILES: [Option<&File>; 10] = [
    Some(&plain(c"state", |_, _, attr, page| {
        let name = match attr.state {
            0 => "NOP",
            1 => "DOWN",
            2 => "INIT",
            3 => "ARMED",
            4 => "ACTIVE",
            5 => "ACTIVE_DEFER",
            _ => "UNKNOWN",
        };
        // CAST: C prints the state as a signed number.
        page.text(fmt!("{}: {name}\n", attr.state as i32))
    })),
    Some(&plain(c"lid", |_, _, attr, page| {
        page.text(fmt!("{:#x}\n", attr.lid))
    })),
    Some(&plain(c"lid_mask_count", |_, _, attr, page| {
        page.text(fmt!("{}\n", attr.lmc))
    })),
    Some(&plain(c"sm_lid", |_, _, attr, page| {
        page.text(fmt!("{:#x}\n", attr.sm_lid))
    })),
    Some(&plain(c"sm_sl", |_, _, attr, page| {
        page.text(fmt!("{}\n", attr.sm_sl))
    })),
    Some(&plain(c"cap_mask", |_, _, attr, page| {
        page.text(fmt!("{:#010x}\n", attr.port_cap_flags))
    })),
    Some(&plain(c"rate", rate)),
    Some(&plain(c"phys_state", |_, _, attr, page| {
        let name = match attr.phys_state {
            1 => "Sleep",
            2 => "Polling",
            3 => "Disabled",
            4 => "PortConfigurationTraining",
            5 => "LinkUp",
            6 => "LinkErrorRecovery",
            7 => "Phy Test",
            _ => "<unknown>",
        };
        page.text(fmt!("{}: {name}\n", attr.phys_state))
    })),
    Some(&known(c"link_layer", link_layer)),
    None,
];

fn rate(_: &Device, _: u32, attr: bindings::ib_port_attr, page: &mut Page<'_>) -> Result {
    let shown = verbs::Rate::of(attr.active_speed, attr.active_width);
    if shown.rate < 0 {
        return Err(EINVAL);
    }
    let half = if shown.rate % 10 == 0 { "" } else { ".5" };
    let lanes = match Width::from_raw(attr.active_width.into()) {
        Some(width) => i64::from(width.lanes()),
        None => -1,
    };
    page.text(fmt!("{}{half} Gb/sec ({lanes}X", shown.rate / 10))?;
    page.bytes(shown.name.to_bytes());
    page.bytes(b")\n");
    Ok(())
}

fn link_layer(
    device: &Device,
    port: u32,
    _: bindings::ib_port_attr,
    page: &mut Page<'_>,
) -> Result {
    page.bytes(match verbs::link_layer(device, port) {
        bindings::rdma_link_layer_IB_LINK_LAYER_INFINIBAND => b"InfiniBand\n",
        bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET => b"Ethernet\n",
        _ => b"Unknown\n",
    });
    Ok(())
}
