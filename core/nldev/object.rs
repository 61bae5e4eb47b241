// SPDX-License-Identifier: GPL-2.0

//! What is written of an object of each kind.
//!
//! Each function reads the C structure that the held entry is a part of; the caller found
//! the entry in the table of that kind. Holding it keeps the object and what it was made
//! of: a queue pair its protection domain, and so on.

use core::ffi::CStr;
use core::ptr;
use kernel::container_of;
use kernel::error::to_result;
use kernel::ffi::c_int;
use kernel::prelude::*;
use rdma::bindings;

use super::ask::Answer;
use crate::counter;
use crate::device::Device;
use crate::private;
use crate::proto::nla::Entry;
use crate::proto::nla::Full;
use crate::proto::nla::ListError;
use crate::proto::nldev::res;
use crate::proto::nldev::res::Owner;
use crate::proto::nldev::stat;
use crate::proto::nldev::Attr;
use crate::proto::restrack::Shown;
use crate::restrack::Held;
use crate::restrack::Kind;
use crate::verbs::object::Object;

/// An object and its reader.
pub(super) struct View<'a> {
    /// Its device.
    pub(super) device: &'a Device,
    /// The object.
    pub(super) held: &'a Held<'a>,
    /// Whether the reader may see keys.
    pub(super) admin: bool,
    /// Only of this port, unless it is 0.
    pub(super) port: u32,
}

type Put = Result<(), Entry<Error>>;

impl View<'_> {
    /// # Errors
    ///
    /// [`Entry::Skip`] if objects of another port are asked for.
    fn check_port(&self, port: u32) -> Put {
        if self.port != 0 && self.port != port {
            return Err(Entry::Skip);
        }
        Ok(())
    }

    /// `value` of an object that a process owns.
    fn of_user<T>(&self, value: impl FnOnce() -> Option<T>) -> Option<T> {
        (!self.held.is_kernel()).then(value).flatten()
    }
}

/// The owner, as it is written.
fn owner<'a>(shown: &Shown<&'a CStr>) -> Owner<'a> {
    match shown {
        Shown::KernelName(name) => Shown::KernelName(name.to_bytes()),
        Shown::Pid(pid) => Shown::Pid(*pid),
        Shown::Nothing => Shown::Nothing,
    }
}

/// What a driver's method answered.
fn driver(ret: c_int) -> Put {
    match to_result(ret) {
        Ok(()) => Ok(()),
        Err(EMSGSIZE) => Err(Entry::Full(Full)),
        Err(EAGAIN) => Err(Entry::Skip),
        Err(error) => Err(Entry::Failed(error)),
    }
}

/// Lets a driver add to what was written of an object, if it has something to say.
macro_rules! ask_driver {
    ($w:expr, $view:expr, $method:ident, $object:expr) => {
        match $view.device.ops().$method {
            // SAFETY: The method is the device's, and the object is held. Whole attributes
            // are put at the buffer's end, as a sink allows.
            Some(method) => driver(unsafe { method($w.sink().raw(), $object) }),
            None => Ok(()),
        }
    };
}

/// A number of objects, as it is written: the C core widens it with its sign.
fn users(count: &bindings::atomic_t) -> u64 {
    // SAFETY: Others change it by whole words.
    let count = unsafe { ptr::addr_of!(count.counter).read_volatile() };
    // CAST: As above.
    i64::from(count) as u64
}

/// The id of a protection domain.
///
/// # Safety
///
/// `pd` is null or an object that is there.
unsafe fn pdn(pd: *const bindings::ib_pd) -> Option<u32> {
    // SAFETY: By this function's duty.
    (!pd.is_null()).then(|| unsafe { (*pd).res.id })
}

/// The id of a user's context.
///
/// # Safety
///
/// `object` is null or a user's handle, whose context is null or there.
unsafe fn ctxn(object: *const bindings::ib_uobject) -> Option<u32> {
    // SAFETY: By this function's duty.
    unsafe {
        let context = (!object.is_null()).then(|| (*object).context)?;
        (!context.is_null()).then(|| (*context).res.id)
    }
}

/// A queue pair.
pub(super) fn put_qp(w: &mut Answer<'_>, view: &View<'_>) -> Put {
    // SAFETY: See the module's page.
    let qp = unsafe { container_of!(view.held.raw(), bindings::ib_qp, res) };
    // SAFETY: As above; a queue pair's domain stays as long as it.
    let (port, lqpn, qp_type, pd) =
        unsafe { ((*qp).port, (*qp).qp_num, (*qp).qp_type, pdn((*qp).pd)) };
    view.check_port(port)?;
    let mut attr = bindings::ib_qp_attr::default();
    let mut init = bindings::ib_qp_init_attr::default();
    // SAFETY: The queue pair is held. Without a mask, drivers answer what they like.
    driver(unsafe { bindings::ib_query_qp(qp, &mut attr, 0, &mut init) })?;
    let connected =
        qp_type == bindings::ib_qp_type_IB_QPT_RC || qp_type == bindings::ib_qp_type_IB_QPT_UC;
    let migrates = connected
        || qp_type == bindings::ib_qp_type_IB_QPT_XRC_INI
        || qp_type == bindings::ib_qp_type_IB_QPT_XRC_TGT;
    let shown = view.held.owner();
    res::Qp {
        port,
        lqpn,
        pdn: view.of_user(|| pd),
        owner: owner(&shown),
        peer: connected.then_some((attr.dest_qp_num, attr.rq_psn)),
        sq_psn: attr.sq_psn,
        // CAST: These have few values.
        path_mig_state: migrates.then_some(attr.path_mig_state as u8),
        qp_type: qp_type as u8,
        state: attr.qp_state as u8,
    }
    .put(w)?;
    ask_driver!(w, view, fill_res_qp_entry, qp)
}

/// A connection manager's id.
pub(super) fn put_cm_id(w: &mut Answer<'_>, view: &View<'_>) -> Put {
    // SAFETY: See the module's page.
    let id = unsafe { container_of!(view.held.raw(), private::rdma_id_private, res) };
    // SAFETY: As above. Addresses are bytes; a change meanwhile garbles them at worst.
    let (port, qp, port_space, state, src, dst, cm_id) = unsafe {
        let cm_id = &raw mut (*id).id;
        let addr = &raw const (*cm_id).route.addr;
        // CAST: A type has few values.
        let qp = ((*id).qp_num, (*cm_id).qp_type as u8);
        let src: *const [u8; 128] = (&raw const (*addr).src_addr).cast();
        let dst: *const [u8; 128] = (&raw const (*addr).dst_addr).cast();
        (
            (*cm_id).port_num,
            qp,
            (*cm_id).ps,
            (*id).state,
            src.read(),
            dst.read(),
            cm_id,
        )
    };
    view.check_port(port)?;
    // The family comes first, and is none as long as there is no address.
    let some = |addr: &[u8; 128]| addr.first_chunk() != Some(&[0u8; 2]);
    let shown = view.held.owner();
    res::CmId {
        port,
        qp: (qp.0 != 0).then_some(qp),
        // CAST: Both have few values.
        port_space: port_space as u32,
        state: state as u8,
        src_addr: Some(&src).filter(|addr| some(addr)),
        dst_addr: Some(&dst).filter(|addr| some(addr)),
        cm_idn: view.held.id(),
        owner: owner(&shown),
    }
    .put(w)?;
    ask_driver!(w, view, fill_res_cm_id_entry, cm_id)
}

/// A completion queue.
pub(super) fn put_cq(w: &mut Answer<'_>, view: &View<'_>) -> Put {
    // SAFETY: See the module's page.
    let cq = unsafe { container_of!(view.held.raw(), bindings::ib_cq, res) };
    let shown = view.held.owner();
    // SAFETY: As above. A user's queue has a handle, whose first part is the common one.
    let written = unsafe {
        res::Cq {
            // CAST: A count; and few ways to poll.
            cqe: (*cq).cqe as u32,
            usecnt: users(&(*cq).usecnt),
            poll_ctx: view.held.is_kernel().then(|| (*cq).poll_ctx as u8),
            dim: !(*cq).dim.is_null(),
            cqn: view.held.id(),
            ctxn: view.of_user(|| ctxn((*cq).uobject.cast())),
            owner: owner(&shown),
        }
    };
    written.put(w)?;
    ask_driver!(w, view, fill_res_cq_entry, cq)
}

/// A memory region.
pub(super) fn put_mr(w: &mut Answer<'_>, view: &View<'_>) -> Put {
    // SAFETY: See the module's page.
    let mr = unsafe { container_of!(view.held.raw(), bindings::ib_mr, res) };
    let shown = view.held.owner();
    // SAFETY: As above. The domain may be exchanged for another, in one store; who does so
    // waits for us before the old one goes.
    let written = unsafe {
        let pd = (&raw const (*mr).pd).read_volatile();
        res::Mr {
            keys: view.admin.then(|| ((*mr).rkey, (*mr).lkey)),
            length: (*mr).length,
            mrn: view.held.id(),
            pdn: view.of_user(|| pdn(pd)),
            owner: owner(&shown),
        }
    };
    written.put(w)?;
    ask_driver!(w, view, fill_res_mr_entry, mr)
}

/// What a memory region has counted.
pub(super) fn put_mr_stat(w: &mut Answer<'_>, view: &View<'_>) -> Put {
    // SAFETY: See the module's page.
    let mr = unsafe { container_of!(view.held.raw(), bindings::ib_mr, res) };
    w.put_u32(Attr::ResMrn.raw(), view.held.id())?;
    ask_driver!(w, view, fill_stat_mr_entry, mr)
}

/// A protection domain.
pub(super) fn put_pd(w: &mut Answer<'_>, view: &View<'_>) -> Put {
    // SAFETY: See the module's page.
    let pd = unsafe { container_of!(view.held.raw(), bindings::ib_pd, res) };
    let shown = view.held.owner();
    // SAFETY: As above.
    let written = unsafe {
        let global = (*pd).flags & bindings::ib_pd_flags_IB_PD_UNSAFE_GLOBAL_RKEY != 0;
        res::Pd {
            local_dma_lkey: view.admin.then(|| (*pd).local_dma_lkey),
            unsafe_global_rkey: (view.admin && global).then(|| (*pd).unsafe_global_rkey),
            usecnt: users(&(*pd).usecnt),
            pdn: view.held.id(),
            ctxn: view.of_user(|| ctxn((*pd).uobject)),
            owner: owner(&shown),
        }
    };
    Ok(written.put(w)?)
}

/// A user's context. The kernel's have nothing to say.
pub(super) fn put_ctx(w: &mut Answer<'_>, view: &View<'_>) -> Put {
    if view.held.is_kernel() {
        return Ok(());
    }
    let shown = view.held.owner();
    Ok(res::Ctx {
        ctxn: view.held.id(),
        owner: owner(&shown),
    }
    .put(w)?)
}

/// A shared receive queue.
pub(super) fn put_srq(w: &mut Answer<'_>, view: &View<'_>) -> Put {
    // SAFETY: See the module's page.
    let srq = unsafe { container_of!(view.held.raw(), bindings::ib_srq, res) };
    let shown = view.held.owner();
    // SAFETY: As above; what the queue was made of stays as long as it.
    let (srq_type, pd, cq) = unsafe { ((*srq).srq_type, pdn((*srq).pd), (*srq).ext.cq) };
    let has_cq = srq_type == bindings::ib_srq_type_IB_SRQT_XRC
        || srq_type == bindings::ib_srq_type_IB_SRQT_TM;
    // SAFETY: As above.
    let cqn = (has_cq && !cq.is_null()).then(|| unsafe { (*cq).res.id });
    // While the lock is held no queue pair leaves the table, and so none goes.
    let qps = view
        .device
        .slot::<crate::restrack::Tables>()
        .of(Kind::Qp)
        .lock();
    let qpns = qps.iter(None).filter_map(move |entry| {
        // SAFETY: As above. That the queue is the same says its address.
        unsafe {
            let qp = container_of!(entry.raw(), bindings::ib_qp, res);
            ((*qp).srq == srq).then(|| (*qp).qp_num)
        }
    });
    let done = res::Srq {
        srqn: view.held.id(),
        // CAST: There are few types.
        srq_type: srq_type as u8,
        pdn: pd.unwrap_or(0),
        cqn,
        qpns,
        owner: owner(&shown),
    }
    .put(w);
    drop(qps);
    match done {
        Ok(()) => {}
        Err(ListError::Full(full)) => return Err(Entry::Full(full)),
        // As the C core says it.
        Err(ListError::Failed(res::NotRising)) => return Err(Entry::Full(Full)),
    }
    ask_driver!(w, view, fill_res_srq_entry, srq)
}

/// What only the driver can read of an object.
pub(super) fn put_raw(w: &mut Answer<'_>, kind: Kind, view: &View<'_>) -> Put {
    let res = view.held.raw();
    let ops = view.device.ops();
    let msg = w.sink().raw();
    // SAFETY: As of `ask_driver`; the kind says what the entry is a part of.
    let ret = unsafe {
        match kind {
            Kind::Qp => {
                let qp = container_of!(res, bindings::ib_qp, res);
                view.check_port((*qp).port)?;
                ops.fill_res_qp_entry_raw.map(|raw| raw(msg, qp))
            }
            Kind::Cq => {
                let cq = container_of!(res, bindings::ib_cq, res);
                ops.fill_res_cq_entry_raw.map(|raw| raw(msg, cq))
            }
            Kind::Mr => {
                let mr = container_of!(res, bindings::ib_mr, res);
                ops.fill_res_mr_entry_raw.map(|raw| raw(msg, mr))
            }
            Kind::Srq => {
                let srq = container_of!(res, bindings::ib_srq, res);
                ops.fill_res_srq_entry_raw.map(|raw| raw(msg, srq))
            }
            Kind::Pd | Kind::CmId | Kind::Ctx | Kind::Counter | Kind::Dmah => None,
        }
    };
    driver(ret.ok_or(Entry::Failed(EINVAL))?)
}

/// A counter that is bound to queue pairs, with its values.
pub(super) fn put_counter(w: &mut Answer<'_>, view: &View<'_>) -> Put {
    let counter = counter::Counter::of_entry(view.held).ok_or(Entry::Failed(EINVAL))?;
    view.check_port(counter.port())?;
    // What was read before is shown if the driver fails.
    let _: Result = counter.query_stats();
    let mode = counter.mode();
    let looks_at = |mask| mode.mask & mask != 0;
    let shown = looks_at(stat::MASK_PID).then(|| view.held.owner());
    let raw = counter.as_raw();
    let qps = view
        .device
        .slot::<crate::restrack::Tables>()
        .of(Kind::Qp)
        .lock();
    let qpns = qps.iter(None).filter_map(move |entry| {
        // SAFETY: While the lock is held no queue pair leaves the table, and so none goes.
        unsafe {
            let qp = container_of!(entry.raw(), bindings::ib_qp, res);
            let bound = (&raw const (*qp).counter).read_volatile();
            (bound == raw).then(|| (*qp).qp_num)
        }
    });
    stat::Counter {
        port: counter.port(),
        id: counter.id(),
        mode: mode.mode.to_raw(),
        // CAST: There are few types.
        qp_type: looks_at(stat::MASK_QP_TYPE).then(|| counter.qp_type() as u8),
        owner: shown.as_ref().map(owner),
        qpns,
    }
    .put(w)?;
    drop(qps);
    super::stat::put_counts(w, counter.stats())?;
    Ok(())
}
