// SPDX-License-Identifier: GPL-2.0

//! The interface between the engine and its host: two traits, one per half.
//!
//! The engine never sees scatter-gather lists, memory regions or packet buffers. It calls the host
//! with a slot number or a key, and the host replies at once: no method may sleep, and none may
//! call back into the engine half that called it. "The packet" below is the one that is being
//! handled.

use crate::wire::Psn;

use super::packet::TxPacket;
use super::recv::GRH_LEN;
use super::types::AccessFlags;
use super::types::Key;
use super::types::WcStatus;
use super::wqe::RecvCompletion;
use super::wqe::RecvWqe;
use super::wqe::SendCompletion;
use super::wqe::SendOp;
use super::wqe::SendWqe;

/// Result of [`SendHost::fetch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFetch {
    /// Nothing is posted.
    Empty,
    /// The next request; its buffers are now in the slot.
    Wqe(SendWqe),
    /// The next request is invalid. It keeps its place in the order and fails with this status when
    /// its turn comes.
    Bad {
        /// ID that the user gave the request.
        wr_id: u64,
        /// Status of its completion.
        status: WcStatus,
    },
}

/// Result of [`RecvHost::take_recv`] and [`RecvHost::flush_recv`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvFetch {
    /// Nothing is posted.
    Empty,
    /// The next request; its buffers are now the host's current ones.
    Wqe(RecvWqe),
    /// The next request is invalid.
    Bad(BadRecv),
}

/// An invalid receive request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecv {
    /// ID that the user gave the request.
    pub wr_id: u64,
    /// Status of its completion.
    pub status: WcStatus,
}

/// Reasons why a packet was not sent. The engine's state is as if it had not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxError {
    /// No room, or the payload is in absent memory. The host polls again when that has changed.
    Blocked,
    /// The limit of this poll is reached; it ends as if its budget were used up.
    Enough,
    /// The payload cannot be read; the local request fails with this status.
    BadPayload(WcStatus),
}

/// Reasons why the local user's buffers cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalFault {
    /// The buffers are absent but will be faulted in. The engine parks the packet: see
    /// [`Disposition::Parked`].
    Absent,
    /// The request fails with this status.
    Status(WcStatus),
}

impl From<WcStatus> for LocalFault {
    fn from(status: WcStatus) -> Self {
        LocalFault::Status(status)
    }
}

/// Reasons why the peer's access to local memory fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteFault {
    /// The memory is absent but will be faulted in. The engine parks the packet: see
    /// [`Disposition::Parked`].
    Absent,
    /// The key, the range or the rights do not permit it.
    Access,
    /// The address of an atomic operation is not a multiple of eight.
    Misaligned,
    /// The access was permitted, but failed.
    Failed,
}

/// An asynchronous event for the user, or a notification for the host only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// `IB_EVENT_SQ_DRAINED`: all requests started before the drain are complete.
    SqDrained,
    /// `IB_EVENT_QP_ACCESS_ERR`: the peer violated a key, and no receive request could report it
    /// (IBTA C9-222.1).
    AccessError,
    /// `IB_EVENT_QP_REQ_ERR`: the peer's request was invalid, and no receive request could report
    /// it.
    RequestError,
    /// The send side failed and flushes by itself. The host moves the queue pair to `Err` (RC) or,
    /// where that state exists, to `Sqe` (UC, UD). Not reported to the user.
    SendFailed,
    /// The receive side failed, has sent all pending replies, and flushes by itself. The host moves
    /// the queue pair to `Err`. Not reported to the user.
    RecvFailed,
    /// The receive side is in error and holds no more requests. On a queue pair with a shared
    /// receive queue this is `IB_EVENT_QP_LAST_WQE_REACHED`; on others it is not reported to the
    /// user. Once per error.
    LastRecv,
}

/// Events to count. Names follow the `hw_counters` of the C driver.
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
    /// `completer_retry_err`: a retransmission started.
    Retry,
    /// `retry_exceeded_err`.
    RetryExceeded,
    /// `retry_rnr_exceeded_err`.
    RnrRetryExceeded,
    /// `rdma_sends`: a send completed.
    Send,
    /// `rdma_recvs`: a receive completed with success.
    Recv,
    /// `np_ecn_marked_roce_packets`: a packet of the peer was marked with congestion.
    Marked,
    /// `np_cnp_sent`: a congestion notification was sent.
    NoticeSent,
    /// `rp_cnp_handled`: a congestion notification was received.
    NoticeReceived,
}

/// Result of handling a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Disposition {
    /// It was handled. Errors of the peer are included.
    Done,
    /// It was ignored.
    Dropped(DropCause),
    /// It arrived early, and nothing has changed. The host may keep it until it is due, or drop it.
    Early,
    /// Memory that it accesses is absent. Nothing has changed: the host passes the same packet
    /// again when the memory is present, and no later packets before that.
    Parked,
}

/// Reasons why a packet was ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropCause {
    /// This half is not enabled, or in error.
    State,
    /// The opcode belongs to another transport, or to the other half.
    Opcode,
    /// The Q_Key of a datagram is wrong.
    Qkey,
    /// It is a repeated response, or a repeated request that cannot be answered again.
    Duplicate,
    /// It is an unsolicited response.
    Unsolicited,
    /// An earlier packet is missing, and this one cannot be kept.
    OutOfSequence,
    /// It does not continue the current message (UC).
    Disorder,
    /// No receive request is posted (UC, UD).
    NoRecv,
    /// Its length is wrong (UC, UD).
    Length,
    /// It may not access the memory that it names (UC).
    Access,
}

/// Result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// There is nothing to do until the next event.
    Idle,
    /// The budget is used up.
    More,
    /// The packet could not be sent; there is no room.
    Blocked,
}

/// Services that the send side requires from its host.
pub trait SendHost {
    /// Takes the next posted request off the user's ring into private slot `slot`. The ring entry
    /// stays occupied until [`retire`](Self::retire). The engine calls it for free slots only, and
    /// uses slots in circular order; a request that is done at once leaves its slot to the next one.
    fn fetch(&mut self, slot: u32) -> SendFetch;

    /// Reports that the request in `slot` is finished; the ring entry may be reused. Called in the
    /// order of fetching, just before the completion, if there is one.
    fn retire(&mut self, slot: u32);

    /// Returns the segment size in bytes for a request that starts now, where the path MTU is
    /// `mtu`. It stays the same for the whole request. A value other than `mtu` requires a
    /// transport that conveys it with each packet ([`RxPacket::mtu`]).
    ///
    /// [`RxPacket::mtu`]: super::packet::RxPacket::mtu
    fn cut(&mut self, mtu: u32) -> u32;

    /// Sends a packet: a request or a congestion notification.
    ///
    /// # Errors
    ///
    /// [`TxError::Blocked`] if there is no room; [`TxError::BadPayload`] if the buffers of the
    /// request cannot be read, which ends it.
    fn emit(&mut self, packet: &TxPacket) -> Result<(), TxError>;

    /// Copies the packet's payload into the buffers of the request in `slot`, `offset` bytes from
    /// their start. The engine guarantees that it fits the request's length.
    ///
    /// # Errors
    ///
    /// See [`LocalFault`].
    fn scatter(&mut self, slot: u32, offset: u32) -> Result<(), LocalFault>;

    /// Writes the result of an atomic operation into the buffers of the request in `slot`, in host
    /// byte order.
    ///
    /// # Errors
    ///
    /// See [`LocalFault`].
    fn scatter_u64(&mut self, slot: u32, value: u64) -> Result<(), LocalFault>;

    /// Executes a local operation ([`SendOp::is_local`]).
    ///
    /// # Errors
    ///
    /// The status with which the request fails.
    fn local(&mut self, slot: u32, op: &SendOp) -> Result<(), WcStatus>;

    /// Returns the PSN of the first kept [early](Disposition::Early) packet.
    fn first_early(&self) -> Option<Psn> {
        None
    }

    /// Posts a completion.
    fn complete(&mut self, completion: &SendCompletion);

    /// Reports an event of the queue pair. The host only records it: it changes the queue pair's
    /// state after the engine's call has returned.
    fn event(&mut self, event: QpEvent);

    /// Counts an event.
    fn count(&mut self, _counter: Counter) {}
}

/// Services that the receive side requires from its host.
pub trait RecvHost {
    /// Sends a packet: a response or a congestion notification.
    ///
    /// # Errors
    ///
    /// [`TxError::Blocked`] if there is no room; [`TxError::BadPayload`] if the memory that the
    /// peer reads is gone.
    fn emit(&mut self, packet: &TxPacket) -> Result<(), TxError>;

    /// Takes the next receive request from the queue pair's own or shared queue, and keeps its
    /// buffers as the current ones until the completion.
    fn take_recv(&mut self) -> RecvFetch;

    /// Takes the next receive request in order to flush it. Returns `Empty` for a shared queue,
    /// which is not flushed.
    fn flush_recv(&mut self) -> RecvFetch;

    /// Copies the packet's payload into the current receive buffers, `offset` bytes from their
    /// start. The engine guarantees that it fits.
    ///
    /// # Errors
    ///
    /// See [`LocalFault`].
    fn scatter_recv(&mut self, offset: u32) -> Result<(), LocalFault>;

    /// Copies the packet's network header, in the 40-byte format of a GRH (annex A17), to the start
    /// of the current receive buffers. The engine guarantees that it fits.
    ///
    /// # Errors
    ///
    /// See [`LocalFault`].
    fn scatter_grh(&mut self) -> Result<(), LocalFault>;

    /// Copies the packet's network header, as [`Self::scatter_grh`] does, and the packet's payload
    /// of `len` bytes behind it. The engine guarantees that both fit.
    ///
    /// # Errors
    ///
    /// See [`LocalFault`].
    fn scatter_datagram(&mut self, len: u32) -> Result<(), LocalFault> {
        self.scatter_datagram_in_parts(len)
    }

    /// [`Self::scatter_datagram`] by one lookup for the header and one for the payload.
    ///
    /// # Errors
    ///
    /// See [`LocalFault`].
    fn scatter_datagram_in_parts(&mut self, len: u32) -> Result<(), LocalFault> {
        self.scatter_grh()?;
        if len != 0 {
            self.scatter_recv(GRH_LEN)?;
        }
        Ok(())
    }

    /// Checks that `key` grants the peer `access`, a read or a write, to `len` bytes at `va`. Not
    /// called for empty ranges, whose key is ignored (IBTA C9-88).
    ///
    /// # Errors
    ///
    /// The reason why it does not.
    fn check_remote(
        &mut self,
        key: Key,
        va: u64,
        len: u32,
        access: AccessFlags,
    ) -> Result<(), RemoteFault>;

    /// Copies the packet's payload to `va`, within a range checked before.
    ///
    /// # Errors
    ///
    /// The reason why it cannot, for instance because the region is gone.
    fn write_remote(&mut self, key: Key, va: u64) -> Result<(), RemoteFault>;

    /// Checks key, rights and alignment, executes an atomic operation on the eight bytes at `va`,
    /// and returns the previous value.
    ///
    /// # Errors
    ///
    /// The reason why it cannot; nothing has changed then.
    fn atomic(&mut self, key: Key, va: u64, op: AtomicOp) -> Result<u64, RemoteFault>;

    /// Checks key, rights and alignment, then stores the packet's payload of eight bytes atomically
    /// at `va`.
    ///
    /// # Errors
    ///
    /// The reason why it cannot; nothing has changed then.
    fn atomic_write(&mut self, key: Key, va: u64) -> Result<(), RemoteFault>;

    /// Checks key, rights and, unless the whole region is to be flushed, the range; then makes
    /// earlier writes visible or persistent.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    fn flush(&mut self, key: Key, va: u64, len: u32, what: FlushKind) -> Result<(), RemoteFault>;

    /// Invalidates a local key on behalf of the peer.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    fn invalidate(&mut self, key: Key) -> Result<(), RemoteFault>;

    /// Posts a completion and releases the current receive request.
    fn complete(&mut self, completion: &RecvCompletion);

    /// Reports an event of the queue pair. The host only records it: it changes the queue pair's
    /// state after the engine's call has returned.
    fn event(&mut self, event: QpEvent);

    /// Counts an event.
    fn count(&mut self, _counter: Counter) {}
}

/// An atomic operation on eight bytes of memory, in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Stores `swap` if the memory contains `compare`.
    CompareSwap {
        /// Expected value.
        compare: u64,
        /// New value.
        swap: u64,
    },
    /// Adds, with wrapping.
    FetchAdd {
        /// The addend.
        add: u64,
    },
}

/// Parameters of a flush request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushKind {
    /// Make writes visible to the whole system.
    pub global: bool,
    /// Make writes persistent across power failures.
    pub persistent: bool,
    /// Flush the whole region rather than the range.
    pub whole_region: bool,
}
