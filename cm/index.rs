// SPDX-License-Identifier: GPL-2.0

//! Tables of connections by keys of the protocol, and of listeners.
//!
//! A table has shards, each a tree with a lock of its own; the shard is chosen by a keyed hash.
//! Nodes are allocated before the lock is taken.
//!
//! Locks: that of a shard is a leaf, and nothing is dropped under it. Process context.

use crate::conn::Conn;
use crate::edge::random;
use crate::proto::tables::IdKey;
use crate::proto::tables::QpnKey;
use crate::proto::tables::SidrKey;
use crate::proto::tables::Table;
use kernel::new_spinlock;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::sync::Arc;
use kernel::sync::SpinLock;

/// Number of shards.
const SHARDS: usize = 64;

/// A key of a table.
pub(crate) trait Hashed: Ord + Clone {
    /// Mixes the key with two random numbers, the second of which is odd.
    fn hash(&self, seed: (u64, u64)) -> u64;
}

fn mix(words: &[u64], (start, odd): (u64, u64)) -> u64 {
    words.iter().fold(start, |sum, word| {
        let sum = (sum ^ word).wrapping_mul(odd);
        sum ^ (sum >> 32)
    })
}

impl Hashed for IdKey {
    fn hash(&self, seed: (u64, u64)) -> u64 {
        mix(&self.words(), seed)
    }
}

impl Hashed for QpnKey {
    fn hash(&self, seed: (u64, u64)) -> u64 {
        mix(&self.words(), seed)
    }
}

impl Hashed for SidrKey {
    fn hash(&self, seed: (u64, u64)) -> u64 {
        mix(&self.words(), seed)
    }
}

/// A service of a device, which is given by its address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Service {
    pub(crate) device: usize,
    pub(crate) id: u64,
}

impl Hashed for Service {
    fn hash(&self, seed: (u64, u64)) -> u64 {
        // CAST: An address, which has 64 bits at most.
        mix(&[self.device as u64, self.id], seed)
    }
}

/// A tree. Its nodes do not refer to its address, so it may be moved.
struct Tree<K>(RBTree<K, Arc<Conn>>);

impl<K> Unpin for Tree<K> {}

/// A table.
#[pin_data]
pub(crate) struct Index<K: Hashed> {
    seed: (u64, u64),
    #[pin]
    shards: [SpinLock<Tree<K>>; SHARDS],
}

impl<K: Hashed> Index<K> {
    /// Creates an empty table.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            seed: (random(), random() | 1),
            shards <- pin_init::pin_init_array_from_fn(|_| {
                new_spinlock!(Tree(RBTree::new()), "Index::shards")
            }),
        })
    }

    fn shard(&self, key: &K) -> Option<&SpinLock<Tree<K>>> {
        // CAST: Less than the number of shards.
        let number = (key.hash(self.seed) >> 32) as usize % SHARDS;
        self.shards.get(number)
    }

    /// Returns the connection with a key.
    pub(crate) fn get(&self, key: &K) -> Option<Arc<Conn>> {
        self.shard(key)?.lock().0.get(key).cloned()
    }

    /// Inserts a connection, or returns the one that has the key. May sleep.
    ///
    /// # Errors
    ///
    /// The connection that has the key; `conn` itself if there is no memory.
    pub(crate) fn add(&self, key: &K, conn: &Arc<Conn>) -> Result<(), Arc<Conn>> {
        let Some(shard) = self.shard(key) else {
            return Err(conn.clone());
        };
        let Ok(room) = RBTreeNodeReservation::new(GFP_KERNEL) else {
            return Err(conn.clone());
        };
        let node = room.into_node(key.clone(), conn.clone());
        let mut tree = shard.lock();
        let found = tree.0.get(key).cloned();
        let Some(found) = found else {
            // There is no old node, as just looked up.
            let old = tree.0.insert(node);
            drop(tree);
            drop(old);
            return Ok(());
        };
        drop(tree);
        Err(found)
    }

    /// Removes a connection, if it has the key.
    pub(crate) fn delete(&self, key: &K, conn: &Arc<Conn>) {
        self.delete_if(key, |it| Arc::ptr_eq(it, conn));
    }

    /// Removes the connection with a key, if `yes`.
    pub(crate) fn delete_if(&self, key: &K, yes: impl FnOnce(&Arc<Conn>) -> bool) {
        let Some(shard) = self.shard(key) else {
            return;
        };
        let mut tree = shard.lock();
        let node = if tree.0.get(key).is_some_and(yes) {
            tree.0.remove_node(key)
        } else {
            None
        };
        drop(tree);
        drop(node);
    }
}

impl<K: Hashed> Table<K, Arc<Conn>> for Index<K> {
    fn insert(&self, key: K, value: Arc<Conn>) -> Result<(), Arc<Conn>> {
        self.add(&key, &value)
    }

    fn remove(&self, key: &K, value: &Arc<Conn>) {
        self.delete(key, value);
    }
}
