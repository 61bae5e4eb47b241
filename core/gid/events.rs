// SPDX-License-Identifier: GPL-2.0

//! What marks devices' GIDs to be looked at again: notifiers of network devices and addresses.
//!
//! A mark needs no memory, so that no event is lost. Every kind of network device is looked
//! at: which of them matter is the snapshot's business.

use core::net::IpAddr;

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::barrier::smp_mb;
use kernel::sync::Arc;

use super::edge::entry::ndev_id;
use super::snapshot;
use super::Gids;
use crate::device::Device;
use crate::proto::gid_marks::Event;
use crate::proto::gid_marks::Word;
use rdma::net::address_notifier::Change;
use rdma::net::AddressEvents;
use rdma::net::AddressNotifier;
use rdma::net::NetDevice;
use rdma::net::NetNotifier;
use rdma::net::NetdevEvent;
use rdma::net::NetdevEvents;
use rdma::sync::bh;
use rdma::sync::init_once;

/// A device that follows network devices, and its tables.
struct Follower {
    gids: Arc<Gids>,
    device: ARef<Device>,
}

rdma::global_lock! {
    // SAFETY: `Subsystem::new` initialises it once, before there is any device or notifier.
    unsafe(uninit) static FOLLOWED: SpinLock<KVec<Follower>> = KVec::new();
}

/// The devices that follow network devices. Notifiers may be softirqs.
fn with_followed<R>(f: impl FnOnce(&mut KVec<Follower>) -> R) -> R {
    let _bh = bh::disable();
    // A local, to be dropped before that: what a last expression borrows lives longer.
    let mut followed = FOLLOWED.lock();
    f(&mut followed)
}

/// Has a device hear of events. May sleep.
pub(super) fn follow(gids: &Arc<Gids>, device: &Device) -> Result {
    loop {
        let len = with_followed(|list| list.len());
        // No memory is to be had under the lock.
        let mut room = KVec::with_capacity(len.checked_add(1).ok_or(ENOMEM)?, GFP_KERNEL)?;
        let done = with_followed(|list| {
            if list.len() >= room.capacity() {
                return false;
            }
            core::mem::swap(list, &mut room);
            for each in room.drain_all() {
                // There is room for these and for one more.
                let _ = list.push_within_capacity(each);
            }
            let new = Follower {
                gids: gids.clone(),
                device: device.hold(),
            };
            list.push_within_capacity(new).is_ok()
        });
        if done {
            return Ok(());
        }
    }
}

/// Undoes [`follow`], if it was done.
pub(super) fn unfollow(gids: &Arc<Gids>) {
    // What is dropped is dropped here, outside the lock.
    let _gone = with_followed(|list| {
        let index = list.iter().position(|each| Arc::ptr_eq(&each.gids, gids))?;
        list.remove(index).ok()
    });
}

/// Tells those who may want to know of an event.
fn note(event: Event, who: impl Fn(&Follower) -> bool) {
    with_followed(|list| {
        let told = list.iter().filter(|each| who(each));
        told.for_each(|each| each.gids.note(event));
    });
}

/// Hears of network devices and their addresses.
struct Listener;

impl NetdevEvents for Listener {
    fn event(&self, event: NetdevEvent, dev: &NetDevice) {
        match event {
            NetdevEvent::Register
            | NetdevEvent::Unregister
            | NetdevEvent::Up
            | NetdevEvent::ChangeAddr => note(Event::Device(ndev_id(dev.as_raw())), |_| true),
            NetdevEvent::ChangeUpper | NetdevEvent::BondingFailover => {
                note(Event::Topology, |_| true);
            }
            NetdevEvent::GoingDown
            | NetdevEvent::Down
            | NetdevEvent::Change
            | NetdevEvent::ChangeMtu
            | NetdevEvent::ChangeName
            | NetdevEvent::Other(_) => {}
        }
    }
}

impl AddressEvents for Listener {
    /// If nothing is below the device, only the ports that it belongs to may want the address;
    /// that something comes below it is told by itself, and a driver that gives it to a port later
    /// has the port scanned anew.
    fn changed(dev: &NetDevice, address: IpAddr, how: Change) {
        let word = match how {
            Change::Came => Word::Has,
            Change::Other => Word::Ask,
        };
        let event = Event::Address(ndev_id(dev.as_raw()), snapshot::convert(address), word);
        // Who looks from now on sees the address, or we see below what he has looked at, and for
        // whom.
        smp_mb();
        let stacked = dev.has_lower();
        note(event, |each| {
            stacked || each.gids.may_have(&each.device, dev)
        });
    }
}

/// Notifiers that keep RoCE GIDs up to date.
pub(crate) struct Subsystem {
    _devices: Pin<KBox<NetNotifier<Listener>>>,
    _addresses: Pin<KBox<AddressNotifier<Listener>>>,
}

impl Subsystem {
    /// Begins to listen. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the registration of notifiers.
    pub(crate) fn new() -> Result<Self> {
        init_once(&FOLLOWED);
        let addresses =
            KBox::try_pin_init(AddressNotifier::register(rdma::resident!()), GFP_KERNEL)?;
        let devices = KBox::try_pin_init(
            NetNotifier::register(rdma::resident!(), Listener),
            GFP_KERNEL,
        )?;
        Ok(Self {
            _devices: devices,
            _addresses: addresses,
        })
    }
}

impl Drop for Subsystem {
    fn drop(&mut self) {
        // A static is not dropped.
        let list = with_followed(|list| core::mem::replace(list, KVec::new()));
        kernel::warn_on!(!list.is_empty());
    }
}
