// SPDX-License-Identifier: GPL-2.0

//! Notifiers of network devices and addresses, which mark GIDs for a sync.
//!
//! Setting a mark allocates no memory, so no event is lost. Network devices of every kind are
//! marked; `snapshot` selects those that matter.

use core::net::IpAddr;

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;

use super::edge::entry::ndev_id;
use super::snapshot;
use super::Gids;
use crate::device::Device;
use crate::proto::gid_marks::Event;
use crate::proto::gid_marks::Word;
use rdma::features::smp_mb;
use rdma::kvec;
use rdma::net::address_notifier::Change;
use rdma::net::AddressEvents;
use rdma::net::AddressNotifier;
use rdma::net::NetDevice;
use rdma::net::NetNotifier;
use rdma::net::NetdevEvent;
use rdma::net::NetdevEvents;
use rdma::sync::bh;
use rdma::sync::init_once;

/// A device that is notified of network devices, with its tables.
struct Follower {
    gids: Arc<Gids>,
    device: ARef<Device>,
}

rdma::global_lock! {
    // SAFETY: `Subsystem::new` initialises the lock once, before there is any device or notifier.
    unsafe(uninit) static FOLLOWED: SpinLock<KVec<Follower>> = KVec::new();
}

/// Calls `f` with the list of followers, locked. Bottom halves are disabled, since notifiers may
/// run in softirq context.
fn with_followed<R>(f: impl FnOnce(&mut KVec<Follower>) -> R) -> R {
    let _bh = bh::disable();
    // A local variable, so that the lock is dropped before `_bh`: a temporary of the last
    // expression would live longer.
    let mut followed = FOLLOWED.lock();
    f(&mut followed)
}

/// Adds a device to the followers. May sleep.
pub(super) fn follow(gids: &Arc<Gids>, device: &Device) -> Result {
    loop {
        let len = with_followed(|list| list.len());
        // Allocate without the lock.
        let mut room = KVec::with_capacity(len.checked_add(1).ok_or(ENOMEM)?, GFP_KERNEL)?;
        let done = with_followed(|list| {
            if list.len() >= room.capacity() {
                return false;
            }
            core::mem::swap(list, &mut room);
            for each in room.drain_all() {
                // The capacity suffices for these and one more.
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

/// Removes a device from the followers, if it is one.
pub(super) fn unfollow(gids: &Arc<Gids>) {
    // Drop the follower here, without the lock.
    let _gone = with_followed(|list| kvec::take(list, |each| Arc::ptr_eq(&each.gids, gids)));
}

/// Passes an event to the followers that `who` selects.
fn note(event: Event, who: impl Fn(&Follower) -> bool) {
    with_followed(|list| {
        let told = list.iter().filter(|each| who(each));
        told.for_each(|each| each.gids.note(event));
    });
}

/// Listener for events of network devices and their addresses.
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
    /// If the network device has no lower device, only ports that it is bound to need the address.
    /// Adding a lower device is an event of its own, and a driver that binds the network device to
    /// a port later triggers a rescan of the port.
    fn changed(dev: &NetDevice, address: IpAddr, how: Change) {
        let word = match how {
            Change::Came => Word::Has,
            Change::Other => Word::Unknown,
        };
        let event = Event::Address(ndev_id(dev.as_raw()), snapshot::convert(address), word);
        // Pairs with the barrier in `Gids::look`: either a concurrent pass sees the address, or the
        // code below sees the upper devices and the port bindings that the pass used.
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
    /// Registers the notifiers. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; errors of the registration of notifiers.
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
        // Statics are not dropped, so free the list here.
        let list = with_followed(|list| core::mem::replace(list, KVec::new()));
        kernel::warn_on!(!list.is_empty());
    }
}
