// SPDX-License-Identifier: GPL-2.0

//! `struct rdma_restrack_entry`, field by field, and the rights to an entry as types.
//!
//! | type | right | made from |
//! |---|---|---|
//! | `&`[`Entry`] | read what does not change, and count | an object |
//! | [`Held`] | one count: the object is not destroyed | [`Entry::hold`], C |
//! | [`OwnerRef`] | begin, publish and end the entry's life | the sole owner of an object, C |
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
use kernel::sync::Refcount;
use kernel::task::Task;
use rdma::bindings;
use rdma::edge::AnswerOk;
use rdma::edge::FromC;
use rdma::edge::SoleOwner;
use rdma::edge::View;
use rdma::sync::Completion;
use rdma::sync::IncNotZero;
use rdma::xarray::Lasting;

rdma::c_struct! {
    /// What is tracked of an object, as everybody may see it.
    ///
    /// # Invariants
    ///
    /// The entry is the `res` field of an object of the kind that `number` says, from
    /// `rdma_restrack_new` on. `task` owns one count of the task, or is null. While the entry is
    /// in its table, `task` changes under the table's lock only.
    pub(crate) struct Entry: bindings::rdma_restrack_entry;
    fields {
        /// The id by which readers find it; of no meaning before it is added.
        racy id: u32;
        /// `enum rdma_restrack_type`. Written by `rdma_restrack_new`, before anybody else has the
        /// object.
        const number at type_: u32;
        /// Whether a process owns it. Changes once, to true.
        racy is_user at user: bool;
        /// Whether readers shall not find it. Drivers set it before the entry is added.
        bit no_track: bool;
    }
}

rdma::c_struct! {
    /// The fields that only [`OwnerRef`] and [`Held`] may change. Private to this file.
    struct Fields: bindings::rdma_restrack_entry;
    fields {
        racy id: u32, set_id;
        racy number at type_: u32, set_number;
        /// Whether the entry was added. Only the owner writes it.
        racy valid: bool, set_valid;
        racy user: bool, set_user;
        /// Null, or a name that outlives the object: contract of `rdma_restrack_set_name`.
        racy kern_name: *const c_char, set_kern_name;
        /// The owner's count, and one for each reader.
        embed count at kref.refcount: Refcount;
        /// Completed when the last reader has gone. Initialised by `rdma_restrack_new`.
        embed comp: Completion;
    }
}

// SAFETY: One owner at a time changes the entry; what readers read is atomic, constant, or
// guarded by the table's lock (`Entry`, invariants).
unsafe impl Send for Entry {}
// SAFETY: See `Send`.
unsafe impl Sync for Entry {}

impl Entry {
    /// The entry of an object that is tracked, or is about to be.
    pub(crate) fn of(entry: &rdma::edge::verbs::Restrack) -> &Self {
        // SAFETY: Both are views of the same structure, a field of an object. Until
        // `OwnerRef::begin` writes the kind the object's owner alone has it.
        unsafe { Self::view(entry.raw()) }
    }

    fn fields(&self) -> &Fields {
        // SAFETY: Both are views of the same structure.
        unsafe { Fields::view(self.raw()) }
    }

    /// The place of the task, which owns a count.
    fn task(&self) -> &Atomic<*mut bindings::task_struct> {
        // SAFETY: The reference keeps the entry's memory; a word that is accessed as a whole.
        unsafe { Atomic::from_ptr(&raw mut (*self.raw()).task) }
    }

    /// Whether the entry was added and not ended.
    pub(super) fn is_valid(&self) -> bool {
        self.fields().valid()
    }

    /// Counts the entry, unless its object is being destroyed. Any context.
    pub(crate) fn hold(&self) -> Option<Held> {
        // INVARIANT: Just counted.
        self.fields()
            .count()
            .inc_not_zero()
            .then(|| Held(NonNull::from(self)))
    }

    /// Calls `f` with the task that owns the object, if one does. Takes the table's lock.
    pub(super) fn with_task<R>(&self, f: impl FnOnce(Option<&Task>) -> R) -> R {
        let _locked = self.table_if_added().map(super::Table::lock);
        let task: *mut Task = self.task().load(kernel::sync::atomic::Relaxed).cast();
        // SAFETY: The entry owns a count of its task. It changes under the lock, or, before the
        // entry is added, by the owner, who alone has the entry then (`Entry`, invariants).
        f(unsafe { task.as_ref() })
    }

    /// The name of the part of the kernel that owns the object.
    fn kern_name(&self) -> Option<&'static CStr> {
        let name = self.fields().kern_name();
        // SAFETY: Null or a name that outlives the object: see the row of `kern_name`.
        unsafe { FromC::from_c(name) }
    }

    /// Who owns the object, as the current process may see it. Takes the table's lock.
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

/// The number of a task in the current process's pid namespace; 0 if it has none there.
fn pid_here(task: &Task) -> u32 {
    // SAFETY: The task is there; without a namespace the current one is taken
    // (`include/linux/pid.h`).
    let pid = unsafe {
        bindings::__task_pid_nr_ns(
            task.as_ptr(),
            bindings::pid_type_PIDTYPE_PID,
            ptr::null_mut(),
        )
    };
    u32::try_from(pid).unwrap_or(0)
}

/// A type of objects that are tracked, or not.
///
/// # Safety
///
/// What `tracked` returns is the entry of an object of kind `TRACKED`.
pub(crate) unsafe trait MaybeTracked: View {
    /// The kind as it is tracked; none, if it is not.
    const TRACKED: Option<Kind>;

    /// What tracks it.
    fn tracked(&self) -> Option<&Entry> {
        None
    }
}

/// The right of an object's owner to its entry. The owner's calls come one after the other, in
/// process context.
///
/// # Invariants
///
/// The holder owns the entry's object, and takes the entry out of its table, by [`del`] or by
/// [`begin_del`] and [`commit_del`], before the object's memory goes.
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
    /// The caller keeps to the type invariant.
    pub(crate) unsafe fn new(entry: &'a Entry) -> Self {
        // INVARIANT: Contract of this function.
        Self {
            entry,
            _one_at_a_time: PhantomData,
        }
    }

    /// The entry of an object with a sole owner; none if objects of its type are not tracked.
    pub(crate) fn of<S>(owner: &'a mut S) -> Option<Self>
    where
        S: SoleOwner,
        S::Of: MaybeTracked,
    {
        // SAFETY: A sole owner has an object.
        let object: &'a S::Of = unsafe { View::view(owner.sole()) };
        // SAFETY: `&mut S` is the only way to the owner. The sole owners of tracked objects are
        // `object::{New, Owned}` and `counter::edge::Sole`; their `drop`, `destroy` and
        // `destroy_by_driver`, and `counter::counted`, end the entry before the memory goes.
        object.tracked().map(|entry| unsafe { Self::new(entry) })
    }

    /// The entry, for as long as the owner has it.
    pub(super) fn entry(&self) -> &'a Entry {
        self.entry
    }

    /// Begins the entry's life: one count, the owner's.
    pub(crate) fn begin(&mut self, kind: Kind) {
        let fields = self.fields();
        // SAFETY: The owner begins the entry's life, so there are no readers that wait.
        unsafe { fields.comp().init() };
        fields.set_number(kind as u32);
        fields.count().set(1);
    }

    /// Begins a new life of an entry whose last reader has gone.
    pub(super) fn begin_again(&mut self) {
        let fields = self.fields();
        // SAFETY: The last count is gone, and the owner, who alone waits, does not wait now.
        unsafe { fields.comp().reinit() };
        fields.count().set(1);
    }

    /// Waits for the last reader; the owner's count is given up. May sleep.
    pub(super) fn wait(&mut self) {
        let fields = self.fields();
        // Without readers the owner's count is the last, and nobody completes.
        if !fields.count().dec_and_test() {
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
        // Readers read an old or a new name, whole.
        self.fields().set_kern_name(name.as_char_ptr());
    }

    /// Takes over the name of another entry's owner, if it has one.
    pub(super) fn copy_kern_name(&mut self, parent: &Entry) {
        self.fields().set_kern_name(parent.fields().kern_name());
    }

    /// Makes a task the owner, with the table locked if readers can find the entry.
    pub(super) fn set_task(&mut self, task: ARef<Task>) {
        let locked = self.entry.table_if_added().map(super::Table::lock);
        let old = self.exchange_task(Some(task));
        self.fields().set_user(true);
        drop(locked);
        drop(old);
    }

    /// Forgets the task: no reader reads the entry any more.
    pub(super) fn drop_task(&mut self) {
        drop(self.exchange_task(None));
    }

    fn exchange_task(&mut self, new: Option<ARef<Task>>) -> Option<ARef<Task>> {
        let new = new.map_or(ptr::null_mut(), |task| ARef::into_raw(task).as_ptr());
        // INVARIANT (of `Entry`): the entry owns the new task's count.
        let old = NonNull::new(self.entry.task().xchg(new.cast(), Full))?;
        // SAFETY: The count was the entry's (`Entry`, invariants), and is the caller's now.
        Some(unsafe { ARef::from_raw(old.cast()) })
    }
}

impl Deref for OwnerRef<'_> {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        self.entry
    }
}

// SAFETY: The owner takes the entry out before the object goes: type invariant.
unsafe impl Lasting<Entry> for OwnerRef<'_> {
    fn object(&self) -> &Entry {
        self.entry
    }
}

rdma::argument! {
    /// `restrack.h` says of each function with an owner's entry that the object's owner calls it, and
    /// ends the entry before it frees the object.
    impl<'a> OwnerRef<'a> = |entry: &'a Entry| OwnerRef {
        entry,
        _one_at_a_time: PhantomData,
    };
}

/// One count of an entry: its object is not destroyed. Hold it briefly, since the owner waits.
///
/// # Invariants
///
/// `0` is an entry of which one count is ours. So its object exists, and the object's device,
/// which outlives all of its objects.
pub(crate) struct Held(NonNull<Entry>);

impl Held {
    /// Gives the count back. Returns whether it was the last one. Any context.
    pub(super) fn release(self) -> bool {
        let this = ManuallyDrop::new(self);
        let entry: &Entry = &this;
        let fields = entry.fields();
        if !fields.count().dec_and_test() {
            return false;
        }
        // The owner waits for the completion. If the entry was never added the owner does nothing
        // more with it, and the task is given back here.
        if !fields.valid() {
            // SAFETY: The last count of an entry that was never added or has ended: nobody else
            // reads or changes it.
            unsafe { OwnerRef::new(entry) }.drop_task();
        }
        fields.comp().complete();
        true
    }
}

impl Deref for Held {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        // SAFETY: The entry exists while it is counted: type invariant.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // INVARIANT: The count goes with the value that is being dropped.
        let _: bool = Self(self.0).release();
    }
}

rdma::argument! {
    /// The contract of `rdma_restrack_put`: the caller has a count, and gives it up.
    impl Held = |entry: &'static Entry| Held(NonNull::from(entry));
}

impl AnswerOk for Held {
    type C = *mut bindings::rdma_restrack_entry;

    fn ok(self) -> Self::C {
        // The count is C's from now on.
        ManuallyDrop::new(self).raw()
    }

    fn error(error: Error) -> Self::C {
        error.to_ptr()
    }
}
