// SPDX-License-Identifier: GPL-2.0

//! The requests that are not over, found in constant time by what each user of the table knows.
//!
//! | who | knows |
//! |---|---|
//! | the worker | the slot, and the number as a check |
//! | whoever cancels | the key of the requester |
//! | user space | the low 32 bits of the number |
//! | the network stack | the neighbour that became known |
//!
//! Each of the last three is a hash of doubly linked lists through the slots. A request waits for
//! one neighbour, or, if it has none, for any. The caller keeps the table under one lock, and
//! allocates its memory outside of it: [`Table::grow`].

use core::ops::DerefMut;

use super::Cancelled;
use super::Life;
use super::Task;

/// A request in the table. `N` identifies a neighbour.
#[derive(Debug)]
pub struct Entry<A, H, N> {
    /// Number of the request, unique.
    pub id: u64,
    /// Key by which the requester cancels it.
    pub key: usize,
    /// Handle of the worker.
    pub handle: H,
    /// State of the request.
    pub life: Life<A>,
    /// The neighbour that it waits for; `None` for any.
    pub waits_for: Option<N>,
}

/// A neighbour.
pub trait Neighbour: Copy + Eq {
    /// Returns a number that is the same for equal neighbours.
    fn hash(&self) -> u64;
}

/// Index of no slot.
const NONE: u32 = u32::MAX;

/// What the lists are hashed by.
#[derive(Clone, Copy)]
enum By {
    Key,
    Number,
    Neighbour,
}

/// Place of a slot in one list.
#[derive(Clone, Copy, Debug)]
struct Link {
    next: u32,
    prev: u32,
}

const UNLINKED: Link = Link {
    next: NONE,
    prev: NONE,
};

/// One value each of [`By`].
#[derive(Clone, Copy, Debug)]
struct Each<T> {
    key: T,
    number: T,
    neighbour: T,
}

impl<T: Copy> Each<T> {
    const fn all(value: T) -> Self {
        Self {
            key: value,
            number: value,
            neighbour: value,
        }
    }

    const fn of(&self, by: By) -> T {
        match by {
            By::Key => self.key,
            By::Number => self.number,
            By::Neighbour => self.neighbour,
        }
    }

    const fn of_mut(&mut self, by: By) -> &mut T {
        match by {
            By::Key => &mut self.key,
            By::Number => &mut self.number,
            By::Neighbour => &mut self.neighbour,
        }
    }
}

/// Room for one request.
#[derive(Debug)]
pub struct Slot<A, H, N> {
    entry: Option<Entry<A, H, N>>,
    /// The list of free slots uses that of the key.
    links: Each<Link>,
}

impl<A, H, N> Slot<A, H, N> {
    /// A free slot.
    pub const fn new() -> Self {
        Self {
            entry: None,
            links: Each::all(UNLINKED),
        }
    }
}

impl<A, H, N> Default for Slot<A, H, N> {
    fn default() -> Self {
        Self::new()
    }
}

/// First slots of lists.
#[derive(Clone, Copy, Debug)]
pub struct Heads(Each<u32>);

impl Heads {
    /// Empty lists.
    pub const EMPTY: Self = Self(Each::all(NONE));
}

/// The table, in memory of the caller: `S` derefs to slots, `L` to as many [`Heads`].
#[derive(Debug)]
pub struct Table<S, L> {
    slots: S,
    heads: L,
    /// First of the free slots.
    free: u32,
    len: usize,
}

/// Spreads the bits of a number.
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number ^ (number >> 29)
}

impl<S, L> Table<S, L> {
    /// A table with no room, of empty `slots` and `heads`.
    pub const fn new(slots: S, heads: L) -> Self {
        Self {
            slots,
            heads,
            free: NONE,
            len: 0,
        }
    }

    /// Number of requests.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no request.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<A, H, N, S, L> Table<S, L>
where
    A: Copy,
    N: Neighbour,
    S: DerefMut<Target = [Slot<A, H, N>]>,
    L: DerefMut<Target = [Heads]>,
{
    /// Number of slots.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Moves the requests to larger memory: `slots` of free slots, and as many empty `heads`. The
    /// slot of each request stays the same. Returns the old memory, or `slots` and `heads`
    /// themselves if they have no more room than the table.
    pub fn grow(&mut self, slots: S, heads: L) -> (S, L) {
        if slots.len() <= self.slots.len() || heads.len() < slots.len() {
            return (slots, heads);
        }
        let mut old = core::mem::replace(&mut self.slots, slots);
        let old_heads = core::mem::replace(&mut self.heads, heads);
        self.free = NONE;
        // From the end, so that low indices are used first.
        for at in (0..self.slots.len()).rev() {
            let entry = old.get_mut(at).and_then(|slot| slot.entry.take());
            // CAST: at most `u32::MAX` slots are used, see `insert`.
            let at = at as u32;
            match entry {
                Some(entry) => self.place(at, entry),
                None => self.release(at),
            }
        }
        (old, old_heads)
    }

    /// Adds a request, and returns its slot.
    ///
    /// # Errors
    ///
    /// The entry, if the table is full.
    pub fn insert(&mut self, entry: Entry<A, H, N>) -> Result<u32, Entry<A, H, N>> {
        let at = self.free;
        let Some(slot) = self.slot(at) else {
            return Err(entry);
        };
        self.free = slot.links.key.next;
        self.place(at, entry);
        self.len = self.len.saturating_add(1);
        Ok(at)
    }

    /// Returns the request in a slot, if it has this number.
    pub fn get(&mut self, at: u32, id: u64) -> Option<&mut Entry<A, H, N>> {
        let entry = self.slot(at)?.entry.as_mut()?;
        (entry.id == id).then_some(entry)
    }

    /// Removes the request in a slot, if it has this number.
    pub fn remove(&mut self, at: u32, id: u64) -> Option<Entry<A, H, N>> {
        self.get(at, id)?;
        for by in [By::Key, By::Number, By::Neighbour] {
            self.unlink(at, by);
        }
        let entry = self.slot(at)?.entry.take()?;
        self.release(at);
        self.len = self.len.saturating_sub(1);
        Some(entry)
    }

    /// From now on the request waits for this neighbour alone; `None` for any.
    pub fn watch(&mut self, at: u32, id: u64, neighbour: Option<N>) {
        match self.get(at, id) {
            Some(entry) if entry.waits_for != neighbour => {}
            Some(_) | None => return,
        }
        self.unlink(at, By::Neighbour);
        if let Some(entry) = self.get(at, id) {
            entry.waits_for = neighbour;
        }
        self.link(at, By::Neighbour);
    }

    /// Returns the request that user space answers: its answers carry only the low 32 bits of the
    /// number.
    pub fn find_answered(&mut self, seq: u32) -> Option<&mut Entry<A, H, N>> {
        // CAST: only the low half is compared.
        let at = self.find(By::Number, u64::from(seq), |entry| entry.id as u32 == seq)?;
        self.slot(at)?.entry.as_mut()
    }

    /// Cancels and removes one request with this key. Returns it, and what is left to be done. The
    /// caller repeats the call until it returns `None`.
    pub fn cancel(&mut self, key: usize, by: Task) -> Option<(Entry<A, H, N>, Cancelled)> {
        // CAST: `usize` has at most 64 bits.
        let at = self.find(By::Key, key as u64, |entry| entry.key == key)?;
        let entry = self.slot(at)?.entry.as_mut()?;
        let (id, what) = (entry.id, entry.life.cancel(by));
        Some((self.remove(at, id)?, what))
    }

    /// Tells the requests that wait for a neighbour, or for any, that it became known. Calls
    /// `at_once` for each whose worker must take its turn.
    pub fn wake(&mut self, neighbour: N, mut at_once: impl FnMut(&H)) {
        self.wake_list(Some(neighbour), &mut at_once);
        self.wake_list(None, &mut at_once);
    }

    fn wake_list(&mut self, neighbour: Option<N>, at_once: &mut impl FnMut(&H)) {
        let mut at = self.first(By::Neighbour, Self::hash_of(neighbour));
        while let Some(slot) = self.slot(at) {
            let next = slot.links.neighbour.next;
            if let Some(entry) = &mut slot.entry {
                if entry.waits_for == neighbour && entry.life.wake() {
                    at_once(&entry.handle);
                }
            }
            at = next;
        }
    }

    fn hash_of(neighbour: Option<N>) -> u64 {
        neighbour.map_or(0, |neighbour| neighbour.hash())
    }

    fn slot(&mut self, at: u32) -> Option<&mut Slot<A, H, N>> {
        self.slots.get_mut(usize::try_from(at).ok()?)
    }

    /// Fills a slot that is in no list.
    fn place(&mut self, at: u32, entry: Entry<A, H, N>) {
        if let Some(slot) = self.slot(at) {
            slot.entry = Some(entry);
        }
        for by in [By::Key, By::Number, By::Neighbour] {
            self.link(at, by);
        }
    }

    /// Adds an empty slot, which is in no list, to the free ones.
    fn release(&mut self, at: u32) {
        let next = self.free;
        if let Some(slot) = self.slot(at) {
            slot.links.key = Link { next, prev: NONE };
            self.free = at;
        }
    }

    /// First slot of the list of a hash.
    fn first(&self, by: By, hash: u64) -> u32 {
        self.heads
            .get(self.bucket(hash))
            .map_or(NONE, |heads| heads.0.of(by))
    }

    fn bucket(&self, hash: u64) -> usize {
        // CAST: a remainder of a `usize`. OVERFLOW: not by zero. No room: bucket 0, which does not exist.
        (mix(hash) % (self.heads.len() as u64).max(1)) as usize
    }

    fn set_first(&mut self, by: By, hash: u64, first: u32) {
        let bucket = self.bucket(hash);
        if let Some(heads) = self.heads.get_mut(bucket) {
            *heads.0.of_mut(by) = first;
        }
    }

    fn find(&mut self, by: By, hash: u64, is_it: impl Fn(&Entry<A, H, N>) -> bool) -> Option<u32> {
        let mut at = self.first(by, hash);
        while let Some(slot) = self.slot(at) {
            if slot.entry.as_ref().is_some_and(&is_it) {
                return Some(at);
            }
            at = slot.links.of(by).next;
        }
        None
    }

    /// Hash of the entry in a slot.
    fn hash_at(&mut self, at: u32, by: By) -> Option<u64> {
        let entry = self.slot(at)?.entry.as_ref()?;
        Some(match by {
            // CAST: `usize` has at most 64 bits.
            By::Key => entry.key as u64,
            // CAST: the low half.
            By::Number => u64::from(entry.id as u32),
            By::Neighbour => Self::hash_of(entry.waits_for),
        })
    }

    /// Adds a slot to the list of its hash.
    fn link(&mut self, at: u32, by: By) {
        let Some(hash) = self.hash_at(at, by) else {
            return;
        };
        let next = self.first(by, hash);
        self.set_first(by, hash, at);
        if let Some(slot) = self.slot(at) {
            *slot.links.of_mut(by) = Link { next, prev: NONE };
        }
        if let Some(slot) = self.slot(next) {
            slot.links.of_mut(by).prev = at;
        }
    }

    /// Removes a slot from the list of its hash.
    fn unlink(&mut self, at: u32, by: By) {
        let Some(hash) = self.hash_at(at, by) else {
            return;
        };
        let Some(slot) = self.slot(at) else { return };
        let Link { next, prev } = core::mem::replace(slot.links.of_mut(by), UNLINKED);
        if let Some(slot) = self.slot(next) {
            slot.links.of_mut(by).prev = prev;
        }
        match self.slot(prev) {
            Some(slot) => slot.links.of_mut(by).next = next,
            None => self.set_first(by, hash, next),
        }
    }
}
