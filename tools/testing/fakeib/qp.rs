// SPDX-License-Identifier: GPL-2.0

//! Queue pairs, below the verbs, and what they do with datagrams; connections are in
//! [`crate::connected`].
//!
//! A [`QpCore`] is shared by its verbs object and by packets that are being handed to it. It
//! completes under its lock, so that a queue pair that has been ended completes nothing more.

use crate::connected::Connection;
use crate::connected::SendRequest;
use crate::cq::Done;
use crate::device::Fakeib;
use crate::mem;
use crate::mem::Owner;
use crate::mem::Regions;
use crate::proto::fabric::Head;
use crate::proto::mad;
use crate::proto::port_info::FIRST_MULTICAST;
use crate::ring::Ring;
use crate::world::Packet;
use crate::world::GRH;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::new_spinlock_irq;
use rdma::provider::wc::QpToken;
use rdma::provider::wr::Datagram;
use rdma::provider::*;
use rdma::sync::SpinLockIrq;
use rdma::sync::SpinLockIrqGuard;
use rdma::wire::headers::Grh;

/// Pieces of memory of a request at most.
pub(crate) const MAX_SGE: usize = 8;
/// The longest datagram.
pub(crate) const MAX_DATAGRAM: usize = 4096;

/// A request's memory.
pub(crate) struct Pieces {
    count: usize,
    sges: [Sge; MAX_SGE],
}

impl Pieces {
    pub(crate) fn get(&self) -> &[Sge] {
        self.sges.get(..self.count).unwrap_or(&[])
    }
}

impl Clone for Pieces {
    fn clone(&self) -> Self {
        let mut sges: [Sge; MAX_SGE] = Default::default();
        for (to, from) in sges.iter_mut().zip(&self.sges) {
            (to.addr, to.length, to.lkey) = (from.addr, from.length, from.lkey);
        }
        let count = self.count;
        Self { count, sges }
    }
}

/// Copies a request's list. `EINVAL` if it is too long.
pub(crate) fn sges_of(asked: Sges<'_>) -> Result<Pieces> {
    let mut sges: [Sge; MAX_SGE] = Default::default();
    let count = asked.len();
    let room = sges.get_mut(..count).ok_or(EINVAL)?;
    for (to, from) in room.iter_mut().zip(asked) {
        *to = from;
    }
    Ok(Pieces { count, sges })
}

/// A posted receive.
pub(crate) struct Recv {
    pub(crate) wr_id: u64,
    pub(crate) pieces: Pieces,
}

/// What a lock protects.
pub(crate) struct QpInner {
    pub(crate) state: QpState,
    pub(crate) qkey: u32,
    pub(crate) pkey_index: u16,
    /// It was destroyed.
    pub(crate) ended: bool,
    pub(crate) recvs: Ring<Recv>,
    /// Requests of a connection that are not done.
    pub(crate) sends: Ring<SendRequest>,
    pub(crate) connection: Connection,
    /// Adapter and number of the queue pair that waits for a receive of this one.
    pub(crate) parked: Option<(usize, u32)>,
}

/// A queue pair.
#[pin_data]
pub(crate) struct QpCore {
    pub(crate) number: u32,
    pub(crate) kind: QpType,
    pub(crate) sizes: Sizes,
    pub(crate) signals_all: bool,
    pub(crate) owner: Owner,
    pub(crate) token: QpToken,
    pub(crate) send_cq: Done,
    pub(crate) recv_cq: Done,
    #[pin]
    inner: SpinLockIrq<QpInner>,
}

/// Sizes of the queues, in requests and in pieces of memory.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    sends: u32,
    recvs: u32,
    send_sges: u32,
    recv_sges: u32,
}

impl Sizes {
    pub(crate) fn new(cap: &QpCap) -> Self {
        Self {
            sends: cap.max_send_wr,
            recvs: cap.max_recv_wr,
            send_sges: cap.max_send_sge,
            recv_sges: cap.max_recv_sge,
        }
    }

    pub(crate) fn tell(&self, cap: &mut QpCap) {
        cap.max_send_wr = self.sends;
        cap.max_recv_wr = self.recvs;
        cap.max_send_sge = self.send_sges;
        cap.max_recv_sge = self.recv_sges;
    }
}

/// What a queue pair is made from.
pub(crate) struct Plan {
    pub(crate) number: u32,
    pub(crate) kind: QpType,
    pub(crate) sizes: Sizes,
    pub(crate) signals_all: bool,
    pub(crate) owner: Owner,
    pub(crate) token: QpToken,
    pub(crate) send_cq: Done,
    pub(crate) recv_cq: Done,
}

impl QpCore {
    /// May sleep.
    pub(crate) fn new(plan: Plan) -> Result<Arc<Self>> {
        let inner = QpInner {
            state: QpState::Reset,
            qkey: 0,
            pkey_index: 0,
            ended: false,
            recvs: Ring::new(plan.sizes.recvs)?,
            sends: Ring::new(if plan.kind == QpType::Rc {
                plan.sizes.sends
            } else {
                0
            })?,
            connection: Connection::new(),
            parked: None,
        };
        Arc::pin_init(
            pin_init!(Self {
                number: plan.number,
                kind: plan.kind,
                sizes: plan.sizes,
                signals_all: plan.signals_all,
                owner: plan.owner,
                token: plan.token,
                send_cq: plan.send_cq,
                recv_cq: plan.recv_cq,
                inner <- new_spinlock_irq!(inner, "fakeib::QpCore::inner"),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn lock(&self) -> SpinLockIrqGuard<'_, QpInner> {
        self.inner.lock()
    }

    /// Its queue key. Any context.
    pub(crate) fn qkey(&self) -> u32 {
        self.lock().qkey
    }

    /// The index of its partition key. Any context.
    pub(crate) fn pkey_index(&self) -> u16 {
        self.lock().pkey_index
    }

    /// Posts a send. Any context.
    pub(crate) fn post_send(&self, device: &Fakeib, wr: &SendWr<'_, Fakeib>) -> Result {
        let imm = match wr.op()? {
            SendOp::Send => None,
            SendOp::SendImm(imm) => Some(imm),
            _ => return Err(EINVAL),
        };
        let to = wr.datagram().ok_or(EINVAL)?;
        let inner = self.lock();
        match inner.state {
            QpState::Rts | QpState::Sqd => (),
            QpState::Err => {
                self.flushed(wr.wr_id());
                return Ok(());
            }
            QpState::Reset | QpState::Init | QpState::Rtr | QpState::Sqe => return Err(EINVAL),
        }
        let (qkey, pkey_index) = (inner.qkey, inner.pkey_index);
        drop(inner);
        let status = match self.datagram(device, wr, &to, imm, qkey, pkey_index) {
            Ok(()) => bindings::ib_wc_status_IB_WC_SUCCESS,
            Err(e) if e == EFAULT => bindings::ib_wc_status_IB_WC_LOC_PROT_ERR,
            Err(e) if e == EMSGSIZE => bindings::ib_wc_status_IB_WC_LOC_LEN_ERR,
            Err(e) => return Err(e),
        };
        let good = status == bindings::ib_wc_status_IB_WC_SUCCESS;
        let mut inner = self.lock();
        if inner.ended {
            return Ok(());
        }
        if !good {
            inner.state = QpState::Sqe;
        }
        if self.signals_all || wr.signaled() || !good {
            let opcode = bindings::ib_wc_opcode_IB_WC_SEND;
            let wc = Wc::new(wr.wr_id(), self.token, status, opcode);
            self.send_cq.complete(wc, !good);
        }
        Ok(())
    }

    /// Makes a packet of a request and sends it.
    fn datagram(
        &self,
        device: &Fakeib,
        wr: &SendWr<'_, Fakeib>,
        to: &Datagram<'_, Fakeib>,
        imm: Option<[u8; 4]>,
        qkey: u32,
        pkey_index: u16,
    ) -> Result {
        let regions = &device.adapter.regions;
        let payload = mem::gather(regions, self.owner, sges_of(wr.sges())?.get(), MAX_DATAGRAM)?;
        let way = &**to.ah;
        let smp = self.kind == QpType::Smi;
        let pkey_index = match self.kind {
            QpType::Gsi => to.pkey_index,
            _ => pkey_index,
        };
        if smp && payload.len() != mad::LEN {
            return Err(EMSGSIZE);
        }
        let Some(host) = device.host else {
            // No cable.
            return Ok(());
        };
        let (slid, sgid, pkey) = device
            .world
            .look(|fabric| {
                let port = &fabric.host(host)?.port;
                let bits = u16::from(way.path_bits) & port.lid_mask();
                let pkey = port.pkeys.get(usize::from(pkey_index))?;
                // A port without a LID has that of all.
                let lid = if port.lid == 0 {
                    mad::PERMISSIVE
                } else {
                    port.lid | bits
                };
                let sgid = way.grh.as_ref().and_then(|g| port.gid(g.sgid_index.into()));
                Some((lid, sgid, *pkey))
            })
            .ok_or(EINVAL)?;
        let len = payload.len();
        let grh = match &way.grh {
            None => None,
            Some(g) => {
                let mut bytes = [0; GRH];
                let header = Grh {
                    traffic_class: g.traffic_class,
                    flow_label: g.flow_label & 0xf_ffff,
                    // BTH, DETH and ICRC are counted.
                    payload_len: u16::try_from(len.saturating_add(24))?,
                    next_header: 0x1b,
                    hop_limit: g.hop_limit,
                    sgid: sgid.ok_or(EINVAL)?,
                    dgid: g.dgid,
                };
                header.write(&mut bytes).ok_or(EINVAL)?;
                Some(bytes)
            }
        };
        let packet = Packet {
            head: Head {
                slid,
                dlid: way.dlid,
                len,
            },
            sl: way.sl,
            smp,
            pkey,
            dst_qp: to.qpn,
            src_qp: self.number,
            // The top bit asks for our own (IBA 10.2.5).
            qkey: if to.qkey >> 31 != 0 { qkey } else { to.qkey },
            grh,
            imm,
            solicited: wr.solicited(),
            payload,
        };
        device.world.send(host, packet)
    }

    /// Takes a packet into the first receive; without one it is lost. Softirq.
    pub(crate) fn receive(&self, regions: &Regions, packet: &Packet, pkey_index: u16, bits: u8) {
        let mut inner = self.lock();
        let (QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe) = inner.state else {
            return;
        };
        if inner.ended {
            return;
        }
        let Some(recv) = inner.recvs.pop() else {
            return;
        };
        let sges = recv.pieces.get();
        let copied = match &packet.grh {
            Some(grh) => mem::scatter(regions, self.owner, sges, 0, grh),
            None => Ok(()),
        }
        .and_then(|()| mem::scatter(regions, self.owner, sges, GRH, &packet.payload));
        let opcode = bindings::ib_wc_opcode_IB_WC_RECV;
        match copied {
            Ok(()) => {
                let len = packet.payload.len().saturating_add(GRH);
                let wc = Wc::success(recv.wr_id, self.token, opcode)
                    .byte_len(u32::try_from(len).unwrap_or(u32::MAX))
                    .from_lid(packet.src_qp, packet.head.slid, packet.sl, bits)
                    .pkey_index(pkey_index)
                    .port(crate::proto::fabric::HOST_PORT.into());
                let wc = if packet.grh.is_some() {
                    wc.global()
                } else {
                    wc
                };
                let wc = match packet.imm {
                    Some(imm) => wc.imm(imm),
                    None => wc,
                };
                self.recv_cq.complete(wc, packet.solicited);
            }
            Err(e) => {
                let status = if e == EMSGSIZE {
                    bindings::ib_wc_status_IB_WC_LOC_LEN_ERR
                } else {
                    bindings::ib_wc_status_IB_WC_LOC_PROT_ERR
                };
                let wc = Wc::new(recv.wr_id, self.token, status, opcode);
                self.recv_cq.complete(wc, true);
                inner.state = QpState::Err;
                // Nobody is parked with a queue pair of datagrams.
                let _ = self.flush(&mut inner);
            }
        }
    }

    /// Posts a receive. Any context.
    pub(crate) fn post_recv(&self, device: &Fakeib, wr: &RecvWr<'_>) -> Result {
        let recv = Recv {
            wr_id: wr.wr_id(),
            pieces: sges_of(wr.sges())?,
        };
        let mut inner = self.lock();
        match inner.state {
            QpState::Reset => return Err(EINVAL),
            QpState::Err => {
                self.recv_cq
                    .complete(Wc::flushed(recv.wr_id, self.token), true);
                return Ok(());
            }
            QpState::Init | QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe => {
                inner.recvs.push(recv).map_err(|_| ENOMEM)?;
            }
        }
        let parked = inner.parked.take();
        drop(inner);
        device.world.wake(parked);
        Ok(())
    }

    /// Completes a send as flushed.
    pub(crate) fn flushed(&self, wr_id: u64) {
        self.send_cq.complete(Wc::flushed(wr_id, self.token), true);
    }

    /// Completes all requests that are left as flushed. Answers who is to be woken.
    #[must_use = "it would wait for ever"]
    pub(crate) fn flush(&self, inner: &mut QpInner) -> Option<(usize, u32)> {
        while let Some(send) = inner.sends.pop() {
            self.flushed(send.wr_id());
        }
        while let Some(recv) = inner.recvs.pop() {
            self.recv_cq
                .complete(Wc::flushed(recv.wr_id, self.token), true);
        }
        inner.parked.take()
    }

    /// Forgets all requests, and all completions that were not polled. Answers who is to be
    /// woken.
    #[must_use = "it would wait for ever"]
    pub(crate) fn reset(&self, inner: &mut QpInner) -> Option<(usize, u32)> {
        while inner.sends.pop().is_some() {}
        while inner.recvs.pop().is_some() {}
        self.send_cq.forget(self.token);
        self.recv_cq.forget(self.token);
        inner.parked.take()
    }

    /// The queue pair is about to go: nothing completes any more, nor names it. Answers who is
    /// to be woken.
    #[must_use = "it would wait for ever"]
    pub(crate) fn end(&self) -> Option<(usize, u32)> {
        let mut inner = self.lock();
        inner.ended = true;
        self.reset(&mut inner)
    }
}

/// Where an address handle leads.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) dlid: u16,
    pub(crate) path_bits: u8,
    pub(crate) sl: u8,
    pub(crate) static_rate: u8,
    pub(crate) grh: Option<Route>,
}

/// The global part of a [`Way`].
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) dgid: Gid,
    pub(crate) sgid_index: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) flow_label: u32,
}

impl Way {
    /// Reads an attribute. `EINVAL` for what cannot be.
    pub(crate) fn new(attr: &AhAttr) -> Result<Self> {
        let dlid = attr.dlid().ok_or(EINVAL)?;
        let grh = attr.has_grh().then(|| Route {
            dgid: attr.dgid(),
            sgid_index: attr.sgid_index(),
            hop_limit: attr.hop_limit(),
            traffic_class: attr.traffic_class(),
            flow_label: attr.flow_label(),
        });
        let group = (FIRST_MULTICAST..mad::PERMISSIVE).contains(&dlid);
        if group && grh.is_none() {
            return Err(EINVAL);
        }
        Ok(Self {
            dlid,
            path_bits: attr.path_bits(),
            sl: attr.sl(),
            static_rate: attr.static_rate(),
            grh,
        })
    }

    /// Writes an attribute.
    pub(crate) fn tell(&self, attr: &mut AhAttr) {
        attr.set_lids(self.dlid, self.path_bits);
        attr.set_sl(self.sl);
        attr.set_static_rate(self.static_rate);
        attr.set_port_num(crate::proto::fabric::HOST_PORT.into());
        if let Some(g) = &self.grh {
            attr.set_grh(
                g.dgid,
                g.flow_label,
                g.sgid_index,
                g.hop_limit,
                g.traffic_class,
            );
        }
    }
}
