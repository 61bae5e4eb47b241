// SPDX-License-Identifier: GPL-2.0

//! Multicast groups on a port, and their members.
//!
//! A port's lock guards its groups and their members. [`crate::proto::sa::group`] decides the next
//! step of a group. The group's work performs it: it calls members and queries the SA with no lock
//! held. All groups share one ordered workqueue.
//!
//! A member is in an `Arc`. The owner of the membership has a pointer to the embedded C structure
//! and holds one reference. The member is in one of the two lists of its group, or in none once the
//! join has failed or the membership is lost. The work enters the member's gate under the lock
//! before it calls the owner, so freeing the member waits for the call.

use kernel::alloc::Flags;
use kernel::ffi::c_int;
use kernel::impl_has_work;
use kernel::new_work;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNode;
use kernel::sync::aref::ARef;
use kernel::sync::Arc;
use kernel::workqueue::Work;
use kernel::workqueue::WorkItem;
use rdma::bindings;
use rdma::gate::Gate;
use rdma::gate::OwnedPass;
use rdma::sync::Key;
use rdma::sync::KeyId;
use rdma::sync::Keyed;
use rdma::sync::SpinLockIrq;

use super::answer::Kind;
use super::edge::member::Freed;
use super::edge::member::Inside;
use super::edge::member::JoinDone;
use super::edge::member::Joined;
use super::edge::member::Multicast;
use super::edge::member::Owner;
use super::edge::user::Callback;
use super::edge::user::User;
use super::query::Query;
use super::query::QueryAttr;
use crate::device::Device;
use crate::proto::gid::Gid;
use crate::proto::sa::datagram::Attribute;
use crate::proto::sa::datagram::Fabric;
use crate::proto::sa::datagram::Method;
use crate::proto::sa::group;
use crate::proto::sa::group::Request;
use crate::proto::sa::group::Step;
use crate::proto::sa::group::Ticket;
use crate::proto::sa::group::Trouble;
use crate::proto::sa::member::component;
use crate::proto::sa::member::JoinState;
use crate::proto::sa::member::Member as Record;
use rdma::errno::eaddrnotavail;
use rdma::errno::enetreset;

/// Timeout of a query to the SA, in milliseconds.
const TIMEOUT: u64 = 3_000;

/// Data guarded by a port's lock.
pub(super) struct Groups {
    /// Key to the data of groups and members that this lock guards.
    key: Key,
    /// Last number given to a group or member.
    next: u64,
    /// Groups by MGID, then by number, since several groups may not have an MGID yet.
    by_gid: RBTree<(Gid, u64), Arc<Group>>,
}

impl Groups {
    fn number(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    fn find(&self, mgid: Gid) -> Option<&Arc<Group>> {
        let cursor = self.by_gid.cursor_lower_bound(&(mgid, 0))?;
        let ((gid, _), group) = cursor.current();
        // The tree is borrowed for longer than the cursor.
        if *gid == mgid {
            self.by_gid.get(&(mgid, group.number))
        } else {
            None
        }
    }
}

/// A port with groups.
#[pin_data]
pub(super) struct Port {
    /// Keeps the device's memory. The device is registered until [`close`](Self::close) returns.
    device: ARef<Device>,
    number: u32,
    /// Entered by each group.
    #[pin]
    gate: Gate,
    key: KeyId,
    #[pin]
    groups: SpinLockIrq<Groups>,
}

/// The list of its group that a member is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Waiting,
    Joined(JoinState),
    None,
}

/// Response of the SA.
enum Answer {
    Joined(Record),
    NotJoined(Error),
    Left(bool),
}

/// Data of a group that the port's lock guards.
struct Inner {
    engine: group::Group,
    /// MGID under which the group is in the tree.
    key: Gid,
    waiting: RBTree<u64, Arc<Member>>,
    joined: RBTree<u64, Arc<Member>>,
    /// Number of members that have not been freed.
    members: usize,
    /// Response of the SA that the work has not processed yet.
    answer: Option<Answer>,
}

/// A group.
#[pin_data]
pub(super) struct Group {
    port: OwnedPass<Port>,
    number: u64,
    inner: Keyed<Inner>,
    #[pin]
    work: Work<Self>,
}

impl_has_work! {
    impl HasWork<Self> for Group { self.work }
}

/// A member.
#[pin_data]
pub(super) struct Member {
    /// The part that the owner sees. The record is written under the port's lock, before the
    /// owner's callback is called.
    #[pin]
    pub(super) c: Multicast,
    number: u64,
    group: Arc<Group>,
    asked: Record,
    mask: u64,
    list: Keyed<List>,
    #[pin]
    pub(super) gate: Gate,
    pub(super) owner: Owner,
    _user: User,
}

/// Parameters of a join.
pub(super) struct Wish {
    pub(super) asked: Record,
    pub(super) mask: u64,
    pub(super) done: Callback<JoinDone>,
}

impl Port {
    /// Creates a port without groups. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(device: &Device, number: u32) -> Result<Arc<Self>> {
        let made = Key::new();
        Arc::pin_init(
            pin_init!(Self {
                device: device.hold(),
                number,
                gate <- Gate::new(),
                key: made.id(),
                groups <- rdma::new_spinlock_irq!(Groups {
                    key: made,
                    next: 0,
                    by_gid: RBTree::new(),
                }, "McastPort::groups"),
            }),
            GFP_KERNEL,
        )
    }

    /// Port number.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Waits until all groups have been freed. May sleep.
    pub(super) fn close(&self) {
        self.gate.close_and_wait();
    }

    /// Handles an event on the port. Does not sleep.
    pub(super) fn disturbed(&self, trouble: Trouble) {
        let mut groups = self.groups.lock();
        let mut from = Some((Gid([0; 16]), 0));
        while let Some(key) = from {
            let next = groups.by_gid.cursor_lower_bound(&key).map(|cursor| {
                let ((gid, number), group) = cursor.current();
                ((*gid, number.saturating_add(1)), group.clone())
            });
            from = next.map(|(key, group)| {
                let inner = group.inner.access_mut(&mut groups.key);
                if inner.is_some_and(|inner| inner.engine.disturbed(trouble)) {
                    group.enqueue();
                }
                key
            });
        }
    }

    /// Returns the record of a group. Any context.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` if there is no such group.
    pub(super) fn record(&self, mgid: Gid) -> Result<Record> {
        let mut groups = self.groups.lock();
        let group = groups.find(mgid).cloned().ok_or_else(eaddrnotavail)?;
        let inner = group.inner.access_mut(&mut groups.key);
        let record = inner.map(|inner| *inner.engine.record());
        drop(groups);
        record.ok_or_else(eaddrnotavail)
    }

    /// Finds or creates a group, and counts one more member. May sleep as `flags` permit.
    fn group(this: &Arc<Self>, mgid: Gid, flags: Flags) -> Result<Arc<Group>> {
        // Requests without an MGID do not share a group.
        let shared = mgid != Gid::default();
        let count = |group: &Arc<Group>, groups: &mut Groups| -> Result {
            let inner = group.inner.access_mut(&mut groups.key).ok_or(EINVAL)?;
            inner.members = inner.members.saturating_add(1);
            Ok(())
        };
        if shared {
            let mut groups = this.groups.lock();
            if let Some(group) = groups.find(mgid).cloned() {
                count(&group, &mut groups)?;
                return Ok(group);
            }
        }
        let pass = OwnedPass::try_enter(this.clone(), |port| &port.gate).ok_or(ENODEV)?;
        let number = this.groups.lock().number();
        let inner = Inner {
            engine: group::Group::new(mgid),
            key: mgid,
            waiting: RBTree::new(),
            joined: RBTree::new(),
            members: 1,
            answer: None,
        };
        let new = Arc::pin_init(
            pin_init!(Group {
                port: pass,
                number,
                inner: Keyed::new(this.key, inner),
                work <- new_work!("McastGroup::work"),
            }),
            flags,
        )?;
        let node = RBTreeNode::new((mgid, number), new.clone(), flags)?;
        let mut groups = this.groups.lock();
        if shared {
            if let Some(group) = groups.find(mgid).cloned() {
                let counted = count(&group, &mut groups);
                drop(groups);
                return counted.map(|()| group);
            }
        }
        groups.by_gid.insert(node);
        Ok(new)
    }

    /// Requests a membership. A worker calls the owner's callback, possibly before this returns.
    /// May sleep as `flags` permit.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the port is being removed; `ENOMEM`.
    pub(super) fn join(this: &Arc<Self>, wish: Wish, user: User, flags: Flags) -> Result<Joined> {
        let Wish { asked, mask, done } = wish;
        let number = this.groups.lock().number();
        let place = RBTreeNode::<u64, Arc<Member>>::new;
        let group = Self::group(this, asked.mgid, flags)?;
        let c = Multicast::new(&asked, mask, done);
        let kept = group.clone();
        let made = Arc::pin_init(
            pin_init!(Member {
                c,
                number,
                group: kept,
                asked,
                mask,
                list: Keyed::new(this.key, List::Waiting),
                gate <- Gate::new(),
                owner: Owner::new(),
                _user: user,
            }),
            flags,
        );
        let made = made.and_then(|member| Ok((place(number, member.clone(), flags)?, member)));
        let (place, member) = match made {
            Ok(made) => made,
            Err(error) => {
                group.forget_member();
                return Err(error);
            }
        };
        let mut groups = this.groups.lock();
        let inner = group.inner.access_mut(&mut groups.key).ok_or(EINVAL)?;
        // The owner may free the member as soon as its callback is called.
        let joined = Joined::new(member);
        inner.waiting.insert(place);
        if inner.engine.came() {
            group.enqueue();
        }
        Ok(joined)
    }
}

impl Member {
    /// Ends the membership and waits for a running callback. May sleep.
    pub(super) fn free(this: Arc<Self>) {
        let group = &this.group;
        let mut groups = group.port.groups.lock();
        let list = this.take_list(&mut groups);
        let node = group.inner.access_mut(&mut groups.key).and_then(|inner| {
            let (node, joined) = match list {
                List::Waiting => (inner.waiting.remove_node(&this.number), None),
                List::Joined(kinds) => (inner.joined.remove_node(&this.number), Some(kinds)),
                List::None => (None, None),
            };
            inner.members = inner.members.saturating_sub(1);
            if inner.engine.gone(joined) {
                group.enqueue();
            }
            node
        });
        drop(groups);
        drop(node);
        this.gate.close_and_wait();
    }

    /// Calls the owner's callback, inside the member's gate, and frees the member if the callback
    /// asks for it.
    fn tell(inside: Inside, status: c_int) {
        if let Some(Freed(member)) = inside.tell(status) {
            Self::free(member);
        }
    }

    /// Returns the list that the member is in and marks the member as in none. The port's lock is
    /// held.
    fn take_list(&self, groups: &mut Groups) -> List {
        let list = self.list.access_mut(&mut groups.key);
        list.map_or(List::None, |list| core::mem::replace(list, List::None))
    }
}

/// A task that the work performs with no lock held.
enum Todo {
    /// Call a member's callback with this status.
    Tell(Inside, c_int),
    /// Look up the index of this P_Key.
    FindPartition(u16),
    /// Look up the P_Key index of the record that the SA returned, and update the group.
    FindJoined(Record),
    /// Send a query to the SA.
    Query(Method, Record, u64),
    /// Return; the group runs again when it is woken.
    Go,
    /// Determine the next task again.
    Again,
}

impl Todo {
    /// Calls back a member that is in a list or was just removed from one under the lock, so its
    /// gate is still open.
    fn tell(member: &Arc<Member>, status: c_int) -> Self {
        match Inside::enter(member) {
            Some(inside) => Self::Tell(inside, status),
            None => Self::Again,
        }
    }

    fn leave(record: Record) -> Self {
        let mask = component::MGID | component::PORT_GID | component::JOIN_STATE;
        Self::Query(Method::Delete, record, mask)
    }
}

impl Group {
    /// Queues the work. Any context.
    fn enqueue(self: &Arc<Self>) {
        if let Some(queue) = super::queue() {
            let _ = queue.enqueue::<Arc<Self>, 0>(self.clone());
        }
    }

    /// Handles the SA's response to a join.
    pub(super) fn joined(self: &Arc<Self>, answer: Result<Record>) {
        self.answered(match answer {
            Ok(record) => Answer::Joined(record),
            Err(error) => Answer::NotJoined(error),
        });
    }

    /// Handles the result of a leave; `answered` says whether the SA responded.
    pub(super) fn left(self: &Arc<Self>, answered: bool) {
        // Leaves are not retried on a port that is being closed.
        self.answered(Answer::Left(answered || self.port.gate.is_closed()));
    }

    fn answered(self: &Arc<Self>, answer: Answer) {
        let mut groups = self.port.groups.lock();
        if let Some(inner) = self.inner.access_mut(&mut groups.key) {
            inner.answer = Some(answer);
        }
        drop(groups);
        self.enqueue();
    }

    /// Uncounts a member that could not be created.
    fn forget_member(self: &Arc<Self>) {
        let mut groups = self.port.groups.lock();
        if let Some(inner) = self.inner.access_mut(&mut groups.key) {
            inner.members = inner.members.saturating_sub(1);
            if inner.engine.gone(None) {
                self.enqueue();
            }
        }
    }

    /// Removes the first waiting member, to report `status` to it.
    fn pop_waiting(groups: &mut Groups, this: &Self, status: c_int) -> Todo {
        let Some(inner) = this.inner.access_mut(&mut groups.key) else {
            return Todo::Go;
        };
        let Some(cursor) = inner.waiting.cursor_front_mut() else {
            return Todo::Again;
        };
        let (_, node) = cursor.remove_current();
        let (_, member) = node.to_key_value();
        let _: List = member.take_list(groups);
        Todo::tell(&member, status)
    }

    /// Processes the SA's response. Returns `None` if there is none.
    fn use_answer(groups: &mut Groups, this: &Self) -> Option<Todo> {
        let inner = this.inner.access_mut(&mut groups.key)?;
        Some(match inner.answer.take()? {
            Answer::Joined(record) => Todo::FindJoined(record),
            Answer::NotJoined(error) => {
                let whom = inner.engine.refused();
                let first = inner.waiting.cursor_front().map(|c| *c.current().0);
                if whom.is_some() && whom == first.map(Ticket) {
                    Self::pop_waiting(groups, this, error.to_errno())
                } else {
                    Todo::Again
                }
            }
            Answer::Left(answered) => match inner.engine.left(answered) {
                Some(record) => Todo::leave(record),
                None => Todo::Again,
            },
        })
    }

    /// Selects the next task.
    fn next(&self) -> Todo {
        let mut groups = self.port.groups.lock();
        if let Some(todo) = Self::use_answer(&mut groups, self) {
            return todo;
        }
        let Some(inner) = self.inner.access_mut(&mut groups.key) else {
            return Todo::Go;
        };
        if !inner.engine.is_running() {
            return Todo::Go;
        }
        let first = inner.waiting.cursor_front().map(|c| c.current().1.clone());
        let request = first.as_ref().map(|member| Request {
            ticket: Ticket(member.number),
            asked: &member.asked,
            mask: member.mask,
        });
        match inner.engine.next(request, !inner.joined.is_empty()) {
            Step::FindPartition(pkey) => Todo::FindPartition(pkey),
            Step::Lose => {
                let Some(cursor) = inner.joined.cursor_front_mut() else {
                    return Todo::Again;
                };
                let (_, node) = cursor.remove_current();
                let (_, member) = node.to_key_value();
                if let List::Joined(kinds) = member.take_list(&mut groups) {
                    if let Some(inner) = self.inner.access_mut(&mut groups.key) {
                        inner.engine.lost(kinds);
                    }
                }
                Todo::tell(&member, enetreset().to_errno())
            }
            Step::Admit(record) => {
                let Some(cursor) = inner.waiting.cursor_front_mut() else {
                    return Todo::Again;
                };
                let (_, node) = cursor.remove_current();
                inner.joined.insert(node);
                let Some(member) = first else {
                    return Todo::Again;
                };
                if let Some(list) = member.list.access_mut(&mut groups.key) {
                    *list = List::Joined(record.join_state);
                }
                member.c.set_record(&record, &mut groups);
                Todo::tell(&member, 0)
            }
            Step::Refuse => Self::pop_waiting(&mut groups, self, EINVAL.to_errno()),
            Step::Join => match first {
                Some(member) => Todo::Query(Method::Set, member.asked, member.mask),
                None => Todo::Again,
            },
            Step::Leave(record) => Todo::leave(record),
            Step::Rest if inner.members == 0 => {
                let key = (inner.key, self.number);
                // Not the last reference: the running work holds another.
                drop(groups.by_gid.remove(&key));
                Todo::Go
            }
            Step::Rest => Todo::Go,
        }
    }

    /// Adopts the record that the SA returned for the group.
    fn is_now(self: &Arc<Self>, record: Record, partition: Option<u16>) {
        let mut groups = self.port.groups.lock();
        let Some(inner) = self.inner.access_mut(&mut groups.key) else {
            return;
        };
        if !inner.engine.joined(record, partition) {
            return;
        }
        let old = (inner.key, self.number);
        inner.key = record.mgid;
        let node = groups
            .by_gid
            .remove_node(&old)
            .map(RBTreeNode::into_reservation);
        if let Some(place) = node {
            let key = (record.mgid, self.number);
            groups.by_gid.insert(place.into_node(key, self.clone()));
        }
    }

    /// Records that a query could not be sent to the SA.
    fn not_asked(&self, method: Method, error: Error) {
        let mut groups = self.port.groups.lock();
        if let Some(inner) = self.inner.access_mut(&mut groups.key) {
            inner.answer = Some(match method {
                Method::Delete => Answer::Left(true),
                Method::Set | Method::Get | Method::GetTable => Answer::NotJoined(error),
            });
        }
    }

    fn partition_is(&self, at: Option<u16>) {
        let mut groups = self.port.groups.lock();
        if let Some(inner) = self.inner.access_mut(&mut groups.key) {
            inner.engine.partition_is(at);
        }
    }

    /// Looks up the index of a P_Key. May sleep.
    fn find_partition(&self, pkey: u16) -> Option<u16> {
        // The device is registered as long as the port has groups.
        self.port.device.find_pkey(self.port.number, pkey).ok()
    }

    /// Sends a query to the SA. The group gets the response.
    fn ask(self: &Arc<Self>, method: Method, record: Record, mask: u64) -> Result {
        let port = super::port(&self.port.device, self.port.number)?;
        let attr = QueryAttr {
            fabric: Fabric::Ib,
            method,
            attribute: Attribute::Member,
            mask,
            record,
            timeout_ms: TIMEOUT,
        };
        let kind = match method {
            Method::Delete => Kind::Leave(self.clone()),
            Method::Set | Method::Get | Method::GetTable => Kind::Join(self.clone()),
        };
        let gfp = bindings::GFP_KERNEL;
        let query = Query::new(port, attr, None, kind, gfp)?;
        query.start(gfp).map(|_: c_int| ())
    }
}

impl WorkItem for Group {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        loop {
            match this.next() {
                Todo::Tell(inside, status) => Member::tell(inside, status),
                Todo::FindPartition(pkey) => this.partition_is(this.find_partition(pkey)),
                Todo::FindJoined(record) => {
                    let partition = this.find_partition(record.pkey);
                    this.is_now(record, partition);
                }
                Todo::Query(method, record, mask) => match this.ask(method, record, mask) {
                    Ok(()) => return,
                    Err(error) => this.not_asked(method, error),
                },
                Todo::Go => return,
                Todo::Again => {}
            }
        }
    }
}
