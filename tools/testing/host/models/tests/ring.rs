// SPDX-License-Identifier: GPL-2.0

//! Shared rings (`hw/rxe/queue/ring.rs` over the accesses of `rust/shared_ring.rs`): who sees an
//! index sees the entries before it, and no slot is written while it is read.
//!
//! The two word accesses are loom's with the orders that `SharedBuf` has; the copies are accesses
//! of a cell, of which loom says if nothing orders them.

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::Arc;
use loom::thread;
use rxe_mem::queue::layout::{Layout, CONSUMER_INDEX, PRODUCER_INDEX};
use rxe_mem::queue::ring::{Consumer, Producer, PushError, RingMem};

struct Memory {
    layout: Layout,
    produced: AtomicU32,
    consumed: AtomicU32,
    slots: [UnsafeCell<u8>; 4],
}

// SAFETY: Loom's cells check their use.
unsafe impl Send for Memory {}
// SAFETY: As for `Send`.
unsafe impl Sync for Memory {}

#[derive(Clone)]
struct Shared(Arc<Memory>);

impl Shared {
    fn new(layout: Layout) -> Self {
        Self(Arc::new(Memory {
            layout,
            produced: AtomicU32::new(0),
            consumed: AtomicU32::new(0),
            slots: [0; 4].map(UnsafeCell::new),
        }))
    }

    fn index(&self, offset: usize) -> Option<&AtomicU32> {
        match offset {
            PRODUCER_INDEX => Some(&self.0.produced),
            CONSUMER_INDEX => Some(&self.0.consumed),
            _ => None,
        }
    }

    fn slot(&self, offset: usize) -> Option<&UnsafeCell<u8>> {
        let layout = &self.0.layout;
        let at = (0..layout.slots()).find(|at| layout.slot(*at) == offset)?;
        self.0.slots.get(at as usize)
    }
}

impl RingMem for Shared {
    fn load_acquire(&self, offset: usize) -> Option<u32> {
        Some(self.index(offset)?.load(Ordering::Acquire))
    }

    fn store_release(&self, offset: usize, value: u32) -> Option<()> {
        self.index(offset)?.store(value, Ordering::Release);
        Some(())
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        // SAFETY: Loom checks that nobody writes meanwhile, which is what is tested.
        to[0] = self.slot(offset)?.with(|slot| unsafe { *slot });
        Some(())
    }

    fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        // SAFETY: As in `read`.
        let put = |slot: *mut u8| unsafe { *slot = from[0] };
        self.slot(offset)?.with_mut(put);
        Some(())
    }
}

/// Two entries into a ring of one, so that a slot is used again while the other end works.
#[test]
fn entries_come_whole_and_in_order() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let layout = Layout::new(1, 1).unwrap();
        let memory = Shared::new(layout);
        let producer = {
            let memory = memory.clone();
            thread::spawn(move || {
                let mut producer = Producer::new(memory, layout);
                for value in 1..=2u8 {
                    while producer.push(|blank| blank.write(0, &[value])) == Err(PushError::Full) {
                        thread::yield_now();
                    }
                }
            })
        };
        let mut consumer = Consumer::new(memory, layout);
        for expected in 1..=2u8 {
            let mut value = [0];
            while consumer
                .peek()
                .is_none_or(|entry| entry.read(0, &mut value).is_none())
            {
                thread::yield_now();
            }
            assert_eq!(value, [expected]);
            consumer.take();
            consumer.retire(1);
        }
        producer.join().unwrap();
        assert_eq!(consumer.waiting(), 0);
    });
}
