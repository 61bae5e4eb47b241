// SPDX-License-Identifier: GPL-2.0

//! Creation and destruction of queue pairs, as verbs objects. Process context; may sleep.

use super::attr::copy_cap;
use super::attr::Attr;
use super::attr::Peer;
use super::datagram::Destinations;
use super::park::Half;
use super::park::Parked;
use super::park::Parking;
use super::post::Posts;
use super::recv::RecvHalf;
use super::recv::Source;
use super::send::SendHalf;
use super::Qp;
use crate::device::Rxe;
use crate::limits;
use crate::proto;
use crate::proto::QpState;
use crate::proto::QpType;
use crate::proto::Qpn;
use crate::queue::cqe::Origin;
use crate::queue::layout::Layout;
use crate::queue::ring::Consumer;
use crate::queue::ring::Producer;
use crate::queue::store::Store;
use crate::queue::work::RecvBuffers;
use crate::queue::work::RecvQueue;
use crate::queue::work::SendQueue;
use crate::queue::wqe::SendCaps;
use crate::queue::wqe::SEND_HEAD;
use crate::queue::RingBuf;
use crate::srq::recv_ring;
use crate::user;
use crate::user::MapInfo;
use crate::user::QueueMap;
use kernel::new_mutex;
use kernel::new_work;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::sync::Arc;
use rdma::accounted;
use rdma::hrtimer::Pause;
use rdma::net::InFlight;
use rdma::new_spinlock_irq;
use rdma::new_timer;
use rdma::provider;
use rdma::provider::unsupported;
use rdma::provider::New;
use rdma::provider::QpCap;
use rdma::provider::QpInitAttr;
use rdma::token::RunToken;
use rdma::udata::Udata;

/// The driver's data of a queue pair.
pub(crate) struct QpObject {
    pub(crate) core: Arc<Qp>,
    _maps: [Option<QueueMap>; 2],
}

/// `struct rxe_create_qp_resp`.
#[derive(zerocopy_derive::IntoBytes, zerocopy_derive::Immutable)]
#[repr(C)]
struct QpAnswer {
    recv: MapInfo,
    send: MapInfo,
}

const _: () = assert!(size_of::<QpAnswer>() == size_of::<rdma::bindings::rxe_create_qp_resp>());

/// Validates the sizes and the type. Returns both.
fn check(attr: &QpInitAttr<Rxe>) -> Result<(QpType, QpCap)> {
    if attr.create_flags() != 0 {
        return Err(unsupported());
    }
    let kind = match attr.qp_type()? {
        provider::QpType::Rc => QpType::Rc,
        provider::QpType::Uc => QpType::Uc,
        provider::QpType::Ud => QpType::Ud,
        provider::QpType::Gsi => QpType::Gsi,
        provider::QpType::Smi
        | provider::QpType::RawPacket
        | provider::QpType::XrcIni
        | provider::QpType::XrcTgt
        | provider::QpType::Driver => return Err(unsupported()),
    };
    let cap = copy_cap(attr.cap());
    let recv_fits = attr.srq().is_some()
        || (cap.max_recv_wr <= limits::MAX_QP_WR && cap.max_recv_sge <= limits::MAX_SGE);
    if !recv_fits
        || cap.max_send_wr > limits::MAX_QP_WR
        || cap.max_send_sge > limits::MAX_SGE
        || cap.max_inline_data > limits::MAX_INLINE
        || (kind == QpType::Gsi && attr.port_num() != 1)
    {
        return Err(EINVAL);
    }
    Ok((kind, cap))
}

/// Creates a ring for send requests, and stores the resulting limits in `cap`.
fn send_ring(cap: &mut QpCap, store: Option<&Arc<Store>>) -> Result<(Layout, RingBuf)> {
    let room = cap.max_send_sge.checked_mul(16).ok_or(EINVAL)?;
    let room = room.max(cap.max_inline_data);
    cap.max_send_sge = room / 16;
    cap.max_inline_data = room;
    let entry = usize::try_from(room)?.max(8).checked_add(SEND_HEAD);
    let entry = entry.ok_or(EINVAL)?;
    let layout = Layout::new(cap.max_send_wr.max(1), entry).ok_or(EINVAL)?;
    cap.max_send_wr = layout.capacity();
    Ok((layout, RingBuf::new(&layout, store)?))
}

impl QpObject {
    /// Creates a queue pair (IBTA 11.2.4.1). May sleep.
    pub(crate) fn create(
        new: &mut New<'_, provider::Qp<Rxe>>,
        attr: &mut QpInitAttr<Rxe>,
        udata: &mut Udata<'_>,
    ) -> Result<Self> {
        let user = udata.is_user();
        if user {
            if udata.in_len() != 0 {
                return Err(EINVAL);
            }
            udata.expect_room::<QpAnswer>()?;
        }
        let (kind, mut cap) = check(attr)?;
        let send_cq = attr.send_cq().ok_or(EINVAL)?.core.clone();
        let recv_cq = attr.recv_cq().ok_or(EINVAL)?.core.clone();
        let srq = attr.srq().map(|srq| srq.core.clone());
        let pd = new.pd().ok_or(EINVAL)?.id;
        let dev = new.device().dev.clone();

        let slot = match kind {
            QpType::Gsi => dev
                .qps
                .reserve_exact(1, accounted::GFP)
                .map_err(|_| EINVAL)?,
            QpType::Rc | QpType::Uc | QpType::Ud => dev.qps.reserve(limits::QPN, accounted::GFP)?,
        };
        let number = slot.id();

        let store = user::store(udata);
        let (send_layout, send_mem) = send_ring(&mut cap, store)?;
        let caps = SendCaps {
            qp_type: kind,
            user,
            signal_all: attr.signals_all(),
            max_inline: cap.max_inline_data,
        };
        let max_send_sge = usize::try_from(cap.max_send_sge.max(1))?;
        let send_queue = SendQueue::new(
            Consumer::new(send_mem.clone(), send_layout),
            caps,
            max_send_sge,
        )?;
        let has_srq = srq.is_some();
        let mut recv_ring_of_own = None;
        let (source, max_recv_sge) = match srq {
            Some(srq) => {
                let max_sge = srq.max_sge();
                (Source::Shared(srq), max_sge)
            }
            None => {
                let (layout, ring) = recv_ring(cap.max_recv_wr.max(1), cap.max_recv_sge, store)?;
                cap.max_recv_wr = layout.capacity();
                let consumer = Consumer::new(ring.clone(), layout);
                recv_ring_of_own = Some((layout, ring));
                let max_sge = usize::try_from(cap.max_recv_sge)?;
                let queue = RecvQueue::new(consumer, max_sge);
                (Source::Own(queue), cap.max_recv_sge)
            }
        };

        let send_map = QueueMap::new(udata, &send_mem)?;
        let recv_map = match &recv_ring_of_own {
            Some((_, ring)) => QueueMap::new(udata, ring)?,
            None => None,
        };
        if user {
            let info =
                |map: &Option<QueueMap>| map.as_ref().map_or(MapInfo::default(), QueueMap::info);
            udata.respond_all(&QpAnswer {
                recv: info(&recv_map),
                send: info(&send_map),
            })?;
        }
        let posts = Posts {
            send: (!user).then(|| Producer::new(send_mem, send_layout)),
            recv: recv_ring_of_own
                .filter(|_| !user)
                .map(|(layout, ring)| Producer::new(ring, layout)),
            caps,
            max_send_sge,
            max_recv_sge,
        };
        let send_attr = proto::SendAttr::new(kind, Qpn(number));
        let send_slots = SendHalf::slots(&send_queue)?;
        let destinations = Destinations::new(kind)?;
        let unsent = match kind {
            // All programs share queue pair 1: no receiver may make it wait.
            QpType::Rc | QpType::Gsi => None,
            QpType::Uc | QpType::Ud => Some(InFlight::new(rdma::resident!(), accounted::GFP)?),
        };
        let recv_attr = proto::RecvAttr::new(kind);
        let recv_buffers = RecvBuffers::new(usize::try_from(max_recv_sge)?)?;
        let peer = Peer {
            has_srq,
            qkey: 0,
            drain_notify: false,
        };
        let origin = Origin {
            qpn: number,
            port: 1,
            qp: new.token(),
        };
        let known = Attr::new(copy_cap(&cap), attr.signals_all(), 1);
        let tag = dev.tag();
        let faults = user::faults(udata);
        let parking = |half| {
            faults
                .map(|share| Parking::new(share, &dev, half))
                .transpose()
        };
        let (for_send, for_recv) = (parking(Half::Send)?, parking(Half::Recv)?);
        let (for_qp, upcall) = (dev.clone(), new.upcall());
        let core = Arc::pin_init(
            pin_init!(Qp {
                dev: for_qp,
                number,
                kind,
                user,
                pd,
                tag,
                origin,
                state: Atomic::new(u32::from(QpState::Reset.code())),
                dest: Atomic::new(0),
                recv_wanted: Atomic::new(0),
                peer <- new_spinlock_irq!(peer, "rxe::Qp::peer"),
                modify <- new_mutex!(known, "rxe::Qp::modify"),
                posts <- new_spinlock_irq!(posts, "rxe::Qp::posts"),
                send: RunToken::new(SendHalf::new(
                    send_slots,
                    send_queue,
                    destinations,
                    send_attr,
                )),
                recv: RunToken::new(RecvHalf::new(source, recv_buffers, recv_attr)),
                responses: crate::net::RxQueue::new(),
                requests: crate::net::RxQueue::new(),
                unsent,
                send_cq,
                recv_cq,
                upcall,
                send_timer <- new_timer!("rxe::Qp::send_timer"),
                recv_timer <- new_timer!("rxe::Qp::recv_timer"),
                pause <- Pause::new(rdma::resident!()),
                ack_timeout <- Pause::new(rdma::resident!()),
                ack_waits: Atomic::new(false),
                heard: Atomic::new(false),
                replied: Atomic::new(0),
                rung: Atomic::new(0),
                slept: Atomic::new(0),
                preempted: Atomic::new(0),
                ringer: Atomic::new(0),
                gap: Atomic::new(0),
                send_pump <- new_work!("rxe::Qp::send_pump"),
                recv_pump <- new_work!("rxe::Qp::recv_pump"),
                send_parking <- Parked::new(for_send),
                recv_parking <- Parked::new(for_recv),
                send_later <- new_work!("rxe::Qp::send_later"),
                resident: rdma::resident!(),
            }),
            accounted::GFP,
        )?;
        if let Some(unsent) = &core.unsent {
            unsent.attach(core.clone());
        }
        new.set_qp_num(number);
        *attr.cap_mut() = cap;
        slot.publish(core.clone());
        Ok(Self {
            core,
            _maps: [send_map, recv_map],
        })
    }
}

impl Drop for QpObject {
    fn drop(&mut self) {
        if self.core.kind.is_datagram() {
            // Nobody waits for an acknowledgement of what is held back.
            Qp::uncork_entirely(self.core.as_arc_borrow());
        }
        drop(self.core.dev.qps.remove(self.core.number));
        Qp::shutdown(&self.core);
    }
}
