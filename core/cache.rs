// SPDX-License-Identifier: GPL-2.0

//! What is remembered of a port: P_Keys, LMC, state, subnet prefix.
//!
//! Readers, in any context, have a copy under an irq-safe lock. It is brought up to date
//! when the device is registered, and at the events of `proto::port_cache`, before clients
//! hear of them.

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

/// The copies of a device's ports.
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

/// The copy of one port.
#[pin_data]
struct Copy {
    #[pin]
    known: SpinLockIrq<Known>,
}

/// What is known of a port.
struct Known {
    port: PortCache,
    /// None before the driver was asked for the first time.
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
        // Only one registers a device at a time.
        let _: bool = copies.ports.populate(ports);
    }
    gid::set_up(device)?;
    device
        .ports()
        .try_for_each(|port| update(device, port, Refresh::REGISTRATION))
        .inspect_err(|_| gid::clean_up(device))
}

/// Empties the GID tables and waits for updates under way: the device is unregistered. May
/// sleep.
pub(crate) fn clean_up(device: &Device) {
    gid::clean_up(device);
}

/// Brings the copies up to date for an event, before clients hear of it. Answers whether
/// they are to hear of it at all: not if the driver could not be asked, and not of changes of
/// GIDs, which were told one by one. May sleep; in the worker of events.
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

/// Asks the driver, and remembers what it says.
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
    // A driver without P_Keys keeps none.
    let pkeys = (what.pkeys && attr.pkey_tbl_len > 0)
        .then(|| query_pkeys(device, port, attr.pkey_tbl_len))
        .transpose()?;
    let now = PortCache {
        lmc: attr.lmc,
        // A state is one of six.
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

/// The subnet prefix of a port as it is cached, 0 if there is no such port. Any context.
pub(crate) fn subnet_prefix(device: &Device, port: u32) -> u64 {
    let port = device.slot::<Copies>().port(port);
    port.map_or(0, |known| known.lock().port.subnet_prefix)
}

/// The partition at a place, as it is remembered. Any context.
///
/// # Errors
///
/// `EINVAL` if there is no such place.
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

/// How many low bits of the LID are a path's own, as it is remembered; none, if there is no such
/// port. Any context.
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
