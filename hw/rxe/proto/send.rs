// SPDX-License-Identifier: GPL-2.0

//! The send side of one queue pair: requester and completer.
//!
//! # Model
//!
//! Requests wait in a circle of slots. From the oldest on, each slot has been
//! *done*, *started* (it owns a run of PSNs, all or some of them sent) or is
//! *waiting*; a cursor `at` names the slot to send from next.
//!
//! ```text
//!   slots   head ............ at ........... held
//!           started  started  started  waiting  waiting
//!   PSNs    una ............. nxt ... top
//!           oldest unanswered | next   | first never sent
//! ```
//!
//! Normally `nxt == top`. To send all again (go-back-N) is to set `nxt = una` and `at`
//! to the oldest slot; offsets follow from the PSNs, so no slot has to be undone.
//! The oldest slot is completed as soon as it is done, in order, and freed.
//!
//! # What is lost
//!
//! Acknowledgements are cumulative, so nobody tells us what arrived behind a gap. But a peer
//! may have kept it (ours does, the C driver does not). So `una` alone is sent again at
//! first ([`SingleRetransmit`]), and asks for an answer. If that covers more, the peer keeps what is
//! early. If it covers just this packet, it does not, or all was lost: then we go back. A peer
//! that was seen twice to keep nothing is not asked that way again for some time.
//!
//! Silence is broken the same way, long before the timeout of the queue pair, once the
//! round trips are known; only the timeout counts against `retry_cnt`.
//!
//! A request that fails on its own (bad buffers, bad opcode) keeps its place: the
//! ones before it complete first, then it does, with its error, and the rest is
//! flushed.
//!
//! All methods may run in any context; nothing sleeps. IBTA 9.7.3 to 9.7.8, 9.9.2.

mod ack;
mod request;
mod retransmit;
mod slots;
mod transmit;
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

/// The window that a queue pair starts with, in PSNs.
pub const DEFAULT_WINDOW: u32 = window::START;
/// The largest window, in PSNs.
pub const MAX_WINDOW: u32 = window::MOST;

/// What modify_qp sets for sending. Change it by [`SendSide::set_attr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendAttr {
    /// The transport service.
    pub kind: QpType,
    /// This queue pair's own number; datagrams carry it.
    pub qpn: Qpn,
    /// The peer's queue pair, unless this is a datagram one.
    pub dest: Qpn,
    /// Payload bytes per packet: the path MTU, on datagram queue pairs the port's.
    pub mtu: u32,
    /// How long to wait for an answer (RC); `None` is for ever.
    pub timeout: Option<Nanos>,
    /// How often to send again without progress, after silence or a sequence NAK.
    pub retry: RetryLimit,
    /// How often to send again after "receiver not ready", without progress.
    pub rnr_retry: RetryLimit,
    /// How many reads, atomics and flushes may be outstanding.
    pub max_rd_atomic: u32,
    /// How many PSNs may be outstanding at first; a read may exceed it. It goes up and down
    /// with what the path bears.
    pub window: u32,
}

impl SendAttr {
    /// Attributes of a fresh queue pair.
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

/// Private storage for one posted request. As many as the send queue has entries.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    wqe: SendWqe,
    state: SlotState,
}

impl Slot {
    /// Storage that holds nothing yet.
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
    /// Nothing of it was sent.
    Waiting,
    /// It owns these PSNs; some or all were sent.
    Started(Run),
    /// Nothing more has to happen to it.
    Done,
    /// It failed, and tells when it is the oldest.
    Failed(WcStatus),
}

/// The PSNs of a started request.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Psn,
    count: u32,
    /// Bytes of the message that each but the last stands for.
    mtu: u32,
}

/// Whether requests may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Reset, Init, RTR: requests may be posted, but wait.
    Closed,
    /// RTS.
    Open,
    /// SQD: started requests go on, no other is begun.
    Draining,
    /// SQD, and all started requests are complete.
    Drained,
    /// Err or SQE: all requests are flushed.
    Error,
}

/// What the send side waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Nothing.
    Nothing,
    /// The peer was not ready: nothing is sent before `until`.
    Ready { until: Nanos },
    /// An answer.
    Answer {
        /// Send again unless something is heard before then.
        deadline: Nanos,
        /// When to send a probe, before the deadline.
        probe_at: Option<Nanos>,
    },
}

/// What a negative acknowledgement of the sequence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeqNak {
    /// A packet was lost.
    News,
    /// Nothing: `una` was sent again because of an earlier one, and this speaks of packets
    /// from before that.
    Stale,
}

/// How one step of sending went.
enum Step {
    Again,
    Stop(Progress),
}

/// The send side of one queue pair. `S` is the storage for posted requests.
#[derive(Debug)]
pub struct SendSide<S> {
    attr: SendAttr,
    slots: S,
    /// How many requests there is room for: 2^24 at most.
    room: u32,
    /// The oldest request's slot, below `room`.
    head: u32,
    /// How many requests are held, from `head` on.
    held: u32,
    /// The request to send from next, counted from `head`.
    at: u32,
    /// The oldest PSN that is not answered.
    una: Psn,
    /// The PSN to send next.
    nxt: Psn,
    /// The first PSN that was never sent.
    top: Psn,
    /// How many requests that want a response are started and not done.
    responses: u32,
    /// How many packets were sent since one asked for an acknowledgement.
    since_ack_req: u32,
    gate: Gate,
    wait: Wait,
    retries_left: RetryLimit,
    rnr_retries_left: RetryLimit,
    seq_nak: SeqNak,
    /// `una` sent again by itself.
    single: SingleRetransmit,
    /// Unanswered probes so far.
    probes: u32,
    /// How long to wait for answers; `None` is for ever.
    waits: Option<Waits>,
    /// A probe whose answer may still come; it gives a round trip time.
    rtt_probe: Option<RttProbe>,
    /// Whether responses that come early mean that one is lost.
    reordering: ReorderThreshold,
    window: Window,
    notices: Notices,
    /// A packet whose answer is timed, and when it was sent.
    timed: Option<(Psn, Nanos)>,
    /// Nothing more was posted when this poll last looked: whoever posts polls again.
    sq_empty: bool,
}

impl<S: Slots> SendSide<S> {
    /// A send side in the reset state.
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

    /// What modify_qp has set.
    pub fn attr(&self) -> &SendAttr {
        &self.attr
    }

    /// Sets what modify_qp may set. Retry limits count afresh. Started requests keep
    /// the path MTU that they have.
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

    /// The PSN that the next new packet will have (`sq_psn` of query_qp).
    pub fn psn(&self) -> Psn {
        self.top
    }

    /// Sets the PSN of the next packet (`sq_psn` of modify_qp). Refused, by `false`,
    /// while anything is outstanding, or a request is half sent (of UC, nothing is ever
    /// outstanding).
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

    /// Whether a drain was asked for and is not complete (`sq_draining` of query_qp).
    pub fn is_draining(&self) -> bool {
        self.gate == Gate::Draining
    }

    /// Enters RTS, from RTR, SQD or SQE. The host polls next.
    ///
    /// A side in error can only be enabled when it has flushed all it held: else
    /// `false`, and nothing changes. Poll it first.
    #[must_use]
    pub fn enable(&mut self) -> bool {
        match self.gate {
            Gate::Closed | Gate::Open | Gate::Draining | Gate::Drained => {}
            Gate::Error if self.held == 0 => {
                // What was sent and not answered will never be.
                self.forget();
                self.una = self.top;
                self.nxt = self.top;
            }
            Gate::Error => return false,
        }
        self.gate = Gate::Open;
        true
    }

    /// Enters SQD: starts no new request, finishes the started ones, then reports
    /// [`QpEvent::SqDrained`]. The host polls next.
    pub fn drain(&mut self, host: &mut impl SendHost) {
        if self.gate != Gate::Open {
            return;
        }
        self.gate = Gate::Draining;
        self.request_ack_again();
        self.settle(host);
    }

    /// Enters the error state. The host polls next: polling flushes every request
    /// posted until then, and later ones whenever it is called again.
    pub fn set_error(&mut self) {
        self.forget();
        self.gate = Gate::Error;
    }

    /// Enters the reset state: forgets everything without a completion. The host
    /// empties its ring as well; the next request fetched goes to slot 0.
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

    /// Whether requests that were taken off the ring wait to be sent, all or a part, so
    /// that an answer may have made it their turn.
    pub fn has_unsent(&self) -> bool {
        self.at < self.held || self.single.is_wanted()
    }

    /// Whether polling would do nothing but look for what was posted.
    pub fn is_idle(&self) -> bool {
        self.gate == Gate::Open
            && !self.has_unsent()
            && !self.notices.is_due()
            && !self.oldest_is_over()
    }

    /// Whether it holds requests.
    pub fn is_busy(&self) -> bool {
        self.held != 0
    }

    /// When [`on_timer`](Self::on_timer) has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        match self.wait {
            Wait::Nothing => None,
            Wait::Ready { until } => Some(until),
            Wait::Answer { deadline, probe_at } => {
                Some(probe_at.map_or(deadline, |probe| deadline.min(probe)))
            }
        }
    }

    /// How many PSNs may be outstanding, as of now.
    pub fn window(&self) -> u32 {
        self.window.size()
    }

    /// The network says that packets of this queue pair met congestion: there are to be
    /// fewer. Anybody may say so; a forged one makes things slower, and nothing else.
    pub fn on_congestion(&mut self, now: Nanos) {
        self.window.marked(now);
    }

    /// A response met congestion. Fewer are to be asked for, and the peer is told. The host
    /// polls next.
    pub fn on_mark(&mut self, now: Nanos, host: &mut impl SendHost) {
        host.count(Counter::Marked);
        self.on_congestion(now);
        self.notices.marked(now);
    }

    /// The time has come, or not: then this does nothing. The host polls next.
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

    /// Nothing was answered before the deadline.
    fn on_timeout(&mut self, now: Nanos, host: &mut impl SendHost) {
        self.wait = Wait::Nothing;
        if self.outstanding() == 0 {
            return;
        }
        if self.nxt == self.una {
            // Nothing left since we last retransmitted, so nobody can have answered.
            self.wait_from(now);
            return;
        }
        self.window.lost(now);
        self.probes = self.probes.saturating_add(1);
        self.retry(now, host);
        // A sequence NAK for what is sent now is news.
        self.seq_nak = SeqNak::News;
    }

    /// Sends, completes and flushes what can be, up to `budget` packets or requests.
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

    /// Completes what is finished, from the oldest on, and notices the end of a drain.
    #[inline]
    fn settle(&mut self, host: &mut impl SendHost) {
        // Mostly nothing is, and a poll asks for each packet.
        if self.gate != Gate::Open || self.oldest_is_over() {
            self.settle_oldest(host);
        }
    }

    /// Whether the oldest request is done, or failed.
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

    /// [`Self::settle`] itself.
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
                // Mostly so; and then nothing is copied.
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
            // What is still on the ring passes through one slot, one at a time.
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

    /// Lets go of the oldest request.
    fn release(&mut self, host: &mut impl SendHost) {
        let index = self.head;
        self.head = self.index(1);
        self.held = self.held.saturating_sub(1);
        self.at = self.at.saturating_sub(1);
        host.retire(index);
    }

    /// Sends again from the oldest unanswered PSN, or gives up.
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

    /// The next packet sent will be the oldest unanswered one.
    fn go_back(&mut self) {
        self.nxt = self.una;
        self.at = 0;
        self.since_ack_req = 0;
        self.timed = None;
        self.rtt_probe = None;
        self.single.stop();
    }

    /// Packets that nobody asked the peer to acknowledge, because a later one was to
    /// do so, are sent again since that one will not come. This is rare, and a
    /// duplicate does no harm.
    fn request_ack_again(&mut self) {
        if self.since_ack_req != 0 && self.outstanding() != 0 {
            self.go_back();
        }
    }

    /// The oldest request fails.
    fn fail_oldest(&mut self, host: &mut impl SendHost, status: WcStatus) {
        if self.oldest_started().is_some() {
            self.set_oldest(SlotState::Failed(status));
            self.settle(host);
        }
    }

    /// Nothing is outstanding any more, whatever becomes of the slots.
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

    /// How many PSNs were sent and are not answered.
    fn outstanding(&self) -> u32 {
        ahead(self.una, self.top)
    }

    /// The oldest request, if it is started and the conversation goes on.
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

    /// The slot number of the request `k` places after the oldest; `k` is at most the
    /// room.
    #[inline]
    fn index(&self, k: u32) -> u32 {
        // OVERFLOW: neither is more than 2^24.
        let index = self.head.wrapping_add(k);
        index.checked_sub(self.room).unwrap_or(index)
    }

    /// The slot of the oldest request, if one is held.
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

    /// Puts a request into the slot `k` places after the oldest.
    fn fill(&mut self, k: u32, slot: Slot) {
        let index = self.index(k);
        self.slots.put(index, slot);
    }

    /// What becomes of the oldest request; only settling lets go of it.
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
