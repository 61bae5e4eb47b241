// SPDX-License-Identifier: GPL-2.0

//! Hash lists of ports by their network device. Changed under a spinlock, read under RCU.
//!
//! A port's memory is freed by RCU after its device, and a port is taken out of its list before
//! that. C header: `include/linux/rculist.h`.

use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::types::Opaque;
use rdma::bindings;
use rdma::edge::View;
use rdma::sync::rcu;

use super::device::PortData;

/// Number of lists. The address of the network device chooses one.
const BUCKETS: usize = 64;

/// All ports with a network device.
///
/// # Invariants
///
/// `lock` is zeros, which is an open lock, or initialised. The lists are changed under it. What is in a
/// list is the `ndev_hash_link` of a port, which exists until a grace period after it is taken
/// out.
pub(crate) struct Ties {
    lock: Opaque<bindings::spinlock_t>,
    named: Atomic<bool>,
    buckets: [Opaque<bindings::hlist_head>; BUCKETS],
}

// SAFETY: Changed under the lock, read under RCU: type invariant.
unsafe impl Sync for Ties {}

/// All ports with a network device.
pub(crate) static TIES: Ties = Ties {
    lock: Opaque::zeroed(),
    named: Atomic::new(false),
    // Empty lists are zeros.
    buckets: [const { Opaque::zeroed() }; BUCKETS],
};

impl Ties {
    /// Gives the lock its name, before there is a device. The second call does nothing.
    pub(crate) fn init(&'static self) {
        if self.named.xchg(true, Full) {
            return;
        }
        // SAFETY: Done once. A lock of zeros is open, so that it is none the worse for having been
        // taken before, but for lockdep's reports. Name and key are static.
        unsafe {
            bindings::__spin_lock_init(
                self.lock.get(),
                c"Ties::lock".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            )
        };
    }

    fn bucket(&self, netdev: *const bindings::net_device) -> &Opaque<bindings::hlist_head> {
        // Network devices are aligned to cache lines, and larger than four of them.
        let place = (netdev as usize >> 8) ^ (netdev as usize >> 14);
        let [first, ..] = &self.buckets;
        self.buckets.get(place % BUCKETS).unwrap_or(first)
    }

    fn locked<R>(&self, act: impl FnOnce() -> R) -> R {
        // SAFETY: It is initialised: type invariant.
        let flags = unsafe { bindings::rdma_helper_spin_lock_irqsave(self.lock.get()) };
        let done = act();
        // SAFETY: Locked above, with these flags.
        unsafe { bindings::rdma_helper_spin_unlock_irqrestore(self.lock.get(), flags) };
        done
    }

    /// Takes a port out of its list; returns whether it was in one.
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

    /// Adds a port that has a network device and is in no list. If the port was in a list, a grace
    /// period has passed since, or readers may walk over into the other list: that is harmless
    /// for memory, but they may miss a port.
    pub(crate) fn add(&self, port: &PortData) {
        // SAFETY: The lock is held; the link is initialised with the port. Whoever changes the
        // port's network device calls `remove` and `add` after that.
        self.locked(|| unsafe {
            let netdev = port.tied();
            let link = &raw mut (*port.raw()).ndev_hash_link;
            if !netdev.is_null() && bindings::rdma_helper_hlist_unhashed(link) {
                bindings::rdma_helper_hlist_add_rcu(link, self.bucket(netdev).get());
            }
        });
    }

    /// Calls `take` for each port that is tied to a network device, until it returns something.
    /// The pointer is compared only. Any context.
    pub(crate) fn find<R>(
        &self,
        netdev: *const bindings::net_device,
        mut take: impl FnMut(&PortData) -> Option<R>,
    ) -> Option<R> {
        let _rcu = rcu::read_lock();
        // SAFETY: RCU is held, so what is in a list, or was, exists: type invariant.
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
