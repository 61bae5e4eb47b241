// SPDX-License-Identifier: GPL-2.0

//! Requests of kernel users: validated and written into the rings, from any context.

use super::Qp;
use crate::device::Rxe;
use crate::limits;
use crate::proto;
use crate::proto::Key;
use crate::proto::QpState;
use crate::proto::Qpn;
use crate::proto::SendFlags;
use crate::proto::SendOp;
use crate::proto::UdDest;
use crate::queue::encode;
use crate::queue::encode::KernelData;
use crate::queue::encode::KernelSend;
use crate::queue::ring::Producer;
use crate::queue::wqe::LocalOp;
use crate::queue::wqe::SendCaps;
use crate::queue::RingBuf;
use crate::srq::post_error;
use crate::srq::post_recvs;
use crate::srq::with_sges;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::features::smp_mb;
use rdma::provider;
use rdma::provider::RecvWrs;
use rdma::provider::SendWr;
use rdma::provider::SendWrs;

/// Q_Key bit by which a sender selects the Q_Key of its own queue pair (IBTA 10.2.5).
const OWN_QKEY: u32 = 1 << 31;

/// The producers of a kernel user's rings. `None` for user queue pairs.
pub(super) struct Posts {
    pub(super) send: Option<Producer<RingBuf>>,
    pub(super) recv: Option<Producer<RingBuf>>,
    pub(super) caps: SendCaps,
    pub(super) max_send_sge: usize,
    pub(super) max_recv_sge: u32,
}

impl Qp {
    /// Posts a kernel user's send requests, or rings a user's doorbell.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair's state does not allow sending or a request is invalid, `ENOMEM`
    /// if the queue is full.
    pub(crate) fn post_send(this: &Arc<Self>, wrs: &mut SendWrs<'_, Rxe>) -> Result {
        match this.state() {
            QpState::Reset | QpState::Init | QpState::Rtr => return Err(EINVAL),
            QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err => {}
        }
        if this.user {
            Self::doorbell(this.as_arc_borrow());
            return Ok(());
        }
        let posted = {
            let mut posts = this.posts.lock();
            let posts = &mut *posts;
            wrs.try_for_each(|wr| this.post_one(posts, &wr))
        };
        // Requests before a refused one are posted.
        Self::pump_send(this.as_arc_borrow());
        posted
    }

    fn post_one(&self, posts: &mut Posts, wr: &SendWr<'_, Rxe>) -> Result {
        let Posts {
            send,
            recv: _,
            caps,
            max_send_sge,
            max_recv_sge: _,
        } = posts;
        let ring = send.as_mut().ok_or(EINVAL)?;
        let (op, local) = translate(wr)?;
        let ud = match wr.datagram() {
            Some(to) => {
                let qkey = if to.qkey & OWN_QKEY != 0 && self.number != 1 {
                    self.own_qkey()
                } else {
                    to.qkey
                };
                let dest = UdDest {
                    qpn: Qpn(to.qpn & 0x00ff_ffff),
                    qkey,
                };
                Some((dest, to.ah.number()))
            }
            None => None,
        };
        let flags = SendFlags {
            signaled: wr.signaled(),
            solicited: wr.solicited(),
            fence: wr.fence(),
        };
        let send = KernelSend {
            wr_id: wr.wr_id(),
            op,
            flags,
            ud,
            local,
            data: KernelData::Sges(&[]),
        };
        if wr.inline() {
            return post_inline(ring, caps, *max_send_sge, send, wr);
        }
        with_sges(wr.sges(), |list| {
            let data = KernelData::Sges(list);
            encode::post_send(ring, caps, *max_send_sge, &KernelSend { data, ..send })
                .map_err(post_error)
        })
    }

    /// Posts a kernel user's receive requests.
    ///
    /// # Errors
    ///
    /// `EINVAL` before INIT, with a shared receive queue, or for an invalid request; `ENOMEM` if
    /// the queue is full.
    pub(crate) fn post_recv(this: &Arc<Self>, wrs: &mut RecvWrs<'_>) -> Result {
        if this.state() == QpState::Reset {
            return Err(EINVAL);
        }
        let posted = {
            let mut posts = this.posts.lock();
            let max_sge = posts.max_recv_sge;
            let ring = posts.recv.as_mut().ok_or(EINVAL)?;
            post_recvs(ring, max_sge, wrs)
        };
        // Pairs with the barrier in `set_state`: either the transition to the error state sees the
        // request, or the new state is seen here.
        smp_mb();
        if this.state() == QpState::Err {
            Self::pump_recv(this.as_arc_borrow());
        }
        posted
    }
}

/// The end of [`Qp::post_one`] for inline data. A separate function, so that other requests do not
/// pay for the large array on the stack.
#[inline(never)]
fn post_inline(
    ring: &mut Producer<RingBuf>,
    caps: &SendCaps,
    max_sge: usize,
    send: KernelSend<'_>,
    wr: &SendWr<'_, Rxe>,
) -> Result {
    let mut pieces: [&[u8]; limits::MAX_SGE as usize] = [&[]; limits::MAX_SGE as usize];
    let data = KernelData::Inline(wr.inline_data(&mut pieces).ok_or(EINVAL)?);
    let send = KernelSend { data, ..send };
    encode::post_send(ring, caps, max_sge, &send).map_err(post_error)
}

/// Converts a kernel user's request to the engine's operation and the local operation, if any.
fn translate(wr: &SendWr<'_, Rxe>) -> Result<(SendOp, Option<LocalOp>)> {
    Ok(match wr.op()? {
        provider::SendOp::Send => (SendOp::Send { imm: None }, None),
        provider::SendOp::SendImm(imm) => (SendOp::Send { imm: Some(imm) }, None),
        provider::SendOp::SendInv(key) => (SendOp::SendInv { key: Key(key) }, None),
        provider::SendOp::Write { addr, rkey } => {
            let key = Key(rkey);
            (
                SendOp::Write {
                    va: addr,
                    key,
                    imm: None,
                },
                None,
            )
        }
        provider::SendOp::WriteImm { addr, rkey, imm } => {
            let key = Key(rkey);
            let imm = Some(imm);
            (SendOp::Write { va: addr, key, imm }, None)
        }
        provider::SendOp::Read { addr, rkey } => {
            let key = Key(rkey);
            (SendOp::Read { va: addr, key }, None)
        }
        // There is no such packet; the consumer invalidates the key when the read has completed.
        provider::SendOp::ReadInv { .. } => return Err(EINVAL),
        provider::SendOp::CompareSwap {
            addr,
            rkey,
            compare,
            swap,
        } => {
            let key = Key(rkey);
            (
                SendOp::CompareSwap {
                    va: addr,
                    key,
                    compare,
                    swap,
                },
                None,
            )
        }
        provider::SendOp::FetchAdd { addr, rkey, add } => {
            let key = Key(rkey);
            (SendOp::FetchAdd { va: addr, key, add }, None)
        }
        provider::SendOp::LocalInv(key) => (SendOp::LocalInv { key: Key(key) }, None),
        provider::SendOp::RegMr { mr, key, access } => {
            let local = LocalOp::RegMr {
                key: Key(key),
                access: access.raw(),
                iova: mr.iova(),
            };
            (proto::SendOp::RegMr, Some(local))
        }
    })
}
