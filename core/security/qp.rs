// SPDX-License-Identifier: GPL-2.0

//! Queue pairs and the partitions that they may use.
//!
//! A queue pair on a device with an InfiniBand port has a [`Secured`], found by the field
//! `qp_sec`, which nobody but the core looks at, and by the list of its device. The
//! management queue pairs have none: there agents are asked about.
//!
//! A queue pair has one user, who made it, and one more for each handle if it is shared
//! (extended reliable connections). It may use a partition if all of them may.

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
use rdma::bindings;
use rdma::edge::Alone;
use rdma::edge::View;
use rdma::edge::Writer;

/// The secured queue pairs of a device.
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
    /// The first whose number is this or above.
    fn at_or_after(&self, number: u64) -> Option<(u64, Arc<Secured>)> {
        let list = self.list.lock();
        let cursor = list.by_number.cursor_lower_bound(&number)?;
        let (number, secured) = cursor.current();
        Some((*number, secured.clone()))
    }
}

/// What is known of a queue pair.
#[pin_data]
pub(super) struct Secured {
    number: u64,
    #[pin]
    inner: Mutex<Inner>,
}

struct Inner {
    /// Moves the queue pair to the error state.
    fail: fn(&Qp),
    /// None before it is made, and when it is being destroyed.
    qp: Option<Living>,
    standing: Standing,
    users: KVec<User>,
}

/// Who uses a queue pair: by itself, or by a handle to it.
struct User {
    /// The address of either.
    qp: usize,
    token: Token,
}

impl Inner {
    /// Whether all users may use a partition.
    fn ask(&self, partition: Partition) -> Result {
        self.users
            .iter()
            .try_for_each(|user| user.token.may_use(partition))
    }

    /// The driver is about to be asked to destroy the queue pair, which nobody touches any more.
    fn leave(&mut self) -> Option<Living> {
        self.standing.leave();
        self.qp.take()
    }

    /// Puts the queue pair into error, and tells its users, unless it is leaving.
    fn stop(&self) {
        let Some(qp) = &self.qp else { return };
        (self.fail)(qp);
        // Of a shared queue pair it tells all who have it open.
        qp.raise(bindings::ib_event_type_IB_EVENT_QP_FATAL);
    }
}

/// What is in a place.
fn look(device: &Device, place: Place) -> Result<Partition> {
    cache::partition(device, place)
}

/// How users are told apart.
fn address(qp: &Qp) -> usize {
    qp.raw().addr()
}

impl Secured {
    /// What is in the places on a port has changed, or who may use it has. May sleep.
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

    /// The driver has not destroyed it. May sleep.
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

/// A queue pair in the making. Dropped before it is [published](Self::publish), it was never
/// there.
pub(crate) struct Prepared<'a>(Option<Pending<'a>>);

struct Pending<'a> {
    secured: Arc<Secured>,
    qps: &'a Qps,
    node: RBTreeNodeReservation<u64, Arc<Secured>>,
}

/// Gets ready for a queue pair that the present process makes. `fail` moves a queue pair to the
/// error state, should its partition be forbidden later. May sleep.
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
    let mut users = KVec::with_capacity(1, GFP_KERNEL)?;
    let token = Token::new()?;
    let qp = address(qp);
    users.push(User { qp, token }, GFP_KERNEL)?;
    let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
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
        GFP_KERNEL,
    )?;
    Ok(Prepared(Some(Pending { secured, qps, node })))
}

impl Prepared<'_> {
    /// The driver has made the queue pair, of which nobody else knows yet. May sleep.
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

/// Has a driver change a queue pair (`ask`), if it may use the places that it gets. May sleep.
///
/// # Errors
///
/// `EACCES`, and others of the security module; `EINVAL` if there is no such place; those of
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

/// Has a driver destroy a queue pair (`ask`). May sleep.
///
/// # Errors
///
/// Those of `ask`; the queue pair is then as before, but that it may have lost its rights.
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

/// The present process gets a handle to a queue pair, and is asked about from now on. May
/// sleep.
///
/// # Errors
///
/// `EACCES`, and others of the security module; `ENOMEM`.
///
/// [`close`] is called before `handle` goes; until then its address is nobody else's.
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
    inner.users.push(User { qp, token }, GFP_KERNEL)?;
    Ok(())
}

/// Undoes [`open`]. May sleep.
pub(crate) fn close(real: &Qp, handle: &Qp) {
    if let Some(secured) = edge::of(real) {
        let handle = address(handle);
        rdma::kvec::retain(&mut secured.inner.lock().users, |user| user.qp != handle);
    }
}

/// The P_Keys or the subnet of a port have changed, or the policy: stops the queue pairs that
/// may not go on. May sleep.
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

/// Secures a queue pair that is not yet. `fail` as for [`prepare`]. May sleep.
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
