// SPDX-License-Identifier: GPL-2.0

//! The send side of one queue pair: requester and completer.
//!
//! # Model
//!
//! Requests are in a ring of slots. From the oldest on, each slot is *done*, *started* (it owns a
//! range of PSNs, some or all of them sent) or *waiting*; a cursor `at` names the slot to send from
//! next.
//!
//! ```text
//!   slots   head ............ at ........... held
//!           started  started  started  waiting  waiting
//!   PSNs    una ............. nxt ... top
//!           oldest unanswered | next   | first never sent
//! ```
//!
//! Normally `nxt == top`. To retransmit everything (go-back-N), `nxt` is set to `una` and `at` to
//! the oldest slot; offsets follow from the PSNs, so slots need not be rolled back. The oldest slot
//! is completed as soon as it is done, in order, and freed. A request of one packet that nobody
//! acknowledges is usually done before it would take a slot ([`unreliable`]).
//!
//! # Loss recovery
//!
//! Acknowledgments are cumulative, so they do not report packets behind a gap. But the peer may
//! have kept those (this driver does, the C driver does not). So at first only `una` is
//! retransmitted ([`SingleRetransmit`]), with an acknowledgment request. If the acknowledgment
//! covers more, the peer keeps early packets. If it covers just this packet, the peer does not, or
//! all were lost: then go-back-N is used. If a peer was found twice to keep nothing, single
//! retransmission is not used for some time.
//!
//! Once the round-trip times are known, missing responses are handled in the same way, long before
//! the timeout of the queue pair. Only the timeout counts against `retry_cnt`.
//!
//! A request that fails locally (bad buffers, bad opcode) keeps its place: the requests before it
//! complete first, then it completes with its error, and the rest are flushed.
//!
//! All methods may run in any context; nothing sleeps. IBTA 9.7.3 to 9.7.8, 9.9.2.

mod ack;
mod datagram;
mod request;
mod retransmit;
mod slots;
mod transmit;
mod unreliable;
mod window;

use crate::wire::Psn;

use super::early::ReorderThreshold;
use super::host::Counter;
use super::host::Progress;
use super::host::QpEvent;
use super::host::SendFetch;
use super::host::SendHost;
use super::notice::Notices;
use super::types::ahead;
use super::types::Nanos;
use super::types::QpType;
use super::types::Qpn;
use super::types::RetryLimit;
use super::types::WcStatus;
use super::types::MAX_OUTSTANDING;
use super::wqe::SendCompletion;
use super::wqe::SendFlags;
use super::wqe::SendOp;
use super::wqe::SendWqe;

use retransmit::RttProbe;
use retransmit::SingleRetransmit;
use retransmit::Waits;
use window::Window;

pub use slots::Slots;

/// Initial window of a queue pair, in PSNs.
pub const DEFAULT_WINDOW: u32 = window::START;
/// Maximum window, in PSNs.
pub const MAX_WINDOW: u32 = window::MOST;

/// Attributes for sending, set by modify_qp. Change them with [`SendSide::set_attr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendAttr {
    /// The transport service.
    pub kind: QpType,
    /// Number of this queue pair; datagrams carry it.
    pub qpn: Qpn,
    /// QPN of the peer, except on datagram queue pairs.
    pub dest: Qpn,
    /// Maximum payload bytes per packet: the path MTU, or the port's on datagram queue pairs.
    pub mtu: u32,
    /// How long to wait for a response (RC); `None` is infinite.
    pub timeout: Option<Nanos>,
    /// Number of retries without progress, after a timeout or a sequence NAK.
    pub retry: RetryLimit,
    /// Number of retries without progress after an RNR NAK.
    pub rnr_retry: RetryLimit,
    /// Maximum number of outstanding reads, atomics and flushes.
    pub max_rd_atomic: u32,
    /// Initial limit of outstanding PSNs; a read may exceed it. The window then adapts to the path.
    pub window: u32,
}

impl SendAttr {
    /// Returns the attributes of a new queue pair.
    #[must_use]
    pub const fn new(kind: QpType, qpn: Qpn) -> Self {
        Self {
            kind,
            qpn,
            dest: Qpn(0),
            mtu: 1024,
            timeout: None,
            retry: RetryLimit::Limited(0),
            rnr_retry: RetryLimit::Limited(0),
            max_rd_atomic: 0,
            window: DEFAULT_WINDOW,
        }
    }
}

/// Private storage for one posted request. There are as many as entries in the send queue.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    wqe: SendWqe,
    state: SlotState,
}

impl Slot {
    /// Unused storage.
    pub const EMPTY: Slot = Slot {
        wqe: SendWqe {
            wr_id: 0,
            op: SendOp::Send { imm: None },
            flags: SendFlags {
                signaled: false,
                solicited: false,
                fence: false,
            },
            length: 0,
            ud: None,
        },
        state: SlotState::Waiting,
    };
}

impl Default for Slot {
    fn default() -> Self {
        Self::EMPTY
    }
}

#[derive(Clone, Copy, Debug)]
enum SlotState {
    /// No packets of it were sent.
    Waiting,
    /// It owns these PSNs; some or all were sent.
    Started(Run),
    /// It is finished.
    Done,
    /// It failed, and is completed when it is the oldest.
    Failed(WcStatus),
}

/// PSNs of a started request.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Psn,
    count: u32,
    /// Segment size in bytes: every PSN but the last stands for this much of the message.
    mtu: u32,
}

/// State of the send side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// RESET, INIT, RTR: requests may be posted, but wait.
    Closed,
    /// RTS.
    Open,
    /// SQD: started requests continue, no others are started.
    Draining,
    /// SQD, and all started requests are complete.
    Drained,
    /// Err or SQE: all requests are flushed.
    Error,
}

/// The event that the send side waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Nothing.
    Nothing,
    /// The peer was not ready: nothing is sent before `until`.
    Ready { until: Nanos },
    /// A response.
    Answer {
        /// Retransmit if there is no response before this time.
        deadline: Nanos,
        /// Time to send a probe, before the deadline.
        probe_at: Option<Nanos>,
    },
}

/// Interpretation of a sequence NAK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeqNak {
    /// A packet was lost.
    News,
    /// No news: `una` was retransmitted because of an earlier NAK, and this one refers to packets
    /// sent before that.
    Stale,
}

/// Result of one step of sending.
enum Step {
    Again,
    Stop(Progress),
}

/// The send side of one queue pair. `S` is the storage for posted requests.
#[derive(Debug)]
pub struct SendSide<S> {
    attr: SendAttr,
    slots: S,
    /// Maximum number of requests; at most 2^24.
    room: u32,
    /// Slot of the oldest request, less than `room`.
    head: u32,
    /// Number of requests held, starting at `head`.
    held: u32,
    /// The request to send from next, relative to `head`.
    at: u32,
    /// The oldest unacknowledged PSN.
    una: Psn,
    /// PSN of the next packet.
    nxt: Psn,
    /// The first PSN that was never sent.
    top: Psn,
    /// Number of requests that need a response and are started but not done.
    responses: u32,
    /// Number of packets sent since the last acknowledgment request.
    since_ack_req: u32,
    gate: Gate,
    wait: Wait,
    retries_left: RetryLimit,
    rnr_retries_left: RetryLimit,
    seq_nak: SeqNak,
    /// State of the single retransmission of `una`.
    single: SingleRetransmit,
    /// Unanswered probes so far.
    probes: u32,
    /// How long to wait for responses; `None` is infinite.
    waits: Option<Waits>,
    /// A probe whose response may still arrive; it gives a round-trip time.
    rtt_probe: Option<RttProbe>,
    /// Determines when early responses mean that one is lost.
    reordering: ReorderThreshold,
    window: Window,
    notices: Notices,
    /// The packet whose round-trip time is being measured, and when it was sent.
    timed: Option<(Psn, Nanos)>,
    /// The ring was empty when this poll last checked; whoever posts polls again.
    sq_empty: bool,
}

impl<S: Slots> SendSide<S> {
    /// Creates a send side in the reset state.
    pub fn new(slots: S, attr: SendAttr) -> Self {
        let mut side = Self {
            attr,
            room: slots.room().min(1 << 24),
            slots,
            head: 0,
            held: 0,
            at: 0,
            una: Psn::new(0),
            nxt: Psn::new(0),
            top: Psn::new(0),
            responses: 0,
            since_ack_req: 0,
            gate: Gate::Closed,
            wait: Wait::Nothing,
            retries_left: attr.retry,
            rnr_retries_left: attr.rnr_retry,
            seq_nak: SeqNak::News,
            single: SingleRetransmit::NEW,
            probes: 0,
            waits: None,
            rtt_probe: None,
            reordering: ReorderThreshold::NEW,
            window: Window::new(attr.window),
            notices: Notices::NEW,
            timed: None,
            sq_empty: false,
        };
        side.set_attr(attr);
        side
    }

    /// Returns the attributes set by modify_qp.
    pub fn attr(&self) -> &SendAttr {
        &self.attr
    }

    /// Sets the attributes that modify_qp may set. Resets the retry counts. Started requests keep
    /// their path MTU.
    pub fn set_attr(&mut self, attr: SendAttr) {
        let before = self.attr.window;
        self.attr = attr;
        self.attr.mtu = attr.mtu.max(1);
        self.attr.window = attr.window.clamp(1, MAX_OUTSTANDING / 2);
        if self.attr.window != before {
            self.window = Window::new(self.attr.window);
        }
        self.set_waits();
        self.retries_left = attr.retry;
        self.rnr_retries_left = attr.rnr_retry;
    }

    /// Returns the PSN of the next new packet (`sq_psn` of query_qp).
    pub fn psn(&self) -> Psn {
        self.top
    }

    /// Sets the PSN of the next packet (`sq_psn` of modify_qp). Returns `false` and does nothing
    /// while PSNs are outstanding or a request is partly sent (on UC no PSNs are ever outstanding).
    #[must_use]
    pub fn set_psn(&mut self, psn: Psn) -> bool {
        let started = self.held != 0
            && matches!(
                self.oldest(),
                Some(Slot {
                    state: SlotState::Started(_),
                    ..
                })
            );
        if self.outstanding() != 0 || self.at != 0 || started {
            return false;
        }
        self.una = psn;
        self.nxt = psn;
        self.top = psn;
        true
    }

    /// Returns whether a drain was requested and is not complete (`sq_draining` of query_qp).
    pub fn is_draining(&self) -> bool {
        self.gate == Gate::Draining
    }

    /// Enters RTS, from RTR, SQD or SQE. The host polls next.
    ///
    /// A side in error can be enabled only after it has flushed all requests. Otherwise, `false` is
    /// returned and nothing changes; poll it first.
    #[must_use]
    pub fn enable(&mut self) -> bool {
        match self.gate {
            Gate::Closed | Gate::Open | Gate::Draining | Gate::Drained => {}
            Gate::Error if self.held == 0 => {
                // Packets sent before the error will not be acknowledged.
                self.forget();
                self.una = self.top;
                self.nxt = self.top;
            }
            Gate::Error => return false,
        }
        self.gate = Gate::Open;
        true
    }

    /// Enters SQD: starts no new requests, finishes the started ones, then reports
    /// [`QpEvent::SqDrained`]. The host polls next.
    pub fn drain(&mut self, host: &mut impl SendHost) {
        if self.gate != Gate::Open {
            return;
        }
        self.gate = Gate::Draining;
        self.request_ack_again();
        self.settle(host);
    }

    /// Enters the error state. The host polls next: each poll flushes the requests posted until
    /// then.
    pub fn set_error(&mut self) {
        self.forget();
        self.gate = Gate::Error;
    }

    /// Enters the reset state: discards everything without completions. The host empties its ring
    /// as well; the next request fetched uses slot 0.
    pub fn reset(&mut self) {
        self.forget();
        self.head = 0;
        self.held = 0;
        self.una = self.top;
        self.nxt = self.top;
        self.window = Window::new(self.attr.window);
        self.set_waits();
        self.gate = Gate::Closed;
    }

    /// Returns whether requests taken off the ring are not completely sent. A response may then
    /// make sending possible.
    pub fn has_unsent(&self) -> bool {
        self.at < self.held || self.single.is_wanted()
    }

    /// Returns whether polling would only check for posted requests.
    pub fn is_idle(&self) -> bool {
        self.gate == Gate::Open
            && !self.has_unsent()
            && !self.notices.is_due()
            && !self.oldest_is_over()
    }

    /// Returns whether it holds requests.
    pub fn is_busy(&self) -> bool {
        self.held != 0
    }

    /// Returns when [`on_timer`](Self::on_timer) is to be called.
    pub fn next_deadline(&self) -> Option<Nanos> {
        match self.wait {
            Wait::Nothing => None,
            Wait::Ready { until } => Some(until),
            Wait::Answer { deadline, probe_at } => {
                Some(probe_at.map_or(deadline, |probe| deadline.min(probe)))
            }
        }
    }

    /// Returns the current maximum number of outstanding PSNs.
    pub fn window(&self) -> u32 {
        self.window.size()
    }

    /// Handles a congestion notification: reduces the window. Anybody can send one; a forged one
    /// only reduces the speed.
    pub fn on_congestion(&mut self, now: Nanos) {
        self.window.marked(now);
    }

    /// Handles the congestion mark of a response: reduces the window and notifies the peer. The
    /// host polls next.
    pub fn on_mark(&mut self, now: Nanos, host: &mut impl SendHost) {
        host.count(Counter::Marked);
        self.on_congestion(now);
        self.notices.marked(now);
    }

    /// Handles the timer; does nothing if no deadline has passed. The host polls next.
    pub fn on_timer(&mut self, now: Nanos, host: &mut impl SendHost) {
        match self.wait {
            Wait::Nothing => {}
            Wait::Ready { until } => {
                if until <= now {
                    self.wait = Wait::Nothing;
                }
            }
            Wait::Answer { deadline, probe_at } => {
                if deadline <= now {
                    self.on_timeout(now, host);
                } else if probe_at.is_some_and(|probe| probe <= now) {
                    self.probe(now);
                }
            }
        }
    }

    /// Handles a deadline without a response.
    fn on_timeout(&mut self, now: Nanos, host: &mut impl SendHost) {
        self.wait = Wait::Nothing;
        if self.outstanding() == 0 {
            return;
        }
        if self.nxt == self.una {
            // Nothing was sent since the last retransmission started, so there can be no response.
            self.wait_from(now);
            return;
        }
        self.window.lost(now);
        self.probes = self.probes.saturating_add(1);
        self.retry(now, host);
        // A sequence NAK for the packets sent from now on is news.
        self.seq_nak = SeqNak::News;
    }

    /// Sends, completes and flushes requests, up to `budget` packets or requests.
    pub fn poll(&mut self, now: Nanos, host: &mut impl SendHost, budget: u32) -> Progress {
        let mut left = budget;
        self.sq_empty = false;
        if let Some(notice) = self.notices.take(self.attr.dest, self.attr.mtu) {
            if self.gate != Gate::Closed && host.emit(&notice).is_ok() {
                host.count(Counter::NoticeSent);
            }
        }
        loop {
            self.settle(host);
            if left == 0 {
                return Progress::More;
            }
            left = left.saturating_sub(1);
            match self.step(now, host, left) {
                Step::Again => {}
                Step::Stop(progress) => return progress,
            }
        }
    }

    /// Completes finished requests from the oldest on, and detects the end of a drain.
    #[inline]
    fn settle(&mut self, host: &mut impl SendHost) {
        // Usually there are none, and a poll checks for each packet.
        if self.gate != Gate::Open || self.oldest_is_over() {
            self.settle_oldest(host);
        }
    }

    /// Returns whether the oldest request is done or failed.
    #[inline]
    fn oldest_is_over(&self) -> bool {
        self.held != 0
            && match self.oldest() {
                Some(slot) => match slot.state {
                    SlotState::Done | SlotState::Failed(_) => true,
                    SlotState::Waiting | SlotState::Started(_) => false,
                },
                None => false,
            }
    }

    /// Slow path of [`Self::settle`].
    #[inline(never)]
    fn settle_oldest(&mut self, host: &mut impl SendHost) {
        while self.held != 0 && self.gate != Gate::Error {
            let (wqe, failed) = match self.oldest() {
                Some(Slot {
                    wqe,
                    state: SlotState::Done,
                }) => (*wqe, None),
                Some(Slot {
                    wqe,
                    state: SlotState::Failed(status),
                }) => (*wqe, Some(*status)),
                // The common case; nothing is copied.
                Some(Slot {
                    wqe: _,
                    state: SlotState::Waiting | SlotState::Started(_),
                })
                | None => break,
            };
            self.release(host);
            match failed {
                None => {
                    if matches!(wqe.op, SendOp::Send { .. } | SendOp::SendInv { .. }) {
                        host.count(Counter::Send);
                    }
                    if wqe.flags.signaled {
                        host.complete(&completion(&wqe, WcStatus::Success));
                    }
                }
                Some(status) => {
                    host.complete(&completion(&wqe, status));
                    self.set_error();
                    host.event(QpEvent::SendFailed);
                }
            }
        }
        if self.gate == Gate::Draining && self.oldest_started().is_none() {
            self.gate = Gate::Drained;
            host.event(QpEvent::SqDrained);
        }
    }

    /// Flushes one request.
    fn flush_one(&mut self, host: &mut impl SendHost) -> Step {
        if self.held == 0 && self.room != 0 {
            // Requests still on the ring are flushed through one slot, one at a time.
            let wr_id = match host.fetch(self.head) {
                SendFetch::Empty => return Step::Stop(Progress::Idle),
                SendFetch::Wqe(wqe) => wqe.wr_id,
                SendFetch::Bad { wr_id, status: _ } => wr_id,
            };
            self.held = 1;
            let mut slot = Slot::EMPTY;
            slot.wqe.wr_id = wr_id;
            self.fill(0, slot);
        }
        if let Some(&Slot { wqe, state: _ }) = self.oldest() {
            self.release(host);
            host.complete(&completion(&wqe, WcStatus::WrFlush));
            return Step::Again;
        }
        Step::Stop(Progress::Idle)
    }

    /// Releases the oldest request.
    fn release(&mut self, host: &mut impl SendHost) {
        let index = self.head;
        self.head = self.index(1);
        self.held = self.held.saturating_sub(1);
        self.at = self.at.saturating_sub(1);
        host.retire(index);
    }

    /// Retransmits from the oldest unacknowledged PSN, or gives up.
    fn retry(&mut self, now: Nanos, host: &mut impl SendHost) {
        match self.retries_left.spend() {
            Some(left) => {
                self.retries_left = left;
                host.count(Counter::Retry);
                self.resend_one_or_all();
                self.seq_nak = SeqNak::Stale;
                self.wait_from(now);
            }
            None => {
                host.count(Counter::RetryExceeded);
                self.fail_oldest(host, WcStatus::RetryExc);
            }
        }
    }

    /// Restarts sending at the oldest unacknowledged packet.
    fn go_back(&mut self) {
        self.nxt = self.una;
        self.at = 0;
        self.since_ack_req = 0;
        self.timed = None;
        self.rtt_probe = None;
        self.single.stop();
    }

    /// Retransmits packets without an acknowledgment request that relied on a later packet which
    /// will not be sent. This is rare, and duplicates are harmless.
    fn request_ack_again(&mut self) {
        if self.since_ack_req != 0 && self.outstanding() != 0 {
            self.go_back();
        }
    }

    /// Fails the oldest request.
    fn fail_oldest(&mut self, host: &mut impl SendHost, status: WcStatus) {
        if self.oldest_started().is_some() {
            self.set_oldest(SlotState::Failed(status));
            self.settle(host);
        }
    }

    /// Discards the state of outstanding packets; the slots are not changed.
    fn forget(&mut self) {
        self.at = 0;
        self.responses = 0;
        self.since_ack_req = 0;
        self.wait = Wait::Nothing;
        self.probes = 0;
        self.rtt_probe = None;
        self.timed = None;
        self.single = SingleRetransmit::NEW;
        self.reordering = ReorderThreshold::NEW;
        self.seq_nak = SeqNak::News;
        self.retries_left = self.attr.retry;
        self.rnr_retries_left = self.attr.rnr_retry;
    }

    /// Returns the number of PSNs sent but not acknowledged.
    fn outstanding(&self) -> u32 {
        ahead(self.una, self.top)
    }

    /// Returns the oldest request, if it is started and the side is not in error.
    fn oldest_started(&self) -> Option<(SendWqe, Run)> {
        if self.held == 0 || self.gate == Gate::Error {
            return None;
        }
        match *self.oldest()? {
            Slot {
                wqe,
                state: SlotState::Started(run),
            } => Some((wqe, run)),
            Slot {
                wqe: _,
                state: SlotState::Waiting | SlotState::Done | SlotState::Failed(_),
            } => None,
        }
    }

    /// Returns the slot number of the request `k` places after the oldest; `k` is at most the room.
    #[inline]
    fn index(&self, k: u32) -> u32 {
        // OVERFLOW: neither exceeds 2^24.
        let index = self.head.wrapping_add(k);
        index.checked_sub(self.room).unwrap_or(index)
    }

    /// Returns the slot of the oldest request, if one is held.
    #[inline]
    fn oldest(&self) -> Option<&Slot> {
        self.slots.get(usize::try_from(self.head).ok()?)
    }

    fn slot(&self, k: u32) -> Option<&Slot> {
        self.slots.get(usize::try_from(self.index(k)).ok()?)
    }

    fn slot_mut(&mut self, k: u32) -> Option<&mut Slot> {
        let index = usize::try_from(self.index(k)).ok()?;
        self.slots.get_mut(index)
    }

    /// Writes a request into the slot `k` places after the oldest.
    fn fill(&mut self, k: u32, slot: Slot) {
        let index = self.index(k);
        self.slots.put(index, slot);
    }

    /// Sets the state of the oldest request; only settling releases it.
    #[inline]
    fn set_oldest(&mut self, state: SlotState) {
        if let Ok(index) = usize::try_from(self.head) {
            if let Some(slot) = self.slots.get_mut(index) {
                slot.state = state;
            }
        }
    }

    fn set_state(&mut self, k: u32, state: SlotState) {
        if let Some(slot) = self.slot_mut(k) {
            slot.state = state;
        }
    }
}

fn completion(wqe: &SendWqe, status: WcStatus) -> SendCompletion {
    SendCompletion {
        wr_id: wqe.wr_id,
        status,
        opcode: wqe.op.wc_opcode(),
        byte_len: wqe.length,
        with_imm: wqe.op.has_imm(),
    }
}
