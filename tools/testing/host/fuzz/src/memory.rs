// SPDX-License-Identifier: GPL-2.0

//! Memory that its user changes at the worst moments.

use std::cell::RefCell;
use std::rc::Rc;

use rxe_mem::queue::layout::{Layout, SLOTS};
use rxe_mem::queue::ring::{format, RingMem};

/// A queue's memory. The kernel's end and the user hold it both.
#[derive(Clone, Debug)]
pub struct Shared(Rc<RefCell<Inner>>);

#[derive(Debug)]
struct Inner {
    bytes: Vec<u8>,
    /// What is added, in turn, to bytes just after they were read: whoever looks twice
    /// sees two things.
    unrest: Vec<u8>,
    reads: usize,
    /// What was read since [`Shared::look_once`], byte by byte.
    seen: Vec<bool>,
}

impl Shared {
    /// A formatted, empty queue.
    pub fn new(layout: &Layout) -> Self {
        let shared = Self(Rc::new(RefCell::new(Inner {
            bytes: vec![0; layout.size()],
            unrest: Vec::new(),
            reads: 0,
            seen: vec![false; layout.size()],
        })));
        format(&shared, layout).expect("it has room");
        shared
    }

    /// From now on bytes change as soon as they were read, if `unrest` is not empty.
    pub fn disturb(&self, unrest: &[u8]) {
        self.0.borrow_mut().unrest = unrest.to_vec();
    }

    /// From now on each byte of the slots may be read once.
    pub fn look_once(&self) {
        self.0.borrow_mut().seen.fill(false);
    }

    /// Overwrites bytes, as far as they exist.
    pub fn poke(&self, offset: usize, bytes: &[u8]) {
        let inner = &mut *self.0.borrow_mut();
        let to = inner.bytes.iter_mut().skip(offset);
        to.zip(bytes).for_each(|(to, from)| *to = *from);
    }

    /// A word as it is.
    pub fn word(&self, offset: usize) -> u32 {
        let inner = self.0.borrow();
        let word = inner.bytes[offset..offset + 4].try_into();
        u32::from_ne_bytes(word.expect("four bytes"))
    }
}

impl RingMem for Shared {
    fn load_acquire(&self, offset: usize) -> Option<u32> {
        let mut word = [0; 4];
        self.read(offset, &mut word)?;
        Some(u32::from_ne_bytes(word))
    }

    fn store_release(&self, offset: usize, value: u32) -> Option<()> {
        self.write(offset, &value.to_ne_bytes())
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Option<()> {
        let inner = &mut *self.0.borrow_mut();
        let from = inner.bytes.get_mut(offset..offset.checked_add(to.len())?)?;
        to.copy_from_slice(from);
        if offset >= SLOTS {
            for seen in &mut inner.seen[offset..offset + to.len()] {
                assert!(!std::mem::replace(seen, true), "a byte is read twice");
            }
        }
        if !inner.unrest.is_empty() && !from.is_empty() {
            inner.reads += 1;
            let with = inner.unrest[inner.reads % inner.unrest.len()];
            let at = inner.reads.wrapping_mul(7) % from.len();
            from[at] = from[at].wrapping_add(with);
        }
        Some(())
    }

    fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        let inner = &mut *self.0.borrow_mut();
        let to = inner
            .bytes
            .get_mut(offset..offset.checked_add(from.len())?)?;
        to.copy_from_slice(from);
        Some(())
    }
}
