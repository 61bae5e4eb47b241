// SPDX-License-Identifier: GPL-2.0

//! News of the network: a peer that has another hardware address, or a bond that has another active
//! device. Consumers are told by the work items of their IDs.
//!
//! IDs with a path of RoCE are listed by the peer's address, with its namespace and interface. The
//! key is a copy, so that an ID is found in the list whatever becomes of its addresses.
//!
//! Context: `neighbour` is called in softirqs, so the list has a lock for these, and nothing is
//! dropped under it. `Id::inner` is taken under it.

use crate::device;
use crate::edge::id::Id;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use rdma::net::neighbour::HardwareAddr;
use rdma::net::notifier::NetdevEvent;
use rdma::net::notifier::NetdevEvents;
use rdma::net::NetDevice;

/// Namespace, interface, address of the peer, and the ID's own address.
pub(crate) type Key = (usize, i32, Words, usize);

/// An address of a peer as two words, which are compared faster than its bytes.
type Words = (u64, u64);

fn words(gid: [u8; 16]) -> Words {
    let all = u128::from_be_bytes(gid);
    // CAST: The upper and the lower half.
    ((all >> 64) as u64, all as u64)
}

rdma::global_lock! {
    // SAFETY: `init` initialises it in the module's initialisation.
    unsafe(uninit) static PEERS: SpinLock<Option<RBTree<Key, Arc<Id>>>> = None;
}

/// Makes the list ready. Only for the module's initialisation.
pub(crate) fn init() {
    rdma::sync::init_once(&PEERS);
}

/// Accesses the list, with softirqs off on this CPU.
fn with_peers<R>(access: impl FnOnce(&mut RBTree<Key, Arc<Id>>) -> R) -> R {
    let _bh = rdma::sync::bh::disable();
    // A local, so that the lock is dropped before `_bh`.
    let mut peers = PEERS.lock();
    access(peers.get_or_insert_with(RBTree::new))
}

fn net_of(id: &Id) -> usize {
    id.net().as_raw().addr()
}

/// Lists an ID by its peer; an ID is listed once.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn add(id: &Arc<Id>) -> Result {
    let (_, destination) = id.addrs();
    let Some(gid) = destination.gid() else {
        return Ok(());
    };
    remove(id);
    let own = core::ptr::from_ref::<Id>(id).addr();
    let key = (net_of(id), id.words().bound_dev_if(), words(gid), own);
    let node = RBTreeNode::new(key, id.clone(), GFP_KERNEL)?;
    // Together, so that who ends the ID finds both.
    let rest = with_peers(|peers| {
        let live = id.with(|inner| {
            let live = !inner.life.state().is_over();
            inner.listed = live.then_some(key);
            live
        });
        if live {
            Ok(peers.insert(node))
        } else {
            Err(node)
        }
    });
    drop(rest);
    Ok(())
}

/// Ends [`add`].
pub(crate) fn remove(id: &Id) {
    let node = with_peers(|peers| {
        let key = id.with(|inner| inner.listed.take())?;
        peers.remove_node(&key)
    });
    drop(node);
}

/// A neighbour that has changed.
pub(crate) struct Neighbour {
    pub(crate) net: usize,
    pub(crate) ifindex: i32,
    pub(crate) gid: [u8; 16],
    pub(crate) hardware: HardwareAddr,
    pub(crate) len: usize,
}

/// A neighbour has changed: connections to it with another hardware address are lost. Any context
/// but hard interrupts.
pub(crate) fn neighbour(neigh: &Neighbour) {
    let first = (neigh.net, neigh.ifindex, words(neigh.gid), 0);
    with_peers(|peers| {
        let mut cursor = peers.cursor_lower_bound_mut(&first);
        while let Some(at) = cursor {
            let (key, id) = at.current();
            if (key.0, key.1, key.2) != (first.0, first.1, first.2) {
                break;
            }
            let [_, known, _] = id.hardware();
            let wanted = neigh.hardware.iter().take(neigh.len);
            if !known.iter().take(neigh.len).eq(wanted) {
                id.lost.store(true, Relaxed);
                Id::wake(id);
            }
            cursor = at.move_next();
        }
    });
}

/// Listener for events of network devices.
pub(crate) struct Bonds;

impl NetdevEvents for Bonds {
    fn event(&self, event: NetdevEvent, dev: &NetDevice) {
        if event == NetdevEvent::BondingFailover && dev.is_bond_master() {
            // Without memory nobody is told, as there is nobody to return an error to.
            let _ignored = failover(dev);
        }
    }
}

/// A bond has another active device: tells the IDs on it that have its former hardware address.
fn failover(bond: &NetDevice) -> Result {
    let hardware = bond.hardware_addr();
    let len = usize::from(bond.addr_len());
    for device in &device::all()? {
        device.for_each(|id| {
            let [own, ..] = id.hardware();
            let same_device = u32::try_from(id.words().bound_dev_if()) == Ok(bond.ifindex());
            let changed = !own.iter().take(len).eq(hardware.iter().take(len));
            if same_device && changed && bond.is_in(id.net()) {
                id.moved.store(true, Relaxed);
                Id::wake(id);
            }
        });
    }
    Ok(())
}
