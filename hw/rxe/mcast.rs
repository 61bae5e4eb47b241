// SPDX-License-Identifier: GPL-2.0

//! Multicast groups, and the datagram queue pairs attached to them.
//!
//! A group is identified by its GID. While queue pairs are attached, the network device is a member
//! of the corresponding IP group, so that routers and its own filters pass the packets, and the IP
//! stack loops back packets sent by this host.
//!
//! Members are queue pair numbers. Each belongs to a live queue pair, since the core does not
//! destroy an attached one (IBTA 11.2.4.4).
//!
//! Lock order: `Groups::changes`, then RTNL (to join and leave) or `Groups::inner`, a leaf that is
//! taken in process context and softirq.
//!
//! Source: IBTA 10.5.2, 11.3.1, 11.3.2; annex A17.5.6 (no LIDs).

use crate::limits;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::sync::Mutex;
use rdma::net::addr::gid_to_ip;
use rdma::net::NetDevice;
use rdma::new_spinlock_bh;
use rdma::provider::Gid;
use rdma::sync::SpinLockBh;

/// Maximum number of members of a group.
const MEMBERS: usize = limits::MAX_MCAST_QP_ATTACH as usize;

/// All groups of a device.
#[pin_data]
pub(crate) struct Groups {
    /// Held while a group is created or removed, so that the network device's membership stays in
    /// step.
    #[pin]
    changes: Mutex<()>,
    #[pin]
    inner: SpinLockBh<Inner>,
}

struct Inner {
    by_gid: RBTree<Gid, Members>,
    /// Number of groups.
    groups: u32,
    /// Number of members of all groups.
    attached: u32,
}

/// The members of a group, by queue pair number.
#[derive(Clone, Copy)]
pub(crate) struct Members {
    numbers: [u32; MEMBERS],
    count: usize,
}

impl Members {
    const NONE: Self = Self {
        numbers: [0; MEMBERS],
        count: 0,
    };

    /// Returns the queue pair numbers.
    pub(crate) fn numbers(&self) -> &[u32] {
        self.numbers.get(..self.count).unwrap_or(&[])
    }

    /// Adds a member. `ENOMEM` if there is no room.
    fn add(&mut self, qpn: u32) -> Result {
        *self.numbers.get_mut(self.count).ok_or(ENOMEM)? = qpn;
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// Removes a member. `EINVAL` if it is not attached.
    fn remove(&mut self, qpn: u32) -> Result {
        let found = self.numbers().iter().position(|member| *member == qpn);
        let at = found.ok_or(EINVAL)?;
        let last = self.count.checked_sub(1).ok_or(EINVAL)?;
        let moved = *self.numbers.get(last).ok_or(EINVAL)?;
        *self.numbers.get_mut(at).ok_or(EINVAL)? = moved;
        self.count = last;
        Ok(())
    }
}

impl Groups {
    /// Creates an empty table of groups.
    pub(crate) fn new() -> impl PinInit<Self> {
        let inner = Inner {
            by_gid: RBTree::new(),
            groups: 0,
            attached: 0,
        };
        pin_init!(Self {
            changes <- new_mutex!((), "rxe::Groups::changes"),
            inner <- new_spinlock_bh!(inner, "rxe::Groups::inner"),
        })
    }

    /// Attaches a queue pair to a group. Does nothing if it is attached already. May sleep; takes
    /// the RTNL lock.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if a limit is reached; those of [`NetDevice::join_group`].
    pub(crate) fn attach(&self, ndev: &NetDevice, group: &Gid, qpn: u32) -> Result {
        let _changes = self.changes.lock();
        {
            let mut inner = self.inner.lock();
            if inner.attached >= limits::MAX_TOTAL_MCAST_QP_ATTACH {
                return Err(ENOMEM);
            }
            if let Some(members) = inner.by_gid.get_mut(group) {
                if members.numbers().contains(&qpn) {
                    return Ok(());
                }
                members.add(qpn)?;
                inner.attached = inner.attached.saturating_add(1);
                return Ok(());
            }
            if inner.groups >= limits::MAX_MCAST_GRP {
                return Err(ENOMEM);
            }
        }
        let mut members = Members::NONE;
        members.add(qpn)?;
        let node = RBTreeNodeReservation::new(GFP_KERNEL_ACCOUNT)?.into_node(*group, members);
        ndev.join_group(gid_to_ip(group))?;
        let mut inner = self.inner.lock();
        // Nothing is replaced: groups are created under `changes` only.
        let _: Option<RBTreeNode<Gid, Members>> = inner.by_gid.insert(node);
        inner.groups = inner.groups.saturating_add(1);
        inner.attached = inner.attached.saturating_add(1);
        Ok(())
    }

    /// Detaches a queue pair from a group. May sleep; takes the RTNL lock.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not attached.
    pub(crate) fn detach(&self, ndev: &NetDevice, group: &Gid, qpn: u32) -> Result {
        let _changes = self.changes.lock();
        // Freed after unlocking.
        let emptied = {
            let mut inner = self.inner.lock();
            let members = inner.by_gid.get_mut(group).ok_or(EINVAL)?;
            members.remove(qpn)?;
            let is_empty = members.numbers().is_empty();
            inner.attached = inner.attached.saturating_sub(1);
            if is_empty {
                inner.groups = inner.groups.saturating_sub(1);
                inner.by_gid.remove_node(group)
            } else {
                None
            }
        };
        if emptied.is_some() {
            ndev.leave_group(gid_to_ip(group));
        }
        Ok(())
    }

    /// Returns the members of a group, if it exists. Softirq or process context.
    pub(crate) fn members(&self, group: &Gid) -> Option<Members> {
        self.inner.lock().by_gid.get(group).copied()
    }
}
