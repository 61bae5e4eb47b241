// SPDX-License-Identifier: GPL-2.0

//! An object as it is tracked, from its beginning to its end.

use core::ffi::CStr;
use core::ops::Deref;
use core::ptr;
use kernel::container_of;
use kernel::prelude::*;
use kernel::sync::Refcount;
use kernel::types::Opaque;
use rdma::bindings;

use super::Kind;
use super::Table;
use crate::device::Device;
use crate::private;
use crate::proto::restrack::qp_id;
use crate::proto::restrack::Shown;

/// What is tracked of an object (`struct rdma_restrack_entry`).
///
/// # Invariants
///
/// `type` is that of the object that the entry is a part of, from `new` on. `task`, if it
/// is not null, has a count of ours. What readers read (`task`, `user`, `kern_name`) is
/// changed under the lock of the table while the entry is in there.
#[repr(transparent)]
pub(crate) struct Entry(Opaque<bindings::rdma_restrack_entry>);

// SAFETY: Owners are one at a time, and readers read what does not change under them.
unsafe impl Send for Entry {}
// SAFETY: As above.
unsafe impl Sync for Entry {}

// SAFETY: Transparent over the structure.
unsafe impl rdma::edge::View for Entry {
    type C = bindings::rdma_restrack_entry;
}

impl Entry {
    /// # Safety
    ///
    /// For `'a`, `ptr` is an entry that fulfils the type invariant.
    pub(crate) unsafe fn from_raw<'a>(ptr: *mut bindings::rdma_restrack_entry) -> &'a Self {
        // SAFETY: By this function's duty; the type is transparent.
        unsafe { &*ptr.cast() }
    }

    /// The entry of an object that is tracked.
    pub(crate) fn of(entry: &rdma::edge::verbs::Restrack) -> &Self {
        // SAFETY: A view of the same structure, of an object whose kind its `New` has written.
        unsafe { Self::from_raw(rdma::edge::View::raw(entry)) }
    }

    /// The C structure.
    pub(crate) fn raw(&self) -> *mut bindings::rdma_restrack_entry {
        self.0.get()
    }

    pub(super) fn as_ptr(&self) -> *mut kernel::ffi::c_void {
        self.raw().cast()
    }

    /// The id by which readers find it; of no meaning before it is added.
    pub(crate) fn id(&self) -> u32 {
        // SAFETY: Written before others see the entry.
        unsafe { (*self.raw()).id }
    }

    /// What kind of object it is. None if a caller made one up.
    pub(crate) fn kind(&self) -> Option<Kind> {
        // SAFETY: Written before others see the entry.
        let number = unsafe { (*self.raw()).type_ };
        Kind::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// Whether the kernel owns the object, not a process.
    pub(crate) fn is_kernel(&self) -> bool {
        // SAFETY: A byte; who changes it to true does so once.
        !unsafe { (*self.raw()).user }
    }

    /// The number of the task that owns the object, if one does.
    pub(crate) fn pid(&self) -> Option<kernel::task::Pid> {
        // SAFETY: An entry holds its task. It is changed by the owner only, under the lock of the
        // table, and never to that of another process while somebody asks here.
        unsafe { (*self.raw()).task.cast::<kernel::task::Task>().as_ref() }
            .map(kernel::task::Task::pid)
    }

    fn is_valid(&self) -> bool {
        // SAFETY: Only the owner writes it, and only the owner asks.
        unsafe { (*self.raw()).valid }
    }

    /// Whether readers may find the object at all.
    pub(crate) fn is_tracked(&self) -> bool {
        // SAFETY: Written before the entry is added.
        unsafe { (*self.raw()).no_track() == 0 }
    }

    fn count(&self) -> &Refcount {
        // SAFETY: A `struct kref` is a `refcount_t`, and so is `Refcount`.
        unsafe { &*ptr::addr_of!((*self.raw()).kref.refcount).cast() }
    }

    /// The device of the object, once it has one.
    fn device(&self) -> Option<&Device> {
        let res = self.raw();
        // SAFETY: By the type invariant the entry is a part of such an object, whose device
        // is set before the entry is added, and stays there longer than the object.
        unsafe {
            let device = match self.kind()? {
                Kind::Pd => (*container_of!(res, bindings::ib_pd, res)).device,
                Kind::Cq => (*container_of!(res, bindings::ib_cq, res)).device,
                Kind::Qp => (*container_of!(res, bindings::ib_qp, res)).device,
                Kind::CmId => {
                    (*container_of!(res, private::rdma_id_private, res))
                        .id
                        .device
                }
                Kind::Mr => (*container_of!(res, bindings::ib_mr, res)).device,
                Kind::Ctx => (*container_of!(res, bindings::ib_ucontext, res)).device,
                Kind::Counter => (*container_of!(res, bindings::rdma_counter, res)).device,
                Kind::Srq => (*container_of!(res, bindings::ib_srq, res)).device,
                Kind::Dmah => (*container_of!(res, bindings::ib_dmah, res)).device,
            };
            (!device.is_null()).then(|| Device::from_raw(device))
        }
    }

    /// The table that the object belongs into.
    fn table(&self) -> Option<&Table> {
        let (Some(kind), Some(device)) = (self.kind(), self.device()) else {
            kernel::warn_on!(true);
            return None;
        };
        Some(device.slot::<super::Tables>().of(kind))
    }

    /// Begins an entry's life: one count, the owner's.
    pub(crate) fn init(&self, kind: Kind) {
        // SAFETY: The owner alone has the entry.
        unsafe {
            let res = self.raw();
            bindings::init_completion(ptr::addr_of_mut!((*res).comp));
            (*res).type_ = kind as bindings::rdma_restrack_type;
        }
        self.count().set(1);
    }

    /// Puts the object where readers find it, by an id: of queue pairs and counters it is
    /// their number, of others the next in turn. If there is no room for it, the object
    /// works all the same, unseen. May sleep.
    pub(crate) fn add(&self) {
        if self.is_tracked() {
            let Some(table) = self.table() else { return };
            // SAFETY: The owner takes the entry out before the object goes, and waits for
            // those that have counts.
            let added = unsafe {
                match self.kind() {
                    Some(Kind::Qp) => self.add_qp(table),
                    Some(Kind::Counter) => {
                        let counter = container_of!(self.raw(), bindings::rdma_counter, res);
                        self.add_as((*counter).id, table, false)
                    }
                    _ => table.insert_next(self),
                }
            };
            if added.is_err() {
                return;
            }
        }
        // SAFETY: The owner's.
        unsafe { (*self.raw()).valid = true };
    }

    /// # Safety
    ///
    /// As of [`Table::insert`].
    unsafe fn add_as(&self, id: u32, table: &Table, drivers_own: bool) -> Result {
        // SAFETY: Nobody sees the entry yet.
        unsafe { (*self.raw()).id = id };
        // SAFETY: By this function's duty.
        let added = unsafe { table.insert(id, self, drivers_own) };
        if added.is_err() {
            // SAFETY: Nobody sees the entry.
            unsafe { (*self.raw()).id = 0 };
        }
        added
    }

    /// # Safety
    ///
    /// As of [`Table::insert`]; it is a queue pair's.
    unsafe fn add_qp(&self, table: &Table) -> Result {
        // SAFETY: By this function's duty; these fields are set before.
        let (number, port, kind) = unsafe {
            let qp = container_of!(self.raw(), bindings::ib_qp, res);
            ((*qp).qp_num, (*qp).port, (*qp).qp_type)
        };
        let special =
            kind == bindings::ib_qp_type_IB_QPT_SMI || kind == bindings::ib_qp_type_IB_QPT_GSI;
        let drivers_own = kind >= bindings::ib_qp_type_IB_QPT_DRIVER;
        let id = qp_id(number, port, special).ok_or(EINVAL);
        kernel::warn_on!(id.is_err());
        // SAFETY: By this function's duty.
        unsafe { self.add_as(id?, table, drivers_own) }
    }

    /// A count of one's own, unless the object is being destroyed. Any context.
    pub(crate) fn hold(&self) -> Option<Held<'_>> {
        self.try_count().then(|| Held(self))
    }

    /// Counts, unless the count is zero.
    fn try_count(&self) -> bool {
        // SAFETY: A `struct kref` is a `refcount_t`.
        unsafe {
            bindings::rdma_helper_refcount_inc_not_zero(ptr::addr_of_mut!(
                (*self.raw()).kref.refcount
            ))
        }
    }

    /// Gives a count back; whether it was the last. Any context. The owner may free the
    /// object as soon as the last count is gone.
    ///
    /// # Safety
    ///
    /// The caller has a count, and does not use the entry any more.
    pub(super) unsafe fn uncount(&self) -> bool {
        if !self.count().dec_and_test() {
            return false;
        }
        let res = self.raw();
        // SAFETY: The owner waits for the completion, or, if the entry was never added,
        // does nothing more with it: then its task is let go here.
        unsafe {
            if !(*res).valid {
                self.drop_task();
            }
            bindings::complete(ptr::addr_of_mut!((*res).comp));
        }
        true
    }

    /// # Safety
    ///
    /// No reader reads the entry.
    unsafe fn drop_task(&self) {
        // SAFETY: By this function's duty and the type invariant.
        unsafe {
            let task = ptr::replace(ptr::addr_of_mut!((*self.raw()).task), ptr::null_mut());
            if !task.is_null() {
                bindings::put_task_struct(task);
            }
        }
    }

    /// Waits for the last reader. The owner's count is given up. May sleep.
    fn wait(&self) {
        // Without readers the owner's count is the last, and there is nobody to tell.
        if self.count().dec_and_test() {
            return;
        }
        // SAFETY: The entry stays, since only the owner frees it. The last reader completes.
        unsafe { bindings::wait_for_completion(ptr::addr_of_mut!((*self.raw()).comp)) };
    }

    /// The table to change for an entry that was added: none for one that is not tracked.
    /// An error if there should be one and is not.
    fn table_of_added(&self) -> Result<Option<&Table>> {
        if !self.is_tracked() {
            return Ok(None);
        }
        self.table().map(Some).ok_or(EINVAL)
    }

    /// Takes the object out of sight, keeps its id, and waits for the last reader, because
    /// the driver is asked to destroy it. May sleep.
    pub(crate) fn begin_del(&self) {
        if self.is_valid() {
            if let Ok(table) = self.table_of_added() {
                self.hide(table);
            }
        }
    }

    fn hide(&self, table: Option<&Table>) {
        if let Some(table) = table {
            let was = table.hide(self);
            kernel::warn_on!(!was);
        }
        self.wait();
    }

    /// The driver refused: as if [`begin_del`](Self::begin_del) had not been.
    pub(crate) fn abort_del(&self) {
        if self.is_valid() {
            if let Ok(table) = self.table_of_added() {
                self.show(table);
            }
        }
    }

    fn show(&self, table: Option<&Table>) {
        // SAFETY: Nobody but the owner has the entry since the last count went; what
        // waited for that has returned.
        unsafe { (*self.raw()).comp.done = 0 };
        self.count().set(1);
        if let Some(table) = table {
            // SAFETY: As in `add`.
            let was = unsafe { table.show(self) };
            kernel::warn_on!(!was);
        }
    }

    /// The driver has destroyed the object: frees its id. May follow
    /// [`begin_del`](Self::begin_del) only.
    pub(crate) fn commit_del(&self) {
        if self.is_valid() && self.is_tracked() {
            let Some(table) = self.table() else { return };
            let _: bool = table.remove(self);
        }
        self.end();
    }

    /// Takes the object out of the table and waits for the last reader. May sleep.
    pub(crate) fn del(&self) {
        if !self.is_valid() {
            // SAFETY: It was never added, so there are no readers.
            unsafe { self.drop_task() };
            return;
        }
        let Ok(table) = self.table_of_added() else {
            return;
        };
        if let Some(table) = table {
            let was = table.remove(self);
            kernel::warn_on!(!was);
        }
        self.wait();
        self.end();
    }

    fn end(&self) {
        // SAFETY: The owner's; the last reader has gone.
        unsafe {
            (*self.raw()).valid = false;
            self.drop_task();
        }
    }

    /// After it, every reader sees the object as it is now. It is out of sight for a
    /// moment. May sleep.
    pub(crate) fn sync(&self) {
        if !self.is_valid() || !self.is_tracked() {
            return;
        }
        let Some(table) = self.table() else { return };
        if kernel::warn_on!(table.is_drivers_own(self.id())) {
            return;
        }
        self.hide(Some(table));
        self.show(Some(table));
    }

    /// Says who made the object: a part of the kernel, or else the present process. What
    /// belongs to a process stays its.
    pub(crate) fn set_name(&self, caller: Option<&'static CStr>) {
        match caller {
            Some(name) => {
                // SAFETY: One word; readers read an old or a new name, both static.
                unsafe { (*self.raw()).kern_name = name.as_ptr().cast() };
            }
            // SAFETY: The present task is there.
            None => unsafe { self.give_to(bindings::get_current()) },
        }
    }

    /// Gives the object to the owner of another.
    pub(crate) fn set_parent(&self, parent: &Entry) {
        if parent.is_kernel() {
            // SAFETY: One word, as in `set_name`.
            unsafe { (*self.raw()).kern_name = (*parent.raw()).kern_name };
        } else {
            // SAFETY: The parent's owner is the caller, and so its task stays.
            unsafe { self.give_to((*parent.raw()).task) };
        }
    }

    /// # Safety
    ///
    /// `task` is null or a task that is there meanwhile.
    unsafe fn give_to(&self, task: *mut bindings::task_struct) {
        if kernel::warn_on!(task.is_null()) {
            return;
        }
        // A reader may be reading the old task's number.
        let table = (self.is_valid() && self.is_tracked())
            .then(|| self.table())
            .flatten();
        let locked = table.map(Table::lock);
        // SAFETY: By this function's duty; readers are kept away by the lock, if there can
        // be any.
        let old = unsafe {
            bindings::get_task_struct(task);
            let old = ptr::replace(ptr::addr_of_mut!((*self.raw()).task), task);
            (*self.raw()).user = true;
            old
        };
        drop(locked);
        if !old.is_null() {
            // SAFETY: By the type invariant the count was ours.
            unsafe { bindings::put_task_struct(old) };
        }
    }
}

/// An object that is not destroyed meanwhile; keep it shortly, since its owner waits.
///
/// # Invariants
///
/// This has one count of the entry.
pub(crate) struct Held<'a>(&'a Entry);

impl Held<'_> {
    /// Who owns the object, as the present process may see it. Takes the table's lock.
    pub(crate) fn owner(&self) -> Shown<&CStr> {
        let _locked = self.table().map(Table::lock);
        // SAFETY: The lock keeps the task in its place; names are static.
        unsafe {
            let res = self.raw();
            if !(*res).user {
                let name = (*res).kern_name;
                return if name.is_null() {
                    Shown::Nothing
                } else {
                    Shown::KernelName(CStr::from_ptr(name.cast()))
                };
            }
            if (*res).task.is_null() {
                return Shown::Nothing;
            }
            let pid = bindings::__task_pid_nr_ns(
                (*res).task,
                bindings::pid_type_PIDTYPE_PID,
                ptr::null_mut(),
            );
            match u32::try_from(pid) {
                Ok(0) | Err(_) => Shown::Nothing,
                Ok(pid) => Shown::Pid(pid),
            }
        }
    }
}

impl Deref for Held<'_> {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        self.0
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the count is ours.
        let _: bool = unsafe { self.0.uncount() };
    }
}
