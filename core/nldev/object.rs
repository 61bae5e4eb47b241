// SPDX-License-Identifier: GPL-2.0

//! The attributes of an object of each kind.
//!
//! Each function finds the object that the held entry is a field of. The entry keeps the object,
//! and that keeps what it was made of: a queue pair its protection domain, and so on.

use super::edge;
use super::edge::Put;
use super::request::Answer;
use crate::counter;
use crate::device::Device;
use crate::edge::cm::Addr;
use crate::edge::cm::CmId;
use crate::object::tables;
use crate::object::tables::QpAttr;
use crate::object::tables::QpMake;
use crate::object::Cq;
use crate::object::Mr;
use crate::object::Object;
use crate::object::Pd;
use crate::object::Qp;
use crate::object::Srq;
use crate::object::UseCount;
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
use crate::verbs::qp;
use kernel::prelude::*;
use rdma::bindings;
use rdma::edge::uverbs::UContext;
use rdma::edge::uverbs::Uobject;

/// An object and its reader.
pub(super) struct Subject<'a> {
    /// Its device.
    pub(super) device: &'a Device,
    /// The object.
    pub(super) held: &'a Held,
    /// Whether the reader may see keys.
    pub(super) admin: bool,
    /// Only of this port, unless it is 0.
    pub(super) port: u32,
}

impl Subject<'_> {
    /// # Errors
    ///
    /// [`Entry::Skip`] if objects of another port are asked for.
    fn check_port(&self, port: u32) -> Put {
        if self.port != 0 && self.port != port {
            return Err(Entry::Skip);
        }
        Ok(())
    }

    /// The object.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an object of another kind.
    fn object<K: Object>(&self) -> Result<&K, Entry<Error>> {
        K::of_entry(self.held).ok_or(Entry::Failed(EINVAL))
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

/// A number of users, as it is written: the C core widens it with its sign.
fn users(count: &UseCount) -> u64 {
    // CAST: See above.
    i64::from(count.get()) as u64
}

/// The id of the context of a user's handle.
fn ctxn(object: Option<&Uobject>) -> Option<u32> {
    object?.context().map(UContext::res_id)
}

/// A queue pair.
#[inline(never)]
pub(super) fn put_qp(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let qp = subject.object::<Qp>()?;
    let (port, qp_type) = (qp.port(), qp.qp_type());
    subject.check_port(port)?;
    let (attr, make) = (QpAttr::default(), QpMake::default());
    // Without a mask, drivers answer what they like.
    match qp::query(qp, &attr, 0, &make) {
        Ok(()) => {}
        Err(EMSGSIZE) => return Err(Entry::Full(Full)),
        Err(EAGAIN) => return Err(Entry::Skip),
        Err(error) => return Err(Entry::Failed(error)),
    }
    let connected =
        qp_type == bindings::ib_qp_type_IB_QPT_RC || qp_type == bindings::ib_qp_type_IB_QPT_UC;
    let migrates = connected
        || qp_type == bindings::ib_qp_type_IB_QPT_XRC_INI
        || qp_type == bindings::ib_qp_type_IB_QPT_XRC_TGT;
    let shown = subject.held.owner();
    res::Qp {
        port,
        lqpn: qp.qp_num(),
        pdn: subject.of_user(|| qp.pd().map(|pd| pd.res().id())),
        owner: owner(&shown),
        peer: connected.then_some((attr.dest_qp_num(), attr.rq_psn())),
        sq_psn: attr.sq_psn(),
        // CAST: These have few values.
        path_mig_state: migrates.then_some(attr.path_mig_state() as u8),
        qp_type: qp_type as u8,
        state: attr.qp_state() as u8,
    }
    .put(w)?;
    edge::fill_res_qp_entry(w, qp).unwrap_or(Ok(()))
}

/// A connection manager's id.
#[inline(never)]
pub(super) fn put_cm_id(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let id = CmId::of_entry(subject.held).ok_or(Entry::Failed(EINVAL))?;
    let port = id.port_num();
    subject.check_port(port)?;
    let (src, dst) = (id.src_addr(), id.dst_addr());
    // The family comes first, and is none as long as there is no address.
    let some = |addr: &Addr| addr.first_chunk() != Some(&[0u8; 2]);
    let shown = subject.held.owner();
    // CAST: A type has few values.
    let qp = (id.qp_num(), id.qp_type() as u8);
    res::CmId {
        port,
        qp: (qp.0 != 0).then_some(qp),
        port_space: id.port_space(),
        // CAST: There are few states.
        state: id.state() as u8,
        src_addr: Some(&src).filter(|addr| some(addr)),
        dst_addr: Some(&dst).filter(|addr| some(addr)),
        cm_idn: subject.held.id(),
        owner: owner(&shown),
    }
    .put(w)?;
    edge::fill_res_cm_id_entry(w, id).unwrap_or(Ok(()))
}

/// A completion queue.
#[inline(never)]
pub(super) fn put_cq(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let cq = subject.object::<Cq>()?;
    let shown = subject.held.owner();
    res::Cq {
        // CAST: A count; and few ways to poll.
        cqe: cq.cqe() as u32,
        usecnt: users(cq.usecnt()),
        poll_ctx: subject.held.is_kernel().then(|| cq.poll_ctx() as u8),
        dim: !cq.dim().is_null(),
        cqn: subject.held.id(),
        ctxn: subject.of_user(|| ctxn(cq.uobject().map(tables::uobject_of))),
        owner: owner(&shown),
    }
    .put(w)?;
    edge::fill_res_cq_entry(w, cq).unwrap_or(Ok(()))
}

/// A memory region.
#[inline(never)]
pub(super) fn put_mr(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let mr = subject.object::<Mr>()?;
    let shown = subject.held.owner();
    res::Mr {
        keys: subject.admin.then(|| (mr.rkey(), mr.lkey())),
        length: mr.length(),
        mrn: subject.held.id(),
        // `IB_MR_REREG_PD` exchanges the domain in one store, and waits for readers (by
        // `rdma_restrack_sync`) before the old one goes.
        pdn: subject.of_user(|| Some(mr.pd().res().id())),
        owner: owner(&shown),
    }
    .put(w)?;
    edge::fill_res_mr_entry(w, mr).unwrap_or(Ok(()))
}

/// What a memory region has counted.
#[inline(never)]
pub(super) fn put_mr_stat(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let mr = subject.object::<Mr>()?;
    w.put_u32(Attr::ResMrn.raw(), subject.held.id())?;
    edge::fill_stat_mr_entry(w, mr).unwrap_or(Ok(()))
}

/// A protection domain.
#[inline(never)]
pub(super) fn put_pd(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let pd = subject.object::<Pd>()?;
    let shown = subject.held.owner();
    let global = pd.flags() & bindings::ib_pd_flags_IB_PD_UNSAFE_GLOBAL_RKEY != 0;
    let pd = res::Pd {
        local_dma_lkey: subject.admin.then(|| pd.local_dma_lkey()),
        unsafe_global_rkey: (subject.admin && global).then(|| pd.unsafe_global_rkey()),
        usecnt: users(pd.usecnt()),
        pdn: subject.held.id(),
        ctxn: subject.of_user(|| ctxn(pd.uobject())),
        owner: owner(&shown),
    };
    Ok(pd.put(w)?)
}

/// A user's context. The kernel's have nothing to say.
#[inline(never)]
pub(super) fn put_ctx(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    if subject.held.is_kernel() {
        return Ok(());
    }
    let shown = subject.held.owner();
    Ok(res::Ctx {
        ctxn: subject.held.id(),
        owner: owner(&shown),
    }
    .put(w)?)
}

/// A shared receive queue.
#[inline(never)]
pub(super) fn put_srq(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let srq = subject.object::<Srq>()?;
    let shown = subject.held.owner();
    // While the lock is held no queue pair leaves the table, and so none goes.
    let qps = subject
        .device
        .slot::<crate::restrack::Tables>()
        .of(Kind::Qp)
        .lock();
    let qpns = qps.iter(None).filter_map(|entry| {
        let qp = Qp::of_entry(entry)?;
        // The queues are compared by address only.
        qp.srq()
            .is_some_and(|of| core::ptr::eq(of, srq))
            .then(|| qp.qp_num())
    });
    let done = res::Srq {
        srqn: subject.held.id(),
        // CAST: There are few types.
        srq_type: srq.srq_type() as u8,
        pdn: srq.pd().res().id(),
        cqn: srq.cq().flatten().map(|cq| cq.res().id()),
        qpns,
        owner: owner(&shown),
    }
    .put(w);
    drop(qps);
    match done {
        Ok(()) => {}
        Err(ListError::Full(full)) => return Err(Entry::Full(full)),
        // The C core reports it so.
        Err(ListError::Failed(res::NotRising)) => return Err(Entry::Full(Full)),
    }
    edge::fill_res_srq_entry(w, srq).unwrap_or(Ok(()))
}

/// What only the driver can read of an object.
#[inline(never)]
pub(super) fn put_raw(w: &mut Answer<'_>, kind: Kind, subject: &Subject<'_>) -> Put {
    let put = match kind {
        Kind::Qp => {
            let qp = subject.object::<Qp>()?;
            subject.check_port(qp.port())?;
            edge::fill_res_qp_entry_raw(w, qp)
        }
        Kind::Cq => edge::fill_res_cq_entry_raw(w, subject.object::<Cq>()?),
        Kind::Mr => edge::fill_res_mr_entry_raw(w, subject.object::<Mr>()?),
        Kind::Srq => edge::fill_res_srq_entry_raw(w, subject.object::<Srq>()?),
        Kind::Pd | Kind::CmId | Kind::Ctx | Kind::Counter | Kind::Dmah => None,
    };
    put.unwrap_or(Err(Entry::Failed(EINVAL)))
}

/// A counter that is bound to queue pairs, with its values.
#[inline(never)]
pub(super) fn put_counter(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let counter = subject.object::<counter::Counter>()?;
    subject.check_port(counter.port())?;
    // What was read before is shown if the driver fails.
    let _: Result = counter.query_stats();
    let mode = counter.mode();
    let looks_at = |mask| mode.mask & mask != 0;
    let shown = looks_at(stat::MASK_PID).then(|| subject.held.owner());
    // While the lock is held no queue pair leaves the table, and so none goes.
    let qps = subject
        .device
        .slot::<crate::restrack::Tables>()
        .of(Kind::Qp)
        .lock();
    let qpns = qps.iter(None).filter_map(|entry| {
        let qp = Qp::of_entry(entry)?;
        core::ptr::eq(qp.counter(), counter.as_raw()).then(|| qp.qp_num())
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
