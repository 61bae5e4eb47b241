// SPDX-License-Identifier: GPL-2.0

//! Encodes requests of kernel users into rings of the same format.
//!
//! A kernel user's request is validated when it is posted, in any context. The ring entry is later
//! parsed like that of a user. No kernel pointers are stored: objects are named by number.
//!
//! Pure: no kernel imports; tested on the host.

use super::ring::{Blank, Producer, PushError, RingMem};
use super::wqe::{
    at, flag, is_legal, op, traffic, LocalOp, SendCaps, Traffic, RECV_HEAD, SEND_HEAD,
};
use crate::mem::sge::{total, Sge};
use crate::proto::types::MAX_MESSAGE;
use crate::proto::{SendFlags, SendOp, UdDest};
use zerocopy::IntoBytes;

/// Reasons why a request was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The queue is full: `ENOMEM`, as in the C driver.
    Full,
    /// The request is malformed or not allowed on this queue: `EINVAL`.
    Invalid,
}

impl From<PushError> for PostError {
    fn from(error: PushError) -> Self {
        match error {
            PushError::Full => PostError::Full,
            PushError::TooLong => PostError::Invalid,
        }
    }
}

/// The local buffers of a kernel user's request.
#[derive(Clone, Copy)]
pub enum KernelData<'a> {
    /// Memory, named by keys.
    Sges(&'a [Sge]),
    /// Bytes to be copied when posting (`IB_SEND_INLINE`).
    Inline(&'a [&'a [u8]]),
}

/// A kernel user's send request.
#[derive(Clone, Copy)]
pub struct KernelSend<'a> {
    /// `wr_id`, or the address of the `wr_cqe`.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// Flags of the request.
    pub flags: SendFlags,
    /// On a datagram queue pair: the destination and the number of the address handle.
    pub ud: Option<(UdDest, u32)>,
    /// Parameters of `RegMr` and `BindMw`.
    pub local: Option<LocalOp>,
    /// Local buffers.
    pub data: KernelData<'a>,
}

/// Posts a send request. `max_sge` is the queue's limit.
///
/// # Errors
///
/// See [`PostError`]. Nothing is posted then.
pub fn post_send<M: RingMem>(
    ring: &mut Producer<M>,
    caps: &SendCaps,
    max_sge: usize,
    send: &KernelSend<'_>,
) -> Result<(), PostError> {
    let length = check(caps, max_sge, send).ok_or(PostError::Invalid)?;
    let mut head = [0u8; SEND_HEAD];
    head_of(&mut head, send, length).ok_or(PostError::Invalid)?;
    ring.push(|blank| {
        blank.write(0, &head)?;
        data(blank, send)
    })?;
    Ok(())
}

/// Posts a receive request. `max_sge` is the queue's limit.
///
/// # Errors
///
/// See [`PostError`]. Nothing is posted then.
pub fn post_recv<M: RingMem>(
    ring: &mut Producer<M>,
    max_sge: usize,
    wr_id: u64,
    sges: &[Sge],
) -> Result<(), PostError> {
    if sges.len() > max_sge || total(sges) > u64::from(MAX_MESSAGE) {
        return Err(PostError::Invalid);
    }
    let num_sge = u32::try_from(sges.len()).map_err(|_| PostError::Invalid)?;
    ring.push(|blank| {
        blank.write(at::WR_ID, &wr_id.to_ne_bytes())?;
        blank.write(at::RECV_DMA + at::DMA_NUM_SGE, &num_sge.to_ne_bytes())?;
        blank.write(RECV_HEAD, sges.as_bytes())
    })?;
    Ok(())
}

/// Validates a request for this queue and returns its length.
fn check(caps: &SendCaps, max_sge: usize, send: &KernelSend<'_>) -> Option<u32> {
    if !is_legal(&send.op, caps) || send.ud.is_some() != caps.qp_type.is_datagram() {
        return None;
    }
    let local_fits = match (&send.op, &send.local) {
        (SendOp::RegMr, Some(LocalOp::RegMr { .. })) => true,
        (SendOp::BindMw, Some(LocalOp::BindMw(_))) => true,
        (SendOp::RegMr | SendOp::BindMw, _) => false,
        (_, local) => local.is_none(),
    };
    if !local_fits {
        return None;
    }
    let length = match send.data {
        KernelData::Sges(list) => {
            if list.len() > max_sge {
                return None;
            }
            total(list)
        }
        KernelData::Inline(pieces) => {
            let length = pieces
                .iter()
                .fold(0u64, |sum, piece| sum.saturating_add(piece.len() as u64));
            if traffic(&send.op) != Traffic::Out || length > u64::from(caps.max_inline) {
                return None;
            }
            length
        }
    };
    let aligned = match send.op {
        SendOp::CompareSwap { va, .. } | SendOp::FetchAdd { va, .. } => length == 8 && va % 8 == 0,
        SendOp::AtomicWrite { va, .. } => va % 8 == 0,
        SendOp::Send { .. }
        | SendOp::SendInv { .. }
        | SendOp::Write { .. }
        | SendOp::Read { .. }
        | SendOp::Flush { .. }
        | SendOp::LocalInv { .. }
        | SendOp::RegMr
        | SendOp::BindMw => true,
    };
    u32::try_from(length)
        .ok()
        .filter(|length| aligned && *length <= MAX_MESSAGE)
}

fn head_of(head: &mut [u8; SEND_HEAD], send: &KernelSend<'_>, length: u32) -> Option<()> {
    let mut put = |offset: usize, bytes: &[u8]| -> Option<()> {
        let end = offset.checked_add(bytes.len())?;
        head.get_mut(offset..end)?.copy_from_slice(bytes);
        Some(())
    };
    put(at::WR_ID, &send.wr_id.to_ne_bytes())?;

    let mut flags = 0;
    let SendFlags {
        signaled,
        solicited,
        fence,
    } = send.flags;
    for (is_set, bit) in [
        (signaled, flag::SIGNALED),
        (solicited, flag::SOLICITED),
        (fence, flag::FENCE),
        (matches!(send.data, KernelData::Inline(_)), flag::INLINE),
    ] {
        flags |= if is_set { bit } else { 0 };
    }
    put(at::FLAGS, &flags.to_ne_bytes())?;

    let mut dma_length = length;
    let opcode = match send.op {
        SendOp::Send { imm: None } => op::SEND,
        SendOp::Send { imm: Some(imm) } => {
            put(at::EX, &imm)?;
            op::SEND_IMM
        }
        SendOp::SendInv { key } => {
            put(at::EX, &key.0.to_ne_bytes())?;
            op::SEND_INV
        }
        SendOp::Write { va, key, imm } => {
            put(at::REMOTE_ADDR, &va.to_ne_bytes())?;
            put(at::RDMA_RKEY, &key.0.to_ne_bytes())?;
            match imm {
                None => op::WRITE,
                Some(imm) => {
                    put(at::EX, &imm)?;
                    op::WRITE_IMM
                }
            }
        }
        SendOp::Read { va, key } => {
            put(at::REMOTE_ADDR, &va.to_ne_bytes())?;
            put(at::RDMA_RKEY, &key.0.to_ne_bytes())?;
            op::READ
        }
        SendOp::CompareSwap {
            va,
            key,
            compare,
            swap,
        } => {
            put(at::REMOTE_ADDR, &va.to_ne_bytes())?;
            put(at::COMPARE_ADD, &compare.to_ne_bytes())?;
            put(at::SWAP, &swap.to_ne_bytes())?;
            put(at::ATOMIC_RKEY, &key.0.to_ne_bytes())?;
            op::CAS
        }
        SendOp::FetchAdd { va, key, add } => {
            put(at::REMOTE_ADDR, &va.to_ne_bytes())?;
            put(at::COMPARE_ADD, &add.to_ne_bytes())?;
            put(at::ATOMIC_RKEY, &key.0.to_ne_bytes())?;
            op::FAA
        }
        SendOp::AtomicWrite { va, key, value: _ } => {
            put(at::REMOTE_ADDR, &va.to_ne_bytes())?;
            put(at::RDMA_RKEY, &key.0.to_ne_bytes())?;
            dma_length = 8;
            op::ATOMIC_WRITE
        }
        SendOp::Flush {
            va,
            key,
            length,
            kind,
            level,
        } => {
            put(at::REMOTE_ADDR, &va.to_ne_bytes())?;
            put(at::FLUSH_RKEY, &key.0.to_ne_bytes())?;
            put(at::FLUSH_TYPE, &[kind])?;
            put(at::FLUSH_LEVEL, &[level])?;
            dma_length = length;
            op::FLUSH
        }
        SendOp::LocalInv { key } => {
            put(at::EX, &key.0.to_ne_bytes())?;
            op::LOCAL_INV
        }
        SendOp::RegMr => op::REG_MR,
        SendOp::BindMw => op::BIND_MW,
    };
    put(at::OPCODE, &opcode.to_ne_bytes())?;
    put(at::DMA + at::DMA_LENGTH, &dma_length.to_ne_bytes())?;
    let num_sge = match (traffic(&send.op), send.data) {
        (Traffic::Out | Traffic::In | Traffic::InEight, KernelData::Sges(list)) => list.len(),
        (Traffic::Nothing | Traffic::Eight, KernelData::Sges(_)) | (_, KernelData::Inline(_)) => 0,
    };
    let num_sge = u32::try_from(num_sge).ok()?;
    put(at::DMA + at::DMA_NUM_SGE, &num_sge.to_ne_bytes())?;

    match send.local {
        None => {}
        Some(LocalOp::RegMr { key, access, iova }) => {
            put(at::REG_IOVA, &iova.to_ne_bytes())?;
            put(at::REG_KEY, &key.0.to_ne_bytes())?;
            put(at::REG_ACCESS, &access.to_ne_bytes())?;
        }
        Some(LocalOp::BindMw(bind)) => {
            put(at::MW_ADDR, &bind.addr.to_ne_bytes())?;
            put(at::MW_LENGTH, &bind.length.to_ne_bytes())?;
            put(at::MW_LKEY, &bind.region.0.to_ne_bytes())?;
            put(at::MW_RKEY, &bind.window.0.to_ne_bytes())?;
            put(at::MW_NEW_RKEY, &bind.new_key.0.to_ne_bytes())?;
            put(at::MW_ACCESS, &bind.access.to_ne_bytes())?;
        }
    }
    if let Some((dest, ah)) = send.ud {
        put(at::UD_QPN, &dest.qpn.0.to_ne_bytes())?;
        put(at::UD_QKEY, &dest.qkey.to_ne_bytes())?;
        put(at::UD_AH, &ah.to_ne_bytes())?;
    }
    Some(())
}

fn data<M: RingMem>(blank: &Blank<'_, M>, send: &KernelSend<'_>) -> Option<()> {
    if let SendOp::AtomicWrite { value, .. } = send.op {
        return blank.write(SEND_HEAD, &value);
    }
    match send.data {
        KernelData::Sges(list) => match traffic(&send.op) {
            Traffic::Out | Traffic::In | Traffic::InEight => {
                blank.write(SEND_HEAD, list.as_bytes())
            }
            Traffic::Nothing | Traffic::Eight => Some(()),
        },
        KernelData::Inline(pieces) => {
            let mut offset = SEND_HEAD;
            for piece in pieces {
                blank.write(offset, piece)?;
                offset = offset.checked_add(piece.len())?;
            }
            Some(())
        }
    }
}
