// SPDX-License-Identifier: GPL-2.0

//! The life of an entry: what its owner does with it, from its beginning to its end.
//!
//! Fields and rights are in [`super::edge`].

use super::Entry;
use super::Held;
use super::Kind;
use super::OwnerRef;
use super::Table;
use crate::counter::Counter;
use crate::device::Device;
use crate::edge::cm::CmId;
use crate::edge::uverbs::TrackedContext;
use crate::edge::uverbs::TrackedDmah;
use crate::object::Cq;
use crate::object::Mr;
use crate::object::Object;
use crate::object::Pd;
use crate::object::Qp;
use crate::object::Srq;
use crate::proto::restrack::qp_id;
use crate::proto::restrack::Shown;
use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel::task::Task;
use rdma::bindings;

/// The device of an object of type `K`.
fn device_of<K: Object + 'static>(entry: &Entry) -> Option<&Device> {
    K::of_entry(entry).map(K::device)
}

impl Entry {
    /// What kind of object it is. None if C gave a number that there is not.
    pub(crate) fn kind(&self) -> Option<Kind> {
        Kind::ALL.get(usize::try_from(self.number()).ok()?).copied()
    }

    /// Whether the kernel owns the object, not a process.
    pub(crate) fn is_kernel(&self) -> bool {
        !self.is_user()
    }

    /// The number of the task that owns the object, if one does. Takes the table's lock.
    pub(crate) fn pid(&self) -> Option<kernel::task::Pid> {
        self.with_task(|task| task.map(Task::pid))
    }

    /// Whether readers may find the object at all.
    pub(crate) fn is_tracked(&self) -> bool {
        !self.no_track()
    }

    /// The device of the object, once it has one.
    fn device(&self) -> Option<&Device> {
        match self.kind()? {
            Kind::Pd => device_of::<Pd>(self),
            Kind::Cq => device_of::<Cq>(self),
            Kind::Qp => device_of::<Qp>(self),
            Kind::CmId => CmId::of_entry(self)?.device(),
            Kind::Mr => device_of::<Mr>(self),
            Kind::Ctx => TrackedContext::of_entry(self)?.device(),
            Kind::Counter => device_of::<Counter>(self),
            Kind::Srq => device_of::<Srq>(self),
            Kind::Dmah => TrackedDmah::of_entry(self)?.device(),
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

    /// The table that readers may find the entry in.
    pub(super) fn table_if_added(&self) -> Option<&Table> {
        (self.is_valid() && self.is_tracked())
            .then(|| self.table())
            .flatten()
    }

    /// The table to change for an entry that was added: none for one that is not tracked.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there should be one and is not.
    fn table_of_added(&self) -> Result<Option<&Table>> {
        if !self.is_tracked() {
            return Ok(None);
        }
        self.table().map(Some).ok_or(EINVAL)
    }
}

impl<'a> OwnerRef<'a> {
    /// Puts the object where readers find it, by an id: of queue pairs and counters it is their
    /// number, of others the next in turn. If there is no room for it, the object works all the
    /// same, unseen. May sleep.
    pub(crate) fn add(&mut self) {
        if self.is_tracked() {
            let added = match self.kind() {
                Some(Kind::Qp) => self.add_qp(),
                Some(Kind::Counter) => Counter::of_entry(self)
                    .map(Counter::id)
                    .ok_or(EINVAL)
                    .and_then(|id| self.add_as(id, false)),
                _ => self.add_next(),
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

    /// Hides the object, keeps its id, and waits for the last reader, because the driver is about
    /// to be asked to destroy it. May sleep.
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

    /// Reverses [`begin_del`](Self::begin_del): the driver refused.
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

    /// Takes the object out of the table and waits for the last reader. May sleep.
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

    /// Makes every reader see the object as it is now. The object is hidden for a moment. May
    /// sleep.
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

    /// Says who made the object: a part of the kernel, or else the current process. An object
    /// that belongs to a process remains that process's.
    pub(crate) fn set_name(&mut self, caller: Option<&'static CStr>) {
        match caller {
            Some(name) => self.set_kern_name(name),
            None => {
                let current: &Task = kernel::current!();
                self.set_task(ARef::from(current));
            }
        }
    }

    /// Gives the object to the owner of another.
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
    /// Who owns the object, as the current process may see it. Takes the table's lock.
    pub(crate) fn owner(&self) -> Shown<&'static CStr> {
        self.shown()
    }
}
