// SPDX-License-Identifier: GPL-2.0

//! Reliable connections.
//!
//! Nothing is lost on the way, so a connection is only this: the oldest request of a queue pair
//! is carried out on its peer's memory, then completed, then the next one. The work item of the
//! fabric does it, so of all connections one request runs at a time. A send that finds no
//! receive is parked with the peer, whose next receive starts it again, as if the peer were
//! asked without end. Atomic operations and shared receive queues are not there.
//!
//! Locks: of two queue pairs never both are taken at once.

use crate::device::Fakeib;
use crate::mem;
use crate::mem::Owner;
use crate::qp::sges_of;
use crate::qp::Pieces;
use crate::qp::QpCore;
use crate::world::Adapter;
use crate::world::World;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::bindings;
use rdma::provider::*;

/// The longest message.
pub(crate) const MAX_MESSAGE: u32 = 1 << 30;
/// Bytes that are copied at a time.
const CHUNK: usize = 4096;
/// Requests of one queue pair before others have their turn.
const BUDGET: usize = 16;

/// What a request does.
#[derive(Clone, Copy)]
enum Op {
    /// A message.
    Send { imm: Option<[u8; 4]> },
    /// A write to the peer's memory, with immediate data also the end of a receive.
    Write {
        addr: u64,
        rkey: u32,
        imm: Option<[u8; 4]>,
    },
    /// A read of the peer's memory.
    Read { addr: u64, rkey: u32 },
}

/// A posted request.
pub(crate) struct SendRequest {
    wr_id: u64,
    op: Op,
    pieces: Pieces,
    signaled: bool,
    solicited: bool,
}

impl SendRequest {
    pub(crate) fn wr_id(&self) -> u64 {
        self.wr_id
    }

    fn opcode(&self) -> bindings::ib_wc_opcode {
        match self.op {
            Op::Send { .. } => bindings::ib_wc_opcode_IB_WC_SEND,
            Op::Write { .. } => bindings::ib_wc_opcode_IB_WC_RDMA_WRITE,
            Op::Read { .. } => bindings::ib_wc_opcode_IB_WC_RDMA_READ,
        }
    }
}

/// What came of a request.
enum Outcome {
    /// It is done.
    Done,
    /// The peer has no receive; it is parked there.
    Parked,
    /// It failed, with this status.
    Failed(bindings::ib_wc_status),
}

/// One end of a copy.
enum End<'a> {
    /// Memory of a request.
    Local(&'a [Sge]),
    /// Memory that a peer named.
    Remote { addr: u64, rkey: u32 },
}

impl QpCore {
    /// Posts a request on a connection. Any context.
    pub(crate) fn post_connected(&self, device: &Fakeib, wr: &SendWr<'_, Fakeib>) -> Result {
        let op = match wr.op()? {
            SendOp::Send => Op::Send { imm: None },
            SendOp::SendImm(imm) => Op::Send { imm: Some(imm) },
            SendOp::Write { addr, rkey } => Op::Write {
                addr,
                rkey,
                imm: None,
            },
            SendOp::WriteImm { addr, rkey, imm } => Op::Write {
                addr,
                rkey,
                imm: Some(imm),
            },
            SendOp::Read { addr, rkey } => Op::Read { addr, rkey },
            _ => return Err(EINVAL),
        };
        let send = SendRequest {
            wr_id: wr.wr_id(),
            op,
            pieces: sges_of(wr.sges())?,
            signaled: self.signals_all || wr.signaled(),
            solicited: wr.solicited(),
        };
        if mem::total(send.pieces.get()) > u64::from(MAX_MESSAGE) {
            return Err(EINVAL);
        }
        let mut inner = self.lock();
        match inner.state {
            QpState::Rts | QpState::Sqd => (),
            QpState::Err => {
                self.flushed(send.wr_id);
                return Ok(());
            }
            QpState::Reset | QpState::Init | QpState::Rtr | QpState::Sqe => return Err(EINVAL),
        }
        inner.sends.push(send).map_err(|_| ENOMEM)?;
        drop(inner);
        match device.host {
            Some(host) => device.world.kick(host, self.number),
            None => Ok(()),
        }
    }
}

/// Carries out requests of a queue pair of adapter `host`. Softirq.
pub(crate) fn run(world: &Arc<World>, host: usize, number: u32) {
    let Some(adapter) = world.adapters.get(host) else {
        return;
    };
    let Some(qp) = adapter.qps.get(number) else {
        return;
    };
    for _ in 0..BUDGET {
        let Some((send, peer_number, dlid)) = next(&qp) else {
            return;
        };
        let outcome = one(world, host, adapter, &qp, &send, peer_number, dlid);
        let mut inner = qp.lock();
        if inner.ended || inner.state != QpState::Rts {
            // It was flushed, or forgotten, meanwhile.
            return;
        }
        let status = match outcome {
            Outcome::Parked => return,
            Outcome::Done => bindings::ib_wc_status_IB_WC_SUCCESS,
            Outcome::Failed(status) => status,
        };
        drop(inner.sends.pop());
        let good = status == bindings::ib_wc_status_IB_WC_SUCCESS;
        if send.signaled || !good {
            let len = u32::try_from(mem::total(send.pieces.get())).unwrap_or(u32::MAX);
            let wc = Wc::new(send.wr_id, qp.token, status, send.opcode()).byte_len(len);
            qp.send_cq.complete(wc, !good);
        }
        if !good {
            inner.state = QpState::Err;
            let parked = qp.flush(&mut inner);
            drop(inner);
            world.wake(parked);
            return;
        }
    }
    // Without memory the next post goes on.
    let _ = world.kick(host, number);
}

/// The oldest request, where it goes, and the LID of that.
fn next(qp: &QpCore) -> Option<(SendRequest, u32, u16)> {
    let inner = qp.lock();
    if inner.ended || inner.state != QpState::Rts {
        return None;
    }
    let send = inner.sends.peek()?;
    let copy = SendRequest {
        wr_id: send.wr_id,
        op: send.op,
        pieces: send.pieces.clone(),
        signaled: send.signaled,
        solicited: send.solicited,
    };
    Some((
        copy,
        inner.connection.peer,
        inner.connection.way.as_ref()?.dlid,
    ))
}

/// Carries out one request.
fn one(
    world: &Arc<World>,
    host: usize,
    adapter: &Adapter,
    qp: &QpCore,
    send: &SendRequest,
    peer_number: u32,
    dlid: u16,
) -> Outcome {
    let lost = Outcome::Failed(bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR);
    let pieces = send.pieces.get();
    let len = match usize::try_from(mem::total(pieces)) {
        Ok(len) => len,
        Err(_) => return Outcome::Failed(bindings::ib_wc_status_IB_WC_LOC_LEN_ERR),
    };
    let Some(there) = world.reach(host, dlid, len) else {
        return lost;
    };
    let Some(far) = world.adapters.get(there) else {
        return lost;
    };
    let Some(peer) = far.qps.get(peer_number) else {
        return lost;
    };
    let (owner, peer_owner) = (qp.owner, peer.owner);
    let (access, recv) = {
        let mut inner = peer.lock();
        let ready = matches!(inner.state, QpState::Rtr | QpState::Rts | QpState::Sqd);
        if !ready || inner.ended || peer.kind != QpType::Rc || inner.connection.peer != qp.number {
            return lost;
        }
        let takes = match send.op {
            Op::Send { .. } | Op::Write { imm: Some(_), .. } => true,
            Op::Write { imm: None, .. } | Op::Read { .. } => false,
        };
        let recv = if takes { inner.recvs.pop() } else { None };
        if takes && recv.is_none() {
            inner.parked = Some((host, qp.number));
            return Outcome::Parked;
        }
        (inner.connection.access, recv)
    };
    let local = (adapter, owner, End::Local(pieces));
    let copied = match send.op {
        Op::Send { .. } => {
            let room = recv.as_ref().map_or(&[][..], |recv| recv.pieces.get());
            copy(local, (far, peer_owner, End::Local(room)), len)
        }
        Op::Write { addr, rkey, .. } => {
            if access.contains(Access::REMOTE_WRITE) || len == 0 {
                copy(local, (far, peer_owner, End::Remote { addr, rkey }), len)
            } else {
                Err(Fault::Destination(EFAULT))
            }
        }
        Op::Read { addr, rkey } => {
            if access.contains(Access::REMOTE_READ) || len == 0 {
                copy((far, peer_owner, End::Remote { addr, rkey }), local, len)
            } else {
                Err(Fault::Source)
            }
        }
    };
    let (own_fault, peer_fault) = match (&copied, send.op) {
        (Ok(()), _) => (None, None),
        (Err(Fault::Memory), _) => (Some(bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR), None),
        (Err(Fault::Source), Op::Read { .. }) | (Err(Fault::Destination(_)), Op::Write { .. }) => (
            Some(bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR),
            Some(bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR),
        ),
        (Err(Fault::Source), _) | (Err(Fault::Destination(_)), Op::Read { .. }) => {
            (Some(bindings::ib_wc_status_IB_WC_LOC_PROT_ERR), None)
        }
        (Err(Fault::Destination(e)), Op::Send { .. }) if *e == EMSGSIZE => (
            Some(bindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR),
            Some(bindings::ib_wc_status_IB_WC_LOC_LEN_ERR),
        ),
        (Err(Fault::Destination(_)), Op::Send { .. }) => (
            Some(bindings::ib_wc_status_IB_WC_REM_OP_ERR),
            Some(bindings::ib_wc_status_IB_WC_LOC_PROT_ERR),
        ),
    };
    let mut parked = None;
    let mut inner = peer.lock();
    if !inner.ended {
        if let Some(recv) = recv {
            let wc = match peer_fault {
                Some(status) => Wc::new(
                    recv.wr_id,
                    peer.token,
                    status,
                    bindings::ib_wc_opcode_IB_WC_RECV,
                ),
                None if own_fault.is_some() => Wc::flushed(recv.wr_id, peer.token),
                None => received(recv.wr_id, &peer, send, len),
            };
            peer.recv_cq
                .complete(wc, send.solicited || own_fault.is_some());
        }
        // What breaks a request at its end breaks the connection there, too.
        if peer_fault.is_some() {
            inner.state = QpState::Err;
            parked = peer.flush(&mut inner);
        }
    }
    drop(inner);
    world.wake(parked);
    match own_fault {
        None => Outcome::Done,
        Some(status) => Outcome::Failed(status),
    }
}

/// The completion of a receive.
fn received(wr_id: u64, peer: &QpCore, send: &SendRequest, len: usize) -> Wc {
    let (opcode, imm) = match send.op {
        Op::Write { imm, .. } => (bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM, imm),
        Op::Send { imm } => (bindings::ib_wc_opcode_IB_WC_RECV, imm),
        Op::Read { .. } => (bindings::ib_wc_opcode_IB_WC_RECV, None),
    };
    let wc = Wc::success(wr_id, peer.token, opcode)
        .byte_len(u32::try_from(len).unwrap_or(u32::MAX))
        .port(crate::proto::fabric::HOST_PORT.into());
    match imm {
        Some(imm) => wc.imm(imm),
        None => wc,
    }
}

/// Which end of a copy failed.
enum Fault {
    /// Where it came from.
    Source,
    /// Where it went to, and why.
    Destination(Error),
    /// There was no memory for it.
    Memory,
}

/// Copies `len` bytes from one end to the other.
fn copy(
    from: (&Adapter, Owner, End<'_>),
    to: (&Adapter, Owner, End<'_>),
    len: usize,
) -> Result<(), Fault> {
    let mut buf = KVec::from_elem(0u8, len.min(CHUNK), GFP_ATOMIC).map_err(|_| Fault::Memory)?;
    let mut done = 0usize;
    while done < len {
        let n = (len - done).min(CHUNK);
        let chunk = buf.get_mut(..n).ok_or(Fault::Memory)?;
        let (adapter, owner, end) = &from;
        match end {
            End::Local(sges) => mem::gather_at(&adapter.regions, *owner, sges, done, chunk),
            End::Remote { addr, rkey } => at(*addr, done)
                .and_then(|addr| mem::read_remote(&adapter.regions, *owner, *rkey, addr, chunk)),
        }
        .map_err(|_| Fault::Source)?;
        let (adapter, owner, end) = &to;
        match end {
            End::Local(sges) => mem::scatter(&adapter.regions, *owner, sges, done, chunk),
            End::Remote { addr, rkey } => at(*addr, done)
                .and_then(|addr| mem::write_remote(&adapter.regions, *owner, *rkey, addr, chunk)),
        }
        .map_err(Fault::Destination)?;
        done += n;
    }
    Ok(())
}

fn at(addr: u64, offset: usize) -> Result<u64> {
    addr.checked_add(u64::try_from(offset)?).ok_or(EFAULT)
}

/// What a connection was told by [`Provider::modify_qp`].
pub(crate) struct Connection {
    pub(crate) way: Option<crate::qp::Way>,
    pub(crate) peer: u32,
    pub(crate) access: Access,
    path_mtu: u32,
    rq_psn: u32,
    sq_psn: u32,
    timeout: u8,
    retry_cnt: u8,
    rnr_retry: u8,
    min_rnr_timer: u8,
    reads: u8,
    peer_reads: u8,
}

impl Connection {
    pub(crate) fn new() -> Self {
        Self {
            way: None,
            peer: 0,
            access: Access::from_raw(0),
            path_mtu: 0,
            rq_psn: 0,
            sq_psn: 0,
            timeout: 0,
            retry_cnt: 0,
            rnr_retry: 0,
            min_rnr_timer: 0,
            reads: 0,
            peer_reads: 0,
        }
    }

    /// Takes what `mask` names.
    pub(crate) fn set(&mut self, attr: QpChange<'_>, mask: QpAttrMask) -> Result {
        if let Some(ah) = attr.ah() {
            self.way = Some(crate::qp::Way::new(ah)?);
        }
        let mut take = |bit, f: &mut dyn FnMut(&mut Self)| {
            if mask.contains(bit) {
                f(self);
            }
        };
        take(QpAttrMask::DEST_QPN, &mut |c| c.peer = attr.dest_qp_num());
        take(QpAttrMask::ACCESS_FLAGS, &mut |c| c.access = attr.access());
        take(QpAttrMask::PATH_MTU, &mut |c| c.path_mtu = attr.path_mtu());
        take(QpAttrMask::RQ_PSN, &mut |c| c.rq_psn = attr.rq_psn());
        take(QpAttrMask::SQ_PSN, &mut |c| c.sq_psn = attr.sq_psn());
        take(QpAttrMask::TIMEOUT, &mut |c| c.timeout = attr.timeout());
        take(QpAttrMask::RETRY_CNT, &mut |c| {
            c.retry_cnt = attr.retry_cnt()
        });
        take(QpAttrMask::RNR_RETRY, &mut |c| {
            c.rnr_retry = attr.rnr_retry()
        });
        take(QpAttrMask::MIN_RNR_TIMER, &mut |c| {
            c.min_rnr_timer = attr.min_rnr_timer()
        });
        take(QpAttrMask::MAX_QP_RD_ATOMIC, &mut |c| {
            c.reads = attr.max_rd_atomic()
        });
        take(QpAttrMask::MAX_DEST_RD_ATOMIC, &mut |c| {
            c.peer_reads = attr.max_dest_rd_atomic()
        });
        Ok(())
    }

    /// Tells all of it.
    pub(crate) fn tell(&self, attr: &mut QpAttr) {
        if let Some(way) = &self.way {
            way.tell(attr.ah_mut());
        }
        attr.set_dest_qp_num(self.peer);
        attr.set_access(self.access);
        attr.set_path_mtu(self.path_mtu);
        attr.set_rq_psn(self.rq_psn);
        attr.set_sq_psn(self.sq_psn);
        attr.set_timeout(self.timeout);
        attr.set_retry_cnt(self.retry_cnt);
        attr.set_rnr_retry(self.rnr_retry);
        attr.set_min_rnr_timer(self.min_rnr_timer);
        attr.set_max_rd_atomic(self.reads);
        attr.set_max_dest_rd_atomic(self.peer_reads);
    }
}
