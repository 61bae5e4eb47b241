// SPDX-License-Identifier: GPL-2.0

//! The freed number that stays taken, so that a table keeps its nodes.
//!
//! An array of numbers in turn is a tree of nodes of 64 ([`NODE`]). Who makes one object and
//! unmakes it, again and again, empties a node each time: it goes back by way of RCU, with the
//! one above it if the table is else empty, and the next number needs new ones. That is some 900
//! instructions for each, half of them to clear it. So one freed number stays taken: one in the
//! node that the last number given out is in. When the numbers have gone on to another node, it
//! is exchanged for one there.
//!
//! An [`Anchor`] only says what is to be done; the table does it, both under one lock.
//! Pure: no kernel imports; tested on the host.

/// Numbers in a node of an xarray (`XA_CHUNK_SIZE`). With smaller nodes (`CONFIG_BASE_SMALL`)
/// less is gained, and nothing is wrong.
const NODE: u32 = 64;

/// Which freed number of a table stays taken.
///
/// # Invariants
///
/// `kept` is not in use by an object.
#[derive(Default)]
pub struct Anchor {
    kept: Option<u32>,
    /// The number that was given out last.
    last: u32,
}

/// What becomes of a number that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// It is free again.
    Erase,
    /// It stays taken, without an object, and another that did so until now is free, if there
    /// was one.
    KeepFor(Option<u32>),
}

impl Anchor {
    /// Of an empty table.
    pub const fn new() -> Self {
        // INVARIANT: There is none.
        Self {
            kept: None,
            last: 0,
        }
    }

    /// An object has got `id`.
    pub fn given(&mut self, id: u32) {
        self.last = id;
        // INVARIANT: Where a number was kept, the table would not have given it out; if it
        // did all the same, it is the object's.
        if self.kept == Some(id) {
            self.kept = None;
        }
    }

    /// An object gives `id` back.
    #[must_use = "the table has to do it"]
    pub fn freed(&mut self, id: u32) -> Freed {
        let here = id / NODE;
        if here != self.last / NODE || self.kept.is_some_and(|kept| kept / NODE == here) {
            return Freed::Erase;
        }
        // INVARIANT: The object does not use it any more.
        Freed::KeepFor(self.kept.replace(id))
    }

    /// The number that was kept, to be freed: there is no other.
    pub fn give_up(&mut self) -> Option<u32> {
        self.kept.take()
    }

    /// As [`give_up`](Self::give_up), if it is `id` that was kept.
    pub fn give_up_if(&mut self, id: u32) -> Option<u32> {
        self.kept.take_if(|kept| *kept == id)
    }
}
