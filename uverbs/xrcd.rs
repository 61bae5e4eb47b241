// SPDX-License-Identifier: GPL-2.0

//! The XRC domains of a device that programs share by a file.
//!
//! Programs that open a domain with the same file get the same domain, each a handle of its own.
//! The domain counts its handles (and what else uses it) in `usecnt`; it is destroyed with the last
//! one. The table has it until then, with a reference to the inode of the file.
//!
//! The table's mutex is held while a domain is looked up and counted, or uncounted and destroyed.

use crate::edge::object::xrcd::Domain;
use crate::edge::object::xrcd::Inode;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::sync::Mutex;
use rdma::accounted;

/// Domains by the addresses of their inodes.
pub(crate) struct Table {
    domains: RBTree<usize, Entry>,
}

/// A domain that handles share. Dropping it may sleep.
pub(crate) struct Entry {
    _inode: Inode,
    domain: Domain,
}

/// Memory for an entry of the table.
pub(crate) struct Reserved(RBTreeNodeReservation<usize, Entry>);

impl Table {
    /// An empty table.
    pub(crate) fn new() -> impl PinInit<Mutex<Self>> {
        kernel::new_mutex!(
            Self {
                domains: RBTree::new(),
            },
            "xrcd::Table"
        )
    }

    /// The domain of an inode, if there is one.
    pub(crate) fn find(&self, inode: &Inode) -> Option<&Domain> {
        self.domains
            .get(&inode.address())
            .map(|entry| &entry.domain)
    }

    /// Allocates memory for an entry. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reserve() -> Result<Reserved> {
        Ok(Reserved(RBTreeNodeReservation::new(accounted::GFP)?))
    }

    /// Adds the domain of an inode that has none.
    pub(crate) fn insert(&mut self, reserved: Reserved, inode: Inode, domain: Domain) {
        let key = inode.address();
        let entry = Entry {
            _inode: inode,
            domain,
        };
        self.domains.insert(reserved.0.into_node(key, entry));
    }

    /// Removes the domain of the inode with this address. The caller drops the entry after it has
    /// unlocked the table.
    pub(crate) fn remove(&mut self, inode: usize) -> Option<Entry> {
        self.domains.remove(&inode)
    }
}
