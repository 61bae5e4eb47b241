// SPDX-License-Identifier: GPL-2.0

//! Port cache: P_Keys, LMC, state and subnet prefix of each port.
//!
//! Readers, in any context, get a copy under an irq-safe lock. The cache is updated when the device
//! is registered and at the events of `proto::port_cache`, before clients receive them.

mod abi;

use kernel::prelude::*;
use kernel::sync::SetOnce;

use crate::device::Device;
use crate::edge::client::Event;
use crate::gid;
use crate::proto::pkey::Pkey;
use crate::proto::port_cache::PortCache;
use crate::proto::port_cache::PortEvent;
use crate::proto::port_cache::PortState;
use crate::proto::port_cache::Refresh;
use rdma::bindings;
use rdma::sync::SpinLockIrq;

/// Cached data of a device's ports.
#[pin_data]
pub(crate) struct Copies {
    ports: SetOnce<KVec<(u32, Pin<KBox<Copy>>)>>,
}

impl crate::device::PerDevice for Copies {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            ports: SetOnce::new(),
        })
    }
}

impl Copies {
    fn port(&self, number: u32) -> Option<&SpinLockIrq<Known>> {
        let mut ports = self.ports.as_ref()?.iter();
        ports
            .find(|(port, _)| *port == number)
            .map(|(_, copy)| &copy.known)
    }
}

/// Cached data of one port.
#[pin_data]
struct Copy {
    #[pin]
    known: SpinLockIrq<Known>,
}

/// Cached attributes and P_Key table of a port.
struct Known {
    port: PortCache,
    /// `None` before the first update.
    pkeys: Option<KVec<Pkey>>,
}

/// Fills the caches and GID tables of a device that is about to be registered. May sleep.
///
/// # Errors
///
/// `ENOMEM`, and those of the driver's `query_port`, `query_pkey` and `query_gid`.
pub(crate) fn set_up(device: &Device) -> Result {
    let copies = device.slot::<Copies>();
    if copies.ports.as_ref().is_none() {
        let mut ports = KVec::new();
        for port in device.ports() {
            let copy = KBox::try_pin_init(
                try_pin_init!(Copy {
                    known <- rdma::new_spinlock_irq!(Known {
                        port: PortCache::default(),
                        pkeys: None,
                    }, "Device::caches"),
                }),
                GFP_KERNEL,
            )?;
            ports.push((port, copy), GFP_KERNEL)?;
        }
        // Registrations of a device are serialised, so it is still unset.
        let _: bool = copies.ports.populate(ports);
    }
    gid::set_up(device)?;
    device
        .ports()
        .try_for_each(|port| update(device, port, Refresh::REGISTRATION))
        .inspect_err(|_| gid::clean_up(device))
}

/// Empties the GID tables and waits for updates under way. The device is unregistered. May sleep.
pub(crate) fn clean_up(device: &Device) {
    gid::clean_up(device);
}

/// Updates the cache for an event, before clients receive it. Returns whether clients receive it at
/// all: not if a query of the driver failed, and not for GID changes, which are reported one by
/// one. Called from the event worker. May sleep.
#[must_use]
pub(crate) fn refresh(
    device: &Device,
    event: &Event,
    partitions_changed: impl FnOnce(u32),
) -> bool {
    let Some(what) = PortEvent::from_raw(event.kind()) else {
        return true;
    };
    let what = what.refresh();
    let port = event.port();
    if update(device, port, what).is_err() {
        return false;
    }
    if what.security {
        partitions_changed(port);
    }
    what.tell_clients
}

/// Queries the driver and stores the result.
fn update(device: &Device, port: u32, what: Refresh) -> Result {
    let copy = device.slot::<Copies>().port(port).ok_or(EINVAL)?;
    let attr = query_port(device, port)?;
    let mut prefix = attr.subnet_prefix;
    if what.gids {
        let len = u32::try_from(attr.gid_tbl_len).unwrap_or(0);
        if let Some(first) = gid::refresh(device, port, len)? {
            prefix = first;
        }
    }
    // Without a P_Key table, the cached table is not replaced.
    let pkeys = (what.pkeys && attr.pkey_tbl_len > 0)
        .then(|| query_pkeys(device, port, attr.pkey_tbl_len))
        .transpose()?;
    let now = PortCache {
        lmc: attr.lmc,
        // Port states are small numbers (`enum ib_port_state`).
        state: PortState(u8::try_from(attr.state).unwrap_or(u8::MAX)),
        subnet_prefix: prefix,
    };
    let (worth_a_line, _old) = {
        let mut known = copy.lock();
        let old = pkeys.and_then(|pkeys| known.pkeys.replace(pkeys));
        (known.port.update(now), old)
    };
    if let Some(state) = worth_a_line {
        pr_info!(
            "{}: Port: {port} Link {}\n",
            gid::Name(device),
            state.name()
        );
    }
    Ok(())
}

/// Returns the cached subnet prefix of a port; 0 if there is no such port. Any context.
pub(crate) fn subnet_prefix(device: &Device, port: u32) -> u64 {
    let port = device.slot::<Copies>().port(port);
    port.map_or(0, |known| known.lock().port.subnet_prefix)
}

/// Returns the cached partition at an index of a port's P_Key table. Any context.
///
/// # Errors
///
/// `EINVAL` if there is no such port or index.
#[cfg(CONFIG_SECURITY_INFINIBAND)]
pub(crate) fn partition(
    device: &Device,
    place: crate::proto::security::Place,
) -> Result<crate::proto::security::Partition> {
    let known = device
        .slot::<Copies>()
        .port(place.port)
        .ok_or(EINVAL)?
        .lock();
    let table = known.pkeys.as_ref().ok_or(EINVAL)?;
    let Pkey(pkey) = crate::proto::pkey::get(table, place.index.into()).map_err(|_| EINVAL)?;
    Ok(crate::proto::security::Partition {
        subnet_prefix: known.port.subnet_prefix,
        pkey,
    })
}

/// Returns the cached LMC of a port, the number of low LID bits that select a path; `None` if there
/// is no such port. Any context.
pub(crate) fn lmc(device: &Device, port: u32) -> Option<u8> {
    Some(device.slot::<Copies>().port(port)?.lock().port.lmc)
}

fn query_port(device: &Device, port: u32) -> Result<bindings::ib_port_attr> {
    device.query_port(port).inspect_err(|error| {
        pr_warn!(
            "{}: ib_query_port failed ({})\n",
            gid::Name(device),
            error.to_errno()
        );
    })
}

fn query_pkeys(device: &Device, port: u32, len: u16) -> Result<KVec<Pkey>> {
    let mut pkeys = KVec::with_capacity(usize::from(len), GFP_KERNEL)?;
    for index in 0..len {
        let pkey = device.query_pkey(port, index).inspect_err(|error| {
            pr_warn!(
                "{}: ib_query_pkey failed ({}) for index {index}\n",
                gid::Name(device),
                error.to_errno()
            );
        })?;
        pkeys.push(Pkey(pkey), GFP_KERNEL)?;
    }
    Ok(pkeys)
}
