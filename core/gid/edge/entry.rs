// SPDX-License-Identifier: GPL-2.0

//! An entry of a GID table; C sees its `struct ib_gid_attr`.
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
//! The table and each holder own one reference of [`Entry::refs`]. Lookups do not find a retired
//! entry, but its holders can still read it. [`Entry::memory`] counts two users: all references
//! together, and the RCU callback that puts the network device. Readers of `ib_gid_attr::ndev` are
//! protected by RCU only.

use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;

use kernel::container_of;
use kernel::ffi::c_void;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Acquire;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Relaxed;
use kernel::sync::atomic::Release;
use kernel::sync::rcu;
use kernel::sync::Arc;
use kernel::sync::Refcount;
use kernel::types::Opaque;

use super::super::Gids;
use crate::device::Device;
use crate::edge::device::GidContext;
use crate::proto::gid::Gid;
use crate::proto::gid_table;
use crate::proto::gid_table::Ndev;
use rdma::bindings;
use rdma::edge::object::Owned;
use rdma::edge::verbs::AhAttr;
use rdma::edge::verbs::GidAttr;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::In;
use rdma::edge::Passed;
use rdma::edge::Within;
use rdma::net::NetDevice;

/// Returns the ID of a network device for the pure code in `proto`: its address. The address is not
/// reused while an entry or a snapshot contains it, because both hold a reference to the device.
pub(in crate::gid) fn ndev_id(ndev: *const bindings::net_device) -> Ndev {
    // CAST: A pointer has at most 64 bits.
    Ndev(ndev.addr() as u64)
}

/// An entry of a GID table.
///
/// # Invariants
///
/// - `attr` does not change, except for `attr.ndev`, which becomes null after the entry is retired.
/// - `attr.ndev`, if not null, is the device of `ndev`.
/// - Each count of `memory` keeps the entry allocated: one belongs to all references together, one
///   to the RCU callback while it is queued. A `KBox` allocated the entry.
/// - `ndev` changes at most once, in the callback that [`Entry::drop_ndev`] queues. Nobody else
///   accesses it except the destructor.
#[repr(C)]
pub(crate) struct Entry {
    attr: GidAttr,
    /// Driver data. Only the driver uses it, from `add_gid` to `del_gid`.
    context: GidContext,
    /// The same entry in the form of the pure code in `proto`.
    entry: gid_table::Entry,
    port: u32,
    index: u16,
    valid: Atomic<bool>,
    /// Whether the callback that drops `ndev` is queued, or has run.
    leaves: Atomic<bool>,
    refs: Refcount,
    memory: Refcount,
    /// Reference to the device of `attr.ndev`. In a cell, because the entry may be shared when the
    /// reference is dropped.
    ndev: UnsafeCell<Option<ARef<NetDevice>>>,
    rcu: Opaque<bindings::callback_head>,
    owner: Arc<Gids>,
}

// SAFETY: Fields that change are atomic, or used by one thread at a time (type invariants;
// `context` only by the driver).
unsafe impl Send for Entry {}
// SAFETY: As for `Send`.
unsafe impl Sync for Entry {}

impl Entry {
    /// Allocates an entry, which is not in a table yet. The caller owns its memory until it is
    /// inserted.
    pub(in crate::gid) fn new(
        owner: Arc<Gids>,
        device: &Device,
        port: u32,
        index: u16,
        entry: &gid_table::Entry,
        ndev: Option<ARef<NetDevice>>,
    ) -> Result<KBox<Self>> {
        let raw_ndev = ndev.as_ref().map_or(core::ptr::null_mut(), |n| n.as_raw());
        let gid_type = u32::from(entry.gid_type as u8);
        // SAFETY: The attribute becomes part of an entry, which holds a reference to the network
        // device.
        let attr = unsafe { GidAttr::new(raw_ndev, device, entry.gid.0, gid_type, index, port) };
        // INVARIANT: `attr.ndev` is the device of `ndev`; no callback is queued, and the one count
        // of `memory` belongs to the one reference.
        Ok(KBox::new(
            Self {
                attr,
                context: GidContext::new(),
                entry: *entry,
                port,
                index,
                valid: Atomic::new(true),
                leaves: Atomic::new(false),
                refs: Refcount::new(1),
                memory: Refcount::new(1),
                ndev: UnsafeCell::new(ndev),
                rcu: Opaque::zeroed(),
                owner,
            },
            GFP_KERNEL,
        )?)
    }

    /// The C structure of the entry.
    pub(crate) fn attr(&self) -> &GidAttr {
        &self.attr
    }

    /// Returns the entry that contains an attribute.
    pub(crate) fn of(attr: &GidAttr) -> &Self {
        // SAFETY: Every attribute is a field of an entry (contract of `GidAttr::new`).
        unsafe { &*container_of!(core::ptr::from_ref(attr), Self, attr) }
    }

    /// Index of the entry in its port's table.
    pub(in crate::gid) fn index(&self) -> u16 {
        self.index
    }

    /// Port number.
    pub(in crate::gid) fn port(&self) -> u32 {
        self.port
    }

    /// The GID.
    pub(crate) fn gid(&self) -> Gid {
        self.entry.gid
    }

    /// Type of the GID (`enum ib_gid_type`).
    pub(crate) fn gid_type(&self) -> u32 {
        u32::from(self.entry.gid_type as u8)
    }

    /// Returns whether the entry is not retired.
    pub(in crate::gid) fn is_valid(&self) -> bool {
        self.valid.load(Acquire)
    }

    /// Network device of the entry; null if there is none, or after [`drop_ndev`](Self::drop_ndev).
    pub(in crate::gid) fn ndev(&self) -> *mut bindings::net_device {
        self.attr.ndev()
    }

    /// Network device of the entry, valid while `_rcu` exists; `None` if there is none, or after
    /// [`drop_ndev`](Self::drop_ndev).
    pub(crate) fn ndev_rcu<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        let ndev = NonNull::new(self.ndev())?;
        // SAFETY: An RCU callback that is queued after the field became null drops the entry's
        // reference to the device.
        Some(unsafe { NetDevice::from_raw(ndev.as_ptr()) })
    }

    /// Driver data of the entry.
    pub(in crate::gid) fn driver_context(&self) -> Passed<c_void> {
        self.context.get()
    }

    /// The entry in the form of the pure code in `proto`.
    pub(in crate::gid) fn engine(&self) -> &gid_table::Entry {
        &self.entry
    }

    /// Notifies the driver of the entry, which is not in a table yet.
    ///
    /// # Errors
    ///
    /// Errors of the driver.
    pub(in crate::gid) fn add_gid(&self, device: &Device) -> Result {
        if device.ops().add_gid.is_none() {
            return Ok(());
        }
        let attr = In(&self.attr);
        device.driver().add_gid(attr, &self.context)
    }

    /// Notifies the driver that the entry is deleted. The entry is not in a table any more. Called
    /// once after [`add_gid`](Self::add_gid).
    pub(in crate::gid) fn del_gid(&self, device: &Device) {
        // The deletion cannot fail, so ignore errors of the driver.
        let attr = In(&self.attr);
        let _: Result = device.driver().del_gid(attr, &self.context);
    }

    /// Takes a reference. The entry must have one already.
    pub(in crate::gid) fn hold(&self) {
        self.refs.inc();
    }

    /// Drops the reference to the network device after an RCU grace period. Called once, after the
    /// entry was retired and the driver was notified.
    pub(in crate::gid) fn drop_ndev(&self) {
        // Nothing to do without a network device.
        if self.ndev().is_null() || self.leaves.xchg(true, Relaxed) {
            return;
        }
        // SAFETY: Called once, when the entry is not in its table any more (contract of this function);
        // the callback below drops the reference after a grace period.
        unsafe { self.attr.clear_ndev() };
        self.memory.inc();
        // SAFETY: The head belongs to the entry and is used once (see `leaves`). INVARIANT: The
        // count of `memory` just taken belongs to the callback.
        unsafe { bindings::call_rcu(self.rcu.get(), Some(put_ndev)) };
    }

    /// Drops a count of `memory`, and frees the entry with the last one.
    ///
    /// # Safety
    ///
    /// The caller owns a count of `memory`, and does not use the entry afterwards.
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: The caller's count keeps the entry valid. After the last count nobody uses it,
        // and its memory is that of a `KBox` (type invariant), which `Slot::fill` converted to a
        // pointer.
        unsafe {
            if this.as_ref().memory.dec_and_test() {
                drop(KBox::from_raw(this.as_ptr()));
            }
        }
    }
}

/// # Safety
///
/// Called by RCU only, with the head of an entry, as queued by [`Entry::drop_ndev`].
unsafe extern "C" fn put_ndev(head: *mut bindings::callback_head) {
    // SAFETY: The callback's count of `memory` keeps the entry valid (type invariant) and is
    // dropped last. Only the callback accesses `ndev` (type invariant), which is in a cell because
    // holders may borrow the entry.
    unsafe {
        let entry: *mut Entry = container_of!(Opaque::cast_from(head), Entry, rcu).cast_mut();
        drop((*UnsafeCell::raw_get(&raw const (*entry).ndev)).take());
        Entry::release(NonNull::new_unchecked(entry));
    }
}

/// A reference to an entry of a GID table. The entry does not change while it is held, though it
/// may be deleted from the table.
///
/// # Invariants
///
/// `self` owns a reference to the entry.
pub(crate) struct GidRef(NonNull<Entry>);

// SAFETY: It only gives access to an `Entry`, which is `Send` and `Sync`.
unsafe impl Send for GidRef {}
// SAFETY: As for `Send`.
unsafe impl Sync for GidRef {}

impl GidRef {
    /// Takes a reference to an entry.
    pub(in crate::gid) fn new(entry: &Entry) -> Self {
        entry.hold();
        // INVARIANT: The reference was just taken.
        Self(NonNull::from(entry))
    }

    /// Takes a reference to the entry of an attribute. Any context.
    pub(crate) fn hold(attr: &GidAttr) -> Self {
        Self::new(Entry::of(attr))
    }

    /// Takes a reference to the local GID of an address vector, if the vector has one. Any context.
    pub(crate) fn of_vector(attr: &AhAttr) -> Option<Self> {
        // SAFETY: Only this thread uses the vector (`OfCall`), and it takes its own reference
        // before anything else.
        unsafe { attr.sgid_attr().get() }.map(Self::hold)
    }

    /// Takes over a reference that a field or C owned.
    pub(crate) fn of(owned: Owned<GidAttr>) -> Self {
        // INVARIANT: The owner of an attribute owns a reference to its entry.
        Self(NonNull::from(Entry::of(&owned)))
    }

    /// Passes the reference to a field or to C.
    pub(crate) fn into_owned(self) -> Owned<GidAttr> {
        let this = ManuallyDrop::new(self);
        // SAFETY: `self` owned the reference (type invariant), and is not dropped.
        unsafe { Owned::new(NonNull::from(this.attr()).cast()) }
    }
}

impl Deref for GidRef {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        // SAFETY: The reference keeps the entry (type invariant).
        unsafe { self.0.as_ref() }
    }
}

impl Drop for GidRef {
    /// Drops the reference; the last one frees the slot. Any context.
    fn drop(&mut self) {
        if !self.refs.dec_and_test() {
            return;
        }
        if let Some(port) = self.owner.port(self.port()) {
            port.vacate(self);
        }
        self.owner.room();
        // SAFETY: The last reference was dropped, so the references' count of `memory` is dropped
        // here.
        unsafe { Entry::release(self.0) };
    }
}

// SAFETY: `from_c`'s contract: an entry with a reference that passes from the caller to the callee.
unsafe impl FromC for GidRef {
    type C = *const bindings::ib_gid_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract; every attribute is a field of an entry.
        Self::of(unsafe { Owned::from_c(c.cast_mut()) })
    }
}
// SAFETY: The value owns its reference, so it is not limited to a call.
unsafe impl Within<'_> for GidRef {}

impl AnswerOk for GidRef {
    type C = *const bindings::ib_gid_attr;

    fn ok(self) -> Self::C {
        self.into_owned().into_raw().as_ptr()
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}

/// A slot of a table, protected by the table's lock. It refers to an entry from its insertion until
/// its last reference is dropped (`Port::vacate`), or until the table clears the slot.
///
/// # Invariants
///
/// The entry, if any, is allocated: its last reference clears the slot before it drops its count of
/// `memory`. While the entry is valid, the slot owns one of its references.
#[derive(Default)]
pub(in crate::gid) struct Slot(Option<NonNull<Entry>>);

// SAFETY: It only gives access to an `Entry`, which is `Send` and `Sync`.
unsafe impl Send for Slot {}

impl Slot {
    /// Returns the entry if it is valid.
    pub(in crate::gid) fn valid_entry(&self) -> Option<&Entry> {
        // SAFETY: The entry is allocated while the slot refers to it (type invariant).
        let entry = unsafe { self.0?.as_ref() };
        entry.is_valid().then_some(entry)
    }

    /// Returns whether the slot is empty.
    pub(in crate::gid) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether the slot refers to this entry.
    pub(in crate::gid) fn names(&self, entry: &Entry) -> bool {
        self.0 == Some(NonNull::from(entry))
    }

    /// Stores a new entry in the slot.
    pub(in crate::gid) fn fill(&mut self, entry: KBox<Entry>) {
        // INVARIANT: The slot takes over the one reference of a new entry.
        self.0 = NonNull::new(KBox::into_raw(entry));
    }

    /// Hides the entry, and returns the slot's reference to it.
    pub(in crate::gid) fn retire(&mut self) -> Option<GidRef> {
        let entry = self.valid_entry()?;
        entry.valid.store(false, Release);
        // INVARIANT: The entry was valid, so the slot owned a reference, which passes to the
        // result.
        Some(GidRef(NonNull::from(entry)))
    }

    /// Clears the slot.
    pub(in crate::gid) fn clear(&mut self) {
        self.0 = None;
    }
}
