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
use rdma::accounted;
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
    by_gid: RBTree<Gid, Group>,
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

    /// Returns the index of a queue pair number.
    fn position(&self, qpn: u32) -> Option<usize> {
        self.numbers().iter().position(|member| *member == qpn)
    }
}

/// A group: its members, and how many times each is attached.
///
/// The core attaches a queue pair once per pair of GID and LID, and counts each attachment as a use
/// that only a detachment gives back. A RoCE group has no LID, so a member may be attached several
/// times.
struct Group {
    members: Members,
    times: [u32; MEMBERS],
}

impl Group {
    const EMPTY: Self = Self {
        members: Members::NONE,
        times: [0; MEMBERS],
    };

    /// Attaches a member once more. Returns false if it is not attached yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: it is attached 2^32 - 1 times.
    fn again(&mut self, qpn: u32) -> Result<bool> {
        let Some(at) = self.members.position(qpn) else {
            return Ok(false);
        };
        let times = self.times.get_mut(at).ok_or(ENOMEM)?;
        *times = times.checked_add(1).ok_or(ENOMEM)?;
        Ok(true)
    }

    /// Adds a member, attached once. `ENOMEM` if there is no room.
    fn add(&mut self, qpn: u32) -> Result {
        let at = self.members.count;
        *self.members.numbers.get_mut(at).ok_or(ENOMEM)? = qpn;
        *self.times.get_mut(at).ok_or(ENOMEM)? = 1;
        self.members.count = at.saturating_add(1);
        Ok(())
    }

    /// Detaches a member once. Returns whether it has left the group. `EINVAL` if it is not
    /// attached.
    fn remove(&mut self, qpn: u32) -> Result<bool> {
        let at = self.members.position(qpn).ok_or(EINVAL)?;
        let times = self.times.get_mut(at).ok_or(EINVAL)?;
        *times = times.saturating_sub(1);
        if *times != 0 {
            return Ok(false);
        }
        let last = self.members.count.checked_sub(1).ok_or(EINVAL)?;
        let moved = *self.members.numbers.get(last).ok_or(EINVAL)?;
        let moved_times = *self.times.get(last).ok_or(EINVAL)?;
        *self.members.numbers.get_mut(at).ok_or(EINVAL)? = moved;
        *self.times.get_mut(at).ok_or(EINVAL)? = moved_times;
        self.members.count = last;
        Ok(true)
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

    /// Attaches a queue pair to a group. One that is attached already has to be detached once more.
    /// May sleep; takes the RTNL lock.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if a limit is reached; those of [`NetDevice::join_group`].
    pub(crate) fn attach(&self, ndev: &NetDevice, group: &Gid, qpn: u32) -> Result {
        let _changes = self.changes.lock();
        {
            let mut inner = self.inner.lock();
            let is_full = inner.attached >= limits::MAX_TOTAL_MCAST_QP_ATTACH;
            if let Some(found) = inner.by_gid.get_mut(group) {
                if found.again(qpn)? {
                    return Ok(());
                }
                if is_full {
                    return Err(ENOMEM);
                }
                found.add(qpn)?;
                inner.attached = inner.attached.saturating_add(1);
                return Ok(());
            }
            if is_full || inner.groups >= limits::MAX_MCAST_GRP {
                return Err(ENOMEM);
            }
        }
        let mut new = Group::EMPTY;
        new.add(qpn)?;
        let node = RBTreeNodeReservation::new(accounted::GFP)?.into_node(*group, new);
        ndev.join_group(gid_to_ip(group))?;
        let mut inner = self.inner.lock();
        // Nothing is replaced: groups are created under `changes` only.
        let _: Option<RBTreeNode<Gid, Group>> = inner.by_gid.insert(node);
        inner.groups = inner.groups.saturating_add(1);
        inner.attached = inner.attached.saturating_add(1);
        Ok(())
    }

    /// Detaches a queue pair from a group once. May sleep; takes the RTNL lock.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not attached.
    pub(crate) fn detach(&self, ndev: &NetDevice, group: &Gid, qpn: u32) -> Result {
        let _changes = self.changes.lock();
        // Freed after unlocking.
        let emptied = {
            let mut inner = self.inner.lock();
            let found = inner.by_gid.get_mut(group).ok_or(EINVAL)?;
            if !found.remove(qpn)? {
                return Ok(());
            }
            let is_empty = found.members.numbers().is_empty();
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
        Some(self.inner.lock().by_gid.get(group)?.members)
    }
}
