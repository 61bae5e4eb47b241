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
use rdma::edge::verbs::GidAttr;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::In;
use rdma::edge::Passed;
use rdma::edge::Within;
use rdma::net::NetDevice;

/// The name of a network device in the engines: its address, which is not given to another
/// while an entry or a snapshot names it, since both hold the device.
pub(in crate::gid) fn ndev_id(ndev: *const bindings::net_device) -> Ndev {
    // CAST: a pointer fits.
    Ndev(ndev.addr() as u64)
}

/// An entry.
///
/// # Invariants
///
/// - `attr` is not changed, but for `ndev`, which turns to null after the entry is retired.
/// - `attr.ndev`, if not null, is the device of `ndev`.
/// - Each share of `memory` keeps the entry where it is: one belongs to the references together,
///   one to the callback while it is queued. The entry is the content of a `KBox`.
/// - `ndev` is changed once at most, by the callback that [`Entry::drop_ndev`] queues; nobody
///   else looks at it but that function, before, and the destructor.
#[repr(C)]
pub(crate) struct Entry {
    attr: GidAttr,
    /// What the driver keeps of it; the driver alone uses it, from `add_gid` to `del_gid`.
    context: GidContext,
    /// The same, as the engines have it.
    entry: gid_table::Entry,
    port: u32,
    index: u16,
    valid: Atomic<bool>,
    /// The callback that drops `ndev` is queued, or has run.
    leaves: Atomic<bool>,
    refs: Refcount,
    memory: Refcount,
    /// What keeps `attr.ndev`. In a cell, since there may be holders when it goes.
    ndev: UnsafeCell<Option<ARef<NetDevice>>>,
    rcu: Opaque<bindings::callback_head>,
    owner: Arc<Gids>,
}

// SAFETY: What changes is atomic, or belongs to one thread at a time as told at the fields.
unsafe impl Send for Entry {}
// SAFETY: As for `Send`.
unsafe impl Sync for Entry {}

impl Entry {
    /// A new entry that is in no table yet. Its memory is the caller's until it is put into one.
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
        // SAFETY: It becomes part of an entry, which keeps the network device.
        let attr = unsafe { GidAttr::new(raw_ndev, device, entry.gid.0, gid_type, index, port) };
        // INVARIANT: As built above.
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

    /// What C knows of it.
    pub(crate) fn attr(&self) -> &GidAttr {
        &self.attr
    }

    /// The entry that an attribute is part of.
    pub(crate) fn of(attr: &GidAttr) -> &Self {
        // SAFETY: There is no other attribute than those of entries (`GidAttr::new`).
        unsafe { &*container_of!(core::ptr::from_ref(attr), Self, attr) }
    }

    /// Its place in its port's table.
    pub(in crate::gid) fn index(&self) -> u16 {
        self.index
    }

    /// The number of its port.
    pub(in crate::gid) fn port(&self) -> u32 {
        self.port
    }

    /// The GID.
    pub(crate) fn gid(&self) -> Gid {
        self.entry.gid
    }

    /// `enum ib_gid_type`.
    pub(crate) fn gid_type(&self) -> u32 {
        u32::from(self.entry.gid_type as u8)
    }

    /// Whether it is in its table, and not retired.
    pub(in crate::gid) fn is_valid(&self) -> bool {
        self.valid.load(Acquire)
    }

    /// Its network device, while it is valid.
    pub(in crate::gid) fn ndev(&self) -> *mut bindings::net_device {
        self.attr.ndev()
    }

    /// Its network device, while it is valid, under RCU.
    pub(crate) fn ndev_rcu<'a>(&self, _rcu: &'a rcu::Guard) -> Option<&'a NetDevice> {
        let ndev = NonNull::new(self.ndev())?;
        // SAFETY: The entry's reference to it is dropped by an RCU callback after the field has
        // turned to null.
        Some(unsafe { NetDevice::from_raw(ndev.as_ptr()) })
    }

    /// What the driver keeps of it.
    pub(in crate::gid) fn driver_context(&self) -> Passed<c_void> {
        self.context.get()
    }

    /// As the engines have it.
    pub(in crate::gid) fn engine(&self) -> &gid_table::Entry {
        &self.entry
    }

    /// Has the driver take note of the entry, which is not in a table yet.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub(in crate::gid) fn add_gid(&self, device: &Device) -> Result {
        if device.ops().add_gid.is_none() {
            return Ok(());
        }
        let attr = In(&self.attr);
        device.driver().add_gid(attr, &self.context)
    }

    /// Has the driver forget the entry, which is in no table any more. Once after
    /// [`add_gid`](Self::add_gid).
    pub(in crate::gid) fn del_gid(&self, device: &Device) {
        // There is nobody to be told of a failure.
        let attr = In(&self.attr);
        let _: Result = device.driver().del_gid(attr, &self.context);
    }

    /// One more reference; the caller knows of one that is there.
    pub(in crate::gid) fn hold(&self) {
        self.refs.inc();
    }

    /// Lets go of the network device, when nobody reads it any more. Once, after the entry
    /// was retired and the driver was told.
    pub(in crate::gid) fn drop_ndev(&self) {
        // Who gave no network device has none to be let go of.
        if self.ndev().is_null() || self.leaves.xchg(true, Relaxed) {
            return;
        }
        self.attr.set_ndev(core::ptr::null_mut());
        self.memory.inc();
        // SAFETY: The head is the entry's own, and used once, as `leaves` says. INVARIANT: The share just counted is the callback's.
        unsafe { bindings::call_rcu(self.rcu.get(), Some(put_ndev)) };
    }

    /// Gives back a share of the memory.
    ///
    /// # Safety
    ///
    /// The caller has a share to give back, and does not use the entry after.
    unsafe fn release(this: NonNull<Self>) {
        // SAFETY: The share keeps it; after the last one nobody does, and it is a box's content
        // (type invariant; `Port::insert` took it out).
        unsafe {
            if this.as_ref().memory.dec_and_test() {
                drop(KBox::from_raw(this.as_ptr()));
            }
        }
    }
}

/// # Safety
///
/// For RCU only, with the head of an entry, as [`Entry::drop_ndev`] hands it over.
unsafe extern "C" fn put_ndev(head: *mut bindings::callback_head) {
    // SAFETY: The callback's share keeps the entry (type invariant), and we alone look
    // at `ndev`, which is in a cell, so that holders may have the entry borrowed. The share of
    // the memory is given back last.
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
/// It owns one of the entry's references.
pub(crate) struct GidRef(NonNull<Entry>);

// SAFETY: It gives access to an `Entry`, which is `Send` and `Sync`.
unsafe impl Send for GidRef {}
// SAFETY: As for `Send`.
unsafe impl Sync for GidRef {}

impl GidRef {
    /// Holds an entry that is there.
    pub(in crate::gid) fn new(entry: &Entry) -> Self {
        entry.hold();
        // INVARIANT: Just counted.
        Self(NonNull::from(entry))
    }

    /// Another reference to an entry that somebody holds. Any context.
    pub(crate) fn hold(attr: &GidAttr) -> Self {
        Self::new(Entry::of(attr))
    }

    /// The reference that a field or C owned.
    pub(crate) fn of(owned: Owned<GidAttr>) -> Self {
        // INVARIANT: Who owns an attribute has a reference to its entry.
        Self(NonNull::from(Entry::of(&owned)))
    }

    /// Gives the reference to a field or C.
    pub(crate) fn into_owned(self) -> Owned<GidAttr> {
        let this = ManuallyDrop::new(self);
        // SAFETY: The reference was `self`'s, which is not dropped.
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
    /// Any context. The last one frees the slot.
    fn drop(&mut self) {
        if !self.refs.dec_and_test() {
            return;
        }
        if let Some(port) = self.owner.port(self.port()) {
            port.vacate(self);
        }
        self.owner.room();
        // SAFETY: The references are gone; this is their share of the memory.
        unsafe { Entry::release(self.0) };
    }
}

// SAFETY: `from_c`'s contract: an entry that the caller holds, and gives up.
unsafe impl FromC for GidRef {
    type C = *const bindings::ib_gid_attr;

    unsafe fn from_c(c: Self::C) -> Self {
        // SAFETY: `from_c`'s contract; an attribute is a part of an entry.
        Self::of(unsafe { Owned::from_c(c.cast_mut()) })
    }
}
// SAFETY: It owns its reference, so it is not limited by a call.
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

/// A slot of a table, under the table's lock. It names an entry from when the entry is put into it
/// until the entry's last reference is gone (`Port::vacate`), or the table is told to forget it.
///
/// # Invariants
///
/// The entry, if any, has references. While it is valid, one of them is the slot's.
#[derive(Default)]
pub(in crate::gid) struct Slot(Option<NonNull<Entry>>);

// SAFETY: It gives access to an `Entry`, which is `Send` and `Sync`.
unsafe impl Send for Slot {}

impl Slot {
    /// The entry, if it is valid.
    pub(in crate::gid) fn valid_entry(&self) -> Option<&Entry> {
        // SAFETY: By the type invariant the entry is there as long as the slot names it.
        let entry = unsafe { self.0?.as_ref() };
        entry.is_valid().then_some(entry)
    }

    /// Whether it names no entry.
    pub(in crate::gid) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it names this entry.
    pub(in crate::gid) fn names(&self, entry: &Entry) -> bool {
        self.0 == Some(NonNull::from(entry))
    }

    /// Puts a new entry into it.
    pub(in crate::gid) fn fill(&mut self, entry: KBox<Entry>) {
        // INVARIANT: The one reference of a new entry is the slot's.
        self.0 = NonNull::new(KBox::into_raw(entry));
    }

    /// Hides the entry, and returns the slot's reference to it.
    pub(in crate::gid) fn retire(&mut self) -> Option<GidRef> {
        let entry = self.valid_entry()?;
        entry.valid.store(false, Release);
        // INVARIANT: The entry was valid, so one reference was the slot's; it is not any more.
        Some(GidRef(NonNull::from(entry)))
    }

    /// Forgets the entry.
    pub(in crate::gid) fn clear(&mut self) {
        self.0 = None;
    }
}
