// SPDX-License-Identifier: GPL-2.0

//! Queue pairs and the partitions that they may use.
//!
//! A queue pair on a device with an InfiniBand port has a [`Secured`], found by the field
//! `qp_sec`, which nobody but the core looks at, and by the list of its device. The
//! management queue pairs have none: there agents are asked about.
//!
//! A queue pair has one user, who made it, and one more for each handle if it is shared
//! (extended reliable connections). It may use a partition if all of them may.

use super::token::Token;
use crate::cache;
use crate::device::port::Protocol;
use crate::device::Device;
use crate::object::tables::Qp;
use crate::object::tables::QpAttr;
use crate::object::Doomed;
use crate::proto::qp::Attrs;
use crate::proto::security as rules;
use crate::proto::security::Change;
use crate::proto::security::Numbers;
use crate::proto::security::Partition;
use crate::proto::security::Place;
use crate::proto::security::Standing;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::rbtree::RBTreeNodeReservation;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use rdma::bindings;
use rdma::edge::View;

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
struct Secured {
    number: u64,
    qp: NonNull<bindings::ib_qp>,
    /// Lives as long as the queue pair does.
    device: NonNull<Device>,
    #[pin]
    inner: Mutex<Inner>,
}

// SAFETY: Queue pairs and devices belong to no thread; the queue pair is used only while it
// is not leaving, under the lock.
unsafe impl Send for Secured {}
// SAFETY: As above.
unsafe impl Sync for Secured {}

struct Inner {
    standing: Standing,
    users: KVec<User>,
}

/// Who uses a queue pair: by itself, or by a handle to it.
struct User {
    qp: NonNull<bindings::ib_qp>,
    token: Token,
}

// SAFETY: The pointer is only compared.
unsafe impl Send for User {}

impl Inner {
    /// Whether all users may use a partition.
    fn ask(&self, partition: Partition) -> Result {
        self.users
            .iter()
            .try_for_each(|user| user.token.may_use(partition))
    }
}

impl Secured {
    /// That of a queue pair, if it has one.
    ///
    /// # Safety
    ///
    /// For `'a` the queue pair, which is no handle, lives.
    unsafe fn of<'a>(qp: *mut bindings::ib_qp) -> Option<&'a Self> {
        // SAFETY: By this function's duty. `publish` wrote the field before the queue pair was
        // anybody's; `destroy` takes it away.
        unsafe { (*qp).qp_sec.cast::<Self>().as_ref() }
    }

    fn device(&self) -> &Device {
        // SAFETY: Asked only while the queue pair lives, and then the device does.
        unsafe { self.device.as_ref() }
    }

    fn look(&self, place: Place) -> Result<Partition> {
        cache::partition(self.device(), place)
    }

    /// What is in the places on a port has changed, or who may use it has. May sleep.
    fn judge_again(&self, port: u32) {
        let inner = self.inner.lock();
        if inner.standing.is_leaving() {
            return;
        }
        let places = inner.standing.places();
        if rules::lost(places, port, |place| self.look(place), |p| inner.ask(p)) {
            self.stop(&inner);
        }
    }

    /// The driver has not destroyed it. May sleep.
    fn stay(&self) {
        let mut inner = self.inner.lock();
        inner.standing.stay();
        let places = inner.standing.places();
        if rules::admit(places, |place| self.look(place), |p| inner.ask(p)).is_err() {
            self.stop(&inner);
        }
    }

    /// Puts the queue pair into error, and tells its users. It is not leaving, and does not
    /// while the lock is held.
    fn stop(&self, _locked: &Inner) {
        let qp = self.qp.as_ptr();
        let mut attr = bindings::ib_qp_attr {
            qp_state: bindings::ib_qp_state_IB_QPS_ERR,
            ..bindings::ib_qp_attr::default()
        };
        let mask = bindings::ib_qp_attr_mask_IB_QP_STATE as c_int;
        let mut event = bindings::ib_event {
            device: self.device().as_raw(),
            element: bindings::ib_event__bindgen_ty_1 {
                qp: ManuallyDrop::new(qp),
            },
            event: bindings::ib_event_type_IB_EVENT_QP_FATAL,
        };
        // SAFETY: The queue pair lives: its destruction waits for the lock to say that it is
        // leaving. The handler, which may be called in any context, is the one that its driver
        // calls; for a shared queue pair it tells all who have it open.
        unsafe {
            // One that has not begun to work has nothing to be stopped; drivers refuse that.
            let _: c_int = bindings::ib_modify_qp(qp, &mut attr, mask);
            if let Some(handler) = (*qp).event_handler {
                handler(&mut event, (*qp).qp_context);
            }
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

/// Gets ready for a queue pair that the present process makes. May sleep.
///
/// # Errors
///
/// `ENOMEM`, and those of the security module.
pub(crate) fn prepare<'d>(device: &'d Device, qp: &Qp) -> Result<Prepared<'d>> {
    let qp_type = qp.qp_type();
    let qp = NonNull::from(qp).cast();
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
    users.push(User { qp, token }, GFP_KERNEL)?;
    let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
    let qps = device.slot::<Qps>();
    let number = qps.list.lock().numbers.take();
    let inner = Inner {
        standing: Standing::default(),
        users,
    };
    let secured = Arc::pin_init(
        pin_init!(Secured {
            number,
            qp,
            device: NonNull::from(device),
            inner <- kernel::new_mutex!(inner, "Secured::inner"),
        }),
        GFP_KERNEL,
    )?;
    Ok(Prepared(Some(Pending { secured, qps, node })))
}

impl Prepared<'_> {
    /// The driver has made the queue pair. May sleep.
    pub(crate) fn publish(self) {
        let Some(Pending { secured, qps, node }) = self.0 else {
            return;
        };
        let qp = secured.qp.as_ptr();
        let number = secured.number;
        let kept = Arc::into_raw(secured.clone());
        // SAFETY: The maker of the queue pair has not handed it out yet.
        unsafe { (*qp).qp_sec = kept.cast_mut().cast() };
        let node = node.into_node(number, secured);
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
    // SAFETY: It lives.
    let secured = unsafe { Secured::of(qp.raw()) };
    let (Some(secured), Some(change)) = (secured, change) else {
        return ask();
    };
    let mut inner = secured.inner.lock();
    let places = inner.standing.places().after(change);
    rules::admit(&places, |place| secured.look(place), |p| inner.ask(p))?;
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
    let qp = qp.raw();
    // SAFETY: It lives.
    let Some(secured) = (unsafe { Secured::of(qp) }) else {
        return ask();
    };
    secured.inner.lock().standing.leave();
    ask().inspect_err(|_| secured.stay())?;
    let list = &secured.device().slot::<Qps>().list;
    let _listed = list.lock().by_number.remove(&secured.number);
    // SAFETY: The count is that of `publish`; nobody finds it there any more.
    unsafe {
        (*qp).qp_sec = core::ptr::null_mut();
        drop(Arc::from_raw(core::ptr::from_ref(secured)));
    }
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
pub(crate) fn open(real: &Qp, handle: NonNull<bindings::ib_qp>) -> Result {
    // SAFETY: It lives.
    let Some(secured) = (unsafe { Secured::of(real.raw()) }) else {
        return Ok(());
    };
    let token = Token::new()?;
    let mut inner = secured.inner.lock();
    let places = inner.standing.places();
    rules::admit(places, |place| secured.look(place), |p| token.may_use(p))?;
    inner.users.push(User { qp: handle, token }, GFP_KERNEL)?;
    Ok(())
}

/// Undoes [`open`]. May sleep.
pub(crate) fn close(real: &Qp, handle: NonNull<bindings::ib_qp>) {
    // SAFETY: It lives.
    if let Some(secured) = unsafe { Secured::of(real.raw()) } {
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
        secured.judge_again(port);
    }
}

fn create_qp_security(qp: Option<&Qp>, device: &Device) -> Result {
    let qp = qp.ok_or(EINVAL)?;
    // SAFETY: The queue pair lives during the call: `FromC` of the reference.
    if unsafe { Secured::of(qp.raw()) }.is_none() {
        prepare(device, qp)?.publish();
    }
    Ok(())
}

rdma::export! { in crate::private;
    /// Secures a queue pair that is not yet; one that the core has made is. May sleep.
    fn ib_create_qp_security(qp: Option<&Qp>, device: &Device) -> Result = create_qp_security;
}
