// SPDX-License-Identifier: GPL-2.0

//! Attributes of objects, by kind.
//!
//! Each function finds the object that contains the referenced restrack entry. The reference keeps
//! the object alive, and the object keeps alive what it uses: a queue pair its protection domain,
//! and so on.

use super::edge;
use super::edge::Put;
use super::request::Answer;
use crate::counter;
use crate::device::Device;
use crate::edge::cm::Addr;
use crate::edge::cm::CmId;
use crate::edge::tracked::Tracked;
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

/// An object to be shown, and what the sender of the request may see.
pub(super) struct Subject<'a> {
    /// Device of the object.
    pub(super) device: &'a Device,
    /// Reference to the object's restrack entry.
    pub(super) held: &'a Held,
    /// Whether the sender may see keys.
    pub(super) admin: bool,
    /// Show only objects of this port; 0 for all ports.
    pub(super) port: u32,
}

impl Subject<'_> {
    /// # Errors
    ///
    /// [`Entry::Skip`] if the object belongs to another port than the requested one.
    fn check_port(&self, port: u32) -> Put {
        if self.port != 0 && self.port != port {
            return Err(Entry::Skip);
        }
        Ok(())
    }

    /// Returns the object.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an object of another kind.
    fn object<K: Tracked>(&self) -> Result<&K, Entry<Error>> {
        K::of_entry(self.held).ok_or(Entry::Failed(EINVAL))
    }

    /// Returns `value()` for an object of a user process; `None` for one of the kernel.
    fn of_user<T>(&self, value: impl FnOnce() -> Option<T>) -> Option<T> {
        (!self.held.is_kernel()).then(value).flatten()
    }
}

/// Converts the owner to the form that the message writers take.
fn owner<'a>(shown: &Shown<&'a CStr>) -> Owner<'a> {
    match shown {
        Shown::KernelName(name) => Shown::KernelName(name.to_bytes()),
        Shown::Pid(pid) => Shown::Pid(*pid),
        Shown::Nothing => Shown::Nothing,
    }
}

/// Converts a use count to its form in a message. Sign-extended, as in the C core.
fn users(count: &UseCount) -> u64 {
    // CAST: Sign-extended, see above.
    i64::from(count.get()) as u64
}

/// Returns the restrack ID of the context of a user object.
fn ctxn(object: Option<&Uobject>) -> Option<u32> {
    object?.context().map(UContext::res_id)
}

/// Writes a queue pair.
#[inline(never)]
pub(super) fn put_qp(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let qp = subject.object::<Qp>()?;
    let (port, qp_type) = (qp.port(), qp.qp_type());
    subject.check_port(port)?;
    let (attr, make) = (QpAttr::default(), QpMake::default());
    // With an empty mask, drivers choose what to report.
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
        // CAST: These enums have few values.
        path_mig_state: migrates.then_some(attr.path_mig_state() as u8),
        qp_type: qp_type as u8,
        state: attr.qp_state() as u8,
    }
    .put(w)?;
    edge::fill_res_qp_entry(w, qp).unwrap_or(Ok(()))
}

/// Writes a connection manager ID.
#[inline(never)]
pub(super) fn put_cm_id(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let id = CmId::of_entry(subject.held).ok_or(Entry::Failed(EINVAL))?;
    let port = id.port_num();
    subject.check_port(port)?;
    let (src, dst) = (id.src_addr(), id.dst_addr());
    // The address family comes first, and is 0 (`AF_UNSPEC`) while there is no address.
    let some = |addr: &Addr| addr.first_chunk() != Some(&[0u8; 2]);
    let shown = subject.held.owner();
    // CAST: The type has few values.
    let qp = (id.qp_num(), id.qp_type() as u8);
    res::CmId {
        port,
        qp: (qp.0 != 0).then_some(qp),
        port_space: id.port_space(),
        // CAST: There are only a few states.
        state: id.state() as u8,
        src_addr: Some(&src).filter(|addr| some(addr)),
        dst_addr: Some(&dst).filter(|addr| some(addr)),
        cm_idn: subject.held.id(),
        owner: owner(&shown),
    }
    .put(w)?;
    edge::fill_res_cm_id_entry(w, id).unwrap_or(Ok(()))
}

/// Writes a completion queue.
#[inline(never)]
pub(super) fn put_cq(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let cq = subject.object::<Cq>()?;
    let shown = subject.held.owner();
    res::Cq {
        // CAST: A count, and an enum with few values.
        cqe: cq.cqe() as u32,
        usecnt: users(cq.usecnt()),
        poll_ctx: subject.held.is_kernel().then(|| cq.poll_ctx() as u8),
        dim: !cq.dim().is_empty(),
        cqn: subject.held.id(),
        ctxn: subject.of_user(|| ctxn(cq.uobject().map(tables::uobject_of))),
        owner: owner(&shown),
    }
    .put(w)?;
    edge::fill_res_cq_entry(w, cq).unwrap_or(Ok(()))
}

/// Writes a memory region.
#[inline(never)]
pub(super) fn put_mr(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let mr = subject.object::<Mr>()?;
    let shown = subject.held.owner();
    res::Mr {
        keys: subject.admin.then(|| (mr.rkey(), mr.lkey())),
        length: mr.length(),
        mrn: subject.held.id(),
        // `IB_MR_REREG_PD` replaces the protection domain in one store, and waits for readers
        // (`rdma_restrack_sync`) before it releases the old one.
        pdn: subject.of_user(|| Some(mr.pd().res().id())),
        owner: owner(&shown),
    }
    .put(w)?;
    edge::fill_res_mr_entry(w, mr).unwrap_or(Ok(()))
}

/// Writes the counters of a memory region.
#[inline(never)]
pub(super) fn put_mr_stat(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let mr = subject.object::<Mr>()?;
    w.put_u32(Attr::ResMrn.raw(), subject.held.id())?;
    edge::fill_stat_mr_entry(w, mr).unwrap_or(Ok(()))
}

/// Writes a protection domain.
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

/// Writes a user context. Writes nothing for contexts of the kernel.
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

/// Writes a shared receive queue.
#[inline(never)]
pub(super) fn put_srq(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let srq = subject.object::<Srq>()?;
    let shown = subject.held.owner();
    // While the lock is held, no queue pair is removed from the table, so none is destroyed.
    let qps = subject
        .device
        .slot::<crate::restrack::Tables>()
        .of(Kind::Qp)
        .lock();
    let qpns = qps.iter(None).filter_map(|entry| {
        let qp = Qp::of_entry(entry)?;
        // Compared by address only.
        qp.srq()
            .is_some_and(|of| core::ptr::eq(of, srq))
            .then(|| qp.qp_num())
    });
    let done = res::Srq {
        srqn: subject.held.id(),
        // CAST: There are only a few types.
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
        // Same errno as in the C core.
        Err(ListError::Failed(res::NotRising)) => return Err(Entry::Full(Full)),
    }
    edge::fill_res_srq_entry(w, srq).unwrap_or(Ok(()))
}

/// Writes the raw, driver-specific state of an object.
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
        Kind::Pd | Kind::CmId | Kind::Ctx | Kind::Counter | Kind::Dmah | Kind::CompCntr => None,
    };
    put.unwrap_or(Err(Entry::Failed(EINVAL)))
}

/// Writes a counter with its values and the queue pairs bound to it.
#[inline(never)]
pub(super) fn put_counter(w: &mut Answer<'_>, subject: &Subject<'_>) -> Put {
    let counter = subject.object::<counter::Counter>()?;
    subject.check_port(counter.port())?;
    // If the driver fails, show the values read last.
    let _: Result = counter.query_stats();
    let mode = counter.mode();
    let looks_at = |mask| mode.mask & mask != 0;
    let shown = looks_at(stat::MASK_PID).then(|| subject.held.owner());
    // While the lock is held, no queue pair is removed from the table, so none is destroyed.
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
        // CAST: There are only a few types.
        qp_type: looks_at(stat::MASK_QP_TYPE).then(|| counter.qp_type() as u8),
        owner: shown.as_ref().map(owner),
        qpns,
    }
    .put(w)?;
    drop(qps);
    super::stat::put_counts(w, counter.stats())?;
    Ok(())
}
