// SPDX-License-Identifier: GPL-2.0

//! State machine of a send.
//!
//! ```text
//!            post                       completed, a response is due
//!   Idle ------------> Sent ---------------------------> Waiting --+
//!    ^ \                | ^                               |  |     | response: Over
//!    |  \ post, too     | | room, or                      |  |     | cancel: Cancelled
//!    |   \ many are out | | expired, again                |  |
//!    |    +--> Queued <-----------------------------------+  |
//!    |          (also: expired, others are queued)           |
//!    |                  |
//!    |                  +-- response came first ----> Answered -- completed: Idle
//!    |                  +-- cancel -----------------> Revoked --- completed: Idle
//!    +-- Cancelled (at once, by the worker), expired for the last time,
//!        Over (once the response was delivered)
//! ```
//!
//! An agent that waits for too many responses at a time would lose some of them, for lack of posted
//! receives. So [`Flow`] limits the number of outstanding sends of a few classes; further ones are
//! queued.
//!
//! Times are in ticks of the caller's clock, which may wrap.

use super::rmpp::Acked;
use super::rmpp::Segment;
use super::rmpp::Sender;

/// A point in time, or a duration, in ticks.
pub type Ticks = u64;

/// Returns whether `a` is later than `b`.
pub const fn is_after(a: Ticks, b: Ticks) -> bool {
    // The sign of the difference tells, also when the clock wraps.
    (b.wrapping_sub(a) as i64) < 0
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Owned by its creator.
    Idle,
    /// In the backlog.
    Queued,
    /// Posted to the queue pair.
    Sent,
    /// Posted, and its result is known: it ends with that result on its completion.
    Answered(End),
    /// Posted, and cancelled.
    Revoked,
    /// Completed, and its result is known: it ends with that result once its response is delivered.
    Over(End),
    /// Waiting for a response or an acknowledgement.
    Waiting,
    /// Cancelled: the worker finishes it.
    Cancelled,
}

/// The list of the agent that a send is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// No list.
    None,
    /// Sends that wait for flow control.
    Backlog,
    /// Posted sends, and those whose response is being delivered.
    Sent,
    /// Sends that wait for a response, by deadline.
    Waiting,
}

/// Result of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As the queue pair reported in the completion.
    AsCompleted,
    /// Success: the response or acknowledgement has arrived.
    Success,
    /// It was cancelled.
    Flushed,
    /// No response arrived in time.
    TimedOut,
    /// The other end aborted the transfer, with this status.
    Aborted(u8),
    /// It could not be posted.
    Failed,
}

/// Flow control: number of outstanding sends of an agent, and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Maximum number; 0 for no limit.
    limit: u32,
    out: u32,
    /// The agent is being unregistered: nothing is posted or waits any more.
    closed: bool,
}

impl Flow {
    /// Creates flow control with a limit; 0 for none.
    pub const fn with_limit(limit: u32) -> Self {
        Self {
            limit,
            out: 0,
            closed: false,
        }
    }

    /// Records that the agent is being unregistered.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Returns whether the agent is being unregistered.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether one more send may be posted.
    pub const fn has_room(&self) -> bool {
        !self.closed && (self.limit == 0 || self.out < self.limit)
    }

    /// Number of outstanding sends.
    pub const fn out(&self) -> u32 {
        self.out
    }
}

/// Parameters of a posted send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Response timeout; 0 if no response is expected.
    pub timeout: Ticks,
    /// Maximum number of retries.
    pub retries: u32,
    /// Whether [`Flow`] counts the send.
    pub counted: bool,
}

/// Action for a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is not done is lost"]
pub enum Do {
    /// Nothing.
    Nothing,
    /// Post it unchanged.
    Post,
    /// Post this segment of it.
    PostSegment(Segment),
    /// Finish it with this result.
    Finish(End),
}

/// The send is not idle, or its agent is being unregistered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// Maximum time that a segment waits for an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckTimeout(pub Ticks);

/// One send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendState {
    state: State,
    order: Order,
    /// Response or acknowledgement timeout after it is sent.
    patience: Ticks,
    /// Time of expiry, while it waits.
    deadline: Ticks,
    retries_left: u32,
    retries_made: u32,
    /// Whether its response is being delivered.
    handing: bool,
    /// State of the transfer, if it has segments.
    rmpp: Option<Sender>,
}

impl SendState {
    /// An idle send.
    pub const fn new(rmpp: Option<Sender>) -> Self {
        Self {
            state: State::Idle,
            order: Order {
                timeout: 0,
                retries: 0,
                counted: false,
            },
            patience: 0,
            deadline: 0,
            retries_left: 0,
            retries_made: 0,
            handing: false,
            rmpp,
        }
    }

    /// State of the send.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The list that the send is in.
    pub const fn home(&self) -> Home {
        match self.state {
            State::Idle => Home::None,
            State::Queued => Home::Backlog,
            State::Sent | State::Answered(_) | State::Revoked | State::Over(_) => Home::Sent,
            State::Waiting | State::Cancelled => Home::Waiting,
        }
    }

    /// Time of expiry, while it waits.
    pub const fn deadline(&self) -> Ticks {
        self.deadline
    }

    /// Timeout for a response; 0 if none is expected any more.
    pub const fn patience(&self) -> Ticks {
        self.patience
    }

    /// Number of retries left, and maximum number of retries.
    pub const fn retries(&self) -> (u32, u32) {
        (self.retries_left, self.order.retries)
    }

    /// Number of retries made.
    pub const fn retries_made(&self) -> u32 {
        self.retries_made
    }

    /// Returns whether [`Flow`] counts the send.
    pub const fn is_counted(&self) -> bool {
        self.order.counted
    }

    /// State of its transfer, if it is one.
    pub const fn rmpp(&self) -> Option<&Sender> {
        self.rmpp.as_ref()
    }

    /// Returns whether it awaits a response, or packets of its transfer.
    pub const fn awaits(&self) -> bool {
        match self.state {
            State::Waiting => true,
            // A send that was never posted has no response.
            State::Queued => self.retries_made > 0,
            State::Sent => self.patience != 0,
            State::Idle
            | State::Answered(_)
            | State::Revoked
            | State::Over(_)
            | State::Cancelled => false,
        }
    }

    fn go(&mut self, to: State, flow: &mut Flow) {
        let is_out = |state| matches!(state, State::Sent | State::Waiting);
        if self.order.counted {
            match (is_out(self.state), is_out(to)) {
                (false, true) => flow.out = flow.out.saturating_add(1),
                (true, false) => flow.out = flow.out.saturating_sub(1),
                (true, true) | (false, false) => {}
            }
        }
        self.state = to;
    }

    /// Posts the next segment to the queue pair.
    fn segment(&mut self, most: AckTimeout, flow: &mut Flow) -> Option<Do> {
        let segment = self.rmpp.as_mut()?.next_segment()?;
        let timeout = self.order.timeout;
        self.patience = if timeout == 0 {
            most.0
        } else {
            timeout.min(most.0)
        };
        self.go(State::Sent, flow);
        Some(Do::PostSegment(segment))
    }

    fn submit(&mut self, most: AckTimeout, flow: &mut Flow) -> Do {
        if let Some(todo) = self.segment(most, flow) {
            return todo;
        }
        self.go(State::Sent, flow);
        Do::Post
    }

    /// Posts the send. `queued`: whether there is a backlog. `window_end`: initial window of a
    /// transfer.
    ///
    /// # Errors
    ///
    /// [`Busy`] if it is not idle, or the agent is being unregistered.
    pub fn post(
        &mut self,
        order: Order,
        queued: bool,
        window_end: u32,
        most: AckTimeout,
        flow: &mut Flow,
    ) -> Result<Do, Busy> {
        if self.state != State::Idle || flow.closed {
            return Err(Busy);
        }
        self.order = order;
        self.patience = order.timeout;
        self.retries_left = order.retries;
        self.retries_made = 0;
        self.handing = false;
        if let Some(rmpp) = &mut self.rmpp {
            rmpp.start(window_end);
        }
        if order.counted && flow.limit != 0 && (queued || !flow.has_room()) {
            self.go(State::Queued, flow);
            return Ok(Do::Nothing);
        }
        Ok(self.submit(most, flow))
    }

    /// Posts the first send of the backlog, if there is room.
    pub fn dequeue(&mut self, flow: &mut Flow) -> Do {
        if self.state != State::Queued || !flow.has_room() {
            return Do::Nothing;
        }
        self.go(State::Sent, flow);
        Do::Post
    }

    /// Records that the send could not be posted.
    pub fn not_posted(&mut self, flow: &mut Flow) {
        self.go(State::Idle, flow);
    }

    /// Records the completion of the send.
    pub fn completed(&mut self, ok: bool, now: Ticks, most: AckTimeout, flow: &mut Flow) -> Do {
        let over = match self.state {
            State::Revoked => Some(End::Flushed),
            State::Answered(end) => Some(end),
            State::Sent if flow.closed => Some(End::Flushed),
            State::Sent => None,
            // It is not posted.
            State::Idle | State::Queued | State::Waiting | State::Cancelled | State::Over(_) => {
                return Do::Nothing;
            }
        };
        match over {
            Some(end) if self.handing => {
                self.go(State::Over(end), flow);
                return Do::Nothing;
            }
            Some(end) => {
                self.go(State::Idle, flow);
                return Do::Finish(end);
            }
            None => {}
        }
        if let (Some(rmpp), true) = (&self.rmpp, ok) {
            if rmpp.is_done() {
                self.patience = self.order.timeout;
            } else if rmpp.may_send() {
                if let Some(todo) = self.segment(most, flow) {
                    return todo;
                }
            }
        }
        if self.patience == 0 {
            self.go(State::Idle, flow);
            return Do::Finish(End::AsCompleted);
        }
        // A failed send waits as well: it may be retransmitted.
        self.wait(now, self.patience, flow);
        Do::Nothing
    }

    fn wait(&mut self, now: Ticks, time: Ticks, flow: &mut Flow) {
        self.deadline = now.wrapping_add(time);
        self.go(State::Waiting, flow);
    }

    /// Ends a send that [`awaits`](Self::awaits) a response: it has arrived, or will not arrive any
    /// more.
    pub fn end(&mut self, end: End, flow: &mut Flow) -> Do {
        self.patience = 0;
        match self.state {
            State::Waiting | State::Queued => {
                self.go(State::Idle, flow);
                Do::Finish(end)
            }
            State::Sent => {
                let end = match end {
                    End::Success | End::AsCompleted => End::AsCompleted,
                    End::Flushed | End::TimedOut | End::Aborted(_) | End::Failed => end,
                };
                self.go(State::Answered(end), flow);
                Do::Nothing
            }
            State::Idle
            | State::Answered(_)
            | State::Revoked
            | State::Over(_)
            | State::Cancelled => Do::Nothing,
        }
    }

    /// Records that a response, which it [`awaits`](Self::awaits), has arrived and is being
    /// delivered. The send does not end before [`handed`](Self::handed), which returns the next
    /// action.
    pub fn answered(&mut self, flow: &mut Flow) {
        self.handing = true;
        if self.end(End::Success, flow) == Do::Finish(End::Success) {
            self.go(State::Over(End::Success), flow);
        }
    }

    /// Records that the response was delivered.
    pub fn handed(&mut self, flow: &mut Flow) -> Do {
        self.handing = false;
        match self.state {
            State::Over(end) => {
                self.go(State::Idle, flow);
                Do::Finish(end)
            }
            State::Idle
            | State::Queued
            | State::Sent
            | State::Answered(_)
            | State::Revoked
            | State::Waiting
            | State::Cancelled => Do::Nothing,
        }
    }

    /// Changes the timeout; 0 cancels the send. Returns false if it is too late.
    pub fn modify(&mut self, timeout: Ticks, now: Ticks, flow: &mut Flow) -> bool {
        let cancel = timeout == 0;
        match self.state {
            State::Idle | State::Revoked | State::Over(_) | State::Cancelled => return false,
            State::Sent | State::Answered(_) if cancel => self.go(State::Revoked, flow),
            State::Waiting | State::Queued if cancel => {
                self.deadline = now;
                self.go(State::Cancelled, flow);
            }
            State::Waiting => self.wait(now, timeout, flow),
            State::Sent | State::Queued => self.patience = timeout,
            State::Answered(_) => {}
        }
        self.order.timeout = timeout;
        true
    }

    /// Cancels the send because its agent is being unregistered. Ends at once unless it is posted.
    pub fn abandon(&mut self, flow: &mut Flow) -> Do {
        match self.state {
            State::Sent | State::Answered(_) => {
                self.go(State::Revoked, flow);
                Do::Nothing
            }
            State::Waiting | State::Cancelled | State::Queued => {
                self.go(State::Idle, flow);
                Do::Finish(End::Flushed)
            }
            // A send whose response is being delivered ends after that.
            State::Idle | State::Revoked | State::Over(_) => Do::Nothing,
        }
    }

    /// Handles the expiry of the send. `queued`: whether there is a backlog.
    pub fn expired(&mut self, queued: bool, most: AckTimeout, flow: &mut Flow) -> Do {
        match self.state {
            State::Cancelled => {
                self.go(State::Idle, flow);
                return Do::Finish(End::Flushed);
            }
            State::Waiting if flow.closed => {
                self.go(State::Idle, flow);
                return Do::Finish(End::Flushed);
            }
            State::Waiting => {}
            State::Idle
            | State::Queued
            | State::Sent
            | State::Answered(_)
            | State::Revoked
            | State::Over(_) => return Do::Nothing,
        }
        // A transfer that was received completely is not retransmitted: only its response is
        // missing.
        let received = self.rmpp.as_ref().is_some_and(Sender::is_done);
        let Some(left) = self.retries_left.checked_sub(1).filter(|_| !received) else {
            self.go(State::Idle, flow);
            return Do::Finish(End::TimedOut);
        };
        self.retries_left = left;
        self.retries_made = self.retries_made.saturating_add(1);
        self.patience = self.order.timeout;
        if self.order.counted && queued {
            self.go(State::Queued, flow);
            return Do::Nothing;
        }
        if let Some(rmpp) = &mut self.rmpp {
            rmpp.rewind();
        }
        self.submit(most, flow)
    }

    /// Records an acknowledgement of segments of its transfer. [`AckResult::Nothing`] if it is not
    /// a transfer in progress.
    pub fn acked(
        &mut self,
        segment: u32,
        window_end: u32,
        now: Ticks,
        most: AckTimeout,
        flow: &mut Flow,
    ) -> AckResult {
        let Some(rmpp) = self.rmpp.as_mut().filter(|_| !flow.closed) else {
            return AckResult::Nothing;
        };
        if rmpp.is_done() {
            return AckResult::Again;
        }
        match rmpp.ack(segment, window_end) {
            Acked::TooMuch => return AckResult::Wrong,
            Acked::Old => return AckResult::Nothing,
            Acked::All => {
                self.retries_left = self.order.retries;
                if self.order.timeout == 0 {
                    return AckResult::Do(self.end(End::Success, flow));
                }
                if self.state == State::Waiting {
                    self.wait(now, self.order.timeout, flow);
                }
                return AckResult::Again;
            }
            Acked::Some { new: true } => self.retries_left = self.order.retries,
            Acked::Some { new: false } => {}
        }
        if self.state == State::Waiting && self.rmpp.as_ref().is_some_and(Sender::may_send) {
            if let Some(todo) = self.segment(most, flow) {
                return AckResult::Do(todo);
            }
        }
        AckResult::Nothing
    }
}

/// Effect of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what is not done is lost"]
pub enum AckResult {
    /// No action.
    Nothing,
    /// It acknowledges segments that were not sent: abort the transfer.
    Wrong,
    /// All segments are acknowledged, now or before: tell the other end that it may respond.
    Again,
    /// Carry out this action.
    Do(Do),
}
