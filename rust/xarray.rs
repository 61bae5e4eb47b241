// SPDX-License-Identifier: GPL-2.0

//! Arrays of pointers to C structures, indexed by number (`struct xarray`) and protected by their
//! own lock.
//!
//! [`XArray`] is a view of an array in a C structure. [`IdArray`] is an array that Rust owns, whose
//! lock also protects other data. Both are accessed through a guard, [`Locked`]. The array does not
//! own its objects: an inserted object must be [`Lasting`], which guarantees that it exists until
//! it is removed.
//!
//! The lock is a plain spinlock, so nothing may sleep while it is held, but [`Locked::insert`] and
//! [`IdLocked::insert_next`] may drop it to allocate memory. Not for use in interrupts.
//!
//! C header: `include/linux/xarray.h`.

use crate::accounted;
use crate::bindings;
use crate::edge::View;
use crate::sync::rcu;
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::types::NotThreadSafe;
use kernel::types::Opaque;

/// A mark of an index (`xa_mark_t`).
pub type Mark = bindings::xa_mark_t;

/// The index is free (`XA_FREE_MARK`), in arrays with `XA_FLAGS_TRACK_FREE`.
pub const FREE: Mark = 0;

/// Keeps an index allocated while its object is hidden (`XA_ZERO_ENTRY`). Lookups skip it.
const RESERVED: *mut c_void = ptr::without_provenance_mut((257 << 2) | 2);
/// State of a walk that has not started, or has reached the end (`XAS_RESTART`).
const RESTART: *mut bindings::xa_node = ptr::without_provenance_mut(3);

/// A reference to an object that may be stored in an array of `V`.
///
/// # Safety
///
/// The object stays valid, at its address, until it is taken out of the array that it was put into.
pub unsafe trait Lasting<V: View> {
    /// Returns the object.
    fn object(&self) -> &V;
}

/// A structure that readers under RCU may find in an array.
///
/// # Safety
///
/// The memory of an object that was in an array stays for an RCU grace period after the object was
/// taken out. What a reader may do with an object that was taken out meanwhile is for the type to
/// say.
pub unsafe trait RcuFreed: View {}

/// An array within a C structure.
///
/// # Invariants
///
/// The array is initialised. Each entry is [`RESERVED`], or a `V` that exists until it has been
/// removed and the lock is released.
#[repr(transparent)]
pub struct XArray<V: View>(Opaque<bindings::xarray>, PhantomData<*const V>);

// SAFETY: Transparent over the structure.
unsafe impl<V: View> View for XArray<V> {
    type C = bindings::xarray;
}

// SAFETY: The array has a lock, and leads to shared references to `V` only.
unsafe impl<V: View + Sync> Send for XArray<V> {}
// SAFETY: The array has a lock, and leads to shared references to `V` only.
unsafe impl<V: View + Sync> Sync for XArray<V> {}

impl<V: View> XArray<V> {
    /// Takes the lock. Does not sleep.
    #[inline]
    pub fn lock(&self) -> Locked<'_, V> {
        // SAFETY: The array is initialised (type invariant).
        unsafe { bindings::xa_lock(self.raw()) };
        // INVARIANT: Just locked.
        Locked {
            array: self,
            _not_send: NotThreadSafe,
        }
    }

    /// The object with this number, which may be taken out meanwhile. Any context.
    #[inline]
    pub fn load<'a>(&'a self, id: u32, _reader: &'a rcu::Guard) -> Option<&'a V>
    where
        V: RcuFreed,
    {
        // SAFETY: The array is initialised, and the caller is an RCU reader.
        let found = NonNull::new(unsafe { bindings::rdma_helper_xa_load(self.raw(), index(id)) })?;
        // SAFETY: An entry is a `V` that exists while it is in the array (invariant of `XArray`);
        // its memory stays until the end of the section (`RcuFreed`).
        Some(unsafe { V::view(found.as_ptr().cast()) })
    }
}

impl<V: RcuFreed> XArray<V> {
    /// Returns the object with the lowest number from `from` on, and that number. The object may be
    /// taken out meanwhile. Any context.
    pub fn find<'a>(&'a self, from: u32, _reader: &'a rcu::Guard) -> Option<(u32, &'a V)> {
        let mut at = index(from);
        let last = index(u32::MAX);
        // SAFETY: The array is initialised; the function is an RCU reader.
        let found = unsafe { bindings::xa_find(self.raw(), &mut at, last, bindings::XA_PRESENT) };
        let found = NonNull::new(found)?;
        // SAFETY: As in `load`: an entry was a `V`, whose memory stays until the end of the section.
        let object = unsafe { V::view(found.as_ptr().cast()) };
        Some((u32::try_from(at).ok()?, object))
    }
}

/// An array whose lock is held by this thread.
///
/// # Invariants
///
/// This thread holds the lock of `array`.
pub struct Locked<'a, V: View> {
    array: &'a XArray<V>,
    _not_send: NotThreadSafe,
}

fn index(id: u32) -> c_ulong {
    // CAST: `unsigned long` has 32 bits or more.
    id as c_ulong
}

/// Returns the pointer as the array stores it.
fn stored<V: View>(object: &V) -> *mut c_void {
    object.raw().cast()
}

impl<V: View> Locked<'_, V> {
    fn raw(&self) -> *mut bindings::xarray {
        self.array.raw()
    }

    /// Returns whether the array is empty; hidden objects count as present.
    pub fn is_empty(&self) -> bool {
        // SAFETY: The lock is held (type invariant).
        unsafe { (*self.raw()).xa_head.is_null() }
    }

    /// Returns the object with the lowest number in `from..=to`, and that number.
    pub fn find(&self, from: u32, to: u32) -> Option<(u32, &V)> {
        let mut at = index(from);
        // SAFETY: The array is initialised, and the lock is held, so entries do not change.
        let found =
            unsafe { bindings::xa_find(self.raw(), &mut at, index(to), bindings::XA_PRESENT) };
        let found = NonNull::new(found)?;
        // SAFETY: An entry is a `V` that exists while the lock is held (invariant of `XArray`).
        let object = unsafe { V::view(found.as_ptr().cast()) };
        Some((u32::try_from(at).ok()?, object))
    }

    /// Returns the object with this number.
    pub fn get(&self, id: u32) -> Option<&V> {
        // SAFETY: The array is initialised, and the lock is held, so entries do not change.
        let found = NonNull::new(unsafe { bindings::xa_load(self.raw(), index(id)) })?;
        // SAFETY: An entry is a `V` that exists while the lock is held (invariant of `XArray`).
        Some(unsafe { V::view(found.as_ptr().cast()) })
    }

    /// Returns the lowest number in `from..=to` that has the mark.
    pub fn first_marked(&self, from: u32, to: u32, mark: Mark) -> Option<u32> {
        let mut walk = bindings::xa_state {
            xa: self.raw(),
            xa_index: index(from),
            xa_node: RESTART,
            ..bindings::xa_state::default()
        };
        // SAFETY: The array is initialised, and the lock is held.
        unsafe { bindings::xas_find_marked(&mut walk, index(to), mark) };
        // Free indices have no entry, so only the state tells whether one was found.
        (walk.xa_node != RESTART)
            .then(|| u32::try_from(walk.xa_index).ok())
            .flatten()
    }

    /// Stores an object under a number that is free. May drop the lock and sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the number is in use, also by a hidden object; `ENOMEM`.
    pub fn insert(&mut self, id: u32, object: &impl Lasting<V>) -> Result {
        // SAFETY: The lock is held; the function takes it again if it drops it.
        // INVARIANT: The object stays valid (contract of `Lasting`).
        to_result(unsafe {
            bindings::__xa_insert(
                self.raw(),
                index(id),
                stored(object.object()),
                accounted::FLAGS,
            )
        })
    }

    /// Takes the lowest free number, with no object yet: [`show`](Self::show) puts one in. May
    /// sleep, with the lock dropped. The array has `XA_FLAGS_ALLOC`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if there is no free number; `ENOMEM`.
    pub fn reserve(&mut self) -> Result<u32> {
        let any = bindings::xa_limit {
            max: u32::MAX,
            min: 0,
        };
        let mut id = 0;
        // SAFETY: The lock is held; the function takes it again if it drops it.
        // INVARIANT: Null is stored as `RESERVED`.
        to_result(unsafe {
            bindings::__xa_alloc(self.raw(), &mut id, ptr::null_mut(), any, accounted::FLAGS)
        })?;
        Ok(id)
    }

    /// As [`reserve`](Self::reserve), of a number.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the number is in use; `ENOMEM`.
    pub fn reserve_number(&mut self, id: u32) -> Result {
        // SAFETY: The lock is held; the function takes it again if it drops it.
        // INVARIANT: Null is stored as `RESERVED`.
        to_result(unsafe {
            bindings::__xa_insert(self.raw(), index(id), ptr::null_mut(), accounted::FLAGS)
        })
    }

    /// Frees a number. Returns the object that a lookup would have found.
    pub fn erase(&mut self, id: u32) -> Option<NonNull<V>> {
        // SAFETY: The lock is held (type invariant).
        let was = unsafe { bindings::__xa_erase(self.raw(), index(id)) };
        NonNull::new(was.cast())
    }

    /// Frees the number of an object, if that is present. Returns whether it was.
    pub fn take_out(&mut self, id: u32, object: &V) -> bool {
        self.exchange(id, stored(object), ptr::null_mut()) == stored(object)
    }

    /// Replaces a present entry, which needs no memory. Returns what a lookup would have found.
    fn exchange(&mut self, id: u32, old: *mut c_void, new: *mut c_void) -> *mut c_void {
        // SAFETY: The lock is held. If `old` is present so is the slot, and nothing is allocated.
        unsafe { bindings::__xa_cmpxchg(self.raw(), index(id), old, new, bindings::GFP_ATOMIC) }
    }

    /// Hides an object, whose number stays allocated. Returns whether the object was present.
    pub fn hide(&mut self, id: u32, object: &V) -> bool {
        self.exchange(id, stored(object), RESERVED) == stored(object)
    }

    /// Reverses [`hide`](Self::hide), or puts an object in under a number that was reserved.
    /// Returns whether no other object is there.
    pub fn show(&mut self, id: u32, object: &impl Lasting<V>) -> bool {
        // INVARIANT: The object stays valid (contract of `Lasting`).
        self.exchange(id, RESERVED, stored(object.object()))
            .is_null()
    }

    /// Sets a mark.
    pub fn set_mark(&mut self, id: u32, mark: Mark) {
        // SAFETY: The lock is held (type invariant).
        unsafe { bindings::__xa_set_mark(self.raw(), index(id), mark) };
    }

    /// Returns whether a number has the mark.
    pub fn has_mark(&self, id: u32, mark: Mark) -> bool {
        // SAFETY: The array is initialised, and the lock is held.
        unsafe { bindings::xa_get_mark(self.raw(), index(id), mark) }
    }

    /// Iterates over the objects that are not hidden, or those of them that have a mark, by
    /// ascending number.
    pub fn iter(&self, mark: Option<Mark>) -> Iter<'_, V> {
        // INVARIANT: The lock is held while `self` is borrowed.
        Iter {
            at: bindings::xa_state {
                xa: self.raw(),
                xa_node: RESTART,
                ..bindings::xa_state::default()
            },
            mark,
            _locked: PhantomData,
        }
    }
}

impl<V: View> Drop for Locked<'_, V> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: This thread holds the lock (type invariant).
        unsafe { bindings::xa_unlock(self.raw()) };
    }
}

/// Iterator over the objects of an array whose lock is held.
///
/// # Invariants
///
/// `at` is a walk of an array whose lock is held during `'a`, and which does not change.
pub struct Iter<'a, V: View> {
    at: bindings::xa_state,
    mark: Option<Mark>,
    _locked: PhantomData<&'a V>,
}

impl<V: View> Clone for Iter<'_, V> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<'a, V: View> Iterator for Iter<'a, V> {
    type Item = &'a V;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let found = advance(&mut self.at, self.mark);
        // SAFETY: The entry is null, or a `V` that exists while the lock is held (invariant of
        // `XArray`).
        unsafe { found.cast::<V>().as_ref() }
    }
}

/// Returns the next entry of a walk that is not [`RESERVED`]; null at the end. Not generic, so that
/// it is compiled once.
fn advance(at: &mut bindings::xa_state, mark: Option<Mark>) -> *mut c_void {
    let last = index(u32::MAX);
    loop {
        // SAFETY: The walk is one of an array whose lock is held (invariant of `Iter`, the only
        // caller).
        let found = unsafe {
            match mark {
                Some(mark) => bindings::xas_find_marked(at, last, mark),
                None => bindings::xas_find(at, last),
            }
        };
        if found != RESERVED {
            return found;
        }
    }
}

/// An array that allocates numbers cyclically. Its lock also protects `T`.
#[pin_data(PinnedDrop)]
pub struct IdArray<V: View, T> {
    #[pin]
    array: Opaque<bindings::xarray>,
    /// Number at which the search for a free one starts; protected by the array's lock.
    next: Opaque<u32>,
    data: UnsafeCell<T>,
    _of: PhantomData<*const V>,
}

// SAFETY: The array has a lock, and leads to shared references to `V`; the lock protects `T`.
unsafe impl<V: View + Sync, T: Send> Send for IdArray<V, T> {}
// SAFETY: The array has a lock, and leads to shared references to `V`; the lock protects `T`.
unsafe impl<V: View + Sync, T: Send> Sync for IdArray<V, T> {}

impl<V: View, T> IdArray<V, T> {
    /// Creates an empty array.
    pub fn new(data: T) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `array` is valid for writes.
            array <- Opaque::ffi_init(|array| unsafe {
                bindings::xa_init_flags(array, bindings::XA_FLAGS_ALLOC);
            }),
            next: Opaque::new(0),
            data: UnsafeCell::new(data),
            _of: PhantomData,
        })
    }

    /// Takes the lock. Does not sleep.
    #[inline]
    pub fn lock(&self) -> IdLocked<'_, V, T> {
        // SAFETY: The array was initialised, empty, by `new`, and is valid as long as `self`.
        // INVARIANT (of `XArray`): Objects are stored only through `Locked`.
        let array: &XArray<V> = unsafe { XArray::view(self.array.get()) };
        IdLocked {
            locked: array.lock(),
            of: self,
        }
    }
}

#[pinned_drop]
impl<V: View, T> PinnedDrop for IdArray<V, T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The array is initialised and no longer in use.
        unsafe { bindings::xa_destroy(self.array.get()) };
    }
}

/// An [`IdArray`] whose lock is held.
///
/// # Invariants
///
/// `locked` holds the lock of `of`.
pub struct IdLocked<'a, V: View, T> {
    locked: Locked<'a, V>,
    of: &'a IdArray<V, T>,
}

impl<V: View, T> IdLocked<'_, V, T> {
    /// Returns the data that the lock protects besides the array.
    pub fn data(&mut self) -> &mut T {
        // SAFETY: The lock is held, and `self` is borrowed exclusively as long as the result.
        unsafe { &mut *self.of.data.get() }
    }

    /// Stores an object under the next free number, in cyclic order, and returns the number. May
    /// drop the lock and sleep, but does not drop it between the insertion and the return.
    ///
    /// # Errors
    ///
    /// `EBUSY` if no number is free; `ENOMEM`.
    pub fn insert_next(&mut self, object: &impl Lasting<V>) -> Result<u32> {
        let any = bindings::xa_limit {
            max: u32::MAX,
            min: 0,
        };
        let mut id = 0;
        // SAFETY: The lock is held, which also protects `next`; the function takes it again if it
        // drops it.
        // INVARIANT (of `XArray`): The object stays valid (contract of `Lasting`).
        let inserted = unsafe {
            bindings::__xa_alloc_cyclic(
                self.of.array.get(),
                &mut id,
                stored(object.object()),
                any,
                self.of.next.get(),
                accounted::FLAGS,
            )
        };
        // 1 if the search wrapped.
        to_result(inserted)?;
        Ok(id)
    }
}

// Methods that change the array are forwarded, because `DerefMut` would allow swapping the guards
// of two arrays, against the type invariant.
impl<V: View, T> IdLocked<'_, V, T> {
    /// See [`Locked::insert`].
    ///
    /// # Errors
    ///
    /// As for [`Locked::insert`].
    pub fn insert(&mut self, id: u32, object: &impl Lasting<V>) -> Result {
        self.locked.insert(id, object)
    }

    /// See [`Locked::erase`].
    pub fn erase(&mut self, id: u32) -> Option<NonNull<V>> {
        self.locked.erase(id)
    }

    /// See [`Locked::take_out`].
    pub fn take_out(&mut self, id: u32, object: &V) -> bool {
        self.locked.take_out(id, object)
    }

    /// See [`Locked::hide`].
    pub fn hide(&mut self, id: u32, object: &V) -> bool {
        self.locked.hide(id, object)
    }

    /// See [`Locked::show`].
    pub fn show(&mut self, id: u32, object: &impl Lasting<V>) -> bool {
        self.locked.show(id, object)
    }

    /// See [`Locked::set_mark`].
    pub fn set_mark(&mut self, id: u32, mark: Mark) {
        self.locked.set_mark(id, mark);
    }
}

impl<'a, V: View, T> Deref for IdLocked<'a, V, T> {
    type Target = Locked<'a, V>;

    #[inline]
    fn deref(&self) -> &Locked<'a, V> {
        &self.locked
    }
}
