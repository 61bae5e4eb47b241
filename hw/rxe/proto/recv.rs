// SPDX-License-Identifier: GPL-2.0

//! The receive side of one queue pair: the responder.
//!
//! [`RecvSide::on_request`] consumes a packet: it is checked, executed at once if it
//! is the expected one, and forgotten. What is owed to the peer is only noted, and
//! sent by [`RecvSide::poll`], always in the order of the requests:
//!
//! 1. responses: each read, atomic, atomic write and flush takes one [`Resource`] of
//!    a circle. A resource *runs* while packets of its response are still to be
//!    sent, and afterwards serves to answer a repeated request (IBTA 9.4.4, 9.4.5);
//! 2. one [`Reply`]: an acknowledgement of all that was executed, or a NAK.
//!
//! An error of the peer (RC) or of our own receive buffers ends the conversation:
//! the side is *failing* until responses and NAK are out, and then in error.
//!
//! Where we leave the C driver: a message that exceeds the receive buffers completes
//! with `LocLen`, a write with immediate data that violates a key with `LocAccess`
//! (IBTA 11.6.2; there both are remote errors). The peer sees no difference.
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

/// What a datagram's network header takes at the front of the receive buffers.
pub const GRH_LEN: u32 = 40;

/// What modify_qp sets for receiving. Change it by [`RecvSide::set_attr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvAttr {
    /// The transport service.
    pub kind: QpType,
    /// The peer's queue pair, unless this is a datagram one.
    pub dest: Qpn,
    /// The path MTU in bytes.
    pub mtu: u32,
    /// What the peer may do to memory.
    pub access: AccessFlags,
    /// What a datagram must present; of no account on the GSI queue pair.
    pub qkey: u32,
    /// How long the peer shall wait when there is no receive request.
    pub rnr_timer: RnrTimer,
}

impl RecvAttr {
    /// Attributes of a fresh queue pair.
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
    /// Reset, Init: packets are ignored.
    Closed,
    /// RTR and later.
    Open,
    /// Requests are ignored; what is owed is still sent.
    Failing,
    /// Err: receive requests are flushed. `told` once the last one was reported.
    Error { told: bool },
}

/// The message of which some packets have come and others are to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    None,
    Send { received: u32 },
    Write(Write),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Write {
    key: Key,
    /// Where the next byte goes.
    va: u64,
    /// How many bytes are still to come.
    left: u32,
    total: u32,
}

/// What the peer is told when all responses are out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Nothing,
    /// All that was expected so far is done.
    Ack,
    /// The expected packet did not come, but a later one did. Acknowledges as well; and
    /// does only that if all that was dropped has come before it could be sent.
    Missing,
    /// There is no receive request for the expected packet. Acknowledges as well.
    NotReady,
    /// The request with this PSN failed, and with it the conversation.
    Refused {
        psn: Psn,
        code: NakCode,
    },
}

/// What the peer was told of the expected PSN: nothing more is said before that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    /// That it is missing.
    Missing,
    /// That there is no receive request for it.
    NotReady,
}

/// Why the expected packet is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// No receive request is posted.
    NotReady,
    /// It does not go on where the packet before it stopped.
    Order,
    /// The queue pair does not do this, or not so often.
    Unsupported,
    /// A datagram with the wrong Q_Key.
    Qkey,
    /// Its length is wrong.
    Length,
    /// The message exceeds the receive buffers.
    TooLong,
    /// It cannot have the memory it names.
    Memory(RemoteFault),
    /// It cannot invalidate the key it names.
    Invalidate,
    /// The receive request is no good; this is what its completion says.
    Local(WcStatus),
    /// Memory it touches is not there yet, but will be.
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
    /// What an RC peer is told, and what the receive request in hand completes with.
    /// `None` for those that are no errors.
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

    /// Why the packet is dropped where there are no NAKs.
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

/// The receive side of one queue pair. `R` is the storage for reads and atomics, as
/// many as the peer may have outstanding (`max_dest_rd_atomic`).
#[derive(Debug)]
pub struct RecvSide<R> {
    attr: RecvAttr,
    resources: R,
    /// The resource to use next, which is the oldest one.
    oldest: u32,
    /// How many resources run.
    running: u32,
    phase: Phase,
    /// The PSN that must come next.
    expected: Psn,
    /// Messages completed.
    msn: Msn,
    message: Message,
    /// The receive request in hand.
    recv: Option<RecvWqe>,
    reply: Reply,
    /// What the peer was told of the expected PSN.
    told: Told,
    /// The last PSN that came before its turn. Beyond it nothing is known to miss.
    ahead: Psn,
    /// Whether what comes early means that something is lost.
    reordering: ReorderThreshold,
    notices: Notices,
}

impl<R: DerefMut<Target = [Resource]>> RecvSide<R> {
    /// A receive side in the reset state.
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

    /// What modify_qp has set.
    pub fn attr(&self) -> &RecvAttr {
        &self.attr
    }

    /// Sets what modify_qp may set.
    pub fn set_attr(&mut self, attr: RecvAttr) {
        self.attr = attr;
        self.attr.mtu = attr.mtu.max(1);
    }

    /// Replaces the storage for reads and atomics, and forgets what it held. The old
    /// one comes back, to be freed where that is allowed.
    #[must_use = "free it outside of locks"]
    pub fn set_resources(&mut self, resources: R) -> R {
        let old = core::mem::replace(&mut self.resources, resources);
        self.clear_resources();
        old
    }

    /// The PSN that must come next (`rq_psn` of query_qp).
    pub fn psn(&self) -> Psn {
        self.expected
    }

    /// How many messages were completed since reset.
    pub fn msn(&self) -> Msn {
        self.msn
    }

    /// Sets the PSN that must come next (`rq_psn` of modify_qp).
    pub fn set_psn(&mut self, psn: Psn) {
        self.expected = psn;
        self.told = Told::Nothing;
        self.ahead = psn - 1;
    }

    /// Whether an early request with this PSN is to be handed in now: all before it are
    /// there, or nobody wants it any more.
    pub fn is_due(&self, psn: Psn) -> bool {
        self.phase != Phase::Open || !psn.is_after(self.expected)
    }

    /// Enters RTR. Does nothing to a side that is enabled or in error.
    pub fn enable(&mut self) {
        match self.phase {
            Phase::Closed => self.phase = Phase::Open,
            Phase::Open | Phase::Failing | Phase::Error { .. } => {}
        }
    }

    /// Enters the error state. The host polls next: polling flushes every receive
    /// request posted until then, and later ones whenever it is called again.
    pub fn set_error(&mut self) {
        match self.phase {
            Phase::Error { .. } => {}
            Phase::Closed | Phase::Open | Phase::Failing => {
                self.forget();
                self.phase = Phase::Error { told: false };
            }
        }
    }

    /// Whether it holds a receive request, which some message has begun to fill.
    pub fn is_busy(&self) -> bool {
        self.recv.is_some()
    }

    /// Whether polling would send something to the peer.
    pub fn owes(&self) -> bool {
        self.reply != Reply::Nothing || self.running != 0 || self.notices.is_due()
    }

    /// Whether nothing but one acknowledgement of whole messages is owed, and nobody knows of
    /// anything missing: it may leave a little later ([`delayed_ack`](super::delayed_ack)).
    pub fn ack_may_wait(&self) -> bool {
        self.phase == Phase::Open
            && self.reply == Reply::Ack
            && self.running == 0
            && self.message == Message::None
            && self.told == Told::Nothing
            && self.ahead.is_before(self.expected)
            && !self.notices.is_due()
    }

    /// Enters the reset state: forgets everything without a completion. The host
    /// empties its ring as well.
    pub fn reset(&mut self) {
        self.forget();
        self.recv = None;
        self.msn = Msn::new(0);
        self.phase = Phase::Closed;
    }

    /// A request arrived. The host polls when the run is over.
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

    /// A request met congestion; the peer is told. The host polls next.
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
            // One NAK for a gap, however many packets come after it.
            if self.reordering.is_over(packet.ack_req) && self.told == Told::Nothing {
                host.count(Counter::OutOfSequenceRequest);
                self.told = Told::Missing;
                self.reply = Reply::Missing;
            }
            // Bytes of a peer on this device are not in the packet.
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
                    // It was sent again before we said no, and now there is a receive
                    // request. What came between may have been dropped.
                    self.reply = Reply::Missing;
                }
                let again = told == Told::Missing && packet.ack_req;
                if again && matches!(self.reply, Reply::Nothing | Reply::Ack) {
                    // What was missing was sent again, and the sender asks what else is.
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
                    // The response will acknowledge what came before it.
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

    /// IBTA 9.8.2: whatever is wrong costs the message, and the next one begins anew.
    fn on_unreliable(&mut self, packet: &RxPacket, host: &mut impl RecvHost) -> Disposition {
        let start = packet.opcode.position().is_start();
        if start || packet.psn != self.expected {
            // The receive request of a broken message serves the next one.
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

    /// The outcome on a transport without NAKs: only our own receive requests can
    /// break it.
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

    /// A packet ends the conversation. The receive request in hand bears the blame;
    /// without one an event does (IBTA C9-222.1).
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

    /// The conversation is over when responses and this NAK are out.
    fn end(&mut self, nak: Option<(Psn, NakCode)>) {
        self.phase = Phase::Failing;
        self.message = Message::None;
        self.reply = match nak {
            Some((psn, code)) => Reply::Refused { psn, code },
            None => Reply::Nothing,
        };
    }

    /// Sends what is owed and flushes what must be, up to `budget` packets or requests.
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

/// The completion of a receive request that received nothing.
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
