// SPDX-License-Identifier: GPL-2.0

//! Objects that are tracked: their ids, owners, and the time that they are seen.
//!
//! Every object of a device is in a table of its kind, by an id that `rdma res`
//! shows. The table's reader takes a reference for the time it reads, and the
//! object is not freed before. Numbers are those of `enum rdma_restrack_type`
//! (`include/rdma/restrack.h`).

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Protection domain.
    Pd,
    /// Completion queue.
    Cq,
    /// Queue pair.
    Qp,
    /// Connection manager's id.
    CmId,
    /// Memory region.
    Mr,
    /// User's context.
    Ctx,
    /// Counter of queue pairs.
    Counter,
    /// Shared receive queue.
    Srq,
    /// DMA handle.
    Dmah,
}

impl Kind {
    /// Every kind, in the order of its number.
    pub const ALL: [Kind; 9] = [
        Kind::Pd,
        Kind::Cq,
        Kind::Qp,
        Kind::CmId,
        Kind::Mr,
        Kind::Ctx,
        Kind::Counter,
        Kind::Srq,
        Kind::Dmah,
    ];

    /// Its name in the summary of `rdma res`; some are not in there.
    pub const fn summary_name(self) -> Option<&'static str> {
        match self {
            Self::Pd => Some("pd"),
            Self::Cq => Some("cq"),
            Self::Qp => Some("qp"),
            Self::CmId => Some("cm_id"),
            Self::Mr => Some("mr"),
            Self::Ctx => Some("ctx"),
            Self::Srq => Some("srq"),
            Self::Counter | Self::Dmah => None,
        }
    }
}

/// The id of a queue pair: its number. The two special ones of each port share
/// numbers with the other ports', and carry the port in the high byte.
///
/// None, if the driver gave a number of more than 24 bits, or a port of more than 8.
/// Such a queue pair cannot be tracked.
pub fn qp_id(qpn: u32, port: u32, is_special: bool) -> Option<u32> {
    let port = u8::try_from(port).ok()?;
    if qpn >> 24 != 0 {
        return None;
    }
    Some(if is_special {
        qpn | u32::from(port) << 24
    } else {
        qpn
    })
}

/// Gives ids in turn, so that one is not used again soon after its object went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cyclic {
    next: u32,
}

impl Cyclic {
    /// One that starts with this id.
    pub const fn starting_at(next: u32) -> Self {
        Self { next }
    }

    /// Takes the next id of a range. `lowest_free` answers the lowest id that is
    /// free from one to another, both included; it is asked twice at most.
    ///
    /// None, if the range is full.
    pub fn take(
        &mut self,
        range: core::ops::RangeInclusive<u32>,
        mut lowest_free: impl FnMut(u32, u32) -> Option<u32>,
    ) -> Option<u32> {
        let (first, last) = (*range.start(), *range.end());
        let from = self.next.max(first);
        let ahead = if from <= last {
            lowest_free(from, last)
        } else {
            None
        };
        let id = match ahead {
            Some(id) => id,
            None if from > first => lowest_free(first, last)?,
            None => return None,
        };
        self.next = id.wrapping_add(1);
        Some(id)
    }
}

/// Who owns an object. `N` is the name of a part of the kernel, `T` a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<N, T> {
    /// The kernel; the part of it that made the object has a name, unless nobody
    /// has said it yet.
    Kernel(Option<N>),
    /// A user's process.
    User(T),
}

impl<N: Clone, T: Clone> Owner<N, T> {
    /// Nobody has said yet.
    pub const UNKNOWN: Owner<N, T> = Owner::Kernel(None);

    /// The owner of an object after somebody made it in the name of `caller`, or
    /// else of the present task. What belongs to a user stays the user's, though
    /// the kernel handles it: only another task takes it over.
    #[must_use]
    pub fn named(self, caller: Option<N>, current: T) -> Self {
        match (caller, self) {
            (None, _) => Owner::User(current),
            (Some(_), Owner::User(task)) => Owner::User(task),
            (Some(name), Owner::Kernel(_)) => Owner::Kernel(Some(name)),
        }
    }

    /// Of an object that belongs to another: the other's owner.
    #[must_use]
    pub fn of_parent(self, parent: &Self) -> Self {
        match (parent, self) {
            (Owner::User(task), _) => Owner::User(task.clone()),
            (Owner::Kernel(_), Owner::User(task)) => Owner::User(task),
            (Owner::Kernel(name), Owner::Kernel(_)) => Owner::Kernel(name.clone()),
        }
    }

    /// Whether the kernel owns it.
    pub const fn is_kernel(&self) -> bool {
        matches!(self, Owner::Kernel(_))
    }
}

/// What a dump says of the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown<N> {
    /// The name of a part of the kernel.
    KernelName(N),
    /// The process, as the reader's pid namespace numbers it.
    Pid(u32),
    /// Nothing: the process has gone, or the reader's namespace does not have it.
    Nothing,
}

impl<N: Clone, T> Owner<N, T> {
    /// What a reader is shown. `pid` numbers a task in the reader's namespace; zero
    /// means that it has no number there.
    pub fn shown(&self, pid: impl FnOnce(&T) -> u32) -> Shown<N> {
        match self {
            Owner::Kernel(Some(name)) => Shown::KernelName(name.clone()),
            Owner::Kernel(None) => Shown::Nothing,
            Owner::User(task) => match pid(task) {
                0 => Shown::Nothing,
                pid => Shown::Pid(pid),
            },
        }
    }
}

/// Whether an object is in a list, or counted in the summary: those that only the
/// driver knows (queue pairs of its own types) if the reader wants details.
pub const fn is_listed(is_drivers_own: bool, details: bool) -> bool {
    details || !is_drivers_own
}

/// Where an object is in its life as a tracked one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It is not in the table, and was not added.
    New,
    /// It was added, and readers find it by its id.
    Seen(u32),
    /// It was added, and is not for readers ([`Step::AddUnseen`]), or found no id.
    Unseen,
    /// It is about to be destroyed; its id is kept for it, and nobody finds it.
    Leaving(u32),
    /// The same without an id.
    LeavingUnseen,
    /// It is out of the table for good.
    Gone,
}

/// What is done with a tracked object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into the table, under this id.
    Add(u32),
    /// As before, for an object that is not shown or that found its id taken.
    AddUnseen,
    /// Out of sight, because the driver is asked to destroy it.
    BeginDel,
    /// The driver refused: as if nothing had been.
    AbortDel,
    /// The driver has destroyed it.
    CommitDel,
    /// Out of the table at once.
    Del,
}

/// What the host does for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Put the object into the table.
    Publish(u32),
    /// Keep the id, hide the object, and wait until the last reader has let go.
    HideAndWait(u32),
    /// Wait until the last reader has let go.
    Wait,
    /// Free the id.
    Release(u32),
    /// Free the id, and wait until the last reader has let go.
    ReleaseAndWait(u32),
}

impl Life {
    /// The one place where an object's life goes on. A step that does not fit its
    /// state changes nothing: objects that were never added are destroyed by the
    /// same calls as others.
    #[must_use]
    pub fn step(self, step: Step) -> (Life, Effect) {
        match (self, step) {
            (Life::New, Step::Add(id)) => (Life::Seen(id), Effect::Publish(id)),
            (Life::New, Step::AddUnseen) => (Life::Unseen, Effect::Nothing),
            (Life::Seen(id), Step::BeginDel) => (Life::Leaving(id), Effect::HideAndWait(id)),
            (Life::Unseen, Step::BeginDel) => (Life::LeavingUnseen, Effect::Wait),
            (Life::Leaving(id), Step::AbortDel) => (Life::Seen(id), Effect::Publish(id)),
            (Life::LeavingUnseen, Step::AbortDel) => (Life::Unseen, Effect::Nothing),
            (Life::Leaving(id), Step::CommitDel) => (Life::Gone, Effect::Release(id)),
            (Life::Seen(id), Step::Del) => (Life::Gone, Effect::ReleaseAndWait(id)),
            (Life::Unseen, Step::Del) => (Life::Gone, Effect::Wait),
            (Life::LeavingUnseen, Step::CommitDel) => (Life::Gone, Effect::Nothing),
            (
                Life::New
                | Life::Seen(_)
                | Life::Unseen
                | Life::Leaving(_)
                | Life::LeavingUnseen
                | Life::Gone,
                Step::Add(_)
                | Step::AddUnseen
                | Step::BeginDel
                | Step::AbortDel
                | Step::CommitDel
                | Step::Del,
            ) => (self, Effect::Nothing),
        }
    }
}
