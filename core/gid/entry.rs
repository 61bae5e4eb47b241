// SPDX-License-Identifier: GPL-2.0

//! One entry of a GID table: what C calls a `struct ib_gid_attr`.
//!
//! # Life
//!
//! ```text
//!   new --insert--> valid --retire--> retired --last put--> its slot is free
//!    \                                  |  \                        |
//!     `-- discarded, if the driver      |   `-- grace period -------+--> memory freed
//!         refuses it                    |       (network device put)
//! ```
//!
//! The table and each holder have one of [`Entry::refs`]; a retired entry is no longer found,
//! but stays readable for those who hold it. The memory itself is kept by the references
//! together, and by the RCU callback that lets go of the network device: readers of
//! `ib_gid_attr::ndev` have nothing but an RCU section.

use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Release;
use kernel::sync::rcu;
use kernel::sync::Arc;
use kernel::sync::Refcount;
use kernel::types::Opaque;

use super::Gids;
use crate::device::Device;
use crate::proto::gid_table;
use crate::proto::gid_table::Ndev;
use rdma::bindings;
use rdma::edge::FromC;
use rdma::edge::Passed;
use rdma::net::NetDevice;

/// The name of a network device in the engines: its address, which is not given to another
/// while an entry or a snapshot names it, since both hold the device.
pub(super) fn ndev_id(ndev: *const bindings::net_device) -> Ndev {
    // CAST: a pointer fits.
    Ndev(ndev.addr() as u64)
}

/// An entry.
///
/// # Invariants
///
/// - `attr` is not changed once the entry is in a table, but for `ndev`, which turns to null
///   when it is retired.
/// - `attr.ndev`, if not null, is the device of `ndev`.
/// - `ndev` is changed once at most, by the callback that [`Entry::drop_ndev`] queues; nobody
///   else looks at it but that function, before, and the destructor.
#[repr(C)]
pub(super) struct Entry {
    attr: Opaque<bindings::ib_gid_attr>,
    /// What the driver keeps of it; the driver alone uses it, from `add_gid` to `del_gid`.
    context: Opaque<*mut c_void>,
    /// The same, as the engines have it.
    entry: gid_table::Entry,
    valid: Atomic<bool>,
    refs: Refcount,
    memory: Refcount,
    /// What keeps `attr.ndev`. In a cell, since there may be holders when it goes.
    ndev: UnsafeCell<Option<ARef<NetDevice>>>,
    rcu: Opaque<bindings::callback_head>,
    owner: Arc<Gids>,
}

// SAFETY: What changes is atomic, or belongs to one thread at a time as told at the fields.
unsafe impl Send for Entry {}
// SAFETY: As above.
unsafe impl Sync for Entry {}

impl Entry {
    /// A new entry that is in no table yet. Its memory is the caller's until it is put into one.
    pub(super) fn new(
        owner: Arc<Gids>,
        device: &Device,
        port: u32,
        index: u16,
        entry: &gid_table::Entry,
        ndev: Option<ARef<NetDevice>>,
    ) -> Result<KBox<Self>> {
        let mut attr = bindings::ib_gid_attr {
            ndev: ndev.as_ref().map_or(core::ptr::null_mut(), |n| n.as_raw()),
            device: device.as_raw(),
            gid_type: u32::from(entry.gid_type as u8),
            index,
            port_num: port,
            ..Default::default()
        };
        attr.gid.raw = ManuallyDrop::new(entry.gid.0);
        // INVARIANT: As built above.
        Ok(KBox::new(
            Self {
                attr: Opaque::new(attr),
                context: Opaque::new(core::ptr::null_mut()),
                entry: *entry,
                valid: Atomic::new(true),
                refs: Refcount::new(1),
                memory: Refcount::new(1),
                ndev: UnsafeCell::new(ndev),
                rcu: Opaque::zeroed(),
                owner,
            },
            GFP_KERNEL,
        )?)
    }

    /// What C knows of it.
    pub(super) fn attr(&self) -> *mut bindings::ib_gid_attr {
        self.attr.get()
    }

    /// The entry of an attribute that C was given.
    ///
    /// # Safety
    ///
    /// `attr` is one that [`Self::attr`] answered, of an entry that lives for `'a`.
    pub(super) unsafe fn from_attr<'a>(attr: *const bindings::ib_gid_attr) -> &'a Self {
        // SAFETY: By this function's duty; the field is transparent.
        unsafe { &*container_of!(Opaque::cast_from(attr), Self, attr) }
    }

    /// Its place in its port's table.
    pub(super) fn index(&self) -> u16 {
        // SAFETY: By the type invariant it does not change.
        unsafe { (*self.attr()).index }
    }

    /// The number of its port.
    pub(super) fn port(&self) -> u32 {
        // SAFETY: By the type invariant it does not change.
        unsafe { (*self.attr()).port_num }
    }

    /// Whether it is in its table, and not retired.
    pub(super) fn is_valid(&self) -> bool {
        self.valid.load(Acquire)
    }

    /// Its network device, while it is valid.
    pub(super) fn ndev(&self) -> *mut bindings::net_device {
        // SAFETY: The field is a pointer, written as one; it may change to null meanwhile.
        unsafe { (&raw const (*self.attr()).ndev).read_volatile() }
    }

    /// Its network device, while it is valid, under RCU.
    pub(super) fn ndev_rcu<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        let ndev = NonNull::new(self.ndev())?;
        // SAFETY: The entry's reference to it is dropped by an RCU callback after the field has
        // turned to null.
        Some(unsafe { NetDevice::from_raw(ndev.as_ptr()) })
    }

    /// What the driver keeps of it.
    pub(super) fn driver_context(&self) -> Passed<c_void> {
        // SAFETY: The driver writes it in `add_gid`, before the entry is in a table.
        unsafe { Passed::from_c(self.context.get().read()) }
    }

    /// As the engines have it.
    pub(super) fn engine(&self) -> &gid_table::Entry {
        &self.entry
    }

    /// Has the driver take note of the entry, which is not in a table yet.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub(super) fn add_gid(&self, device: &Device) -> Result {
        match device.ops().add_gid {
            // SAFETY: The driver's own method, and an entry of its device; the context is the
            // driver's to write now.
            Some(method) => to_result(unsafe { method(self.attr(), self.context.get()) }),
            None => Ok(()),
        }
    }

    /// Has the driver forget the entry, which is in no table any more. Once after
    /// [`add_gid`](Self::add_gid).
    pub(super) fn del_gid(&self, device: &Device) {
        if let Some(method) = device.ops().del_gid {
            // SAFETY: The driver's own method, and an entry of its device.
            let _: i32 = unsafe { method(self.attr(), self.context.get()) };
        }
    }

    /// One more reference; the caller knows of one that is there.
    pub(super) fn hold(&self) {
        self.refs.inc();
    }

    /// Takes it out of sight: it is found no more.
    pub(super) fn retire(&self) {
        self.valid.store(false, Release);
    }

    /// Lets go of the network device, when nobody reads it any more. Once, after the entry
    /// was retired and the driver was told.
    pub(super) fn drop_ndev(&self) {
        // SAFETY: By the type invariant: the callback has not been queued yet.
        if unsafe { &*self.ndev.get() }.is_none() {
            return;
        }
        // SAFETY: The field is a pointer; readers take what they find, under RCU.
        unsafe { (&raw mut (*self.attr()).ndev).write_volatile(core::ptr::null_mut()) };
        self.memory.inc();
        // SAFETY: The head is the entry's own, and used once; the entry stays until the
        // callback gives back what was just counted.
        unsafe { bindings::call_rcu(self.rcu.get(), Some(put_ndev)) };
    }

    /// Gives back a reference. Any context. The last one frees the slot.
    ///
    /// # Safety
    ///
    /// The caller has a reference to give back, and does not use the entry after.
    pub(super) unsafe fn put(this: NonNull<Self>) {
        // SAFETY: The reference keeps it.
        let entry = unsafe { this.as_ref() };
        if entry.refs.dec_and_test() {
            if let Some(port) = entry.owner.port(entry.port()) {
                port.vacate(entry);
            }
            entry.owner.room();
            // SAFETY: The references are gone; this is their share of the memory.
            unsafe { Self::release(this) };
        }
    }

    /// Gives back a share of the memory.
    ///
    /// # Safety
    ///
    /// As [`Self::put`], with `memory`.
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: The share keeps it.
        if unsafe { this.as_ref() }.memory.dec_and_test() {
            // SAFETY: It was the last share; `Port::insert` took the entry out of its box.
            drop(unsafe { KBox::from_raw(this.as_ptr()) });
        }
    }
}

/// # Safety
///
/// For RCU only, with the head of an entry, as [`Entry::drop_ndev`] hands it over.
unsafe extern "C" fn put_ndev(head: *mut bindings::callback_head) {
    // SAFETY: By this function's duty the entry is there; by its type invariant we alone look
    // at `ndev`, which is in a cell, so that holders may have the entry borrowed. The share of
    // the memory is given back last.
    unsafe {
        let entry: *mut Entry = container_of!(Opaque::cast_from(head), Entry, rcu).cast_mut();
        drop((*UnsafeCell::raw_get(&raw const (*entry).ndev)).take());
        Entry::release(NonNull::new_unchecked(entry));
    }
}

/// A reference to an entry, as users of the table have it.
///
/// # Invariants
///
/// It owns one of the entry's references.
pub(super) struct Held(NonNull<Entry>);

// SAFETY: It gives access to an `Entry`, which is `Send` and `Sync`.
unsafe impl Send for Held {}
// SAFETY: As above.
unsafe impl Sync for Held {}

impl Held {
    /// Holds an entry that is there.
    pub(super) fn new(entry: &Entry) -> Self {
        entry.hold();
        // INVARIANT: Just counted.
        Self(NonNull::from(entry))
    }

    /// Takes a reference back from C.
    ///
    /// # Safety
    ///
    /// `attr` is from [`into_raw`](Self::into_raw), or was held by [`Entry::hold`], and the
    /// caller gives that reference up.
    pub(super) unsafe fn from_raw(attr: *const bindings::ib_gid_attr) -> Self {
        // SAFETY: The reference keeps the entry. INVARIANT: It is ours now.
        Self(NonNull::from(unsafe { Entry::from_attr(attr) }))
    }

    /// Gives the reference to C.
    pub(super) fn into_raw(self) -> *const bindings::ib_gid_attr {
        ManuallyDrop::new(self).attr()
    }
}

impl core::ops::Deref for Held {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        // SAFETY: The reference keeps the entry (type invariant).
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { Entry::put(self.0) };
    }
}
