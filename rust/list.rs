// SPDX-License-Identifier: GPL-2.0

//! Lists whose items know which list they are in.
//!
//! [`kernel::list::List::remove`] is unsafe, because an item may be in another list. Here each list
//! has a number, which its items store in a [`Tag`] while they are in it. So
//! [`TaggedList::remove`] can check that an item is in the list, in constant time.
//!
//! Locking: as for `List`; whoever has a `&mut` of the list may change it. Tags are atomic, but are
//! written only by the holder of the item's `ListArc`.

use kernel::list::List;
use kernel::list::ListArc;
use kernel::list::ListItem;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::ArcBorrow;

/// Number of lists created so far. No list has the number 0.
static LISTS: Atomic<u64> = Atomic::new(0);

/// Field of an item: the number of the list that it is in, or 0.
pub struct Tag(Atomic<u64>);

impl Tag {
    /// The tag of an item that is in no list.
    #[expect(clippy::new_without_default, reason = "only for fields of items")]
    pub const fn new() -> Self {
        Self(Atomic::new(0))
    }
}

/// An item that has a tag. Implemented by [`impl_tagged!`](crate::impl_tagged).
///
/// # Safety
///
/// `tag` must return the same field of the item at each call.
pub unsafe trait Tagged<const ID: u64 = 0>: ListItem<ID> {
    /// Returns the item's tag for lists with this ID.
    fn tag(&self) -> &Tag;
}

/// Implements [`Tagged`](crate::list::Tagged) for items with a field of the type `Tag`.
///
/// # Examples
///
/// ```ignore
/// impl_tagged!(impl Tagged<0> for Send { self.tag });
/// ```
#[macro_export]
macro_rules! impl_tagged {
    (impl Tagged<$id:tt> for $item:ty { self.$field:ident }) => {
        // SAFETY: It is the field of this name.
        unsafe impl $crate::list::Tagged<$id> for $item {
            #[inline]
            fn tag(&self) -> &$crate::list::Tag {
                // By pattern, which finds no field behind `Deref`.
                let Self { $field: tag, .. } = self;
                tag
            }
        }
    };
}
pub use crate::impl_tagged;

/// A list from which any of its items can be removed by reference.
///
/// # Invariants
///
/// - No two lists have the same `number`: it is counted with 64 bits, which do not wrap in practice.
/// - The tag of an item is `number` if and only if the item is in `list`.
pub struct TaggedList<T: Tagged<ID> + ?Sized, const ID: u64 = 0> {
    number: u64,
    list: List<T, ID>,
}

impl<T: Tagged<ID> + ?Sized, const ID: u64> TaggedList<T, ID> {
    /// Creates an empty list.
    #[expect(clippy::new_without_default, reason = "each list is different")]
    pub fn new() -> Self {
        // INVARIANT: The counter returns each number once, and no tag has the new one.
        Self {
            number: LISTS.fetch_add(1u64, Relaxed).wrapping_add(1),
            list: List::new(),
        }
    }

    /// Returns whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the first item.
    #[inline]
    pub fn first(&self) -> Option<ArcBorrow<'_, T>> {
        self.list.iter().next()
    }

    /// Iterates over the items.
    #[inline]
    pub fn iter(&self) -> kernel::list::Iter<'_, T, ID> {
        self.list.iter()
    }

    /// Appends an item.
    pub fn push_back(&mut self, item: ListArc<T, ID>) {
        self.note(&item);
        self.list.push_back(item);
    }

    /// Puts an item before all others.
    pub fn push_front(&mut self, item: ListArc<T, ID>) {
        self.note(&item);
        self.list.push_front(item);
    }

    /// Returns whether an item is in this list.
    #[inline]
    pub fn contains(&self, item: &T) -> bool {
        // The tag of an item in another list may change concurrently, but not from or to `number`:
        // only the holder of this list's `&mut` stores or clears it.
        item.tag().0.load(Relaxed) == self.number
    }

    /// Inserts an item before those at the end of the list that `is_later` accepts.
    pub fn insert_before(&mut self, item: ListArc<T, ID>, is_later: impl Fn(&T) -> bool) {
        self.note(&item);
        let mut cursor = self.list.cursor_back();
        while cursor.peek_prev().is_some_and(|other| is_later(&other)) {
            cursor.move_prev();
        }
        cursor.insert(item);
    }

    /// Removes the first item.
    pub fn pop_front(&mut self) -> Option<ListArc<T, ID>> {
        let item = self.list.pop_front()?;
        // INVARIANT: The item is not in the list any more.
        item.tag().0.store(0, Relaxed);
        Some(item)
    }

    /// Removes an item. `None` if it is not in this list.
    pub fn remove(&mut self, item: &T) -> Option<ListArc<T, ID>> {
        if !self.contains(item) {
            return None;
        }
        // INVARIANT: The item is not in the list any more.
        item.tag().0.store(0, Relaxed);
        // SAFETY: The item is in `list`, as its tag was `number` (type invariant).
        unsafe { self.list.remove(item) }
    }

    /// Stores the list's number in an item, which is inserted next.
    #[inline]
    fn note(&self, item: &ListArc<T, ID>) {
        // INVARIANT: The caller has the item's `ListArc`, so it is in no list, and inserts it into
        // `list`.
        item.tag().0.store(self.number, Relaxed);
    }
}

impl<T: Tagged<ID> + ?Sized, const ID: u64> Drop for TaggedList<T, ID> {
    fn drop(&mut self) {
        // Items that others have references to may be put into other lists later.
        while let Some(item) = self.pop_front() {
            drop(item);
        }
    }
}
