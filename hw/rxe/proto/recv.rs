// SPDX-License-Identifier: GPL-2.0

//! The receive side of one queue pair: the responder.
//!
//! [`RecvSide::on_request`] consumes a packet: the packet is validated, executed at once if it is
//! the expected one, and dropped. Replies to the peer are only recorded; [`RecvSide::poll`] sends
//! them, always in the order of the requests:
//!
//! 1. responses: each read, atomic, atomic write and flush takes one [`Resource`] of a ring. A
//!    resource *runs* while packets of its response are still to be sent; afterwards it serves to
//!    answer a repeated request (IBTA 9.4.4, 9.4.5);
//! 2. one [`Reply`]: an acknowledgment of all executed requests, or a NAK.
//!
//! An error of the peer (RC) or of the local receive buffers ends reception: the side is *failing*
//! until responses and NAK are sent, and then in error.
//!
//! Differences from the C driver: a message that exceeds the receive buffers completes with
//! `LocLen`, a write with immediate data that violates a key with `LocAccess` (IBTA 11.6.2; the C
//! driver reports both as remote errors). The peer sees no difference.
//!
//! All methods may run in any context; nothing sleeps. IBTA 9.7.4, 9.7.5, 9.8, 9.9.3.

mod execute;
mod respond;

use core::ops::DerefMut;

use crate::wire::Msn;
use crate::wire::NakCode;
use crate::wire::Operation;
use crate::wire::Psn;
use crate::wire::RnrTimer;
use crate::wire::Transport;

use super::early::within_reach;
use super::early::ReorderThreshold;
use super::host::Counter;
use super::host::Disposition;
use super::host::DropCause;
use super::host::LocalFault;
use super::host::Progress;
use super::host::QpEvent;
use super::host::RecvFetch;
use super::host::RecvHost;
use super::host::RemoteFault;
use super::notice::Notices;
use super::packet::RxPacket;
use super::types::AccessFlags;
use super::types::Key;
use super::types::Nanos;
use super::types::QpType;
use super::types::Qpn;
use super::types::WcOpcode;
use super::types::WcStatus;
use super::wqe::RecvCompletion;
use super::wqe::RecvWqe;

pub use respond::rounded_depth;
pub use respond::Resource;

/// Bytes of a datagram's network header at the start of the receive buffers.
pub const GRH_LEN: u32 = 40;

/// Attributes for receiving, set by modify_qp. Change them with [`RecvSide::set_attr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvAttr {
    /// The transport service.
    pub kind: QpType,
    /// QPN of the peer, except on datagram queue pairs.
    pub dest: Qpn,
    /// Path MTU in bytes.
    pub mtu: u32,
    /// The peer's rights to local memory.
    pub access: AccessFlags,
    /// Q_Key that datagrams must carry; not used on the GSI queue pair.
    pub qkey: u32,
    /// How long the peer must wait when there is no receive request.
    pub rnr_timer: RnrTimer,
}

impl RecvAttr {
    /// Returns the attributes of a new queue pair.
    #[must_use]
    pub const fn new(kind: QpType) -> Self {
        Self {
            kind,
            dest: Qpn(0),
            mtu: 1024,
            access: AccessFlags::NONE,
            qkey: 0,
            rnr_timer: RnrTimer::new(0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// RESET, INIT: packets are ignored.
    Closed,
    /// RTR and later.
    Open,
    /// Requests are ignored; pending replies are still sent.
    Failing,
    /// Err: receive requests are flushed. `told`: the last one was reported.
    Error { told: bool },
}

/// A partially received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    None,
    Send { received: u32 },
    Write(Write),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Write {
    key: Key,
    /// Address of the next byte.
    va: u64,
    /// Number of bytes still to come.
    left: u32,
    total: u32,
}

/// The reply to the peer after all responses are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Nothing,
    /// Acknowledges all requests before the expected PSN.
    Ack,
    /// Reports the expected packet as missing, as a later one arrived. Also acknowledges; only
    /// acknowledges if all missing packets have arrived before the reply is sent.
    Missing,
    /// No receive request is posted for the expected packet. Also acknowledges.
    NotReady,
    /// The request with this PSN failed, which ends reception.
    Refused {
        psn: Psn,
        code: NakCode,
    },
}

/// What was reported to the peer about the expected PSN. Nothing more is reported until it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    /// It is missing.
    Missing,
    /// No receive request is posted for it.
    NotReady,
}

/// Reasons why the expected packet is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// No receive request is posted.
    NotReady,
    /// It does not continue the preceding packet's message.
    Order,
    /// The queue pair does not support the request, or not so many of them.
    Unsupported,
    /// The Q_Key of a datagram is wrong.
    Qkey,
    /// Its length is wrong.
    Length,
    /// The message exceeds the receive buffers.
    TooLong,
    /// The memory that it names is not accessible.
    Memory(RemoteFault),
    /// The key that it names cannot be invalidated.
    Invalidate,
    /// The receive request is invalid; it completes with this status.
    Local(WcStatus),
    /// Memory that it accesses is absent, but will be faulted in.
    Absent,
}

impl From<LocalFault> for Refusal {
    fn from(fault: LocalFault) -> Self {
        match fault {
            LocalFault::Absent => Refusal::Absent,
            LocalFault::Status(status) => Refusal::Local(status),
        }
    }
}

impl From<RemoteFault> for Refusal {
    fn from(fault: RemoteFault) -> Self {
        match fault {
            RemoteFault::Absent => Refusal::Absent,
            RemoteFault::Access | RemoteFault::Misaligned | RemoteFault::Failed => {
                Refusal::Memory(fault)
            }
        }
    }
}

impl Refusal {
    /// Returns the NAK for an RC peer, and the completion status of the current receive request.
    /// `None` for refusals that are not errors.
    const fn verdict(self) -> Option<(NakCode, WcStatus)> {
        match self {
            Refusal::NotReady | Refusal::Absent => None,
            Refusal::Order | Refusal::Unsupported | Refusal::Qkey | Refusal::Length => {
                Some((NakCode::InvalidRequest, WcStatus::RemInvReq))
            }
            Refusal::TooLong => Some((NakCode::InvalidRequest, WcStatus::LocLen)),
            Refusal::Memory(fault) => match fault {
                RemoteFault::Absent => None,
                RemoteFault::Access => Some((NakCode::RemoteAccess, WcStatus::LocAccess)),
                RemoteFault::Misaligned => Some((NakCode::InvalidRequest, WcStatus::RemInvReq)),
                RemoteFault::Failed => Some((NakCode::RemoteOperation, WcStatus::RemOp)),
            },
            Refusal::Invalidate => Some((NakCode::RemoteAccess, WcStatus::RemInvReq)),
            Refusal::Local(status) => Some((NakCode::RemoteOperation, status)),
        }
    }

    /// Returns the reason to drop the packet on transports without NAKs.
    const fn cause(self) -> DropCause {
        match self {
            Refusal::NotReady => DropCause::NoRecv,
            Refusal::Order => DropCause::Disorder,
            Refusal::Qkey => DropCause::Qkey,
            Refusal::Unsupported | Refusal::Memory(_) | Refusal::Invalidate => DropCause::Access,
            Refusal::Length | Refusal::TooLong => DropCause::Length,
            Refusal::Local(_) | Refusal::Absent => DropCause::State,
        }
    }
}

/// The receive side of one queue pair. `R` is the storage for as many reads and atomics as the peer
/// may have outstanding (`max_dest_rd_atomic`).
#[derive(Debug)]
pub struct RecvSide<R> {
    attr: RecvAttr,
    resources: R,
    /// Index of the resource to use next, which is the oldest.
    oldest: u32,
    /// Number of running resources.
    running: u32,
    phase: Phase,
    /// The expected PSN.
    expected: Psn,
    /// Number of completed messages (message sequence number).
    msn: Msn,
    message: Message,
    /// The current receive request.
    recv: Option<RecvWqe>,
    reply: Reply,
    /// What was reported to the peer about the expected PSN.
    told: Told,
    /// PSN of the last early packet. No packet beyond it is known to be missing.
    ahead: Psn,
    /// Determines when early packets mean that one is lost.
    reordering: ReorderThreshold,
    notices: Notices,
}

impl<R: DerefMut<Target = [Resource]>> RecvSide<R> {
    /// Creates a receive side in the reset state.
    pub fn new(resources: R, attr: RecvAttr) -> Self {
        let mut side = Self {
            attr,
            resources,
            oldest: 0,
            running: 0,
            phase: Phase::Closed,
            expected: Psn::new(0),
            msn: Msn::new(0),
            message: Message::None,
            recv: None,
            reply: Reply::Nothing,
            told: Told::Nothing,
            ahead: Psn::new(0),
            reordering: ReorderThreshold::NEW,
            notices: Notices::NEW,
        };
        side.set_attr(attr);
        side
    }

    /// Returns the attributes set by modify_qp.
    pub fn attr(&self) -> &RecvAttr {
        &self.attr
    }

    /// Sets the attributes that modify_qp may set.
    pub fn set_attr(&mut self, attr: RecvAttr) {
        self.attr = attr;
        self.attr.mtu = attr.mtu.max(1);
    }

    /// Replaces the storage for reads and atomics and discards its contents. Returns the old
    /// storage, to be freed where that is allowed.
    #[must_use = "free it outside of locks"]
    pub fn set_resources(&mut self, resources: R) -> R {
        let old = core::mem::replace(&mut self.resources, resources);
        self.clear_resources();
        old
    }

    /// Returns the expected PSN (`rq_psn` of query_qp).
    pub fn psn(&self) -> Psn {
        self.expected
    }

    /// Returns the number of messages completed since reset.
    pub fn msn(&self) -> Msn {
        self.msn
    }

    /// Sets the expected PSN (`rq_psn` of modify_qp).
    pub fn set_psn(&mut self, psn: Psn) {
        self.expected = psn;
        self.told = Told::Nothing;
        self.ahead = psn - 1;
    }

    /// Returns whether an early request with this PSN is due: all earlier ones have arrived, or it
    /// is not needed any more.
    pub fn is_due(&self, psn: Psn) -> bool {
        self.phase != Phase::Open || !psn.is_after(self.expected)
    }

    /// Enters RTR. No effect if the side is enabled or in error.
    pub fn enable(&mut self) {
        match self.phase {
            Phase::Closed => self.phase = Phase::Open,
            Phase::Open | Phase::Failing | Phase::Error { .. } => {}
        }
    }

    /// Enters the error state. The host polls next: each poll flushes the receive requests posted
    /// until then.
    pub fn set_error(&mut self) {
        match self.phase {
            Phase::Error { .. } => {}
            Phase::Closed | Phase::Open | Phase::Failing => {
                self.forget();
                self.phase = Phase::Error { told: false };
            }
        }
    }

    /// Returns whether a message has started to fill a receive request.
    pub fn is_busy(&self) -> bool {
        self.recv.is_some()
    }

    /// Returns whether polling would send something to the peer.
    pub fn owes(&self) -> bool {
        self.reply != Reply::Nothing || self.running != 0 || self.notices.is_due()
    }

    /// Returns whether responses to reads, atomics, atomic writes or flushes are still to be sent.
    pub fn is_responding(&self) -> bool {
        self.running != 0
    }

    /// Returns whether only an acknowledgment of complete messages is pending and no packet is
    /// known to be missing: the acknowledgment may then be delayed
    /// ([`delayed_ack`](super::delayed_ack)).
    pub fn ack_may_wait(&self) -> bool {
        self.phase == Phase::Open
            && self.reply == Reply::Ack
            && self.running == 0
            && self.message == Message::None
            && self.told == Told::Nothing
            && self.ahead.is_before(self.expected)
            && !self.notices.is_due()
    }

    /// Enters the reset state: discards everything without completions. The host empties its ring
    /// as well.
    pub fn reset(&mut self) {
        self.forget();
        self.recv = None;
        self.msn = Msn::new(0);
        self.phase = Phase::Closed;
    }

    /// Handles a request. The host polls at the end of the run.
    pub fn on_request(&mut self, packet: &RxPacket, host: &mut impl RecvHost) -> Disposition {
        match self.phase {
            Phase::Open => {}
            Phase::Closed | Phase::Failing | Phase::Error { .. } => {
                return Disposition::Dropped(DropCause::State);
            }
        }
        let transport = match self.attr.kind {
            QpType::Rc => Transport::Rc,
            QpType::Uc => Transport::Uc,
            QpType::Ud | QpType::Gsi => Transport::Ud,
        };
        if packet.opcode.transport() != transport || !packet.opcode.is_request() {
            return Disposition::Dropped(DropCause::Opcode);
        }
        match self.attr.kind {
            QpType::Rc => self.on_reliable(packet, host),
            QpType::Uc => self.on_unreliable(packet, host),
            QpType::Ud | QpType::Gsi => {
                let done = self.datagram(packet, host);
                self.drop_or_fail(done, host)
            }
        }
    }

    /// Handles the congestion mark of a request: the peer is notified. The host polls next.
    pub fn on_mark(&mut self, now: Nanos, host: &mut impl RecvHost) {
        host.count(Counter::Marked);
        self.notices.marked(now);
    }

    fn on_reliable(&mut self, packet: &RxPacket, host: &mut impl RecvHost) -> Disposition {
        let way = packet.psn.distance(self.expected);
        if way < 0 {
            host.count(Counter::DuplicateRequest);
            self.reordering.again(packet.psn);
            self.repeat(packet);
            return Disposition::Dropped(DropCause::Duplicate);
        }
        if way > 0 {
            if packet.psn.is_after(self.ahead) || self.ahead.is_before(self.expected) {
                self.ahead = packet.psn;
            }
            // One NAK per gap, regardless of the number of packets behind it.
            if self.reordering.is_over(packet.ack_req) && self.told == Told::Nothing {
                host.count(Counter::OutOfSequenceRequest);
                self.told = Told::Missing;
                self.reply = Reply::Missing;
            }
            // The payload of a peer on this device is not in the packet, so it cannot be kept.
            return if packet.mtu.is_none() && within_reach(self.expected, packet.psn) {
                Disposition::Early
            } else {
                Disposition::Dropped(DropCause::OutOfSequence)
            };
        }
        match self.request(packet, host) {
            Ok(()) => {
                if !self.ahead.is_after(packet.psn) {
                    self.ahead = self.expected - 1;
                }
                let told = core::mem::replace(&mut self.told, Told::Nothing);
                self.reordering.moved();
                if self.reply == Reply::NotReady {
                    // The request was retransmitted before the RNR NAK was sent, and now there is a
                    // receive request. Packets in between may have been dropped.
                    self.reply = Reply::Missing;
                }
                let again = told == Told::Missing && packet.ack_req;
                if again && matches!(self.reply, Reply::Nothing | Reply::Ack) {
                    // The missing packet was retransmitted, and the sender asks what else is
                    // missing.
                    self.reply = Reply::Missing;
                }
                let answered = matches!(
                    packet.opcode.operation(),
                    Operation::ReadRequest
                        | Operation::CompareSwap
                        | Operation::FetchAdd
                        | Operation::Flush
                        | Operation::AtomicWrite
                );
                match self.reply {
                    // The response acknowledges all requests before it.
                    Reply::Ack if answered => self.reply = Reply::Nothing,
                    Reply::Nothing if packet.ack_req && !answered => self.reply = Reply::Ack,
                    Reply::Nothing
                    | Reply::Ack
                    | Reply::Missing
                    | Reply::NotReady
                    | Reply::Refused { .. } => {}
                }
                Disposition::Done
            }
            Err(Refusal::Absent) => Disposition::Parked,
            Err(refusal) => match refusal.verdict() {
                None => {
                    host.count(Counter::RnrSent);
                    self.told = Told::NotReady;
                    self.reply = Reply::NotReady;
                    Disposition::Done
                }
                Some((code, status)) => {
                    self.fail(status, Some((packet.psn, code)), host);
                    Disposition::Done
                }
            },
        }
    }

    /// IBTA 9.8.2: any error discards the message, and the next one starts afresh.
    fn on_unreliable(&mut self, packet: &RxPacket, host: &mut impl RecvHost) -> Disposition {
        let start = packet.opcode.position().is_start();
        if start || packet.psn != self.expected {
            // The receive request of an incomplete message is reused for the next one.
            self.message = Message::None;
            self.expected = packet.psn;
        }
        let done = self.request(packet, host);
        match done {
            Ok(()) | Err(Refusal::Absent) => {}
            Err(_) => self.message = Message::None,
        }
        self.drop_or_fail(done, host)
    }

    /// Returns the result on a transport without NAKs: only the local receive requests can cause an
    /// error.
    fn drop_or_fail(&mut self, done: Result<(), Refusal>, host: &mut impl RecvHost) -> Disposition {
        match done {
            Ok(()) => Disposition::Done,
            Err(Refusal::Absent) => Disposition::Parked,
            Err(Refusal::Local(status)) => {
                self.fail(status, None, host);
                Disposition::Done
            }
            Err(
                refusal @ (Refusal::NotReady
                | Refusal::Order
                | Refusal::Unsupported
                | Refusal::Qkey
                | Refusal::Length
                | Refusal::TooLong
                | Refusal::Memory(_)
                | Refusal::Invalidate),
            ) => Disposition::Dropped(refusal.cause()),
        }
    }

    /// Ends reception because of a packet. The error is reported by the current receive request or,
    /// without one, by an event (IBTA C9-222.1).
    fn fail(&mut self, status: WcStatus, nak: Option<(Psn, NakCode)>, host: &mut impl RecvHost) {
        self.end(nak);
        match self.recv.take() {
            Some(wqe) => host.complete(&failed(wqe.wr_id, status)),
            None => host.event(match nak {
                Some((_, NakCode::RemoteAccess)) => QpEvent::AccessError,
                Some((
                    _,
                    NakCode::InvalidRequest | NakCode::RemoteOperation | NakCode::PsnSequence,
                ))
                | None => QpEvent::RequestError,
            }),
        }
    }

    /// Ends reception once the responses and this NAK are sent.
    fn end(&mut self, nak: Option<(Psn, NakCode)>) {
        self.phase = Phase::Failing;
        self.message = Message::None;
        self.reply = match nak {
            Some((psn, code)) => Reply::Refused { psn, code },
            None => Reply::Nothing,
        };
    }

    /// Sends pending replies and flushes receive requests, up to `budget` packets or requests.
    pub fn poll(&mut self, host: &mut impl RecvHost, budget: u32) -> Progress {
        let mut left = budget;
        if let Some(notice) = self.notices.take(self.attr.dest, self.attr.mtu) {
            if self.phase == Phase::Open && host.emit(&notice).is_ok() {
                host.count(Counter::NoticeSent);
            }
        }
        loop {
            match self.phase {
                Phase::Closed => return Progress::Idle,
                Phase::Error { .. } => return self.flush(host, &mut left),
                Phase::Open | Phase::Failing => {}
            }
            match (self.respond(host, &mut left), self.phase) {
                (Progress::Idle, Phase::Failing) => {
                    self.set_error();
                    host.event(QpEvent::RecvFailed);
                }
                (progress, _) => return progress,
            }
        }
    }

    /// Flushes receive requests.
    fn flush(&mut self, host: &mut impl RecvHost, left: &mut u32) -> Progress {
        loop {
            if *left == 0 {
                return Progress::More;
            }
            *left = left.saturating_sub(1);
            let wr_id = match self.recv.take() {
                Some(wqe) => wqe.wr_id,
                None => match host.flush_recv() {
                    RecvFetch::Wqe(wqe) => wqe.wr_id,
                    RecvFetch::Bad(bad) => bad.wr_id,
                    RecvFetch::Empty => {
                        if self.phase == (Phase::Error { told: false }) {
                            self.phase = Phase::Error { told: true };
                            host.event(QpEvent::LastRecv);
                        }
                        return Progress::Idle;
                    }
                },
            };
            host.complete(&failed(wr_id, WcStatus::WrFlush));
        }
    }

    fn forget(&mut self) {
        self.clear_resources();
        self.message = Message::None;
        self.reply = Reply::Nothing;
        self.told = Told::Nothing;
        self.ahead = self.expected - 1;
        self.reordering = ReorderThreshold::NEW;
    }
}

/// Returns the completion of a receive request that failed.
fn failed(wr_id: u64, status: WcStatus) -> RecvCompletion {
    RecvCompletion {
        wr_id,
        status,
        opcode: WcOpcode::Recv,
        byte_len: 0,
        imm: None,
        invalidated: None,
        src_qpn: None,
        solicited: true,
    }
}
