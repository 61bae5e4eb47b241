// SPDX-License-Identifier: GPL-2.0

//! What the tests share: memory that both sides hold, and a seeded generator.

use rxe_mem::queue::layout::{Layout, CONSUMER_INDEX, PRODUCER_INDEX};
use rxe_mem::queue::ring::{format, RingMem};
use std::cell::RefCell;
use std::rc::Rc;

/// How often a test is repeated with other numbers. Miri is some hundred times slower, and looks
/// at each access.
pub(crate) const fn rounds(all: u64) -> u64 {
    if cfg!(miri) {
        all.div_ceil(500)
    } else {
        all
    }
}

/// A queue's memory, held by the kernel's end and by the test, which plays user.
#[derive(Clone)]
pub(crate) struct Shared(Rc<RefCell<Vec<u8>>>);

impl Shared {
    /// A formatted, empty queue.
    pub(crate) fn new(layout: &Layout) -> Self {
        let mem = Self(Rc::new(RefCell::new(vec![0; layout.size()])));
        format(&mem, layout).unwrap();
        mem
    }

    /// Overwrites bytes.
    pub(crate) fn poke(&self, offset: usize, bytes: &[u8]) {
        self.0.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Copies bytes out.
    pub(crate) fn peek<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.0.borrow()[offset..offset + N].try_into().unwrap()
    }

    pub(crate) fn producer(&self) -> u32 {
        u32::from_ne_bytes(self.peek(PRODUCER_INDEX))
    }

    pub(crate) fn consumer(&self) -> u32 {
        u32::from_ne_bytes(self.peek(CONSUMER_INDEX))
    }

    pub(crate) fn set_producer(&self, index: u32) {
        self.poke(PRODUCER_INDEX, &index.to_ne_bytes());
    }

    pub(crate) fn set_consumer(&self, index: u32) {
        self.poke(CONSUMER_INDEX, &index.to_ne_bytes());
    }

    /// Posts an entry as user space does.
    pub(crate) fn produce(&self, layout: &Layout, entry: &[u8]) {
        let at = self.producer();
        self.poke(layout.slot(at), entry);
        self.set_producer(layout.advance(at, 1));
    }

    /// Takes an entry as user space does.
    pub(crate) fn consume<const N: usize>(&self, layout: &Layout) -> Option<[u8; N]> {
        let at = self.consumer();
        if layout.distance(at, self.producer()) == 0 {
            return None;
        }
        let entry = self.peek(layout.slot(at));
        self.set_consumer(layout.advance(at, 1));
        Some(entry)
    }
}

impl RingMem for Shared {
    fn load_acquire(&self, offset: usize) -> Option<u32> {
        let bytes = self.0.borrow();
        let word = bytes.get(offset..offset.checked_add(4)?)?;
        Some(u32::from_ne_bytes(word.try_into().ok()?))
    }

    fn store_release(&self, offset: usize, value: u32) -> Option<()> {
        self.write(offset, &value.to_ne_bytes())
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        let bytes = self.0.borrow();
        to.copy_from_slice(bytes.get(offset..offset.checked_add(to.len())?)?);
        Some(())
    }

    fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        let mut bytes = self.0.borrow_mut();
        bytes
            .get_mut(offset..offset.checked_add(from.len())?)?
            .copy_from_slice(from);
        Some(())
    }
}

/// A small generator (splitmix64); the same seed gives the same run everywhere.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::try_from(self.next() >> 32).unwrap()
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.next().to_ne_bytes()[0];
        }
    }
}
