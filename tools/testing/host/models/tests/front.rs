// SPDX-License-Identifier: GPL-2.0

//! The front of a table (`rust/front.rs`): readers under RCU, a writer with the lock.

use core::ptr::NonNull;
use loom::cell::UnsafeCell;
use loom::sync::atomic::{fence, AtomicUsize, Ordering};
use loom::sync::Arc;
use loom::thread;
use rdma_models::front::Front;

struct Node {
    id: u32,
    value: UnsafeCell<u32>,
}

struct Table {
    front: Front<Node, 2>,
    nodes: [Node; 3],
    /// Number of readers in a section.
    readers: AtomicUsize,
}

// SAFETY: What is shared are loom's cells and atomics, which check their use.
unsafe impl Send for Table {}
// SAFETY: As for `Send`.
unsafe impl Sync for Table {}

impl Table {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            front: Front::new(),
            // The first two share a slot.
            nodes: [1, 3, 2].map(|id| Node {
                id,
                value: UnsafeCell::new(0),
            }),
            readers: AtomicUsize::new(0),
        })
    }

    /// Writes a node and publishes it, as `Slot::publish` does.
    fn publish(&self, at: usize) {
        let node = &self.nodes[at];
        // SAFETY: Loom checks that there are no concurrent readers, which is what is tested.
        node.value.with_mut(|value| unsafe { *value = node.id });
        self.front.put(node.id, NonNull::from(node));
    }

    /// Removes a node, waits for readers that may have found it, and frees it.
    fn remove(&self, at: usize) {
        let node = &self.nodes[at];
        self.front.take(node.id, NonNull::from(node));
        // A grace period. Sections that begin after this fence see all earlier writes.
        fence(Ordering::SeqCst);
        while self.readers.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
        // SAFETY: As in `publish`.
        node.value.with_mut(|value| unsafe { *value = u32::MAX });
    }

    /// Looks up a number in a read section. A found node has the value it was published with.
    fn look(&self, id: u32) -> bool {
        self.readers.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        let found = self.front.look(id).is_some_and(|node| {
            // SAFETY: Nodes exist as long as the table.
            let node = unsafe { node.as_ref() };
            // SAFETY: Loom checks that there are no concurrent writers.
            let value = node.value.with(|value| unsafe { *value });
            assert_eq!(value, node.id, "a node before or after its life");
            node.id == id
        });
        self.readers.fetch_sub(1, Ordering::AcqRel);
        found
    }
}

/// A reader while a node is added and removed.
#[test]
fn found_objects_are_alive() {
    loom::model(|| {
        let table = Table::new();
        let reader = {
            let table = table.clone();
            thread::spawn(move || table.look(1))
        };
        table.publish(0);
        table.remove(0);
        reader.join().unwrap();
        assert!(!table.look(1));
    });
}

/// Two nodes with the same slot: the second is not in the front, and its removal does not remove
/// the first.
#[test]
fn a_place_is_of_one() {
    loom::model(|| {
        let table = Table::new();
        table.publish(0);
        let reader = {
            let table = table.clone();
            thread::spawn(move || {
                assert!(table.look(1));
                assert!(!table.look(3));
            })
        };
        table.publish(1);
        table.remove(1);
        table.publish(2);
        reader.join().unwrap();
        assert!(table.look(1) && table.look(2));
    });
}
