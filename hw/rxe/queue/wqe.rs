// SPDX-License-Identifier: GPL-2.0

//! Parses the bytes of a work queue entry, once, into a valid request.
//!
//! The bytes are `struct rxe_send_wqe` and `struct rxe_recv_wqe` of
//! `include/uapi/rdma/rdma_user_rxe.h`, with opcodes and flags of `enum ib_uverbs_wr_opcode` and
//! `enum ib_send_flags`. Every byte is read at most once, from memory that user space may write
//! concurrently, and the result is owned by the kernel: buffers are in `store`, the rest is passed
//! by value. Fields in which the C driver keeps its own progress (state, masks, PSNs, iova) are
//! never read.
//!
//! References to other objects are not checked here: addresses, keys and address handles are looked
//! up when they are used.
//!
//! Pure: no kernel imports; tested and fuzzed on the host.

use super::ring::{Entry, RingMem};
use crate::mem::sge::{total, Sge};
use crate::proto::types::MAX_MESSAGE;
use crate::proto::{
    BadRecv, Key, QpType, Qpn, RecvWqe, SendFlags, SendOp, SendWqe, UdDest, WcStatus,
};
use zerocopy::IntoBytes;

/// Bytes of a send entry in front of its scatter-gather list or inline data.
pub const SEND_HEAD: usize = 208;
/// Bytes of a receive entry in front of its scatter-gather list.
pub const RECV_HEAD: usize = 40;

/// Offsets in a send entry.
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

/// Values of `enum ib_uverbs_wr_opcode`, and the kernel's `IB_WR_REG_MR`.
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

/// Capabilities of a send queue.
#[derive(Clone, Copy, Debug)]
pub struct SendCaps {
    /// The transport.
    pub qp_type: QpType,
    /// Whether user space fills the ring. Users may not register fast regions.
    pub user: bool,
    /// Whether every request generates a completion (`IB_SIGNAL_ALL_WR`).
    pub signal_all: bool,
    /// Maximum inline data in bytes.
    pub max_inline: u32,
}

/// Location of a request's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// In memory regions; number of entries at the start of the store.
    Sges(usize),
    /// In the store itself; number of bytes.
    Inline(usize),
}

/// Address of a datagram, not validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Number of an address handle.
    Ah(u32),
    /// The address itself; used only by libraries that predate address handle numbers.
    Av(UserAv),
}

/// The fields of `struct rxe_av` that the driver uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserAv {
    /// `RXE_NETWORK_TYPE_IPV4` (1), `RXE_NETWORK_TYPE_IPV6` (2), or invalid.
    pub network_type: u8,
    /// Ethernet address of the destination.
    pub dmac: [u8; 6],
    /// GID of the destination.
    pub dgid: [u8; 16],
    /// Flow label in host byte order.
    pub flow_label: u32,
    /// Index of the source GID in the port's table.
    pub sgid_index: u8,
    /// IPv6 hop limit or IPv4 TTL.
    pub hop_limit: u8,
    /// IPv6 traffic class or IPv4 TOS.
    pub traffic_class: u8,
}

/// Parameters of a local operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalOp {
    /// Makes a fast region valid; the index of its new key selects the region.
    RegMr {
        /// The new key.
        key: Key,
        /// `enum ib_access_flags`.
        access: u32,
        /// First address of the region; read from the region when a kernel user posts.
        iova: u64,
    },
    /// Binds a memory window, or unbinds it if the length is zero.
    BindMw(BindMw),
}

/// Parameters of a memory window bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindMw {
    /// Current key of the window.
    pub window: Key,
    /// Next key of the window; only its low 8 bits are used.
    pub new_key: Key,
    /// Local key of the region.
    pub region: Key,
    /// Address of the first byte.
    pub addr: u64,
    /// Length in bytes.
    pub length: u64,
    /// `enum ib_access_flags`.
    pub access: u32,
}

/// A valid send request, with the parts that the host handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// The request for the engine.
    pub wqe: SendWqe,
    /// Location of its data.
    pub buffers: Buffers,
    /// Destination, on a datagram queue pair.
    pub route: Option<Route>,
    /// Parameters, if it is a local operation that has any.
    pub local: Option<LocalOp>,
}

/// An invalid send request. It fails with `status` when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSend {
    /// ID that the user gave the request.
    pub wr_id: u64,
    /// Status of its completion.
    pub status: WcStatus,
}

/// Reads and validates a send entry of a connected queue pair. Buffers are stored in `store`, whose
/// length is the maximum number of scatter-gather entries of the queue (and at least `max_inline`
/// bytes).
///
/// # Errors
///
/// `LocQpOp` if the opcode is unknown or not allowed on this queue, or there are too many buffers;
/// `LocLen` if they are too long.
// Always inlined: avoids moving the large result.
#[inline(always)]
pub fn parse_connected<M: RingMem>(
    entry: &Entry<'_, M>,
    caps: &SendCaps,
    store: &mut [Sge],
) -> Result<SendRequest, BadSend> {
    parsed(entry, |wr| connected(entry, wr, caps, store))
}

/// [`parse_connected`] for a datagram queue pair, which only sends.
///
/// # Errors
///
/// Those of [`parse_connected`].
// Always inlined: avoids moving the large result, of which little is variable here.
#[inline(always)]
pub fn parse_datagram<M: RingMem>(
    entry: &Entry<'_, M>,
    caps: &SendCaps,
    store: &mut [Sge],
) -> Result<SendRequest, BadSend> {
    parsed(entry, |wr| datagram(entry, wr, caps, store))
}

/// Reads the part of a send entry that all requests have, and passes it to `parse`.
#[inline(always)]
fn parsed<M: RingMem>(
    entry: &Entry<'_, M>,
    parse: impl FnOnce(&Head<'_>) -> Result<SendRequest, WcStatus>,
) -> Result<SendRequest, BadSend> {
    let mut wr = [0u8; at::WR_END];
    // An entry is never shorter than its head. If the memory is too short, `wr` stays zero and is
    // parsed like any other request.
    let _: Option<()> = entry.read(0, &mut wr);
    let wr = Head(&wr);
    let wr_id = wr.u64(at::WR_ID);
    parse(&wr).map_err(|status| BadSend { wr_id, status })
}

/// Reads the description of a request's data.
#[inline(always)]
fn dma<M: RingMem>(entry: &Entry<'_, M>) -> Result<[u8; at::DMA_SIZE], WcStatus> {
    let mut dma = [0u8; at::DMA_SIZE];
    entry.read(at::DMA, &mut dma).ok_or(WcStatus::LocQpOp)?;
    Ok(dma)
}

#[inline(always)]
fn datagram<M: RingMem>(
    entry: &Entry<'_, M>,
    wr: &Head<'_>,
    caps: &SendCaps,
    store: &mut [Sge],
) -> Result<SendRequest, WcStatus> {
    let dma = dma(entry)?;
    let imm = match wr.u32(at::OPCODE) {
        op::SEND => None,
        op::SEND_IMM => Some(wr.bytes(at::EX)),
        _ => return Err(WcStatus::LocQpOp),
    };
    let flags = wr.u32(at::FLAGS);
    let (buffers, length) = outgoing(entry, flags, &Head(&dma), caps, store)?;
    let route = match wr.u32(at::UD_AH) {
        0 => Route::Av(av(entry).ok_or(WcStatus::LocQpOp)?),
        number => Route::Ah(number),
    };
    Ok(SendRequest {
        wqe: SendWqe {
            wr_id: wr.u64(at::WR_ID),
            op: SendOp::Send { imm },
            flags: send_flags(flags, caps),
            length,
            ud: Some(UdDest {
                qpn: Qpn(wr.u32(at::UD_QPN) & 0x00ff_ffff),
                qkey: wr.u32(at::UD_QKEY),
            }),
        },
        buffers,
        route: Some(route),
        local: None,
    })
}

#[inline(always)]
fn connected<M: RingMem>(
    entry: &Entry<'_, M>,
    wr: &Head<'_>,
    caps: &SendCaps,
    store: &mut [Sge],
) -> Result<SendRequest, WcStatus> {
    let dma = dma(entry)?;
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
            // The eight bytes are where inline data would be.
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
            // librxe puts the length here; it does not always set `flush.length`.
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
        // Read with invalidate has no packet; LSO and masked atomics are not supported.
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
        Traffic::Out => outgoing(entry, flags, &dma, caps, store)?,
        Traffic::In => sges(entry, SEND_HEAD, num_sge, store)?,
        Traffic::InEight => {
            let (buffers, length) = sges(entry, SEND_HEAD, num_sge, store)?;
            if length < 8 {
                return Err(WcStatus::LocLen);
            }
            (buffers, 8)
        }
    };

    Ok(SendRequest {
        wqe: SendWqe {
            wr_id: wr.u64(at::WR_ID),
            op,
            flags: send_flags(flags, caps),
            length,
            ud: None,
        },
        buffers,
        route: None,
        local,
    })
}

#[inline]
fn send_flags(flags: u32, caps: &SendCaps) -> SendFlags {
    SendFlags {
        signaled: caps.signal_all || flags & flag::SIGNALED != 0,
        solicited: flags & flag::SOLICITED != 0,
        fence: flags & flag::FENCE != 0,
    }
}

/// Reads and validates a receive entry. Buffers are stored at the start of `store`, whose length is
/// the queue's maximum. Returns their number.
///
/// # Errors
///
/// `LocQpOp` if there are too many buffers.
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
    // Buffers may be larger than the largest message.
    let room = total(store.get(..count).unwrap_or(&[])).min(u64::from(MAX_MESSAGE));
    let capacity = u32::try_from(room).unwrap_or(MAX_MESSAGE);
    Ok((RecvWqe { wr_id, capacity }, count))
}

/// Use of a request's local buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    /// None.
    Nothing,
    /// No buffers, but eight bytes are sent.
    Eight,
    /// The buffers are sent.
    Out,
    /// The buffers are filled.
    In,
    /// Eight bytes of the buffers are filled.
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

/// Returns whether a queue may carry such a request (IBTA table 33, and annexes A17, A19).
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

/// Reads the buffers of data that are sent, or the data if they are inline. Returns their length, too.
#[inline(always)]
fn outgoing<M: RingMem>(
    entry: &Entry<'_, M>,
    flags: u32,
    dma: &Head<'_>,
    caps: &SendCaps,
    store: &mut [Sge],
) -> Result<(Buffers, u32), WcStatus> {
    let claimed = dma.u32(at::DMA_LENGTH);
    let num_sge = dma.u32(at::DMA_NUM_SGE);
    // librxe's `wr_set_inline_data` leaves no entries and may not set the flag.
    if flags & flag::INLINE != 0 || (num_sge == 0 && claimed != 0) {
        inline(entry, claimed, caps, store)
    } else {
        sges(entry, SEND_HEAD, num_sge, store)
    }
}

#[inline(never)]
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

#[inline(always)]
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

#[inline(always)]
fn load_sges<M: RingMem>(
    entry: &Entry<'_, M>,
    offset: usize,
    num_sge: u32,
    store: &mut [Sge],
) -> Result<usize, WcStatus> {
    match (num_sge, store.first_mut()) {
        // The common case; a copy of constant length is two words.
        (1, Some(one)) => {
            let mut bytes = [0u8; size_of::<Sge>()];
            entry.read(offset, &mut bytes).ok_or(WcStatus::LocQpOp)?;
            *one = zerocopy::transmute!(bytes);
            Ok(1)
        }
        (_, _) => load_many(entry, offset, num_sge, store),
    }
}

#[inline(never)]
fn load_many<M: RingMem>(
    entry: &Entry<'_, M>,
    offset: usize,
    num_sge: u32,
    store: &mut [Sge],
) -> Result<usize, WcStatus> {
    let count = usize::try_from(num_sge).map_err(|_| WcStatus::LocQpOp)?;
    let list = store.get_mut(..count).ok_or(WcStatus::LocQpOp)?;
    entry
        .read(offset, list.as_mut_bytes())
        .ok_or(WcStatus::LocQpOp)?;
    Ok(count)
}

fn av<M: RingMem>(entry: &Entry<'_, M>) -> Option<UserAv> {
    // Port, network type, dmac, then the global route: GID, flow label, GID index, hop limit,
    // traffic class. The socket addresses that follow repeat the GIDs.
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

/// Access to fields at fixed offsets of copied bytes.
struct Head<'a>(&'a [u8]);

impl Head<'_> {
    /// Returns `N` bytes; zeroes beyond the end, which the constants here never reach.
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
