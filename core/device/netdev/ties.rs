// SPDX-License-Identifier: GPL-2.0

//! Which ports are tied to a network device: lists that are read under RCU.

use core::ptr;
use kernel::prelude::*;
use kernel::types::Opaque;
use rdma::bindings;

/// How many lists ties are spread over, by their network device's address.
const BUCKETS: usize = 64;

/// All ties. The lists are changed under `lock`, and read under RCU.
pub(super) struct Ties {
    lock: Opaque<bindings::spinlock_t>,
    buckets: [Opaque<bindings::hlist_head>; BUCKETS],
}

// SAFETY: As the type says, it is locked, or read under RCU.
unsafe impl Sync for Ties {}

pub(super) static TIES: Ties = Ties {
    lock: Opaque::uninit(),
    // Empty lists are zeros.
    buckets: [const { Opaque::zeroed() }; BUCKETS],
};

impl Ties {
    /// # Safety
    ///
    /// Called once, before there is a device.
    pub(super) unsafe fn init(&'static self) {
        // SAFETY: By this function's duty; name and key are static.
        unsafe {
            bindings::__spin_lock_init(
                self.lock.get(),
                c"Ties::lock".as_char_ptr(),
                kernel::static_lock_class!().as_ptr(),
            )
        };
    }

    pub(super) fn bucket(&self, netdev: *mut bindings::net_device) -> *mut bindings::hlist_head {
        // Devices are aligned to cache lines, and larger than four of them.
        let place = (netdev as usize >> 8) ^ (netdev as usize >> 14);
        match self.buckets.get(place % BUCKETS) {
            Some(bucket) => bucket.get(),
            None => ptr::null_mut(),
        }
    }

    fn locked<R>(&self, act: impl FnOnce() -> R) -> R {
        // SAFETY: It is initialised.
        let flags = unsafe { bindings::rdma_helper_spin_lock_irqsave(self.lock.get()) };
        let done = act();
        // SAFETY: Locked above.
        unsafe { bindings::rdma_helper_spin_unlock_irqrestore(self.lock.get(), flags) };
        done
    }

    /// Takes a port out; says whether it was in a list.
    ///
    /// # Safety
    ///
    /// `port` is a port of a device.
    pub(super) unsafe fn remove(&self, port: *mut bindings::ib_port_data) -> bool {
        // SAFETY: By this function's duty; under the lock nobody else changes it.
        self.locked(|| unsafe {
            let link = &raw mut (*port).ndev_hash_link;
            let was = !bindings::rdma_helper_hlist_unhashed(link);
            if was {
                bindings::rdma_helper_hlist_del_rcu(link);
            }
            was
        })
    }

    /// Adds a port that is in no list, nor has been for a grace period, under its device.
    ///
    /// # Safety
    ///
    /// `port` is a port of a device.
    pub(super) unsafe fn add(&self, port: *mut bindings::ib_port_data) {
        // SAFETY: By this function's duty; under the lock nobody else changes it. Whoever
        // changes the port's network device puts it into the right list after that.
        self.locked(|| unsafe {
            let netdev = (&raw const (*port).netdev).read_volatile();
            let link = &raw mut (*port).ndev_hash_link;
            if !netdev.is_null() && bindings::rdma_helper_hlist_unhashed(link) {
                bindings::rdma_helper_hlist_add_rcu(link, self.bucket(netdev));
            }
        });
    }
}
