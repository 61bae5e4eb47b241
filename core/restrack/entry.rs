// SPDX-License-Identifier: GPL-2.0

//! The life cycle of an entry, as driven by the object's owner.
//!
//! Fields and rights are in [`super::edge`].

use super::Entry;
use super::Held;
use super::Kind;
use super::OwnerRef;
use super::Table;
use crate::device::Device;
use crate::edge::cm::CmId;
use crate::edge::counter::Counter;
use crate::edge::tracked::Tracked;
use crate::edge::uverbs::TrackedCompCntr;
use crate::edge::uverbs::TrackedContext;
use crate::edge::uverbs::TrackedDmah;
use crate::proto::restrack::qp_id;
use crate::proto::restrack::Shown;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::task::Task;
use rdma::bindings;
use rdma::edge::verbs::Cq;
use rdma::edge::verbs::Mr;
use rdma::edge::verbs::Pd;
use rdma::edge::verbs::Qp;
use rdma::edge::verbs::Srq;

impl Entry {
    /// Kind of the object. `None` if C passed an unknown number.
    pub(crate) fn kind(&self) -> Option<Kind> {
        super::kinds()
            .get(usize::try_from(self.number()).ok()?)
            .copied()
    }

    /// Returns whether the kernel owns the object rather than a process.
    pub(crate) fn is_kernel(&self) -> bool {
        !self.is_user()
    }

    /// Returns the pid of the task that owns the object, if any. Takes the table's lock.
    pub(crate) fn pid(&self) -> Option<kernel::task::Pid> {
        self.with_task(|task| task.map(Task::pid))
    }

    /// Returns whether the object is ever visible to readers.
    pub(crate) fn is_tracked(&self) -> bool {
        !self.no_track()
    }

    /// The object's device, once it is set.
    fn device(&self) -> Option<&Device> {
        Some(match self.kind()? {
            Kind::Pd => Device::of(Pd::of_entry(self)?.dev()),
            Kind::Cq => Device::of(Cq::of_entry(self)?.dev()),
            Kind::Qp => Device::of(Qp::of_entry(self)?.dev()),
            Kind::CmId => CmId::of_entry(self)?.device()?,
            Kind::Mr => Device::of(Mr::of_entry(self)?.dev()),
            Kind::Ctx => TrackedContext::of_entry(self)?.device()?,
            Kind::Counter => Counter::of_entry(self)?.device(),
            Kind::Srq => Device::of(Srq::of_entry(self)?.dev()),
            Kind::Dmah => TrackedDmah::of_entry(self)?.device()?,
            Kind::CompCntr => TrackedCompCntr::of_entry(self)?.device()?,
        })
    }

    /// The table that the object belongs to.
    fn table(&self) -> Option<&Table> {
        let (Some(kind), Some(device)) = (self.kind(), self.device()) else {
            kernel::warn_on!(true);
            return None;
        };
        Some(device.slot::<super::Tables>().of(kind))
    }

    /// The table in which readers may find the entry.
    pub(super) fn table_if_added(&self) -> Option<&Table> {
        (self.is_valid() && self.is_tracked())
            .then(|| self.table())
            .flatten()
    }

    /// The table to change for an added entry; `None` if the entry is not tracked.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the entry is tracked but its table cannot be determined.
    fn table_of_added(&self) -> Result<Option<&Table>> {
        if !self.is_tracked() {
            return Ok(None);
        }
        self.table().map(Some).ok_or(EINVAL)
    }
}

impl<'a> OwnerRef<'a> {
    /// Makes the object visible to readers under an id: the number of a queue pair or counter, the
    /// next free id for other kinds. If that fails, the object works without being tracked. May
    /// sleep.
    pub(crate) fn add(&mut self) {
        if self.is_tracked() {
            let added = match self.kind() {
                Some(Kind::Qp) => self.add_qp(),
                Some(Kind::Counter) => Counter::of_entry(self)
                    .map(Counter::id)
                    .ok_or(EINVAL)
                    .and_then(|id| self.add_as(id, false)),
                None
                | Some(
                    Kind::Pd
                    | Kind::Cq
                    | Kind::CmId
                    | Kind::Mr
                    | Kind::Ctx
                    | Kind::Srq
                    | Kind::Dmah
                    | Kind::CompCntr,
                ) => self.add_next(),
            };
            if added.is_err() {
                return;
            }
        }
        self.set_valid(true);
    }

    fn add_next(&mut self) -> Result {
        let entry = self.entry();
        entry.table().ok_or(EINVAL)?.insert_next(self)
    }

    fn add_as(&mut self, id: u32, drivers_own: bool) -> Result {
        let entry = self.entry();
        let table = entry.table().ok_or(EINVAL)?;
        self.set_id(id);
        table
            .insert(id, self, drivers_own)
            .inspect_err(|_| self.set_id(0))
    }

    fn add_qp(&mut self) -> Result {
        let qp = Qp::of_entry(self).ok_or(EINVAL)?;
        let (number, port, kind) = (qp.qp_num(), qp.port(), qp.qp_type());
        let special =
            kind == bindings::ib_qp_type_IB_QPT_SMI || kind == bindings::ib_qp_type_IB_QPT_GSI;
        let drivers_own = kind >= bindings::ib_qp_type_IB_QPT_DRIVER;
        let id = qp_id(number, port, special).ok_or(EINVAL);
        kernel::warn_on!(id.is_err());
        self.add_as(id?, drivers_own)
    }

    /// Hides the object, keeps its id, and waits for the last reader, before the driver is asked to
    /// destroy the object. May sleep.
    pub(crate) fn begin_del(&mut self) {
        if self.is_valid() {
            if let Ok(table) = self.entry().table_of_added() {
                self.hide(table);
            }
        }
    }

    fn hide(&mut self, table: Option<&Table>) {
        if let Some(table) = table {
            let was = table.hide(self);
            kernel::warn_on!(!was);
        }
        self.wait();
    }

    /// Reverses [`begin_del`](Self::begin_del) after the driver has refused.
    pub(crate) fn abort_del(&mut self) {
        if self.is_valid() {
            if let Ok(table) = self.entry().table_of_added() {
                self.show(table);
            }
        }
    }

    fn show(&mut self, table: Option<&Table>) {
        self.begin_again();
        if let Some(table) = table {
            let was = table.show(self);
            kernel::warn_on!(!was);
        }
    }

    /// Frees the object's id after the driver has destroyed it. Follows
    /// [`begin_del`](Self::begin_del).
    pub(crate) fn commit_del(&mut self) {
        if self.is_valid() && self.is_tracked() {
            let Some(table) = self.entry().table() else {
                return;
            };
            let _: bool = table.remove(self);
        }
        self.end();
    }

    /// Removes the object from the table and waits for the last reader. May sleep.
    pub(crate) fn del(&mut self) {
        if !self.is_valid() {
            // It was never added, so there are no readers.
            self.drop_task();
            return;
        }
        let Ok(table) = self.entry().table_of_added() else {
            return;
        };
        if let Some(table) = table {
            let was = table.remove(self);
            kernel::warn_on!(!was);
        }
        self.wait();
        self.end();
    }

    fn end(&mut self) {
        self.set_valid(false);
        self.drop_task();
    }

    /// Makes changes of the object visible to all readers. The object is briefly hidden, until its
    /// current readers are done. May sleep.
    pub(crate) fn sync(&mut self) {
        let Some(table) = self.entry().table_if_added() else {
            return;
        };
        if kernel::warn_on!(table.is_drivers_own(self.id())) {
            return;
        }
        self.hide(Some(table));
        self.show(Some(table));
    }

    /// Records the creator of the object: the kernel component `caller`, or the current process if
    /// that is `None`. A name does not replace a process that owns the object.
    pub(crate) fn set_name(&mut self, caller: Option<&'static CStr>) {
        match caller {
            Some(name) => self.set_kern_name(name),
            None => {
                let current: &Task = kernel::current!();
                self.set_task(ARef::from(current));
            }
        }
    }

    /// Makes the owner of `parent` the owner of this object.
    pub(crate) fn set_parent(&mut self, parent: &Entry) {
        if parent.is_kernel() {
            self.copy_kern_name(parent);
            return;
        }
        let task = parent.with_task(|task| task.map(ARef::from));
        if let Some(task) = task {
            self.set_task(task);
        } else {
            kernel::warn_on!(true);
        }
    }
}

impl Held {
    /// Returns the owner of the object as the current process may see it. Takes the table's lock.
    pub(crate) fn owner(&self) -> Shown<&'static CStr> {
        self.shown()
    }
}
