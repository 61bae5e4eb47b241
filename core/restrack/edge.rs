// SPDX-License-Identifier: GPL-2.0

//! Fields of `struct rdma_restrack_entry`, and the rights to an entry as types.
//!
//! | type | right | made from |
//! |---|---|---|
//! | `&`[`Entry`] | read constant fields, and take references | an object |
//! | [`Held`] | one reference: the object is not destroyed | [`Entry::hold`], C |
//! | [`OwnerRef`] | initialise, publish and end the entry | the sole owner of an object, C |
//!
//! C header: `include/rdma/restrack.h`. Prototypes: `drivers/infiniband/core/restrack.h`.

use super::Kind;
use crate::proto::restrack::Shown;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr;
use core::ptr::NonNull;
use kernel::ffi::c_char;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::sync::atomic::Atomic;
use kernel::sync::atomic::Full;
use kernel::task::Task;
use rdma::bindings;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::SoleOwner;
use rdma::edge::View;
use rdma::sync::CRefcount;
use rdma::sync::Completion;
use rdma::xarray::Lasting;

rdma::c_struct! {
    /// The tracking data of an object that everybody may read.
    ///
    /// # Invariants
    ///
    /// The entry is the `res` field of an object of kind `number`, from `rdma_restrack_new` on.
    /// `task` is null or owns one reference to the task. While the entry is in its table, `task`
    /// changes under the table's lock only.
    pub(crate) struct Entry: bindings::rdma_restrack_entry;
    fields {
        /// Whether the entry is hidden from readers. Drivers set it before the entry is added.
        bit no_track: bool;
    }
}

rdma::c_struct! {
    /// The fields that only [`OwnerRef`] and [`Held`] may change. Private to this file.
    struct Fields: bindings::rdma_restrack_entry;
    fields {
        /// See [`Entry::id`].
        racy id: u32, set_id;
        /// See [`Entry::number`].
        racy number at type_: u32, set_number;
        /// Whether the entry has been added and not yet ended. Only the owner writes it.
        racy valid: bool, set_valid;
        /// See [`Entry::is_user`].
        racy user: bool, set_user;
        /// Null, or a name that outlives the object: contract of `rdma_restrack_set_name`.
        racy kern_name: *const c_char, set_kern_name;
        /// One reference for the owner, and one for each reader.
        embed count at kref.refcount: CRefcount;
        /// Completed when the last reference is dropped. Initialised by `rdma_restrack_new`.
        embed comp: Completion;
    }
}

// SAFETY: Only the owner changes the entry, one call at a time. Readers read fields that are
// atomic, constant, or guarded by the table's lock (`Entry`, invariants).
unsafe impl Send for Entry {}
// SAFETY: See `Send`.
unsafe impl Sync for Entry {}

impl Entry {
    /// Returns the entry of an object that is or will be tracked.
    pub(crate) fn of(entry: &rdma::edge::verbs::Restrack) -> &Self {
        // SAFETY: Both are views of the same structure, a field of an object. Only the object's
        // owner can reach it until `OwnerRef::begin` has written the kind.
        unsafe { Self::view(entry.raw()) }
    }

    fn fields(&self) -> &Fields {
        // SAFETY: Both are views of the same structure.
        unsafe { Fields::view(self.raw()) }
    }

    /// Id by which readers find the entry; meaningless before the entry is added.
    pub(crate) fn id(&self) -> u32 {
        self.fields().id()
    }

    /// `enum rdma_restrack_type`. Written by `rdma_restrack_new`, before the object is shared.
    pub(crate) fn number(&self) -> u32 {
        self.fields().number()
    }

    /// Whether a process owns the object. Changes once, to true.
    pub(crate) fn is_user(&self) -> bool {
        self.fields().user()
    }

    /// The pointer to the owning task, which holds a reference to it.
    fn task(&self) -> &Atomic<*mut bindings::task_struct> {
        // SAFETY: `self` keeps the entry's memory; the field is aligned and accessed as a whole
        // word.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).task) }
    }

    /// Returns whether the entry was added and has not ended.
    pub(super) fn is_valid(&self) -> bool {
        self.fields().valid()
    }

    /// Takes a reference, unless the object is being destroyed. Any context.
    pub(crate) fn hold(&self) -> Option<Held> {
        // INVARIANT: The reference was just taken.
        self.fields()
            .count()
            .inc_not_zero()
            .then(|| Held(NonNull::from(self)))
    }

    /// Calls `f` with the task that owns the object, if any. Takes the table's lock.
    pub(super) fn with_task<R>(&self, f: impl FnOnce(Option<&Task>) -> R) -> R {
        let _locked = self.table_if_added().map(super::Table::lock);
        let task: *mut Task = self.task().load(kernel::sync::atomic::Relaxed).cast();
        // SAFETY: The entry owns a reference to its task. The field changes under the lock, or,
        // before the entry is added, by the owner, who then has exclusive access (`Entry`,
        // invariants).
        f(unsafe { task.as_ref() })
    }

    /// Name of the kernel component that owns the object.
    fn kern_name(&self) -> Option<&'static CStr> {
        let name = self.fields().kern_name();
        // SAFETY: The name is null or outlives the object: see the row of `kern_name`.
        unsafe { FromC::from_c(name) }
    }

    /// Returns the owner of the object as the current process may see it. Takes the table's lock.
    pub(super) fn shown(&self) -> Shown<&'static CStr> {
        if !self.is_user() {
            return match self.kern_name() {
                Some(name) => Shown::KernelName(name),
                None => Shown::Nothing,
            };
        }
        self.with_task(|task| match task.map(pid_here) {
            None | Some(0) => Shown::Nothing,
            Some(pid) => Shown::Pid(pid),
        })
    }
}

/// Returns the pid of a task in the current process's pid namespace; 0 if it has none there.
fn pid_here(task: &Task) -> u32 {
    // SAFETY: `task` is valid. A null namespace selects the current one (`include/linux/pid.h`).
    let pid = unsafe {
        bindings::__task_pid_nr_ns(
            task.as_ptr(),
            bindings::pid_type_PIDTYPE_PID,
            ptr::null_mut(),
        )
    };
    u32::try_from(pid).unwrap_or(0)
}

/// A type of objects that may be tracked.
///
/// # Safety
///
/// `tracked` must return the entry of an object of kind `TRACKED`.
pub(crate) unsafe trait MaybeTracked: View {
    /// Kind under which objects are tracked; `None` if they are not.
    const TRACKED: Option<Kind>;

    /// Returns the object's entry.
    fn tracked(&self) -> Option<&Entry> {
        None
    }
}

/// The right of an object's owner to its entry. The owner's calls are serialised and run in process
/// context.
///
/// # Invariants
///
/// The holder owns the entry's object. It removes the entry from its table, by [`del`] or by
/// [`begin_del`] and [`commit_del`], before the object's memory is freed.
///
/// [`del`]: Self::del
/// [`begin_del`]: Self::begin_del
/// [`commit_del`]: Self::commit_del
pub(crate) struct OwnerRef<'a> {
    entry: &'a Entry,
    _one_at_a_time: PhantomData<&'a mut ()>,
}

impl<'a> OwnerRef<'a> {
    /// # Safety
    ///
    /// The caller must uphold the type invariant.
    pub(crate) unsafe fn new(entry: &'a Entry) -> Self {
        // INVARIANT: Contract of this function.
        Self {
            entry,
            _one_at_a_time: PhantomData,
        }
    }

    /// The entry of an object with a sole owner; `None` if objects of its type are not tracked.
    pub(crate) fn of<S>(owner: &'a mut S) -> Option<Self>
    where
        S: SoleOwner,
        S::Of: MaybeTracked,
    {
        // SAFETY: A `SoleOwner` always has an object.
        let object: &'a S::Of = unsafe { View::view(owner.sole()) };
        // SAFETY: `&mut S` is the only way to the owner. The sole owners of tracked objects are
        // `object::{New, Owned}` and `counter::edge::Sole`; their `drop`, `destroy` and
        // `destroy_by_driver`, and `counter::counted`, end the entry before the memory is freed.
        object.tracked().map(|entry| unsafe { Self::new(entry) })
    }

    /// Returns the entry, which lives as long as its owner.
    pub(super) fn entry(&self) -> &'a Entry {
        self.entry
    }

    /// Initialises the entry of an object that was allocated zeroed, with one reference, the owner's.
    /// Warns, and does nothing, if it was initialised before.
    pub(crate) fn begin(&mut self, kind: Kind) {
        if !kernel::warn_on!(!self.fields().count().is_zero()) {
            // SAFETY: No reference, and none can be taken of an entry without one.
            unsafe { self.init(kind) };
        }
    }

    /// # Safety
    ///
    /// Nobody has a reference to the entry, or waits for it.
    unsafe fn init(&mut self, kind: Kind) {
        let fields = self.fields();
        // SAFETY: No one waits for the completion (contract of this function).
        unsafe { fields.comp().init() };
        fields.set_number(kind as u32);
        // SAFETY: There is no reference (contract of this function); the new one is the owner's.
        unsafe { fields.count().init(1) };
    }

    /// Reinitialises an entry after the last reader has dropped its reference.
    pub(super) fn begin_again(&mut self) {
        let fields = self.fields();
        // SAFETY: The last reference is gone. Only the owner waits, and it does not wait now.
        unsafe { fields.comp().reinit() };
        // SAFETY: The last reference is gone; the new one is the owner's.
        unsafe { fields.count().init(1) };
    }

    /// Drops the owner's reference and waits for the last reader. May sleep.
    pub(super) fn wait(&mut self) {
        let fields = self.fields();
        // Without readers this is the last reference, and nobody completes.
        // SAFETY: The reference is the owner's, which `begin` or `begin_again` has counted.
        if !unsafe { fields.count().put() } {
            fields.comp().wait();
        }
    }

    pub(super) fn set_id(&mut self, id: u32) {
        self.fields().set_id(id);
    }

    pub(super) fn set_valid(&mut self, valid: bool) {
        self.fields().set_valid(valid);
    }

    pub(super) fn set_kern_name(&mut self, name: &'static CStr) {
        // Concurrent readers see either the old or the new name, never a mix.
        self.fields().set_kern_name(name.as_char_ptr());
    }

    /// Copies the kernel owner's name from another entry, if it has one.
    pub(super) fn copy_kern_name(&mut self, parent: &Entry) {
        self.fields().set_kern_name(parent.fields().kern_name());
    }

    /// Makes a task the owner. Takes the table's lock if readers can find the entry.
    pub(super) fn set_task(&mut self, task: ARef<Task>) {
        let locked = self.entry.table_if_added().map(super::Table::lock);
        let old = self.exchange_task(Some(task));
        self.fields().set_user(true);
        drop(locked);
        drop(old);
    }

    /// Drops the task reference. No reader may read the entry any more.
    pub(super) fn drop_task(&mut self) {
        drop(self.exchange_task(None));
    }

    fn exchange_task(&mut self, new: Option<ARef<Task>>) -> Option<ARef<Task>> {
        let new = new.map_or(ptr::null_mut(), |task| ARef::into_raw(task).as_ptr());
        // INVARIANT (of `Entry`): The entry now owns the reference to the new task.
        let old = NonNull::new(self.entry.task().xchg(new.cast(), Full))?;
        // SAFETY: The entry owned this reference (`Entry`, invariants) and hands it to the caller.
        Some(unsafe { ARef::from_raw(old.cast()) })
    }
}

impl Deref for OwnerRef<'_> {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        self.entry
    }
}

// SAFETY: The owner removes the entry before the object is freed: type invariant.
unsafe impl Lasting<Entry> for OwnerRef<'_> {
    fn object(&self) -> &Entry {
        self.entry
    }
}

rdma::argument! {
    /// Contract of each function of `restrack.h` that takes an owner's entry: the caller owns the
    /// object, and ends the entry before it frees the object.
    impl<'a> OwnerRef<'a> = |entry: &'a Entry| OwnerRef {
        entry,
        _one_at_a_time: PhantomData,
    };
}

/// An entry that C has not initialised yet; its memory may hold anything.
pub(super) struct NewEntry<'a>(OwnerRef<'a>);

impl NewEntry<'_> {
    /// Initialises the entry with one reference, the owner's.
    pub(super) fn begin(mut self, kind: Kind) {
        // SAFETY: Nobody uses the entry (contract of `rdma_restrack_new`).
        unsafe { self.0.init(kind) };
    }
}

rdma::argument! {
    /// Contract of `rdma_restrack_new`: the caller owns the object, and nobody uses its entry.
    impl<'a> NewEntry<'a> = |entry: OwnerRef<'a>| NewEntry(entry);
}

/// A reference to an entry, which keeps its object. Hold it briefly, since the owner waits for it.
///
/// # Invariants
///
/// `0` is an entry of which this value owns one reference. So its object exists, and so does the
/// device, which outlives all of its objects.
pub(crate) struct Held(NonNull<Entry>);

impl Held {
    /// Drops the reference. Returns whether it was the last one. Any context.
    pub(super) fn release(self) -> bool {
        let this = ManuallyDrop::new(self);
        let entry: &Entry = &this;
        let fields = entry.fields();
        // SAFETY: The reference is this value's (type invariant), which is not dropped.
        if !unsafe { fields.count().put() } {
            return false;
        }
        // The owner waits for the completion. If the entry was never added, the owner does not
        // touch it again, so the task reference is dropped here.
        if !fields.valid() {
            // SAFETY: This was the last reference of an entry that was never added or has ended:
            // nobody else reads or changes it.
            unsafe { OwnerRef::new(entry) }.drop_task();
        }
        fields.comp().complete();
        true
    }
}

impl Deref for Held {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        // SAFETY: The reference keeps the entry: type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // INVARIANT: The new value takes over the reference of the one being dropped.
        let _: bool = Self(self.0).release();
    }
}

rdma::argument! {
    /// Contract of `rdma_restrack_put`: the caller passes a reference that it owns.
    impl Held = |entry: &'static Entry| Held(NonNull::from(entry));
}

impl AnswerOk for Held {
    type C = *mut bindings::rdma_restrack_entry;

    fn ok(self) -> Self::C {
        // The reference now belongs to C.
        ManuallyDrop::new(self).raw()
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}
