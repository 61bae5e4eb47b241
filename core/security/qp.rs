// SPDX-License-Identifier: GPL-2.0

//! Queue pairs and the partitions that they may use.
//!
//! A queue pair on a device with an InfiniBand port has a [`Secured`], which is referenced by its
//! field `qp_sec`, private to the core, and by the list of its device. QP0 and QP1 have none: their
//! agents are checked instead.
//!
//! The users of a queue pair are its creator and, if it is shared (XRC), the owner of each handle.
//! It may use a partition if all of its users may.

use super::edge;
use super::edge::Living;
use super::token::Token;
use crate::cache;
use crate::device::port::Protocol;
use crate::device::Device;
use crate::object::tables::Qp;
use crate::object::tables::QpAttr;
use crate::object::Doomed;
use crate::object::Object;
use crate::proto::qp::Attrs;
use crate::proto::security as rules;
use crate::proto::security::Change;
use crate::proto::security::Numbers;
use crate::proto::security::Partition;
use crate::proto::security::Place;
use crate::proto::security::Standing;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use rdma::accounted;
use rdma::bindings;
use rdma::edge::Alone;
use rdma::edge::View;
use rdma::edge::Writer;

/// The checked queue pairs of a device.
#[pin_data]
pub(crate) struct Qps {
    #[pin]
    list: Mutex<List>,
}

struct List {
    numbers: Numbers,
    by_number: RBTree<u64, Arc<Secured>>,
}

impl crate::device::PerDevice for Qps {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            list <- kernel::new_mutex!(List {
                numbers: Numbers::default(),
                by_number: RBTree::new(),
            }, "Qps::list"),
        })
    }
}

impl Qps {
    /// Returns the first queue pair whose number is `number` or greater.
    fn at_or_after(&self, number: u64) -> Option<(u64, Arc<Secured>)> {
        let list = self.list.lock();
        let cursor = list.by_number.cursor_lower_bound(&number)?;
        let (number, secured) = cursor.current();
        Some((*number, secured.clone()))
    }
}

/// Security state of a queue pair.
#[pin_data]
pub(super) struct Secured {
    number: u64,
    #[pin]
    inner: Mutex<Inner>,
}

struct Inner {
    /// Moves the queue pair to the error state.
    fail: fn(&Qp),
    /// None before the queue pair is created, and while it is being destroyed.
    qp: Option<Living>,
    standing: Standing,
    users: KVec<User>,
}

/// A user of a queue pair: its creator, or the owner of a handle.
struct User {
    /// Address of the queue pair or of the handle.
    qp: usize,
    token: Token,
}

impl Inner {
    /// Checks whether all users may use a partition.
    fn ask(&self, partition: Partition) -> Result {
        self.users
            .iter()
            .try_for_each(|user| user.token.may_use(partition))
    }

    /// Marks the queue pair as being destroyed, before the driver is called.
    fn leave(&mut self) -> Option<Living> {
        self.standing.leave();
        self.qp.take()
    }

    /// Moves the queue pair to the error state and raises an event, unless it is being destroyed.
    fn stop(&self) {
        let Some(qp) = &self.qp else { return };
        (self.fail)(qp);
        // On a shared queue pair, the event is delivered to all handles.
        qp.raise(bindings::ib_event_type_IB_EVENT_QP_FATAL);
    }
}

/// Reads the partition at a position.
fn look(device: &Device, place: Place) -> Result<Partition> {
    cache::partition(device, place)
}

/// Address that identifies a user.
fn address(qp: &Qp) -> usize {
    qp.raw().addr()
}

impl Secured {
    /// Checks the queue pair again after a change on a port or of the policy. May sleep.
    fn judge_again(&self, device: &Device, port: u32) {
        let inner = self.inner.lock();
        if inner.standing.is_leaving() {
            return;
        }
        let places = inner.standing.places();
        if rules::lost(places, port, |place| look(device, place), |p| inner.ask(p)) {
            inner.stop();
        }
    }

    /// Reverses `leave` after the driver has refused to destroy the queue pair. May sleep.
    fn stay(&self, device: &Device, qp: Option<Living>) {
        let mut inner = self.inner.lock();
        inner.standing.stay();
        inner.qp = qp;
        let places = inner.standing.places();
        if rules::admit(places, |place| look(device, place), |p| inner.ask(p)).is_err() {
            inner.stop();
        }
    }
}

/// A queue pair that is being created. If it is dropped before [`publish`](Self::publish), nothing
/// is left behind.
pub(crate) struct Prepared<'a>(Option<Pending<'a>>);

struct Pending<'a> {
    secured: Arc<Secured>,
    qps: &'a Qps,
    node: RBTreeNodeReservation<u64, Arc<Secured>>,
}

/// Prepares the security state of a queue pair that the current process creates. `fail` must move a
/// queue pair to the error state; it is called if the partition is forbidden later. May sleep.
///
/// # Errors
///
/// `ENOMEM`, and those of the security module.
pub(crate) fn prepare<'d>(device: &'d Device, qp: &Qp, fail: fn(&Qp)) -> Result<Prepared<'d>> {
    let qp_type = qp.qp_type();
    let is_special = matches!(
        qp_type,
        bindings::ib_qp_type_IB_QPT_SMI | bindings::ib_qp_type_IB_QPT_GSI
    ) || qp_type >= bindings::ib_qp_type_IB_QPT_RESERVED1;
    let mut ports = device.ports();
    if is_special || !ports.any(|port| device.port_speaks(port, Protocol::Ib)) {
        return Ok(Prepared(None));
    }
    let mut users = KVec::with_capacity(1, accounted::GFP)?;
    let token = Token::new()?;
    let qp = address(qp);
    users.push(User { qp, token }, accounted::GFP)?;
    let node = RBTreeNodeReservation::new(accounted::GFP)?;
    let qps = device.slot::<Qps>();
    let number = qps.list.lock().numbers.take();
    let inner = Inner {
        fail,
        qp: None,
        standing: Standing::default(),
        users,
    };
    let secured = Arc::pin_init(
        pin_init!(Secured {
            number,
            inner <- kernel::new_mutex!(inner, "Secured::inner"),
        }),
        accounted::GFP,
    )?;
    Ok(Prepared(Some(Pending { secured, qps, node })))
}

impl Prepared<'_> {
    /// Publishes the security state, after the driver has created the queue pair and before it is
    /// shared. May sleep.
    pub(crate) fn publish(self, qp: &mut impl Writer<Of = Qp>) {
        let Some(Pending { secured, qps, node }) = self.0 else {
            return;
        };
        let living = edge::put(qp, secured.clone());
        secured.inner.lock().qp = living;
        let node = node.into_node(secured.number, secured);
        let _none = qps.list.lock().by_number.insert(node);
    }
}

/// Calls `ask` to modify a queue pair, if it may use the positions that it gets. May sleep.
///
/// # Errors
///
/// `EACCES`, and others of the security module; `EINVAL` if there is no such position; those of
/// `ask`.
pub(crate) fn modify(qp: &Qp, attr: &QpAttr, mask: Attrs, ask: impl FnOnce() -> Result) -> Result {
    let alternate = Place {
        port: attr.alt_port_num(),
        index: attr.alt_pkey_index(),
    };
    let change = Change::new(mask, attr.port_num(), attr.pkey_index(), alternate);
    let Some(change) = change else {
        return ask();
    };
    let Some(secured) = edge::of(qp) else {
        return ask();
    };
    let device = qp.device();
    let mut inner = secured.inner.lock();
    let places = inner.standing.places().after(change);
    rules::admit(&places, |place| look(device, place), |p| inner.ask(p))?;
    ask()?;
    inner.standing.moved(places);
    Ok(())
}

/// Calls `ask` to destroy a queue pair. May sleep.
///
/// # Errors
///
/// Those of `ask`. The queue pair then stays in use, unless it has lost its rights in the meantime.
pub(crate) fn destroy(qp: &Doomed<'_, Qp>, ask: impl FnOnce() -> Result) -> Result {
    let Some(secured) = edge::of(qp) else {
        return ask();
    };
    let device = qp.device();
    let living = secured.inner.lock().leave();
    if let Err(error) = ask() {
        secured.stay(device, living);
        return Err(error);
    }
    let list = &device.slot::<Qps>().list;
    let _listed = list.lock().by_number.remove(&secured.number);
    drop(edge::take(qp));
    Ok(())
}

/// Adds the current process, which opens a handle to a queue pair, to the users of the queue pair.
/// May sleep.
///
/// # Errors
///
/// `EACCES`, and others of the security module; `ENOMEM`.
///
/// [`close`] must be called before `handle` is freed, since its address identifies the user.
pub(crate) fn open(real: &Qp, handle: &Qp) -> Result {
    let Some(secured) = edge::of(real) else {
        return Ok(());
    };
    let device = real.device();
    let token = Token::new()?;
    let mut inner = secured.inner.lock();
    let places = inner.standing.places();
    rules::admit(places, |place| look(device, place), |p| token.may_use(p))?;
    let qp = address(handle);
    inner.users.push(User { qp, token }, accounted::GFP)?;
    Ok(())
}

/// Undoes [`open`]. May sleep.
pub(crate) fn close(real: &Qp, handle: &Qp) {
    if let Some(secured) = edge::of(real) {
        let handle = address(handle);
        rdma::kvec::retain(&mut secured.inner.lock().users, |user| user.qp != handle);
    }
}

/// Checks all queue pairs again after a change of a port's P_Keys or subnet prefix, or of the
/// policy, and stops those that have lost their rights. May sleep.
pub(crate) fn port_changed(device: &Device, port: u32) {
    let qps = device.slot::<Qps>();
    let mut walk = qps.list.lock().numbers.walk();
    while let Some((number, secured)) = qps.at_or_after(walk.next()) {
        if !walk.step(number) {
            return;
        }
        secured.judge_again(device, port);
    }
}

/// Adds security state to a queue pair that has none. `fail` as for [`prepare`]. May sleep.
///
/// # Errors
///
/// Those of [`prepare`].
pub(crate) fn secure(mut qp: Alone<'_, Qp>, device: &Device, fail: fn(&Qp)) -> Result {
    if edge::of(&qp).is_none() {
        prepare(device, &qp, fail)?.publish(&mut qp);
    }
    Ok(())
}
