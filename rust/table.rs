// SPDX-License-Identifier: GPL-2.0

//! Numbered objects, found by readers without a lock.
//!
//! A [`Table`] maps 32-bit numbers (QPNs, key indices, AH numbers) to `Arc<T>`. It
//! is an xarray whose entries are nodes of one `Arc` and one RCU head:
//!
//! ```text
//!   reserve -> Slot ----- publish(arc) ----> visible -- remove --> node freed, and its
//!               |                            get()               Arc dropped, one grace
//!               +-- drop: number free again  borrow()            period later
//! ```
//!
//! - A number is reserved first and published last, so readers never meet a
//!   half-built object, and failing in between leaves no trace.
//! - Numbers are given out cyclically: one that was freed comes back as late as the
//!   range allows, so a stale number meets nothing rather than a stranger.
//! - Of the numbers freed, one stays taken, without an object ([`anchor`](crate::anchor)): it
//!   keeps the memory in place that the next number needs. It is given out when no other is
//!   free, or when it is asked for by name.
//! - With a [`Front`], which a table whose type says so has, most readers find what they
//!   look for without walking the tree.
//! - The table's own reference is dropped after a grace period, **in softirq
//!   context**, and may be the last. `T`'s drop must not sleep.
//! - A module that has tables waits for those drops at its end: only a
//!   [`resident_module!`](crate::resident_module) can make a table.
//!
//! Locking: the xarray's spinlock, taken with interrupts off, is a leaf lock.
//!
//! C header: `include/linux/xarray.h`.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

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

/// Creates a [`Table`](crate::table::Table) initialiser with a lock class of its own.
///
/// The name, `"Type::field"`, is what lockdep prints.
#[macro_export]
macro_rules! new_table {
    ($($name:literal)?) => {
        $crate::table::Table::new(
            ::kernel::optional_name!($($name)?), ::kernel::static_lock_class!(),
            $crate::resident!())
    };
}
pub use crate::new_table;

/// A map from numbers to shared objects; see the [module](self).
///
/// Dropping it drops its references at once, in the caller's context: nobody can be
/// reading, since readers borrow the table. The object that owns a table may itself
/// be kept by the items, as a device is by its QPs.
///
/// `FRONT` is how many places its [`Front`] has, of a pointer each: for tables that each
/// packet looks into.
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
/// - `xa` is an initialised xarray that tracks free entries and whose lock is taken
///   with interrupts off. Each entry is reserved, or a `Node<T>` that the table owns.
/// - What `front` holds is an entry of `xa`.
/// - `inner` is accessed with that lock held only. What its anchor keeps is reserved, or free.
#[pin_data(PinnedDrop)]
pub struct Table<T, const FRONT: usize = 0> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    front: Front<Node<T>, FRONT>,
    inner: UnsafeCell<TableInner>,
    _owns: core::marker::PhantomData<Arc<T>>,
}

/// What the lock of the xarray guards beside it.
struct TableInner {
    /// Where the next number is looked for.
    next: u32,
    anchor: Anchor,
}

// SAFETY: A table is shared `Arc<T>`s behind a lock and RCU; other CPUs may also run
// the drop of a `T`.
unsafe impl<T: Send + Sync, const FRONT: usize> Send for Table<T, FRONT> {}
// SAFETY: As for `Send`.
unsafe impl<T: Send + Sync, const FRONT: usize> Sync for Table<T, FRONT> {}

/// What the xarray points to.
#[repr(C)]
struct Node<T> {
    /// Used from removal on; first, so that its address is the node's.
    rcu: Opaque<bindings::callback_head>,
    item: Arc<T>,
    /// Its number in the table.
    id: u32,
}

// There are no others: what is removed may be dropped later, on another CPU.
impl<T: Send + Sync + 'static, const FRONT: usize> Table<T, FRONT> {
    /// Makes an empty table; use [`new_table!`](crate::new_table).
    ///
    /// The resident shows that the module waits for RCU at its end, as [`remove`](Self::remove)
    /// needs. The table itself is not called, so it is not counted.
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
                // The class that all xarrays share would mix contexts that have
                // nothing to do with each other.
                // SAFETY: `xa` was just initialised and is not in use; name and key
                // are static.
                unsafe {
                    bindings::__spin_lock_init(
                        &raw mut (*xa).xa_lock,
                        name.as_char_ptr(),
                        key.as_ptr(),
                    )
                };
            }),
            // INVARIANT: It is empty.
            front: Front::new(),
            inner: UnsafeCell::new(TableInner {
                next: 0,
                anchor: Anchor::new(),
            }),
            _owns: core::marker::PhantomData,
        })
    }
}

impl<T, const FRONT: usize> Table<T, FRONT> {
    /// Reserves the next free number of `range`, going round at its end.
    ///
    /// Context: any, if `flags` may not sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if no number of the range is free, `ENOMEM`.
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
            // SAFETY: The lock is held, `next` is therefore ours, and the other pointers are to
            // locals. No reference to `inner` is kept: the function may drop the lock to get
            // memory, and takes it again.
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
            // It is 1 where the numbers went round.
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

    /// Reserves the number `id`, for objects whose number the standard fixes.
    ///
    /// Context: any, if `flags` may not sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is taken, `ENOMEM`.
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
            // SAFETY: The lock is held; the function may drop it to get memory, and takes it
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

    /// Finds `id` and takes a reference.
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

    /// Finds `id` for as long as the read section lasts; touches no count.
    ///
    /// The object may be removed meanwhile; it is not dropped before `guard` is.
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
        // SAFETY: By the type invariants it is an entry and not null, so a node; `publish`
        // wrote all of it before putting it there, and it is freed a grace period after it
        // was taken from there, so not within this read section.
        let found = self.front.look(id).map(|node| unsafe { node.as_ref() });
        let node = match found {
            Some(node) if node.id == id => node,
            Some(_) | None => self.find(id, guard)?,
        };
        // SAFETY: The node owns a reference and lives for `'a`, as above.
        Some(unsafe { ArcBorrow::from_raw(Arc::as_ptr(&node.item)) })
    }

    /// Finds a node in the tree.
    fn find<'a>(&'a self, id: u32, _guard: &'a rcu::Guard) -> Option<&'a Node<T>> {
        // SAFETY: `xa` is initialised; reading needs no lock.
        let node = unsafe { bindings::xa_load(self.xa.get(), index(id)) }.cast::<Node<T>>();
        // SAFETY: By the type invariants a non-null entry is a node; `publish` wrote
        // all of it before storing it, and it is freed a grace period after its
        // removal, so not within this read section.
        unsafe { node.as_ref() }
    }

    /// Unpublishes `id` and frees the number.
    ///
    /// Readers that found the object before may still use it. The table's reference
    /// goes after a grace period, in softirq context. A number that is only reserved
    /// is left alone: it is its [`Slot`]'s.
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
            // SAFETY: The array is initialised. A reserved entry reads as null here,
            // but would be erased by `__xa_erase`.
            if unsafe { bindings::xa_load(xa.raw(), index(id)) }.is_null() {
                return None;
            }
            let node = match xa.anchor().freed(id) {
                // INVARIANT: The entry is gone.
                Freed::Erase => xa.erase(id),
                Freed::KeepFor(other) => {
                    if let Some(other) = other {
                        xa.erase(other);
                    }
                    // INVARIANT: Null makes the entry a reserved one, as the array tracks free
                    // entries.
                    // SAFETY: The lock is held. The entry exists, so that nothing is allocated
                    // and the store cannot fail.
                    unsafe { bindings::__xa_store(xa.raw(), index(id), core::ptr::null_mut(), 0) }
                }
            }
            .cast::<Node<T>>();
            // INVARIANT: It is not in the front either.
            if let Some(node) = NonNull::new(node) {
                self.front.take(id, node);
            }
            node
        };
        // SAFETY: It was not null, so a node, by the type invariants; having taken it out
        // it, we alone will free it.
        let item = unsafe { (*node).item.clone() };
        // SAFETY: The head is the node's own and not in use; `free_node::<T>` is
        // right for the type, and the node stays until it runs. The module stays, too: `new` was
        // called for one that waits for RCU callbacks.
        unsafe { bindings::call_rcu((*node).rcu.get(), Some(free_node::<T>)) };
        Some(item)
    }

    #[inline]
    fn lock(&self) -> Locked<'_, T, FRONT> {
        let xa = self.xa.get();
        // SAFETY: The array, hence its lock, is initialised and pinned.
        let flags = unsafe { bindings::rdma_helper_spin_lock_irqsave(&raw mut (*xa).xa_lock) };
        Locked { table: self, flags }
    }
}

#[pinned_drop]
impl<T, const FRONT: usize> PinnedDrop for Table<T, FRONT> {
    fn drop(self: Pin<&mut Self>) {
        let mut at: c_ulong = 0;
        // SAFETY: The array is initialised, `at` is a local.
        let mut node = unsafe {
            bindings::xa_find(self.xa.get(), &mut at, c_ulong::MAX, bindings::XA_PRESENT)
        };
        while !node.is_null() {
            // INVARIANT: From here on the entries dangle, and nobody looks at them.
            // SAFETY: By the type invariants it is a boxed node, and ours. Readers
            // and slots borrow the table, so there are none.
            drop(unsafe { KBox::from_raw(node.cast::<Node<T>>()) });
            // SAFETY: As above; the walk does not follow the entries.
            node = unsafe {
                bindings::xa_find_after(self.xa.get(), &mut at, c_ulong::MAX, bindings::XA_PRESENT)
            };
        }
        // SAFETY: The array is initialised and no longer used.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}

/// Drops a removed node.
///
/// # Safety
///
/// `head` must be the first field of a `Node<T>` that came from a `KBox` and that
/// nobody uses any more.
unsafe extern "C" fn free_node<T>(head: *mut bindings::callback_head) {
    // SAFETY: The caller promises that it is the start of a boxed node.
    drop(unsafe { KBox::from_raw(head.cast::<Node<T>>()) });
}

/// A reserved number; readers find nothing under it until something is published.
///
/// Dropping it frees the number.
///
/// # Invariants
///
/// While `node` is `Some`, the entry `id` of the table is reserved and ours.
#[must_use = "dropping the slot frees the number"]
pub struct Slot<'a, T, const FRONT: usize = 0> {
    table: &'a Table<T, FRONT>,
    id: u32,
    node: Option<KBox<MaybeUninit<Node<T>>>>,
}

impl<T, const FRONT: usize> Slot<'_, T, FRONT> {
    /// The reserved number.
    #[inline]
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Lets readers find `item` under this number, and returns the number.
    ///
    /// Cannot fail: the memory was allocated with the reservation.
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
            // SAFETY: The lock is held. By the type invariant the entry exists, so
            // that nothing is allocated and the store cannot fail.
            unsafe { bindings::__xa_store(xa.raw(), index(self.id), node.as_ptr().cast(), 0) };
            // INVARIANT: It is an entry.
            self.table.front.put(self.id, node);
        }
        self.id
    }
}

impl<T, const FRONT: usize> Drop for Slot<'_, T, FRONT> {
    fn drop(&mut self) {
        if self.node.is_some() {
            let xa = self.table.lock();
            // SAFETY: The lock is held, and by the type invariant the entry is our
            // reservation.
            unsafe { bindings::__xa_erase(xa.raw(), index(self.id)) };
        }
    }
}

/// A table whose lock is held.
struct Locked<'a, T, const FRONT: usize> {
    table: &'a Table<T, FRONT>,
    flags: c_ulong,
}

impl<T, const FRONT: usize> Locked<'_, T, FRONT> {
    #[inline]
    fn raw(&self) -> *mut bindings::xarray {
        self.table.xa.get()
    }

    /// Which freed number stays taken.
    #[inline]
    fn anchor(&mut self) -> &mut Anchor {
        // SAFETY: The lock is held, and who borrows this value exclusively has no other
        // reference.
        unsafe { &mut (*self.table.inner.get()).anchor }
    }

    /// Frees a number and returns what was there: null, if it was reserved.
    #[inline]
    fn erase(&mut self, id: u32) -> *mut core::ffi::c_void {
        // SAFETY: The lock is held.
        unsafe { bindings::__xa_erase(self.raw(), index(id)) }
    }
}

impl<T, const FRONT: usize> Drop for Locked<'_, T, FRONT> {
    #[inline]
    fn drop(&mut self) {
        let xa = self.raw();
        // SAFETY: It was locked by `Table::lock`, which gave these flags.
        unsafe { bindings::rdma_helper_spin_unlock_irqrestore(&raw mut (*xa).xa_lock, self.flags) };
    }
}

/// The xarray's own form of a number.
#[inline]
fn index(id: u32) -> c_ulong {
    // CAST: Widens, or keeps the width; `From` does not exist for `usize`.
    id as c_ulong
}

/// The flags for the xarray's own nodes: whether it may sleep is all that matters.
#[inline]
fn gfp(flags: Flags) -> bindings::gfp_t {
    if flags.contains(GFP_KERNEL_ACCOUNT) {
        bindings::GFP_KERNEL_ACCOUNT
    } else if flags.contains(GFP_KERNEL) {
        bindings::GFP_KERNEL
    } else {
        bindings::GFP_ATOMIC
    }
}
