// SPDX-License-Identifier: GPL-2.0

//! Hash table of ports by network device. Changed under a spinlock, read under RCU.
//!
//! A port is removed from the table before its memory is freed, which happens an RCU grace period
//! after the device is released. C header: `include/linux/rculist.h`.

use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::View;
use rdma::sync::rcu;

use super::device::PortData;

/// Number of buckets. The hash is over the address of the network device.
const BUCKETS: usize = 64;

/// A hash table of all ports with a network device.
///
/// # Invariants
///
/// `lock` is initialised, or all zeros, which is an unlocked lock. The lists are changed under it.
/// Each list entry is the `ndev_hash_link` of a port, which stays valid until a grace period after
/// its removal.
pub(crate) struct Ties {
    lock: Opaque<bindings::spinlock_t>,
    named: Atomic<bool>,
    buckets: [Opaque<bindings::hlist_head>; BUCKETS],
}

// SAFETY: Changed under the lock, read under RCU: type invariant.
unsafe impl Sync for Ties {}

/// The table of all ports with a network device.
pub(crate) static TIES: Ties = Ties {
    lock: Opaque::zeroed(),
    named: Atomic::new(false),
    // An empty list head is all zeros.
    buckets: [const { Opaque::zeroed() }; BUCKETS],
};

impl Ties {
    /// Initialises the lock with its lockdep name, before there is a device. Further calls do
    /// nothing.
    pub(crate) fn init(&'static self) {
        if self.named.xchg(true, Full) {
            return;
        }
        // SAFETY: Done once. Since an all-zero lock is valid, earlier uses of it are harmless
        // except for lockdep reports. Name and key are static.
        unsafe {
            bindings::__spin_lock_init(
                self.lock.get(),
                c"Ties::lock".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            )
        };
    }

    fn bucket(&self, netdev: *const bindings::net_device) -> &Opaque<bindings::hlist_head> {
        // Network devices are cache line aligned and larger than four cache lines.
        let place = (netdev as usize >> 8) ^ (netdev as usize >> 14);
        let [first, ..] = &self.buckets;
        self.buckets.get(place % BUCKETS).unwrap_or(first)
    }

    fn locked<R>(&self, act: impl FnOnce() -> R) -> R {
        // SAFETY: The lock is initialised, or all zeros (type invariant).
        let flags = unsafe { bindings::rdma_helper_spin_lock_irqsave(self.lock.get()) };
        let done = act();
        // SAFETY: Locked above, with these flags.
        unsafe { bindings::rdma_helper_spin_unlock_irqrestore(self.lock.get(), flags) };
        done
    }

    /// Removes a port from the table. Returns whether it was in the table.
    pub(crate) fn remove(&self, port: &PortData) -> bool {
        // SAFETY: The lock is held; the link is initialised with the port.
        self.locked(|| unsafe {
            let link = &raw mut (*port.raw()).ndev_hash_link;
            let was = !bindings::rdma_helper_hlist_unhashed(link);
            if was {
                bindings::rdma_helper_hlist_del_rcu(link);
            }
            was
        })
    }

    /// Adds a port that has a network device and is not in the table. A grace period should have
    /// passed since its removal. Otherwise a reader may continue in the port's new list: this is
    /// memory safe, but the reader may miss a port.
    pub(crate) fn add(&self, port: &PortData) {
        // SAFETY: The lock is held; the link is initialised with the port. A change of the port's
        // network device is followed by `remove` and `add`.
        self.locked(|| unsafe {
            let netdev = port.tied();
            let link = &raw mut (*port.raw()).ndev_hash_link;
            if !netdev.is_null() && bindings::rdma_helper_hlist_unhashed(link) {
                bindings::rdma_helper_hlist_add_rcu(link, self.bucket(netdev).get());
            }
        });
    }

    /// Calls `take` for each port of a network device until it returns `Some`, and returns that.
    /// `netdev` is only compared. Any context.
    pub(crate) fn find<R>(
        &self,
        netdev: *const bindings::net_device,
        mut take: impl FnMut(&PortData) -> Option<R>,
    ) -> Option<R> {
        let _rcu = rcu::read_lock();
        // SAFETY: In an RCU read-side critical section, entries of a list stay valid even after
        // their removal (type invariant).
        unsafe {
            let mut at = bindings::rdma_helper_hlist_first_rcu(self.bucket(netdev).get());
            while !at.is_null() {
                let port = container_of!(at, bindings::ib_port_data, ndev_hash_link);
                let port = PortData::view(port);
                if core::ptr::eq(port.tied(), netdev) {
                    if let Some(found) = take(port) {
                        return Some(found);
                    }
                }
                at = bindings::rdma_helper_hlist_next_rcu(at);
            }
        }
        None
    }
}
