// SPDX-License-Identifier: GPL-2.0

//! Attributes of a queue pair: set by modify_qp, reported by query_qp.
//!
//! Attributes change only while the caller holds both halves, so that neither engine sees a partial
//! change. [`Peer`] holds what the receive path checks packets against before it has a half.

use super::park::Parking;
use super::wire::Sender;
use super::Notes;
use super::Qp;
use crate::ah;
use crate::device::Rxe;
use crate::limits;
use crate::mem::access;
use crate::net;
use crate::net::Path;
use crate::net::PathSpec;
use crate::proto;
use crate::proto::qp::transition;
use crate::proto::AccessFlags;
use crate::proto::Nanos;
use crate::proto::QpState;
use crate::proto::QpType;
use crate::proto::Qpn;
use crate::proto::RetryLimit;
use crate::wire::ack_timeout_ns;
use crate::wire::Psn;
use crate::wire::RnrTimer;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::rcu;
use kernel::sync::Arc;
use rdma::accounted;
use rdma::provider;
use rdma::provider::attr::modify_is_ok;
use rdma::provider::unsupported;
use rdma::provider::QpAttr;
use rdma::provider::QpAttrMask;
use rdma::provider::QpCap;
use rdma::provider::QpChange;
use rdma::provider::QpInitAttr;
use rdma::sync::bh;
use rdma::token::Exclusive;

/// `IB_MTU_256` to `IB_MTU_4096`.
const MTU_CODES: core::ops::RangeInclusive<u32> = 1..=5;

/// Attributes as verbs users set them; under [`Qp::modify`].
pub(super) struct Attr {
    pub(super) cap: QpCap,
    pub(super) signals_all: bool,
    path: Option<PathSpec>,
    alt_path: Option<PathSpec>,
    path_mtu: u32,
    path_mig_state: u32,
    qkey: u32,
    dest_qpn: u32,
    access: u32,
    pkey_index: u16,
    alt_pkey_index: u16,
    en_sqd_async_notify: u8,
    max_rd_atomic: u8,
    max_dest_rd_atomic: u8,
    min_rnr_timer: u8,
    port: u32,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    alt_port: u32,
    alt_timeout: u8,
}

impl Attr {
    pub(super) fn new(cap: QpCap, signals_all: bool, port: u32) -> Self {
        Self {
            cap,
            signals_all,
            path: None,
            alt_path: None,
            path_mtu: 1,
            path_mig_state: 0,
            qkey: 0,
            dest_qpn: 0,
            access: 0,
            pkey_index: 0,
            alt_pkey_index: 0,
            en_sqd_async_notify: 0,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            port,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            alt_port: 0,
            alt_timeout: 0,
        }
    }
}

/// Attributes that the data path reads without holding a half.
pub(super) struct Peer {
    pub(super) has_srq: bool,
    /// The Q_Key of a datagram queue pair.
    pub(super) qkey: u32,
    /// Whether the user wants an event when the send queue has drained.
    pub(super) drain_notify: bool,
}

/// The C structure is not `Clone`.
pub(super) fn copy_cap(cap: &QpCap) -> QpCap {
    QpCap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
        max_rdma_ctxs: cap.max_rdma_ctxs,
    }
}

/// Returns the payload bytes of an `IB_MTU_*` code.
fn mtu_bytes(code: u32) -> u32 {
    128u32 << code.clamp(*MTU_CODES.start(), *MTU_CODES.end())
}

fn kind(of: QpType) -> provider::QpType {
    match of {
        QpType::Rc => provider::QpType::Rc,
        QpType::Uc => provider::QpType::Uc,
        QpType::Ud => provider::QpType::Ud,
        QpType::Gsi => provider::QpType::Gsi,
    }
}

fn verbs_state(of: QpState) -> provider::QpState {
    match of {
        QpState::Reset => provider::QpState::Reset,
        QpState::Init => provider::QpState::Init,
        QpState::Rtr => provider::QpState::Rtr,
        QpState::Rts => provider::QpState::Rts,
        QpState::Sqd => provider::QpState::Sqd,
        QpState::Sqe => provider::QpState::Sqe,
        QpState::Err => provider::QpState::Err,
    }
}

fn engine_state(of: provider::QpState) -> QpState {
    match of {
        provider::QpState::Reset => QpState::Reset,
        provider::QpState::Init => QpState::Init,
        provider::QpState::Rtr => QpState::Rtr,
        provider::QpState::Rts => QpState::Rts,
        provider::QpState::Sqd => QpState::Sqd,
        provider::QpState::Sqe => QpState::Sqe,
        provider::QpState::Err => QpState::Err,
    }
}

/// A modification, validated before anything is changed.
struct Wanted<'a> {
    attr: QpChange<'a>,
    mask: QpAttrMask,
    path: Option<PathSpec>,
    alt_path: Option<PathSpec>,
    /// Storage for the peer's reads and atomics, if their number changes.
    resources: Option<KVec<proto::Resource>>,
    /// New states of waits for memory of the send and the receive half, for a reset.
    parkings: [Option<Arc<Parking>>; 2],
}

impl<'a> Wanted<'a> {
    fn check(qp: &Qp, attr: QpChange<'a>, mask: QpAttrMask) -> Result<Self> {
        let refuse = |bad: bool| if bad { Err(EINVAL) } else { Ok(()) };
        if !QpAttrMask::STANDARD.contains(mask) {
            return Err(unsupported());
        }
        // Queue sizes cannot change: IB_DEVICE_RESIZE_MAX_WR is not reported.
        refuse(mask.intersects(QpAttrMask::CAP))?;
        refuse(mask.intersects(QpAttrMask::PORT) && attr.port_num() != 1)?;
        // The P_Key table has one entry.
        refuse(mask.intersects(QpAttrMask::PKEY_INDEX) && attr.pkey_index() != 0)?;
        if mask.intersects(QpAttrMask::ACCESS_FLAGS) {
            refuse(qp.kind.is_datagram())?;
            refuse(attr.access().raw() & !(access::REGION | access::ON_DEMAND) != 0)?;
        }
        let mut path = None;
        if let Some(ah) = attr.ah() {
            path = Some(ah::spec_of(ah)?);
        }
        let mut alt_path = None;
        if let Some(ah) = attr.alt_ah() {
            alt_path = Some(ah::spec_of(ah)?);
            refuse(attr.alt_port_num() != 1 || attr.alt_timeout() > 31)?;
        }
        if mask.intersects(QpAttrMask::PATH_MTU) {
            refuse(!MTU_CODES.contains(&attr.path_mtu()))?;
        }
        let most = limits::MAX_RD_ATOMIC;
        if mask.intersects(QpAttrMask::MAX_QP_RD_ATOMIC) {
            refuse(u32::from(attr.max_rd_atomic()) > most)?;
        }
        refuse(mask.intersects(QpAttrMask::TIMEOUT) && attr.timeout() > 31)?;
        let mut resources = None;
        if mask.intersects(QpAttrMask::MAX_DEST_RD_ATOMIC) {
            refuse(u32::from(attr.max_dest_rd_atomic()) > most)?;
            let count = proto::rounded_depth(attr.max_dest_rd_atomic()).into();
            resources = Some(KVec::from_elem(
                proto::Resource::EMPTY,
                count,
                accounted::GFP,
            )?);
        }
        let resets = mask.intersects(QpAttrMask::STATE)
            && matches!(attr.state(), Ok(provider::QpState::Reset));
        let parkings = match resets {
            true => [qp.send_parking.another()?, qp.recv_parking.another()?],
            false => [None, None],
        };
        Ok(Self {
            attr,
            mask,
            path,
            alt_path,
            resources,
            parkings,
        })
    }

    /// Copies the requested changes to the verbs attributes. Limits the path MTU to `port_mtu`, an
    /// `IB_MTU_*` code.
    fn note(&self, to: &mut Attr, port_mtu: u32) {
        let Self {
            attr,
            mask,
            path,
            alt_path,
            resources: _,
            parkings: _,
        } = self;
        let has = |bit| mask.intersects(bit);
        if path.is_some() {
            to.path = *path;
        }
        if alt_path.is_some() {
            to.alt_path = *alt_path;
            to.alt_port = attr.alt_port_num();
            to.alt_timeout = attr.alt_timeout();
            to.alt_pkey_index = attr.alt_pkey_index();
        }
        macro_rules! copy {
            ($($bit:ident: $field:ident = $get:ident;)*) => {
                $(if has(QpAttrMask::$bit) { to.$field = attr.$get(); })*
            };
        }
        copy! {
            PATH_MIG_STATE: path_mig_state = path_mig_state;
            QKEY: qkey = qkey;
            DEST_QPN: dest_qpn = dest_qp_num;
            PKEY_INDEX: pkey_index = pkey_index;
            EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify = en_sqd_async_notify;
            MAX_QP_RD_ATOMIC: max_rd_atomic = max_rd_atomic;
            MAX_DEST_RD_ATOMIC: max_dest_rd_atomic = max_dest_rd_atomic;
            MIN_RNR_TIMER: min_rnr_timer = min_rnr_timer;
            PORT: port = port_num;
            TIMEOUT: timeout = timeout;
            RETRY_CNT: retry_cnt = retry_cnt;
            RNR_RETRY: rnr_retry = rnr_retry;
        }
        if has(QpAttrMask::PATH_MTU) {
            // The port would never send larger packets, and the user could not find out why.
            // query_qp reports the limited value.
            to.path_mtu = attr.path_mtu().min(port_mtu);
        }
        if has(QpAttrMask::ACCESS_FLAGS) {
            to.access = attr.access().raw();
        }
    }
}

/// The halves that have work after a change of state, even if nobody kicks them.
#[derive(Clone, Copy)]
struct Due {
    send: bool,
    recv: bool,
}

impl Due {
    const NONE: Self = Self {
        send: false,
        recv: false,
    };

    /// Returns the halves with work after a change to the state `new`.
    fn after(new: QpState, send: &super::SendHalf, recv: &super::RecvHalf) -> Self {
        match new {
            // Nothing is sent or flushed in these states; requests discarded by a reset are not
            // reported.
            QpState::Reset | QpState::Init | QpState::Rtr => Self::NONE,
            QpState::Rts => Self {
                send: send.has_work(),
                recv: false,
            },
            // Usually nothing is left when a connection ends.
            QpState::Err => Self {
                send: send.has_work(),
                recv: recv.has_work(),
            },
            QpState::Sqd | QpState::Sqe => Self {
                send: true,
                recv: true,
            },
        }
    }
}

impl Qp {
    /// Changes attributes and state (IBTA 11.2.4.2). May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for attributes or state changes that are not allowed, `EOPNOTSUPP` for attributes
    /// that the queue pair does not support, `ENOMEM`. Nothing has changed then.
    pub(crate) fn modify(this: &Arc<Self>, attr: QpChange<'_>, mask: QpAttrMask) -> Result {
        let mut wanted = Wanted::check(this, attr, mask)?;
        let mut known = this.modify.lock();
        let old = this.state();
        let new = if mask.intersects(QpAttrMask::STATE) {
            engine_state(attr.state()?)
        } else {
            old
        };
        // Refuse the request if the user's view of the current state is wrong.
        let believed = if mask.intersects(QpAttrMask::CUR_STATE) {
            engine_state(attr.cur_state()?)
        } else {
            old
        };
        if believed != old
            || !modify_is_ok(verbs_state(old), verbs_state(new), kind(this.kind), mask)
        {
            return Err(EINVAL);
        }

        // Dropped when both halves are released: freeing the memory may sleep.
        let mut old_resources = KVec::new();
        let mut _old_parkings = [None, None];
        Self::with_halves(this, |send, recv| {
            // The queue pair may have failed since the check above.
            let old = this.state();
            let draining = send.engine.is_draining();
            let Ok(change) = transition(old, new, draining) else {
                return (Err(EINVAL), Due::NONE);
            };
            // Send a delayed acknowledgment first: the peer's request was executed in any case.
            this.settle(recv);
            wanted.note(&mut known, this.dev_mtu_code());
            Self::apply(this, &known, &mut wanted, send, recv, &mut old_resources);
            if new == QpState::Reset {
                send.io.reset(&this.dev);
                recv.io.reset(&this.dev);
                send.backlog = None;
                recv.backlog = None;
                send.parked = None;
                recv.parked = None;
                drop(this.responses.take_all());
                drop(this.requests.take_all());
                // A fault that the halves waited for may never end.
                let [for_send, for_recv] = core::mem::take(&mut wanted.parkings);
                _old_parkings = [
                    for_send.and_then(|by| this.send_parking.replace(Some(by))),
                    for_recv.and_then(|by| this.recv_parking.replace(Some(by))),
                ];
            }
            if new == QpState::Err {
                send.io.early.clear(&this.dev);
                recv.io.early.clear(&this.dev);
            }
            change.apply_recv(&mut recv.engine);
            let applied = {
                let rcu = rcu::read_lock();
                let mut notes = Notes::NONE;
                let mut host = send.io.host(this, &rcu, &mut notes);
                let applied = change.apply_send(&mut send.engine, &mut host);
                // The consumer is not called back from within its own call.
                host.finish();
                drop(host);
                send.io.noted = Some(notes);
                applied.map_err(|_| EINVAL)
            };
            if applied.is_ok() {
                this.set_state(new);
            }
            if matches!(new, QpState::Reset | QpState::Err) {
                this.release_requester(recv);
            }
            if new == QpState::Err {
                Self::watch_receives(this.as_arc_borrow());
            }
            (applied, Due::after(new, send, recv))
        })
    }

    /// Calls `act` with both halves, which nobody else runs meanwhile, and releases them. Work that
    /// arrived meanwhile, or that `act` says is due, is left to the pumps, which run once bottom halves
    /// are enabled. Usually, as during connection setup, there is none; a needless pump would cost more
    /// than the change itself. Waits for the runners of the halves: process context.
    fn with_halves<R>(
        this: &Arc<Self>,
        act: impl FnOnce(&mut super::SendHalf, &mut super::RecvHalf) -> (R, Due),
    ) -> R {
        let _bh = bh::disable();
        let mut send = this.send.exclusive(core::hint::spin_loop);
        let mut recv = this.recv.exclusive(core::hint::spin_loop);
        let (answer, due) = act(&mut send, &mut recv);
        Self::leave(this, send, recv, due);
        answer
    }

    /// Releases both halves, for [`Self::with_halves`]. Not inlined into each user of that.
    #[inline(never)]
    fn leave(
        this: &Arc<Self>,
        send: Exclusive<'_, super::SendHalf>,
        recv: Exclusive<'_, super::RecvHalf>,
        due: Due,
    ) {
        let recv_due = recv.leave() || due.recv;
        let send_due = send.leave() || due.send;
        this.recv_is_free();
        if recv_due {
            Self::pump_recv(this.as_arc_borrow());
        }
        if send_due {
            Self::pump_send(this.as_arc_borrow());
        }
    }

    /// Applies `known` to both engines and the receive path.
    fn apply(
        this: &Qp,
        known: &Attr,
        wanted: &mut Wanted<'_>,
        send: &mut super::SendHalf,
        recv: &mut super::RecvHalf,
        old_resources: &mut KVec<proto::Resource>,
    ) {
        let mtu = if this.kind.is_datagram() {
            mtu_bytes(this.dev_mtu_code())
        } else {
            mtu_bytes(known.path_mtu)
        };
        let mut s = *send.engine.attr();
        s.dest = Qpn(known.dest_qpn & 0x00ff_ffff);
        s.mtu = mtu;
        s.timeout = ack_timeout_ns(known.timeout).map(Nanos);
        s.retry = RetryLimit::from_retry_cnt(known.retry_cnt);
        s.rnr_retry = RetryLimit::from_rnr_retry(known.rnr_retry);
        s.max_rd_atomic = u32::from(known.max_rd_atomic);
        send.engine.set_attr(s);
        let mut r = *recv.engine.attr();
        r.dest = s.dest;
        r.mtu = mtu;
        r.access = AccessFlags(known.access);
        r.qkey = known.qkey;
        r.rnr_timer = RnrTimer::new(known.min_rnr_timer);
        recv.engine.set_attr(r);
        if wanted.mask.intersects(QpAttrMask::SQ_PSN) {
            // Fails only while requests are outstanding, when the attribute has no meaning.
            let _: bool = send.engine.set_psn(Psn::new(wanted.attr.sq_psn()));
        }
        if wanted.mask.intersects(QpAttrMask::RQ_PSN) {
            recv.engine.set_psn(Psn::new(wanted.attr.rq_psn()));
        }
        if let Some(resources) = wanted.resources.take() {
            *old_resources = recv.engine.set_resources(resources);
        }

        this.dest.store(s.dest.0, Relaxed);
        {
            let mut peer = this.peer.lock();
            peer.qkey = known.qkey;
            peer.drain_notify = known.en_sqd_async_notify != 0;
        }
        if this.kind.is_datagram() {
            return;
        }
        let path = known.path.and_then(|spec| {
            let port = match spec.flow_label {
                0 => net::default_source_port(this.number),
                label => net::source_port(label, this.number, known.dest_qpn),
            };
            Path::new(spec, port).ok()
        });
        let (requests, responses) = (&mut send.io.sender, &mut recv.io.sender);
        for (sender, counted) in [(requests, this.unsent.clone()), (responses, None)] {
            if sender.as_ref().map(Sender::path) != path.as_ref() {
                *sender = path.map(|path| Sender::new(path, counted));
            }
        }
    }

    /// Returns the port's MTU as an `IB_MTU_*` code.
    fn dev_mtu_code(&self) -> u32 {
        self.dev.mtu_code()
    }

    /// Reports the attributes (IBTA 11.2.4.3).
    pub(crate) fn query(this: &Arc<Self>, attr: &mut QpAttr, init: &mut QpInitAttr<Rxe>) {
        let known = this.modify.lock();
        let (sq_psn, draining, rq_psn) = Self::with_halves(this, |send, recv| {
            let engine = &send.engine;
            let told = (engine.psn(), engine.is_draining(), recv.engine.psn());
            (told, Due::NONE)
        });
        let state = verbs_state(this.state());
        attr.set_state(state);
        attr.set_cur_state(state);
        attr.set_sq_psn(sq_psn.get());
        attr.set_rq_psn(rq_psn.get());
        attr.set_sq_draining(draining.into());
        attr.set_path_mtu(known.path_mtu);
        attr.set_path_mig_state(known.path_mig_state);
        attr.set_qkey(known.qkey);
        attr.set_dest_qp_num(known.dest_qpn);
        attr.set_access(provider::Access::from_raw(known.access));
        attr.set_pkey_index(known.pkey_index);
        attr.set_alt_pkey_index(known.alt_pkey_index);
        attr.set_en_sqd_async_notify(known.en_sqd_async_notify);
        // Reported as by the C driver. The engine does not exceed the user's own values.
        attr.set_max_rd_atomic(proto::rounded_depth(known.max_rd_atomic));
        attr.set_max_dest_rd_atomic(proto::rounded_depth(known.max_dest_rd_atomic));
        attr.set_min_rnr_timer(known.min_rnr_timer);
        attr.set_port_num(known.port);
        attr.set_timeout(known.timeout);
        attr.set_retry_cnt(known.retry_cnt);
        attr.set_rnr_retry(known.rnr_retry);
        attr.set_alt_port_num(known.alt_port);
        attr.set_alt_timeout(known.alt_timeout);
        *attr.cap_mut() = copy_cap(&known.cap);
        if let Some(spec) = &known.path {
            ah::describe(attr.ah_mut(), spec);
        }
        *init.cap_mut() = copy_cap(&known.cap);
        init.set_signals_all(known.signals_all);
    }
}
