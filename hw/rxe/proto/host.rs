// SPDX-License-Identifier: GPL-2.0

//! The powers that the engine has over the world: two traits, one per half.
//!
//! The engine never sees scatter-gather lists, memory regions or packet buffers.
//! It asks the host, by slot number or by key, and the host answers at once: no
//! method may sleep, and none may call back into the engine half that called it.
//! While a packet is handled, "the packet" below is that one.

use crate::wire::Psn;

use super::packet::TxPacket;
use super::types::AccessFlags;
use super::types::Key;
use super::types::WcStatus;
use super::wqe::RecvCompletion;
use super::wqe::RecvWqe;
use super::wqe::SendCompletion;
use super::wqe::SendOp;
use super::wqe::SendWqe;

/// The answer to [`SendHost::fetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFetch {
    /// Nothing is posted.
    Empty,
    /// The next request; its buffers are now in the slot.
    Wqe(SendWqe),
    /// The next request makes no sense. It takes its place in the order, and fails
    /// with this status when it is its turn.
    Bad {
        /// The user's name for it.
        wr_id: u64,
        /// How it fails.
        status: WcStatus,
    },
}

/// The answer to [`RecvHost::take_recv`] and [`RecvHost::flush_recv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvFetch {
    /// Nothing is posted.
    Empty,
    /// The next request; its buffers are now the host's current ones.
    Wqe(RecvWqe),
    /// The next request makes no sense.
    Bad(BadRecv),
}

/// A receive request that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecv {
    /// The user's name for it.
    pub wr_id: u64,
    /// How it fails.
    pub status: WcStatus,
}

/// Why a packet could not be handed to the wire. The engine's state is as if it
/// had not been tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxError {
    /// No room, or the payload is in memory that is not there yet. The host polls again
    /// when that has changed.
    Blocked,
    /// Enough for this poll, which ends as if its budget were used up.
    Enough,
    /// Its payload cannot be read, which this status describes to the local user.
    BadPayload(WcStatus),
}

/// Why the local user's buffers cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalFault {
    /// They will be there soon. The engine parks the packet: see
    /// [`Disposition::Parked`].
    Absent,
    /// They will not; the request fails with this status.
    Status(WcStatus),
}

impl From<WcStatus> for LocalFault {
    fn from(status: WcStatus) -> Self {
        LocalFault::Status(status)
    }
}

/// Why the peer's access to our memory fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteFault {
    /// The memory will be there soon. The engine parks the packet: see
    /// [`Disposition::Parked`].
    Absent,
    /// The key, the range or the rights do not allow it.
    Access,
    /// An atomic's address is not a multiple of eight.
    Misaligned,
    /// It should have worked, but did not.
    Failed,
}

/// What the user learns by an asynchronous event, or the host by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// `IB_EVENT_SQ_DRAINED`: everything started before the drain is complete.
    SqDrained,
    /// `IB_EVENT_QP_ACCESS_ERR`: the peer violated a key, and no receive request
    /// could carry the blame (IBTA C9-222.1).
    AccessError,
    /// `IB_EVENT_QP_REQ_ERR`: the peer's request was invalid, and no receive request
    /// could carry the blame.
    RequestError,
    /// The send side failed and flushes by itself. The host moves the queue pair to
    /// `Err` (RC) or, if it has that state, `Sqe` (UC, UD). Not for the user.
    SendFailed,
    /// The receive side failed, has sent what it owed, and flushes by itself. The
    /// host moves the queue pair to `Err`. Not for the user.
    RecvFailed,
    /// The receive side is in error and holds no request any more. On a queue pair
    /// with a shared receive queue this is `IB_EVENT_QP_LAST_WQE_REACHED`; on others
    /// it is not for the user. Once per error.
    LastRecv,
}

/// Things worth counting. Names follow the `hw_counters` of the C driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// `duplicate_request`.
    DuplicateRequest,
    /// `out_of_seq_request`.
    OutOfSequenceRequest,
    /// `send_rnr_err`: an RNR NAK was sent.
    RnrSent,
    /// `rcvd_rnr_err`: an RNR NAK was received.
    RnrReceived,
    /// `rcvd_seq_err`: a sequence NAK was received.
    SequenceNakReceived,
    /// `completer_retry_err`: sending started over.
    Retry,
    /// `retry_exceeded_err`.
    RetryExceeded,
    /// `retry_rnr_exceeded_err`.
    RnrRetryExceeded,
    /// `rdma_sends`: a send completed.
    Send,
    /// `rdma_recvs`: a receive completed with success.
    Recv,
    /// `np_ecn_marked_roce_packets`: a packet of the peer met congestion.
    Marked,
    /// `np_cnp_sent`: the peer was told of that.
    NoticeSent,
    /// `rp_cnp_handled`: the peer told us of that.
    NoticeReceived,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Disposition {
    /// It was understood, and had whatever effect it has. Errors of the peer are
    /// among the effects.
    Done,
    /// It was ignored.
    Dropped(DropCause),
    /// It came before its turn, and nothing has changed. The host may keep it until it is
    /// due, or drop it.
    Early,
    /// Memory that it touches is not there yet. Nothing has changed: the host hands the
    /// same packet in again when the memory is there, and none that came after it
    /// before that.
    Parked,
}

/// Why a packet was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// This half is not enabled, or in error.
    State,
    /// The opcode belongs to another transport, or to the other half.
    Opcode,
    /// A datagram with the wrong Q_Key.
    Qkey,
    /// It answers what has been answered, or repeats what cannot be repeated.
    Duplicate,
    /// It answers what was never asked.
    Unsolicited,
    /// A packet before it is missing, and it is not one to be kept.
    OutOfSequence,
    /// It does not fit the message before it (UC).
    Disorder,
    /// There is no receive request for it (UC, UD).
    NoRecv,
    /// Its length is wrong (UC, UD).
    Length,
    /// It may not touch the memory it names (UC).
    Access,
}

/// How a poll ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// There is nothing to do until something happens.
    Idle,
    /// The budget is used up.
    More,
    /// The wire has no room.
    Blocked,
}

/// What the send side asks of its host.
pub trait SendHost {
    /// Takes the next posted request off the user's ring into private slot `slot`.
    /// The ring entry stays occupied until [`retire`](Self::retire). The engine calls
    /// it for a free slot only, and takes slots in circular order.
    fn fetch(&mut self, slot: u32) -> SendFetch;

    /// The request in `slot` is finished; the ring entry may be used again. Comes in
    /// the order of fetching, just before the completion if there is one.
    fn retire(&mut self, slot: u32);

    /// Into pieces of how many bytes a request that begins now is cut, where the path
    /// MTU is `mtu`. It stays cut that way. The peer learns it from each packet, so
    /// anything but `mtu` needs a way that tells ([`RxPacket::mtu`]).
    ///
    /// [`RxPacket::mtu`]: super::packet::RxPacket::mtu
    fn cut(&mut self, mtu: u32) -> u32;

    /// Hands a packet to the wire: a request, or a congestion notification.
    ///
    /// # Errors
    ///
    /// [`TxError::Blocked`] if the wire has no room; [`TxError::BadPayload`] if the
    /// buffers of the request cannot be read, which ends it.
    fn emit(&mut self, packet: &TxPacket) -> Result<(), TxError>;

    /// Copies the packet's payload into the buffers of the request in `slot`,
    /// `offset` bytes from their start. It fits the request's length.
    ///
    /// # Errors
    ///
    /// See [`LocalFault`].
    fn scatter(&mut self, slot: u32, offset: u32) -> Result<(), LocalFault>;

    /// Puts the result of an atomic into the buffers of the request in `slot`, in
    /// the machine's byte order.
    ///
    /// # Errors
    ///
    /// See [`LocalFault`].
    fn scatter_u64(&mut self, slot: u32, value: u64) -> Result<(), LocalFault>;

    /// Carries out a local operation ([`SendOp::is_local`]).
    ///
    /// # Errors
    ///
    /// The status with which the request fails.
    fn local(&mut self, slot: u32, op: &SendOp) -> Result<(), WcStatus>;

    /// The PSN of the first packet that was [early](Disposition::Early) and is kept.
    fn first_early(&self) -> Option<Psn> {
        None
    }

    /// Posts a completion.
    fn complete(&mut self, completion: &SendCompletion);

    /// Something happened to the queue pair. The host only takes note: it changes
    /// the queue pair's state after the engine's call returned.
    fn event(&mut self, event: QpEvent);

    /// Counts one of these.
    fn count(&mut self, _counter: Counter) {}
}

/// What the receive side asks of its host.
pub trait RecvHost {
    /// Hands a packet to the wire: a response, or a congestion notification.
    ///
    /// # Errors
    ///
    /// [`TxError::Blocked`] if the wire has no room; [`TxError::BadPayload`] if the
    /// memory that the peer reads is gone.
    fn emit(&mut self, packet: &TxPacket) -> Result<(), TxError>;

    /// Takes the next receive request, of the queue pair's own or of its shared
    /// queue, and keeps its buffers as the current ones until the completion.
    fn take_recv(&mut self) -> RecvFetch;

    /// Takes the next receive request in order to flush it. A shared queue is not
    /// touched: it answers `Empty`.
    fn flush_recv(&mut self) -> RecvFetch;

    /// Copies the packet's payload into the current receive buffers, `offset` bytes
    /// from their start. It fits their capacity.
    ///
    /// # Errors
    ///
    /// See [`LocalFault`].
    fn scatter_recv(&mut self, offset: u32) -> Result<(), LocalFault>;

    /// Copies the packet's network header, in the 40 bytes that a GRH would take
    /// (annex A17), to the start of the current receive buffers. It fits.
    ///
    /// # Errors
    ///
    /// See [`LocalFault`].
    fn scatter_grh(&mut self) -> Result<(), LocalFault>;

    /// Checks that `key` gives the peer `access`, which is a read or a write, to `len`
    /// bytes at `va`. Not asked for empty ones, whose key means nothing (IBTA C9-88).
    ///
    /// # Errors
    ///
    /// Why it does not.
    fn check_remote(
        &mut self,
        key: Key,
        va: u64,
        len: u32,
        access: AccessFlags,
    ) -> Result<(), RemoteFault>;

    /// Copies the packet's payload to `va`, inside a range checked before.
    ///
    /// # Errors
    ///
    /// Why it cannot, for instance because the region is gone since.
    fn write_remote(&mut self, key: Key, va: u64) -> Result<(), RemoteFault>;

    /// Checks key, rights and alignment, then carries out an atomic on the eight bytes
    /// at `va`, and says what was there before.
    ///
    /// # Errors
    ///
    /// Why it cannot; then nothing changed.
    fn atomic(&mut self, key: Key, va: u64, op: AtomicOp) -> Result<u64, RemoteFault>;

    /// Checks key, rights and alignment, then stores the packet's payload, which is
    /// eight bytes, at `va` in one piece.
    ///
    /// # Errors
    ///
    /// Why it cannot; then nothing changed.
    fn atomic_write(&mut self, key: Key, va: u64) -> Result<(), RemoteFault>;

    /// Checks key, rights and, unless the whole region is meant, the range; then makes
    /// earlier writes visible or persistent.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    fn flush(&mut self, key: Key, va: u64, len: u32, what: FlushKind) -> Result<(), RemoteFault>;

    /// Invalidates a local key because the peer says so.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    fn invalidate(&mut self, key: Key) -> Result<(), RemoteFault>;

    /// Posts a completion and lets go of the current receive request.
    fn complete(&mut self, completion: &RecvCompletion);

    /// Something happened to the queue pair. The host only takes note: it changes
    /// the queue pair's state after the engine's call returned.
    fn event(&mut self, event: QpEvent);

    /// Counts one of these.
    fn count(&mut self, _counter: Counter) {}
}

/// An atomic operation on eight bytes of memory, in the machine's byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// If `compare` is there, put `swap` there.
    CompareSwap {
        /// What must be there.
        compare: u64,
        /// What is then put there.
        swap: u64,
    },
    /// Add, wrapping.
    FetchAdd {
        /// The addend.
        add: u64,
    },
}

/// What a flush request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushKind {
    /// To make writes visible to all of the system.
    pub global: bool,
    /// To make writes survive a power failure.
    pub persistent: bool,
    /// The whole region rather than the range.
    pub whole_region: bool,
}
