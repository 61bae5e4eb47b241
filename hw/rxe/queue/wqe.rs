// SPDX-License-Identifier: GPL-2.0

//! From the bytes of a work queue entry to a request that is valid, once.
//!
//! The bytes are `struct rxe_send_wqe` and `struct rxe_recv_wqe` of
//! `include/uapi/rdma/rdma_user_rxe.h`, with opcodes and flags of
//! `enum ib_uverbs_wr_opcode` and `enum ib_send_flags`. Every byte is read at most
//! once, out of memory that user space may be writing at the same time, and what
//! leaves here is owned by the kernel: buffers are in `store`, the rest by value.
//! Fields in which the C driver keeps its own progress (state, masks, PSNs, iova)
//! are never read.
//!
//! What cannot be checked here are claims about other objects: addresses, keys and
//! address handles are looked up when they are used.
//!
//! Pure: no kernel imports; tested and fuzzed on the host.

use super::ring::{Entry, RingMem};
use crate::mem::sge::{total, Sge};
use crate::proto::types::MAX_MESSAGE;
use crate::proto::{
    BadRecv, Key, QpType, Qpn, RecvWqe, SendFlags, SendOp, SendWqe, UdDest, WcStatus,
};
use zerocopy::IntoBytes;

/// Bytes of a send entry before its scatter-gather list or inline data.
pub const SEND_HEAD: usize = 208;
/// Bytes of a receive entry before its scatter-gather list.
pub const RECV_HEAD: usize = 40;

/// Offsets in the send entry.
pub(super) mod at {
    pub(crate) const WR_ID: usize = 0;
    pub(crate) const OPCODE: usize = 12;
    pub(crate) const FLAGS: usize = 16;
    pub(crate) const EX: usize = 20;
    pub(crate) const REMOTE_ADDR: usize = 24;
    pub(crate) const RDMA_RKEY: usize = 32;
    pub(crate) const FLUSH_RKEY: usize = 36;
    pub(crate) const FLUSH_TYPE: usize = 40;
    pub(crate) const FLUSH_LEVEL: usize = 41;
    pub(crate) const COMPARE_ADD: usize = 32;
    pub(crate) const SWAP: usize = 40;
    pub(crate) const ATOMIC_RKEY: usize = 48;
    pub(crate) const UD_QPN: usize = 24;
    pub(crate) const UD_QKEY: usize = 28;
    pub(crate) const UD_AH: usize = 36;
    pub(crate) const UD_AV: usize = 56;
    pub(crate) const MW_ADDR: usize = 24;
    pub(crate) const MW_LENGTH: usize = 32;
    pub(crate) const MW_LKEY: usize = 40;
    pub(crate) const MW_RKEY: usize = 44;
    pub(crate) const MW_NEW_RKEY: usize = 48;
    pub(crate) const MW_ACCESS: usize = 52;
    pub(crate) const REG_IOVA: usize = 24;
    pub(crate) const REG_KEY: usize = 32;
    pub(crate) const REG_ACCESS: usize = 36;
    /// End of the part of the work request that is read.
    pub(crate) const WR_END: usize = 56;
    pub(crate) const DMA: usize = 184;
    pub(crate) const DMA_LENGTH: usize = 0;
    pub(crate) const DMA_NUM_SGE: usize = 12;
    pub(crate) const DMA_SIZE: usize = 16;
    pub(crate) const RECV_DMA: usize = 16;
}

/// Values of `enum ib_uverbs_wr_opcode`, and `IB_WR_REG_MR` of the kernel.
pub(super) mod op {
    pub(crate) const WRITE: u32 = 0;
    pub(crate) const WRITE_IMM: u32 = 1;
    pub(crate) const SEND: u32 = 2;
    pub(crate) const SEND_IMM: u32 = 3;
    pub(crate) const READ: u32 = 4;
    pub(crate) const CAS: u32 = 5;
    pub(crate) const FAA: u32 = 6;
    pub(crate) const LOCAL_INV: u32 = 7;
    pub(crate) const BIND_MW: u32 = 8;
    pub(crate) const SEND_INV: u32 = 9;
    pub(crate) const FLUSH: u32 = 14;
    pub(crate) const ATOMIC_WRITE: u32 = 15;
    pub(crate) const REG_MR: u32 = 0x20;
}

/// Values of `enum ib_send_flags`.
pub(super) mod flag {
    pub(crate) const FENCE: u32 = 1;
    pub(crate) const SIGNALED: u32 = 2;
    pub(crate) const SOLICITED: u32 = 4;
    pub(crate) const INLINE: u32 = 8;
}

/// What a send queue allows.
#[derive(Clone, Copy, Debug)]
pub struct SendCaps {
    /// The transport.
    pub qp_type: QpType,
    /// Whether user space fills the ring. It may not register fast regions.
    pub user: bool,
    /// Whether every request asks for a completion (`IB_SIGNAL_ALL_WR`).
    pub signal_all: bool,
    /// The most inline data, in bytes.
    pub max_inline: u32,
}

/// Where the bytes of a request are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// In memory regions, by this many entries at the start of the store.
    Sges(usize),
    /// In the store itself, this many bytes.
    Inline(usize),
}

/// How a datagram finds its way, as alleged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// By the number of an address handle.
    Ah(u32),
    /// By the address itself; only libraries older than address handle numbers.
    Av(UserAv),
}

/// What the kernel uses of `struct rxe_av`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserAv {
    /// `RXE_NETWORK_TYPE_IPV4` (1) or `RXE_NETWORK_TYPE_IPV6` (2), or nonsense.
    pub network_type: u8,
    /// The destination's Ethernet address.
    pub dmac: [u8; 6],
    /// The destination's GID.
    pub dgid: [u8; 16],
    /// The flow label, in the machine's byte order.
    pub flow_label: u32,
    /// Which of the port's GIDs is the source.
    pub sgid_index: u8,
    /// Hop limit or TTL.
    pub hop_limit: u8,
    /// Traffic class or TOS.
    pub traffic_class: u8,
}

/// Parameters of an operation that takes effect here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalOp {
    /// Make a fast region valid, under a key whose index names it.
    RegMr {
        /// The new key.
        key: Key,
        /// `enum ib_access_flags`.
        access: u32,
        /// The region's first address, as its owner had it when posting.
        iova: u64,
    },
    /// Bind a memory window, or unbind it if the length is zero.
    BindMw(BindMw),
}

/// Parameters of binding a memory window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindMw {
    /// The window, by its current key.
    pub window: Key,
    /// The window's next key; its low 8 bits count.
    pub new_key: Key,
    /// The region, by its local key.
    pub region: Key,
    /// First byte.
    pub addr: u64,
    /// Number of bytes.
    pub length: u64,
    /// `enum ib_access_flags`.
    pub access: u32,
}

/// A valid send request with what the engine leaves to its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// What the engine sees.
    pub wqe: SendWqe,
    /// Where its bytes are.
    pub buffers: Buffers,
    /// Its way, on a datagram queue pair.
    pub route: Option<Route>,
    /// Its parameters, if it is local and needs any.
    pub local: Option<LocalOp>,
}

/// A send request that makes no sense. It fails with `status` in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSend {
    /// The user's name for it.
    pub wr_id: u64,
    /// How it fails.
    pub status: WcStatus,
}

/// Reads and checks a send entry. Buffers are put into `store`, whose length is the
/// most scatter-gather entries that the queue allows (and at least `max_inline`
/// bytes).
///
/// # Errors
///
/// With `LocQpOp` if the opcode is unknown or not for this queue, or there are too
/// many buffers; with `LocLen` if they are too long.
pub fn parse_send<M: RingMem>(
    entry: &Entry<'_, M>,
    caps: &SendCaps,
    store: &mut [Sge],
) -> Result<SendRequest, BadSend> {
    let mut wr = [0u8; at::WR_END];
    // An entry is never shorter than its head; if the memory disagrees, what we have
    // is zeroes, which is a request like any other.
    let _: Option<()> = entry.read(0, &mut wr);
    let wr = Head(&wr);
    let wr_id = wr.u64(at::WR_ID);
    parse(entry, &wr, caps, store).map_err(|status| BadSend { wr_id, status })
}

fn parse<M: RingMem>(
    entry: &Entry<'_, M>,
    wr: &Head<'_>,
    caps: &SendCaps,
    store: &mut [Sge],
) -> Result<SendRequest, WcStatus> {
    let mut dma = [0u8; at::DMA_SIZE];
    entry.read(at::DMA, &mut dma).ok_or(WcStatus::LocQpOp)?;
    let dma = Head(&dma);
    let claimed = dma.u32(at::DMA_LENGTH);

    let mut local = None;
    let op = match wr.u32(at::OPCODE) {
        op::SEND => SendOp::Send { imm: None },
        op::SEND_IMM => SendOp::Send {
            imm: Some(wr.bytes(at::EX)),
        },
        op::SEND_INV => SendOp::SendInv {
            key: Key(wr.u32(at::EX)),
        },
        op::WRITE => SendOp::Write {
            va: wr.u64(at::REMOTE_ADDR),
            key: Key(wr.u32(at::RDMA_RKEY)),
            imm: None,
        },
        op::WRITE_IMM => SendOp::Write {
            va: wr.u64(at::REMOTE_ADDR),
            key: Key(wr.u32(at::RDMA_RKEY)),
            imm: Some(wr.bytes(at::EX)),
        },
        op::READ => SendOp::Read {
            va: wr.u64(at::REMOTE_ADDR),
            key: Key(wr.u32(at::RDMA_RKEY)),
        },
        op::CAS => SendOp::CompareSwap {
            va: wr.u64(at::REMOTE_ADDR),
            key: Key(wr.u32(at::ATOMIC_RKEY)),
            compare: wr.u64(at::COMPARE_ADD),
            swap: wr.u64(at::SWAP),
        },
        op::FAA => SendOp::FetchAdd {
            va: wr.u64(at::REMOTE_ADDR),
            key: Key(wr.u32(at::ATOMIC_RKEY)),
            add: wr.u64(at::COMPARE_ADD),
        },
        op::ATOMIC_WRITE => {
            // The eight bytes lie where inline data would.
            let mut value = [0u8; 8];
            entry.read(SEND_HEAD, &mut value).ok_or(WcStatus::LocQpOp)?;
            SendOp::AtomicWrite {
                va: wr.u64(at::REMOTE_ADDR),
                key: Key(wr.u32(at::RDMA_RKEY)),
                value,
            }
        }
        op::FLUSH => SendOp::Flush {
            va: wr.u64(at::REMOTE_ADDR),
            key: Key(wr.u32(at::FLUSH_RKEY)),
            // librxe has the length here; `flush.length` is not always filled.
            length: claimed,
            kind: wr.u8(at::FLUSH_TYPE),
            level: wr.u8(at::FLUSH_LEVEL),
        },
        op::LOCAL_INV => SendOp::LocalInv {
            key: Key(wr.u32(at::EX)),
        },
        op::BIND_MW => {
            local = Some(LocalOp::BindMw(BindMw {
                window: Key(wr.u32(at::MW_RKEY)),
                new_key: Key(wr.u32(at::MW_NEW_RKEY)),
                region: Key(wr.u32(at::MW_LKEY)),
                addr: wr.u64(at::MW_ADDR),
                length: wr.u64(at::MW_LENGTH),
                access: wr.u32(at::MW_ACCESS),
            }));
            SendOp::BindMw
        }
        op::REG_MR => {
            local = Some(LocalOp::RegMr {
                key: Key(wr.u32(at::REG_KEY)),
                access: wr.u32(at::REG_ACCESS),
                iova: wr.u64(at::REG_IOVA),
            });
            SendOp::RegMr
        }
        // Read with invalidate has no packet; LSO and masked atomics are not ours.
        _ => return Err(WcStatus::LocQpOp),
    };
    if !is_legal(&op, caps) {
        return Err(WcStatus::LocQpOp);
    }

    let flags = wr.u32(at::FLAGS);
    let num_sge = dma.u32(at::DMA_NUM_SGE);
    let (buffers, length) = match traffic(&op) {
        Traffic::Nothing => (Buffers::Sges(0), 0),
        Traffic::Eight => (Buffers::Sges(0), 8),
        // The `wr_set_inline_data` of librxe leaves no entries and may set no flag.
        Traffic::Out if flags & flag::INLINE != 0 || (num_sge == 0 && claimed != 0) => {
            inline(entry, claimed, caps, store)?
        }
        Traffic::Out | Traffic::In => sges(entry, SEND_HEAD, num_sge, store)?,
        Traffic::InEight => {
            let (buffers, length) = sges(entry, SEND_HEAD, num_sge, store)?;
            if length < 8 {
                return Err(WcStatus::LocLen);
            }
            (buffers, 8)
        }
    };

    let (ud, route) = if caps.qp_type.is_datagram() {
        let dest = UdDest {
            qpn: Qpn(wr.u32(at::UD_QPN) & 0x00ff_ffff),
            qkey: wr.u32(at::UD_QKEY),
        };
        let route = match wr.u32(at::UD_AH) {
            0 => Route::Av(av(entry).ok_or(WcStatus::LocQpOp)?),
            number => Route::Ah(number),
        };
        (Some(dest), Some(route))
    } else {
        (None, None)
    };

    Ok(SendRequest {
        wqe: SendWqe {
            wr_id: wr.u64(at::WR_ID),
            op,
            flags: SendFlags {
                signaled: caps.signal_all || flags & flag::SIGNALED != 0,
                solicited: flags & flag::SOLICITED != 0,
                fence: flags & flag::FENCE != 0,
            },
            length,
            ud,
        },
        buffers,
        route,
        local,
    })
}

/// Reads and checks a receive entry. Buffers are put at the start of `store`, whose
/// length is the most that the queue allows. Returns how many there are.
///
/// # Errors
///
/// With `LocQpOp` if there are too many buffers.
pub fn parse_recv<M: RingMem>(
    entry: &Entry<'_, M>,
    store: &mut [Sge],
) -> Result<(RecvWqe, usize), BadRecv> {
    let mut head = [0u8; at::RECV_DMA + at::DMA_SIZE];
    let _: Option<()> = entry.read(0, &mut head);
    let head = Head(&head);
    let wr_id = head.u64(at::WR_ID);
    let bad = |status| BadRecv { wr_id, status };
    let num_sge = head.u32(at::RECV_DMA + at::DMA_NUM_SGE);
    let count = load_sges(entry, RECV_HEAD, num_sge, store).map_err(bad)?;
    // More room than any message needs is no mistake.
    let room = total(store.get(..count).unwrap_or(&[])).min(u64::from(MAX_MESSAGE));
    let capacity = u32::try_from(room).unwrap_or(MAX_MESSAGE);
    Ok((RecvWqe { wr_id, capacity }, count))
}

/// What a request does with its local buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    /// It has none.
    Nothing,
    /// It has none, but eight bytes go out.
    Eight,
    /// They go out.
    Out,
    /// They are filled.
    In,
    /// Eight bytes of them are filled.
    InEight,
}

pub(super) fn traffic(op: &SendOp) -> Traffic {
    match op {
        SendOp::Send { .. } | SendOp::SendInv { .. } | SendOp::Write { .. } => Traffic::Out,
        SendOp::Read { .. } => Traffic::In,
        SendOp::CompareSwap { .. } | SendOp::FetchAdd { .. } => Traffic::InEight,
        SendOp::AtomicWrite { .. } => Traffic::Eight,
        SendOp::Flush { .. } | SendOp::LocalInv { .. } | SendOp::RegMr | SendOp::BindMw => {
            Traffic::Nothing
        }
    }
}

/// Whether a queue may carry such a request (IBTA table 33, and annexes A17, A19).
pub(super) fn is_legal(op: &SendOp, caps: &SendCaps) -> bool {
    match op {
        SendOp::Send { .. } => true,
        SendOp::Write { .. } | SendOp::BindMw => match caps.qp_type {
            QpType::Rc | QpType::Uc => true,
            QpType::Ud | QpType::Gsi => false,
        },
        SendOp::SendInv { .. }
        | SendOp::Read { .. }
        | SendOp::CompareSwap { .. }
        | SendOp::FetchAdd { .. }
        | SendOp::AtomicWrite { .. }
        | SendOp::Flush { .. }
        | SendOp::LocalInv { .. } => caps.qp_type == QpType::Rc,
        SendOp::RegMr => caps.qp_type == QpType::Rc && !caps.user,
    }
}

fn inline<M: RingMem>(
    entry: &Entry<'_, M>,
    claimed: u32,
    caps: &SendCaps,
    store: &mut [Sge],
) -> Result<(Buffers, u32), WcStatus> {
    if claimed > caps.max_inline {
        return Err(WcStatus::LocLen);
    }
    let len = claimed as usize;
    let room = store
        .as_mut_bytes()
        .get_mut(..len)
        .ok_or(WcStatus::LocLen)?;
    entry.read(SEND_HEAD, room).ok_or(WcStatus::LocLen)?;
    Ok((Buffers::Inline(len), claimed))
}

fn sges<M: RingMem>(
    entry: &Entry<'_, M>,
    offset: usize,
    num_sge: u32,
    store: &mut [Sge],
) -> Result<(Buffers, u32), WcStatus> {
    let count = load_sges(entry, offset, num_sge, store)?;
    let length = total(store.get(..count).unwrap_or(&[]));
    let length = u32::try_from(length).map_err(|_| WcStatus::LocLen)?;
    if length > MAX_MESSAGE {
        return Err(WcStatus::LocLen);
    }
    Ok((Buffers::Sges(count), length))
}

fn load_sges<M: RingMem>(
    entry: &Entry<'_, M>,
    offset: usize,
    num_sge: u32,
    store: &mut [Sge],
) -> Result<usize, WcStatus> {
    let count = usize::try_from(num_sge).map_err(|_| WcStatus::LocQpOp)?;
    let list = store.get_mut(..count).ok_or(WcStatus::LocQpOp)?;
    if let [one] = list {
        // As mostly; a copy of known length is two words.
        let mut bytes = [0u8; size_of::<Sge>()];
        entry.read(offset, &mut bytes).ok_or(WcStatus::LocQpOp)?;
        *one = zerocopy::transmute!(bytes);
        return Ok(1);
    }
    entry
        .read(offset, list.as_mut_bytes())
        .ok_or(WcStatus::LocQpOp)?;
    Ok(count)
}

fn av<M: RingMem>(entry: &Entry<'_, M>) -> Option<UserAv> {
    // port, network type, dmac, then the global route: GID, flow label, GID index,
    // hop limit, traffic class. The socket addresses behind it repeat the GIDs.
    let mut bytes = [0u8; 32];
    entry.read(at::UD_AV, &mut bytes)?;
    let av = Head(&bytes);
    Some(UserAv {
        network_type: av.u8(1),
        dmac: av.bytes(2),
        dgid: av.bytes(8),
        flow_label: av.u32(24),
        sgid_index: av.u8(28),
        hop_limit: av.u8(29),
        traffic_class: av.u8(30),
    })
}

/// Fields at fixed offsets of bytes that were copied out.
struct Head<'a>(&'a [u8]);

impl Head<'_> {
    /// `N` bytes; zeroes beyond the end, which the constants here never reach.
    fn bytes<const N: usize>(&self, offset: usize) -> [u8; N] {
        self.0
            .get(offset..)
            .and_then(|rest| rest.first_chunk())
            .copied()
            .unwrap_or([0; N])
    }

    fn u8(&self, offset: usize) -> u8 {
        u8::from_ne_bytes(self.bytes(offset))
    }

    fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.bytes(offset))
    }

    fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(offset))
    }
}
