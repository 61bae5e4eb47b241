// SPDX-License-Identifier: GPL-2.0

//! ID tables: shared objects by 32-bit ID, with lockless lookup.
//!
//! A [`Table`] maps IDs (QPNs, key indices, AH numbers) to `Arc<T>`. It is an XArray whose entries
//! are nodes of an `Arc` and an RCU head:
//!
//! ```text
//!   reserve -> Slot ----- publish(arc) ----> visible -- remove --> node freed and its Arc
//!               |                            get()               dropped after a grace period
//!               +-- drop: ID free again      borrow()
//! ```
//!
//! - An ID is reserved first and published last, so readers never find a partially initialised
//!   object, and an error in between only frees the ID.
//! - IDs are allocated cyclically, so a freed ID is reused as late as possible. A lookup of a stale
//!   ID finds nothing rather than another object.
//! - One freed ID stays reserved, without an object ([`anchor`](crate::anchor)), so that the XArray
//!   node that the next ID needs stays allocated. It is allocated when no other ID is free, or when
//!   it is requested explicitly.
//! - With a [`Front`], which is a parameter of the type, most lookups do not walk the tree.
//! - The table's reference is dropped after a grace period, **in softirq context**, and may be the
//!   last one. The drop of `T` must not sleep.
//! - A module with tables waits for these drops on exit: only a
//!   [`resident_module!`](crate::resident_module) can create a table.
//!
//! Locking: the XArray's spinlock, taken with interrupts disabled, is a leaf lock.
//!
//! C header: `include/linux/xarray.h`.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use crate::accounted;
use crate::anchor::Anchor;
use crate::anchor::Freed;
use crate::bindings;
use crate::front::Front;
use crate::module::Resident;
use crate::sync::rcu;
use kernel::alloc::Flags;
use kernel::error::to_result;
use kernel::ffi::c_ulong;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::ArcBorrow;
use kernel::sync::LockClassKey;
use kernel::types::Opaque;

/// Creates a [`Table`](crate::table::Table) initialiser with its own lock class.
///
/// The name, `"Type::field"`, is shown by lockdep.
#[macro_export]
macro_rules! new_table {
    ($($name:literal)?) => {
        $crate::table::Table::new(
            ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!(),
            $crate::resident!())
    };
}
pub use crate::new_table;

/// A map from IDs to shared objects; see the [module](self).
///
/// Drop drops its references immediately, in the caller's context: there are no readers, since they
/// borrow the table. The objects may hold references to the owner of the table, as QPs do to their
/// device.
///
/// `FRONT` is the number of slots of its [`Front`], one pointer each: for tables with a lookup for
/// each packet.
///
/// # Examples
///
/// ```ignore
/// #[pin_data]
/// struct Device {
///     #[pin]
///     qps: Table<Qp, 256>,
/// }
///
/// pin_init!(Device { qps <- new_table!("Device::qps") });
///
/// // Create:
/// let slot = device.qps.reserve(2..=0xff_ffff, GFP_KERNEL)?;
/// let qp = Qp::new(slot.id())?;
/// slot.publish(qp.clone());
///
/// // A packet arrives:
/// let rcu = rcu::read_lock();
/// if let Some(qp) = device.qps.borrow(qpn, &rcu) { /* ... */ }
///
/// // Destroy:
/// device.qps.remove(qp.number());
/// ```
///
/// # Invariants
///
/// - `xa` is an initialised XArray that tracks free entries and whose lock is taken with interrupts
///   disabled. Each entry is reserved, or a `Node<T>` that the table owns.
/// - Each object in `front` is an entry of `xa`.
/// - `inner` is accessed only with that lock held. The ID that its anchor keeps is reserved, or
///   free.
#[pin_data(PinnedDrop)]
pub struct Table<T, const FRONT: usize = 0> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    front: Front<Node<T>, FRONT>,
    inner: UnsafeCell<TableInner>,
    _owns: core::marker::PhantomData<Arc<T>>,
}

/// Data protected by the lock of the XArray.
struct TableInner {
    /// ID at which the search for a free one starts.
    next: u32,
    anchor: Anchor,
}

// SAFETY: A table consists of shared `Arc<T>`s, protected by a lock and RCU. Another CPU may drop a
// `T`, which is `Send` and `Sync`.
unsafe impl<T: Send + Sync, const FRONT: usize> Send for Table<T, FRONT> {}
// SAFETY: As for `Send`: shared `Arc<T>`s, protected by a lock and RCU.
unsafe impl<T: Send + Sync, const FRONT: usize> Sync for Table<T, FRONT> {}

/// Entry of the XArray.
#[repr(C)]
struct Node<T> {
    /// Used after removal. First field, so that its address is that of the node.
    rcu: Opaque<bindings::callback_head>,
    item: Arc<T>,
    /// ID of the item in the table.
    id: u32,
}

// The only constructor. `T` must be `Send`, since another CPU may drop what is removed.
impl<T: Send + Sync + 'static, const FRONT: usize> Table<T, FRONT> {
    /// Creates an empty table; use [`new_table!`](crate::new_table).
    ///
    /// `_waits` proves that the module waits for RCU on exit, as [`remove`](Self::remove) requires.
    /// It is not kept: the kernel does not call the table itself.
    pub fn new(
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
        _waits: Resident,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            xa <- Opaque::ffi_init(|xa: *mut bindings::xarray| {
                // SAFETY: `xa` is valid for writes.
                unsafe {
                    bindings::xa_init_flags(
                        xa,
                        bindings::XA_FLAGS_ALLOC | bindings::xa_lock_type_XA_LOCK_IRQ,
                    )
                };
                // All XArrays share one lock class, which would mix unrelated contexts.
                // SAFETY: `xa` was just initialised and is not in use; name and key are static.
                unsafe {
                    bindings::__spin_lock_init(
                        &raw mut (*xa).xa_lock,
                        name.as_char_ptr(),
                        key.as_ptr(),
                    )
                };
            }),
            // INVARIANT: `xa` and `front` are empty.
            front: Front::new(),
            inner: UnsafeCell::new(TableInner {
                next: 0,
                anchor: Anchor::new(),
            }),
            _owns: core::marker::PhantomData,
        })
    }
}

/// Converts a borrow, as from [`Table::borrow`], to a plain reference that lives as long.
#[inline]
pub fn plain<'a, T>(item: ArcBorrow<'a, T>) -> &'a T {
    let item: *const T = &*item;
    // SAFETY: For `'a`, the reference count of the item is not zero and it is not borrowed mutably:
    // the caller of `ArcBorrow::from_raw` guarantees both.
    unsafe { &*item }
}

impl<T, const FRONT: usize> Table<T, FRONT> {
    /// Reserves the next free ID of `range`, wrapping at its end.
    ///
    /// Context: any if `flags` does not allow sleeping, else process.
    ///
    /// # Errors
    ///
    /// `EBUSY` if no ID of the range is free; `ENOMEM`.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let slot = table.reserve(1..=0xff_ffff, GFP_ATOMIC)?;
    /// ```
    pub fn reserve(&self, range: RangeInclusive<u32>, flags: Flags) -> Result<Slot<'_, T, FRONT>> {
        let node = KBox::new_uninit(flags)?;
        let limit = bindings::xa_limit {
            min: *range.start(),
            max: *range.end(),
        };
        let mut id = 0;
        let mut xa = self.lock();
        loop {
            // SAFETY: The lock is held, so `next` is accessible (type invariant); the other
            // pointers are to locals. No reference to `inner` exists: the function may drop the
            // lock to allocate memory, and takes it again.
            let res = unsafe {
                bindings::__xa_alloc_cyclic(
                    xa.raw(),
                    &mut id,
                    core::ptr::null_mut(),
                    limit,
                    &raw mut (*self.inner.get()).next,
                    gfp(flags),
                )
            };
            // 1 if the search wrapped.
            match to_result(res) {
                Ok(()) => break,
                Err(e) if e == EBUSY => {
                    let kept = xa.anchor().give_up();
                    xa.erase(kept.ok_or(e)?);
                }
                Err(e) => return Err(e),
            }
        }
        xa.anchor().given(id);
        drop(xa);
        Ok(Slot {
            table: self,
            id,
            node: Some(node),
        })
    }

    /// Reserves `id`, for objects whose ID is fixed by the standard.
    ///
    /// Context: any if `flags` does not allow sleeping, else process.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is in use; `ENOMEM`.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let gsi = table.reserve_exact(1, GFP_KERNEL)?; // IBTA: QP1.
    /// ```
    pub fn reserve_exact(&self, id: u32, flags: Flags) -> Result<Slot<'_, T, FRONT>> {
        let node = KBox::new_uninit(flags)?;
        let mut xa = self.lock();
        loop {
            // SAFETY: The lock is held; the function may drop it to allocate memory, and takes it
            // again.
            let res = unsafe {
                bindings::__xa_insert(xa.raw(), index(id), core::ptr::null_mut(), gfp(flags))
            };
            match to_result(res) {
                Ok(()) => break,
                Err(e) if e == EBUSY => {
                    let kept = xa.anchor().give_up_if(id);
                    xa.erase(kept.ok_or(e)?);
                }
                Err(e) => return Err(e),
            }
        }
        xa.anchor().given(id);
        drop(xa);
        Ok(Slot {
            table: self,
            id,
            node: Some(node),
        })
    }

    /// Looks up `id` and takes a reference.
    ///
    /// Context: any. Takes no lock, never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let ah = device.ahs.get(number).ok_or(EINVAL)?;
    /// ```
    #[inline]
    pub fn get(&self, id: u32) -> Option<Arc<T>> {
        let guard = rcu::read_lock();
        self.borrow(id, &guard).map(Arc::from)
    }

    /// Looks up `id` without taking a reference. The result is valid during the RCU read-side
    /// critical section.
    ///
    /// The object may be removed concurrently; the table's reference is not dropped before `guard`
    /// is.
    ///
    /// Context: any. Takes no lock, never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let rcu = rcu::read_lock();
    /// let qp = device.qps.borrow(qpn, &rcu)?;
    /// ```
    #[inline]
    pub fn borrow<'a>(&'a self, id: u32, guard: &'a rcu::Guard) -> Option<ArcBorrow<'a, T>> {
        // SAFETY: `look` returns an entry, never null, so a node (type invariants). `publish`
        // initialised it before storing it. It is freed a grace period after it was taken out, so
        // not within this read-side critical section.
        let found = self.front.look(id).map(|node| unsafe { node.as_ref() });
        let node = match found {
            Some(node) if node.id == id => node,
            Some(_) | None => self.find(id, guard)?,
        };
        // SAFETY: The node owns a reference and is valid for `'a`, see above.
        Some(unsafe { ArcBorrow::from_raw(Arc::as_ptr(&node.item)) })
    }

    /// Looks up a node in the tree.
    fn find<'a>(&'a self, id: u32, _guard: &'a rcu::Guard) -> Option<&'a Node<T>> {
        // SAFETY: `xa` is initialised (type invariant); reading requires no lock.
        let node = unsafe { bindings::xa_load(self.xa.get(), index(id)) }.cast::<Node<T>>();
        // SAFETY: An entry that is not null is a node (type invariants). `publish` initialised it
        // before storing it. It is freed a grace period after its removal, so not within this
        // read-side critical section.
        unsafe { node.as_ref() }
    }

    /// Returns the object with the lowest ID from `id` on, and its ID. Objects that are published or
    /// removed meanwhile may be found or not.
    ///
    /// Context: any except a hard interrupt.
    pub fn next(&self, id: u32) -> Option<(u32, Arc<T>)> {
        let _rcu = rcu::read_lock();
        let mut at = index(id);
        // SAFETY: `xa` is initialised (type invariant); reading requires no lock; `at` is a local.
        // An entry that is not null is a node, which RCU keeps, see `find`.
        let node = unsafe {
            bindings::xa_find(self.xa.get(), &mut at, c_ulong::MAX, bindings::XA_PRESENT)
                .cast::<Node<T>>()
                .as_ref()
        }?;
        Some((node.id, node.item.clone()))
    }

    /// Removes the object of `id` and frees the ID.
    ///
    /// Readers that found the object before may still use it. The table's reference is dropped
    /// after a grace period, in softirq context. An ID that is only reserved is not changed: it
    /// belongs to its [`Slot`].
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let mr = device.mrs.remove(index).ok_or(EINVAL)?;
    /// mr.gate.close_and_wait();
    /// ```
    pub fn remove(&self, id: u32) -> Option<Arc<T>> {
        let node = {
            let mut xa = self.lock();
            // SAFETY: The array is initialised (type invariant). A reserved entry reads as null
            // here, but would be erased by `__xa_erase`.
            if unsafe { bindings::xa_load(xa.raw(), index(id)) }.is_null() {
                return None;
            }
            let node = match xa.anchor().freed(id) {
                // INVARIANT: The entry is removed.
                Freed::Erase => xa.erase(id),
                Freed::KeepFor(other) => {
                    if let Some(other) = other {
                        xa.erase(other);
                    }
                    // INVARIANT: Null makes the entry a reserved one, because the array tracks free
                    // entries.
                    // SAFETY: The lock is held. The entry exists, so the store allocates nothing
                    // and cannot fail.
                    unsafe { bindings::__xa_store(xa.raw(), index(id), core::ptr::null_mut(), 0) }
                }
            }
            .cast::<Node<T>>();
            // INVARIANT: Removed from the front, too.
            if let Some(node) = NonNull::new(node) {
                self.front.take(id, node);
            }
            node
        };
        // SAFETY: The entry was not null, so it is a node (type invariants). It was taken out under
        // the lock, so only this call frees it.
        let item = unsafe { (*node).item.clone() };
        // SAFETY: The head is a field of the node and not in use. `free_node::<T>` matches the
        // type, and the node is valid until it runs. The module is not unloaded before: `new`
        // requires a module that waits for RCU callbacks.
        unsafe { bindings::call_rcu((*node).rcu.get(), Some(free_node::<T>)) };
        Some(item)
    }

    #[inline]
    fn lock(&self) -> Locked<'_, T, FRONT> {
        let xa = self.xa.get();
        // SAFETY: The array, hence its lock, is initialised and pinned (type invariant).
        let flags = unsafe { bindings::rdma_helper_spin_lock_irqsave(&raw mut (*xa).xa_lock) };
        Locked { table: self, flags }
    }
}

#[pinned_drop]
impl<T, const FRONT: usize> PinnedDrop for Table<T, FRONT> {
    fn drop(self: Pin<&mut Self>) {
        let mut at: c_ulong = 0;
        // SAFETY: The array is initialised (type invariant); `at` is a local.
        let mut node = unsafe {
            bindings::xa_find(self.xa.get(), &mut at, c_ulong::MAX, bindings::XA_PRESENT)
        };
        while !node.is_null() {
            // INVARIANT: From here on the entries dangle, and are not read any more.
            // SAFETY: The entry is a boxed node that the table owns (type invariants). Readers and
            // slots borrow the table, so there are none.
            drop(unsafe { KBox::from_raw(node.cast::<Node<T>>()) });
            // SAFETY: The array is initialised; the search does not dereference entries.
            node = unsafe {
                bindings::xa_find_after(self.xa.get(), &mut at, c_ulong::MAX, bindings::XA_PRESENT)
            };
        }
        // SAFETY: The array is initialised and no longer in use.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}

/// RCU callback that frees a removed node.
///
/// # Safety
///
/// `head` must be the first field of a `Node<T>` that is in a `KBox` and no longer in use.
unsafe extern "C" fn free_node<T>(head: *mut bindings::callback_head) {
    // SAFETY: The caller guarantees that it is the start of a boxed node.
    drop(unsafe { KBox::from_raw(head.cast::<Node<T>>()) });
}

/// A reserved ID. Lookups find nothing until an object is published.
///
/// Drop frees the ID.
///
/// # Invariants
///
/// While `node` is `Some`, the entry `id` of the table is reserved for this.
#[must_use = "dropping the slot frees the number"]
pub struct Slot<'a, T, const FRONT: usize = 0> {
    table: &'a Table<T, FRONT>,
    id: u32,
    node: Option<KBox<MaybeUninit<Node<T>>>>,
}

impl<T, const FRONT: usize> Slot<'_, T, FRONT> {
    /// Returns the reserved ID.
    #[inline]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Makes `item` visible to lookups of this ID, and returns the ID.
    ///
    /// Infallible: the node was allocated with the reservation.
    ///
    /// Context: any. Never sleeps.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// let number = slot.publish(qp.clone());
    /// ```
    pub fn publish(mut self, item: Arc<T>) -> u32 {
        if let Some(node) = self.node.take() {
            let node = KBox::write(
                node,
                Node {
                    rcu: Opaque::uninit(),
                    item,
                    id: self.id,
                },
            );
            let node = NonNull::from(KBox::leak(node));
            let xa = self.table.lock();
            // INVARIANT: The table owns the node now.
            // SAFETY: The lock is held. The entry exists (type invariant), so the store allocates
            // nothing and cannot fail.
            unsafe { bindings::__xa_store(xa.raw(), index(self.id), node.as_ptr().cast(), 0) };
            // INVARIANT: The node is an entry of `xa`.
            self.table.front.put(self.id, node);
        }
        self.id
    }
}

impl<T, const FRONT: usize> Drop for Slot<'_, T, FRONT> {
    fn drop(&mut self) {
        if self.node.is_some() {
            let xa = self.table.lock();
            // SAFETY: The lock is held, and the entry is the reservation of this slot (type
            // invariant).
            unsafe { bindings::__xa_erase(xa.raw(), index(self.id)) };
        }
    }
}

/// A table whose lock is held by this CPU.
struct Locked<'a, T, const FRONT: usize> {
    table: &'a Table<T, FRONT>,
    flags: c_ulong,
}

impl<T, const FRONT: usize> Locked<'_, T, FRONT> {
    #[inline]
    fn raw(&self) -> *mut bindings::xarray {
        self.table.xa.get()
    }

    /// Returns the reservation of a freed ID.
    #[inline]
    fn anchor(&mut self) -> &mut Anchor {
        // SAFETY: The lock is held, and the exclusive borrow of `self` excludes other references.
        unsafe { &mut (*self.table.inner.get()).anchor }
    }

    /// Frees an ID and returns the entry: null if it was reserved.
    #[inline]
    fn erase(&mut self, id: u32) -> *mut core::ffi::c_void {
        // SAFETY: The lock is held (`Table::lock`).
        unsafe { bindings::__xa_erase(self.raw(), index(id)) }
    }
}

impl<T, const FRONT: usize> Drop for Locked<'_, T, FRONT> {
    #[inline]
    fn drop(&mut self) {
        let xa = self.raw();
        // SAFETY: Locked by `Table::lock`, which returned these flags.
        unsafe { bindings::rdma_helper_spin_unlock_irqrestore(&raw mut (*xa).xa_lock, self.flags) };
    }
}

/// Converts an ID to an XArray index.
#[inline]
fn index(id: u32) -> c_ulong {
    // CAST: Widens, or keeps the width; `From` is not implemented for it.
    id as c_ulong
}

/// Returns the flags for XArray nodes, which allow sleeping if `flags` does.
#[inline]
fn gfp(flags: Flags) -> bindings::gfp_t {
    if flags.contains(accounted::GFP) {
        accounted::FLAGS
    } else if flags.contains(GFP_KERNEL_ACCOUNT) {
        bindings::GFP_KERNEL_ACCOUNT
    } else if flags.contains(GFP_KERNEL) {
        bindings::GFP_KERNEL
    } else {
        bindings::GFP_ATOMIC
    }
}
