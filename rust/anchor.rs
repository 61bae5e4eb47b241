// SPDX-License-Identifier: GPL-2.0

//! Reservation of one freed ID, so that a table keeps an XArray node allocated.
//!
//! A table that allocates IDs cyclically stores them in XArray nodes of 64 entries ([`NODE`]). A
//! user that repeatedly creates and destroys one object empties a node each time: the node is freed
//! by RCU, together with its parent if the table is otherwise empty, and the next ID needs new
//! nodes. This costs some 900 instructions per cycle, half of them to clear the nodes. So one freed
//! ID stays reserved, in the node of the ID that was allocated last. When allocation has moved on
//! to another node, the reservation is exchanged for an ID of that node.
//!
//! An [`Anchor`] only decides; the table carries out the decision. Both run under the table's lock.
//! Pure: no kernel imports; tested on the host.

/// Entries of an XArray node (`XA_CHUNK_SIZE`). With smaller nodes (`CONFIG_BASE_SMALL`) less is
/// saved, but the result is correct.
const NODE: u32 = 64;

/// Selects the freed ID that stays reserved.
///
/// # Invariants
///
/// `kept` is not in use by an object.
#[derive(Default)]
pub struct Anchor {
    kept: Option<u32>,
    /// The ID that was allocated last.
    last: u32,
}

/// What the table does with an ID that is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// Erases it.
    Erase,
    /// Keeps it reserved, without an object, and erases the ID that was reserved so far, if any.
    KeepFor(Option<u32>),
}

impl Anchor {
    /// State of an empty table.
    pub const fn new() -> Self {
        // INVARIANT: No ID is kept.
        Self {
            kept: None,
            last: 0,
        }
    }

    /// Notes that `id` was allocated for an object.
    pub fn given(&mut self, id: u32) {
        self.last = id;
        // INVARIANT: The table does not allocate an ID that is reserved. If it does nevertheless,
        // the ID belongs to the object now.
        if self.kept == Some(id) {
            self.kept = None;
        }
    }

    /// Decides what happens to `id`, which its object no longer uses.
    #[must_use = "the table has to do it"]
    pub fn freed(&mut self, id: u32) -> Freed {
        let here = id / NODE;
        if here != self.last / NODE || self.kept.is_some_and(|kept| kept / NODE == here) {
            return Freed::Erase;
        }
        // INVARIANT: The object no longer uses it.
        Freed::KeepFor(self.kept.replace(id))
    }

    /// Returns the reserved ID, for the table to erase when no other is free.
    pub fn give_up(&mut self) -> Option<u32> {
        self.kept.take()
    }

    /// Returns the reserved ID as [`give_up`](Self::give_up) does, if it is `id`.
    pub fn give_up_if(&mut self, id: u32) -> Option<u32> {
        self.kept.take_if(|kept| *kept == id)
    }
}
